//! Some files of a table as a table, whose rows know their places.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext, Split, Table};
use millstream_core::versioned::{FILE, ROW};
use millstream_core::{Error, Result};

use super::actions::Add;
use super::log::TableLog;
use super::schema::TableSchema;
use super::split::DeltaSplit;

/// Files of a table, with their positions among all of them.
#[derive(Debug)]
pub(super) struct FileTable {
    log: TableLog,
    table: Arc<TableSchema>,
    schema: SchemaRef,
    files: Vec<(usize, Arc<Add>)>,
}

impl FileTable {
    pub(super) fn new(log: TableLog, table: Arc<TableSchema>, files: Vec<(usize, Arc<Add>)>) -> Self {
        let places = [Field::new(FILE, DataType::Int32, false), Field::new(ROW, DataType::Int64, false)].map(Arc::new);
        let schema = Arc::new(Schema::new(table.arrow.fields().iter().cloned().chain(places).collect::<Vec<_>>()));
        FileTable { log, table, schema, files }
    }
}

#[async_trait]
impl Table for FileTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let split = |(position, add): &(usize, Arc<Add>)| -> Result<Arc<dyn Split>> {
            let position = i32::try_from(*position).map_err(|error| Error::internal("a table has too many files").caused_by(error))?;
            let inner = DeltaSplit::new(self.log.clone(), self.table.clone(), add.clone());
            Ok(Arc::new(FileSplit { inner, schema: self.schema.clone(), position }))
        };
        self.files.iter().map(split).collect()
    }
}

/// One of the files.
#[derive(Debug)]
struct FileSplit {
    inner: DeltaSplit,
    schema: SchemaRef,
    position: i32,
}

impl Split for FileSplit {
    fn label(&self) -> &str {
        self.inner.label()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let own = self.schema.fields().len().saturating_sub(2);
        let schema = match self.schema.project(&context.projection) {
            Ok(schema) => Arc::new(schema),
            Err(error) => {
                let error = Error::internal("a read asks for columns that the table does not have").caused_by(error);
                return futures::stream::iter([Err(error)]).boxed();
            }
        };
        let wanted = context.projection.clone();
        let inner = ReadContext { projection: wanted.iter().copied().filter(|index| *index < own).collect(), ..context };
        let position = self.position;
        let mut first = 0_i64;
        let rows = self.inner.read(inner);
        rows.map(move |batch| {
            let batch = batch?;
            let mut given = batch.columns().iter();
            let next = first + batch.num_rows() as i64;
            let file: ArrayRef = Arc::new(Int32Array::from_value(position, batch.num_rows()));
            let row: ArrayRef = Arc::new(Int64Array::from_iter_values(first..next));
            first = next;
            let column = |index: &usize| match index.checked_sub(own) {
                None => given.next().cloned(),
                Some(0) => Some(file.clone()),
                Some(_) => Some(row.clone()),
            };
            let columns: Option<Vec<ArrayRef>> = wanted.iter().map(column).collect();
            let columns = columns.ok_or_else(|| Error::internal("a read gives fewer columns than it was asked for"))?;
            RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())))
                .map_err(|error| Error::internal("rows of a Delta table do not fit its schema").caused_by(error))
        })
        .boxed()
    }
}
