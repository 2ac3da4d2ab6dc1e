//! The analysis of one relation after another, from the leaves up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::{Error, Result};
use millstream_engine::plan::is_streaming;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{CollectMetrics, Expression, Relation, WithRelations};

use super::expression::{Resolver, Scope, Surroundings};
use super::extend::Grouped;
use super::gather::{DEPTH, Gathered, incomplete, too_deep};
use super::{Analyzed, Attribute, Leaves};
use crate::functions::{Settings, Typed, cast, faults};
use crate::python::{Analysis, AnalyzedArgument, PythonRuntime, TableFunction};

/// An analyzed relation, with what the relations above it may still ask of it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<Attribute>,
    /// Columns that are not in `columns` but further below, where filters and sorts still find them; all are hidden.
    pub(super) below: Vec<Attribute>,
    /// The aggregation below, to which filters and sorts may add aggregates.
    pub(super) grouped: Option<Rc<Grouped>>,
}

impl Node {
    /// A relation of which no more can be asked.
    pub(super) fn new(plan: LogicalPlan, columns: Vec<Attribute>) -> Node {
        Node { plan, columns, below: Vec::new(), grouped: None }
    }

    /// The same columns over another plan.
    pub(super) fn over(self, plan: LogicalPlan) -> Node {
        Node { plan, ..self }
    }

    /// The columns that the user sees.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Attribute> {
        self.columns.iter().filter(|column| !column.hidden)
    }

    /// The same relation, closed: what is below can no longer be reached.
    pub(super) fn closed(self) -> Node {
        Node::new(self.plan, self.columns)
    }
}

impl From<Node> for Analyzed {
    fn from(node: Node) -> Self {
        Analyzed { plan: node.plan, columns: node.columns }
    }
}

impl From<Analyzed> for Node {
    fn from(analyzed: Analyzed) -> Self {
        Node::new(analyzed.plan, analyzed.columns)
    }
}

/// The most relations of one plan.
const RELATIONS: usize = 20_000;

fn too_many_relations() -> Error {
    let message = format!(
        "the plan has more than {RELATIONS} relations once its views and common table expressions are put in place: each place that reads one \
         counts. Store what is read often as a table, or read it less often"
    );
    Error::invalid("QUERY_TOO_LARGE", message).with_sqlstate("54001")
}

/// What an analysis has to know before it can go on.
pub(super) enum Question {
    /// The rows of a plan.
    Rows(LogicalPlan),
    /// What a table function says of a call of it.
    Call(PythonRuntime, TableFunction, Vec<AnalyzedArgument>),
}

/// What an analysis asked for.
pub(super) enum Answer {
    Rows(Vec<RecordBatch>),
    Call(Analysis),
}

/// Analyzes a plan whose leaves are known.
pub(super) struct Analyzer<'a> {
    pub(super) gathered: &'a Gathered,
    leaves: &'a dyn Leaves,
    pub(super) settings: &'a Settings,
    pub(super) state: &'a SessionState,
    /// What `WithRelations` around the current relation lists, innermost last: subqueries are found here by their plan ids.
    references: RefCell<Vec<Relation>>,
    depth: Cell<usize>,
    /// Relations analyzed so far, those of views and common table expressions once for each place that reads them.
    relations: Cell<usize>,
    /// What this analysis asked for before, in the order in which it asks.
    answers: &'a [Answer],
    asked: Cell<usize>,
    question: RefCell<Option<Question>>,
    /// The observations met so far.
    pub(super) observations: RefCell<Vec<CollectMetrics>>,
}

impl<'a> Analyzer<'a> {
    pub(super) fn new(
        gathered: &'a Gathered,
        leaves: &'a dyn Leaves,
        settings: &'a Settings,
        state: &'a SessionState,
        answers: &'a [Answer],
    ) -> Self {
        Analyzer {
            gathered,
            leaves,
            settings,
            state,
            references: RefCell::default(),
            depth: Cell::new(0),
            relations: Cell::new(0),
            answers,
            asked: Cell::new(0),
            question: RefCell::default(),
            observations: RefCell::default(),
        }
    }

    /// What is needed before the analysis can go on. Then it is done once more, with the answer.
    pub(super) fn into_question(self) -> Option<Question> {
        self.question.into_inner()
    }

