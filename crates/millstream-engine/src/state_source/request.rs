//! What a read of the format `statestore` asks for, and the rows that answer it, in Spark's columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use arrow::row::{RowConverter, SortField};
use millstream_checkpoint::reader::CheckpointReader;
use millstream_checkpoint::state::blocks::Change;
use millstream_core::{Error, Options, Result};

use super::options::{conflict, empty, negative, no_batch, unspecified, wrong};
use super::stored::{StoredRows, StoredTable, structure, tables, unreadable};

/// The partition of every row: state is not divided among tasks in the files.
const PARTITION: i32 = 0;

/// Which of Spark's stores a table is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// The table as it is.
    Whole,
    /// A side of a join: keys and rows.
    Side,
    /// A side of a join: keys, numbers and rows.
    Numbered,
    /// A side of a join: how many rows each key has.
    Counts,
    /// Sessions: the value is the whole row.
    Sessions,
    /// Keys with nothing.
    Keys,
    /// Keys with the instant (microseconds) at which they are forgotten.
    Expiring,
    /// One number without a key.
    Single,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    table: StoredTable,
    view: View,
    /// The batch after which state is read.
    batch: u64,
    /// The batches whose changes are read instead.
    changes: Option<(u64, u64)>,
    partition: Option<i64>,
}

impl Wanted {
    /// Reads the options.
    ///
    /// # Errors
    /// Spark's `STDS_` conditions, `NumberFormatException` for what is no number, and those of reading the checkpoint.
    pub(super) async fn of(reader: &CheckpointReader, options: &Options) -> Result<Wanted> {
        let operator = number(options, "operatorId")?.unwrap_or(0);
        let store = options.get("storeName").unwrap_or("default").to_owned();
        if store.is_empty() {
            return Err(empty("storeName"));
        }
        let side = options.get("joinSide").unwrap_or("none").to_lowercase();
        if !["left", "right", "none"].contains(&side.as_str()) {
            return Err(wrong("joinSide", "valid values are left,right,none"));
        }
        if side != "none" && store != "default" {
            return Err(conflict(&["joinSide", "storeName"]));
        }
        let last = reader.last_commit().await?.ok_or_else(|| no_batch(&reader.location()))?;
        let feed = options.get("readChangeFeed").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let (batch, changes) = if feed { changes(options, &side, last)? } else { (batch(options, last)?, None) };
        if batch > last || reader.commit(batch).await?.is_none() {
            return Err(no_batch(&reader.location()));
        }
        let tables = tables(reader, batch).await?;
        let of_operator: Vec<&StoredTable> = tables.iter().filter(|table| table.operator as u64 == operator).collect();
        let Some(first) = of_operator.first() else {
            return Err(unread(format!("there is no operator {operator} with state after batch {batch} in {}", reader.location())));
        };
        let arbitrary = first.operator_name.starts_with("transformWithState");
        let asked = |option: &str| options.get(option).is_some_and(|value| option == "stateVarName" || value.eq_ignore_ascii_case("true"));
        for option in ["stateVarName", "readRegisteredTimers"] {
            if asked(option) && !arbitrary {
                return Err(wrong(option, "it is only supported with the transformWithState operator: remove it"));
            }
        }
        let store = match options.get("stateVarName") {
            Some(variable) if arbitrary => variable.to_owned(),
            _ => store,
        };
        let (table, view) = chosen(&of_operator, &store, &side)?;
        let partition = number(options, "snapshotPartitionId")?.and_then(|partition| i64::try_from(partition).ok());
        Ok(Wanted { table: table.clone(), view, batch, changes, partition })
    }

    /// The columns of the rows.
    pub(super) fn schema(&self) -> SchemaRef {
        let (key, value) = self.fields();
        let mut fields = vec![
            Field::new("key", DataType::Struct(key), true),
            Field::new("value", DataType::Struct(value), true),
            Field::new("partition_id", DataType::Int32, true),
        ];
        if self.changes.is_some() {
            fields.insert(0, Field::new("batch_id", DataType::Int64, true));
            fields.insert(1, Field::new("change_type", DataType::Utf8, true));
        }
        Arc::new(Schema::new(fields))
    }

