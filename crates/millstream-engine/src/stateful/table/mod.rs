//! A table of state: rows of Arrow columns by key, and what changed in them since the last batch.
//!
//! A table knows columns, a [`Store`] knows bytes. Keys and values are row-encoded on the way, so that every operator's state looks the same
//! to a store, and decoded again where changes are written to the checkpoint.

mod codec;
mod memory;
mod normalize;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::common::{HashMap, hash_map};
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_core::Error;

pub(crate) use codec::{Codec, Encoded};
pub(crate) use memory::MemoryStore;
pub(crate) use normalize::normalize;
pub(crate) use store::Store;

use crate::to_datafusion;

/// A row of a table: its encoded key, the number that tells the values of one key apart, its encoded value.
pub(crate) type Row = (Box<[u8]>, i64, Box<[u8]>);

/// The name of the column that tells the values of one key apart.
const SUB: &str = "sub";

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableSchema {
    /// Its name within the operator, Spark's where Spark has one.
    pub(crate) name: Cow<'static, str>,
    pub(crate) key: Vec<FieldRef>,
    pub(crate) value: Vec<FieldRef>,
    /// The column whose event time says when a row may leave.
    pub(crate) expiry: Expiry,
}

/// Where a row's expiry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Rows stay until they are removed.
    Never,
    /// In a key column.
    Key(usize),
    /// In a value column.
    Value(usize),
}

impl TableSchema {
    /// The columns of changes: those of the key, which of its values, those of the value.
    fn change_schema(&self) -> SchemaRef {
        let nullable = |prefix: &str, index: usize, field: &FieldRef| {
            // Keys of a projection may share a name; positions do not.
            Arc::new(Field::new(format!("{prefix}{index}_{}", field.name()), field.data_type().clone(), true))
        };
        let keys = self.key.iter().enumerate().map(|(index, field)| nullable("k", index, field));
        let values = self.value.iter().enumerate().map(|(index, field)| nullable("v", index, field));
        let sub = Arc::new(Field::new(SUB, DataType::Int64, false));
        Arc::new(Schema::new(keys.chain([sub]).chain(values).collect::<Vec<FieldRef>>()))
    }

    /// The table whose changes have these columns. Its rows stay until they are removed.
    pub(crate) fn of_changes(name: &str, columns: &Schema) -> Option<TableSchema> {
        let (at, _) = columns.column_with_name(SUB)?;
        // The prefix that `change_schema` put before each name.
        let own = |field: &FieldRef| {
            let name = field.name().split_once('_').map_or("", |(_, name)| name);
            Arc::new(field.as_ref().clone().with_name(name))
        };
        let key = columns.fields().iter().take(at).map(own).collect();
        let value = columns.fields().iter().skip(at + 1).map(own).collect();
        Some(TableSchema { name: name.to_owned().into(), key, value, expiry: Expiry::Never })
    }

    fn removal_schema(&self) -> SchemaRef {
        let all = self.change_schema();
        Arc::new(Schema::new(all.fields().iter().take(self.key.len() + 1).cloned().collect::<Vec<FieldRef>>()))
    }
}

/// The instants of an event-time column in microseconds: those of a timestamp, or the ends of windows.
pub(crate) fn instants(column: &ArrayRef) -> DfResult<Int64Array> {
    let time: ArrayRef = match column.as_struct_opt() {
        Some(window) => {
            let end = end_of(window)?.clone();
            // A null window has no end, whatever its children say.
            match window.nulls() {
                None => end,
                Some(nulls) => {
                    let nulls = arrow::buffer::NullBuffer::union(end.nulls(), Some(nulls));
                    arrow::array::make_array(end.to_data().into_builder().nulls(nulls).build().map_err(DataFusionError::from)?)
                }
            }
        }
        None => column.clone(),
    };
    match time.as_primitive_opt::<TimestampMicrosecondType>() {
        Some(instants) => Ok(instants.reinterpret_cast::<Int64Type>()),
        None => Err(to_datafusion(Error::internal(format!("event time of type {}", column.data_type())))),
    }
}

fn end_of(window: &StructArray) -> DfResult<&ArrayRef> {
    window.column_by_name("end").ok_or_else(|| to_datafusion(Error::internal("a window without an end has no event time")))
}

/// Rows that changed since the last batch.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Key columns, `sub`, value columns.
    pub(crate) puts: RecordBatch,
    /// Key columns, `sub`.
    pub(crate) removes: RecordBatch,
}

/// Rows in columns, as they came out of a table.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) keys: Vec<ArrayRef>,
    pub(crate) subs: Vec<i64>,
    pub(crate) values: Vec<ArrayRef>,
}