    /// The rows of a plan, for relations whose columns depend on data, such as a pivot without values.
    pub(super) fn ask(&self, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        match self.answered() {
            Some(Answer::Rows(rows)) => return Ok(rows.clone()),
            Some(Answer::Call(_)) => return Err(Error::internal("the analysis asked for something else before")),
            None => {}
        }
        if is_streaming(&plan)? {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_3102",
                "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow definition \
                 within a Spark Declarative Pipeline.",
            ));
        }
        Err(self.asking(Question::Rows(plan)))
    }

    /// What a table function says of a call of it.
    pub(super) fn ask_function(&self, function: &TableFunction, arguments: Vec<AnalyzedArgument>) -> Result<Analysis> {
        match self.answered() {
            Some(Answer::Call(analysis)) => Ok(analysis.clone()),
            Some(Answer::Rows(_)) => Err(Error::internal("the analysis asked for something else before")),
            None => Err(self.asking(Question::Call(self.leaves.python()?, function.clone(), arguments))),
        }
    }

    fn answered(&self) -> Option<&'a Answer> {
        let place = self.asked.get();
        self.asked.set(place + 1);
        self.answers.get(place)
    }

    fn asking(&self, question: Question) -> Error {
        self.question.borrow_mut().get_or_insert(question);
        Error::internal("the analysis waits for an answer")
    }

    /// Analyzes the whole plan.
    pub(super) fn analyze(&self) -> Result<Analyzed> {
        self.relation(&self.gathered.root, None).map(Analyzed::from)
    }

    /// Analyzes a relation. `outer` is the scope around a subquery or a lateral join.
    pub(super) fn relation(&self, relation: &Relation, outer: Option<&Scope<'_>>) -> Result<Node> {
        if self.depth.get() > DEPTH {
            return Err(too_deep());
        }
        self.relations.set(self.relations.get() + 1);
        if self.relations.get() > RELATIONS {
            return Err(too_many_relations());
        }
        self.depth.set(self.depth.get() + 1);
        let node = stacker::maybe_grow(256 * 1024, 4 * 1024 * 1024, || self.kind(relation, outer));
        self.depth.set(self.depth.get() - 1);
        let mut node = node?;
        if let Some(plan_id) = relation.common.as_ref().and_then(|common| common.plan_id) {
            for column in &mut node.columns {
                if !column.plan_ids.contains(&plan_id) {
                    column.plan_ids.push(plan_id);
                }
            }
        }
        Ok(node)
    }

    /// The input of a relation.
    pub(super) fn input(&self, input: Option<&Relation>, outer: Option<&Scope<'_>>) -> Result<Node> {
        self.relation(input.ok_or_else(|| incomplete("the input of a relation"))?, outer)
    }

    fn kind(&self, relation: &Relation, outer: Option<&Scope<'_>>) -> Result<Node> {
        let Some(kind) = &relation.rel_type else { return Err(incomplete("a relation")) };
        match kind {
            RelType::CachedRemoteRelation(leaf) => self.leaf(leaf),
            RelType::LocalRelation(local) => self.local_relation(local),
            RelType::Range(range) => self.range(range),
            RelType::Project(project) => self.project(project, outer),
            RelType::Filter(filter) => self.filter(filter, outer),
            RelType::Sort(sort) => self.sort(sort, outer),
            RelType::Join(join) => self.join(join, outer),
            RelType::SetOp(operation) => self.set_operation(operation, outer),
            RelType::Deduplicate(deduplicate) => self.deduplicate(deduplicate, outer),
            RelType::Limit(limit) => self.limit(limit, outer),
            RelType::Offset(offset) => self.offset(offset, outer),
            RelType::Tail(tail) => self.tail(tail, outer),
            RelType::Sample(sample) => self.sample(sample, outer),
            RelType::SampleBy(sample) => self.sample_by(sample, outer),
            RelType::Repartition(repartition) => self.repartition(repartition, outer),
            RelType::RepartitionByExpression(by) => self.repartition_by(by, outer),
            RelType::Hint(hint) => self.hint(hint, outer),
            RelType::LateralJoin(join) => self.lateral_join(join, outer),
            RelType::AsOfJoin(join) => self.as_of_join(join, outer),
            RelType::Unpivot(unpivot) => self.unpivot(unpivot, outer),
            RelType::Transpose(transpose) => self.transpose(transpose, outer),
            RelType::FillNa(fill) => self.fill_na(fill, outer),
            RelType::DropNa(drop) => self.drop_na(drop, outer),
            RelType::Replace(replace) => self.replace(replace, outer),
            RelType::Summary(summary) => self.summary(summary, outer),
            RelType::Describe(describe) => self.describe(describe, outer),
            RelType::Crosstab(crosstab) => self.crosstab(crosstab, outer),
            RelType::Cov(cov) => self.covariance(cov, outer),
            RelType::Corr(corr) => self.correlation(corr, outer),
            RelType::ApproxQuantile(quantile) => self.approx_quantile(quantile, outer),
            RelType::FreqItems(items) => self.frequent_items(items, outer),
            RelType::CollectMetrics(collect) => self.collect_metrics(collect, outer),
            RelType::Parse(parse) => self.parse(parse, outer),
            RelType::UnresolvedTableValuedFunction(function) => self.table_function(function, outer),
            RelType::WithWatermark(with) => self.with_watermark(with, outer),
            RelType::Aggregate(aggregate) => self.aggregate(aggregate, outer),
            RelType::SubqueryAlias(alias) => self.subquery_alias(alias, outer),
            RelType::WithRelations(with) => self.with_relations(with, outer),
            RelType::WithColumns(with) => self.with_columns(with, outer),
            RelType::WithColumnsRenamed(renamed) => self.with_columns_renamed(renamed, outer),
            RelType::Drop(drop) => self.drop_columns(drop, outer),
            RelType::ToDf(names) => self.to_df(names, outer),
            RelType::ToSchema(to) => self.to_schema(to, outer),
            RelType::MapPartitions(map) => self.map_partitions(map, outer),
            RelType::GroupMap(group) => self.group_map(group, outer),
            RelType::ApplyInPandasWithState(apply) => self.apply_in_pandas_with_state(apply, outer),
            RelType::CoGroupMap(cogroup) => self.cogroup_map(cogroup, outer),
            RelType::CommonInlineUserDefinedTableFunction(call) => self.user_table_function(call, outer),
            other => Err(unsupported(other)),
        }
    }

    fn with_relations(&self, with: &WithRelations, outer: Option<&Scope<'_>>) -> Result<Node> {
        let outside = self.references.borrow().len();
        self.references.borrow_mut().extend(with.references.iter().cloned());
        let node = self.input(with.root.as_deref(), outer);
        self.references.borrow_mut().truncate(outside);
        node
    }

    /// Resolves an expression over columns.
    pub(super) fn value(&self, expression: &Expression, scope: &Scope<'_>) -> Result<Typed> {
        Resolver::new(self.settings, scope, self).value(expression)
    }

    /// Resolves a condition over columns; `what` is the operator that has it.
    pub(super) fn condition(&self, expression: &Expression, scope: &Scope<'_>, what: &str) -> Result<Typed> {
        let condition = self.value(expression, scope)?;
        match &condition.data_type {
            DataType::Boolean => Ok(condition),
            DataType::Null => cast::implicit(condition, &DataType::Boolean, self.settings),
            other => Err(faults::mismatch(
                "FILTER_NOT_BOOLEAN",
                format!("the condition of {what} is of type \"{}\" and not boolean", crate::types::ddl_type(other)),
            )),
        }
    }

    /// Whether two names are the same to this session.
    pub(super) fn same(&self, one: &str, other: &str) -> bool {
        if self.settings.case_sensitive { one == other } else { one == other || one.to_lowercase() == other.to_lowercase() }
    }
}

