//! `groupBy(…).pivot(…)`, and tables of frequencies.
//!
//! As in Spark there are two aggregations: one by the keys and the pivoted column, and one that puts the results of each value of that
//! column into columns of its own.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate as AggregatePlan, Expr, LogicalPlan, Operator, binary_expr};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::aggregate::Pivot;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Aggregate, Expression, StatCrosstab};

use super::Attribute;
use super::call::{aliased, attribute, function, text, try_cast};
use super::columns::fresh;
use super::expression::{Scope, literal};
use super::gather::incomplete;
use super::naming::name_of;
use super::project::Wanted;
use super::relation::{Analyzer, Node};
use crate::functions::cast::CastMode;
use crate::functions::{Typed, cast, coercion};

/// How many values a pivoted column may have (`spark.sql.pivotMaxValues`).
const MAX_VALUES: usize = 10_000;

impl Analyzer<'_> {
    pub(super) fn pivot(&self, input: Node, aggregate: &Aggregate, pivot: &Pivot, outer: Option<&Scope<'_>>) -> Result<Node> {
        let column = pivot.col.as_ref().ok_or_else(|| incomplete("the column of a pivot"))?;
        let of_user = |call: &Expression| matches!(call.expr_type, Some(ExprType::CommonInlineUserDefinedFunction(_)));
        let mut calls = Vec::new();
        for aggregate in &aggregate.aggregate_expressions {
            super::filter::aggregate_calls(&mut aggregate.clone(), &mut calls);
        }
        if calls.iter().any(of_user) {
            return Err(Error::invalid(
                "UNSUPPORTED_FEATURE.PANDAS_UDAF_IN_PIVOT",
                "The feature is not supported: Pandas user defined aggregate function in the PIVOT clause.",
            )
            .with_sqlstate("0A000"));
        }
        let values = if pivot.values.is_empty() {
            self.values_of(&input, column, outer)?
        } else {
            pivot.values.iter().map(literal).collect::<Result<Vec<_>>>()?
        };
        self.pivoted(input, &aggregate.grouping_expressions, column, values, &aggregate.aggregate_expressions, outer)
    }

    fn pivoted(
        &self,
        input: Node,
        keys: &[Expression],
        column: &Expression,
        values: Vec<Typed>,
        aggregates: &[Expression],
        outer: Option<&Scope<'_>>,
    ) -> Result<Node> {
        let by: Vec<Expression> = keys.iter().chain([column]).cloned().collect();
        let wanted: Vec<&Expression> = keys.iter().chain([column]).chain(aggregates).collect();
        let first = self.group(input, &by, None, &wanted, outer)?;
        // The keys may be a star; each aggregate is one column.
        let width = first.columns.len().saturating_sub(1 + aggregates.len());
        let mut columns = first.columns.into_iter();
        let keys: Vec<Attribute> = columns.by_ref().take(width).collect();
        let pivoted = columns.next().ok_or_else(|| Error::internal("the pivoted column was grouped by"))?;
        let results: Vec<Attribute> = columns.collect();
        let mut given: Vec<Attribute> = keys.clone();
        let mut firsts: Vec<Expr> = Vec::with_capacity(values.len() * results.len());
        for value in values {
            let shown = self.shown(&value)?;
            let value = cast::explicit(value, &pivoted.data_type, CastMode::Ansi, self.settings)?;
            for (result, written) in results.iter().zip(aggregates) {
                let is_value = binary_expr(pivoted.column(), Operator::IsNotDistinctFrom, value.expr.clone());
                let internal = fresh();
                let first = AggregateFunction::new_udf(
                    first_value_udaf(),
                    vec![result.column()],
                    false,
                    Some(Box::new(is_value)),
                    Vec::new(),
                    None,
                );
                firsts.push(Expr::AggregateFunction(first).alias(&internal));
                let name = if aggregates.len() == 1 { shown.clone() } else { format!("{shown}_{}", output_name(written)) };
                let value = Typed { nullable: true, ..result.typed() };
                given.push(Attribute { internal, ..Attribute::of(name, &value) });
            }
        }
        let group = keys.iter().map(Attribute::column).collect();
        let plan = AggregatePlan::try_new(Arc::new(first.plan), group, firsts).map(LogicalPlan::Aggregate).map_err(from_datafusion)?;
        Ok(Node::new(plan, given))
    }

    /// `crosstab`: how often each pair of values occurs.
    pub(super) fn crosstab(&self, crosstab: &StatCrosstab, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(crosstab.input.as_deref(), outer)?;
        let shown = |name: &str| function("coalesce", vec![try_cast(attribute(name), "string"), text("null")]);
        let key = aliased(shown(&crosstab.col1), &format!("{}_{}", crosstab.col1, crosstab.col2));
        let column = shown(&crosstab.col2);
        let values = self.values_of(&input, &column, outer)?;
        let count = function("count", vec![super::call::literal(spark_connect_proto::expression::literal::LiteralType::Integer(1))]);
        let table = self.pivoted(input, &[key], &column, values, &[count], outer)?;
        let zero = super::call::literal(spark_connect_proto::expression::literal::LiteralType::Long(0));
        let filled: Vec<(String, Expression)> = table
            .columns
            .iter()
            .skip(1)
            .map(|column| (column.name.clone(), function("coalesce", vec![attribute(&column.name), zero.clone()])))
            .collect();
        let mut wanted = vec![Wanted::Column(0)];
        wanted.extend(filled.iter().map(|(name, value)| Wanted::Value { name, value, metadata: None }));
        self.select(table, &wanted, None)
    }

    /// The values that a column has now, in order.
    fn values_of(&self, input: &Node, column: &Expression, outer: Option<&Scope<'_>>) -> Result<Vec<Typed>> {
        let distinct = self.group(input.clone(), std::slice::from_ref(column), None, &[column], outer)?;
        let key = distinct.columns.first().map(Attribute::column).ok_or_else(|| Error::internal("a column was grouped by"))?;
        let sorted = LogicalPlan::Sort(datafusion::logical_expr::Sort {
            expr: vec![key.sort(true, true)],
            input: Arc::new(distinct.plan),
            fetch: Some(MAX_VALUES + 1),
        });
        let mut values: Vec<Typed> = Vec::new();
        for batch in self.ask(sorted)? {
            let Some(array) = batch.columns().first() else { continue };
            for row in 0..array.len() {
                values.push(Typed::literal(ScalarValue::try_from_array(array, row).map_err(from_datafusion)?));
            }
        }
        if values.len() > MAX_VALUES {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_1324",
                format!("The pivot column {} has more than {MAX_VALUES} distinct values: give the values to pivot by", name_of(column)),
            ));
        }
        Ok(values)
    }

    /// A constant as text.
    pub(super) fn shown(&self, value: &Typed) -> Result<String> {
        let text = cast::explicit(value.clone(), &DataType::Utf8, CastMode::Ansi, self.settings)?;
        Ok(match coercion::constant_of(&text) {
            Some(ScalarValue::Utf8(Some(text))) => text,
            _ => "null".to_owned(),
        })
    }
}

fn output_name(expression: &Expression) -> String {
    match &expression.expr_type {
        Some(spark_connect_proto::expression::ExprType::Alias(alias)) => alias.name.first().cloned().unwrap_or_default(),
        _ => name_of(expression),
    }
}
