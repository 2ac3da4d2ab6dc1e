//! What a processor remembers: its state variables and timers, in tables like those of every other operator.
//!
//! Every table has the columns of the grouping key as its key, so that a key is encoded once for all of them and all rows of a key stay
//! together.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{FieldRef, Int64Type};
use datafusion::error::Result as DfResult;
use millstream_core::{Error, Result};

use super::super::operator::Counts;
use super::super::table::{StateTable, TableSchema, Tables, normalize};
use super::super::{micros, slices};
use super::fingerprint::fingerprint;
use super::map::MapTable;
use super::rows::{Expiring, Rows};
use super::timers::Timers;
use super::variable::{StateVariable, TimeMode, VariableKind};
use crate::from_datafusion;

/// A grouping key as the tables know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey(pub(super) Box<[u8]>);

/// The state of one processor. Rows are given and taken in columns.
#[derive(Debug)]
pub struct ProcessorState {
    tables: Tables,
    keys: Vec<FieldRef>,
    time_mode: TimeMode,
    variables: Vec<Variable>,
    /// Tables of variables that the processor had in an earlier run and does not declare any more.
    kept: Vec<StateTable>,
    pub(super) timers: Timers,
    /// Processing time: the time of the batch, milliseconds.
    now_ms: i64,
    /// The watermark, milliseconds.
    watermark_ms: i64,
    counts: Counts,
    metrics: BTreeMap<String, i64>,
}

/// A variable with its rows.
#[derive(Debug)]
struct Variable {
    declared: StateVariable,
    stored: Stored,
}

#[derive(Debug)]
enum Stored {
    Value(StateTable),
    List { rows: StateTable, lengths: StateTable },
    Map(MapTable),
}

impl Stored {
    fn tables(&mut self) -> Vec<&mut StateTable> {
        match self {
            Stored::Value(table) => vec![table],
            Stored::List { rows, lengths } => vec![rows, lengths],
            Stored::Map(map) => vec![&mut map.table],
        }
    }
}

impl ProcessorState {
    /// Empty state for grouping keys of these columns.
    ///
    /// # Errors
    /// When a column has a type that state cannot have.
    pub fn new(keys: Vec<FieldRef>, time_mode: TimeMode, variables: &[StateVariable]) -> Result<Self> {
        Self::over(Tables::in_memory(), keys, time_mode, variables).map_err(from_datafusion)
    }

    /// Empty state in tables of a task.
    pub(super) fn over(tables: Tables, keys: Vec<FieldRef>, time_mode: TimeMode, variables: &[StateVariable]) -> DfResult<Self> {
        let timers = Timers::new(&keys, &tables)?;
        let mut state = ProcessorState {
            tables,
            keys,
            time_mode,
            variables: Vec::new(),
            kept: Vec::new(),
            timers,
            now_ms: 0,
            watermark_ms: 0,
            counts: Counts::default(),
            metrics: BTreeMap::new(),
        };
        for variable in variables {
            state.add(variable.clone())?;
        }
        Ok(state)
    }

    /// The tables of these variables, in the order of [`ProcessorState::tables`].
    pub(super) fn schemas(keys: &[FieldRef], variables: &[StateVariable]) -> Vec<TableSchema> {
        let mut schemas = vec![Timers::schema(keys)];
        for variable in variables {
            schemas.push(variable.table(keys));
            if matches!(variable.kind, VariableKind::List(_)) {
                schemas.push(variable.lengths(keys));
            }
        }
        schemas
    }

    fn add(&mut self, declared: StateVariable) -> DfResult<()> {
        // The columns that an earlier run had may be others; whoever wants them declares the variable before the query runs.
        if self.kept.iter().any(|known| known.schema().name == declared.name) {
            return Err(crate::to_datafusion(Error::internal(format!("the state variable '{}' is declared too late", declared.name))));
        }
        let rows = self.tables.open(declared.table(&self.keys))?;
        let stored = match &declared.kind {
            VariableKind::Value(_) => Stored::Value(rows),
            VariableKind::List(_) => Stored::List { rows, lengths: self.tables.open(declared.lengths(&self.keys))? },
            VariableKind::Map { key, .. } => Stored::Map(MapTable::new(rows, key.len(), fingerprint)),
        };
        let kind = format!("num{}{}Vars", declared.kind.name(), if declared.ttl_ms.is_some() { "WithTTL" } else { "" });
        *self.metrics.entry(kind).or_default() += 1;
        self.variables.push(Variable { declared, stored });
        Ok(())
    }

