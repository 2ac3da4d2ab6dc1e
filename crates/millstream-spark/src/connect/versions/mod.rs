//! What there is to know of a table with versions, and its upkeep: `DESCRIBE HISTORY`, `DESCRIBE DETAIL`, `OPTIMIZE`, `VACUUM`, `RESTORE`.

mod optimize;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use futures::TryStreamExt;
use millstream_core::versioned::{AsOf, Vacuum};
use millstream_core::{Error, Result};
use serde_json::{Map, Value, json};
use spark_connect_proto::expression::{Alias, ExprType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Project, Relation};

use super::catalog::rows::{batch, texts};
use super::change::Place;
use super::execute::{local_relation, visible_plan};
use super::session::ConnectSession;

pub(in crate::connect) use optimize::{Optimize, optimize};

type Session = ConnectSession;

/// The columns of `DESCRIBE HISTORY`.
const HISTORY: &str = "version BIGINT, timestamp TIMESTAMP, userId STRING, userName STRING, operation STRING, \
     operationParameters MAP<STRING, STRING>, job STRUCT<jobId: STRING, jobName: STRING, jobRunId: STRING, runId: STRING, \
     jobOwnerId: STRING, triggerType: STRING>, notebook STRUCT<notebookId: STRING>, clusterId STRING, readVersion BIGINT, \
     isolationLevel STRING, isBlindAppend BOOLEAN, operationMetrics MAP<STRING, STRING>, userMetadata STRING, engineInfo STRING";

/// The columns of `DESCRIBE DETAIL`.
const DETAIL: &str = "format STRING, id STRING, name STRING, description STRING, location STRING, createdAt TIMESTAMP, \
     lastModified TIMESTAMP, partitionColumns ARRAY<STRING>, clusteringColumns ARRAY<STRING>, numFiles BIGINT, sizeInBytes BIGINT, \
     properties MAP<STRING, STRING>, minReaderVersion INT, minWriterVersion INT, tableFeatures ARRAY<STRING>, \
     statistics MAP<STRING, BIGINT>, clusterByAuto BOOLEAN";

/// The columns of `RESTORE`.
const RESTORED: [&str; 6] = [
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
];

/// The commits of a table, newest first.
///
/// # Errors
/// Those of opening it.
pub(in crate::connect) async fn history(session: &Session, place: &Place, limit: Option<usize>) -> Result<RecordBatch> {
    let table = place.open(session).await?;
    let commits = table.history(limit.unwrap_or(usize::MAX)).await?;
    let rows = commits.into_iter().map(|commit| {
        json!({
            "version": commit.version,
            "timestamp": instant(commit.timestamp_ms),
            "operation": commit.operation,
            "operationParameters": commit.parameters,
            "readVersion": commit.read_version,
            "isolationLevel": commit.isolation_level,
            "isBlindAppend": commit.is_blind_append,
            "operationMetrics": commit.metrics,
            "userMetadata": commit.user_metadata,
            "engineInfo": commit.engine,
        })
    });
    typed_rows(session, HISTORY, rows.collect()).await
}

/// One row about a table.
///
/// # Errors
/// Those of opening it.
pub(in crate::connect) async fn detail(session: &Session, place: &Place) -> Result<RecordBatch> {
    let table = place.open(session).await?;
    let (facts, files) = (table.facts(), table.files());
    let name = (place.qualifier.len() == 3).then(|| place.qualifier.join("."));
    let row = json!({
        "format": place.format,
        "id": facts.id,
        "name": name.or_else(|| facts.name.clone()),
        "description": facts.description,
        "location": facts.location.trim_end_matches('/').replacen("file:///", "file:/", 1),
        "createdAt": facts.created_ms.map(instant),
        "lastModified": facts.modified_ms.map(instant),
        "partitionColumns": facts.partition_columns,
        "clusteringColumns": facts.clustering_columns,
        "numFiles": files.len(),
        "sizeInBytes": files.iter().map(|file| file.size).sum::<u64>(),
        "properties": facts.properties,
        "minReaderVersion": facts.protocol.0,
        "minWriterVersion": facts.protocol.1,
        "tableFeatures": features(facts.protocol, &facts.features),
        "statistics": {
            "numRowsDeletedByDeletionVectors": 0,
            "numDeletionVectors": files.iter().filter(|file| file.has_deletions).count(),
        },
        "clusterByAuto": false,
    });
    typed_rows(session, DETAIL, vec![row]).await
}

/// The features of a table; older protocols imply theirs.
fn features(protocol: (i32, i32), listed: &[String]) -> Vec<String> {
    const IMPLIED: [(i32, &str); 7] = [
        (2, "appendOnly"),
        (3, "checkConstraints"),
        (4, "changeDataFeed"),
        (4, "generatedColumns"),
        (5, "columnMapping"),
        (6, "identityColumns"),
        (2, "invariants"),
    ];
    if protocol.1 >= 7 {
        return listed.to_vec();
    }
    let mut features: Vec<String> =
        IMPLIED.iter().filter(|(version, _)| *version <= protocol.1).map(|(_, name)| (*name).to_owned()).collect();
    features.sort();
    features
}

