//! `describe`, `summary`, `cov`, `corr`, `approxQuantile` and `freqItems`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, cast, lit};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::{Expression, StatApproxQuantile, StatCorr, StatCov, StatDescribe, StatFreqItems, StatSummary};

use super::Attribute;
use super::call::{aliased, attribute, function, literal, text, try_cast};
use super::columns::{column, fresh, project};
use super::expression::{Resolver, Scope, name_parts};
use super::filter::filtered;
use super::join::joined;
use super::project::Wanted;
use super::relation::{Analyzer, Node};
use super::{deduplicate, rows};
use crate::functions::Typed;
use crate::types;

const DESCRIBED: &[&str] = &["count", "mean", "stddev", "min", "max"];
const SUMMARIZED: &[&str] = &["count", "mean", "stddev", "min", "25%", "50%", "75%", "max"];

impl Analyzer<'_> {
    pub(super) fn describe(&self, describe: &StatDescribe, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(describe.input.as_deref(), outer)?;
        let statistics: Vec<String> = DESCRIBED.iter().map(|name| (*name).to_owned()).collect();
        self.statistics(input, &describe.cols, &statistics)
    }

    pub(super) fn summary(&self, summary: &StatSummary, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(summary.input.as_deref(), outer)?;
        let default: Vec<String> = SUMMARIZED.iter().map(|name| (*name).to_owned()).collect();
        self.statistics(input, &[], if summary.statistics.is_empty() { &default } else { &summary.statistics })
    }

    /// One row per statistic, as texts. Columns that are neither numbers nor texts are left out.
    fn statistics(&self, input: Node, names: &[String], statistics: &[String]) -> Result<Node> {
        for name in names {
            let scope = Scope { columns: &input.columns, ..Scope::default() };
            Resolver::new(self.settings, &scope, self).place(&name_parts(name)?)?;
        }
        let columns: Vec<(String, DataType)> = input
            .visible()
            .filter(|column| names.is_empty() || names.iter().any(|name| self.same(name, &column.name)))
            .filter(|column| column.data_type.is_numeric() || column.data_type == DataType::Utf8)
            .map(|column| (column.name.clone(), column.data_type.clone()))
            .collect();
        let mut cells: Vec<Expression> = vec![literal(LiteralType::Integer(i32::try_from(statistics.len()).unwrap_or(i32::MAX)))];
        for statistic in statistics {
            cells.push(text(statistic));
            for (name, data_type) in &columns {
                cells.push(try_cast(statistic_of(statistic, name, data_type)?, "string"));
            }
        }
        // The statistics are computed first, as one row, and then stacked.
        let mut row: Vec<Expression> = Vec::new();
        let mut stacked: Vec<Expression> = Vec::with_capacity(cells.len());
        let width = columns.len() + 1;
        for (place, cell) in cells.into_iter().enumerate() {
            if place == 0 || (place - 1).is_multiple_of(width) {
                stacked.push(cell);
            } else {
                let name = format!("s{place}");
                stacked.push(attribute(&name));
                row.push(aliased(cell, &name));
            }
        }
        if row.is_empty() {
            row.push(aliased(function("count", vec![literal(LiteralType::Integer(1))]), "s"));
        }
        let row: Vec<Wanted<'_>> = row.iter().map(Wanted::Expression).collect();
        let one = self.select(input, &row, None)?.closed();
        let scope = Scope { columns: &one.columns, ..Scope::default() };
        let arguments = stacked.iter().map(|cell| self.value(cell, &scope)).collect::<Result<Vec<Typed>>>()?;
        let given = std::iter::once("summary".to_owned()).chain(columns.into_iter().map(|(name, _)| name)).collect();
        let (node, generated) = self.generate(one, "stack", arguments, &[], given, false)?;
        let plan = project(node.plan, generated.iter().map(Attribute::column).collect())?;
        Ok(Node::new(plan, generated))
    }

    pub(super) fn covariance(&self, cov: &StatCov, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(cov.input.as_deref(), outer)?;
        self.of_two(input, "covar_samp", "cov", &cov.col1, &cov.col2)
    }

    pub(super) fn correlation(&self, corr: &StatCorr, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(corr.input.as_deref(), outer)?;
        let method = corr.method.as_deref().unwrap_or("pearson");
        if method != "pearson" {
            return Err(Error::invalid(
                "IllegalArgumentException",
                format!("the method '{method}' is not supported: there is only 'pearson'"),
            ));
        }
        self.of_two(input, "corr", "corr", &corr.col1, &corr.col2)
    }

    fn of_two(&self, input: Node, name: &str, shown: &str, one: &str, other: &str) -> Result<Node> {
        let number = |name: &str| try_cast(attribute(name), "double");
        for name in [one, other] {
            let scope = Scope { columns: &input.columns, ..Scope::default() };
            let value = self.value(&attribute(name), &scope)?;
            if !value.data_type.is_numeric() {
                return Err(Error::invalid(
                    "IllegalArgumentException",
                    format!("{shown} is of two columns of numbers, but `{name}` is a \"{}\"", types::ddl_type(&value.data_type)),
                ));
            }
        }
        let value = function("coalesce", vec![function(name, vec![number(one), number(other)]), literal(LiteralType::Double(0.0))]);
        self.select(input, &[Wanted::Expression(&aliased(value, shown))], None).map(Node::closed)
    }

    pub(super) fn approx_quantile(&self, quantile: &StatApproxQuantile, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(quantile.input.as_deref(), outer)?;
        if quantile.probabilities.iter().any(|probability| !(0.0..=1.0).contains(probability)) || quantile.relative_error < 0.0 {
            return Err(Error::invalid("IllegalArgumentException", "probabilities are in [0, 1] and the relative error is not negative"));
        }
        let accuracy = if quantile.relative_error == 0.0 { i32::MAX } else { (1.0 / quantile.relative_error).ceil().min(2e9) as i32 };
        let probabilities = function("array", quantile.probabilities.iter().map(|p| literal(LiteralType::Double(*p))).collect());
        let of = |name: &String| {
            let number = function("nanvl", vec![try_cast(attribute(name), "double"), literal_null()]);
            let found = function("percentile_approx", vec![number, probabilities.clone(), literal(LiteralType::Integer(accuracy.max(1)))]);
            function("coalesce", vec![found, function("array", Vec::new())])
        };
        let all = function("array", quantile.cols.iter().map(of).collect());
        self.select(input, &[Wanted::Expression(&aliased(all, "approx_quantile"))], None).map(Node::closed)
    }

    /// For each column the values that more than a part of the rows have.
    pub(super) fn frequent_items(&self, items: &StatFreqItems, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(items.input.as_deref(), outer)?;
        let support = items.support.unwrap_or(0.01);
        if !(1e-4..=1.0).contains(&support) {
            return Err(Error::invalid("IllegalArgumentException", format!("the support must be in [1e-4, 1], but is {support}")));
        }
        let mut all: Option<Node> = None;
        for name in &items.cols {
            let scope = Scope { columns: &input.columns, ..Scope::default() };
            let place = Resolver::new(self.settings, &scope, self).place(&name_parts(name)?)?;
            let key = input.columns.get(place).cloned().ok_or_else(|| Error::internal("a column that was found is not there"))?;
            deduplicate::refuse_maps([&key])?;
            let found = frequent(&input, &key, support)?;
            all = Some(match all {
                Some(before) => joined(before, found, datafusion::common::JoinType::Inner, None)?,
                None => found,
            });
        }
        all.ok_or_else(|| super::gather::incomplete("the columns of freqItems"))
    }
}

