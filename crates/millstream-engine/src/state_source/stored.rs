//! The tables of operators in a checkpoint, and their rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, Schema, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::row::{RowConverter, SortField};
use millstream_checkpoint::facts;
use millstream_checkpoint::reader::CheckpointReader;
use millstream_checkpoint::state::StateFile;
use millstream_checkpoint::state::StateManifest;
use millstream_checkpoint::state::blocks::{self, Change, Section};
use millstream_core::{Error, Result};

use crate::stateful::{OPERATORS, OperatorFacts};

/// What tells the values of one key apart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Number {
    /// A key has one value.
    Only,
    /// A number without a meaning of its own.
    Index,
    /// The instant at which a session, or a slice of a window, begins.
    Instant(&'static str, DataType),
}

/// One table of one operator.
#[derive(Clone, Debug)]
pub struct StoredTable {
    /// The operator's number, from the top of the plan down.
    pub operator: usize,
    /// Spark's name of the operator.
    pub operator_name: String,
    /// Its own name within the operator.
    pub name: String,
    key: Vec<FieldRef>,
    value: Vec<FieldRef>,
    number: Number,
}

/// Rows of a table in columns: the key, what tells its values apart, the value.
#[derive(Clone, Debug)]
pub struct StoredRows {
    /// The key as a struct; the number of the value is its last field where it has a meaning.
    pub key: StructArray,
    /// The value as a struct.
    pub value: StructArray,
}

/// The tables of all operators after a batch, in the order of operators.
///
/// # Errors
/// `CHECKPOINT_RECORD_DAMAGED`, and those of the store.
pub async fn tables(reader: &CheckpointReader, batch: u64) -> Result<Vec<StoredTable>> {
    let Some(record) = reader.commit(batch).await? else { return Ok(Vec::new()) };
    let operators: Vec<OperatorFacts> = facts::get(&record, OPERATORS)?.unwrap_or_default();
    let mut tables = Vec::new();
    for (operator, facts) in operators.iter().enumerate() {
        for (name, key, value) in facts.tables()? {
            let instant = |called| Number::Instant(called, instant_of(&value));
            let number = match (facts.name(), name.as_str()) {
                ("symmetricHashJoin", _) => Number::Index,
                ("sessionWindowStateStoreSaveExec", _) => instant("sessionStartTime"),
                (_, "slices") => instant("slice"),
                _ => Number::Only,
            };
            tables.push(StoredTable { operator, operator_name: facts.name().to_owned(), name, key, value, number });
        }
    }
    Ok(tables)
}

/// The type of instants of a table whose values begin with one.
fn instant_of(value: &[FieldRef]) -> DataType {
    match value.first().map(|field| field.data_type()) {
        Some(data_type @ DataType::Timestamp(TimeUnit::Microsecond, _)) => data_type.clone(),
        _ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    }
}

impl StoredTable {
    /// The columns of the key.
    pub fn key_fields(&self) -> Fields {
        let number = match &self.number {
            Number::Only => None,
            Number::Index => Some(Field::new("index", DataType::Int64, true)),
            Number::Instant(name, data_type) => Some(Field::new(*name, data_type.clone(), true)),
        };
        self.key.iter().cloned().chain(number.map(Arc::new)).collect()
    }

    /// The columns of the value.
    pub fn value_fields(&self) -> Fields {
        self.value.iter().cloned().collect()
    }

    /// All rows after a batch, in the order of their keys.
    ///
    /// # Errors
    /// `CHECKPOINT_LOG_HOLE` when the batch cannot be read any more, those of damaged files, and those of the store.
    pub async fn rows(&self, reader: &CheckpointReader, batch: u64) -> Result<StoredRows> {
        let mut replay = Replay::new(self)?;
        for file in reader.state_after(batch).await?.unwrap_or_default() {
            replay.file(reader, &file).await?;
        }
        let places: Vec<(usize, usize)> = replay.live.into_values().collect();
        let rows = if places.is_empty() {
            RecordBatch::new_empty(replay.schema.clone())
        } else {
            let batches: Vec<&RecordBatch> = replay.batches.iter().collect();
            interleave_record_batch(&batches, &places).map_err(unreadable)?
        };
        self.structs(&rows)
    }

    /// What one batch changed: for each row whether it was put, and the row; the value of a removed one is null.
    ///
    /// # Errors
    /// As [`StoredTable::rows`].
    pub async fn changes(&self, reader: &CheckpointReader, batch: u64) -> Result<Vec<(Change, StoredRows)>> {
        let Some(record) = reader.commit(batch).await? else { return Ok(Vec::new()) };
        let mut changes = Vec::new();
        for file in StateManifest::of(&record)?.unwrap_or_default().changes {
            for section in sections(reader, &file).await?.iter().filter(|section| self.has(section)) {
                for rows in StreamReader::try_new(section.payload.as_slice(), None).map_err(unreadable)? {
                    changes.push((section.change, self.structs(&self.whole(&rows.map_err(unreadable)?)?)?));
                }
            }
        }
        Ok(changes)
    }

