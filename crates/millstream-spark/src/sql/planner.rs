//! From a prepared query to a logical plan.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemoryCatalogProviderList, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, SchemaError, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::{ExprPlanner, TypePlanner};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, ident};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;

use super::diagnostic::{Diagnostic, Position};
use super::division::Division;
use super::literals::{narrow, narrow_expression};
use super::names::{RelationNames, Spelling, fold, mentions_metadata, spell};
use super::query::PreparedQuery;
use super::variables::closest;

/// The key in a field's metadata that marks a column which `SELECT *` leaves out.
const HIDDEN: &str = "__metadata_col";

/// Plans queries with the functions of a session and names of its own.
pub(crate) struct Planner {
    state: SessionState,
}

impl Planner {
    /// A planner with the functions and settings of `state`.
    pub(crate) fn new(state: SessionState) -> Self {
        let mut config = state.config().clone().with_create_default_catalog_and_schema(true);
        let options = config.options_mut();
        options.sql_parser.collect_spans = true;
        options.sql_parser.enable_ident_normalization = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        // 1.5 is a decimal, as in Spark.
        options.sql_parser.parse_float_as_decimal = true;
        let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Division)];
        planners.extend(state.expr_planners().iter().cloned());
        let state = SessionStateBuilder::new_from_existing(state)
            .with_config(config)
            .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
            .with_type_planner(Arc::new(SparkTypes))
            .with_expr_planners(planners)
            .build();
        Planner { state }
    }

    /// Plans a query. `relations` are what its relations are, in their order. The columns of the plan have the spelling that Spark gives
    /// them.
    pub(crate) async fn plan(&self, prepared: &PreparedQuery, relations: Vec<Arc<dyn TableProvider>>) -> Result<LogicalPlan, Diagnostic> {
        let context = SessionContext::new_with_state(self.state.clone());
        let mut query = prepared.query.clone();
        let shows_metadata = mentions_metadata(&mut query);
        let schemas: Vec<SchemaRef> = relations.iter().map(|relation| relation.schema()).collect();
        let names: Vec<RelationNames<'_>> = prepared
            .relations
            .iter()
            .zip(&schemas)
            .map(|(relation, schema)| RelationNames {
                placeholder: &relation.placeholder,
                schema,
                hidden: shows_metadata && schema.fields().iter().any(|field| is_hidden(field)),
            })
            .collect();
        let spelling = fold(&mut query, &names);
        for (relation, provider) in prepared.relations.iter().zip(relations) {
            let at = |error: Error| at(&relation.position, error);
            let folded = folded(&relation.placeholder, provider, shows_metadata).map_err(at)?;
            context
                .register_table(TableReference::bare(relation.placeholder.as_str()), folded)
                .map_err(|error| at(from_datafusion(error)))?;
        }
        let statement = Statement::Statement(Box::new(ast::Statement::Query(query)));
        let located = |error: DataFusionError| located(&prepared.position, error);
        let plan = context.state().statement_to_plan(statement).await.and_then(narrow).map_err(located)?;
        // Types that do not fit together are found by the analyzer.
        let options = self.state.config_options();
        self.state.analyzer().execute_and_check(plan.clone(), options, |_, _| {}).map_err(located)?;
        spelt(plan, &spelling).map_err(|error| at(&prepared.position, error))
    }

    /// Plans a condition over the rows of a schema.
    pub(crate) fn condition(&self, condition: &ast::Expr, schema: &SchemaRef, position: &Position) -> Result<Expr, Diagnostic> {
        let mut condition = condition.clone();
        spell(&mut condition, schema);
        let located = |error: DataFusionError| located(position, error);
        let df_schema = DFSchema::try_from(schema.as_ref().clone()).map_err(located)?;
        let aliased = ast::ExprWithAlias { expr: condition, alias: None };
        let expr = self.state.create_logical_expr_from_sql_expr(aliased, &df_schema).and_then(narrow_expression).map_err(located)?;
        // Planning it for execution is what finds types that do not fit.
        let physical = self.state.create_physical_expr(expr.clone(), &df_schema).map_err(located)?;
        match physical.data_type(schema).map_err(located)? {
            DataType::Boolean | DataType::Null => Ok(expr),
            other => {
                let message = format!("the condition is a {} and not a boolean", crate::types::simple_name(&other));
                Err(Diagnostic::new("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", "42K09", position.clone(), message))
            }
        }
    }
}

