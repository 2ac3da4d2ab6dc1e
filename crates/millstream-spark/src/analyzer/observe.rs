//! `observe`: named metrics over the rows that pass.

use arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::observe::Observe;
use spark_connect_proto::CollectMetrics;

use super::expression::{Output, Resolver, Scope};
use super::relation::{Analyzer, Node};

impl Analyzer<'_> {
    pub(super) fn collect_metrics(&self, collect: &CollectMetrics, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(collect.input.as_deref(), outer)?;
        if collect.name.is_empty() {
            return Err(invalid("MISSING_NAME", "the observed metrics have no name"));
        }
        self.observed_once(collect)?;
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let mut metrics: Vec<Expr> = Vec::with_capacity(collect.metrics.len());
        let mut fields: Vec<Field> = Vec::with_capacity(collect.metrics.len());
        for metric in &collect.metrics {
            for output in resolver.named(metric)? {
                let Output::Column { name, value, .. } = output else {
                    return Err(
                        Error::invalid("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "a generator is not a metric").with_sqlstate("42K0E")
                    );
                };
                check(&value.expr)?;
                fields.push(value.to_field(&name));
                metrics.push(value.expr);
            }
        }
        let plan = Observe::new(input.plan.clone(), &collect.name, metrics, fields.into()).into_plan();
        Ok(input.over(plan))
    }

    /// A name stands for the same metrics wherever it occurs in a plan.
    fn observed_once(&self, collect: &CollectMetrics) -> Result<()> {
        let mut known = self.observations.borrow_mut();
        match known.iter().find(|other| other.name == collect.name) {
            Some(other) if other != collect => {
                Err(Error::invalid("DUPLICATED_METRICS_NAME", format!("two different observations are called `{}`", collect.name))
                    .with_sqlstate("42710"))
            }
            Some(_) => Ok(()),
            None => {
                known.push(collect.clone());
                Ok(())
            }
        }
    }
}

/// A metric is made of aggregates of plain values.
fn check(metric: &Expr) -> Result<()> {
    let mut fault: Option<Error> = None;
    metric
        .apply(|part| {
            let found = match part {
                Expr::AggregateFunction(aggregate) => {
                    let nested = aggregate.params.args.iter().any(super::project::contains_aggregate);
                    let found = if aggregate.params.distinct {
                        Some(("AGGREGATE_EXPRESSION_WITH_DISTINCT_UNSUPPORTED", "DISTINCT"))
                    } else if aggregate.params.filter.is_some() {
                        Some(("AGGREGATE_EXPRESSION_WITH_FILTER_UNSUPPORTED", "FILTER"))
                    } else if nested {
                        Some(("NESTED_AGGREGATES_UNSUPPORTED", "an aggregate of an aggregate"))
                    } else {
                        None
                    };
                    match found {
                        Some(found) => found,
                        None => return Ok(TreeNodeRecursion::Jump),
                    }
                }
                Expr::Column(_) => ("NON_AGGREGATE_FUNC_ARG_IS_ATTRIBUTE", "a column outside of an aggregate"),
                Expr::WindowFunction(_) => ("WINDOW_EXPRESSIONS_UNSUPPORTED", "a function over a window"),
                other if other.is_volatile_node() => {
                    ("NON_AGGREGATE_FUNC_ARG_IS_NON_DETERMINISTIC", "a value outside of an aggregate that differs each time")
                }
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            fault = Some(invalid(found.0, format!("an observed metric cannot have {}", found.1)));
            Ok(TreeNodeRecursion::Stop)
        })
        .map_err(from_datafusion)?;
    fault.map_or(Ok(()), Err)
}

fn invalid(what: &str, message: impl Into<String>) -> Error {
    Error::invalid(format!("INVALID_OBSERVED_METRICS.{what}"), message).with_sqlstate("42K0E")
}
