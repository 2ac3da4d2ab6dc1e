//! Conditions that a table sets on its rows: `CHECK` constraints and generated columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use millstream_core::versioned::TableFacts;
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::Session;
use crate::analyzer::{Attribute, apart};
use crate::functions::cast::{TextStyle, text_of};
use crate::functions::{Arguments, Kernel, Typed, scalar};
use crate::types::schema_from_json;

/// The prefix of properties that are constraints.
pub(in crate::connect) const CONSTRAINT: &str = "delta.constraints.";

/// The metadata key of a column with the expression that computes it.
pub(in crate::connect) const GENERATED: &str = "delta.generationExpression";

/// A condition on every row.
#[derive(Clone, Debug)]
struct Condition {
    name: String,
    text: String,
    expression: Expression,
    /// The error condition and its SQLSTATE.
    code: (&'static str, &'static str),
}

const VIOLATED: (&str, &str) = ("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001");

/// The conditions of one table.
#[derive(Clone, Debug, Default)]
pub(in crate::connect) struct Constraints {
    /// What rows have to satisfy.
    checks: Vec<Condition>,
    /// Columns and their expressions in SQL.
    generated: Vec<(String, String)>,
}

impl Condition {
    fn of(name: &str, text: &str) -> Result<Self> {
        let expression = crate::sql::parse::expression(text)?;
        Ok(Condition { name: name.to_owned(), text: text.to_owned(), expression, code: VIOLATED })
    }
}

impl Constraints {
    /// Those of a table.
    ///
    /// # Errors
    /// Those of a schema that cannot be read.
    pub(in crate::connect) fn of(facts: &TableFacts) -> Result<Self> {
        let mut checks = Vec::new();
        for (key, text) in &facts.properties {
            if let Some(name) = key.strip_prefix(CONSTRAINT) {
                checks.push(Condition::of(name, text)?);
            }
        }
        let schema = schema_from_json(&facts.schema)?;
        let computed = |field: &Arc<arrow::datatypes::Field>| Some((field.name().clone(), field.metadata().get(GENERATED)?.clone()));
        Ok(Constraints { checks, generated: schema.fields().iter().filter_map(computed).collect() })
    }

    /// The condition of rows that replace others.
    pub(in crate::connect) fn of_replacement(expression: &Expression) -> Self {
        let text = crate::analyzer::name_of(expression);
        let code = ("DELTA_REPLACE_WHERE_MISMATCH", "44000");
        Constraints {
            checks: vec![Condition { name: "replaceWhere".to_owned(), text, expression: expression.clone(), code }],
            generated: Vec::new(),
        }
    }

    /// The features of the table that are taken care of with them.
    pub(in crate::connect) fn features() -> Vec<String> {
        ["checkConstraints", "generatedColumns"].map(str::to_owned).to_vec()
    }

    /// The expression that computes a column, if it has one.
    pub(in crate::connect) fn generation(&self, column: &str) -> Option<&str> {
        self.generated.iter().find(|(known, _)| known.eq_ignore_ascii_case(column)).map(|(_, text)| text.as_str())
    }

    /// Rows with the generated columns that they lack, and their columns. Rows are under their names, and get internal ones.
    ///
    /// # Errors
    /// Those of expressions that do not resolve.
    pub(in crate::connect) fn completed(
        &self,
        session: &Session,
        plan: LogicalPlan,
        table: &SchemaRef,
    ) -> Result<(LogicalPlan, Vec<Attribute>)> {
        let mut given: Vec<(Attribute, Typed)> = Vec::new();
        for (qualifier, field) in plan.schema().iter() {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            let value = Typed::new(column, field.data_type().clone(), field.is_nullable()).with_metadata(field.metadata().clone());
            given.push((apart::attribute(field.name(), &value), value));
        }
        let rows = apart::computed(plan, given)?;
        let missing: Vec<&(String, String)> =
            self.generated.iter().filter(|(column, _)| !rows.columns.iter().any(|known| known.name.eq_ignore_ascii_case(column))).collect();
        if missing.is_empty() {
            return Ok((rows.plan, rows.columns));
        }
        let (settings, state) = (session.settings(), session.engine.context().state());
        let mut all: Vec<(Attribute, Typed)> = rows.columns.iter().map(|column| (column.clone(), apart::value_of(column))).collect();
        for (column, text) in missing {
            let value = apart::resolved(&crate::sql::parse::expression(text)?, &rows.columns, session, &settings, &state)?;
            let field =
                table.field_with_name(column).map_err(|error| Error::internal("a generated column is not there").caused_by(error))?;
            let value = super::stored(value, field, &settings)?;
            all.push((apart::attribute(column, &value), value));
        }
        let rows = apart::computed(rows.plan, all)?;
        Ok((rows.plan, rows.columns))
    }

