//! The names that Spark derives for expressions without an alias: its pretty SQL of the resolved expression.

mod function;
mod literal;
mod shown;
mod window;

use arrow::datatypes::DataType;
use spark_connect_proto::expression::cast::{CastToType, EvalMode};
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::{Cast, ExprType, SortOrder, UnresolvedExtractValue, UnresolvedStar};
use spark_connect_proto::subquery_expression::SubqueryType;
use spark_connect_proto::{Expression, SubqueryExpression};

use super::expression::name_parts;
use crate::types;

/// What names depend on besides the expression itself.
pub(crate) trait Names {
    /// How many of the first parts of a column's name are those of its table.
    fn qualifiers(&self, parts: &[String]) -> usize;

    /// The type of an expression, if it is known.
    fn data_type(&self, expression: &Expression) -> Option<DataType>;

    /// The columns that a star in a call stands for, if they are known.
    fn starred(&self, _star: &UnresolvedStar) -> Option<Vec<String>> {
        None
    }

    /// Whether a name is no column but a call without brackets, such as `current_date`.
    fn is_call(&self, _parts: &[String]) -> bool {
        false
    }
}

/// Nothing is known: the last part of a name is the column, and what is taken out of a value by a text is a field.
struct Unknown;

impl Names for Unknown {
    fn qualifiers(&self, parts: &[String]) -> usize {
        parts.len().saturating_sub(1)
    }

    fn data_type(&self, _: &Expression) -> Option<DataType> {
        None
    }
}

/// The column name of an expression whose columns are not known.
pub(crate) fn name_of(expression: &Expression) -> String {
    name_in(expression, &Unknown)
}

/// The column name of an expression.
pub(crate) fn name_in(expression: &Expression, names: &dyn Names) -> String {
    let writer = Writer { names };
    match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(attribute)) => {
            let mut parts = parts_of(&attribute.unparsed_identifier);
            if names.is_call(&parts) { call(&parts) } else { parts.pop().unwrap_or_default() }
        }
        Some(ExprType::Alias(alias)) => alias.name.first().cloned().unwrap_or_default(),
        Some(ExprType::Cast(cast)) if EvalMode::try_from(cast.eval_mode) != Ok(EvalMode::Ansi) => {
            cast.expr.as_deref().and_then(|child| writer.own_name(child)).unwrap_or_else(|| writer.write(expression))
        }
        Some(ExprType::UnresolvedFunction(function)) => function::cast_by_name(function)
            .and_then(|child| writer.own_name(child))
            .or_else(|| function::variant_path(function))
            .unwrap_or_else(|| writer.write(expression)),
        _ => writer.write(expression),
    }
}

fn parts_of(identifier: &str) -> Vec<String> {
    name_parts(identifier).unwrap_or_else(|_| vec![identifier.to_owned()])
}

/// A call that was written without brackets.
fn call(parts: &[String]) -> String {
    match parts.concat().to_lowercase().as_str() {
        "user" | "session_user" => "current_user()".to_owned(),
        "grouping__id" => "grouping_id()".to_owned(),
        "current_time" => "current_time(6)".to_owned(),
        name => format!("{name}()"),
    }
}

/// Writes expressions inside of others.
#[derive(Clone, Copy)]
struct Writer<'a> {
    names: &'a dyn Names,
}