impl Surroundings for Analyzer<'_> {
    fn subquery(&self, relation: &Relation, outer: &Scope<'_>) -> Result<Analyzed> {
        let node = self.relation(relation, Some(outer))?;
        if is_streaming(&node.plan)? {
            return Err(Error::invalid(
                "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY",
                "a subquery in an expression cannot read a stream: join the stream instead",
            )
            .with_sqlstate("42823"));
        }
        Ok(node.into())
    }

    fn relation(&self, plan_id: i64) -> Result<Relation> {
        let of_id = |relation: &&Relation| relation.common.as_ref().is_some_and(|common| common.plan_id == Some(plan_id));
        self.references.borrow().iter().rev().find(of_id).cloned().ok_or_else(|| {
            Error::invalid("INVALID_PLAN_INPUT", format!("the plan has no subquery with the id {plan_id}")).with_sqlstate("42000")
        })
    }

    fn python(&self) -> Result<PythonRuntime> {
        self.leaves.python()
    }
}

fn unsupported(kind: &RelType) -> Error {
    let text = format!("{kind:?}");
    let name = text.split(['(', ' ', '{']).next().unwrap_or_default();
    Error::invalid("UNSUPPORTED_FEATURE", format!("relations of the kind '{name}' are not supported")).with_sqlstate("0A000")
}