    /// The plan, failing at rows that break a condition. `columns` are those of the table; only rows for which `affected` holds are looked
    /// at.
    ///
    /// # Errors
    /// Those of conditions that do not resolve.
    pub(in crate::connect) fn enforced(
        &self,
        session: &Session,
        plan: LogicalPlan,
        columns: &[Attribute],
        affected: Option<&Expr>,
    ) -> Result<LogicalPlan> {
        let (settings, state) = (session.settings(), session.engine.context().state());
        let mut plan = plan;
        let mut conditions = self.checks.clone();
        for (column, text) in &self.generated {
            conditions.push(Condition::of("Generated Column", &format!("`{column}` <=> ({text})"))?);
        }
        for Condition { name, text, expression, code } in conditions {
            let condition = apart::resolved(&expression, columns, session, &settings, &state)?;
            let mut values = vec![condition.clone()];
            for column in columns.iter().filter(|column| condition.expr.column_refs().iter().any(|used| used.name == column.internal)) {
                values.push(apart::value_of(column));
            }
            let fields = values.iter().skip(1).zip(columns_used(columns, &condition)).map(|(value, column)| value.to_field(&column.name));
            let check = Check { name, text, code, fields: fields.collect(), style: TextStyle::cast(settings.time_zone) };
            let mut guarded = scalar("check_constraint", check, values, DataType::Boolean, false).expr;
            if let Some(affected) = affected {
                guarded = super::case(vec![(affected.clone(), guarded)], datafusion::logical_expr::lit(true))?;
            }
            plan = LogicalPlanBuilder::from(plan).filter(guarded).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
        }
        Ok(plan)
    }
}

fn columns_used<'a>(columns: &'a [Attribute], condition: &Typed) -> Vec<&'a Attribute> {
    let used = condition.expr.column_refs();
    columns.iter().filter(|column| used.iter().any(|used| used.name == column.internal)).collect()
}

/// Fails at the first row whose condition is not true.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Check {
    name: String,
    text: String,
    code: (&'static str, &'static str),
    fields: Vec<arrow::datatypes::Field>,
    style: TextStyle,
}

impl Kernel for Check {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let held = arguments.array(0)?;
        let held = held.as_boolean_opt().ok_or_else(|| Error::internal("a constraint is no boolean"))?;
        let Some(row) = (0..held.len()).find(|row| held.is_null(*row) || !held.value(*row)) else {
            return Ok(Arc::new(BooleanArray::from(vec![true; held.len()])));
        };
        let mut shown = String::new();
        for (place, field) in self.fields.iter().enumerate() {
            let texts = text_of(&arguments.array(place + 1)?.slice(row, 1), field, &self.style)?;
            let value = if texts.is_null(0) { "null" } else { texts.value(0) };
            shown.push_str(&format!("\n - {} : {value}", field.name()));
        }
        let message = format!("CHECK constraint {} ({}) violated by row with values:{shown}", self.name, self.text);
        let (code, sqlstate) = self.code;
        Err(Error::new(ErrorKind::BadRecord, code, message).with_sqlstate(sqlstate))
    }
}
