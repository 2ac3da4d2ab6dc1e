//! Makes the tables of a pipeline before anything runs, and empties those that are to be computed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use millstream_core::registry::WriteRequest;
use millstream_core::sink::{OutputMode, Sink, Target};
use millstream_core::{Error, Result};
use millstream_engine::{Ownership, from_datafusion};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::place::directory;
use super::relations::options;
use super::{Checked, Pipeline};
use crate::pipelines::graph::{Dataset, Flow};
use crate::pipelines::parser::DatasetKind;
use crate::sql::{Diagnostic, Diagnostics};

/// The record that something that happens once has happened. The table's own transactions say the same, but they may expire.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {}

/// The record that a flow that runs once has run since the given full refresh of its table.
pub(super) fn once_done(flow: &Flow, refresh: u64) -> String {
    format!("once/{}@{refresh}.done", directory(&flow.name))
}

impl Pipeline {
    /// Makes every table exist with the columns that its flows write, so that whatever reads it can be planned before it has rows. Gives
    /// the tables for which that failed: their flows fail, the others go on.
    pub(super) async fn prepare_tables(&self, checked: &Checked, refreshed: &[usize]) -> BTreeMap<usize, Arc<Error>> {
        let mut failed = BTreeMap::new();
        for (index, dataset) in self.graph.datasets.iter().enumerate() {
            let Some(schema) = checked.schemas.get(&index) else { continue };
            if let Err(error) = self.prepare_table(index, dataset, schema, refreshed.contains(&index)).await {
                failed.insert(index, Arc::new(error));
            }
        }
        failed
    }

    /// Asks every table whether it takes the columns that its flows write, and changes nothing.
    pub(super) async fn check_tables(&self, checked: &Checked) -> Result<(), Diagnostics> {
        let mut faults = Vec::new();
        for (index, dataset) in self.graph.datasets.iter().enumerate() {
            let Some(schema) = checked.schemas.get(&index).filter(|_| dataset.kind != DatasetKind::TemporaryView) else { continue };
            let mode = match dataset.kind {
                DatasetKind::MaterializedView => OutputMode::Complete,
                _ => OutputMode::Append,
            };
            let asked = async {
                let sink = self.sink(dataset, mode).await?;
                sink.prepare(schema, mode).await
            };
            if let Err(error) = asked.await {
                faults.push(Diagnostic::of(&dataset.position, &error.within(format!("table '{}'", dataset.name))));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Diagnostics(faults)) }
    }

    async fn prepare_table(&self, index: usize, dataset: &Dataset, schema: &SchemaRef, refreshed: bool) -> Result<()> {
        let anyone = self.session.registry().ids.next();
        match dataset.kind {
            DatasetKind::TemporaryView => Ok(()),
            DatasetKind::MaterializedView => {
                if refreshed {
                    self.forget(dataset).await?;
                }
                if !self.place.has_table(&dataset.name).await? {
                    self.write_nothing(dataset, schema, OutputMode::Complete, anyone).await?;
                }
                Ok(())
            }
            DatasetKind::StreamingTable => {
                let refresh = match refreshed {
                    true => self.place.add_refresh(&dataset.name).await?,
                    false => self.place.refreshes(&dataset.name).await?,
                };
                if !refreshed && !self.place.has_table(&dataset.name).await? {
                    self.refuse_lost(index, dataset, refresh).await?;
                }
                self.empty_for(dataset, schema, refresh).await?;
                self.write_nothing(dataset, schema, OutputMode::Append, anyone).await
            }
        }
    }

    /// Refuses to make a table anew whose flows have written to it: they would go on where they are, and its rows would be missing.
    async fn refuse_lost(&self, index: usize, dataset: &Dataset, refresh: u64) -> Result<()> {
        let table = self.place.table(&dataset.name);
        for flow in self.graph.flows_into(index) {
            let flow = self.flow(flow)?;
            let ownership = self.ownership(dataset, flow, refresh, &Target::Missing);
            let lost = match flow.once {
                true if self.place.record::<Done>(&once_done(flow, refresh)).await?.is_some() => {
                    Err(ownership.target_lost(&table, &format!("flow '{}', which runs once, has written to it", flow.name)))
                }
                true => Ok(()),
                false => self.session.refuse_lost_target(&table, &self.place.checkpoint(&flow.name, refresh), &ownership).await,
            };
            lost.map_err(|error| error.within(format!("table '{}'", dataset.name)))?;
        }
        Ok(())
    }

    /// A flow and its table belong together.
    pub(super) fn ownership(&self, dataset: &Dataset, flow: &Flow, refresh: u64, target: &Target) -> Ownership {
        let table = match target {
            Target::Existing { id } => id.clone(),
            Target::Missing | Target::Unknown => self.place.table(&dataset.name),
        };
        let query = format!("{table} flow {} {refresh}", flow.name.to_string().to_lowercase());
        Ownership {
            query_id: Uuid::new_v5(&Uuid::NAMESPACE_URL, query.as_bytes()),
            begin_anew: format!("compute the table again with --full-refresh {}", dataset.name),
        }
    }

    /// Empties a table for its newest full refresh, unless that was done. The refresh is recorded already, so its flows begin anew; the
    /// emptying carries the refresh's number, so that it happens once, also when an earlier run was killed in between, and before any flow
    /// writes.
    async fn empty_for(&self, dataset: &Dataset, schema: &SchemaRef, refresh: u64) -> Result<()> {
        let done = format!("refreshes/{}/{refresh}.done", directory(&dataset.name));
        if refresh == 0 || self.place.record::<Done>(&done).await?.is_some() {
            return Ok(());
        }
        let once = self.identity(dataset, &format!("refresh {refresh}"));
        self.write_nothing(dataset, schema, OutputMode::Complete, once).await?;
        self.place.set_record(&done, &Done {}).await
    }

    /// An id that is the same for the same purpose of the same table.
    pub(super) fn identity(&self, dataset: &Dataset, purpose: &str) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{} {purpose}", self.place.table(&dataset.name)).as_bytes())
    }

    /// Commits a batch without rows: it makes the table or its new columns, or empties it in complete mode.
    async fn write_nothing(&self, dataset: &Dataset, schema: &SchemaRef, mode: OutputMode, query_id: Uuid) -> Result<()> {
        let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(from_datafusion)?;
        let plan = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(schema) });
        let sink = self.sink(dataset, mode).await?;
        let written = self.session.write_batch(plan, sink.clone(), mode, &[], query_id, 0).await;
        sink.stop().await;
        written.map(drop).map_err(|error| error.within(format!("table '{}'", dataset.name)))
    }

    /// A sink for a table.
    pub(super) async fn sink(&self, dataset: &Dataset, mode: OutputMode) -> Result<Arc<dyn Sink>> {
        let mut options = match mode {
            OutputMode::Complete => options([("overwriteSchema", "true")]),
            OutputMode::Append | OutputMode::Update => options([("mergeSchema", "true")]),
        };
        for (key, value) in dataset.properties.iter().filter(|(key, _)| key.to_lowercase().starts_with("delta.")) {
            options.set(key, value);
        }
        let request = WriteRequest {
            path: Some(self.place.table(&dataset.name)),
            partition_by: dataset.partition_by.iter().map(|(name, _)| name.clone()).collect(),
            options,
            query_name: None,
        };
        self.session.registry().sink("delta")?.sink(&request).await
    }
}