    /// The fields of key and value.
    fn fields(&self) -> (Fields, Fields) {
        let (key, value) = (self.table.key_fields(), self.table.value_fields());
        let without_last = |fields: &Fields| -> Fields { fields.iter().take(fields.len().saturating_sub(1)).cloned().collect() };
        let only = |name: &str, data_type| Fields::from(vec![Field::new(name, data_type, true)]);
        match self.view {
            View::Whole | View::Numbered => (key, value),
            View::Side => (without_last(&key), without_last(&value)),
            View::Counts => (without_last(&key), only("value", DataType::Int64)),
            View::Keys => (key, only("__dummy__", DataType::Null)),
            View::Expiring => (key, only("expiresAtMicros", DataType::Int64)),
            View::Single => (only("key", DataType::Null), value),
            View::Sessions => {
                let bound = |name: &str, field: Option<&FieldRef>| {
                    Field::new(name, field.map_or(DataType::Null, |field| field.data_type().clone()), true)
                };
                let session = DataType::Struct(Fields::from(vec![bound("start", key.last()), bound("end", value.first())]));
                let session = Arc::new(Field::new("session_window", session, true));
                let keys = without_last(&key);
                let row = [session].into_iter().chain(keys.iter().cloned()).chain(value.iter().skip(1).cloned());
                (key.clone(), row.collect())
            }
        }
    }

    /// The rows.
    ///
    /// # Errors
    /// Those of reading the files.
    pub(super) async fn rows(&self, reader: &CheckpointReader) -> Result<Vec<RecordBatch>> {
        if self.partition.is_some_and(|partition| partition != i64::from(PARTITION)) {
            return Ok(Vec::new());
        }
        let Some((first, last)) = self.changes else {
            let (key, value) = self.shown(self.table.rows(reader, self.batch).await?)?;
            return Ok(vec![self.batch_of(vec![], key, value)?]);
        };
        let mut all = Vec::new();
        for batch in first..=last {
            for (change, rows) in self.table.changes(reader, batch).await? {
                let (key, mut value) = self.shown(rows)?;
                let word = if change == Change::Put { "update" } else { "delete" };
                if change == Change::Remove {
                    value = new_null_array(value.data_type(), value.len());
                }
                let count = key.len();
                let number = i64::try_from(batch).unwrap_or(i64::MAX);
                let head: Vec<ArrayRef> =
                    vec![Arc::new(Int64Array::from_value(number, count)), Arc::new(StringArray::from(vec![word; count]))];
                all.push(self.batch_of(head, key, value)?);
            }
        }
        Ok(all)
    }

    fn batch_of(&self, head: Vec<ArrayRef>, key: ArrayRef, value: ArrayRef) -> Result<RecordBatch> {
        let partition: ArrayRef = Arc::new(Int32Array::from_value(PARTITION, key.len()));
        let columns = head.into_iter().chain([key, value, partition]).collect();
        RecordBatch::try_new(self.schema(), columns).map_err(unreadable)
    }

