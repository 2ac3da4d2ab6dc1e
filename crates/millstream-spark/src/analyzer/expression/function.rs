//! Calls of functions.

use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::{ExprType, LambdaFunction, UnresolvedFunction};

use super::lambda::Body;
use super::{Output, Resolver, required};
use crate::analyzer::HIDDEN;
use crate::analyzer::naming::name_of;
use crate::functions::aggregate::{Aggregates, Clauses};
use crate::functions::{Argument, Call, Functions, Typed, faults};

/// Functions that give rows.
const GENERATORS: &[&str] = &["explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode"];

/// Functions that cast to the type of their name.
const CASTS: &[(&str, &str)] = &[
    ("boolean", "BOOLEAN"),
    ("tinyint", "TINYINT"),
    ("smallint", "SMALLINT"),
    ("int", "INT"),
    ("bigint", "BIGINT"),
    ("float", "FLOAT"),
    ("double", "DOUBLE"),
    ("decimal", "DECIMAL(10,0)"),
    ("date", "DATE"),
    ("timestamp", "TIMESTAMP"),
    ("binary", "BINARY"),
    ("string", "STRING"),
];

/// Functions that say where a row was read, with the fields of a file source's hidden column.
const OF_THE_FILE: &[(&str, &str)] =
    &[("input_file_name", "file_path"), ("input_file_block_start", "file_block_start"), ("input_file_block_length", "file_block_length")];

/// What the SQL parser wraps around an aggregate function: `FILTER (WHERE …)`, `WITHIN GROUP (ORDER BY …)`, `IGNORE NULLS`.
const CLAUSES: &[&str] = &["__filter", "__within_group", "__ignore_nulls"];

/// Functions that are resolved here and not in the tables.
const SPECIAL: &[&str] = &["struct", "arrays_zip", "grouping__id", "grouping", "grouping_id", "window", "session_window", "window_time"];

/// Whether a name is that of a function of Spark's, which goes before a registered one.
pub(crate) fn is_builtin(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.as_str();
    let generator = |name: &str| GENERATORS.contains(&name);
    Functions::all().contains(name)
        || Aggregates::all().contains(name)
        || generator(name)
        || name.strip_suffix("_outer").is_some_and(generator)
        || CASTS.iter().any(|(cast, _)| *cast == name)
        || SPECIAL.contains(&name)
        || CLAUSES.contains(&name)
        || super::window::is_window_function(name)
}

