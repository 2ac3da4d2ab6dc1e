//! Binds a physical plan to the operators of a streaming query.
//!
//! Runs before every other physical rule, on the plan as it was written: aggregations are still partial and final, joins still have their
//! sides. Operators and watermark nodes are numbered from the top down, inputs from left to right, which is their order in progress reports
//! and in the checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, conjunction_opt, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use millstream_core::sink::OutputMode;
use parking_lot::Mutex;

use super::accumulate::Functions;
use super::aggregate::{AggregateCore, Aggregation};
use super::event_time::{EventTime, as_event_time};
use super::exchange::ExchangeExec;
use super::exec::{Binding, StatefulExec, TaskKeys, as_stateful};
use super::fingerprint::{self, Aspects, Fingerprint};
use super::flow::{Node, TimeFlow};
use super::join::bounds::{Origin, derive};
use super::join::{Eviction, Join, JoinCore, Side};
use super::lateness::{LateCounter, LateRowsExec, Rule, originating};
use super::limit;
use super::lineage;
use super::logical::event_time_delay;
use super::operator::{Description, Operator, making};
use super::planner::{as_node, first_columns, new_sessions};
use super::refuse::RefuseCore;
use super::session::Sessions;
use super::sliding::{Sliding, SlidingCore, SlidingExec, slicing};
use super::table::Placement;
use crate::scan::SplitScanExec;

/// The inputs of a node.
type Inputs = Vec<Arc<dyn ExecutionPlan>>;

/// The rule, good for one plan.
#[derive(Debug)]
pub(crate) struct Bind {
    mode: OutputMode,
    /// Whether operators have watermarks of their own.
    propagate: bool,
    /// Into how many tasks an operator is split where it can be.
    placement: Placement,
    flow: Mutex<TimeFlow>,
}

impl Bind {
    pub(crate) fn new(mode: OutputMode, propagate: bool, placement: Placement) -> Self {
        Bind { mode, propagate, placement, flow: Mutex::default() }
    }

    /// The operators that the plan was bound to.
    pub(crate) fn take(&self) -> TimeFlow {
        std::mem::take(&mut *self.flow.lock())
    }
}

