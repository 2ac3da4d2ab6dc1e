//! From files to splits: which columns of a file come from its data, its directories or its listing, and which files share a split.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::source::{FilterColumns, Split};
use millstream_core::{Options, Result};
use parking_lot::Mutex;

use super::listing::{FileStatus, Lister};
use super::metadata;
use super::options::Faults;
use super::partition;
use super::split::FileSplit;
use super::uri;
use crate::formats::{FileFormat, FileReader, FileRef};

/// The most bytes that share a split (Spark's `files.maxPartitionBytes`).
const MAX_SPLIT_BYTES: u64 = 128 << 20;

/// What opening a file costs, in bytes that could be read meanwhile (Spark's `files.openCostInBytes`). Many small files share a split.
const OPEN_COST_BYTES: u64 = 4 << 20;

/// Where a column of the source's schema comes from, for the files of one directory.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// This column of the format's reader.
    Data(usize),
    /// A value that the whole directory shares, as a column of one row.
    Constant(ArrayRef),
    /// Facts about the file.
    Metadata,
}

/// How the files of one directory are read.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) reader: Arc<dyn FileReader>,
    /// For each column of the source's schema.
    pub(crate) columns: Vec<Column>,
}

/// A file with everything that is needed to read it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFile {
    pub(crate) status: FileStatus,
    pub(crate) file: FileRef,
    pub(crate) layout: Arc<Layout>,
    /// It was planned once, and is not there any more.
    pub(crate) missing: bool,
}

/// Everything that the splits of one source or table have in common.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) schema: SchemaRef,
    pub(crate) faults: Faults,
    lister: Arc<Lister>,
    format: Arc<dyn FileFormat>,
    options: Options,
    /// Columns of the schema that are partition columns, as far as is known. A file outside every partition directory has null there.
    partitions: BTreeSet<usize>,
    parallelism: u64,
    /// Readers by the columns of the schema that do not come from the data.
    readers: Mutex<HashMap<BTreeSet<usize>, Arc<dyn FileReader>>>,
}

impl Scan {
    /// A scan that gives rows of `schema`. `partition_names` are the partition columns known so far.
    ///
    /// # Errors
    /// Those of [`FileFormat::reader`], and `INVALID_OPTION_VALUE`.
    pub(crate) fn new(
        schema: SchemaRef,
        partition_names: impl IntoIterator<Item = String>,
        lister: Arc<Lister>,
        format: Arc<dyn FileFormat>,
        options: &Options,
        parallelism: usize,
    ) -> Result<Self> {
        let partitions = partition_names.into_iter().filter_map(|name| partition::find(&schema, &name)).map(|(at, _)| at).collect();
        let scan = Scan {
            faults: Faults::parse(options)?,
            schema,
            lister,
            format,
            options: options.clone(),
            partitions,
            parallelism: parallelism.max(1) as u64,
            readers: Mutex::default(),
        };
        // Bad options and types are refused before any file is there.
        scan.reader(scan.partitions.clone())?;
        Ok(scan)
    }

    /// The columns whose conditions are decided before a row counts as read.
    pub(crate) fn filters(&self) -> FilterColumns {
        let corrupt_record = self.options.get("columnNameOfCorruptRecord").unwrap_or("_corrupt_record");
        let is_data = |at: &usize| {
            !self.partitions.contains(at)
                && Some(*at) != self.metadata_at()
                && self.schema.fields().get(*at).is_some_and(|field| field.name() != corrupt_record)
        };
        let columns = 0..self.schema.fields().len();
        FilterColumns {
            constant: self.partitions.clone(),
            compared: if self.format.filters_rows() { columns.filter(is_data).collect() } else { BTreeSet::new() },
        }
    }

    fn metadata_at(&self) -> Option<usize> {
        metadata::ends_with_metadata(&self.schema).then(|| self.schema.fields().len() - 1)
    }

