//! The rows of a relation, sent to the client.

use arrow::array::RecordBatch;
use arrow::datatypes::Fields;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::StreamExt;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::execute_plan_response::metrics::{MetricObject, MetricValue};
use spark_connect_proto::execute_plan_response::{ArrowBatch, Metrics, ObservedMetrics, ResponseType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{DataType, ExecutePlanResponse, Relation, data_type};

use super::batches::{self, Batches};
use super::{Answers, observe};
use crate::analyzer::{Analyzed, Attribute};
use crate::connect::{catalog, show, statement};
use crate::types::struct_to_proto;

/// Sends the rows of a relation, and gives what is to be said of them at the end.
///
/// # Errors
/// Those of analyzing and running it.
pub(super) async fn run(answers: &Answers, relation: Relation) -> Result<Summary> {
    let session = &answers.session;
    let rows = match relation.rel_type {
        Some(RelType::ShowString(show)) => show::show_string(session, *show).await?,
        Some(RelType::HtmlString(show)) => show::html_string(session, *show).await?,
        Some(RelType::Catalog(catalog)) => catalog::run(session, catalog).await?,
        Some(RelType::Sql(_) | RelType::WithRelations(_) | RelType::Extension(_)) => match statement::run(session, &relation).await? {
            Some(rows) => rows,
            None => return stream(answers, &relation).await,
        },
        _ => return stream(answers, &relation).await,
    };
    let mut sending = Sending::new(answers, rows.schema_ref().fields());
    sending.send(&rows).await?;
    sending.end().await?;
    Ok(Summary::default())
}

/// Runs a query and sends its rows as they come.
async fn stream(answers: &Answers, relation: &Relation) -> Result<Summary> {
    let session = &answers.session;
    let analyzed = session.analyze(relation).await?;
    let schema = analyzed.schema();
    let plan = visible_plan(analyzed)?;
    let mut rows = session.engine.rows(plan).await?;
    let mut sending = Sending::new(answers, schema.fields());
    while let Some(next) = rows.batches.next().await {
        sending.send(&next?).await?;
    }
    let sent = sending.end().await?;
    Ok(Summary { metrics: Some(metrics(sent)), observed: observe::answer(rows.observed()?)? })
}

/// What a client is told when all rows were sent.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) metrics: Option<Metrics>,
    pub(super) observed: Vec<ObservedMetrics>,
}

/// Rows on their way to a client. Every response costs the client a call to release it, so the schema travels with the first rows.
struct Sending<'a> {
    answers: &'a Answers,
    batches: Batches,
    schema: Option<DataType>,
}

impl<'a> Sending<'a> {
    fn new(answers: &'a Answers, fields: &Fields) -> Self {
        let schema = DataType { kind: Some(data_type::Kind::Struct(struct_to_proto(fields))) };
        Sending { answers, batches: Batches::new(fields, &answers.session.confs.time_zone()), schema: Some(schema) }
    }

    async fn send(&mut self, rows: &RecordBatch) -> Result<()> {
        for batch in self.batches.split(rows)? {
            self.push(batch).await;
        }
        Ok(())
    }

    /// Sends a batch without rows if there was none, and gives the number of rows.
    async fn end(mut self) -> Result<i64> {
        if self.batches.is_empty() {
            let nothing = self.batches.nothing()?;
            self.push(nothing).await;
        }
        Ok(self.batches.rows())
    }

    async fn push(&mut self, batch: ArrowBatch) {
        let chunking = self.answers.chunking;
        // A row may be larger than a batch should be.
        let pieces = if chunking.allowed { batches::chunks(batch, chunking.size.max(batches::LEAST_CHUNK)) } else { vec![batch] };
        for piece in pieces {
            let response_type = Some(ResponseType::ArrowBatch(piece));
            self.answers.push(ExecutePlanResponse { response_type, schema: self.schema.take(), ..ExecutePlanResponse::default() }).await;
        }
    }
}

fn metrics(rows: i64) -> Metrics {
    let value = MetricValue { name: "number of output rows".to_owned(), value: rows, metric_type: "sum".to_owned() };
    Metrics {
        metrics: vec![MetricObject {
            name: "Result".to_owned(),
            execution_metrics: [("numOutputRows".to_owned(), value)].into(),
            ..MetricObject::default()
        }],
    }
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
