//! Files: directories read as a stream or as a table, and written by a streaming query. One provider per file format.

mod backlog;
mod clean;
mod glob;
mod listing;
mod local_file;
mod local_listing;
mod log;
mod manifest;
mod metadata;
mod options;
mod partition;
mod scan;
pub mod sink;
mod source;
mod split;
mod table;
mod uri;
mod watch;

#[cfg(test)]
mod tests;

pub use metadata::{HIDDEN_COLUMN_KEY, METADATA_COLUMN, is_hidden};
pub use source::FileSource;
pub use table::FileTable;
pub(crate) use uri::shown_path;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Error, OptionSpec, Result, variant};

use crate::formats::{self, FileFormat};
use crate::storage::Storage;
use clean::Cleaner;
use listing::{Lister, Listing};
use options::{SPECS, Selection, StreamOptions};
use scan::Scan;

/// Makes file sources and file tables of one format.
#[derive(Debug)]
pub struct FilesProvider {
    storage: Storage,
    format: Arc<dyn FileFormat>,
    parallelism: usize,
}

impl FilesProvider {
    /// A provider of one format. `storage` opens the paths that users name.
    pub fn new(storage: Storage, format: Arc<dyn FileFormat>) -> Self {
        let parallelism = std::thread::available_parallelism().map_or(1, usize::from);
        FilesProvider { storage, format, parallelism }
    }

    /// One provider for each file format.
    pub fn all(storage: &Storage) -> Vec<Arc<dyn SourceProvider>> {
        let provider = |format| Arc::new(FilesProvider::new(storage.clone(), format)) as Arc<dyn SourceProvider>;
        formats::all().into_iter().map(provider).collect()
    }

    /// The same provider, making enough splits for so many tasks.
    pub fn with_parallelism(self, parallelism: usize) -> Self {
        FilesProvider { parallelism, ..self }
    }

    async fn lister(&self, request: &ReadRequest, streaming: bool) -> Result<Lister> {
        let selection = Selection::parse(&request.options, streaming)?;
        Lister::open(&self.storage, &paths(request, streaming)?, selection).await
    }

    /// The schema of the data inside the files: given, fixed by the format, or inferred from `listing`.
    async fn data_schema(&self, request: &ReadRequest, lister: &Lister, listing: &Listing) -> Result<SchemaRef> {
        if let Some(schema) = request.schema.clone().or_else(|| self.format.fixed_schema()) {
            return Ok(schema);
        }
        // Without files only the format's single variant column is known.
        if listing.files.is_empty() && request.options.get("singleVariantColumn").is_none() {
            let name = self.format.names().first().copied().unwrap_or_default();
            return Err(Error::invalid(
                "UNABLE_TO_INFER_SCHEMA",
                format!("unable to infer schema for {name}: there are no files, so it must be specified"),
            )
            .with_sqlstate("42KD9"));
        }
        let mut files = Vec::with_capacity(listing.files.len());
        for file in &listing.files {
            files.push(lister.root_of(&file.url)?.file_ref(&file.url, file.size)?);
        }
        self.format.infer(&files, &request.options).await
    }

    /// A scan for rows of the request's schema; gives the files that are there, too, if they are asked for.
    async fn open(&self, request: &ReadRequest, streaming: bool) -> Result<(Arc<Lister>, Arc<Scan>, Listing)> {
        let lister = Arc::new(self.lister(request, streaming).await?);
        let schema = match &request.schema {
            Some(schema) => self.complete(schema, &[]),
            None => SourceProvider::schema(self, request, streaming).await?,
        };
        let names_only: Option<listing::Skip> = if streaming { Some(Arc::new(|_: &str| true)) } else { None };
        let listing = lister.list(names_only).await?;
        let partitions: BTreeSet<String> = listing.partitions.iter().flatten().map(|key| key.name.clone()).collect();
        let scan = Scan::new(schema, partitions, lister.clone(), self.format.clone(), &request.options, self.parallelism)?;
        Ok((lister, Arc::new(scan), listing))
    }

