//! Names of columns: `c`, `t.c`, `c.field`, and columns of a certain frame.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::{UnresolvedAttribute, UnresolvedStar};

use super::{Output, Resolver, Scope};
use crate::analyzer::Attribute;
use crate::analyzer::naming::Names;
use crate::functions::Typed;
use crate::sql::closest;
use crate::types::quote;

/// Functions that may be written without parentheses where no column has their name.
const LITERAL_FUNCTIONS: &[&str] =
    &["current_date", "current_timestamp", "localtimestamp", "current_time", "current_user", "user", "session_user", "grouping__id"];

/// Columns found under a name, and what is left of the name: fields inside of the column.
struct Found {
    columns: Vec<usize>,
    fields: Vec<String>,
}

impl Resolver<'_> {
    /// Resolves the name of a column.
    pub(super) fn attribute(&self, attribute: &UnresolvedAttribute) -> Result<Typed> {
        let parts = name_parts(&attribute.unparsed_identifier)?;
        if let Some(plan_id) = attribute.plan_id {
            return self.of_frame(&parts, plan_id);
        }
        if let Some(variable) = self.variable_of(&parts)? {
            return Ok(variable);
        }
        if let Some(found) = self.find(self.scope, &parts, |_| true) {
            return self.taken(found, &parts);
        }
        if let [name] = parts.as_slice()
            && let Some(function) = LITERAL_FUNCTIONS.iter().find(|function| function.eq_ignore_ascii_case(name))
        {
            return self.call(function, Vec::new());
        }
        if let Some(outer) = self.outer(&parts)? {
            return Ok(outer);
        }
        Err(unresolved(&parts, self.scope.columns))
    }

    /// The place of a column that is named without fields, for operations that name columns.
    pub(in crate::analyzer) fn place(&self, parts: &[String]) -> Result<usize> {
        match self.find(self.scope, parts, |_| true) {
            Some(Found { columns, fields }) if fields.is_empty() => match columns.as_slice() {
                [index] => Ok(*index),
                _ => Err(ambiguous(parts, self.scope.columns, &columns)),
            },
            _ => Err(unresolved(parts, self.scope.columns)),
        }
    }

    fn of_frame(&self, parts: &[String], plan_id: i64) -> Result<Typed> {
        let of_frame = |attribute: &Attribute| attribute.plan_ids.contains(&plan_id);
        if let Some(found) = self.find(self.scope, parts, of_frame) {
            return match found.columns.as_slice() {
                [_] => self.taken(found, parts),
                _ => Err(Error::invalid(
                    "AMBIGUOUS_COLUMN_REFERENCE",
                    format!(
                        "column {} is ambiguous: several frames of a self-join have it; alias them and use df.alias(…)",
                        written(parts)
                    ),
                )
                .with_sqlstate("42702")),
            };
        }
        let mut outer = self.scope.outer;
        while let Some(scope) = outer {
            if let Some(found) = self.find(scope, parts, of_frame) {
                return self.outer_column(scope, found, parts);
            }
            outer = scope.outer;
        }
        Err(Error::invalid(
            "CANNOT_RESOLVE_DATAFRAME_COLUMN",
            format!("cannot resolve the frame's column {}: it is not in the frame that the expression is used on", written(parts)),
        )
        .with_sqlstate("42704"))
    }

    /// The candidates under a name: as many parts as possible are the table's, then one is the column's, the rest are fields.
    fn find(&self, scope: &Scope<'_>, parts: &[String], admitted: impl Fn(&Attribute) -> bool) -> Option<Found> {
        for hidden in [false, true] {
            for table in (0..parts.len().min(4)).rev() {
                let (qualifier, rest) = parts.split_at(table);
                let Some((name, fields)) = rest.split_first() else { continue };
                let columns: Vec<usize> = scope
                    .columns
                    .iter()
                    .enumerate()
                    .filter(|(_, attribute)| {
                        attribute.hidden == hidden
                            && admitted(attribute)
                            && self.same(&attribute.name, name)
                            && self.ends_with(&attribute.qualifier, qualifier)
                    })
                    .map(|(index, _)| index)
                    .collect();
                if !columns.is_empty() {
                    return Some(Found { columns: distinct(columns, scope.columns), fields: fields.to_vec() });
                }
            }
        }
        None
    }

    fn taken(&self, found: Found, parts: &[String]) -> Result<Typed> {
        match found.columns.as_slice() {
            [index] => self.fields(self.column(*index)?, found.fields),
            _ => Err(ambiguous(parts, self.scope.columns, &found.columns)),
        }
    }

    /// A column of a scope around the subquery.
    fn outer(&self, parts: &[String]) -> Result<Option<Typed>> {
        let mut outer = self.scope.outer;
        while let Some(scope) = outer {
            if let Some(found) = self.find(scope, parts, |_| true) {
                return self.outer_column(scope, found, parts).map(Some);
            }
            outer = scope.outer;
        }
        Ok(None)
    }

    fn outer_column(&self, scope: &Scope<'_>, found: Found, parts: &[String]) -> Result<Typed> {
        let [index] = found.columns.as_slice() else { return Err(ambiguous(parts, scope.columns, &found.columns)) };
        let attribute = scope.columns.get(*index).ok_or_else(|| Error::internal("a column that was found is not there"))?;
        let field =
            std::sync::Arc::new(arrow::datatypes::Field::new(attribute.internal.clone(), attribute.data_type.clone(), attribute.nullable));
        let expr = Expr::OuterReferenceColumn(field, Column::new_unqualified(attribute.internal.clone()));
        self.fields(Typed::new(expr, attribute.data_type.clone(), attribute.nullable), found.fields)
    }

    pub(super) fn fields(&self, base: Typed, fields: Vec<String>) -> Result<Typed> {
        fields.into_iter().try_fold(base, |base, field| self.call("extract_value", vec![base, Typed::text(field)]))
    }

    pub(super) fn same(&self, one: &str, other: &str) -> bool {
        if self.settings.case_sensitive { one == other } else { one == other || one.to_lowercase() == other.to_lowercase() }
    }

    pub(super) fn ends_with(&self, qualifier: &[String], end: &[String]) -> bool {
        qualifier.len() >= end.len() && qualifier.iter().rev().zip(end.iter().rev()).all(|(one, other)| self.same(one, other))
    }
}