    pub(super) fn begin(&mut self, now_ms: i64, watermark_ms: i64) {
        (self.now_ms, self.watermark_ms) = (now_ms, watermark_ms);
        self.counts = Counts::default();
        self.metrics.retain(|name, _| name.ends_with("Vars"));
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn metrics(&self) -> BTreeMap<String, i64> {
        self.metrics.clone()
    }

    pub(super) fn tables(&mut self) -> Vec<&mut StateTable> {
        let variables = self.variables.iter_mut().flat_map(|variable| variable.stored.tables());
        [&mut self.timers.table].into_iter().chain(variables).chain(&mut self.kept).collect()
    }

    /// Rows as Spark counts them: a list is one, timers are none.
    pub(super) fn rows(&self) -> u64 {
        let rows = self.variables.iter().map(|variable| match &variable.stored {
            Stored::Value(table) => table.len(),
            Stored::List { lengths, .. } => lengths.len(),
            Stored::Map(map) => map.table.len(),
        });
        let kept = self.kept.iter().filter(|table| !table.schema().name.starts_with('$'));
        rows.sum::<u64>() + kept.map(StateTable::len).sum::<u64>()
    }

    pub(super) fn keep(&mut self, schema: TableSchema) -> DfResult<()> {
        self.kept.push(self.tables.open(schema)?);
        Ok(())
    }

    /// Removes what has outlived its time.
    pub(super) fn expire(&mut self) -> DfResult<()> {
        let mut expired = 0;
        for variable in &mut self.variables {
            if variable.declared.ttl_ms.is_none() {
                continue;
            }
            expired += match &mut variable.stored {
                Stored::Value(table) => table.expire(micros(self.now_ms))?.len(),
                Stored::Map(map) => map.expire(micros(self.now_ms))?,
                Stored::List { rows, lengths } => {
                    let gone = rows.expire(micros(self.now_ms))?;
                    let mut of_key: BTreeMap<&[u8], i64> = BTreeMap::new();
                    gone.iter().for_each(|(key, ..)| *of_key.entry(key).or_default() += 1);
                    for (key, removed) in of_key {
                        let (next, count) = length(lengths, key)?;
                        set_length(lengths, key, next, count - removed)?;
                    }
                    gone.len()
                }
            };
        }
        if expired > 0 {
            self.counts.removed += expired as u64;
            self.metric("numValuesRemovedDueToTTLExpiry", expired);
        }
        Ok(())
    }

    fn metric(&mut self, name: &str, by: usize) {
        *self.metrics.entry(name.to_owned()).or_default() += i64::try_from(by).unwrap_or(i64::MAX);
    }

    /// When rows of a variable that are written now leave, microseconds.
    fn expires(&self, variable: usize) -> Option<i64> {
        let ttl_ms = self.variables.get(variable)?.declared.ttl_ms?;
        Some(micros(self.now_ms.saturating_add(ttl_ms)))
    }

    /// The columns of the grouping key.
    pub fn key_fields(&self) -> &[FieldRef] {
        &self.keys
    }

    /// The time mode of the processor.
    pub fn time_mode(&self) -> TimeMode {
        self.time_mode
    }

    /// The time of the batch, milliseconds since the epoch.
    pub fn processing_time_ms(&self) -> i64 {
        self.now_ms
    }

    /// The watermark of the batch, milliseconds since the epoch; 0 before time has passed.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark_ms
    }

    /// A grouping key from its columns, one row each.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the columns are not those of the key.
    pub fn key(&self, columns: &[ArrayRef]) -> Result<GroupKey> {
        let encode = || {
            let columns = columns.iter().map(normalize).collect::<DfResult<Vec<_>>>()?;
            Ok(GroupKey(self.timers.table.encode_keys(&columns, 1)?.row(0).into()))
        };
        encode().map_err(from_datafusion)
    }

