//! A table of state: rows of Arrow columns by key, and what changed in them since the last batch.
//!
//! A table knows columns, a [`Store`] knows bytes. Keys and values are row-encoded on the way, so that every operator's state looks the same
//! to a store, and decoded again where changes are written to the checkpoint. Each task has tables of its own, with the keys of its key groups.

mod changes;
mod codec;
mod normalize;
mod placement;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_checkpoint::state::key::{self, NEVER};
use millstream_checkpoint::state::store::{ExpiryOf, Shape, Store};
use millstream_core::Error;

use changes::Touched;
pub(crate) use changes::{ChangedRows, Changes};
use codec::columns_of;
pub(crate) use codec::{Codec, Encoded, EncodedKeys};
pub(crate) use millstream_checkpoint::state::store::PerKey;
pub(crate) use normalize::normalize;
pub(crate) use placement::{Placement, Tables, task_of};

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
    /// How many values a key has.
    pub(crate) per_key: PerKey,
    /// The key columns that say which task has a row, where it is not all of them.
    pub(crate) grouped_by: Option<Vec<usize>>,
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
    /// What a store has to know about it.
    fn shape(&self) -> Shape {
        let expiry = match self.expiry {
            Expiry::Never => ExpiryOf::Nothing,
            Expiry::Key(_) => ExpiryOf::Key,
            Expiry::Value(_) => ExpiryOf::Value,
        };
        Shape { per_key: self.per_key, expiry }
    }

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
        Some(TableSchema { name: name.to_owned().into(), key, value, expiry: Expiry::Never, per_key: PerKey::Many, grouped_by: None })
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

/// Rows in columns, as they came out of a table.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) keys: Vec<ArrayRef>,
    pub(crate) subs: Vec<i64>,
    pub(crate) values: Vec<ArrayRef>,
}

/// How the columns of a table become bytes.
#[derive(Debug)]
struct Codecs {
    keys: Codec,
    /// Of the columns that say which key group a row is in, where it is not all of the key.
    groups: Option<Codec>,
    /// Whether keys have their expiry in front of their columns.
    expiring: bool,
    values: Codec,
}

impl Codecs {
    fn of(schema: &TableSchema) -> DfResult<Self> {
        let codec = |fields: &[FieldRef]| Codec::new(fields.iter().map(|field| field.data_type()));
        let groups = schema.grouped_by.as_ref().map(|columns| {
            let fields: Vec<FieldRef> = columns.iter().filter_map(|column| schema.key.get(*column)).cloned().collect();
            codec(&fields)
        });
        let expiring = matches!(schema.expiry, Expiry::Key(_));
        Ok(Codecs { keys: codec(&schema.key)?, groups: groups.transpose()?, expiring, values: codec(&schema.value)? })
    }

    fn decode_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        self.keys.decode(keys.into_iter().map(|key| columns_of(key, self.expiring)))
    }
}

/// A table of one task.
#[derive(Debug)]
pub(crate) struct StateTable {
    schema: TableSchema,
    /// The key groups of the task.
    groups: Range<u16>,
    codecs: Arc<Codecs>,
    store: Box<dyn Store>,
    /// What changed since the last batch.
    touched: Touched,
    /// Beyond every `sub` there is.
    next_sub: i64,
}

impl StateTable {
    fn new(schema: TableSchema, groups: Range<u16>, store: Box<dyn Store>) -> DfResult<Self> {
        let codecs = Arc::new(Codecs::of(&schema)?);
        Ok(StateTable { schema, groups, codecs, store, touched: Touched::default(), next_sub: 0 })
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

    /// Encodes keys.
    pub(crate) fn encode_keys(&self, columns: &[ArrayRef], rows: usize) -> DfResult<EncodedKeys> {
        let expiries = match self.schema.expiry {
            Expiry::Key(index) => columns.get(index).map(instants).transpose()?,
            _ => None,
        };
        let encoded = self.codecs.keys.encode(columns, rows)?;
        let (Some(groups), Some(of)) = (&self.codecs.groups, &self.schema.grouped_by) else {
            return Ok(EncodedKeys::of(&encoded, &encoded, expiries.as_ref()));
        };
        let grouped_by: Vec<ArrayRef> = of.iter().filter_map(|column| columns.get(*column)).cloned().collect();
        Ok(EncodedKeys::of(&encoded, &groups.encode(&grouped_by, rows)?, expiries.as_ref()))
    }

    /// Key columns from encoded keys.
    pub(crate) fn decode_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        self.codecs.decode_keys(keys)
    }

    /// Encodes values.
    pub(crate) fn encode_values(&self, columns: &[ArrayRef], rows: usize) -> DfResult<Encoded> {
        self.codecs.values.encode(columns, rows)
    }