impl Names for Resolver<'_> {
    fn qualifiers(&self, parts: &[String]) -> usize {
        let mut scope = Some(self.scope);
        while let Some(current) = scope {
            if let Some(found) = self.find(current, parts, |_| true) {
                return parts.len().saturating_sub(found.fields.len() + 1);
            }
            scope = current.outer;
        }
        parts.len().saturating_sub(1)
    }

    fn data_type(&self, expression: &Expression) -> Option<DataType> {
        self.value(expression).ok().map(|value| value.data_type)
    }

    fn starred(&self, star: &UnresolvedStar) -> Option<Vec<String>> {
        let name = |output| match output {
            Output::Column { name, .. } => name,
            Output::Generator { function, .. } => function,
        };
        Some(self.star(star).ok()?.into_iter().map(name).collect())
    }

    fn is_call(&self, parts: &[String]) -> bool {
        matches!(parts, [name] if LITERAL_FUNCTIONS.iter().any(|function| function.eq_ignore_ascii_case(name)))
            && self.find(self.scope, parts, |_| true).is_none()
    }
}

/// The same column found twice is one.
fn distinct(mut columns: Vec<usize>, all: &[Attribute]) -> Vec<usize> {
    let mut seen: Vec<&str> = Vec::with_capacity(columns.len());
    columns.retain(|index| match all.get(*index) {
        Some(attribute) if !seen.contains(&attribute.internal.as_str()) => {
            seen.push(&attribute.internal);
            true
        }
        _ => false,
    });
    columns
}

fn written(parts: &[String]) -> String {
    parts.iter().map(|part| format!("`{}`", part.replace('`', "``"))).collect::<Vec<_>>().join(".")
}

fn unresolved(parts: &[String], columns: &[Attribute]) -> Error {
    let names: Vec<&str> = columns.iter().filter(|column| !column.hidden).map(|column| column.name.as_str()).collect();
    if names.is_empty() {
        return Error::invalid("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", format!("there is no column {}", written(parts)))
            .with_sqlstate("42703");
    }
    let wanted = parts.last().map_or("", String::as_str);
    let hint = match closest(wanted, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.iter().take(20).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    };
    Error::invalid("UNRESOLVED_COLUMN.WITH_SUGGESTION", format!("there is no column {}: {hint}", written(parts))).with_sqlstate("42703")
}

fn ambiguous(parts: &[String], all: &[Attribute], found: &[usize]) -> Error {
    let candidates: Vec<String> = found
        .iter()
        .filter_map(|index| all.get(*index))
        .map(|column| column.qualifier.iter().chain([&column.name]).map(|part| quote(part)).collect::<Vec<_>>().join("."))
        .collect();
    Error::invalid("AMBIGUOUS_REFERENCE", format!("{} is ambiguous, it could be {}", written(parts), candidates.join(" or ")))
        .with_sqlstate("42704")
}

/// Splits a name at its dots; parts in backticks may contain dots, and two backticks inside of them are one.
///
/// # Errors
/// `INVALID_ATTRIBUTE_NAME_SYNTAX`.
pub(crate) fn name_parts(name: &str) -> Result<Vec<String>> {
    let invalid = || {
        Error::invalid("INVALID_ATTRIBUTE_NAME_SYNTAX", format!("'{name}' is not a name: check backticks and dots")).with_sqlstate("42000")
    };
    let mut parts = Vec::new();
    let mut chars = name.chars().peekable();
    loop {
        let mut part = String::new();
        if chars.peek() == Some(&'`') {
            chars.next();
            loop {
                match chars.next() {
                    Some('`') if chars.peek() == Some(&'`') => {
                        chars.next();
                        part.push('`');
                    }
                    Some('`') => break,
                    Some(c) => part.push(c),
                    None => return Err(invalid()),
                }
            }
            if !matches!(chars.peek(), None | Some('.')) {
                return Err(invalid());
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != '.') {
                if c == '`' {
                    return Err(invalid());
                }
                part.push(c);
            }
            if part.is_empty() && (chars.peek().is_some() || !parts.is_empty()) {
                return Err(invalid());
            }
        }
        parts.push(part);
        match chars.next() {
            None => return Ok(parts),
            Some(_) if chars.peek().is_none() => return Err(invalid()),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_dots_outside_of_backticks() {
        for (name, expected) in [
            ("a", Some(vec!["a"])),
            ("a.b.c", Some(vec!["a", "b", "c"])),
            ("`a.b`.c", Some(vec!["a.b", "c"])),
            ("`a``b`", Some(vec!["a`b"])),
            ("a b", Some(vec!["a b"])),
            ("``", Some(vec![""])),
            ("a.", None),
            (".a", None),
            ("a..b", None),
            ("`a", None),
            ("`a`b", None),
            ("a`b`", None),
        ] {
            let expected: Option<Vec<String>> = expected.map(|parts| parts.into_iter().map(str::to_owned).collect());
            assert_eq!(name_parts(name).ok(), expected, "{name}");
        }
    }
}
