//! The rows of the format `state-metadata`: one for each store of each operator.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_checkpoint::reader::CheckpointReader;
use millstream_core::Result;

use super::stored::{tables, unreadable};

/// The option that says how many partitions Spark would have.
const PARTITIONS: &str = "spark.sql.shuffle.partitions";

/// The columns, the last of which `*` leaves out.
pub(super) fn schema() -> SchemaRef {
    let hidden = HashMap::from([("__metadata_col".to_owned(), "true".to_owned())]);
    Arc::new(Schema::new(vec![
        Field::new("operatorId", DataType::Int64, true),
        Field::new("operatorName", DataType::Utf8, true),
        Field::new("stateStoreName", DataType::Utf8, true),
        Field::new("numPartitions", DataType::Int32, true),
        Field::new("minBatchId", DataType::Int64, true),
        Field::new("maxBatchId", DataType::Int64, true),
        Field::new("operatorProperties", DataType::Utf8, true),
        Field::new("_numColsPrefixKey", DataType::Int32, true).with_metadata(hidden),
    ]))
}

/// The rows. A checkpoint without state, or none at all, has none.
///
/// # Errors
/// Those of reading the checkpoint.
pub(super) async fn rows(reader: &CheckpointReader) -> Result<RecordBatch> {
    let mut stores: Vec<(usize, String, String)> = Vec::new();
    let batches = reader.batches().await?;
    let committed: Vec<u64> = batches.iter().filter(|(_, records)| records.committed_ms.is_some()).map(|(batch, _)| *batch).collect();
    if let Some(last) = committed.last() {
        for table in tables(reader, *last).await? {
            let names = match table.operator_name.as_str() {
                "symmetricHashJoin" => vec![format!("{}-keyToNumValues", table.name), format!("{}-keyWithIndexToValue", table.name)],
                // Windows kept whole beside slices are a matter of this program.
                "stateStoreSave" => vec!["default".to_owned()],
                _ => vec![table.name.clone()],
            };
            for name in names {
                let store = (table.operator, table.operator_name.clone(), name);
                if !stores.contains(&store) {
                    stores.push(store);
                }
            }
        }
    }
    let partitions = match committed.last() {
        Some(last) => reader.offsets(*last).await?.and_then(|record| record.conf.get(PARTITIONS)?.parse().ok()).unwrap_or(200),
        None => 200,
    };
    let count = stores.len();
    let batch = |batch: Option<&u64>| -> ArrayRef {
        let number = batch.and_then(|batch| i64::try_from(*batch).ok()).unwrap_or_default();
        Arc::new(Int64Array::from_value(number, count))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(stores.iter().map(|(operator, ..)| i64::try_from(*operator).ok()).collect::<Int64Array>()),
        Arc::new(stores.iter().map(|(_, name, _)| Some(name.as_str())).collect::<StringArray>()),
        Arc::new(stores.iter().map(|(.., store)| Some(store.as_str())).collect::<StringArray>()),
        Arc::new(Int32Array::from_value(partitions, count)),
        batch(committed.first()),
        batch(committed.last()),
        Arc::new(StringArray::new_null(count)),
        Arc::new(Int32Array::from_value(0, count)),
    ];
    RecordBatch::try_new(schema(), columns).map_err(unreadable)
}