impl PhysicalOptimizerRule for Bind {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut binder = Binder {
            mode: self.mode,
            propagate: self.propagate,
            placement: self.placement.clone(),
            batch_size: config.execution.batch_size.get(),
            operators: Vec::new(),
            event_times: Vec::new(),
            late: Vec::new(),
            aspects: BTreeMap::new(),
        };
        let filters = fingerprint::filters(&plan).into_iter().collect::<Vec<_>>().join("; ");
        let (plan, root) = binder.visit(plan)?;
        let query = Aspects::from([("output-mode".to_owned(), self.mode.to_string()), ("filters".to_owned(), filters)]);
        let watermarks = binder.event_times.iter().map(|event_time| {
            let delay = format!("{} ms", event_time.delay_ms);
            Aspects::from([("event-time".to_owned(), event_time.column.clone()), ("delay".to_owned(), delay)])
        });
        let aspects = (0..binder.operators.len()).map(|number| binder.aspects.get(&number).cloned().unwrap_or_default());
        let fingerprint = Fingerprint::new(query, watermarks.collect(), aspects.collect());
        let operators = binder.operators.into_iter().flatten().collect();
        *self.flow.lock() = TimeFlow::new(root, operators, binder.event_times, binder.late, fingerprint, self.propagate);
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "bind_stateful_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a plan reads a stream.
pub(crate) fn reads_stream(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match as_node::<SplitScanExec>(plan) {
        Some(scan) => scan.is_stream(),
        None => plan.children().into_iter().any(reads_stream),
    }
}

/// The streams that a plan reads, by their numbers; `None` where it reads results of operators with state.
fn sources(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<usize>> {
    if as_stateful(plan).is_some() && reads_stream(plan) {
        return None;
    }
    if let Some(scan) = as_node::<SplitScanExec>(plan) {
        return Some(scan.source().into_iter().collect());
    }
    let below = plan.children().into_iter().map(sources).collect::<Option<Vec<_>>>()?;
    let mut all = below.concat();
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Whether there are only projections between a partial aggregation and its windows.
fn only_projected(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let projects = as_node::<AggregateExec>(plan).is_some() || as_node::<ProjectionExec>(plan).is_some();
    as_node::<SlidingExec>(plan).is_some() || (projects && plan.children().into_iter().all(only_projected))
}

/// The column of event time.
fn timed_column(plan: &Arc<dyn ExecutionPlan>) -> Option<PhysicalExprRef> {
    let schema = plan.schema();
    let index = schema.fields().iter().position(|field| event_time_delay(field).is_some())?;
    Some(Arc::new(Column::new(schema.field(index).name(), index)))
}

/// The inputs of joins that a run of the plan did not read although they have rows.
pub(crate) fn unread_inputs(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    let joins = children.len() > 1;
    children
        .into_iter()
        .filter(|child| is_unread(child))
        .flat_map(|child| if joins { vec![child.clone()] } else { unread_inputs(child) })
        .collect()
}

fn is_unread(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match as_node::<SplitScanExec>(plan) {
        Some(scan) => scan.is_stream() && scan.is_unread(),
        None => plan.children().into_iter().any(is_unread),
    }
}

struct Binder {
    mode: OutputMode,
    propagate: bool,
    placement: Placement,
    batch_size: usize,
    /// A place is taken before the inputs are visited.
    operators: Vec<Option<Arc<Operator>>>,
    event_times: Vec<Arc<EventTime>>,
    late: Vec<Arc<LateCounter>>,
    /// What operators are made of, by their numbers.
    aspects: BTreeMap<usize, Aspects>,
}

impl Binder {
    fn visit(&mut self, plan: Arc<dyn ExecutionPlan>) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        if !reads_stream(&plan) {
            return Ok((plan, Node::Through(Vec::new())));
        }
        if let Some(node) = as_event_time(&plan) {
            let column = plan.children().first().map(|input| lineage::column(input, node.column())).unwrap_or_default();
            let event_time = Arc::new(EventTime::new(node.delay_ms(), column, sources(&plan).unwrap_or_default()));
            self.event_times.push(event_time.clone());
            let (mut inputs, mut nodes) = self.inputs(&plan)?;
            let (Some(input), Some(below)) = (inputs.pop(), nodes.pop()) else { return Ok((plan, Node::Through(Vec::new()))) };
            return Ok((Arc::new(node.bound(input, event_time)), Node::Origin(Box::new(below))));
        }
        if let Some(node) = as_stateful(&plan) {
            return self.stateful(&plan, node);
        }
        if let Some(aggregate) = as_node::<AggregateExec>(&plan)
            && matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
        {
            return self.aggregate(&plan, aggregate);
        }
        let both = plan.children().iter().filter(|child| reads_stream(child)).count() == 2;
        if let Some(join) = as_node::<HashJoinExec>(&plan).filter(|_| both) {
            return self.join(&plan, join);
        }
        let keyless = as_node::<NestedLoopJoinExec>(&plan).is_some()
            || as_node::<CrossJoinExec>(&plan).is_some()
            || as_node::<PiecewiseMergeJoinExec>(&plan).is_some();
        if both && keyless {
            let refused = "Stream-stream join without equality predicate is not supported";
            return self.refuse(&plan, "symmetricHashJoin", "_LEGACY_ERROR_TEMP_1181", refused);
        }
        let (inputs, nodes) = self.inputs(&plan)?;
        let plan = plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?;
        Ok((plan, Node::Through(nodes)))
    }

    fn inputs(&mut self, plan: &Arc<dyn ExecutionPlan>) -> DfResult<(Inputs, Vec<Node>)> {
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        let visited = children.into_iter().map(|child| self.visit(child)).collect::<DfResult<Vec<_>>>()?;
        Ok(visited.into_iter().unzip())
    }

    /// Takes the next number, visits the inputs, and makes the node that runs the operator: in one task, or in several, each with the rows
    /// whose keys it owns.
    fn operate(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        label: String,
        keys: Option<&TaskKeys>,
        operator: impl FnOnce(&Placement) -> DfResult<Arc<Operator>>,
    ) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        self.operate_over(plan, label, keys, Ok, operator)
    }

    /// The same over inputs that `prepare` has changed; the keys are over those.
    fn operate_over(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        label: String,
        keys: Option<&TaskKeys>,
        prepare: impl Fn(Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>>,
        operator: impl FnOnce(&Placement) -> DfResult<Arc<Operator>>,
    ) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let index = self.operators.len();
        self.operators.push(None);
        let (inputs, nodes) = self.inputs(plan)?;
        let mut inputs = inputs.into_iter().map(prepare).collect::<DfResult<Vec<_>>>()?;
        let placement = if keys.is_some() { self.placement.of_operator(index) } else { self.placement.in_one_task(index) };
        let operator = operator(&placement)?;
        if let Some(keys) = keys.filter(|_| operator.tasks() > 1) {
            for (input, keys) in inputs.iter_mut().zip(keys) {
                *input = Arc::new(ExchangeExec::new(input.clone(), keys.clone(), operator.tasks())?);
            }
        }
        if let Some(slot) = self.operators.get_mut(index) {
            *slot = Some(operator.clone());
        }
        let exec = match as_stateful(plan) {
            Some(node) => node.bound(operator, inputs),
            None => StatefulExec::new(label, inputs, Binding::Query(operator), plan.schema()),
        };
        Ok((Arc::new(exec), Node::Operator(index, nodes)))
    }

    fn stateful(&mut self, plan: &Arc<dyn ExecutionPlan>, node: &StatefulExec) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let number = self.operators.len();
        self.aspects.insert(number, node.aspects().clone());
        if let Some(sessions) = node.sessions() {
            let mut sessions = Sessions { mode: self.mode, ..sessions.clone() };
            if let [partial] = plan.children()[..] {
                sessions.keys = lineage::named(partial, sessions.keys.len());
            }
            let (closes, end) = (sessions.closes(), sessions.keys.len() + 1);
            let (exec, node) = self.operate(plan, String::new(), node.keys(), |placement| new_sessions(sessions)(placement))?;
            let rule = |partial: &AggregateExec| {
                let end = partial.group_expr().expr().get(end).filter(|_| closes)?;
                Some(Rule::Passed(end.0.clone()))
            };
            return Ok((self.counting_below_partial(number, exec, rule)?, node));
        }
        if plan.children().iter().any(|child| self.ambiguous(&child.schema())) {
            return self.ambiguity(plan, "dedupe");
        }
        if node.is_bound() {
            return Ok((plan.clone(), Node::Through(Vec::new())));
        }
        let mut drops_late_rows = true;
        let (exec, node) = self.operate(plan, String::new(), node.keys(), |placement| {
            let operator = node.operator(placement)?;
            drops_late_rows = operator.description.name != limit::NAME;
            Ok(operator)
        })?;
        Ok((if drops_late_rows { self.counting(number, exec)? } else { exec }, node))
    }