    /// The schema of the rows: data, then partition columns, all nullable, then the hidden `_metadata`.
    fn complete(&self, data: &SchemaRef, partitions: &[Field]) -> SchemaRef {
        let is_partition = |field: &FieldRef| partitions.iter().any(|p| p.name().to_lowercase() == field.name().to_lowercase());
        let data = data.fields().iter().filter(|field| !metadata::is_hidden(field) && !is_partition(field));
        let mut fields: Vec<Field> = data.map(|field| nullable(field)).chain(partitions.iter().cloned()).collect();
        if !fields.iter().any(|field| field.name().eq_ignore_ascii_case(METADATA_COLUMN)) {
            fields.push(metadata::field(self.format.names().contains(&"parquet")));
        }
        Arc::new(Schema::new(fields))
    }
}

/// The paths of a request: those given apart, or else the option `path`.
fn paths(request: &ReadRequest, streaming: bool) -> Result<Vec<String>> {
    let paths = match &request.paths[..] {
        [] => request.options.get("path").map(str::to_owned).into_iter().collect(),
        paths => paths.to_vec(),
    };
    if paths.is_empty() {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_2047", "'path' is not specified: set it"));
    }
    if streaming && paths.len() > 1 {
        return Err(Error::invalid("INVALID_OPTION_VALUE", "a file stream reads one path: use a path pattern such as '/in/{a,b}'"));
    }
    Ok(paths)
}

/// The field, nullable through and through: files may lack anything.
fn nullable(field: &Field) -> Field {
    field.clone().with_nullable(true).with_data_type(nullable_type(field.data_type()))
}

fn nullable_type(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(nullable(field));
    match data_type {
        // The bytes of a variant are never null.
        DataType::Struct(_) if *data_type == variant::data_type() => data_type.clone(),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        DataType::Map(entries, sorted) => match entries.data_type() {
            // Entries and keys of a map are never null.
            DataType::Struct(parts) if parts.len() == 2 => {
                let key = Arc::new(parts[0].as_ref().clone().with_data_type(nullable_type(parts[0].data_type())));
                let parts = DataType::Struct([key, inner(&parts[1])].into_iter().collect());
                DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(parts)), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

fn path_not_found(path: &str) -> Error {
    Error::invalid("PATH_NOT_FOUND", format!("path does not exist: {path}")).with_sqlstate("42K03")
}

#[async_trait]
impl SourceProvider for FilesProvider {
    fn names(&self) -> &'static [&'static str] {
        self.format.names()
    }

    fn options(&self) -> Vec<OptionSpec> {
        SPECS.iter().copied().chain(self.format.options()).collect()
    }

    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef> {
        let lister = self.lister(request, streaming).await?;
        for input in lister.inputs.iter().filter(|input| !input.is_pattern()) {
            if !input.exists().await? {
                return Err(path_not_found(&input.display));
            }
        }
        let options = &request.options;
        let given = request.schema.is_some() || !self.format.streams_need_schema(options);
        if streaming && !given && !options.bool("schemaInference", false)? {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_2048",
                "Schema must be specified when creating a streaming source DataFrame. If some files already exist in the directory, then \
                 depending on the file format you may be able to create a static DataFrame on that directory with \
                 'spark.read.load(directory)' and infer schema from it.",
            ));
        }
        let names_only: Option<listing::Skip> = if given { Some(Arc::new(|_: &str| true)) } else { None };
        let listing = lister.list(names_only).await?;
        if let Some(pattern) = lister.inputs.iter().find(|input| input.is_pattern()).filter(|_| !streaming && !listing.any) {
            return Err(path_not_found(&pattern.display));
        }
        let user = request.schema.as_deref();
        let inferred = options.bool("partitionColumnTypeInference", true)?;
        let partitions = partition::fields(&listing.partitions, user, inferred, &lister.selection.time_zone)?;
        let data = self.data_schema(request, &lister, &listing).await?;
        Ok(self.complete(&data, &partitions))
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let options = StreamOptions::parse(&request.options)?;
        let (lister, scan, _) = self.open(request, true).await?;
        let cleaner = match lister.inputs.first() {
            Some(input) => Cleaner::open(&self.storage, &options.clean, input)?,
            None => None,
        };
        Ok(Arc::new(FileSource::open(lister, scan, options, cleaner, context).await?))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let (_, scan, listing) = self.open(request, false).await?;
        Ok(Arc::new(FileTable { scan, files: listing.files }))
    }
}
