//! `limit`, `offset`, `tail`, `repartition` and hints.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Partitioning, cast, lit};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Hint, Limit, Offset, Repartition, RepartitionByExpression, Tail};

use super::columns::{column, fresh};
use super::expression::Scope;
use super::extend::restored;
use super::filter::filtered;
use super::relation::{Analyzer, Node};
use super::rows;

impl Analyzer<'_> {
    pub(super) fn limit(&self, limit: &Limit, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(limit.input.as_deref(), outer)?;
        let fetch = not_negative("limit", limit.limit)?;
        let plan = limited(input.plan.clone(), 0, Some(fetch))?;
        Ok(input.over(plan))
    }

    pub(super) fn offset(&self, offset: &Offset, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(offset.input.as_deref(), outer)?;
        let skip = not_negative("offset", offset.offset)?;
        let plan = limited(input.plan.clone(), skip, None)?;
        Ok(input.over(plan))
    }

    /// The last rows, in their order: those whose number is within so many of the count.
    pub(super) fn tail(&self, tail: &Tail, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(tail.input.as_deref(), outer)?;
        let fetch = i64::from(tail.limit.max(0));
        not_negative("limit", tail.limit)?;
        let (number, count) = (fresh(), fresh());
        let functions = vec![rows::number(Vec::new(), Vec::new()).alias(&number), rows::count().alias(&count)];
        let plan = rows::with_window(input.plan, functions)?;
        let plan = filtered(plan, (cast(column(&number), DataType::Int64) + lit(fetch)).gt(column(&count)))?;
        Ok(Node::new(restored(plan, &input.columns)?, input.columns))
    }

    pub(super) fn repartition(&self, repartition: &Repartition, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(repartition.input.as_deref(), outer)?;
        let partitions = positive(repartition.num_partitions)?;
        if !repartition.shuffle() {
            // Fewer partitions without moving rows: how many there are is the engine's business.
            return Ok(input);
        }
        let plan = partitioned(input.plan.clone(), Partitioning::RoundRobinBatch(partitions))?;
        Ok(input.over(plan))
    }

    pub(super) fn repartition_by(&self, by: &RepartitionByExpression, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(by.input.as_deref(), outer)?;
        let partitions = match by.num_partitions {
            Some(partitions) => positive(partitions)?,
            None => self.state.config().target_partitions().max(1),
        };
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let mut keys: Vec<Expr> = Vec::with_capacity(by.partition_exprs.len());
        for key in &by.partition_exprs {
            // Keys with an order ask for ranges; rows of one key stay together either way.
            let value = match &key.expr_type {
                Some(ExprType::DirectShufflePartitionId(direct)) => match direct.child.as_deref() {
                    Some(child) => self.value(child, &scope)?,
                    None => continue,
                },
                _ => self.value(key, &scope)?,
            };
            keys.push(value.expr);
        }
        let scheme = if keys.is_empty() { Partitioning::RoundRobinBatch(partitions) } else { Partitioning::Hash(keys, partitions) };
        let plan = partitioned(input.plan.clone(), scheme)?;
        Ok(input.over(plan))
    }

    /// Hints about joins and partitions change no result.
    pub(super) fn hint(&self, hint: &Hint, outer: Option<&Scope<'_>>) -> Result<Node> {
        self.input(hint.input.as_deref(), outer)
    }
}

/// Rows after `skip`, at most `fetch`.
pub(super) fn limited(plan: LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).limit(skip, fetch).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn partitioned(plan: LogicalPlan, scheme: Partitioning) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).repartition(scheme).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn not_negative(name: &str, value: i32) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        Error::invalid(
            "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE",
            format!("the {name} must be equal to or greater than 0, but is {value}"),
        )
        .with_sqlstate("42K0E")
    })
}

fn positive(partitions: i32) -> Result<usize> {
    usize::try_from(partitions).ok().filter(|count| *count > 0).ok_or_else(|| {
        Error::invalid("INVALID_PARAMETER_VALUE", format!("the number of partitions must be positive, but is {partitions}"))
            .with_sqlstate("22023")
    })
}