    /// The operator with its late rows counted at its inputs, by the columns of event time.
    fn counting(&mut self, number: usize, exec: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let inputs = exec.children().into_iter().map(|input| match (as_node::<ExchangeExec>(input), timed_column(input)) {
            (Some(_), _) => self.counting(number, input.clone()),
            (None, Some(column)) => self.count_late(number, input, Rule::Passed(column)),
            (None, None) => Ok(input.clone()),
        });
        let inputs = inputs.collect::<DfResult<Vec<_>>>()?;
        exec.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// The operator with its late rows counted below the partial aggregation that it is over.
    fn counting_below_partial(
        &mut self,
        number: usize,
        exec: Arc<dyn ExecutionPlan>,
        rule: impl Fn(&AggregateExec) -> Option<Rule>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let options = || ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        if let Some(partial) = as_node::<AggregateExec>(&exec) {
            let Some(rule) = rule(partial) else { return Ok(exec) };
            let input = self.count_late(number, partial.input(), rule)?;
            return exec.replace_children(vec![input], options());
        }
        let [input] = exec.children()[..] else { return Ok(exec) };
        let input = self.counting_below_partial(number, input.clone(), rule)?;
        exec.replace_children(vec![input], options())
    }

    /// The rows counted that the operator leaves out because they are late, if they are rows of sources.
    fn count_late(&mut self, operator: usize, input: &Arc<dyn ExecutionPlan>, rule: Rule) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(sources) = sources(input).filter(|sources| !sources.is_empty()) else { return Ok(input.clone()) };
        let plain = |index: usize| lineage::name(input, index).filter(|_| lineage::windows_of(input, index).is_none());
        let names = (0..input.schema().fields().len()).map(plain).collect();
        let counter = Arc::new(LateCounter::new(operator, sources, names));
        self.late.push(counter.clone());
        Ok(Arc::new(LateRowsExec::new(originating(input)?, rule, counter)))
    }

