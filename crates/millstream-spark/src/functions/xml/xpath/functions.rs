//! The functions of XPath 1.0.

use super::evaluate::{Context, evaluate, number_of};
use super::syntax::{Expression, Step};
use super::{Fault, Value};

/// Names with the numbers of arguments that they take.
const FUNCTIONS: [(&str, usize, usize); 27] = [
    ("last", 0, 0),
    ("position", 0, 0),
    ("count", 1, 1),
    ("id", 1, 1),
    ("local-name", 0, 1),
    ("namespace-uri", 0, 1),
    ("name", 0, 1),
    ("string", 0, 1),
    ("concat", 2, usize::MAX),
    ("starts-with", 2, 2),
    ("contains", 2, 2),
    ("substring-before", 2, 2),
    ("substring-after", 2, 2),
    ("substring", 2, 3),
    ("string-length", 0, 1),
    ("normalize-space", 0, 1),
    ("translate", 3, 3),
    ("boolean", 1, 1),
    ("not", 1, 1),
    ("true", 0, 0),
    ("false", 0, 0),
    ("lang", 1, 1),
    ("number", 0, 1),
    ("sum", 1, 1),
    ("floor", 1, 1),
    ("ceiling", 1, 1),
    ("round", 1, 1),
];

/// Checks the calls in an expression.
///
/// # Errors
/// When there is no such function, or not with so many arguments.
pub(super) fn check(expression: &Expression) -> Result<(), Fault> {
    let of_steps = |steps: &[Step]| steps.iter().flat_map(|step| &step.predicates).try_for_each(check);
    match expression {
        Expression::Or(left, right)
        | Expression::And(left, right)
        | Expression::Compare(_, left, right)
        | Expression::Calculate(_, left, right)
        | Expression::Union(left, right) => check(left).and_then(|()| check(right)),
        Expression::Negate(inside) => check(inside),
        Expression::Path(path) => of_steps(&path.steps),
        Expression::Filter(inside, predicates, steps) => {
            check(inside)?;
            predicates.iter().try_for_each(check)?;
            of_steps(steps)
        }
        Expression::Text(_) | Expression::Number(_) => Ok(()),
        Expression::Call(name, arguments) => {
            let known = FUNCTIONS.iter().find(|(known, _, _)| known == name);
            match known {
                Some((_, least, most)) if (*least..=*most).contains(&arguments.len()) => arguments.iter().try_for_each(check),
                Some(_) => Err(Fault::syntax(format!("'{name}' does not take {} arguments", arguments.len()))),
                None => Err(Fault::syntax(format!("there is no function '{name}'"))),
            }
        }
    }
}

/// Calls a function.
///
/// # Errors
/// Those of its arguments.
pub(super) fn call(name: &str, arguments: &[Expression], context: Context<'_>) -> Result<Value, Fault> {
    let document = context.document;
    let value = |place: usize| match arguments.get(place) {
        Some(argument) => evaluate(argument, context),
        None => Ok(Value::Nodes(vec![context.node])),
    };
    let text = |place: usize| Ok::<_, Fault>(value(place)?.text(document));
    let number = |place: usize| Ok::<_, Fault>(value(place)?.number(document));
    let name_of_first = || Ok::<_, Fault>(value(0)?.nodes()?.first().map(|node| document.name(*node).to_owned()).unwrap_or_default());
    Ok(match name {
        "last" => Value::Number(context.size as f64),
        "position" => Value::Number(context.position as f64),
        "count" => Value::Number(value(0)?.nodes()?.len() as f64),
        // Without a document type no attribute is an identifier.
        "id" => Value::Nodes(Vec::new()),
        "name" => Value::Text(name_of_first()?),
        "local-name" => {
            let name = name_of_first()?;
            Value::Text(name.rsplit_once(':').map_or(name.clone(), |(_, local)| local.to_owned()))
        }
        "namespace-uri" => Value::Text(String::new()),
        "string" => Value::Text(text(0)?),
        "concat" => Value::Text((0..arguments.len()).map(text).collect::<Result<String, _>>()?),
        "starts-with" => Value::Boolean(text(0)?.starts_with(&text(1)?)),
        "contains" => Value::Boolean(text(0)?.contains(&text(1)?)),
        "substring-before" => Value::Text(text(0)?.split_once(&text(1)?).map(|(before, _)| before.to_owned()).unwrap_or_default()),
        "substring-after" => Value::Text(text(0)?.split_once(&text(1)?).map(|(_, after)| after.to_owned()).unwrap_or_default()),
        "substring" => {
            let start = round(number(1)?);
            let end = if arguments.len() > 2 { start + round(number(2)?) } else { f64::INFINITY };
            let within = |place: &usize| (*place as f64) >= start && (*place as f64) < end;
            Value::Text(text(0)?.chars().zip(1_usize..).filter(|(_, place)| within(place)).map(|(character, _)| character).collect())
        }
        "string-length" => Value::Number(text(0)?.chars().count() as f64),
        "normalize-space" => Value::Text(text(0)?.split_ascii_whitespace().collect::<Vec<_>>().join(" ")),
        "translate" => {
            let (from, to): (Vec<char>, Vec<char>) = (text(1)?.chars().collect(), text(2)?.chars().collect());
            let changed = |character: char| match from.iter().position(|known| *known == character) {
                Some(place) => to.get(place).copied(),
                None => Some(character),
            };
            Value::Text(text(0)?.chars().filter_map(changed).collect())
        }
        "boolean" => Value::Boolean(value(0)?.boolean()),
        "not" => Value::Boolean(!value(0)?.boolean()),
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        "lang" => {
            let wanted = text(0)?.to_lowercase();
            let up = std::iter::successors(Some(context.node), |node| document.get(*node).and_then(|node| node.parent));
            let mut up = up.filter_map(|node| document.attributes(node).find(|(name, _)| *name == "xml:lang").map(|(_, value)| value));
            let found = up.next().unwrap_or_default().to_lowercase();
            Value::Boolean(found == wanted || found.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-')))
        }
        "number" => Value::Number(number(0)?),
        "sum" => Value::Number(value(0)?.nodes()?.iter().map(|node| number_of(&document.text_of(*node))).sum()),
        "floor" => Value::Number(number(0)?.floor()),
        "ceiling" => Value::Number(number(0)?.ceil()),
        "round" => Value::Number(round(number(0)?)),
        other => return Err(Fault::syntax(format!("there is no function '{other}'"))),
    })
}

/// To the nearest whole number, halves upwards.
fn round(number: f64) -> f64 {
    (number + 0.5).floor()
}
