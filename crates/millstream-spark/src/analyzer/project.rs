//! Projections: `select`, `withColumn`, `SELECT` without grouping.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Expression, Project};

use super::Attribute;
use super::columns::{column, fresh, item, project, with_derived_name};
use super::expression::{Output, Resolver, Scope};
use super::extend::below;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;

/// What a projection is asked for.
pub(super) enum Wanted<'a> {
    /// The column of the input at a place.
    Column(usize),
    /// What an expression gives, which may be several columns.
    Expression(&'a Expression),
    /// A value under a name, with exactly this metadata.
    Value { name: &'a str, value: &'a Expression, metadata: Option<&'a str> },
}

/// The columns that a projection gives, and the relation that they are computed over.
pub(super) struct Selected {
    pub(super) input: Node,
    pub(super) outputs: Vec<(Attribute, Typed)>,
}

impl Analyzer<'_> {
    pub(super) fn project(&self, relation: &Project, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = match relation.input.as_deref() {
            Some(input) => self.relation(input, outer)?,
            None => Node::new(LogicalPlanBuilder::empty(true).build().map_err(from_datafusion)?, Vec::new()),
        };
        let wanted: Vec<Wanted<'_>> = relation.expressions.iter().map(Wanted::Expression).collect();
        self.select(input, &wanted, outer)
    }

    /// A projection of `input`.
    pub(super) fn select(&self, input: Node, wanted: &[Wanted<'_>], outer: Option<&Scope<'_>>) -> Result<Node> {
        let selected = self.selected(input, wanted, outer)?;
        if selected.outputs.iter().any(|(_, value)| contains_aggregate(&value.expr)) {
            return self.aggregate_all(selected);
        }
        let Selected { input, outputs } = selected;
        let columns: Vec<Attribute> = outputs.iter().map(|(attribute, _)| attribute.clone()).collect();
        let below = below(&input, &columns);
        Ok(Node { plan: give(input.plan, outputs)?, columns, below, grouped: None })
    }

    /// Resolves what a projection is asked for. Time windows and generators become columns of the input; names of columns given before in
    /// the list may be used after it.
    pub(super) fn selected(&self, input: Node, wanted: &[Wanted<'_>], outer: Option<&Scope<'_>>) -> Result<Selected> {
        let expressions: Vec<&Expression> = wanted
            .iter()
            .filter_map(|wanted| match wanted {
                Wanted::Column(_) => None,
                Wanted::Expression(value) | Wanted::Value { value, .. } => Some(*value),
            })
            .collect();
        let (input, computed) = self.with_time_windows(input, &expressions, outer)?;
        self.selected_over(input, &computed, wanted, outer)
    }

    /// The same where `computed` expressions are columns of the input already.
    pub(super) fn selected_over(
        &self,
        mut input: Node,
        computed: &[(Expression, usize)],
        wanted: &[Wanted<'_>],
        outer: Option<&Scope<'_>>,
    ) -> Result<Selected> {
        let mut columns = input.columns.clone();
        let mut outputs: Vec<(Attribute, Typed)> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let scope = Scope { columns: &columns, outer, computed };
            let resolver = Resolver::new(self.settings, &scope, self);
            let (given, is_alias) = match wanted {
                Wanted::Column(index) => {
                    let attribute = columns.get(*index).ok_or_else(|| Error::internal("a column that passes is not there"))?;
                    outputs.push((attribute.clone(), attribute.typed()));
                    continue;
                }
                Wanted::Expression(expression) => (resolver.named(expression)?, matches!(expression.expr_type, Some(ExprType::Alias(_)))),
                Wanted::Value { name, value, metadata } => (self.replaced(&resolver, name, value, *metadata)?, true),
            };
            let is_derived = matches!(wanted, Wanted::Expression(expression) if names_itself(expression));
            let before = outputs.len();
            for output in given {
                match output {
                    Output::Column { name, value, passthrough } => {
                        let value = if is_derived && passthrough.is_none() { with_derived_name(value) } else { value };
                        let passing = passthrough.and_then(|index| columns.get(index)).filter(|attribute| attribute.name == name);
                        let attribute = match passing {
                            Some(attribute) => Attribute { hidden: false, ..attribute.clone() },
                            None => Attribute::of(name, &value),
                        };
                        outputs.push((attribute, value));
                    }
                    Output::Generator { names, function, outer, arguments, argument_names } => {
                        let generated;
                        (input, generated) = self.generate(input, &function, arguments, &argument_names, names, outer)?;
                        outputs.extend(generated.into_iter().map(|attribute| {
                            let value = attribute.typed();
                            (attribute, value)
                        }));
                    }
                }
            }
            if is_alias {
                let given = outputs.iter().skip(before).map(|(attribute, _)| attribute);
                let new: Vec<Attribute> = given
                    .filter(|given| !columns.iter().any(|column| self.same(&column.name, &given.name)))
                    .map(|given| given.clone().hidden())
                    .collect();
                columns.extend(new);
            }
        }
        // A column that is asked for twice is given twice, and each has a name of its own in the engine.
        for place in 1..outputs.len() {
            let (before, rest) = outputs.split_at_mut(place);
            if let Some((attribute, _)) = rest.first_mut()
                && before.iter().any(|(known, _)| known.internal == attribute.internal)
            {
                attribute.internal = fresh();
            }
        }
        Ok(Selected { input, outputs })
    }

    fn replaced(&self, resolver: &Resolver<'_>, name: &str, value: &Expression, metadata: Option<&str>) -> Result<Vec<Output>> {
        let alias = spark_connect_proto::expression::Alias {
            expr: Some(Box::new(value.clone())),
            name: vec![name.to_owned()],
            metadata: Some(metadata.filter(|text| !text.is_empty()).unwrap_or("{}").to_owned()),
        };
        resolver.named(&Expression { common: None, expr_type: Some(ExprType::Alias(Box::new(alias))) })
    }
}

/// Whether Spark derives the name of an expression: it has no alias, and it is neither a column, a field, a constant, nor a cast of a
/// column.
fn names_itself(expression: &Expression) -> bool {
    match &expression.expr_type {
        None
        | Some(
            ExprType::Alias(_)
            | ExprType::UnresolvedAttribute(_)
            | ExprType::UnresolvedStar(_)
            | ExprType::UnresolvedRegex(_)
            | ExprType::Literal(_),
        ) => false,
        Some(ExprType::Cast(cast)) => {
            !cast.expr.as_deref().is_some_and(|child| matches!(child.expr_type, Some(ExprType::UnresolvedAttribute(_))))
        }
        Some(ExprType::UnresolvedExtractValue(extract)) => extract.child.as_deref().is_none_or(names_itself),
        Some(_) => true,
    }
}

/// Whether an expression has an aggregate function that is not a window function.
pub(super) fn contains_aggregate(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::AggregateFunction(_)))).unwrap_or(false)
}

