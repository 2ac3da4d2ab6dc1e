//! State variables: what a processor declares that it remembers of a key.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use millstream_core::{Error, Result};

use super::super::table::{Expiry, PerKey, TableSchema};

/// The column that says when a row of a variable with a time to live leaves.
pub(super) const EXPIRES_AT: &str = "ttlExpirationMs";

/// What a variable holds for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// One row of these fields.
    Value(Fields),
    /// Rows in order.
    List(Fields),
    /// Rows by a key of the user's within the grouping key.
    Map {
        /// The fields of the user's key.
        key: Fields,
        /// The fields of the value.
        value: Fields,
    },
}

impl VariableKind {
    /// Spark's name.
    pub fn name(&self) -> &'static str {
        match self {
            VariableKind::Value(_) => "ValueState",
            VariableKind::List(_) => "ListState",
            VariableKind::Map { .. } => "MapState",
        }
    }
}

impl fmt::Display for VariableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A state variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateVariable {
    /// Its name, unique within the processor.
    pub name: String,
    /// What it holds.
    pub kind: VariableKind,
    /// How long a row lives after it was written, milliseconds of processing time; for ever without it.
    pub ttl_ms: Option<i64>,
}

impl StateVariable {
    /// A variable that holds one row of these fields.
    pub fn value(name: impl Into<String>, fields: impl Into<Fields>) -> Self {
        StateVariable { name: name.into(), kind: VariableKind::Value(fields.into()), ttl_ms: None }
    }

    /// A variable that holds rows in order.
    pub fn list(name: impl Into<String>, fields: impl Into<Fields>) -> Self {
        StateVariable { name: name.into(), kind: VariableKind::List(fields.into()), ttl_ms: None }
    }

    /// A variable that holds rows by a key.
    pub fn map(name: impl Into<String>, key: impl Into<Fields>, value: impl Into<Fields>) -> Self {
        StateVariable { name: name.into(), kind: VariableKind::Map { key: key.into(), value: value.into() }, ttl_ms: None }
    }

    /// The same variable, whose rows live for so many milliseconds of processing time after they were written.
    #[must_use]
    pub fn with_ttl(self, milliseconds: i64) -> Self {
        StateVariable { ttl_ms: Some(milliseconds), ..self }
    }

    /// Checks the name and the time to live.
    ///
    /// # Errors
    /// `STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME`, `STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS`,
    /// `STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE`, `STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL`.
    pub fn check(&self, time_mode: TimeMode) -> Result<()> {
        if self.name.is_empty() || self.name.trim() != self.name || self.name == "default" {
            return Err(Error::invalid(
                "STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME",
                format!("a state variable cannot be called '{}': choose a name without spaces around it, and not 'default'", self.name),
            )
            .with_sqlstate("42802"));
        }
        if self.name.starts_with(['_', '$']) {
            return Err(Error::invalid(
                "STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS",
                format!("a state variable cannot be called '{}': names that begin with '_' or '$' are reserved", self.name),
            )
            .with_sqlstate("42802"));
        }
        let Some(ttl_ms) = self.ttl_ms else { return Ok(()) };
        if time_mode != TimeMode::ProcessingTime {
            return Err(Error::invalid(
                "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL",
                format!(
                    "the state variable '{}' has a time to live in the time mode {time_mode}: that needs the time mode ProcessingTime",
                    self.name
                ),
            )
            .with_sqlstate("42802"));
        }
        if ttl_ms <= 0 {
            return Err(Error::invalid(
                "STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE",
                format!("the time to live of the state variable '{}' is {ttl_ms} ms and must be positive", self.name),
            )
            .with_sqlstate("42802"));
        }
        Ok(())
    }

    /// The fields of a row as it is stored.
    fn stored(&self) -> Vec<FieldRef> {
        let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        let mut fields: Vec<FieldRef> = match &self.kind {
            VariableKind::Value(fields) | VariableKind::List(fields) => fields.iter().map(nullable).collect(),
            VariableKind::Map { key, value } => key.iter().chain(value).map(nullable).collect(),
        };
        fields.extend(self.ttl_ms.map(|_| Arc::new(instant(EXPIRES_AT))));
        fields
    }

    /// The table of its rows, for keys of these columns.
    pub(super) fn table(&self, key: &[FieldRef]) -> TableSchema {
        let value = self.stored();
        let expiry = match value.len().checked_sub(1) {
            Some(last) if self.ttl_ms.is_some() => Expiry::Value(last),
            _ => Expiry::Never,
        };
        let per_key = if matches!(self.kind, VariableKind::Value(_)) { PerKey::One } else { PerKey::Many };
        TableSchema { name: self.name.clone().into(), key: key.to_vec(), value, expiry, per_key, grouped_by: None }
    }

    /// The table of the lengths of its lists: where the next row goes, and how many there are.
    pub(super) fn lengths(&self, key: &[FieldRef]) -> TableSchema {
        let long = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
        TableSchema {
            name: format!("$lengths_{}", self.name).into(),
            key: key.to_vec(),
            value: vec![long("next"), long("count")],
            expiry: Expiry::Never,
            per_key: PerKey::One,
            grouped_by: None,
        }
    }
}

/// A column of instants.
pub(super) fn instant(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, None), true)
}

/// The time that the timers of a processor go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeMode {
    /// There are no timers.
    #[default]
    None,
    /// The time of the batch.
    ProcessingTime,
    /// The watermark.
    EventTime,
}

impl TimeMode {
    /// Reads Spark's names, in any case.
    ///
    /// # Errors
    /// `IllegalArgumentException`, as in Spark.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Ok(TimeMode::None),
            "processingtime" => Ok(TimeMode::ProcessingTime),
            "eventtime" => Ok(TimeMode::EventTime),
            _ => Err(Error::invalid(
                "STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE",
                format!("Unknown time mode {text}. Accepted time modes are 'none', 'processingTime', 'eventTime'"),
            )
            .with_sqlstate("42802")),
        }
    }
}

impl fmt::Display for TimeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeMode::None => "None",
            TimeMode::ProcessingTime => "ProcessingTime",
            TimeMode::EventTime => "EventTime",
        })
    }
}