    /// The columns of grouping keys, one row for each.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn key_columns<'a>(&self, keys: impl IntoIterator<Item = &'a GroupKey>) -> Result<Vec<ArrayRef>> {
        self.timers.table.decode_keys(keys.into_iter().map(|key| key.0.as_ref())).map_err(from_datafusion)
    }

    /// Makes sure that there is a variable, which has been declared before or in this run. Returns its number.
    ///
    /// # Errors
    /// Those of [`StateVariable::check`]; `STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE` and `STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE` when there is
    /// another variable of the name.
    pub fn declare(&mut self, variable: StateVariable) -> Result<usize> {
        variable.check(self.time_mode)?;
        match self.variable(&variable.name) {
            Some(known) => {
                if let Some(Variable { declared, .. }) = self.variables.get(known)
                    && declared.kind != variable.kind
                {
                    return Err(super::compatibility::redeclared(declared, &variable));
                }
                Ok(known)
            }
            None => {
                self.add(variable).map_err(from_datafusion)?;
                Ok(self.variables.len() - 1)
            }
        }
    }

    /// The number of a variable.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.declared.name == name)
    }

    /// What a variable holds.
    pub fn kind(&self, variable: usize) -> Option<&VariableKind> {
        self.variables.get(variable).map(|variable| &variable.declared.kind)
    }

    /// Forgets all that a variable holds, also one that an earlier run declared. Says whether there was one.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn purge(&mut self, name: &str) -> Result<bool> {
        let lengths = format!("$lengths_{name}");
        let of_variable = |table: &&mut StateTable| table.schema().name == name || table.schema().name == lengths;
        let mut found = false;
        for table in self.tables().into_iter().filter(of_variable) {
            found = true;
            let mut rows = Vec::new();
            table.each(&mut |key, sub| rows.push((key.into(), sub))).map_err(from_datafusion)?;
            for (key, sub) in rows {
                let key: Box<[u8]> = key;
                table.remove(&key, sub).map_err(from_datafusion)?;
            }
        }
        if found {
            self.metric("numDeletedStateVars", 1);
        }
        Ok(found)
    }

    fn stored(&mut self, variable: usize) -> Result<&mut Stored> {
        self.variables
            .get_mut(variable)
            .map(|variable| &mut variable.stored)
            .ok_or_else(|| Error::internal("a state variable that is not there"))
    }

    fn value_table(&mut self, variable: usize) -> Result<&mut StateTable> {
        match self.stored(variable)? {
            Stored::Value(table) => Ok(table),
            _ => Err(Error::internal("a state variable is not a value")),
        }
    }

    fn list_tables(&mut self, variable: usize) -> Result<(&mut StateTable, &mut StateTable)> {
        match self.stored(variable)? {
            Stored::List { rows, lengths } => Ok((rows, lengths)),
            _ => Err(Error::internal("a state variable is not a list")),
        }
    }

    fn map_table(&mut self, variable: usize) -> Result<&mut MapTable> {
        match self.stored(variable)? {
            Stored::Map(map) => Ok(map),
            _ => Err(Error::internal("a state variable is not a map")),
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn value(&mut self, variable: usize, key: &GroupKey) -> Result<Option<Vec<ArrayRef>>> {
        let expiring = self.expiring(variable);
        let rows = read(self.value_table(variable)?, key, &expiring).map_err(from_datafusion)?;
        Ok((rows.count > 0).then_some(rows.columns))
    }

    /// Sets the value of a key: columns of one row.
    ///
    /// # Errors
    /// Those of the state store; `INTERNAL_ERROR` for other columns than the variable has.
    pub fn set_value(&mut self, variable: usize, key: &GroupKey, value: &[ArrayRef]) -> Result<()> {
        let expires = self.expires(variable);
        let table = self.value_table(variable)?;
        let put = |table: &mut StateTable| {
            let encoded = table.encode_values(&Expiring::columns(value, 1, expires), 1)?;
            table.put(&key.0, 0, encoded.row(0), expires)
        };
        put(table).map_err(from_datafusion)?;
        self.counts.updated += 1;
        Ok(())
    }

    /// Clears the value of a key.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear_value(&mut self, variable: usize, key: &GroupKey) -> Result<()> {
        self.value_table(variable)?.remove(&key.0, 0).map_err(from_datafusion)?;
        self.counts.removed += 1;
        Ok(())
    }

    /// The rows of a key's list, in order.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn list(&mut self, variable: usize, key: &GroupKey) -> Result<Rows> {
        let expiring = self.expiring(variable);
        read(self.list_tables(variable)?.0, key, &expiring).map_err(from_datafusion)
    }

    /// Appends rows to a key's list.
    ///
    /// # Errors
    /// `ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE` without rows; as [`ProcessorState::set_value`].
    pub fn append(&mut self, variable: usize, key: &GroupKey, rows: &Rows) -> Result<()> {
        self.some(variable, rows)?;
        let expires = self.expires(variable);
        let (table, lengths) = self.list_tables(variable)?;
        append(table, lengths, key, rows, expires).map_err(from_datafusion)?;
        self.counts.updated += rows.count as u64;
        Ok(())
    }

    /// Replaces the rows of a key's list.
    ///
    /// # Errors
    /// As [`ProcessorState::append`].
    pub fn replace(&mut self, variable: usize, key: &GroupKey, rows: &Rows) -> Result<()> {
        self.some(variable, rows)?;
        let expires = self.expires(variable);
        let (table, lengths) = self.list_tables(variable)?;
        let put = remove_list(table, lengths, key).and_then(|()| append(table, lengths, key, rows, expires));
        put.map_err(from_datafusion)?;
        self.counts.updated += rows.count as u64;
        Ok(())
    }

    /// A list is cleared, and not made of no rows.
    fn some(&self, variable: usize, rows: &Rows) -> Result<()> {
        if rows.count > 0 {
            return Ok(());
        }
        let name = self.variables.get(variable).map_or("", |variable| variable.declared.name.as_str());
        Err(Error::invalid(
            "ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE",
            format!("Cannot write empty list values to State Store for StateName {name}: clear the list instead"),
        )
        .with_sqlstate("42601"))
    }

    /// Clears a key's list.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear_list(&mut self, variable: usize, key: &GroupKey) -> Result<()> {
        let (table, lengths) = self.list_tables(variable)?;
        remove_list(table, lengths, key).map_err(from_datafusion)?;
        self.counts.removed += 1;
        Ok(())
    }

    /// The value of a user's key in a key's map.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn map_value(&mut self, variable: usize, key: &GroupKey, user_key: &[ArrayRef]) -> Result<Option<Vec<ArrayRef>>> {
        let expiring = self.expiring(variable);
        self.map_table(variable)?.get(key, user_key, &expiring).map_err(from_datafusion)
    }

    /// Sets the value of a user's key in a key's map.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn set_map_value(&mut self, variable: usize, key: &GroupKey, user_key: &[ArrayRef], value: &[ArrayRef]) -> Result<()> {
        let expires = self.expires(variable);
        self.map_table(variable)?.put(key, user_key, value, expires).map_err(from_datafusion)?;
        self.counts.updated += 1;
        Ok(())
    }

    /// Removes a user's key from a key's map.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn remove_map_value(&mut self, variable: usize, key: &GroupKey, user_key: &[ArrayRef]) -> Result<()> {
        self.map_table(variable)?.remove(key, user_key).map_err(from_datafusion)?;
        self.counts.removed += 1;
        Ok(())
    }

    /// The entries of a key's map: the user's keys and the values.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn map_entries(&mut self, variable: usize, key: &GroupKey) -> Result<(Rows, Rows)> {
        let expiring = self.expiring(variable);
        self.map_table(variable)?.entries(key, &expiring).map_err(from_datafusion)
    }

    /// Clears a key's map.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear_map(&mut self, variable: usize, key: &GroupKey) -> Result<()> {
        let removed = self.map_table(variable)?.clear(key).map_err(from_datafusion)?;
        self.counts.removed += removed as u64;
        Ok(())
    }

    /// Registers a timer of a key, milliseconds since the epoch.
    ///
    /// # Errors
    /// `STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE` in the time mode `None`; those of the state store.
    pub fn register_timer(&mut self, key: &GroupKey, at_ms: i64) -> Result<()> {
        self.allow_timers("register_timer")?;
        if self.timers.register(key, at_ms).map_err(from_datafusion)? {
            self.metric("numRegisteredTimers", 1);
        }
        Ok(())
    }

    /// Deletes a timer of a key.
    ///
    /// # Errors
    /// As [`ProcessorState::register_timer`].
    pub fn delete_timer(&mut self, key: &GroupKey, at_ms: i64) -> Result<()> {
        self.allow_timers("delete_timer")?;
        if self.timers.delete(key, at_ms).map_err(from_datafusion)? {
            self.metric("numDeletedTimers", 1);
        }
        Ok(())
    }

    /// The timers of a key in the order of time, milliseconds.
    ///
    /// # Errors
    /// As [`ProcessorState::register_timer`].
    pub fn timers(&mut self, key: &GroupKey) -> Result<Vec<i64>> {
        self.allow_timers("list_timers")?;
        self.timers.of(key).map_err(from_datafusion)
    }

    /// The timers that are due in this batch, in the order of time. They stay until they are deleted.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn due_timers(&mut self) -> Result<Vec<(GroupKey, i64)>> {
        let instant_ms = match self.time_mode {
            TimeMode::None => return Ok(Vec::new()),
            TimeMode::ProcessingTime => self.now_ms,
            TimeMode::EventTime => self.watermark_ms,
        };
        let due = self.timers.due(instant_ms).map_err(from_datafusion)?;
        if !due.is_empty() {
            self.metric("numExpiredTimers", due.len());
        }
        Ok(due)
    }

    /// Whether any timer may be due in this batch.
    pub(super) fn any_due(&self) -> bool {
        let instant_ms = match self.time_mode {
            TimeMode::None => return false,
            TimeMode::ProcessingTime => self.now_ms,
            TimeMode::EventTime => self.watermark_ms,
        };
        self.timers.first_ms().is_some_and(|first| first <= instant_ms)
    }

    fn allow_timers(&self, operation: &str) -> Result<()> {
        if self.time_mode != TimeMode::None {
            return Ok(());
        }
        Err(Error::invalid(
            "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE",
            format!("Failed to perform stateful processor operation={operation} with invalid timeMode=None: choose another time mode"),
        )
        .with_sqlstate("42802"))
    }

    fn expiring(&self, variable: usize) -> Expiring {
        let ttl = self.variables.get(variable).and_then(|variable| variable.declared.ttl_ms);
        Expiring { at: ttl.map(|_| micros(self.now_ms)) }
    }
}

