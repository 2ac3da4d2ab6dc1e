//! Progress as clients read it. Spark writes it in two ways: `recentProgress` is the fields of the Scala object, listeners are given the
//! shorter form that `StreamingQueryProgress.json` has.

use arrow::datatypes::{Fields, Schema};
use datafusion::scalar::ScalarValue;
use millstream_core::Offset;
use millstream_core::progress::{Extras, QueryProgress, SourceProgress};
use millstream_engine::observe::Observed;
use serde_json::{Map, Value, json};

use crate::types::schema_to_json;

/// The form of `lastProgress` and `recentProgress`: offsets are texts, empty maps are there, totals over the sources are left to the client.
pub(super) fn recent_json(progress: &QueryProgress) -> String {
    let sources: Vec<Value> = progress.sources.iter().map(source).collect();
    let mut fields = json!({
        "id": progress.id,
        "runId": progress.run_id,
        "name": progress.name,
        "timestamp": progress.timestamp,
        "batchId": progress.batch_id,
        "batchDuration": progress.batch_duration,
        "durationMs": progress.duration_ms,
        "eventTime": progress.event_time,
        "stateOperators": progress.state_operators,
        "sources": sources,
        "sink": {
            "description": progress.sink.description,
            "numOutputRows": progress.sink.num_output_rows,
            "metrics": progress.sink.metrics,
        },
        "observedMetrics": progress.observed_metrics,
    });
    if let (Some(fields), Some(beyond)) = (fields.as_object_mut(), beyond_spark(progress)) {
        fields.insert(BEYOND.to_owned(), beyond);
    }
    fields.to_string()
}

/// The field of what Spark's progress has no place for.
const BEYOND: &str = "millstream";

/// What users have to hear of although Spark does not tell it, where there is any: rows left out as late, changes of the query,
/// advice.
fn beyond_spark(progress: &QueryProgress) -> Option<Value> {
    let told = Extras {
        late_rows: progress.millstream.late_rows,
        partly_late_rows: progress.millstream.partly_late_rows,
        late_origins: progress.millstream.late_origins.clone(),
        idle_watermarks: progress.millstream.idle_watermarks.clone(),
        query_changes: progress.millstream.query_changes.clone(),
        advice: progress.millstream.advice.clone(),
        ..Extras::default()
    };
    (told != Extras::default()).then(|| serde_json::to_value(told).unwrap_or_default())
}

fn source(source: &SourceProgress) -> Value {
    let text = |offset: &Option<Offset>| offset.as_ref().map(|offset| offset.as_json().to_owned());
    json!({
        "description": source.description,
        "startOffset": text(&source.start_offset),
        "endOffset": text(&source.end_offset),
        "latestOffset": text(&source.latest_offset),
        "numInputRows": source.num_input_rows,
        "inputRowsPerSecond": source.input_rows_per_second,
        "processedRowsPerSecond": source.processed_rows_per_second,
        "metrics": source.metrics,
    })
}

/// An observation as Spark writes its row: the values, and their schema.
pub(super) fn observation_json(observed: &Observed) -> Value {
    row_json(&observed.fields, &observed.values)
}

fn row_json(fields: &Fields, values: &[ScalarValue]) -> Value {
    let schema: Value = serde_json::from_str(&schema_to_json(&Schema::new(fields.clone()))).unwrap_or_default();
    json!({"values": values.iter().map(value_json).collect::<Vec<_>>(), "schema": schema})
}

fn value_json(value: &ScalarValue) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    match value {
        ScalarValue::Boolean(value) => json!(value),
        ScalarValue::Int8(value) => json!(value),
        ScalarValue::Int16(value) => json!(value),
        ScalarValue::Int32(value) => json!(value),
        ScalarValue::Int64(value) => json!(value),
        ScalarValue::Float32(value) => json!(value),
        ScalarValue::Float64(value) => json!(value),
        ScalarValue::Utf8(value) => json!(value),
        ScalarValue::Date32(Some(days)) => json!(i64::from(*days) * 86_400_000),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => json!(micros.div_euclid(1_000)),
        ScalarValue::Decimal128(..) => value.to_string().parse::<f64>().map_or_else(|_| json!(value.to_string()), |number| json!(number)),
        ScalarValue::Struct(row) => {
            let values = row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0).unwrap_or(ScalarValue::Null));
            row_json(row.fields(), &values.collect::<Vec<_>>())
        }
        other => json!(other.to_string()),
    }
}

/// The form that listeners are given: offsets are JSON, rates have one decimal, what is empty is left out.
pub(super) fn listener_json(progress: &QueryProgress) -> Value {
    let mut value = serde_json::to_value(progress).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove(BEYOND);
        if let Some(beyond) = beyond_spark(progress) {
            fields.insert(BEYOND.to_owned(), beyond);
        }
        round_rates(fields);
        for source in fields.get_mut("sources").and_then(Value::as_array_mut).into_iter().flatten() {
            source.as_object_mut().map(round_rates);
            if let Some(Value::String(average)) = source.pointer_mut("/metrics/avgOffsetsBehindLatest")
                && let Ok(number) = average.parse::<f64>()
            {
                *average = format!("{number:.1}");
            }
        }
        for row in fields.get_mut("observedMetrics").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            *row = named_values(row);
        }
    }
    value
}

