//! Rows that the server has in memory, as relations and as batches.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use arrow_ipc::writer::StreamWriter;
use millstream_core::{Error, Result};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{LocalRelation, Relation};

use crate::types::schema_to_json;

/// The rows as a relation that a client can send back.
///
/// # Errors
/// `INTERNAL_ERROR` when they do not encode.
pub(in crate::connect) fn local_relation(rows: &RecordBatch) -> Result<Relation> {
    let write = || {
        let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
        writer.write(rows)?;
        writer.into_inner()
    };
    let data = write().map_err(|error| Error::internal("rows do not encode").caused_by(error))?;
    let local = LocalRelation { data: Some(data.into()), schema: Some(schema_to_json(rows.schema_ref())) };
    Ok(Relation { common: None, rel_type: Some(RelType::LocalRelation(local)) })
}

/// A batch of one column.
///
/// # Errors
/// `INTERNAL_ERROR`, never for a column without nulls.
pub(in crate::connect) fn single(name: &str, column: ArrayRef) -> Result<RecordBatch> {
    let field = Field::new(name, column.data_type().clone(), column.null_count() > 0);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])
        .map_err(|error| Error::internal("a column does not fit its own type").caused_by(error))
}