/// A table.
#[derive(Debug)]
pub(crate) struct StateTable {
    schema: TableSchema,
    keys: Codec,
    values: Codec,
    store: Box<dyn Store>,
    /// What was touched since the last batch, and whether it was there before. Keys are row-encoded.
    touched: HashMap<(Box<[u8]>, i64), bool>,
    /// Beyond every `sub` there is.
    next_sub: i64,
}

impl StateTable {
    /// An empty table in memory.
    pub(crate) fn in_memory(schema: TableSchema) -> DfResult<Self> {
        let codec = |fields: &[FieldRef]| Codec::new(fields.iter().map(|field| field.data_type()));
        let (keys, values) = (codec(&schema.key)?, codec(&schema.value)?);
        Ok(StateTable { schema, keys, values, store: Box::new(MemoryStore::default()), touched: HashMap::new(), next_sub: 0 })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Rows in it.
    pub(crate) fn len(&self) -> u64 {
        self.store.len()
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// A number that no value of any key has.
    pub(crate) fn next_sub(&mut self) -> i64 {
        let sub = self.next_sub;
        self.next_sub += 1;
        sub
    }

    /// Encodes keys.
    pub(crate) fn encode_keys(&self, columns: &[ArrayRef], rows: usize) -> DfResult<Encoded> {
        self.keys.encode(columns, rows)
    }

    /// Key columns from encoded keys.
    pub(crate) fn decode_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        self.keys.decode(keys)
    }

    /// Encodes values.
    pub(crate) fn encode_values(&self, columns: &[ArrayRef], rows: usize) -> DfResult<Encoded> {
        self.values.encode(columns, rows)
    }

    /// Value columns from encoded values.
    pub(crate) fn decode_values<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        self.values.decode(values)
    }

