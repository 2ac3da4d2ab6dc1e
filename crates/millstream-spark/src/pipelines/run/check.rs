//! Plans every query of a pipeline against the columns that its inputs will have.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::registry::ReadRequest;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};
use millstream_engine::plan::result_schema;

use super::Pipeline;
use super::columns::{aligned, merged, stored};
use super::relations::{BLOCKED, Lowering, schema_key};
use crate::analyzer::Attribute;
use crate::pipelines::graph::{Dataset, Flow};
use crate::pipelines::parser::{DatasetKind, OnViolation};
use crate::sql::{Diagnostic, Diagnostics};

/// What planning found out.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The columns of every table, by its place in the graph's datasets.
    pub schemas: BTreeMap<usize, SchemaRef>,
    /// Things worth knowing that are no faults.
    pub notes: Vec<Diagnostic>,
}

impl Pipeline {
    /// Plans everything. Tables in `refreshed` are taken as if they did not exist.
    pub(super) async fn checked(&self, refreshed: &[usize]) -> Result<Checked, Diagnostics> {
        let mut check = Check { schemas: BTreeMap::new(), broken: BTreeSet::new(), faults: Vec::new() };
        for (index, dataset) in self.graph.datasets.iter().enumerate() {
            if dataset.kind == DatasetKind::StreamingTable && !refreshed.contains(&index) {
                match self.stored_schema(dataset).await {
                    Ok(Some(schema)) => drop(check.schemas.insert(index, schema)),
                    Ok(None) => {}
                    Err(error) => check.faults.push(Diagnostic::of(&dataset.position, &error)),
                }
            }
        }
        for flow in &self.graph.flows {
            match self.check_flow(flow, &check.schemas, &check.broken).await {
                Ok(schema) => check.add(flow, schema, &self.graph.datasets),
                Err(fault) => check.fail(flow, fault),
            }
        }
        self.check_views(&mut check).await;
        if check.faults.is_empty() {
            return Ok(Checked { schemas: check.schemas, notes: self.notes() });
        }
        let mut seen: Vec<Diagnostic> = Vec::new();
        for fault in check.faults {
            if !seen.contains(&fault) {
                seen.push(fault);
            }
        }
        seen.sort_by(|left, right| left.position.cmp(&right.position));
        Err(Diagnostics(seen))
    }

    async fn stored_schema(&self, dataset: &Dataset) -> Result<Option<SchemaRef>> {
        if !self.place.has_table(&dataset.name).await? {
            return Ok(None);
        }
        let request = ReadRequest { paths: vec![self.place.table(&dataset.name)], ..ReadRequest::default() };
        self.session.registry().source("delta")?.schema(&request, false).await.map(Some)
    }

