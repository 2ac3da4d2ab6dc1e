//! The values of expressions.

use super::syntax::{Axis, Comparison, Expression, Operator, Step, Test};
use super::{Fault, Value, functions};
use crate::functions::xml::tree::{Document, Kind, NodeId};

/// Where an expression is evaluated.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) document: &'a Document,
    pub(super) node: NodeId,
    /// The place of the node among those that are looked at, from 1.
    pub(super) position: usize,
    /// How many are looked at.
    pub(super) size: usize,
}

/// The value of an expression.
///
/// # Errors
/// When nodes are wanted of something that is none.
pub(super) fn evaluate(expression: &Expression, context: Context<'_>) -> Result<Value, Fault> {
    let document = context.document;
    Ok(match expression {
        Expression::Or(left, right) => Value::Boolean(evaluate(left, context)?.boolean() || evaluate(right, context)?.boolean()),
        Expression::And(left, right) => Value::Boolean(evaluate(left, context)?.boolean() && evaluate(right, context)?.boolean()),
        Expression::Compare(how, left, right) => {
            Value::Boolean(compare(*how, &evaluate(left, context)?, &evaluate(right, context)?, document))
        }
        Expression::Calculate(operator, left, right) => {
            let (left, right) = (evaluate(left, context)?.number(document), evaluate(right, context)?.number(document));
            Value::Number(match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
                Operator::Remainder => left % right,
            })
        }
        Expression::Negate(inside) => Value::Number(-evaluate(inside, context)?.number(document)),
        Expression::Union(left, right) => {
            let mut nodes = evaluate(left, context)?.nodes()?;
            nodes.extend(evaluate(right, context)?.nodes()?);
            Value::Nodes(in_order(nodes))
        }
        Expression::Path(path) => {
            let start = if path.absolute { 0 } else { context.node };
            Value::Nodes(walk(vec![start], &path.steps, document)?)
        }
        Expression::Filter(inside, predicates, steps) => {
            let mut nodes = evaluate(inside, context)?.nodes()?;
            for predicate in predicates {
                nodes = kept(nodes, predicate, document)?;
            }
            Value::Nodes(walk(nodes, steps, document)?)
        }
        Expression::Text(text) => Value::Text(text.clone()),
        Expression::Number(number) => Value::Number(*number),
        Expression::Call(name, arguments) => functions::call(name, arguments, context)?,
    })
}

fn walk(mut nodes: Vec<NodeId>, steps: &[Step], document: &Document) -> Result<Vec<NodeId>, Fault> {
    for step in steps {
        let mut reached = Vec::new();
        for node in nodes {
            let mut found: Vec<NodeId> =
                along(step.axis, node, document).into_iter().filter(|node| passes(&step.test, step.axis, *node, document)).collect();
            for predicate in &step.predicates {
                found = kept(found, predicate, document)?;
            }
            reached.extend(found);
        }
        nodes = in_order(reached);
    }
    Ok(nodes)
}

/// The nodes for which a predicate holds; a number is the place of a node.
fn kept(nodes: Vec<NodeId>, predicate: &Expression, document: &Document) -> Result<Vec<NodeId>, Fault> {
    let size = nodes.len();
    let mut kept = Vec::new();
    for (place, node) in nodes.into_iter().enumerate() {
        let position = place + 1;
        let value = evaluate(predicate, Context { document, node, position, size })?;
        let keep = match value {
            Value::Number(number) => number == position as f64,
            other => other.boolean(),
        };
        if keep {
            kept.push(node);
        }
    }
    Ok(kept)
}

fn in_order(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The nodes of an axis, the nearest first.
fn along(axis: Axis, node: NodeId, document: &Document) -> Vec<NodeId> {
    let parent = |node: NodeId| document.get(node).and_then(|node| node.parent);
    let ancestors = |node: NodeId| std::iter::successors(parent(node), |node| parent(*node));
    let siblings = || match document.get(node).map(|found| &found.kind) {
        Some(Kind::Attribute(..)) | None => Vec::new(),
        Some(_) => parent(node).map(|parent| document.children(parent).to_vec()).unwrap_or_default(),
    };
    match axis {
        Axis::Itself => vec![node],
        Axis::Child => document.children(node).to_vec(),
        Axis::Attribute => document.get(node).map(|node| node.attributes.clone()).unwrap_or_default(),
        Axis::Parent => parent(node).into_iter().collect(),
        Axis::Ancestor => ancestors(node).collect(),
        Axis::AncestorOrSelf => std::iter::once(node).chain(ancestors(node)).collect(),
        Axis::Descendant => descendants(node, document),
        Axis::DescendantOrSelf => std::iter::once(node).chain(descendants(node, document)).collect(),
        Axis::FollowingSibling => siblings().into_iter().filter(|other| *other > node).collect(),
        Axis::PrecedingSibling => siblings().into_iter().rev().filter(|other| *other < node).collect(),
        Axis::Following => {
            let below = descendants(node, document);
            let is_attribute = |node: NodeId| document.get(node).is_some_and(|node| matches!(node.kind, Kind::Attribute(..)));
            (node + 1..document.len()).filter(|other| !is_attribute(*other) && !below.contains(other)).collect()
        }
        Axis::Preceding => {
            let above: Vec<NodeId> = ancestors(node).collect();
            let is_attribute = |node: NodeId| document.get(node).is_some_and(|node| matches!(node.kind, Kind::Attribute(..)));
            (0..node).rev().filter(|other| !is_attribute(*other) && !above.contains(other)).collect()
        }
        Axis::Namespace => Vec::new(),
    }
}

fn descendants(node: NodeId, document: &Document) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut waiting: Vec<NodeId> = document.children(node).iter().rev().copied().collect();
    while let Some(next) = waiting.pop() {
        found.push(next);
        waiting.extend(document.children(next).iter().rev());
    }
    found
}