    fn aggregate(&mut self, plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let partial = aggregate.input().schema();
        let width = aggregate.group_expr().num_group_exprs();
        let keys = Schema::new(partial.fields().iter().take(width).cloned().collect::<Vec<_>>());
        if self.ambiguous(&keys) {
            return self.ambiguity(plan, "stateStoreSave");
        }
        let aggregation = Aggregation {
            keys: lineage::named(aggregate.input(), width),
            functions: Functions::new(aggregate.aggr_expr())?,
            output: aggregate.schema(),
            mode: self.mode,
            batch_size: self.batch_size,
        };
        let slicing = slicing(aggregate.input())?;
        // Windows are put together from slices where their time alone decides when they close, and the order of rows does not matter.
        let together = slicing.filter(|slicing| {
            let closing = aggregation.event_time().is_none_or(|key| key == slicing.position);
            self.propagate && closing && !slicing.ordered && !slicing.slide.is_tumbling()
        });
        let sliced = slicing.filter(|slicing| together.is_some() || slicing.slide.is_tumbling());
        let closing = aggregation.event_time().filter(|_| aggregation.closes());
        let label = format!("stateStoreSave: {} keys, {}", width, aggregation.functions.text());
        let number = self.operators.len();
        self.aspects.insert(number, fingerprint::aggregation(aggregate.input()));
        // Slices of a window are of one task, so that its other keys alone say which.
        let mut keys = first_columns(&partial, width);
        if let Some(slicing) = &together {
            keys.remove(slicing.position);
        }
        let keys = (!keys.is_empty()).then(|| vec![keys]);
        let by_slice = |partial: Arc<dyn ExecutionPlan>| match sliced {
            Some(slicing) if together.is_some() => slicing.by_slice(&partial),
            Some(slicing) => slicing.by_slice_as_window(&partial),
            None => Ok(partial),
        };
        let (exec, node) = self.operate_over(plan, label, keys.as_ref(), by_slice, |placement| match &together {
            Some(slicing) => {
                let sliding = Sliding::new(aggregation, slicing);
                Operator::new(sliding.description(), making(move |tables| SlidingCore::new(sliding.clone(), tables)), placement)
            }
            None => {
                let description = aggregation.description();
                Operator::new(description, making(move |tables| AggregateCore::new(aggregation.clone(), tables)), placement)
            }
        })?;
        let rule = |partial: &AggregateExec| {
            let (key, _) = partial.group_expr().expr().get(closing?)?;
            Some(match sliced.filter(|slicing| Some(slicing.position) == closing) {
                Some(slicing) => Rule::Windows(key.clone(), slicing.slide),
                None => Rule::Passed(key.clone()),
            })
        };
        // Below the windows rows are whole, and not yet there once for each window. A filter above would not be seen from there.
        let by_window = slicing.is_some_and(|slicing| Some(slicing.position) == closing);
        let exec = match by_window && (sliced.is_none() || only_projected(aggregate.input())) {
            true => self.counting_below_windows(number, exec)?,
            false => self.counting_below_partial(number, exec, rule)?,
        };
        Ok((exec, node))
    }