    /// The reader for files whose data holds every column but `constant` and `_metadata`.
    fn reader(&self, constant: BTreeSet<usize>) -> Result<Arc<dyn FileReader>> {
        let mut readers = self.readers.lock();
        if let Some(reader) = readers.get(&constant) {
            return Ok(reader.clone());
        }
        let metadata = self.metadata_at();
        let fields = self.schema.fields().iter().enumerate();
        let data = fields.filter(|(at, _)| !constant.contains(at) && Some(*at) != metadata).map(|(_, field)| field.clone());
        let reader = self.format.reader(Arc::new(Schema::new(data.collect::<Vec<_>>())), &self.options)?;
        readers.insert(constant, reader.clone());
        Ok(reader)
    }

    /// How the files of a directory are read. A directory's value wins over a column of the data.
    fn layout(&self, directory: &str) -> Result<Layout> {
        let mut constants: HashMap<usize, ArrayRef> = HashMap::new();
        for key in self.lister.keys_of(directory)? {
            // A partition column that appeared after the schema was fixed is not part of it.
            if let Some((at, field)) = partition::find(&self.schema, &key.name) {
                let value = partition::column(&key, field.data_type(), &self.lister.selection.time_zone)?;
                constants.insert(at, value);
            }
        }
        for at in &self.partitions {
            if let Some(field) = self.schema.fields().get(*at) {
                constants.entry(*at).or_insert_with(|| new_null_array(field.data_type(), 1));
            }
        }
        let reader = self.reader(constants.keys().copied().collect())?;
        let metadata = self.metadata_at();
        let mut data = 0_usize..;
        let columns = (0..self.schema.fields().len()).map(|at| match constants.remove(&at) {
            Some(value) => Column::Constant(value),
            None if Some(at) == metadata => Column::Metadata,
            None => Column::Data(data.next().unwrap_or_default()),
        });
        let columns = columns.collect();
        Ok(Layout { reader, columns })
    }

    /// Splits for files, in their order. A file that is gone, marked by `true`, gets its place in a split, where it is reported.
    ///
    /// # Errors
    /// `INVALID_PARTITION_VALUE`, `SOURCE_PATH_CHANGED`, and those of the format.
    pub(crate) fn splits(self: &Arc<Self>, files: impl IntoIterator<Item = (FileStatus, bool)>) -> Result<Vec<Arc<dyn Split>>> {
        let mut layouts: HashMap<String, Arc<Layout>> = HashMap::new();
        let mut planned = Vec::new();
        for (status, missing) in files {
            // No format has rows in an empty file, and some cannot read one.
            if status.size == 0 && !missing {
                continue;
            }
            let directory = uri::parent_of(&status.url);
            let layout = match layouts.get(directory) {
                Some(layout) => layout.clone(),
                None => {
                    let layout = Arc::new(self.layout(directory)?);
                    layouts.insert(directory.to_owned(), layout.clone());
                    layout
                }
            };
            let file = self.lister.root_of(&status.url)?.file_ref(&status.url, status.size)?;
            let file = FileRef { modified_ms: status.modified_ms, ..file };
            planned.push(PlannedFile { status, file, layout, missing });
        }
        Ok(self.pack(planned))
    }

    fn pack(self: &Arc<Self>, files: Vec<PlannedFile>) -> Vec<Arc<dyn Split>> {
        let cost = |file: &PlannedFile| file.status.size.saturating_add(OPEN_COST_BYTES);
        let total = files.iter().map(cost).fold(0, u64::saturating_add);
        let most = (total / self.parallelism).clamp(OPEN_COST_BYTES, MAX_SPLIT_BYTES);
        let mut splits: Vec<Arc<dyn Split>> = Vec::new();
        let (mut together, mut bytes) = (Vec::new(), 0_u64);
        for file in files {
            let with_it = bytes.saturating_add(file.status.size);
            if with_it > most && !together.is_empty() {
                splits.push(Arc::new(FileSplit::new(self.clone(), std::mem::take(&mut together))));
                bytes = 0;
            }
            bytes = bytes.saturating_add(cost(&file));
            together.push(file);
        }
        if !together.is_empty() {
            splits.push(Arc::new(FileSplit::new(self.clone(), together)));
        }
        splits
    }
}
