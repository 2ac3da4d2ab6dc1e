//! The call `AnalyzePlan`: what is known of a plan without running it.

mod semantics;
mod tree;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::is_streaming;
use millstream_engine::relation::TableRelation;
use spark_connect_proto::analyze_plan_request::Analyze;
use spark_connect_proto::analyze_plan_request::explain::ExplainMode;
use spark_connect_proto::analyze_plan_response::{self as answered, Result as Answer};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{AnalyzePlanRequest, AnalyzePlanResponse, DataType, Relation, data_type};

use super::errors::incomplete;
use super::execute::visible_plan;
use super::plan::relation;
use super::session::ConnectSession;
use super::{catalog, persisted, statement};
use crate::types::{parse_data_type, parse_schema, schema_from_json, to_ddl};
use crate::types::{struct_to_proto, to_proto};

pub(super) use semantics::fingerprint;

/// The version of Spark whose behaviour clients get.
const SPARK_VERSION: &str = "4.2.0";

/// Answers what a client asks of a plan; the response lacks the ids of the session.
///
/// # Errors
/// Those of analyzing the plan.
pub(super) async fn answer(session: &Arc<ConnectSession>, request: AnalyzePlanRequest) -> Result<AnalyzePlanResponse> {
    let result = match request.analyze.ok_or_else(|| incomplete("AnalyzePlanRequest"))? {
        Analyze::Schema(asked) => {
            let schema = schema_of(session, &relation(asked.plan)?).await?;
            let schema = DataType { kind: Some(data_type::Kind::Struct(struct_to_proto(schema.fields()))) };
            Answer::Schema(answered::Schema { schema: Some(schema) })
        }
        Analyze::Explain(asked) => {
            let mode = asked.explain_mode();
            Answer::Explain(answered::Explain { explain_string: explain(session, &relation(asked.plan)?, mode).await? })
        }
        Analyze::TreeString(asked) => {
            let level = asked.level.and_then(|level| usize::try_from(level).ok()).filter(|level| *level > 0);
            let schema = schema_of(session, &relation(asked.plan)?).await?;
            Answer::TreeString(answered::TreeString { tree_string: tree::render(&schema, level) })
        }
        Analyze::IsLocal(asked) => {
            let local = matches!(relation(asked.plan)?.rel_type, Some(RelType::LocalRelation(_) | RelType::CachedLocalRelation(_)));
            Answer::IsLocal(answered::IsLocal { is_local: local })
        }
        Analyze::IsStreaming(asked) => {
            let plan = session.analyze(&relation(asked.plan)?).await?.plan;
            Answer::IsStreaming(answered::IsStreaming { is_streaming: is_streaming(&plan)? })
        }
        Analyze::InputFiles(asked) => {
            let plan = session.analyze(&relation(asked.plan)?).await?.plan;
            Answer::InputFiles(answered::InputFiles { files: input_files(&plan).await? })
        }
        Analyze::SparkVersion(_) => Answer::SparkVersion(answered::SparkVersion { version: SPARK_VERSION.to_owned() }),
        Analyze::DdlParse(asked) => Answer::DdlParse(answered::DdlParse { parsed: Some(parse(&asked.ddl_string)?) }),
        Analyze::SameSemantics(asked) => {
            let target = session.analyze(&relation(asked.target_plan)?).await?;
            let other = session.analyze(&relation(asked.other_plan)?).await?;
            Answer::SameSemantics(answered::SameSemantics { result: fingerprint(&target) == fingerprint(&other) })
        }
        Analyze::SemanticHash(asked) => {
            let analyzed = session.analyze(&relation(asked.plan)?).await?;
            Answer::SemanticHash(answered::SemanticHash { result: semantics::hash(&fingerprint(&analyzed)) })
        }
        Analyze::Persist(asked) => {
            let relation = asked.relation.as_ref().ok_or_else(|| incomplete("Persist.relation"))?;
            persisted::persist(session, relation, asked.storage_level.unwrap_or(persisted::MEMORY_AND_DISK)).await?;
            Answer::Persist(answered::Persist {})
        }
        Analyze::Unpersist(asked) => {
            let relation = asked.relation.as_ref().ok_or_else(|| incomplete("Unpersist.relation"))?;
            persisted::unpersist(session, relation).await?;
            Answer::Unpersist(answered::Unpersist {})
        }
        Analyze::GetStorageLevel(asked) => {
            let relation = asked.relation.as_ref().ok_or_else(|| incomplete("GetStorageLevel.relation"))?;
            let level = persisted::level(session, relation).await?;
            Answer::GetStorageLevel(answered::GetStorageLevel { storage_level: Some(level) })
        }
        Analyze::JsonToDdl(asked) => {
            let schema = schema_from_json(&asked.json_string)?;
            Answer::JsonToDdl(answered::JsonToDdl { ddl_string: to_ddl(&schema) })
        }
    };
    Ok(AnalyzePlanResponse { result: Some(result), ..AnalyzePlanResponse::default() })
}

