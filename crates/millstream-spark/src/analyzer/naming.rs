//! The names that Spark derives for expressions without an alias.

use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;

/// The column name of an expression.
pub(crate) fn name_of(expression: &Expression) -> String {
    match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(attribute)) => attribute.unparsed_identifier.clone(),
        Some(ExprType::UnresolvedFunction(function)) => {
            format!("{}({})", function.function_name, function.arguments.iter().map(name_of).collect::<Vec<_>>().join(", "))
        }
        _ => "expression".to_owned(),
    }
}
