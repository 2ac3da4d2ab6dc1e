//! Rules between datasets and queries that can be told without a schema.

use std::collections::BTreeSet;

use super::{Builder, Diagnostic, Input, Pending, Reader};
use crate::pipelines::parser::DatasetKind;

impl Builder<'_> {
    /// Checks every query, and every table for a query.
    pub(super) fn check(&mut self) {
        let streaming_views = self.streaming_views();
        let mut faults = Vec::new();
        let mut notes = Vec::new();
        for pending in &self.pending {
            faults.extend(self.query_kind(pending));
            // Where a relation is unknown, the rest of the query cannot be judged by its inputs.
            if pending.inputs.len() == pending.query.relations.len() {
                self.reads(pending, &streaming_views, &mut faults, &mut notes);
            }
        }
        let written: BTreeSet<usize> = self.pending.iter().map(|pending| pending.reader.dataset()).collect();
        if self.faults.is_empty() {
            for (index, dataset) in self.graph.datasets.iter().enumerate().filter(|(index, _)| !written.contains(index)) {
                let message = format!("nothing writes into the {} '{}'", dataset.kind.name(), self.graph.datasets[index].name);
                faults.push(
                    Diagnostic::new("PIPELINE_DATASET_WITHOUT_FLOW", "42000", dataset.position.clone(), message)
                        .with_hint(format!("write AS and a query, or CREATE FLOW … AS INSERT INTO {} BY NAME …", dataset.name)),
                );
            }
        }
        if self.graph.datasets.is_empty() && self.faults.is_empty() {
            let file: std::sync::Arc<str> = "pipeline".into();
            let position = crate::sql::Position { file, line: 1, column: 1 };
            faults.push(Diagnostic::new("RUN_EMPTY_PIPELINE", "42617", position, "the pipeline defines no table"));
        }
        self.faults.extend(faults);
        self.graph.notes.extend(notes);
    }

    /// The views whose query is a streaming query.
    fn streaming_views(&self) -> BTreeSet<usize> {
        let views = self.pending.iter().filter(|pending| pending.query.is_streaming());
        views.filter_map(|pending| if let Reader::View { dataset } = pending.reader { Some(dataset) } else { None }).collect()
    }

    /// A streaming table is fed by streaming queries, a materialized view by batch queries.
    fn query_kind(&self, pending: &Pending) -> Option<Diagnostic> {
        let Reader::Flow { target } = pending.reader else { return None };
        let dataset = self.graph.datasets.get(target)?;
        let streaming = pending.query.is_streaming();
        let stream = pending.query.relations.iter().find(|relation| relation.streaming);
        let fault = |condition: &'static str, position: &crate::sql::Position, message: String| {
            Diagnostic::new(condition, "42000", position.clone(), message)
        };
        match dataset.kind {
            DatasetKind::StreamingTable if pending.once && streaming => {
                let message = format!("flow '{}' is run once, so its query cannot read a stream", pending.name);
                let position = stream.map_or(&pending.query.position, |relation| &relation.position);
                Some(
                    fault("INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW", position, message)
                        .with_hint("leave STREAM or ONCE out"),
                )
            }
            DatasetKind::StreamingTable if !pending.once && !streaming => {
                let message = format!("the query of the streaming table '{}' reads no stream", dataset.name);
                let hint = match pending.query.relations.first() {
                    Some(relation) => format!("write STREAM {}, or CREATE MATERIALIZED VIEW", relation.source.display()),
                    None => "write CREATE MATERIALIZED VIEW".to_owned(),
                };
                Some(fault("INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE", &pending.query.position, message).with_hint(hint))
            }
            DatasetKind::MaterializedView if streaming => {
                let message = format!("the query of the materialized view '{}' reads a stream", dataset.name);
                let position = stream.map_or(&pending.query.position, |relation| &relation.position);
                Some(
                    fault("INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW", position, message)
                        .with_hint("leave STREAM out, or CREATE STREAMING TABLE"),
                )
            }
            _ => None,
        }
    }

    /// A batch view is read as a table and a streaming view as a stream.
    fn reads(&self, pending: &Pending, streaming_views: &BTreeSet<usize>, faults: &mut Vec<Diagnostic>, notes: &mut Vec<Diagnostic>) {
        for (relation, input) in pending.query.relations.iter().zip(&pending.inputs) {
            let Input::Dataset(index) = input else { continue };
            let Some(dataset) = self.graph.datasets.get(*index) else { continue };
            let position = relation.position.clone();
            let (name, streaming_view) = (&dataset.name, streaming_views.contains(index));
            match dataset.kind {
                DatasetKind::TemporaryView if relation.streaming && !streaming_view => {
                    let message = format!("view '{name}' is a batch query and cannot be read as a stream");
                    let hint = format!("leave STREAM out, or write STREAM inside of the view at {}", dataset.position);
                    faults.push(Diagnostic::new("INCOMPATIBLE_BATCH_VIEW_READ", "42000", position, message).with_hint(hint));
                }
                DatasetKind::TemporaryView if !relation.streaming && streaming_view => {
                    let message = format!("view '{name}' is a streaming query and cannot be read as a table");
                    let hint = format!("write STREAM {name}");
                    faults.push(Diagnostic::new("INCOMPATIBLE_STREAMING_VIEW_READ", "42000", position, message).with_hint(hint));
                }
                DatasetKind::MaterializedView if relation.streaming => notes.push(
                    Diagnostic::new(
                        "STREAM_OF_A_MATERIALIZED_VIEW",
                        "01000",
                        position,
                        format!("'{name}' is written whole whenever it changes, and a stream of it reads all of its rows again each time"),
                    )
                    .with_hint("read it without STREAM, or make it a streaming table"),
                ),
                _ => {}
            }
            if !relation.options.is_empty() && dataset.kind == DatasetKind::TemporaryView {
                let message = format!("options of a read have no effect on view '{name}'");
                notes.push(Diagnostic::new("CLAUSE_WITHOUT_EFFECT", "01000", relation.position.clone(), message));
            }
        }
    }
}