    async fn check_flow(
        &self,
        flow: &Flow,
        schemas: &BTreeMap<usize, SchemaRef>,
        broken: &BTreeSet<usize>,
    ) -> Result<SchemaRef, Diagnostic> {
        let known: BTreeMap<usize, SchemaRef> =
            schemas.iter().filter(|(index, _)| !broken.contains(index)).map(|(index, schema)| (*index, schema.clone())).collect();
        let lowering = Lowering::declared(self, &known);
        let plan = self.flow_plan(flow, &lowering).await?;
        if flow.query.is_streaming() {
            millstream_engine::check::check(&plan, OutputMode::Append).map_err(|error| Diagnostic::of(&flow.query.position, &error))?;
        }
        let schema = result_schema(&plan);
        self.expectations(flow, &schema, &lowering)?;
        let dataset = self.dataset(flow.target).map_err(|error| Diagnostic::of(&flow.position, &error))?;
        for (name, position) in &dataset.partition_by {
            if !schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name)) {
                let message = format!("partition column '{name}' is not a column of '{}'", dataset.name);
                return Err(Diagnostic::new("PARTITION_COLUMN_NOT_FOUND_IN_SCHEMA", "42000", position.clone(), message));
            }
        }
        Ok(stored(&schema))
    }

    /// The plan of a flow with the columns that its table declares.
    pub(super) async fn flow_plan(&self, flow: &Flow, lowering: &Lowering<'_>) -> Result<LogicalPlan, Diagnostic> {
        let fault = |error: Error| Diagnostic::of(&flow.position, &error);
        let dataset = self.dataset(flow.target).map_err(fault)?;
        let refresh = self.place.refreshes(&dataset.name).await.map_err(fault)?;
        let plan = lowering.plan(&schema_key(&flow.name, refresh), &flow.query, &flow.inputs, &flow.settings).await?;
        aligned(plan, dataset)?.named_plan().map_err(|error| Diagnostic::of(&flow.query.position, &error))
    }

    /// The expectations on a flow's rows.
    pub(super) fn expectations(
        &self,
        flow: &Flow,
        schema: &SchemaRef,
        lowering: &Lowering<'_>,
    ) -> Result<Vec<millstream_engine::Expectation>, Diagnostic> {
        let dataset = self.dataset(flow.target).map_err(|error| Diagnostic::of(&flow.position, &error))?;
        let columns: Vec<Attribute> = schema.fields().iter().map(|field| Attribute::named(field)).collect();
        let mut expectations = Vec::with_capacity(dataset.expectations.len());
        for expectation in &dataset.expectations {
            let predicate = lowering.condition(expectation, &columns, &flow.settings)?;
            let on_violation = match expectation.on_violation {
                OnViolation::Keep => millstream_engine::OnViolation::Keep,
                OnViolation::DropRow => millstream_engine::OnViolation::DropRow,
                OnViolation::FailUpdate => millstream_engine::OnViolation::FailUpdate,
            };
            expectations.push(millstream_engine::Expectation { name: expectation.name.clone(), predicate, on_violation });
        }
        Ok(expectations)
    }

    /// Views that nothing reads have faults, too.
    async fn check_views(&self, check: &mut Check) {
        for dataset in &self.graph.datasets {
            let Some(view) = &dataset.view else { continue };
            if let Some(expectation) = dataset.expectations.iter().find(|expectation| expectation.on_violation == OnViolation::FailUpdate) {
                let message = format!("expectation '{}' of view '{}' cannot fail the update", expectation.name, dataset.name);
                check.faults.push(
                    Diagnostic::unsupported(expectation.position.clone(), message).with_hint("put it on the table that reads the view"),
                );
            }
            let known: BTreeMap<usize, SchemaRef> =
                check.schemas.clone().into_iter().filter(|(index, _)| !check.broken.contains(index)).collect();
            let lowering = Lowering::declared(self, &known);
            match lowering.view(&schema_key(&dataset.name, 0), dataset, view).await {
                Err(fault) if fault.code != BLOCKED => check.faults.push(fault),
                _ => {}
            }
        }
    }

    fn notes(&self) -> Vec<Diagnostic> {
        let mut notes = self.graph.notes.clone();
        let mut note = |position: &crate::sql::Position, message: String| {
            notes.push(Diagnostic::new("CLAUSE_WITHOUT_EFFECT", "01000", position.clone(), message));
        };
        for dataset in &self.graph.datasets {
            if dataset.kind == DatasetKind::TemporaryView {
                for expectation in dataset.expectations.iter() {
                    note(
                        &expectation.position,
                        format!("expectation '{}' is applied to the view and not counted: only tables count", expectation.name),
                    );
                }
            }
            for column in dataset.columns.iter().filter(|column| column.field.as_ref().is_some_and(|field| !field.is_nullable())) {
                note(&column.position, format!("NOT NULL of '{}' is not enforced: add an expectation", column.name));
            }
        }
        notes.sort_by(|left, right| left.position.cmp(&right.position));
        notes
    }
}

struct Check {
    schemas: BTreeMap<usize, SchemaRef>,
    /// Tables of which a query has a fault, so that their columns are not known.
    broken: BTreeSet<usize>,
    faults: Vec<Diagnostic>,
}

impl Check {
    fn fail(&mut self, flow: &Flow, fault: Diagnostic) {
        self.broken.insert(flow.target);
        if fault.code != BLOCKED {
            self.faults.push(fault);
        }
    }

    fn add(&mut self, flow: &Flow, schema: SchemaRef, datasets: &[Dataset]) {
        let table = datasets.get(flow.target).map(|dataset| dataset.name.to_string()).unwrap_or_default();
        let schema = match self.schemas.get(&flow.target) {
            Some(known) => merged(known, &schema, &table),
            None => Ok(schema),
        };
        match schema {
            Ok(schema) => drop(self.schemas.insert(flow.target, schema)),
            Err(error) => self.fail(flow, Diagnostic::of(&flow.position, &error)),
        }
    }
}
