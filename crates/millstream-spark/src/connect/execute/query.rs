//! The rows of a relation, sent to the client.

use arrow::array::RecordBatch;
use arrow::datatypes::Fields;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::StreamExt;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::execute_plan_response::metrics::{MetricObject, MetricValue};
use spark_connect_proto::execute_plan_response::{ArrowBatch, Metrics, ResponseType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{DataType, ExecutePlanResponse, Relation, data_type};

use super::batches::{self, Batches};
use super::{Answers, observe};
use crate::analyzer::{Analyzed, Attribute};
use crate::connect::{catalog, show, statement};
use crate::types::struct_to_proto;

/// Sends the rows of a relation.
///
/// # Errors
/// Those of analyzing and running it.
pub(super) async fn run(answers: &Answers, relation: Relation) -> Result<()> {
    let session = &answers.session;
    match relation.rel_type {
        Some(RelType::ShowString(show)) => {
            let rows = show::show_string(session, *show).await?;
            send_rows(answers, &rows).await
        }
        Some(RelType::HtmlString(show)) => {
            let rows = show::html_string(session, *show).await?;
            send_rows(answers, &rows).await
        }
        Some(RelType::Catalog(catalog)) => {
            let rows = catalog::run(session, catalog).await?;
            send_rows(answers, &rows).await
        }
        Some(RelType::Sql(_) | RelType::WithRelations(_) | RelType::Extension(_)) => match statement::run(session, &relation).await? {
            Some(rows) => send_rows(answers, &rows).await,
            None => stream(answers, &relation).await,
        },
        _ => stream(answers, &relation).await,
    }
}

/// Runs a query and sends its rows as they come.
async fn stream(answers: &Answers, relation: &Relation) -> Result<()> {
    let session = &answers.session;
    let analyzed = session.analyze(relation).await?;
    let schema = analyzed.schema();
    let plan = visible_plan(analyzed)?;
    let mut rows = session.engine.rows(plan).await?;
    send_schema(answers, schema.fields()).await;
    let mut batches = Batches::new(schema.fields(), &session.confs.time_zone());
    while let Some(next) = rows.batches.next().await {
        for batch in batches.split(&next?)? {
            send_batch(answers, batch).await;
        }
    }
    if batches.is_empty() {
        send_batch(answers, batches.nothing()?).await;
    }
    send_metrics(answers, batches.rows()).await;
    let observed = observe::answer(rows.observed()?)?;
    if !observed.is_empty() {
        answers.push(ExecutePlanResponse { observed_metrics: observed, ..ExecutePlanResponse::default() }).await;
    }
    Ok(())
}

/// Sends rows that are there already.
pub(in crate::connect) async fn send_rows(answers: &Answers, rows: &RecordBatch) -> Result<()> {
    let schema = rows.schema();
    send_schema(answers, schema.fields()).await;
    let mut batches = Batches::new(schema.fields(), &answers.session.confs.time_zone());
    for batch in batches.split(rows)? {
        send_batch(answers, batch).await;
    }
    if batches.is_empty() {
        send_batch(answers, batches.nothing()?).await;
    }
    Ok(())
}

async fn send_schema(answers: &Answers, fields: &Fields) {
    let schema = DataType { kind: Some(data_type::Kind::Struct(struct_to_proto(fields))) };
    answers.push(ExecutePlanResponse { schema: Some(schema), ..ExecutePlanResponse::default() }).await;
}

async fn send_batch(answers: &Answers, batch: ArrowBatch) {
    // A row may be larger than a batch should be.
    if answers.chunking.allowed {
        for chunk in batches::chunks(batch, answers.chunking.size.max(batches::LEAST_CHUNK)) {
            answers.send(ResponseType::ArrowBatch(chunk)).await;
        }
    } else {
        answers.send(ResponseType::ArrowBatch(batch)).await;
    }
}

async fn send_metrics(answers: &Answers, rows: i64) {
    let value = MetricValue { name: "number of output rows".to_owned(), value: rows, metric_type: "sum".to_owned() };
    let metrics = Metrics {
        metrics: vec![MetricObject {
            name: "Result".to_owned(),
            execution_metrics: [("numOutputRows".to_owned(), value)].into(),
            ..MetricObject::default()
        }],
    };
    answers.push(ExecutePlanResponse { metrics: Some(metrics), ..ExecutePlanResponse::default() }).await;
}

/// The plan without the columns that the user does not see.
///
/// # Errors
/// Those of the planner.
pub(in crate::connect) fn visible_plan(analyzed: Analyzed) -> Result<LogicalPlan> {
    if analyzed.columns.iter().all(|column| !column.hidden) {
        return Ok(analyzed.plan);
    }
    let columns: Vec<Expr> = analyzed.columns.iter().filter(|column| !column.hidden).map(column_of).collect();
    LogicalPlanBuilder::from(analyzed.plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// The plan with its columns under the names that the user gave them, for writers.
///
/// # Errors
/// `COLUMN_ALREADY_EXISTS` for two columns of one name.
pub(in crate::connect) fn named_plan(analyzed: Analyzed, case_sensitive: bool) -> Result<LogicalPlan> {
    let visible: Vec<&Attribute> = analyzed.columns.iter().filter(|column| !column.hidden).collect();
    let mut seen = std::collections::HashSet::new();
    for column in &visible {
        let name = if case_sensitive { column.name.clone() } else { column.name.to_lowercase() };
        if !seen.insert(name) {
            let message = format!("The column `{}` already exists. Choose another name or rename the existing column.", column.name);
            return Err(Error::invalid("COLUMN_ALREADY_EXISTS", message).with_sqlstate("42711"));
        }
    }
    let named = |column: &&Attribute| {
        let metadata = (!column.metadata.is_empty()).then(|| column.metadata.clone().into());
        column_of(column).alias_with_metadata(column.name.clone(), metadata)
    };
    let columns: Vec<Expr> = visible.iter().map(named).collect();
    LogicalPlanBuilder::from(analyzed.plan.clone()).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn column_of(column: &Attribute) -> Expr {
    Expr::Column(Column::new_unqualified(&column.internal))
}
