//! Materialized views: computed whole, and only when something that they are made of has changed.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use millstream_core::registry::ReadRequest;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::result_schema;
use millstream_engine::relation::TableRelation;
use millstream_engine::session::BatchWritten;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Pipeline;
use super::place::directory;
use super::relations::Lowering;
use crate::pipelines::graph::{Dataset, Flow, Input};

/// Changes when the same text comes to mean something else: views that were computed under another number are computed again.
const MEANING: u32 = 2;

/// What a materialized view was made of when it was last computed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Made {
    /// Definition and inputs.
    of: String,
    /// The files of the view itself.
    files: String,
    /// The number of the computation, its transaction in the table.
    number: u64,
}

impl Pipeline {
    /// Computes a materialized view if its definition or its inputs have changed. `None` when they have not.
    ///
    /// # Errors
    /// Faults of the query against its inputs as they are now, and those of reading and writing.
    pub(super) async fn refresh(&self, flow: &Flow) -> Result<Option<BatchWritten>> {
        let dataset = self.dataset(flow.target)?;
        let lowering = Lowering::live(self);
        let plan = self.flow_plan(flow, &lowering).await?;
        let expectations = self.expectations(flow, &result_schema(&plan), &lowering)?;
        let record = record(dataset);
        let made: Made = self.place.record(&record).await?.unwrap_or_default();
        let fixed = !is_volatile(&plan)?;
        let inputs = fingerprint(&lowering.tables_read()).await?;
        let of = inputs.filter(|_| fixed).map(|inputs| digest(&format!("{}\n{inputs}", self.definition(flow))));
        if let Some(of) = &of
            && *of == made.of
            && self.files_of(dataset).await? == Some(made.files)
        {
            return Ok(None);
        }
        let (number, written) = self
            .overwrite(dataset, &plan, &expectations, made.number)
            .await
            .map_err(|error| error.within(format!("flow '{}'", flow.name)))?;
        let files = self.files_of(dataset).await?.unwrap_or_default();
        self.place.set_record(&record, &Made { of: of.unwrap_or_default(), files, number }).await?;
        Ok(Some(written))
    }

    /// Writes the view whole. The number of its transaction grows with the clock; should the table know a greater one, a greater one is
    /// taken.
    async fn overwrite(
        &self,
        dataset: &Dataset,
        plan: &LogicalPlan,
        expectations: &[millstream_engine::Expectation],
        last: u64,
    ) -> Result<(u64, BatchWritten)> {
        let query_id = self.identity(dataset, "materialized view");
        let now = u64::try_from(self.session.registry().clock.now_ms()).unwrap_or(0);
        for ahead in [0_u64, 1 << 20, 1 << 40, 1 << 50] {
            let number = now.max(last + 1) + ahead;
            let sink = self.sink(dataset, OutputMode::Complete).await?;
            let written = self.session.write_batch(plan.clone(), sink.clone(), OutputMode::Complete, expectations, query_id, number).await;
            sink.stop().await;
            if let Some(written) = written? {
                return Ok((number, written));
            }
        }
        Err(Error::internal(format!("the table of materialized view '{}' takes no transaction number", dataset.name)))
    }

    /// Forgets what the view was made of, so that it is computed again.
    pub(super) async fn forget(&self, dataset: &Dataset) -> Result<()> {
        let made: Option<Made> = self.place.record(&record(dataset)).await?;
        match made {
            Some(made) => self.place.set_record(&record(dataset), &Made { of: String::new(), ..made }).await,
            None => Ok(()),
        }
    }

    /// Everything in the text that decides what the view contains.
    fn definition(&self, flow: &Flow) -> String {
        let mut text = format!("{MEANING} {} {:?}", flow.query.definition, flow.settings);
        if let Ok(dataset) = self.dataset(flow.target) {
            described(dataset, &mut text);
        }
        let mut open: Vec<&Input> = flow.inputs.iter().collect();
        while let Some(input) = open.pop() {
            let Input::Dataset(index) = input else { continue };
            if let Some((dataset, view)) = self.graph.datasets.get(*index).and_then(|dataset| Some((dataset, dataset.view.as_ref()?))) {
                text.push_str(&format!("\n{} {:?}", view.query.definition, view.settings));
                described(dataset, &mut text);
                open.extend(&view.inputs);
            }
        }
        text
    }

    async fn files_of(&self, dataset: &Dataset) -> Result<Option<String>> {
        if !self.place.has_table(&dataset.name).await? {
            return Ok(None);
        }
        let request = ReadRequest { paths: vec![self.place.table(&dataset.name)], ..ReadRequest::default() };
        let table = self.session.table_relation("delta", request).await?;
        fingerprint(&[Some(table)]).await
    }
}

fn record(dataset: &Dataset) -> String {
    format!("materialized/{}.json", directory(&dataset.name))
}

fn described(dataset: &Dataset, text: &mut String) {
    let columns: Vec<(&str, Option<&arrow::datatypes::DataType>)> =
        dataset.columns.iter().map(|column| (column.name.as_str(), column.field.as_ref().map(|field| field.data_type()))).collect();
    let expectations: Vec<(&str, String, String)> = dataset
        .expectations
        .iter()
        .map(|expectation| (expectation.name.as_str(), expectation.text.line(), format!("{:?}", expectation.on_violation)))
        .collect();
    let partitions: Vec<&str> = dataset.partition_by.iter().map(|(name, _)| name.as_str()).collect();
    text.push_str(&format!("\n{columns:?} {expectations:?} {partitions:?}"));
}

/// The files of tables as text; `None` when one of them cannot be compared.
async fn fingerprint(tables: &[Option<TableRelation>]) -> Result<Option<String>> {
    let mut text = String::new();
    for table in tables {
        let Some(table) = table else { return Ok(None) };
        let mut files: Vec<String> =
            table.table.scan().await?.iter().map(|split| format!("{} {}", split.label(), split.size_bytes())).collect();
        files.sort();
        text.push_str(&format!("{} {}\n", table.label, digest(&files.join("\n"))));
    }
    Ok(Some(digest(&text)))
}

fn digest(text: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string()
}

/// Whether the same inputs may give another result: the current time, random numbers.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found |= part.is_volatile_node();
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(found)
}
