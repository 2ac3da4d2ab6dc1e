//! Starts single flows.

use std::sync::Arc;

use millstream_core::registry::WriteRequest;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Result, Trigger};
use millstream_engine::plan::{result_schema, watches_event_time};
use millstream_engine::session::BatchWritten;
use millstream_engine::stateful::ChangePolicy;
use millstream_engine::{QueryRequest, QuerySettings, StreamingQuery};

use super::relations::Lowering;
use super::tables::{Done, once_done};
use super::{Pipeline, RunOptions};
use crate::pipelines::graph::{Flow, Input};

impl Pipeline {
    /// Starts the streaming query of a flow.
    ///
    /// # Errors
    /// Faults of the query against its inputs as they are now, and those of starting it.
    pub(super) async fn start(&self, flow: &Flow, trigger: Trigger, options: &RunOptions) -> Result<StreamingQuery> {
        let dataset = self.dataset(flow.target)?;
        let lowering = Lowering::live(self);
        let plan = self.flow_plan(flow, &lowering).await?;
        let expectations = self.expectations(flow, &result_schema(&plan), &lowering)?;
        let quarantine = match self.reads_files(flow) {
            true => Some(self.beside(self.place.quarantine(&flow.name)).await?),
            false => None,
        };
        let late_rows = match watches_event_time(&plan)? {
            true => Some(self.beside(self.place.late_rows(&flow.name)).await?),
            false => None,
        };
        let refresh = self.place.refreshes(&dataset.name).await?;
        let sink = self.sink(dataset, OutputMode::Append).await?;
        let ownership = self.ownership(dataset, flow, refresh, &sink.target().await?);
        let request = QueryRequest {
            name: Some(flow.name.to_string()),
            plan,
            output: None,
            sink,
            mode: OutputMode::Append,
            trigger,
            checkpoint: self.place.checkpoint(&flow.name, refresh),
            quarantine,
            expectations,
            settings: QuerySettings {
                late_rows,
                restore_watermarks: true,
                ownership: Some(ownership),
                changes: ChangePolicy { refuse: true, accepted: options.accepted_changes.clone() },
                ..QuerySettings::default()
            },
        };
        self.session.start(request).await.map_err(|error| error.within(format!("flow '{}'", flow.name)))
    }

    /// A table of its own for what a flow does not put into its table.
    async fn beside(&self, path: String) -> Result<Arc<dyn Sink>> {
        let request = WriteRequest { path: Some(path), ..WriteRequest::default() };
        self.session.registry().sink("delta")?.sink(&request).await
    }

    /// Appends the rows of a flow that is run once, unless that was done since the last full refresh of its table.
    ///
    /// # Errors
    /// Faults of the query against its inputs as they are now, and those of reading and writing.
    pub(super) async fn append_once(&self, flow: &Flow) -> Result<Option<BatchWritten>> {
        let dataset = self.dataset(flow.target)?;
        let refresh = self.place.refreshes(&dataset.name).await?;
        let done = once_done(flow, refresh);
        if self.place.record::<Done>(&done).await?.is_some() {
            return Ok(None);
        }
        let lowering = Lowering::live(self);
        let plan = self.flow_plan(flow, &lowering).await?;
        let expectations = self.expectations(flow, &result_schema(&plan), &lowering)?;
        let once = self.identity(dataset, &format!("once {} {refresh}", flow.name.to_string().to_lowercase()));
        let sink = self.sink(dataset, OutputMode::Append).await?;
        let written = self.session.write_batch(plan, sink.clone(), OutputMode::Append, &expectations, once, 0).await;
        sink.stop().await;
        let written = written.map_err(|error| error.within(format!("flow '{}'", flow.name)))?;
        self.place.set_record(&done, &Done {}).await?;
        Ok(written)
    }

    /// Whether a flow reads files as a stream, itself or through views: only those have records that cannot be read.
    fn reads_files(&self, flow: &Flow) -> bool {
        self.reads(flow, |input| matches!(input, Input::Files))
    }

    /// Whether a flow reads anything that the pipeline does not write, itself or through views.
    pub(super) fn reads_outside(&self, flow: &Flow) -> bool {
        self.reads(flow, |input| !matches!(input, Input::Dataset(_)))
    }

    fn reads(&self, flow: &Flow, wanted: impl Fn(&Input) -> bool) -> bool {
        let mut open: Vec<&Input> = flow.inputs.iter().collect();
        while let Some(input) = open.pop() {
            if wanted(input) {
                return true;
            }
            if let Input::Dataset(index) = input {
                let view = self.graph.datasets.get(*index).and_then(|dataset| dataset.view.as_ref());
                open.extend(view.iter().flat_map(|view| &view.inputs));
            }
        }
        false
    }
}
