//! `df.show()` and its HTML: the first rows of a relation as one text, in Spark's layout.

mod table;

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use datafusion::logical_expr::LogicalPlanBuilder;
use futures::TryStreamExt;
use millstream_core::Result;
use millstream_engine::from_datafusion;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{HtmlString, Relation, ShowString};

use super::errors::incomplete;
use super::execute::{single, visible_plan};
use super::session::ConnectSession;
use super::{catalog, statement};
use crate::functions::cast::{TextStyle, text_of};
use table::Table;

/// The first rows of a relation as text.
#[derive(Debug)]
struct First {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    /// There are more rows.
    more: bool,
}

/// Runs `ShowString`: one row with the column `show_string`.
///
/// # Errors
/// Those of the relation.
pub(super) async fn show_string(session: &Arc<ConnectSession>, show: ShowString) -> Result<RecordBatch> {
    let input = show.input.as_deref().ok_or_else(|| incomplete("ShowString.input"))?;
    let first = first(session, input, show.num_rows).await?;
    let truncate = usize::try_from(show.truncate).unwrap_or(0);
    let text = Table::new(first, truncate).render(show.vertical);
    single("show_string", Arc::new(StringArray::from(vec![text])))
}

/// Runs `HtmlString`: one row with the column `html_string`.
///
/// # Errors
/// Those of the relation.
pub(super) async fn html_string(session: &Arc<ConnectSession>, show: HtmlString) -> Result<RecordBatch> {
    let input = show.input.as_deref().ok_or_else(|| incomplete("HtmlString.input"))?;
    let first = first(session, input, show.num_rows).await?;
    let truncate = usize::try_from(show.truncate).unwrap_or(0);
    single("html_string", Arc::new(StringArray::from(vec![Table::new(first, truncate).html()])))
}

async fn first(session: &Arc<ConnectSession>, input: &Relation, rows: i32) -> Result<First> {
    let wanted = usize::try_from(rows).unwrap_or(0);
    let (schema, batches) = match &input.rel_type {
        Some(RelType::Catalog(catalog)) => one(catalog::run(session, catalog.clone()).await?),
        _ => match statement::run(session, input).await? {
            Some(rows) => one(rows),
            None => {
                let analyzed = session.analyze(input).await?;
                let schema = analyzed.schema();
                let plan = LogicalPlanBuilder::from(visible_plan(analyzed)?)
                    .limit(0, Some(wanted + 1))
                    .and_then(LogicalPlanBuilder::build)
                    .map_err(from_datafusion)?;
                (schema, session.engine.rows(plan).await?.batches.try_collect().await?)
            }
        },
    };
    let style = TextStyle::show(session.settings().time_zone);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for batch in &batches {
        let columns: Vec<StringArray> =
            batch.columns().iter().zip(schema.fields()).map(|(column, field)| text_of(column, field, &style)).collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            let cell = |column: &StringArray| if column.is_null(row) { style.null.to_owned() } else { column.value(row).to_owned() };
            texts.push(columns.iter().map(cell).collect());
        }
    }
    let more = texts.len() > wanted;
    texts.truncate(wanted);
    Ok(First { names: schema.fields().iter().map(|field| field.name().clone()).collect(), rows: texts, more })
}

fn one(rows: RecordBatch) -> (Schema, Vec<RecordBatch>) {
    (rows.schema().as_ref().clone(), vec![rows])
}