fn literal_null() -> Expression {
    try_cast(literal(LiteralType::String("null".to_owned())), "double")
}

fn statistic_of(statistic: &str, name: &str, data_type: &DataType) -> Result<Expression> {
    let value = || attribute(name);
    let number = || if *data_type == DataType::Utf8 { try_cast(value(), "double") } else { value() };
    Ok(match statistic.to_lowercase().as_str() {
        "count" => function("count", vec![value()]),
        "count_distinct" => {
            let kind = spark_connect_proto::expression::UnresolvedFunction {
                function_name: "count".to_owned(),
                arguments: vec![value()],
                is_distinct: true,
                ..Default::default()
            };
            Expression { common: None, expr_type: Some(spark_connect_proto::expression::ExprType::UnresolvedFunction(kind)) }
        }
        "approx_count_distinct" => function("approx_count_distinct", vec![value()]),
        "mean" => function("avg", vec![number()]),
        "stddev" => function("stddev_samp", vec![number()]),
        "min" => function("min", vec![value()]),
        "max" => function("max", vec![value()]),
        other => {
            let percentage = other.strip_suffix('%').and_then(|number| number.parse::<f64>().ok()).map(|number| number / 100.0);
            match percentage.filter(|part| (0.0..=1.0).contains(part)) {
                Some(part) => function("percentile_approx", vec![number(), literal(LiteralType::Double(part))]),
                None => {
                    return Err(Error::invalid(
                        "IllegalArgumentException",
                        format!(
                            "'{other}' is not a statistic: there are {}, count_distinct, approx_count_distinct and percentages",
                            DESCRIBED.join(", ")
                        ),
                    ));
                }
            }
        }
    })
}

/// One row with the list of the values of a column that are frequent.
fn frequent(input: &Node, key: &Attribute, support: f64) -> Result<Node> {
    let aggregate = |function, arguments: Vec<Expr>| {
        Expr::AggregateFunction(AggregateFunction::new_udf(function, arguments, false, None, Vec::new(), None))
    };
    let (count, total, list) = (fresh(), fresh(), fresh());
    let group = vec![key.column()];
    let counted = aggregate(count_udaf(), vec![lit(1_i64)]).alias(&count);
    let plan =
        Aggregate::try_new(Arc::new(input.plan.clone()), group, vec![counted]).map(LogicalPlan::Aggregate).map_err(from_datafusion)?;
    let sum = Expr::WindowFunction(Box::new(datafusion::logical_expr::expr::WindowFunction::new(
        datafusion::functions_aggregate::sum::sum_udaf(),
        vec![column(&count)],
    )));
    let plan = rows::with_window(plan, vec![sum.alias(&total)])?;
    let as_double = |name: &str| cast(column(name), DataType::Float64);
    let plan = filtered(plan, as_double(&count).gt(as_double(&total) * lit(support)))?;
    let collected = aggregate(array_agg_udaf(), vec![key.column()]).alias(&list);
    let plan = Aggregate::try_new(Arc::new(plan), Vec::new(), vec![collected]).map(LogicalPlan::Aggregate).map_err(from_datafusion)?;
    let data_type = types::array(key.data_type.clone(), true);
    let value = Typed::new(column(&list), data_type, false);
    let attribute = Attribute { internal: list, ..Attribute::of(format!("{}_freqItems", key.name), &value) };
    Ok(Node::new(plan, vec![attribute]))
}