    /// Value columns from encoded values.
    pub(crate) fn decode_values<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        self.codecs.values.decode(values)
    }

    /// Visits the values of each key: the position of the key, which of its values, the value. Keys come in any order.
    pub(crate) fn get_many<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a [u8]>,
        visit: &mut dyn FnMut(usize, i64, &[u8]),
    ) -> DfResult<()> {
        let keys: Vec<&[u8]> = keys.into_iter().collect();
        self.store.get_many(&keys, visit).map_err(to_datafusion)
    }

    /// One value of a key.
    pub(crate) fn get(&mut self, key: &[u8], sub: i64) -> DfResult<Option<Box<[u8]>>> {
        self.store.get(key, sub).map_err(to_datafusion)
    }

    /// Whether there is a value.
    pub(crate) fn contains(&mut self, key: &[u8], sub: i64) -> DfResult<bool> {
        Ok(self.get(key, sub)?.is_some())
    }

    /// Puts a value, which may leave when event time has passed `expiry` (microseconds).
    pub(crate) fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: Option<i64>) -> DfResult<()> {
        let existed = self.store.put(key, sub, value, expiry.unwrap_or(NEVER)).map_err(to_datafusion)?;
        self.touched.note(key, sub, existed, Some(value));
        Ok(())
    }

    /// Puts another value beside those that the key has.
    pub(crate) fn append(&mut self, key: &[u8], value: &[u8], expiry: Option<i64>) -> DfResult<()> {
        let sub = self.next_sub;
        self.next_sub += 1;
        self.store.insert(key, sub, value, expiry.unwrap_or(NEVER)).map_err(to_datafusion)?;
        self.touched.note(key, sub, false, Some(value));
        Ok(())
    }

    /// Removes a value. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8], sub: i64) -> DfResult<bool> {
        let existed = self.store.remove(key, sub).map_err(to_datafusion)?;
        if existed {
            self.touched.note(key, sub, true, None);
        }
        Ok(existed)
    }

    /// Removes and returns every row whose expiry is at or before `instant` (microseconds).
    pub(crate) fn expire(&mut self, instant: i64) -> DfResult<Vec<Row>> {
        let mut gone: Vec<Row> = Vec::new();
        self.store.take_expired(instant, &mut |key, sub, value| gone.push((key.into(), sub, value.into()))).map_err(to_datafusion)?;
        for (key, sub, _) in &gone {
            self.touched.note(key, *sub, true, None);
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
        self.store.scan(self.groups.clone(), &mut each).map_err(to_datafusion)
    }

    /// Every row, in pieces of at most `rows`.
    pub(crate) fn scan(&self, rows: usize, visit: &mut dyn FnMut(Selection) -> DfResult<()>) -> DfResult<()> {
        self.scan_groups(self.groups.clone(), rows, visit)
    }

    fn scan_groups(&self, groups: Range<u16>, rows: usize, visit: &mut dyn FnMut(Selection) -> DfResult<()>) -> DfResult<()> {
        let mut piece: Vec<Row> = Vec::new();
        let mut outcome = Ok(());
        self.store
            .scan(groups, &mut |key, sub, value| {
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
            keys: self.decode_keys(rows.iter().map(|(key, _, _)| key.as_ref()))?,
            subs: rows.iter().map(|(_, sub, _)| *sub).collect(),
            values: self.codecs.values.decode(rows.iter().map(|(_, _, value)| value.as_ref()))?,
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

    /// Ends a batch: what has to be on disk is written, and memory that the query has no room for is given up.
    pub(crate) fn settle(&mut self) -> DfResult<()> {
        self.store.settle().map_err(to_datafusion)
    }

    /// What changed since the last call, `None` when nothing did.
    pub(crate) fn take_changes(&mut self) -> Option<Changes> {
        let (puts, removes) = self.touched.take();
        let changed = !puts.is_empty() || !removes.is_empty();
        changed.then(|| Changes { schema: self.schema.clone(), codecs: self.codecs.clone(), puts, removes })
    }

    /// The rows of these key groups as puts, in pieces: a part of a snapshot.
    pub(crate) fn snapshot(&self, groups: Range<u16>, rows: usize, visit: &mut dyn FnMut(RecordBatch) -> DfResult<()>) -> DfResult<()> {
        self.scan_groups(groups, rows, &mut |piece| {
            let mut columns = piece.keys;
            columns.push(Arc::new(Int64Array::from(piece.subs)));
            columns.extend(piece.values);
            visit(RecordBatch::try_new(self.schema.change_schema(), columns)?)
        })
    }

    /// Puts rows that were read from the checkpoint, as far as they are of this task: key columns, `sub`, value columns. `new` says that the table
    /// has none of them yet.
    pub(crate) fn restore(&mut self, puts: &RecordBatch, new: bool) -> DfResult<()> {
        let (keys, subs, values) = self.split(puts)?;
        let rows = puts.num_rows();
        let expiries = self.expiries(&keys, &values)?;
        let (keys, values) = (self.encode_keys(&keys, rows)?, self.encode_values(&values, rows)?);
        let own: Vec<(usize, &[u8])> = keys.iter().enumerate().filter(|(_, key)| self.groups.contains(&key::group(key))).collect();
        if self.schema.per_key == PerKey::One && !new && !self.store.is_empty() {
            // On a disk, asking for all of them costs less than asking for each.
            self.get_many(own.iter().map(|(_, key)| *key), &mut |_, _, _| {})?;
        }
        for (row, key) in own {
            let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map_or(NEVER, |expiries| expiries.value(row));
            let (sub, value) = (subs.value(row), values.row(row));
            self.next_sub = self.next_sub.max(sub.saturating_add(1));
            let put = if new { self.store.insert(key, sub, value, expiry) } else { self.store.put(key, sub, value, expiry).map(drop) };
            put.map_err(to_datafusion)?;
        }
        Ok(())
    }

    /// Removes rows that were removed in the checkpoint: key columns, `sub`.
    pub(crate) fn restore_removes(&mut self, removes: &RecordBatch) -> DfResult<()> {
        let (keys, subs, _) = self.split(removes)?;
        let keys = self.encode_keys(&keys, removes.num_rows())?;
        for (row, key) in keys.iter().enumerate().filter(|(_, key)| self.groups.contains(&key::group(key))) {
            self.store.remove(key, subs.value(row)).map_err(to_datafusion)?;
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
