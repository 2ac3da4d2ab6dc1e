//! The report of one trigger, from which everything shown to a user derives. It serialises to Spark's progress JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::offset::Offset;

/// What one trigger did. Field names and order are those of Spark's `StreamingQueryProgress`; what Spark does not know is under `millstream`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryProgress {
    /// The id persisted in the checkpoint.
    pub id: Uuid,
    /// This run.
    pub run_id: Uuid,
    /// The query's name.
    pub name: Option<String>,
    /// Start of the trigger, UTC, `2024-01-01T00:00:00.000Z`.
    pub timestamp: String,
    /// The batch, or the next one when nothing ran.
    pub batch_id: u64,
    /// Length of the trigger, milliseconds.
    pub batch_duration: u64,
    /// Rows read from all sources.
    pub num_input_rows: u64,
    /// Rows divided by the time since the start of the previous trigger; 0 for the first.
    #[serde(default)]
    pub input_rows_per_second: f64,
    /// Rows divided by the length of the trigger.
    #[serde(default)]
    pub processed_rows_per_second: f64,
    /// Milliseconds per phase, under Spark's names.
    pub duration_ms: BTreeMap<String, u64>,
    /// The watermark used, and the event times seen, as UTC text. Empty without a watermark.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_time: BTreeMap<String, String>,
    /// State operators, the last of the plan first.
    pub state_operators: Vec<StateOperatorProgress>,
    /// Sources in plan order.
    pub sources: Vec<SourceProgress>,
    /// The sink.
    pub sink: SinkProgress,
    /// Metrics that the query observes, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_metrics: BTreeMap<String, Value>,
    /// What Millstream knows beyond Spark.
    #[serde(default, skip_serializing_if = "Extras::is_empty")]
    pub millstream: Extras,
}

/// The report of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// The source, in Spark's form.
    pub description: String,
    /// Where the batch began.
    pub start_offset: Option<Offset>,
    /// Where it ended.
    pub end_offset: Option<Offset>,
    /// The newest position there is, where the source says it.
    pub latest_offset: Option<Offset>,
    /// Rows read.
    pub num_input_rows: u64,
    /// As for the query.
    #[serde(default)]
    pub input_rows_per_second: f64,
    /// As for the query.
    #[serde(default)]
    pub processed_rows_per_second: f64,
    /// The source's own metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// The report of the sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// The sink, in Spark's form.
    pub description: String,
    /// Rows written, −1 where the sink does not say.
    pub num_output_rows: i64,
    /// The sink's own metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// The report of one stateful operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// The operator, under Spark's name.
    pub operator_name: String,
    /// Rows in state.
    pub num_rows_total: u64,
    /// Rows put into state.
    pub num_rows_updated: u64,
    /// Milliseconds for updates.
    pub all_updates_time_ms: u64,
    /// Rows removed from state.
    pub num_rows_removed: u64,
    /// Milliseconds for removals.
    pub all_removals_time_ms: u64,
    /// Milliseconds for making state durable.
    pub commit_time_ms: u64,
    /// Bytes of memory.
    pub memory_used_bytes: u64,
    /// Groups dropped as late, counted after partial aggregation as Spark does.
    pub num_rows_dropped_by_watermark: u64,
    /// Partitions.
    pub num_shuffle_partitions: u64,
    /// State stores.
    pub num_state_store_instances: u64,
    /// The store's own metrics.
    #[serde(default)]
    pub custom_metrics: BTreeMap<String, i64>,
}

/// Facts that Spark's progress has no place for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extras {
    /// Malformed records put into the quarantine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quarantined: u64,
    /// Malformed records by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quarantined_by_reason: BTreeMap<String, u64>,
    /// Splits (files, partitions) read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub splits: u64,
    /// Rows that stateful operators left out because they were late, exact, before aggregation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_rows: u64,
    /// Rows that were late for some of the windows that they are in, and counted in the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partly_late_rows: u64,
    /// Where late rows came from, most first; at most [`MAX_ORIGINS`], the last of which is all the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_origins: Vec<LateOrigin>,
    /// Watermark nodes without rows for so long that they no longer hold the watermark back, by their numbers in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_watermarks: Vec<usize>,
    /// How the query differs from the one that made the checkpoint; told once, in the first report of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_changes: Vec<String>,
    /// What the user should know about the query although nothing is wrong; told once, in the first report of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Expectations by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expectations: BTreeMap<String, ExpectationProgress>,
    /// The query's own time in this trigger beyond waiting for durable writes, microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_time_us: u64,
    /// Time spent waiting for durable writes, microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub durable_wait_us: u64,
}