impl Resolver<'_> {
    /// Compiles a call of a scalar function with resolved arguments.
    pub(in crate::analyzer) fn call(&self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        let arguments = arguments.into_iter().map(Argument::Value).collect();
        Functions::all().build(&Call { name, arguments, settings: self.settings })
    }

    pub(super) fn called(&self, call: &spark_connect_proto::CallFunction) -> Result<Typed> {
        let function =
            UnresolvedFunction { function_name: call.function_name.clone(), arguments: call.arguments.clone(), ..Default::default() };
        self.function(&function)
    }

    pub(super) fn function(&self, function: &UnresolvedFunction) -> Result<Typed> {
        let lower = function.function_name.to_lowercase();
        if CLAUSES.contains(&lower.as_str()) {
            return self.with_clauses(function, Clauses::default());
        }
        let name = plain_name(&lower);
        match name {
            "struct" => return self.structure(&function.arguments),
            "arrays_zip" => return self.arrays_zip(&function.arguments),
            "input_file_name" | "input_file_block_start" | "input_file_block_length" => {
                if let Some(fact) = self.file_fact(name)? {
                    return Ok(fact);
                }
            }
            _ if CASTS.iter().any(|(cast, _)| *cast == name) => return self.cast_function(name, &function.arguments),
            // Where there are sets of keys, these calls stand for columns and never come here.
            "grouping" | "grouping_id" => return Err(crate::analyzer::grouping_sets::unsupported()),
            "grouping__id" => return self.function(&UnresolvedFunction { function_name: "grouping_id".to_owned(), ..function.clone() }),
            _ => {}
        }
        if Aggregates::all().contains(name) {
            let clauses = Clauses { distinct: function.is_distinct, ..Clauses::default() };
            return self.aggregate(name, &function.arguments, clauses);
        }
        if function.is_distinct {
            return Err(Error::invalid("INVALID_SQL_SYNTAX.FUNCTION_WITH_UNSUPPORTED_SYNTAX", format!("`{name}` does not take DISTINCT"))
                .with_sqlstate("42000"));
        }
        if GENERATORS.contains(&name) || name.strip_suffix("_outer").is_some_and(|inner| GENERATORS.contains(&inner)) {
            return Err(Error::invalid(
                "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
                format!("the generator `{name}` gives rows and cannot be inside of an expression"),
            )
            .with_sqlstate("42K0E"));
        }
        if super::window::is_window_function(name) {
            return Err(Error::invalid(
                "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE",
                format!("the window function `{name}` needs an OVER clause"),
            )
            .with_sqlstate("42601"));
        }
        if function.arguments.is_empty()
            && let Some((_, part)) = OF_THE_FILE.iter().find(|(known, _)| *known == name)
            && let Some(metadata) = self.scope.columns.iter().position(|column| column.metadata.contains_key(HIDDEN))
        {
            return self.call("extract_value", vec![self.column(metadata)?, Typed::text(*part)]);
        }
        let bodies = self.bodies(&function.arguments);
        let arguments = self.arguments(&function.arguments, &bodies)?;
        Functions::all().build(&Call { name, arguments, settings: self.settings })
    }

    /// What the file that a row comes from says about itself, where the input is a relation of files.
    fn file_fact(&self, function: &str) -> Result<Option<Typed>> {
        let is_metadata = |attribute: &crate::analyzer::Attribute| attribute.hidden && attribute.name == "_metadata";
        let Some(index) = self.scope.columns.iter().position(is_metadata) else { return Ok(None) };
        let field = match function {
            "input_file_name" => "file_path",
            "input_file_block_start" => "file_block_start",
            _ => "file_block_length",
        };
        self.call("extract_value", vec![self.column(index)?, Typed::text(field)]).map(Some)
    }

    /// `int(x)`: a cast that is written as a function.
    fn cast_function(&self, name: &str, arguments: &[Expression]) -> Result<Typed> {
        let [argument] = arguments else { return Err(faults::wrong_number(name, 1, arguments.len())) };
        let to = CASTS.iter().find(|(cast, _)| *cast == name).map_or("STRING", |(_, to)| to);
        let cast = spark_connect_proto::expression::Cast {
            expr: Some(Box::new(argument.clone())),
            cast_to_type: Some(spark_connect_proto::expression::cast::CastToType::TypeStr(to.to_owned())),
            ..Default::default()
        };
        self.cast(&cast)
    }

    /// The lambdas among arguments, in order.
    fn bodies<'e>(&'e self, arguments: &'e [Expression]) -> Vec<Option<Body<'e>>> {
        let lambda = |argument: &'e Expression| -> Option<&'e LambdaFunction> {
            match &argument.expr_type {
                Some(ExprType::LambdaFunction(function)) => Some(function),
                _ => None,
            }
        };
        arguments.iter().map(|argument| lambda(argument).map(|function| Body { resolver: *self, function })).collect()
    }

    fn arguments<'e>(&self, arguments: &[Expression], bodies: &'e [Option<Body<'e>>]) -> Result<Vec<Argument<'e>>> {
        let mut resolved = Vec::with_capacity(arguments.len());
        for (argument, body) in arguments.iter().zip(bodies) {
            match (&argument.expr_type, body) {
                (_, Some(body)) => resolved.push(Argument::Lambda(body)),
                (Some(ExprType::UnresolvedStar(star)), _) => {
                    for output in self.star(star)? {
                        if let Output::Column { value, .. } = output {
                            resolved.push(Argument::Value(value));
                        }
                    }
                }
                _ => resolved.push(Argument::Value(self.value(argument)?)),
            }
        }
        Ok(resolved)
    }

    fn with_clauses(&self, function: &UnresolvedFunction, mut clauses: Clauses) -> Result<Typed> {
        let inner = required(function.arguments.first(), "the function that a clause belongs to")?;
        match function.function_name.as_str() {
            "__filter" => {
                let filter = self.value(required(function.arguments.get(1), "the condition of FILTER")?)?;
                if !matches!(filter.data_type, DataType::Boolean | DataType::Null) {
                    let message = "the condition of FILTER is not a boolean";
                    return Err(Error::invalid("INVALID_AGGREGATE_FILTER.NOT_BOOLEAN", message).with_sqlstate("42903"));
                }
                clauses.filter = Some(filter);
            }
            "__within_group" => {
                for order in function.arguments.iter().skip(1) {
                    if let Some(ExprType::SortOrder(order)) = &order.expr_type {
                        clauses.order_by.push(self.sort(order)?);
                        clauses.ordered.push(self.value(required(order.child.as_deref(), "the child of a sort order")?)?);
                    }
                }
            }
            _ => clauses.ignore_nulls = true,
        }
        match &inner.expr_type {
            Some(ExprType::UnresolvedFunction(inner)) if CLAUSES.contains(&inner.function_name.as_str()) => {
                self.with_clauses(inner, clauses)
            }
            Some(ExprType::UnresolvedFunction(inner)) => {
                let lower = inner.function_name.to_lowercase();
                clauses.distinct = inner.is_distinct;
                self.aggregate(plain_name(&lower), &inner.arguments, clauses)
            }
            _ => Err(Error::invalid("PARSE_SYNTAX_ERROR", "FILTER and WITHIN GROUP follow a function").with_sqlstate("42601")),
        }
    }

    fn aggregate(&self, name: &str, arguments: &[Expression], clauses: Clauses) -> Result<Typed> {
        let bodies = self.bodies(arguments);
        let arguments = match arguments {
            [Expression { expr_type: Some(ExprType::UnresolvedStar(star)), .. }]
                if name == "count" && star.unparsed_target.is_none() && !clauses.distinct =>
            {
                vec![Argument::Value(Typed::literal(ScalarValue::Int32(Some(1))))]
            }
            _ => self.arguments(arguments, &bodies)?,
        };
        Aggregates::all().build(&Call { name, arguments, settings: self.settings }, &clauses)
    }

    /// `struct(a, b.c AS d)`: the fields have the names of their expressions, or `col1`, `col2` …
    fn structure(&self, arguments: &[Expression]) -> Result<Typed> {
        let mut fields: Vec<Typed> = Vec::with_capacity(arguments.len() * 2);
        for argument in arguments {
            match &argument.expr_type {
                Some(ExprType::UnresolvedStar(star)) => {
                    for output in self.star(star)? {
                        if let Output::Column { name, value, .. } = output {
                            fields.extend([Typed::text(name), value]);
                        }
                    }
                }
                _ => {
                    let value = self.value(argument)?;
                    let name = self.field_name(argument, &value)?.unwrap_or_else(|| format!("col{}", fields.len() / 2 + 1));
                    fields.extend([Typed::text(name), value]);
                }
            }
        }
        self.call("named_struct", fields)
    }

    /// `arrays_zip(a, b)`: the fields have the names of the arrays, or their places.
    fn arrays_zip(&self, arguments: &[Expression]) -> Result<Typed> {
        let mut fields: Vec<Typed> = Vec::with_capacity(arguments.len() * 2);
        for (index, argument) in arguments.iter().enumerate() {
            let value = self.value(argument)?;
            let name = self.field_name(argument, &value)?.unwrap_or_else(|| index.to_string());
            fields.extend([Typed::text(name), value]);
        }
        self.call("named_arrays_zip", fields)
    }

    /// The name that an expression gives to the field that is made of it.
    fn field_name(&self, argument: &Expression, value: &Typed) -> Result<Option<String>> {
        Ok(match &argument.expr_type {
            Some(ExprType::Alias(alias)) => alias.name.first().cloned(),
            Some(ExprType::UnresolvedAttribute(_)) => match self.passthrough(value) {
                Some(index) => Some(self.attribute_at(index)?.name.clone()),
                None => name_of(argument).rsplit('.').next().map(str::to_owned),
            },
            Some(ExprType::UnresolvedExtractValue(extract)) => extract.extraction.as_deref().map(name_of),
            Some(ExprType::UnresolvedNamedLambdaVariable(variable)) => variable.name_parts.last().cloned(),
            _ => None,
        })
    }

    /// The generator that an expression is, if it is one.
    pub(super) fn generator(&self, expression: &Expression) -> Result<Option<Output>> {
        let (name, arguments) = match &expression.expr_type {
            Some(ExprType::UnresolvedFunction(function)) => (&function.function_name, &function.arguments),
            Some(ExprType::CallFunction(call)) => (&call.function_name, &call.arguments),
            _ => return Ok(None),
        };
        let lower = name.to_lowercase();
        let name = plain_name(&lower);
        let (function, outer) = match name.strip_suffix("_outer") {
            Some(function) => (function, true),
            None => (name, false),
        };
        if !GENERATORS.contains(&function) {
            return Ok(None);
        }
        let argument_names = arguments.iter().map(name_of).collect();
        let arguments = arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>>>()?;
        Ok(Some(Output::Generator { names: Vec::new(), function: function.to_owned(), outer, arguments, argument_names }))
    }
}

/// The name without the catalog and schema of built-in functions.
pub(super) fn plain_name(name: &str) -> &str {
    let name = name.strip_prefix("system.").unwrap_or(name);
    name.strip_prefix("builtin.").unwrap_or(name)
}