fn passes(test: &Test, axis: Axis, node: NodeId, document: &Document) -> bool {
    let Some(node) = document.get(node) else { return false };
    // Names are those of the axis' own kind of nodes.
    let named = |wanted: &dyn Fn(&str) -> bool| match (&node.kind, axis) {
        (Kind::Attribute(name, _), Axis::Attribute) => wanted(name),
        (Kind::Element(name), axis) => axis != Axis::Attribute && wanted(name),
        _ => false,
    };
    match test {
        Test::Node => true,
        Test::Any => named(&|_| true),
        Test::Prefix(prefix) => named(&|name| name.split_once(':').is_some_and(|(before, _)| before == prefix)),
        Test::Name(wanted) => named(&|name| name == wanted),
        Test::Text => matches!(node.kind, Kind::Text(_)),
        Test::Comment => matches!(node.kind, Kind::Comment(_)),
        Test::Instruction(None) => matches!(node.kind, Kind::Instruction(..)),
        Test::Instruction(Some(wanted)) => matches!(&node.kind, Kind::Instruction(target, _) if target == wanted),
    }
}

fn compare(how: Comparison, left: &Value, right: &Value, document: &Document) -> bool {
    let text = |node: &NodeId| Value::Text(document.text_of(*node));
    match (left, right) {
        (Value::Nodes(left), Value::Nodes(right)) => {
            let right: Vec<Value> = right.iter().map(text).collect();
            left.iter().map(text).any(|left| right.iter().any(|right| compare_single(how, &left, right, document)))
        }
        (Value::Nodes(_), Value::Boolean(_)) | (Value::Boolean(_), Value::Nodes(_)) => {
            compare_single(how, &Value::Boolean(left.boolean()), &Value::Boolean(right.boolean()), document)
        }
        (Value::Nodes(left), right) => left.iter().any(|node| compare_single(how, &text(node), right, document)),
        (left, Value::Nodes(right)) => right.iter().any(|node| compare_single(how, left, &text(node), document)),
        (left, right) => compare_single(how, left, right, document),
    }
}

fn compare_single(how: Comparison, left: &Value, right: &Value, document: &Document) -> bool {
    let equal = || match (left, right) {
        (Value::Boolean(_), _) | (_, Value::Boolean(_)) => left.boolean() == right.boolean(),
        (Value::Number(_), _) | (_, Value::Number(_)) => left.number(document) == right.number(document),
        _ => left.text(document) == right.text(document),
    };
    let (a, b) = (left.number(document), right.number(document));
    match how {
        Comparison::Equal => equal(),
        Comparison::NotEqual => !equal(),
        Comparison::Less => a < b,
        Comparison::LessOrEqual => a <= b,
        Comparison::Greater => a > b,
        Comparison::GreaterOrEqual => a >= b,
    }
}

impl Value {
    /// As nodes.
    ///
    /// # Errors
    /// When it is something else.
    pub(super) fn nodes(self) -> Result<Vec<NodeId>, Fault> {
        match self {
            Value::Nodes(nodes) => Ok(nodes),
            _ => Err(Fault::syntax("nodes are due")),
        }
    }

    /// As a truth value.
    pub(in super::super) fn boolean(&self) -> bool {
        match self {
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Text(text) => !text.is_empty(),
            Value::Number(number) => *number != 0.0 && !number.is_nan(),
            Value::Boolean(value) => *value,
        }
    }

    /// As a number; NaN when it is none.
    pub(in super::super) fn number(&self, document: &Document) -> f64 {
        match self {
            Value::Number(number) => *number,
            Value::Boolean(value) => f64::from(u8::from(*value)),
            other => number_of(&other.text(document)),
        }
    }

    /// As text: that of the first node.
    pub(in super::super) fn text(&self, document: &Document) -> String {
        match self {
            Value::Nodes(nodes) => nodes.first().map(|node| document.text_of(*node)).unwrap_or_default(),
            Value::Text(text) => text.clone(),
            Value::Number(number) => number_text(*number),
            Value::Boolean(value) => value.to_string(),
        }
    }
}

/// The number that a text is: digits with a point, perhaps a minus in front, and white space around.
pub(super) fn number_of(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().any(|byte| byte.is_ascii_digit()) && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// A number as text: whole ones without a point.
pub(in super::super) fn number_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else if number == 0.0 {
        "0".to_owned()
    } else {
        number.to_string()
    }
}