    /// The operator with its late rows counted where they are not yet once for each of their windows.
    fn counting_below_windows(&mut self, number: usize, plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let options = || ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        if let Some(sliding) = as_node::<SlidingExec>(&plan)
            && let Some(time) = sliding.time()
        {
            let input = self.count_late(number, sliding.input(), Rule::Windows(time.clone(), sliding.slide()))?;
            return plan.replace_children(vec![input], options());
        }
        let [input] = plan.children()[..] else { return Ok(plan) };
        let input = self.counting_below_windows(number, input.clone())?;
        plan.replace_children(vec![input], options())
    }

    fn join(&mut self, plan: &Arc<dyn ExecutionPlan>, join: &HashJoinExec) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let supported = [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full, JoinType::LeftSemi];
        if !supported.contains(join.join_type()) {
            let refused = format!("{} joins of two streams are not supported", join.join_type());
            return self.refuse(plan, "symmetricHashJoin", "_LEGACY_ERROR_TEMP_3102", refused);
        }
        if self.ambiguous(&join.left().schema()) || self.ambiguous(&join.right().schema()) {
            return self.ambiguity(plan, "symmetricHashJoin");
        }
        let operation = sides(join)?;
        let label = format!("symmetricHashJoin: {} on {:?}", join.join_type(), join.on());
        let whole: Arc<dyn ExecutionPlan> = Arc::new(join.builder().with_projection(None).build()?);
        let number = self.operators.len();
        self.aspects.insert(number, fingerprint::join(join));
        let keys = vec![operation.left.keys.clone(), operation.right.keys.clone()];
        let (exec, node) = self.operate(&whole, label, Some(&keys), |placement| {
            let for_core = operation.clone();
            Operator::new(operation.description()?, making(move |tables| JoinCore::new(for_core.clone(), tables)), placement)
        })?;
        let exec = self.counting(number, exec)?;
        let Some(projection) = &join.projection else { return Ok((exec, node)) };
        let schema = exec.schema();
        let columns = projection.iter().map(|index| {
            let name = schema.field(*index).name();
            (Arc::new(Column::new(name, *index)) as PhysicalExprRef, name.clone())
        });
        let projected = ProjectionExec::try_new(columns.collect::<Vec<_>>(), exec)?;
        Ok((Arc::new(projected), node))
    }

    /// Whether it is unclear which column is event time.
    fn ambiguous(&self, schema: &Schema) -> bool {
        self.propagate && schema.fields().iter().filter(|field| event_time_delay(field).is_some()).count() > 1
    }

    fn ambiguity(&mut self, plan: &Arc<dyn ExecutionPlan>, name: &'static str) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let refused = "More than one event time columns are available. Please ensure there is at most one event time column per stream. You can \
                       project out the columns that are not needed";
        self.refuse(plan, name, "_LEGACY_ERROR_TEMP_3077", refused)
    }

    /// A node that fails when its first batch runs, as Spark's planner does then.
    fn refuse(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        name: &'static str,
        code: &'static str,
        message: impl Into<String>,
    ) -> DfResult<(Arc<dyn ExecutionPlan>, Node)> {
        let message = message.into();
        let label = format!("refused: {message}");
        let description = Description { name, tables: Vec::new(), variant: String::new(), stores: 1 };
        self.operate(plan, label, None, |placement| {
            let core = RefuseCore { code, message };
            Operator::new(description, making(move |_| Ok(core.clone())), placement)
        })
    }
}

