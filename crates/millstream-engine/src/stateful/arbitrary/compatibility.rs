//! Whether the state in a checkpoint is that of a processor.

use std::collections::BTreeMap;

use millstream_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::core::Processing;
use super::variable::StateVariable;

/// What a checkpoint says of a processor besides the columns of its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Properties {
    time_mode: String,
    output_mode: String,
    /// The kinds of the state variables by name.
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

impl Properties {
    pub(super) fn of(processing: &Processing) -> Self {
        let kind = |variable: &StateVariable| (variable.name.clone(), variable.kind.to_string());
        Properties {
            time_mode: processing.time_mode.to_string(),
            output_mode: processing.output_mode.to_string(),
            variables: processing.variables.iter().map(kind).collect(),
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Compares the properties of a processor in a checkpoint with those of the query. Says whether they are a processor's.
///
/// # Errors
/// `STATE_STORE_INVALID_CONFIG_AFTER_RESTART`, `STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE`.
pub(crate) fn check_properties(old: &str, new: &str) -> Result<bool> {
    let read = |text| serde_json::from_str::<Properties>(text).ok();
    let (Some(old), Some(new)) = (read(old), read(new)) else { return Ok(false) };
    for (name, old, new) in [("timeMode", &old.time_mode, &new.time_mode), ("outputMode", &old.output_mode, &new.output_mode)] {
        if old != new {
            return Err(refused(
                "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
                format!("the processor's {name} was {old} in the checkpoint and is {new}: go back to it, or start a new checkpoint"),
            ));
        }
    }
    for (name, kind) in &new.variables {
        if let Some(before) = old.variables.get(name).filter(|before| *before != kind) {
            return Err(type_change(name, before, kind));
        }
    }
    Ok(true)
}

/// The error for a variable that is declared again as something else.
pub(super) fn redeclared(known: &StateVariable, again: &StateVariable) -> Error {
    if known.kind.name() != again.kind.name() {
        return type_change(&known.name, known.kind.name(), again.kind.name());
    }
    refused(
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        format!("the state variable '{}' is declared with other columns than before", known.name),
    )
}

fn type_change(name: &str, old: &str, new: &str) -> Error {
    refused(
        "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        format!(
            "Cannot change {name} to {new} between query restarts. Please set {name} to {old}, or restart with a new checkpoint directory."
        ),
    )
}

fn refused(code: &'static str, message: String) -> Error {
    Error::new(ErrorKind::CheckpointIncompatible, code, message).with_sqlstate("42K06")
}
