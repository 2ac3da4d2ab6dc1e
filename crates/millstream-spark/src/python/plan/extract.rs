//! Takes calls out of the expressions of a plan.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use millstream_core::Error;
use millstream_engine::to_datafusion;

use super::call::{Call, is_call, scalar_call};
use super::evaluate::Calls;
use super::{aggregate, window};
use crate::python::function::kind;

/// Computes the calls of each node below it. Calls of one kind are computed together, one that takes the result of another in the same
/// conversation; those that take it through other expressions come later.
#[derive(Debug)]
pub(super) struct ExtractPython;

impl OptimizerRule for ExtractPython {
    fn name(&self) -> &'static str {
        "extract_python"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        let (plan, mut changed) = match calls_scalar(&plan)? {
            true => (taken_out(plan)?, true),
            false => (plan, false),
        };
        let plan = match plan {
            LogicalPlan::Aggregate(node) if aggregate::calls_python(&node) => {
                changed = true;
                aggregate::aggregated(node)?
            }
            LogicalPlan::Window(node) if window::calls_python(&node) => {
                changed = true;
                window::windowed(node)?
            }
            other => other,
        };
        Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
    }
}

fn calls_scalar(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= has_call(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn has_call(expr: &Expr) -> bool {
    expr.exists(|part| Ok(is_call(part))).unwrap_or(false)
}

fn taken_out(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(filter) => filtered(filter),
        LogicalPlan::Join(join) => joined(join),
        plan => {
            let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let [input] = <[LogicalPlan; 1]>::try_from(inputs).map_err(|_| to_datafusion(misplaced(plan.display())))?;
            let names = NamePreserver::new(&plan);
            let exprs = plan.expressions();
            let saved: Vec<_> = exprs.iter().map(|expr| names.save(expr)).collect();
            let (input, exprs) = computed(input, exprs)?;
            let named = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
            let exprs = exprs.into_iter().zip(saved).map(|(expr, name)| if named { name.restore(expr) } else { expr });
            let rebuilt = plan.with_new_exprs(exprs.collect(), vec![input])?;
            restored(rebuilt, &plan)
        }
    }
}

/// The plan with the columns of another and no more.
fn restored(plan: LogicalPlan, as_in: &LogicalPlan) -> DfResult<LogicalPlan> {
    if plan.schema().fields().len() == as_in.schema().fields().len() {
        return Ok(plan);
    }
    let columns = as_in.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Conditions without calls come first, so that calls see fewer rows.
fn filtered(filter: Filter) -> DfResult<LogicalPlan> {
    let whole = LogicalPlan::Filter(filter.clone());
    let (calling, plain): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate).into_iter().partition(has_call);
    let mut input = filter.input;
    if let Some(plain) = conjunction(plain) {
        input = Arc::new(LogicalPlan::Filter(Filter::try_new(plain, input)?));
    }
    let (input, conditions) = computed(Arc::unwrap_or_clone(input), calling)?;
    match conjunction(conditions) {
        Some(condition) => restored(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?), &whole),
        None => Ok(input),
    }
}

/// Calls over one side of a join are computed on that side. One that takes columns of both is a filter over an inner join.
fn joined(join: Join) -> DfResult<LogicalPlan> {
    let whole = LogicalPlan::Join(join.clone());
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let of_left: HashSet<_> = left.schema().columns().into_iter().collect();
    let of_right: HashSet<_> = right.schema().columns().into_iter().collect();
    let within = |expr: &Expr, side: &HashSet<_>| expr.column_refs().into_iter().all(|column| side.contains(column));
    let of_both =
        |expr: &Expr| expr.exists(|part| Ok(is_call(part) && !within(part, &of_left) && !within(part, &of_right))).unwrap_or(false);
    let conditions = filter.map(split_conjunction_owned).unwrap_or_default();
    let (above, within_join): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(of_both);
    if !above.is_empty() && join_type != JoinType::Inner {
        return Err(to_datafusion(
            Error::invalid(
                "UNSUPPORTED_FEATURE.PYTHON_UDF_IN_ON_CLAUSE",
                format!(
                    "The feature is not supported: Python UDF in the ON clause of a {} JOIN. In case of an INNER JOIN consider rewriting to a \
                     CROSS JOIN with a WHERE clause.",
                    join_type.to_string().to_uppercase()
                ),
            )
            .with_sqlstate("0A000"),
        ));
    }
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = on.into_iter().unzip();
    let keys = left_keys.len();
    let (left, mut left_exprs) = computed_for(Arc::unwrap_or_clone(left), left_keys, within_join, &|expr| within(expr, &of_left))?;
    let within_join = left_exprs.split_off(keys);
    let (right, mut right_exprs) = computed_for(Arc::unwrap_or_clone(right), right_keys, within_join, &|expr| within(expr, &of_right))?;
    let within_join = right_exprs.split_off(keys);
    let on = left_exprs.into_iter().zip(right_exprs).collect();
    let filter = conjunction(within_join);
    let join = Join::try_new(Arc::new(left), Arc::new(right), on, filter, join_type, join_constraint, null_equality, null_aware)?;
    let join = LogicalPlan::Join(join);
    match conjunction(above) {
        None => restored(join, &whole),
        Some(above) => restored(filtered(Filter::try_new(above, Arc::new(join))?)?, &whole),
    }
}