/// A join's sides: keys, predicates of their own, and how their rows leave.
fn sides(join: &HashJoinExec) -> DfResult<Join> {
    let kind = *join.join_type();
    let (left, right) = (join.left().schema(), join.right().schema());
    let delayed = |schema: &Schema| schema.fields().iter().position(|field| event_time_delay(field).is_some());
    let (left_time, right_time) = (delayed(&left), delayed(&right));
    let timed_key = |key: &PhysicalExprRef, schema: &Schema| {
        as_column(key).and_then(|column| schema.fields().get(column.index())).is_some_and(|field| event_time_delay(field).is_some())
    };
    let key = join.on().iter().position(|(key, _)| timed_key(key, &left));
    let key = key.or_else(|| join.on().iter().position(|(_, key)| timed_key(key, &right)));
    let predicates = join.filter().map(Predicates::of).transpose()?.unwrap_or_default();
    let eviction = |side: JoinSide, own: Option<usize>, other: Option<usize>| match (key, own, join.filter()) {
        (Some(key), ..) => Eviction::Key(key),
        (None, Some(own), Some(filter)) => {
            let bounds = derive(filter.expression(), filter.schema(), &origins(filter), side, other);
            if bounds.is_empty() { Eviction::Never } else { Eviction::Value(own, bounds) }
        }
        _ => Eviction::Never,
    };
    let (left_keys, right_keys) = join.on().iter().cloned().unzip();
    let names = |plan: &Arc<dyn ExecutionPlan>| -> Vec<String> {
        let columns = 0..plan.schema().fields().len();
        columns.map(|column| lineage::name(plan, column).unwrap_or_else(|| lineage::column(plan, column))).collect()
    };
    Ok(Join {
        kind,
        left: Side {
            eviction: eviction(JoinSide::Left, left_time, right_time),
            schema: left,
            keys: left_keys,
            names: names(join.left()),
            event_time: left_time,
            only: predicates.left,
            outer: matches!(kind, JoinType::Left | JoinType::Full),
        },
        right: Side {
            eviction: eviction(JoinSide::Right, right_time, left_time),
            schema: right,
            keys: right_keys,
            names: names(join.right()),
            event_time: right_time,
            only: predicates.right,
            outer: matches!(kind, JoinType::Right | JoinType::Full),
        },
        filter: predicates.both,
        // Spark's full outer join takes null keys for equal.
        nulls_match: join.null_equality() == NullEquality::NullEqualsNull || kind == JoinType::Full,
        output: join.join_schema().clone(),
    })
}

fn as_column(expr: &PhysicalExprRef) -> Option<&Column> {
    (expr.as_ref() as &dyn std::any::Any).downcast_ref::<Column>()
}

/// Where the columns of a join's condition are from.
pub(crate) fn origins(filter: &JoinFilter) -> Vec<Origin> {
    filter.column_indices().iter().map(|column| (column.side, column.index)).collect()
}

/// The condition of a join, by what it looks at.
#[derive(Default)]
struct Predicates {
    left: Option<PhysicalExprRef>,
    right: Option<PhysicalExprRef>,
    both: Option<JoinFilter>,
}

impl Predicates {
    fn of(filter: &JoinFilter) -> DfResult<Self> {
        let origins = origins(filter);
        let (mut left, mut right, mut both) = (Vec::new(), Vec::new(), Vec::new());
        for predicate in split_conjunction(filter.expression()) {
            let columns = collect_columns(predicate);
            let on = |side: JoinSide| columns.iter().all(|column| origins.get(column.index()).is_some_and(|(at, _)| *at == side));
            if on(JoinSide::Left) {
                left.push(over_side(predicate, &origins)?);
            } else if on(JoinSide::Right) {
                right.push(over_side(predicate, &origins)?);
            } else {
                both.push(predicate.clone());
            }
        }
        let both =
            conjunction_opt(both).map(|condition| JoinFilter::new(condition, filter.column_indices().to_vec(), filter.schema().clone()));
        Ok(Predicates { left: conjunction_opt(left), right: conjunction_opt(right), both })
    }
}

/// A predicate over the condition's columns as one over the columns of their side.
fn over_side(predicate: &PhysicalExprRef, origins: &[Origin]) -> DfResult<PhysicalExprRef> {
    let moved = predicate.clone().transform(|expr| {
        let moved = as_column(&expr).and_then(|column| {
            let (_, index) = origins.get(column.index())?;
            Some(Arc::new(Column::new(column.name(), *index)) as PhysicalExprRef)
        });
        Ok(moved.map_or_else(|| Transformed::no(expr), Transformed::yes))
    })?;
    Ok(moved.data)
}