/// The columns of a relation. What the catalog and statements answer is known only by asking them, as in Spark.
async fn schema_of(session: &Arc<ConnectSession>, relation: &Relation) -> Result<Schema> {
    if let Some(RelType::Catalog(catalog)) = &relation.rel_type {
        return catalog::schema(session, catalog.clone()).await;
    }
    match statement::run(session, relation).await? {
        Some(rows) => Ok(rows.schema().as_ref().clone()),
        None => session.analyze(relation).await.map(|analyzed| analyzed.schema()),
    }
}

/// A schema or a type as DDL.
fn parse(ddl: &str) -> Result<DataType> {
    if let Ok(data_type) = parse_data_type(ddl) {
        return Ok(to_proto(&arrow::datatypes::Field::new("", data_type, true)));
    }
    let schema = parse_schema(ddl)?;
    Ok(DataType { kind: Some(data_type::Kind::Struct(struct_to_proto(schema.fields()))) })
}

/// The plans of a relation as text. Ours are not Spark's, so only their titles are the same.
///
/// # Errors
/// Those of analyzing and planning it.
pub(super) async fn explain(session: &Arc<ConnectSession>, relation: &Relation, mode: ExplainMode) -> Result<String> {
    let analyzed = session.analyze(relation).await?;
    let schema = analyzed.schema();
    let plan = visible_plan(analyzed)?;
    let physical = session.engine.explain(plan.clone()).await?;
    let physical = format!("== Physical Plan ==\n{physical}\n");
    match mode {
        ExplainMode::Extended | ExplainMode::Cost => {
            let optimized = session.engine.state().optimize(&plan).map_err(from_datafusion)?;
            let optimized = format!("== Optimized Logical Plan ==\n{}\n\n", optimized.display_indent());
            if mode == ExplainMode::Cost {
                return Ok(format!("{optimized}{physical}"));
            }
            let columns: Vec<String> =
                schema.fields().iter().map(|field| format!("{}: {}", field.name(), crate::types::simple_name(field.data_type()))).collect();
            let logical = plan.display_indent();
            Ok(format!(
                "== Parsed Logical Plan ==\n{logical}\n\n== Analyzed Logical Plan ==\n{}\n{logical}\n\n{optimized}{physical}",
                columns.join(", ")
            ))
        }
        ExplainMode::Unspecified | ExplainMode::Simple | ExplainMode::Codegen | ExplainMode::Formatted => Ok(physical),
    }
}

/// The files that a plan reads.
async fn input_files(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut tables: Vec<TableRelation> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<TableRelation>()
        {
            tables.push(table.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    let mut files = Vec::new();
    for table in tables {
        files.extend(table.table.scan().await?.iter().map(|split| split.label().to_owned()).filter(|label| label.contains("://")));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Whether a plan is streaming where that is refused.
///
/// # Errors
/// `CALL_ON_STREAMING_DATASET_UNSUPPORTED`.
pub(super) fn refuse_streaming(plan: &LogicalPlan, method: &str) -> Result<()> {
    if !is_streaming(plan)? {
        return Ok(());
    }
    let message = format!("The method `{method}` can not be called on streaming Dataset/DataFrame: use writeStream");
    Err(Error::invalid("CALL_ON_STREAMING_DATASET_UNSUPPORTED", message).with_sqlstate("42KDE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ddl_is_a_type_or_a_schema() {
        assert!(matches!(parse("bigint").unwrap().kind, Some(data_type::Kind::Long(_))));
        let Some(data_type::Kind::Struct(fields)) = parse("a int, b string not null").unwrap().kind else { panic!("a structure") };
        assert_eq!(fields.fields.iter().map(|field| field.nullable).collect::<Vec<_>>(), [true, false]);
        assert!(parse("a intt").is_err());
    }
}