impl Extras {
    fn is_empty(&self) -> bool {
        *self == Extras::default()
    }
}

/// The most origins of late rows in one report.
pub const MAX_ORIGINS: usize = 16;

/// Late rows of one source, or of one of its partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LateOrigin {
    /// The source's number in plan order; `None` where rows of several sources cannot be told apart.
    pub source: Option<usize>,
    /// The partition (a file's URL, `topic-3`); `None` for all that are not named.
    pub partition: Option<String>,
    /// Rows left out.
    pub late_rows: u64,
    /// Rows left out of some windows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partly_late_rows: u64,
}

/// What an expectation counted in one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectationProgress {
    /// Rows that satisfied it.
    pub passed: u64,
    /// Rows that did not (a null result counts as not).
    pub failed: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The time in Spark's progress form, `2024-01-01T00:00:00.000Z`. Times beyond the calendar are shown at its edge.
pub fn utc_text(epoch_ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(epoch_ms).unwrap_or(if epoch_ms < 0 {
        chrono::DateTime::<chrono::Utc>::MIN_UTC
    } else {
        chrono::DateTime::<chrono::Utc>::MAX_UTC
    });
    time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

impl QueryProgress {
    /// The progress as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields, order and number forms as recorded from Spark 4.2 for a stateless file query.
    #[test]
    fn json_has_sparks_fields_in_sparks_order() {
        let id = Uuid::nil();
        let progress = QueryProgress {
            id,
            run_id: id,
            name: None,
            timestamp: utc_text(1_704_067_200_123),
            batch_id: 1,
            batch_duration: 833,
            num_input_rows: 2,
            input_rows_per_second: 0.6,
            processed_rows_per_second: 2.4,
            duration_ms: BTreeMap::from([("triggerExecution".to_owned(), 832), ("addBatch".to_owned(), 538)]),
            event_time: BTreeMap::new(),
            state_operators: vec![],
            sources: vec![SourceProgress {
                description: "FileStreamSource[file:/in]".to_owned(),
                start_offset: None,
                end_offset: Some(Offset::from_json(r#"{"logOffset":0}"#).unwrap()),
                latest_offset: None,
                num_input_rows: 2,
                input_rows_per_second: 0.0,
                processed_rows_per_second: 2.4,
                metrics: BTreeMap::new(),
            }],
            sink: SinkProgress { description: "MemorySink".to_owned(), num_output_rows: -1, metrics: BTreeMap::new() },
            observed_metrics: BTreeMap::new(),
            millstream: Extras::default(),
        };
        let expected = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000000","runId":"00000000-0000-0000-0000-000000000000","name":null,"#,
            r#""timestamp":"2024-01-01T00:00:00.123Z","batchId":1,"batchDuration":833,"numInputRows":2,"inputRowsPerSecond":0.6,"#,
            r#""processedRowsPerSecond":2.4,"durationMs":{"addBatch":538,"triggerExecution":832},"stateOperators":[],"#,
            r#""sources":[{"description":"FileStreamSource[file:/in]","startOffset":null,"endOffset":{"logOffset":0},"latestOffset":null,"#,
            r#""numInputRows":2,"inputRowsPerSecond":0.0,"processedRowsPerSecond":2.4}],"#,
            r#""sink":{"description":"MemorySink","numOutputRows":-1}}"#,
        );
        assert_eq!(progress.to_json(), expected);
        assert_eq!(serde_json::from_str::<QueryProgress>(expected).unwrap(), progress);
    }

    #[test]
    fn times_beyond_the_calendar_do_not_fail() {
        assert!(utc_text(i64::MIN).starts_with('-'));
        assert!(!utc_text(i64::MAX).is_empty());
    }
}