impl Writer<'_> {
    /// The name of an expression that has one by itself, which a cast of it keeps.
    fn own_name(&self, expression: &Expression) -> Option<String> {
        match &expression.expr_type {
            Some(ExprType::UnresolvedAttribute(attribute)) => {
                let parts = name_parts(&attribute.unparsed_identifier).ok()?;
                // A field of a column is no column.
                (self.names.qualifiers(&parts) + 1 == parts.len()).then(|| parts.last().cloned()).flatten()
            }
            Some(ExprType::Alias(alias)) => alias.name.first().cloned(),
            Some(ExprType::UnresolvedFunction(function)) => function::variant_path(function),
            _ => None,
        }
    }

    /// Pretty SQL. Deep chains of operators make deep recursion.
    fn write(&self, expression: &Expression) -> String {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.kind(expression))
    }

    fn kind(&self, expression: &Expression) -> String {
        match &expression.expr_type {
            Some(ExprType::Literal(value)) => literal::pretty(value),
            Some(ExprType::UnresolvedAttribute(attribute)) => self.column(&attribute.unparsed_identifier),
            Some(ExprType::UnresolvedFunction(function)) => self.function(function),
            Some(ExprType::CallFunction(call)) => self.function(&spark_connect_proto::expression::UnresolvedFunction {
                function_name: call.function_name.clone(),
                arguments: call.arguments.clone(),
                ..Default::default()
            }),
            Some(ExprType::ExpressionString(text)) => match crate::sql::parse::expression(&text.expression) {
                Ok(parsed) => self.write(&parsed),
                Err(_) => text.expression.clone(),
            },
            Some(ExprType::Alias(alias)) => {
                let child = self.optional(alias.expr.as_deref());
                format!("{child} AS {}", alias.name.join(", "))
            }
            Some(ExprType::Cast(cast)) => self.cast(cast),
            Some(ExprType::UnresolvedExtractValue(extract)) => self.extraction(extract),
            Some(ExprType::UnresolvedStar(star)) => match self.names.starred(star) {
                Some(columns) => columns.join(", "),
                None => star.unparsed_target.clone().unwrap_or_else(|| "*".to_owned()),
            },
            Some(ExprType::UnresolvedRegex(regex)) => regex.col_name.clone(),
            Some(ExprType::UnresolvedNamedLambdaVariable(_)) => "namedlambdavariable()".to_owned(),
            Some(ExprType::LambdaFunction(lambda)) => {
                let body = self.optional(lambda.function.as_deref());
                format!("lambdafunction({body}{})", ", namedlambdavariable()".repeat(lambda.arguments.len()))
            }
            Some(ExprType::Window(window)) => self.window(window),
            Some(ExprType::SortOrder(order)) => self.sort_order(order),
            Some(ExprType::UpdateFields(update)) => {
                let base = self.optional(update.struct_expression.as_deref());
                match update.value_expression.as_deref() {
                    Some(value) => format!("update_fields({base}, WithField({}))", self.write(value)),
                    None => format!("update_fields({base}, dropfield())"),
                }
            }
            Some(ExprType::CommonInlineUserDefinedFunction(function)) => {
                let arguments: Vec<String> = function.arguments.iter().map(|argument| self.argument(argument)).collect();
                format!("{}({})", function.function_name, arguments.join(", "))
            }
            Some(ExprType::NamedArgumentExpression(argument)) => self.optional(argument.value.as_deref()),
            Some(ExprType::SubqueryExpression(subquery)) => self.subquery(subquery),
            _ => String::new(),
        }
    }

    fn optional(&self, expression: Option<&Expression>) -> String {
        expression.map(|expression| self.write(expression)).unwrap_or_default()
    }

    /// An argument of a function of a user.
    fn argument(&self, argument: &Expression) -> String {
        match &argument.expr_type {
            Some(ExprType::NamedArgumentExpression(named)) => format!("{} => {}", named.key, self.optional(named.value.as_deref())),
            Some(ExprType::UnresolvedFunction(call)) if call.function_name.eq_ignore_ascii_case("struct") => {
                let fields = function::fields(self, &call.arguments).into_iter();
                let fields: Vec<String> = fields.map(|(name, value)| format!("{name}, {value} AS {name}")).collect();
                format!("struct({})", fields.join(", "))
            }
            _ => self.write(argument),
        }
    }

    fn list(&self, expressions: &[Expression]) -> String {
        expressions.iter().map(|expression| self.write(expression)).collect::<Vec<_>>().join(", ")
    }

    /// A column without its table, with its fields and keys.
    fn column(&self, identifier: &str) -> String {
        let parts = parts_of(identifier);
        if self.names.is_call(&parts) {
            return call(&parts);
        }
        let skipped = self.names.qualifiers(&parts).min(parts.len().saturating_sub(1));
        let mut text = parts.get(skipped).cloned().unwrap_or_default();
        for (n, field) in parts.iter().enumerate().skip(skipped + 1) {
            let base = super::call::attribute_of(parts.get(..n).unwrap_or_default());
            let of_map = matches!(self.names.data_type(&base), Some(DataType::Map(..)));
            text.push_str(&if of_map { format!("[{field}]") } else { format!(".{field}") });
        }
        text
    }

    fn cast(&self, cast: &Cast) -> String {
        let child = self.optional(cast.expr.as_deref());
        let mode = EvalMode::try_from(cast.eval_mode);
        // The SQL parser's form of a typed literal.
        if mode == Ok(EvalMode::Ansi)
            && let Some(CastToType::TypeStr(word)) = &cast.cast_to_type
        {
            return format!("{word} '{child}'");
        }
        let to = match &cast.cast_to_type {
            Some(CastToType::TypeStr(text)) => types::parse_field_type(text).map_or_else(|_| text.to_uppercase(), |field| of_type(&field)),
            Some(CastToType::Type(data_type)) => types::from_proto(data_type).map_or_else(|_| String::new(), |field| of_type(&field)),
            None => String::new(),
        };
        format!("{}({child} AS {to})", if mode == Ok(EvalMode::Try) { "TRY_CAST" } else { "CAST" })
    }

    fn extraction(&self, extract: &UnresolvedExtractValue) -> String {
        let child = self.optional(extract.child.as_deref());
        let key = self.optional(extract.extraction.as_deref());
        let by_text = matches!(
            extract.extraction.as_deref().and_then(|key| key.expr_type.as_ref()),
            Some(ExprType::Literal(value)) if matches!(value.literal_type, Some(LiteralType::String(_)))
        );
        let of_map = by_text
            && extract.child.as_deref().and_then(|child| self.names.data_type(child)).is_some_and(|kind| matches!(kind, DataType::Map(..)));
        if by_text && !of_map { format!("{child}.{key}") } else { format!("{child}[{key}]") }
    }

    fn sort_order(&self, order: &SortOrder) -> String {
        let descending = order.direction() == SortDirection::Descending;
        let nulls = match order.null_ordering() {
            NullOrdering::SortNullsFirst => "FIRST",
            NullOrdering::SortNullsLast => "LAST",
            NullOrdering::SortNullsUnspecified if descending => "LAST",
            NullOrdering::SortNullsUnspecified => "FIRST",
        };
        format!("{} {} NULLS {nulls}", self.optional(order.child.as_deref()), if descending { "DESC" } else { "ASC" })
    }

    fn subquery(&self, subquery: &SubqueryExpression) -> String {
        match subquery.subquery_type() {
            SubqueryType::Exists => "exists()".to_owned(),
            SubqueryType::In => match subquery.in_subquery_values.as_slice() {
                [value] => format!("({} IN (listquery()))", self.write(value)),
                values => {
                    let fields: Vec<String> =
                        function::fields(self, values).into_iter().map(|(name, value)| format!("'{name}', {value}")).collect();
                    format!("(named_struct({}) IN (listquery()))", fields.join(", "))
                }
            },
            _ => "scalarsubquery()".to_owned(),
        }
    }
}

/// A type in upper case, with what its metadata adds.
fn of_type(field: &arrow::datatypes::Field) -> String {
    match field.metadata().get(types::INTERVAL) {
        Some(_) => types::simple_name_of(field).to_uppercase(),
        None => types::ddl_type(field.data_type()),
    }
}

#[cfg(test)]
mod tests;