fn is_hidden(field: &Field) -> bool {
    field.metadata().contains_key(HIDDEN)
}

/// The relation with lower-case columns, and without the hidden column unless the query names it.
fn folded(placeholder: &str, provider: Arc<dyn TableProvider>, shows_metadata: bool) -> Result<Arc<dyn TableProvider>> {
    let schema = provider.schema();
    let kept = |field: &Field| shows_metadata || !is_hidden(field);
    if schema.fields().iter().all(|field| kept(field) && field.name().chars().all(|c| !c.is_uppercase())) {
        return Ok(provider);
    }
    let mut columns: Vec<Expr> = Vec::with_capacity(schema.fields().len());
    let mut seen: Vec<String> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields().iter().filter(|field| kept(field)) {
        let lower = field.name().to_lowercase();
        if seen.contains(&lower) {
            return Err(Error::invalid(
                "COLUMN_ALREADY_EXISTS",
                format!("column '{}' is there twice: names are compared without case; give a schema or rename one", field.name()),
            )
            .with_sqlstate("42711"));
        }
        columns.push(if lower == *field.name() { ident(field.name()) } else { ident(field.name()).alias(lower.clone()) });
        seen.push(lower);
    }
    let plan = LogicalPlanBuilder::scan(format!("{placeholder}_source"), provider_as_source(provider), None)
        .and_then(|scan| scan.project(columns))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// Gives the columns of the result their spelling.
fn spelt(plan: LogicalPlan, spelling: &Spelling) -> Result<LogicalPlan> {
    let schema = plan.schema().clone();
    if schema.fields().iter().all(|field| spelling.of(field.name()) == field.name()) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = schema
        .columns()
        .into_iter()
        .map(|column| {
            let name = spelling.of(&column.name).to_owned();
            if name == column.name { col(column) } else { col(column).alias(name) }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn at(position: &Position, error: Error) -> Diagnostic {
    Diagnostic::of(position, &error)
}

/// The planner's error at the place that it names, or at the beginning of the query.
fn located(query: &Position, error: DataFusionError) -> Diagnostic {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span).filter(|span| span.start.line > 0);
    let position = match span {
        Some(span) => Position { file: query.file.clone(), line: span.start.line, column: span.start.column },
        None => query.clone(),
    };
    if let Some(fault) = name_fault(&error, &position) {
        return fault;
    }
    at(&position, from_datafusion(error))
}

/// Names that are unknown or not unique, under Spark's conditions.
fn name_fault(error: &DataFusionError, position: &Position) -> Option<Diagnostic> {
    match error {
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let message = format!("there is no column '{}'", field.name);
                let names: Vec<&str> = valid_fields.iter().map(|field| field.name.as_str()).collect();
                let hint = match closest(&field.name, names.iter().copied()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None if names.is_empty() => "nothing is selected from".to_owned(),
                    None => format!("there are {}", names.iter().take(20).copied().collect::<Vec<_>>().join(", ")),
                };
                Some(Diagnostic::new("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", position.clone(), message).with_hint(hint))
            }
            SchemaError::AmbiguousReference { field } => {
                let message = format!("column '{}' is in more than one relation", field.name);
                Some(Diagnostic::new("AMBIGUOUS_REFERENCE", "42704", position.clone(), message).with_hint("write relation.column"))
            }
            _ => None,
        },
        DataFusionError::Plan(text) => {
            let name = text.strip_prefix("Invalid function '")?.split('\'').next()?;
            Some(Diagnostic::new("UNRESOLVED_ROUTINE", "42883", position.clone(), format!("there is no function '{name}'")))
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => name_fault(inner, position),
        DataFusionError::Shared(inner) => name_fault(inner, position),
        DataFusionError::Collection(all) => all.first().and_then(|first| name_fault(first, position)),
        _ => None,
    }
}

/// The types of `CAST`, `TIMESTAMP '…'` and the like are Spark's: a timestamp is an instant, a decimal has ten digits.
#[derive(Debug)]
struct SparkTypes;

impl TypePlanner for SparkTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> datafusion::error::Result<Option<FieldRef>> {
        let planned = crate::types::parse_data_type(&sql_type.to_string()).ok();
        Ok(planned.map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

#[cfg(test)]
mod tests;