/// Makes a table what it was.
///
/// # Errors
/// `DELTA_CANNOT_RESTORE_*`, `DELTA_FILE_NOT_FOUND_DETAILED`.
pub(in crate::connect) async fn restore(session: &Session, place: &Place, to: &AsOf) -> Result<RecordBatch> {
    let figures = place.open(session).await?.restore(to).await?;
    let columns = RESTORED.iter().map(|name| {
        let value = figures.get(*name).copied().unwrap_or(0);
        (*name, Arc::new(arrow::array::Int64Array::from(vec![value])) as ArrayRef)
    });
    batch(columns.collect())
}

/// Removes, or lists, files that nobody needs. Gives the table's path, or the files' for a dry run.
///
/// # Errors
/// `DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT`, and those of the store.
pub(in crate::connect) async fn vacuum(session: &Session, place: &Place, hours: Option<f64>, dry_run: bool) -> Result<RecordBatch> {
    let table = place.open(session).await?;
    let check = session.confs.get("spark.databricks.delta.retentionDurationCheck.enabled");
    let check_retention = !check.is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let outcome = table.vacuum(Vacuum { retention_hours: hours, check_retention, dry_run }).await?;
    let root = table.facts().location.trim_end_matches('/').to_owned();
    let paths = if dry_run { outcome.files } else { vec![root] };
    batch(vec![("path", texts(paths.into_iter().map(|path| Some(path.replacen("file:///", "file:/", 1)))))])
}

/// The version that `VERSION AS OF` and `TIMESTAMP AS OF` name.
pub(in crate::connect) fn as_of(version: Option<i64>, time: Option<String>) -> Result<AsOf> {
    match (version, time) {
        (Some(version), _) => {
            let version = u64::try_from(version).map_err(|_| {
                Error::invalid("DELTA_VERSION_INVALID", format!("{version} is no version of a table: versions begin with 0"))
                    .with_sqlstate("42815")
            })?;
            Ok(AsOf::Version(version))
        }
        (None, Some(time)) => Ok(AsOf::Time(time)),
        (None, None) => Ok(AsOf::Newest),
    }
}

fn instant(ms: i64) -> String {
    let at = chrono::DateTime::<chrono::Utc>::from_timestamp_millis(ms).unwrap_or_default();
    at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Rows of objects of JSON as columns of a schema in DDL.
///
/// # Errors
/// `INTERNAL_ERROR`; the schema and the rows are ours.
async fn typed_rows(session: &Session, ddl: &str, rows: Vec<Value>) -> Result<RecordBatch> {
    let lines: StringArray = rows.iter().map(|row| Some(without_nulls(row).to_string())).collect();
    let field = Arc::new(Field::new("line", arrow::datatypes::DataType::Utf8, true));
    let lines = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(lines) as ArrayRef])
        .map_err(|error| Error::internal("an answer does not fit together").caused_by(error))?;
    let parsed = crate::sql::parse::expression(&format!("from_json(line, '{ddl}')"))?;
    let alias = Alias { expr: Some(Box::new(parsed)), name: vec!["row".to_owned()], metadata: None };
    let named = Expression { expr_type: Some(ExprType::Alias(Box::new(alias))), ..Expression::default() };
    let select = |input: Relation, expression: Expression| Relation {
        common: None,
        rel_type: Some(RelType::Project(Box::new(Project { input: Some(Box::new(input)), expressions: vec![expression] }))),
    };
    let inner = select(local_relation(&lines)?, named);
    let relation = select(inner, crate::sql::parse::expression("row.*")?);
    let analyzed = session.analyze(&relation).await?;
    let schema = Arc::new(analyzed.schema());
    let mut found = session.engine.rows(visible_plan(analyzed)?).await?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    while let Some(batch) = found.batches.try_next().await? {
        // The plan calls its columns by names of its own.
        let named = RecordBatch::try_new(schema.clone(), batch.columns().to_vec());
        batches.push(named.map_err(|error| Error::internal("an answer has other columns").caused_by(error))?);
    }
    concat_batches(&schema, &batches).map_err(|error| Error::internal("an answer does not fit together").caused_by(error))
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Object(kept.collect::<Map<String, Value>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_protocols_imply_features() {
        assert_eq!(features((1, 2), &[]), ["appendOnly", "invariants"]);
        assert_eq!(features((3, 7), &["deletionVectors".to_owned()]), ["deletionVectors"]);
    }

    #[test]
    fn versions_begin_with_nothing() {
        assert_eq!(as_of(Some(3), None).unwrap(), AsOf::Version(3));
        assert_eq!(as_of(None, Some("2024-01-02".into())).unwrap(), AsOf::Time("2024-01-02".into()));
        assert_eq!(as_of(Some(-1), None).unwrap_err().code(), "DELTA_VERSION_INVALID");
    }
}