    /// Visits the values of each key: the position of the key, which of its values, the value.
    pub(crate) fn get_many<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>, visit: &mut dyn FnMut(usize, i64, &[u8])) -> DfResult<()> {
        self.store.get_many(&mut keys.into_iter(), visit).map_err(to_datafusion)
    }

    /// One value of a key.
    pub(crate) fn get(&self, key: &[u8], sub: i64) -> DfResult<Option<Box<[u8]>>> {
        self.store.get(key, sub).map_err(to_datafusion)
    }

    /// Whether there is a value.
    pub(crate) fn contains(&self, key: &[u8], sub: i64) -> DfResult<bool> {
        Ok(self.get(key, sub)?.is_some())
    }

    /// Puts a value, which may leave when event time has passed `expiry` (microseconds).
    pub(crate) fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: Option<i64>) -> DfResult<()> {
        let existed = self.store.put(key, sub, value, expiry).map_err(to_datafusion)?;
        self.touch(key, sub, existed);
        Ok(())
    }

    /// Removes a value. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8], sub: i64) -> DfResult<bool> {
        let existed = self.store.remove(key, sub).map_err(to_datafusion)?;
        if existed {
            self.touch(key, sub, true);
        }
        Ok(existed)
    }

    fn touch(&mut self, key: &[u8], sub: i64, existed: bool) {
        if let hash_map::Entry::Vacant(entry) = self.touched.entry((key.into(), sub)) {
            entry.insert(existed);
        }
    }

    /// Removes and returns every row whose expiry is at or before `instant` (microseconds).
    pub(crate) fn expire(&mut self, instant: i64) -> DfResult<Vec<Row>> {
        let mut gone = Vec::new();
        self.store.take_expired(instant, &mut |key, sub, value| gone.push((key, sub, value))).map_err(to_datafusion)?;
        for (key, sub, _) in &gone {
            self.touch(key, *sub, true);
        }
        Ok(gone)
    }

    /// The earliest expiry there may be (microseconds).
    pub(crate) fn first_expiry(&self) -> Option<i64> {
        self.store.first_expiry()
    }

    /// Visits where every row is: its key, its number.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&[u8], i64)) -> DfResult<()> {
        let mut each = |key: &[u8], sub: i64, _: &[u8]| {
            visit(key, sub);
            true
        };
        self.store.scan(&mut each).map_err(to_datafusion)
    }

    /// Every row, in pieces of at most `rows`.
    pub(crate) fn scan(&self, rows: usize, visit: &mut dyn FnMut(Selection) -> DfResult<()>) -> DfResult<()> {
        let mut piece: Vec<Row> = Vec::new();
        let mut outcome = Ok(());
        self.store
            .scan(&mut |key, sub, value| {
                piece.push((key.into(), sub, value.into()));
                if piece.len() < rows {
                    return true;
                }
                outcome = self.select(&std::mem::take(&mut piece)).and_then(&mut *visit);
                outcome.is_ok()
            })
            .map_err(to_datafusion)?;
        outcome?;
        if piece.is_empty() { Ok(()) } else { visit(self.select(&piece)?) }
    }

    /// The columns of encoded rows.
    pub(crate) fn select(&self, rows: &[Row]) -> DfResult<Selection> {
        Ok(Selection {
            keys: self.keys.decode(rows.iter().map(|(key, _, _)| key.as_ref()))?,
            subs: rows.iter().map(|(_, sub, _)| *sub).collect(),
            values: self.values.decode(rows.iter().map(|(_, _, value)| value.as_ref()))?,
        })
    }

    /// When the rows of these columns may leave, `None` where they never do.
    pub(crate) fn expiries(&self, keys: &[ArrayRef], values: &[ArrayRef]) -> DfResult<Option<Int64Array>> {
        let column = match self.schema.expiry {
            Expiry::Never => return Ok(None),
            Expiry::Key(index) => keys.get(index),
            Expiry::Value(index) => values.get(index),
        };
        column.map(instants).transpose()
    }

    /// What changed since the last call, `None` when nothing did.
    pub(crate) fn take_changes(&mut self) -> DfResult<Option<Changes>> {
        if self.touched.is_empty() {
            return Ok(None);
        }
        let touched = std::mem::take(&mut self.touched);
        let mut puts: Vec<Row> = Vec::new();
        let mut removes: Vec<(Box<[u8]>, i64)> = Vec::new();
        for ((key, sub), existed) in touched {
            match self.get(&key, sub)? {
                Some(value) => puts.push((key, sub, value)),
                None if existed => removes.push((key, sub)),
                None => {}
            }
        }
        let put = self.select(&puts)?;
        let mut columns = put.keys;
        columns.push(Arc::new(Int64Array::from(put.subs)));
        columns.extend(put.values);
        let puts = RecordBatch::try_new(self.schema.change_schema(), columns)?;
        let mut columns = self.keys.decode(removes.iter().map(|(key, _)| key.as_ref()))?;
        columns.push(Arc::new(Int64Array::from_iter_values(removes.iter().map(|(_, sub)| *sub))));
        let removes = RecordBatch::try_new(self.schema.removal_schema(), columns)?;
        if puts.num_rows() == 0 && removes.num_rows() == 0 {
            return Ok(None);
        }
        Ok(Some(Changes { puts, removes }))
    }

    /// Everything in it as puts, in pieces: a snapshot.
    pub(crate) fn snapshot(&self, rows: usize, visit: &mut dyn FnMut(RecordBatch) -> DfResult<()>) -> DfResult<()> {
        self.scan(rows, &mut |piece| {
            let mut columns = piece.keys;
            columns.push(Arc::new(Int64Array::from(piece.subs)));
            columns.extend(piece.values);
            visit(RecordBatch::try_new(self.schema.change_schema(), columns)?)
        })
    }

    /// Puts rows that were read from the checkpoint: key columns, `sub`, value columns.
    pub(crate) fn restore(&mut self, puts: &RecordBatch) -> DfResult<()> {
        let (keys, subs, values) = self.split(puts)?;
        let rows = puts.num_rows();
        let expiries = self.expiries(&keys, &values)?;
        let (keys, values) = (self.keys.encode(&keys, rows)?, self.values.encode(&values, rows)?);
        for row in 0..rows {
            let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row));
            self.next_sub = self.next_sub.max(subs.value(row).saturating_add(1));
            self.store.put(keys.row(row), subs.value(row), values.row(row), expiry).map_err(to_datafusion)?;
        }
        Ok(())
    }

    /// Removes rows that were removed in the checkpoint: key columns, `sub`.
    pub(crate) fn restore_removes(&mut self, removes: &RecordBatch) -> DfResult<()> {
        let (keys, subs, _) = self.split(removes)?;
        let keys = self.keys.encode(&keys, removes.num_rows())?;
        for row in 0..removes.num_rows() {
            self.store.remove(keys.row(row), subs.value(row)).map_err(to_datafusion)?;
        }
        Ok(())
    }

    fn split(&self, rows: &RecordBatch) -> DfResult<(Vec<ArrayRef>, Int64Array, Vec<ArrayRef>)> {
        let width = self.schema.key.len();
        let subs = rows.columns().get(width).and_then(|subs| subs.as_primitive_opt::<Int64Type>()).cloned().ok_or_else(|| {
            to_datafusion(Error::internal(format!("rows of the state table {} have the wrong columns", self.schema.name)))
        })?;
        let keys = rows.columns().iter().take(width).cloned().collect();
        let values = rows.columns().iter().skip(width + 1).cloned().collect();
        Ok((keys, subs, values))
    }
}
