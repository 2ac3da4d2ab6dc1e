//! Arbitrary state: operators whose logic is a program's.
//!
//! A [`StatefulProcessor`] (Spark's `transformWithState`) has state variables and timers for each key; a [`GroupFunction`]
//! (`applyInPandasWithState`) has one state and one timeout. Both collect the rows of a batch, hand them over key by key, and keep what is
//! remembered in the tables that every operator has. Programs in this process implement [`StatefulProcessor`]; code that runs elsewhere, as
//! Python's, implements [`ProcessorRuntime`], which is given whole batches.

mod batch;
mod compatibility;
mod core;
mod fingerprint;
mod group_state;
mod groups;
mod map;
mod output;
mod processor;
mod rows;
mod state;
mod timers;
mod variable;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use millstream_core::{Error, Result};

pub use batch::{Emit, ProcessorBatch, ProcessorGroup, ProcessorRuntime};
pub(crate) use compatibility::check_properties;
pub(crate) use core::{Processing, ProcessorCore};
pub use group_state::{GroupBatch, GroupChange, GroupChanges, GroupFunction, GroupTimeout};
pub(crate) use group_state::{GroupStateCore, Grouping};
pub use processor::{KeyContext, ListState, MapState, StatefulProcessor, ValueState};
pub use rows::Rows;
pub use state::{GroupKey, ProcessorState};
pub use variable::{StateVariable, TimeMode, VariableKind};

/// The state variables of a processor, checked.
///
/// # Errors
/// Those of [`StateVariable::check`]; `STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED`.
pub(crate) async fn declared(runtime: &dyn ProcessorRuntime, time_mode: TimeMode) -> Result<Vec<StateVariable>> {
    let variables = runtime.variables().await?;
    for (index, variable) in variables.iter().enumerate() {
        variable.check(time_mode)?;
        if variables.iter().take(index).any(|known| known.name == variable.name) {
            return Err(duplicate(&variable.name));
        }
    }
    Ok(variables)
}

/// The error for a variable that is declared twice.
pub fn duplicate(name: &str) -> Error {
    Error::invalid(
        "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED",
        format!("State variable with name {name} has already been defined in the StatefulProcessor: give the second another name."),
    )
    .with_sqlstate("42802")
}

/// Runs a processor in this process.
pub fn in_process(processor: impl StatefulProcessor + 'static) -> Arc<dyn ProcessorRuntime> {
    Arc::new(processor::InProcess(processor))
}