    /// Keys and values as Spark shows them.
    fn shown(&self, rows: StoredRows) -> Result<(ArrayRef, ArrayRef)> {
        let count = rows.key.len();
        let (key, value) = self.fields();
        let (keys, values) = (rows.key.columns().to_vec(), rows.value.columns().to_vec());
        let (keys, values): (Vec<ArrayRef>, Vec<ArrayRef>) = match self.view {
            View::Whole | View::Numbered => (keys, values),
            View::Side => (without_last(keys), without_last(values)),
            View::Counts => counted(&without_last(keys))?,
            View::Keys => (keys, vec![new_null_array(&DataType::Null, count)]),
            View::Expiring => {
                let micros = values.first().and_then(|instants| instants.as_primitive_opt::<TimestampMicrosecondType>());
                let micros = micros.map(|instants| Arc::new(instants.reinterpret_cast::<Int64Type>()) as ArrayRef);
                (keys, micros.into_iter().collect())
            }
            View::Single => (vec![new_null_array(&DataType::Null, count)], values),
            View::Sessions => {
                let bounds: Vec<ArrayRef> = keys.last().into_iter().chain(values.first()).cloned().collect();
                let session = match value.first().map(|field| field.data_type()) {
                    Some(DataType::Struct(fields)) => structure(fields.clone(), bounds, count)?,
                    _ => return Err(Error::internal("sessions without a session")),
                };
                let row = [Arc::new(session) as ArrayRef].into_iter().chain(without_last(keys.clone())).chain(values.into_iter().skip(1));
                (keys, row.collect())
            }
        };
        let as_struct = |fields: Fields, columns: Vec<ArrayRef>| -> Result<ArrayRef> {
            let count = columns.first().map_or(count, |column| column.len());
            let columns = fields.iter().zip(columns).map(|(field, column)| cast(&column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
            let array: StructArray = structure(fields, columns, count)?;
            Ok(Arc::new(array))
        };
        Ok((as_struct(key, keys)?, as_struct(value, values)?))
    }
}

fn without_last(mut columns: Vec<ArrayRef>) -> Vec<ArrayRef> {
    columns.pop();
    columns
}

/// Distinct keys, and how many rows each has; equal keys follow each other.
fn counted(keys: &[ArrayRef]) -> Result<(Vec<ArrayRef>, Vec<ArrayRef>)> {
    let fields: Vec<SortField> = keys.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(unreadable)?;
    let rows = converter.convert_columns(keys).map_err(unreadable)?;
    let (mut first, mut counts): (Vec<usize>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in 0..rows.num_rows() {
        match (first.last(), counts.last_mut()) {
            (Some(known), Some(count)) if rows.row(*known) == rows.row(row) => *count += 1,
            _ => {
                first.push(row);
                counts.push(1);
            }
        }
    }
    let distinct = converter.convert_rows(first.into_iter().map(|row| rows.row(row))).map_err(unreadable)?;
    Ok((distinct, vec![Arc::new(Int64Array::from(counts))]))
}

/// The table of an operator that a store is, and how it is shown.
fn chosen<'a>(tables: &[&'a StoredTable], store: &str, side: &str) -> Result<(&'a StoredTable, View)> {
    let named = |name: &str| tables.iter().find(|table| table.name == name).copied();
    let first = tables.first().copied();
    let operator = first.map(|table| table.operator_name.as_str()).unwrap_or_default();
    if operator == "symmetricHashJoin" {
        let (wanted, view) = match (side, store.split_once('-')) {
            ("left" | "right", _) => (side, View::Side),
            (_, Some((side, "keyToNumValues"))) => (side, View::Counts),
            (_, Some((side, "keyWithIndexToValue"))) => (side, View::Numbered),
            (_, None) if store == "default" => {
                return Err(unread(
                    "a join has no store 'default': give joinSide, or a storeName such as left-keyWithIndexToValue".to_owned(),
                ));
            }
            _ => return Err(wrong("storeName", &format!("a join has no store '{store}'"))),
        };
        return named(wanted).map(|table| (table, view)).ok_or_else(|| wrong("storeName", &format!("a join has no store '{store}'")));
    }
    if side != "none" {
        return Err(unread(format!("joinSide is for joins, but the operator is {operator}")));
    }
    // What the operator itself keeps first is what Spark keeps under this name.
    let table = if store == "default" { first } else { named(store) };
    let table = table.ok_or_else(|| wrong("storeName", &format!("the operator {operator} has no store '{store}'")))?;
    let view = match operator {
        "sessionWindowStateStoreSaveExec" => View::Sessions,
        "dedupe" => View::Keys,
        "dedupeWithinWatermark" => View::Expiring,
        "globalLimit" => View::Single,
        _ => View::Whole,
    };
    Ok((table, view))
}

fn unread(why: String) -> Error {
    Error::invalid("STDS_FAILED_TO_READ_STATE_SCHEMA", format!("the schema of the state cannot be read: {why}")).with_sqlstate("42K03")
}

/// An option as a number that is not negative.
fn number(options: &Options, name: &str) -> Result<Option<u64>> {
    let Some(text) = options.get(name) else { return Ok(None) };
    let number: i64 = text.trim().parse().map_err(|_| Error::invalid("NumberFormatException", format!("For input string: \"{text}\"")))?;
    u64::try_from(number).map(Some).map_err(|_| negative(name))
}

/// The batch after which state is read.
fn batch(options: &Options, last: u64) -> Result<u64> {
    if options.get("changeStartBatchId").is_some() || options.get("changeEndBatchId").is_some() {
        let given = if options.get("changeStartBatchId").is_some() { "changeStartBatchId" } else { "changeEndBatchId" };
        return Err(wrong(given, "only specify this option when readChangeFeed is set to true"));
    }
    let batch = number(options, "batchId")?.unwrap_or(last);
    let (snapshot, partition) = (number(options, "snapshotStartBatchId")?, number(options, "snapshotPartitionId")?);
    match (snapshot, partition) {
        (Some(_), None) => Err(unspecified("snapshotPartitionId")),
        (None, Some(_)) => Err(unspecified("snapshotStartBatchId")),
        (Some(snapshot), _) if snapshot > batch => {
            Err(wrong("snapshotStartBatchId", &format!("the value should be less than or equal to {batch}")))
        }
        _ => Ok(batch),
    }
}

/// The batches whose changes are read.
fn changes(options: &Options, side: &str, last: u64) -> Result<(u64, Option<(u64, u64)>)> {
    if side != "none" {
        return Err(conflict(&["joinSide", "readChangeFeed"]));
    }
    for option in ["batchId", "snapshotStartBatchId", "snapshotPartitionId"] {
        if options.get(option).is_some() {
            return Err(conflict(&[option, "readChangeFeed"]));
        }
    }
    let first = number(options, "changeStartBatchId")?.ok_or_else(|| unspecified("changeStartBatchId"))?;
    let end = number(options, "changeEndBatchId")?.unwrap_or(last);
    if end < first {
        return Err(wrong("changeEndBatchId", "it cannot be smaller than changeStartBatchId"));
    }
    Ok((end, Some((first, end))))
}