fn round_rates(fields: &mut Map<String, Value>) {
    for name in ["inputRowsPerSecond", "processedRowsPerSecond"] {
        match fields.get(name).and_then(Value::as_f64) {
            Some(rate) => drop(fields.insert(name.to_owned(), json!((rate * 10.0).round() / 10.0))),
            None => drop(fields.shift_remove(name)),
        }
    }
}

/// `{"schema": {"fields": [{"name": "n", …}]}, "values": [1]}` as `{"n": 1}`.
fn named_values(row: &Value) -> Value {
    let names = row.pointer("/schema/fields").and_then(Value::as_array).into_iter().flatten();
    let names = names.map(|field| field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned());
    let values = row.get("values").and_then(Value::as_array).cloned().unwrap_or_default();
    Value::Object(names.zip(values).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use millstream_core::progress::SinkProgress;
    use uuid::Uuid;

    use super::*;

    fn progress() -> QueryProgress {
        QueryProgress {
            id: Uuid::nil(),
            run_id: Uuid::nil(),
            name: Some("q".to_owned()),
            timestamp: "2024-01-01T00:00:00.123Z".to_owned(),
            batch_id: 0,
            batch_duration: 48,
            num_input_rows: 1,
            input_rows_per_second: 58.823_529,
            processed_rows_per_second: 0.25,
            duration_ms: BTreeMap::from([("triggerExecution".to_owned(), 45)]),
            event_time: BTreeMap::new(),
            state_operators: vec![],
            sources: vec![SourceProgress {
                description: "FileStreamSource[file:/a]".to_owned(),
                start_offset: None,
                end_offset: Some(Offset::from_json(r#"{"logOffset":0}"#).unwrap()),
                latest_offset: None,
                num_input_rows: 1,
                input_rows_per_second: 58.823_529,
                processed_rows_per_second: 0.25,
                metrics: BTreeMap::new(),
            }],
            sink: SinkProgress { description: "MemorySink".to_owned(), num_output_rows: 1, metrics: BTreeMap::new() },
            observed_metrics: BTreeMap::from([(
                "m".to_owned(),
                json!({"schema": {"type": "struct", "fields": [{"name": "n", "type": "long"}]}, "values": [2]}),
            )]),
            millstream: Extras { splits: 1, ..Extras::default() },
        }
    }

    /// Field for field as recorded from Spark 4.2.
    #[test]
    fn recent_progress_has_sparks_fields() {
        let expected = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000000","runId":"00000000-0000-0000-0000-000000000000","name":"q","#,
            r#""timestamp":"2024-01-01T00:00:00.123Z","batchId":0,"batchDuration":48,"durationMs":{"triggerExecution":45},"eventTime":{},"#,
            r#""stateOperators":[],"sources":[{"description":"FileStreamSource[file:/a]","startOffset":null,"#,
            r#""endOffset":"{\"logOffset\":0}","latestOffset":null,"numInputRows":1,"inputRowsPerSecond":58.823529,"#,
            r#""processedRowsPerSecond":0.25,"metrics":{}}],"sink":{"description":"MemorySink","numOutputRows":1,"metrics":{}},"#,
            r#""observedMetrics":{"m":{"schema":{"type":"struct","fields":[{"name":"n","type":"long"}]},"values":[2]}}}"#,
        );
        assert_eq!(recent_json(&progress()), expected);
    }

    #[test]
    fn late_rows_changes_and_advice_are_told_beside_sparks_fields() {
        let mut progress = progress();
        progress.millstream.late_rows = 3;
        progress.millstream.query_changes = vec!["window of operator 0 was wider".to_owned()];
        progress.millstream.advice = vec!["give the watermark a delay".to_owned()];
        let expected = json!({
            "lateRows": 3, "queryChanges": ["window of operator 0 was wider"], "advice": ["give the watermark a delay"],
        });
        assert_eq!(listener_json(&progress)["millstream"], expected);
        assert_eq!(serde_json::from_str::<Value>(&recent_json(&progress)).unwrap()["millstream"], expected);
    }

    #[test]
    fn listeners_are_given_the_shorter_form() {
        let expected = concat!(
            r#"{"id":"00000000-0000-0000-0000-000000000000","runId":"00000000-0000-0000-0000-000000000000","name":"q","#,
            r#""timestamp":"2024-01-01T00:00:00.123Z","batchId":0,"batchDuration":48,"numInputRows":1,"inputRowsPerSecond":58.8,"#,
            r#""processedRowsPerSecond":0.3,"durationMs":{"triggerExecution":45},"stateOperators":[],"#,
            r#""sources":[{"description":"FileStreamSource[file:/a]","startOffset":null,"endOffset":{"logOffset":0},"latestOffset":null,"#,
            r#""numInputRows":1,"inputRowsPerSecond":58.8,"processedRowsPerSecond":0.3}],"#,
            r#""sink":{"description":"MemorySink","numOutputRows":1},"observedMetrics":{"m":{"n":2}}}"#,
        );
        assert_eq!(listener_json(&progress()).to_string(), expected);
    }
}