    fn has(&self, section: &Section) -> bool {
        section.operator == self.operator && section.table == self.name
    }

    /// Key columns, number, value columns.
    fn schema(&self) -> Schema {
        let number = Arc::new(Field::new("number", DataType::Int64, false));
        Schema::new(self.key.iter().cloned().chain([number]).chain(self.value.iter().cloned()).collect::<Vec<_>>())
    }

    /// Rows as they are in a file, with nulls for the values of removed ones.
    fn whole(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let missing = self.value.iter().skip((rows.num_columns()).saturating_sub(self.key.len() + 1));
        let nulls = missing.map(|field| arrow::array::new_null_array(field.data_type(), rows.num_rows()));
        let columns: Vec<ArrayRef> = rows.columns().iter().cloned().chain(nulls).collect();
        RecordBatch::try_new(Arc::new(self.schema()), columns).map_err(unreadable)
    }

    fn structs(&self, rows: &RecordBatch) -> Result<StoredRows> {
        let width = self.key.len();
        let mut key: Vec<ArrayRef> = rows.columns().iter().take(width).cloned().collect();
        let numbers = rows.columns().get(width).and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
        let numbers = numbers.cloned().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new()));
        match &self.number {
            Number::Only => {}
            Number::Index => key.push(Arc::new(numbers)),
            Number::Instant(_, data_type) => {
                key.push(Arc::new(numbers.reinterpret_cast::<TimestampMicrosecondType>().with_data_type(data_type.clone())));
            }
        }
        let value: Vec<ArrayRef> = rows.columns().iter().skip(width + 1).cloned().collect();
        Ok(StoredRows {
            key: structure(self.key_fields(), key, rows.num_rows())?,
            value: structure(self.value_fields(), value, rows.num_rows())?,
        })
    }
}

/// A struct column, which may be without fields.
pub(super) fn structure(fields: Fields, columns: Vec<ArrayRef>, rows: usize) -> Result<StructArray> {
    if fields.is_empty() {
        return Ok(StructArray::new_empty_fields(rows, None));
    }
    StructArray::try_new(fields, columns, None).map_err(unreadable)
}

pub(super) fn unreadable(error: ArrowError) -> Error {
    Error::internal("rows of state do not have the columns that the checkpoint says").caused_by(error)
}

async fn sections(reader: &CheckpointReader, file: &StateFile) -> Result<Vec<Section>> {
    let bytes = reader.read_state(file).await?;
    Ok(blocks::decode(&file.name, &bytes)?.1)
}

/// The rows that files together leave.
struct Replay<'a> {
    table: &'a StoredTable,
    schema: Arc<Schema>,
    converter: Option<RowConverter>,
    batches: Vec<RecordBatch>,
    /// Where each row is, by key and number; rows of one key follow each other.
    live: BTreeMap<(Box<[u8]>, i64), (usize, usize)>,
}

impl<'a> Replay<'a> {
    fn new(table: &'a StoredTable) -> Result<Self> {
        let fields: Vec<SortField> = table.key.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = (!fields.is_empty()).then(|| RowConverter::new(fields)).transpose().map_err(unreadable)?;
        Ok(Replay { table, schema: Arc::new(table.schema()), converter, batches: Vec::new(), live: BTreeMap::new() })
    }

    async fn file(&mut self, reader: &CheckpointReader, file: &StateFile) -> Result<()> {
        for section in sections(reader, file).await?.iter().filter(|section| self.table.has(section)) {
            for rows in StreamReader::try_new(section.payload.as_slice(), None).map_err(unreadable)? {
                self.apply(section.change, &rows.map_err(unreadable)?)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: Change, rows: &RecordBatch) -> Result<()> {
        let width = self.table.key.len();
        let keys = rows.columns().get(..width).unwrap_or_default();
        let encoded = self.converter.as_ref().map(|converter| converter.convert_columns(keys)).transpose().map_err(unreadable)?;
        let numbers = rows.columns().get(width).and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
        let Some(numbers) = numbers else { return Err(Error::internal("rows of state have no number")) };
        let at = self.batches.len();
        for (row, number) in numbers.values().iter().enumerate() {
            let key: Box<[u8]> = encoded.as_ref().map_or(Box::default(), |encoded| encoded.row(row).data().into());
            match change {
                Change::Put => drop(self.live.insert((key, *number), (at, row))),
                Change::Remove => drop(self.live.remove(&(key, *number))),
            }
        }
        if change == Change::Put {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            let rows = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options);
            self.batches.push(rows.map_err(unreadable)?);
        }
        Ok(())
    }
}