/// The plan with the calls of `exprs`, and of those of `others` that `own` says are over it, computed; all of them over it.
fn computed_for(
    input: LogicalPlan,
    exprs: Vec<Expr>,
    others: Vec<Expr>,
    own: &dyn Fn(&Expr) -> bool,
) -> DfResult<(LogicalPlan, Vec<Expr>)> {
    let mut all = exprs;
    all.extend(others);
    computed_where(input, all, own)
}

/// The plan with all calls of expressions computed, and the expressions over it.
fn computed(input: LogicalPlan, exprs: Vec<Expr>) -> DfResult<(LogicalPlan, Vec<Expr>)> {
    computed_where(input, exprs, &|_| true)
}

fn computed_where(mut input: LogicalPlan, mut exprs: Vec<Expr>, own: &dyn Fn(&Expr) -> bool) -> DfResult<(LogicalPlan, Vec<Expr>)> {
    loop {
        let mut round = Round { calls: Calls::default(), kind: None, known: Vec::new(), own };
        exprs = exprs.into_iter().map(|expr| round.replaced(expr)).collect::<DfResult<Vec<_>>>()?;
        if round.kind.is_none() {
            return Ok((input, exprs));
        }
        input = round.calls.over(input)?;
    }
}

/// The calls that can be computed together.
struct Round<'a> {
    calls: Calls,
    /// The kind of the first.
    kind: Option<i32>,
    /// Deterministic calls and the columns of their results.
    known: Vec<(Expr, String)>,
    /// Which calls are over the plan.
    own: &'a dyn Fn(&Expr) -> bool,
}

impl Round<'_> {
    fn replaced(&mut self, expr: Expr) -> DfResult<Expr> {
        expr.transform_down(|part| {
            let Some((chain, arguments)) = chain_of(&part).filter(|_| (self.own)(&part)) else { return Ok(Transformed::no(part)) };
            let Some(last) = chain.last() else { return Ok(Transformed::no(part)) };
            let alone = |kind: i32| matches!(kind, kind::PANDAS_ITERATOR | kind::ARROW_ITERATOR);
            if let Some((_, result)) = self.known.iter().find(|(known, _)| *known == part) {
                return Ok(column(result));
            }
            if self.kind.is_some_and(|kind| kind != last.function.kind || alone(kind)) {
                return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
            }
            self.kind = Some(last.function.kind);
            let deterministic = chain.iter().all(|call| call.function.deterministic);
            let result = self.calls.add(chain.into_iter().cloned().collect(), arguments);
            if deterministic {
                self.known.push((part.clone(), result.clone()));
            }
            Ok(column(&result))
        })
        .map(|replaced| replaced.data)
    }
}

fn column(name: &str) -> Transformed<Expr> {
    let column = Expr::Column(datafusion::common::Column::new_unqualified(name));
    Transformed::new(column, true, TreeNodeRecursion::Jump)
}

/// The calls of which each takes the result of the one before, the innermost first, and the arguments of that, which have no calls in them.
/// `None` for an expression that is no such chain.
fn chain_of(expr: &Expr) -> Option<(Vec<&Call>, &[Expr])> {
    let (call, arguments) = scalar_call(expr)?;
    if let ([inner], [None]) = (arguments, call.names.as_slice())
        && let Some((taken, _)) = scalar_call(inner)
        && taken.function.kind == call.function.kind
        && !call.function.is_iterator()
    {
        let (mut chain, arguments) = chain_of(inner)?;
        chain.push(call);
        return Some((chain, arguments));
    }
    (!arguments.iter().any(has_call)).then(|| (vec![call], arguments))
}

fn misplaced(node: impl std::fmt::Display) -> Error {
    Error::invalid("UNSUPPORTED_FEATURE.PYTHON_UDF", format!("a Python function cannot be called here: {node}")).with_sqlstate("0A000")
}