/// The rows of a key that have not expired, in order.
fn read(table: &mut StateTable, key: &GroupKey, expiring: &Expiring) -> DfResult<Rows> {
    let mut values: Vec<Box<[u8]>> = Vec::new();
    table.get_many([key.0.as_ref()], &mut |_, _, value| values.push(value.into()))?;
    let columns = table.decode_values(slices(&values))?;
    expiring.alive(Rows { columns, count: values.len() })
}

fn append(table: &mut StateTable, lengths: &mut StateTable, key: &GroupKey, rows: &Rows, expires: Option<i64>) -> DfResult<()> {
    let (next, count) = length(lengths, &key.0)?;
    let encoded = table.encode_values(&Expiring::columns(&rows.columns, rows.count, expires), rows.count)?;
    for (sub, value) in (next..).zip(encoded.iter()) {
        table.put(&key.0, sub, value, expires)?;
    }
    let added = rows.count as i64;
    set_length(lengths, &key.0, next + added, count + added)
}

fn remove_list(table: &mut StateTable, lengths: &mut StateTable, key: &GroupKey) -> DfResult<()> {
    let mut subs = Vec::new();
    table.get_many([key.0.as_ref()], &mut |_, sub, _| subs.push(sub))?;
    for sub in subs {
        table.remove(&key.0, sub)?;
    }
    lengths.remove(&key.0, 0).map(drop)
}

/// Where the next row of a list goes, and how many it has.
fn length(lengths: &mut StateTable, key: &[u8]) -> DfResult<(i64, i64)> {
    let mut found: Option<Box<[u8]>> = None;
    lengths.get_many([key], &mut |_, _, value| found = Some(value.into()))?;
    let columns = lengths.decode_values(slices(found.as_slice()))?;
    let number = |index: usize| {
        let column = columns.get(index).and_then(|column| column.as_primitive_opt::<Int64Type>());
        column.filter(|column| !column.is_empty()).map_or(0, |column| column.value(0))
    };
    Ok((number(0), number(1)))
}

fn set_length(lengths: &mut StateTable, key: &[u8], next: i64, count: i64) -> DfResult<()> {
    if count <= 0 {
        return lengths.remove(key, 0).map(drop);
    }
    let columns: [ArrayRef; 2] = [next, count].map(|number| std::sync::Arc::new(Int64Array::from(vec![number])) as ArrayRef);
    let encoded = lengths.encode_values(&columns, 1)?;
    lengths.put(key, 0, encoded.row(0), None)
}
