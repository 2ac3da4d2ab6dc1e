//! What rows of one schema are written as.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::{Error, Options, Result};
use parking_lot::Mutex;

use super::partition::Partitioning;
use crate::formats::write::datetime::DateTimeText;
use crate::formats::write::spark_text::Style;
use crate::formats::write::{FileWriteFormat, FileWriter};

/// How rows of one schema become files.
#[derive(Debug)]
pub(super) struct Target {
    schema: SchemaRef,
    /// Columns that go into the files.
    pub(super) data: Vec<usize>,
    /// Columns that go into the names of folders.
    pub(super) partitioning: Partitioning,
    pub(super) writer: Arc<dyn FileWriter>,
    pub(super) max_rows: Option<u64>,
}

/// Makes targets, and keeps the newest.
#[derive(Debug)]
pub(super) struct Targets {
    format: Arc<dyn FileWriteFormat>,
    options: Options,
    partition_by: Vec<String>,
    max_rows: Option<u64>,
    newest: Mutex<Option<Arc<Target>>>,
}

impl Targets {
    pub(super) fn new(format: Arc<dyn FileWriteFormat>, options: Options, partition_by: Vec<String>, max_rows: Option<u64>) -> Self {
        Targets { format, options, partition_by, max_rows, newest: Mutex::new(None) }
    }

    pub(super) fn format_name(&self) -> &'static str {
        self.format.names().first().copied().unwrap_or_default()
    }

    /// The target for rows of this schema.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_1196` for a partition column that is not there; those of the format's writer.
    pub(super) fn of(&self, schema: &SchemaRef) -> Result<Arc<Target>> {
        if let Some(target) = self.newest.lock().as_ref().filter(|target| target.schema == *schema) {
            return Ok(target.clone());
        }
        let keys = self.partition_by.iter().map(|name| find(schema, name)).collect::<Result<Vec<usize>>>()?;
        let data: Vec<usize> = (0..schema.fields().len()).filter(|column| !keys.contains(column)).collect();
        let stored = schema.project(&data).map_err(|error| Error::internal("data columns do not project").caused_by(error))?;
        let names = keys.iter().filter_map(|column| schema.fields().get(*column)).map(|field| field.name().as_str());
        let partitioning = Partitioning::new(names.zip(keys.iter().copied()), Style::cast(DateTimeText::cast(&self.options)?));
        let writer = self.format.writer(&stored, &self.options)?;
        let target = Arc::new(Target { schema: schema.clone(), data, partitioning, writer, max_rows: self.max_rows });
        *self.newest.lock() = Some(target.clone());
        Ok(target)
    }
}

/// The column of a name: as written, else whatever the case.
fn find(schema: &Schema, name: &str) -> Result<usize> {
    let position = |same: &dyn Fn(&str) -> bool| schema.fields().iter().position(|field| same(field.name()));
    position(&|field| field == name).or_else(|| position(&|field| field.eq_ignore_ascii_case(name))).ok_or_else(|| {
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let what = format!("Partition column {name} not found in existing columns ({}).", known.join(", "));
        Error::invalid("_LEGACY_ERROR_TEMP_1196", what)
    })
}
