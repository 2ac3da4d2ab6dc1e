//! Which programs that keep state can run on a stream.

use datafusion::logical_expr::LogicalPlan;
use millstream_core::Result;
use millstream_core::sink::OutputMode;

use super::{Aggregation, aggregations, unsupported, visit};
use crate::plan::is_streaming;
use crate::stateful::arbitrary::GroupTimeout;
use crate::stateful::{Arbitrary, Program};

/// The streaming functions over groups of a plan, with their timeouts and output modes.
fn group_states(plan: &LogicalPlan) -> Result<Vec<(GroupTimeout, OutputMode)>> {
    let mut found = Vec::new();
    visit(plan, &mut |node| {
        if let Some((timeout, mode)) = group_state(node)? {
            found.push((timeout, mode));
        }
        Ok(())
    })?;
    Ok(found)
}

fn group_state(node: &LogicalPlan) -> Result<Option<(GroupTimeout, OutputMode)>> {
    Ok(match Arbitrary::of(node) {
        Some(Arbitrary { program: Program::GroupState { timeout, .. }, output_mode, .. }) if is_streaming(node)? => {
            Some((*timeout, *output_mode))
        }
        _ => None,
    })
}

/// Whether a plan gives out rows of groups that timed out by event time.
pub(super) fn times_out_by_event_time(plan: &LogicalPlan) -> Result<bool> {
    Ok(group_states(plan)?.iter().any(|(timeout, _)| *timeout == GroupTimeout::EventTime))
}

/// Checks what several functions over groups are to each other.
pub(super) fn together(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    let all = group_states(plan)?;
    if all.len() > 1 && (mode != OutputMode::Append || all.iter().any(|(_, own)| *own != OutputMode::Append)) {
        return Err(unsupported(
            "Multiple applyInPandasWithStates are not supported when they are not all in append mode or the output mode is not append on a \
             streaming DataFrames/Datasets",
        ));
    }
    Ok(())
}

/// Checks one node.
pub(super) fn allowed(node: &LogicalPlan, mode: OutputMode, aggregates: &[Aggregation]) -> Result<()> {
    let Some(arbitrary) = Arbitrary::of(node) else { return Ok(()) };
    if let [_, initial] = arbitrary.inputs.as_slice()
        && is_streaming(initial)?
    {
        return Err(unsupported(
            "Streaming DataFrame/Dataset is not supported as the initial state of transformWithState: read it as a table",
        ));
    }
    let Some((timeout, own)) = group_state(node)? else { return Ok(()) };
    let refused = if aggregates.is_empty() {
        (own != mode).then(|| format!("applyInPandasWithState in {own} mode is not supported with {mode} output mode"))
    } else if own == OutputMode::Update {
        Some("applyInPandasWithState in update mode is not supported with aggregation".to_owned())
    } else if !arbitrary.inputs.iter().map(aggregations).collect::<Result<Vec<_>>>()?.iter().all(Vec::is_empty) {
        Some("applyInPandasWithState in append mode is not supported after aggregation".to_owned())
    } else {
        None
    };
    if let Some(refused) = refused {
        return Err(unsupported(&format!("{refused} on a streaming DataFrame/Dataset")));
    }
    if timeout == GroupTimeout::EventTime && !arbitrary.input_has_event_time() {
        return Err(unsupported(
            "Watermark must be specified in the query using '[Dataset/DataFrame].withWatermark()' for using event-time timeout in \
             applyInPandasWithState. Event-time timeout not supported without watermark.",
        ));
    }
    Ok(())
}
