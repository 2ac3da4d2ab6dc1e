//! What the user of a query should know when it starts: Spark runs such a query as well, and yet it may not be what was meant.

use std::collections::BTreeMap;

use millstream_core::recovery::OffsetRecord;

use crate::stateful::TimeFlow;

/// Advice about a query that starts with these options in its session, on a checkpoint whose newest record is `checkpoint`.
pub(super) fn of(session: &BTreeMap<String, String>, checkpoint: Option<&OffsetRecord>, flow: &TimeFlow) -> Vec<String> {
    let mut advice: Vec<String> = checkpoint.map(|record| overruled(session, &record.conf)).unwrap_or_default();
    if !flow.operators.is_empty() {
        advice.extend(flow.event_times.iter().filter(|event_time| event_time.delay_ms == 0).map(|event_time| {
            format!(
                "the watermark on {} has a delay of zero: a row as old as the newest one of an earlier batch is late, so which rows are late \
                 depends on how rows come in batches. Give it a delay.",
                event_time.column
            )
        }));
    }
    for operator in flow.operators.iter().filter(|operator| operator.remembers_for_ever()) {
        let keys: Vec<String> =
            operator.description.tables.iter().flat_map(|table| &table.key).map(|column| column.name().clone()).collect();
        advice.push(format!(
            "the deduplication by [{}] remembers every key for ever, because none of them is event time with a watermark: its state grows with \
             every new key. Use dropDuplicatesWithinWatermark, or have the event time among the keys.",
            keys.join(", ")
        ));
    }
    advice
}

/// Options that the session has changed since the checkpoint was made, which goes on with its own.
fn overruled(session: &BTreeMap<String, String>, pinned: &BTreeMap<String, String>) -> Vec<String> {
    let differ = session.iter().filter_map(|(name, wanted)| Some((name, wanted, pinned.get(name)?)));
    let differ = differ.filter(|(_, wanted, pinned)| !wanted.trim().eq_ignore_ascii_case(pinned.trim()));
    differ
        .map(|(name, wanted, pinned)| {
            format!("{name} is {wanted} in the session and {pinned} in the checkpoint, which goes on with its own: start a new checkpoint to change it")
        })
        .collect()
}