/// Projects a relation to columns. Outputs may refer to one another: those referred to are computed first.
pub(super) fn give(input: LogicalPlan, outputs: Vec<(Attribute, Typed)>) -> Result<LogicalPlan> {
    let mut plan = input;
    let mut pending: Vec<(Attribute, Typed)> = outputs;
    loop {
        let open: Vec<&str> = pending
            .iter()
            .filter(|(attribute, value)| value.expr != attribute.column())
            .map(|(attribute, _)| attribute.internal.as_str())
            .collect();
        let refers = |value: &Typed| value.expr.column_refs().iter().any(|column| open.contains(&column.name.as_str()));
        let first: Vec<String> = pending
            .iter()
            .filter(|(attribute, value)| {
                open.contains(&attribute.internal.as_str())
                    && !refers(value)
                    && pending.iter().any(|(_, other)| other.expr.column_refs().iter().any(|column| column.name == attribute.internal))
            })
            .map(|(attribute, _)| attribute.internal.clone())
            .collect();
        if first.is_empty() {
            break;
        }
        let mut items: Vec<Expr> = plan.schema().fields().iter().map(|field| column(field.name())).collect();
        let (now, _): (Vec<_>, Vec<_>) = pending.iter().cloned().partition(|(attribute, _)| first.contains(&attribute.internal));
        let (windowed, now) = windows(plan, now)?;
        plan = windowed;
        for (attribute, value) in &now {
            items.push(item(value, &attribute.internal, &plan)?);
        }
        plan = project(plan, items)?;
        for (attribute, value) in &mut pending {
            if first.contains(&attribute.internal) {
                value.expr = attribute.column();
            }
        }
    }
    let (plan, outputs) = windows(plan, pending)?;
    let items = outputs.iter().map(|(attribute, value)| item(value, &attribute.internal, &plan)).collect::<Result<Vec<Expr>>>()?;
    project(plan, items)
}

/// Computes the window functions inside of values below them.
fn windows(input: LogicalPlan, outputs: Vec<(Attribute, Typed)>) -> Result<(LogicalPlan, Vec<(Attribute, Typed)>)> {
    let exprs = outputs.iter().map(|(_, value)| value.expr.clone()).collect();
    let (plan, exprs) = with_windows(input, exprs)?;
    let outputs = outputs.into_iter().zip(exprs).map(|((attribute, value), expr)| (attribute, Typed { expr, ..value })).collect();
    Ok((plan, outputs))
}

/// The plan with the window functions inside of expressions beside its columns, and the expressions over it.
pub(super) fn with_windows(input: LogicalPlan, exprs: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
    let mut functions: Vec<(Expr, String)> = Vec::new();
    let mut replaced: Vec<Expr> = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let expr = expr.transform_down(|part| {
            if !matches!(part, Expr::WindowFunction(_)) {
                return Ok(Transformed::no(part));
            }
            let name = match functions.iter().find(|(known, _)| *known == part) {
                Some((_, name)) => name.clone(),
                None => {
                    let name = fresh();
                    functions.push((part, name.clone()));
                    name
                }
            };
            Ok(Transformed::new(column(&name), true, TreeNodeRecursion::Jump))
        });
        replaced.push(expr.map_err(from_datafusion)?.data);
    }
    let mut plan = input;
    for group in by_window(functions) {
        plan = LogicalPlanBuilder::from(plan).window(group).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    }
    Ok((plan, replaced))
}

/// Functions over the same partitions and order are computed together.
fn by_window(functions: Vec<(Expr, String)>) -> Vec<Vec<Expr>> {
    let mut groups: Vec<(Expr, Vec<Expr>)> = Vec::new();
    let same = |one: &Expr, other: &Expr| match (one, other) {
        (Expr::WindowFunction(one), Expr::WindowFunction(other)) => {
            one.params.partition_by == other.params.partition_by && one.params.order_by == other.params.order_by
        }
        _ => false,
    };
    for (function, name) in functions {
        let aliased = function.clone().alias(name);
        match groups.iter_mut().find(|(first, _)| same(first, &function)) {
            Some((_, group)) => group.push(aliased),
            None => groups.push((function, vec![aliased])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
