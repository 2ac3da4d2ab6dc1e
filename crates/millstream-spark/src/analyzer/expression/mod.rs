//! Expressions: names resolved, types brought together, functions compiled.

mod attribute;
mod function;
mod lambda;
mod literal;
mod python;
mod star;
mod subquery;
mod window;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use millstream_core::{Error, Result};
use spark_connect_proto::expression::cast::{CastToType, EvalMode};
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::{Expression, Relation, expression};

use super::naming::name_in;
use super::{Analyzed, Attribute};
use crate::functions::cast::CastMode;
use crate::functions::datetime::time_of_day;
use crate::functions::{Settings, Typed, cast, faults};
use crate::python::PythonRuntime;
use crate::types;

use lambda::Variables;

pub(crate) use attribute::name_parts;
pub(crate) use function::is_builtin;
pub(crate) use literal::literal;

/// What an expression can refer to.
#[derive(Clone, Copy, Default)]
pub(super) struct Scope<'a> {
    /// The columns of the input.
    pub(super) columns: &'a [Attribute],
    /// The scope around a correlated subquery or a lateral join.
    pub(super) outer: Option<&'a Scope<'a>>,
    /// Expressions that the input has computed already, as columns of it: time windows, grouping expressions.
    pub(super) computed: &'a [(Expression, usize)],
}

/// What an expression needs from the plan around it.
pub(super) trait Surroundings {
    /// A subquery that may refer to `outer`.
    ///
    /// # Errors
    /// Those of its analysis.
    fn subquery(&self, relation: &Relation, outer: &Scope<'_>) -> Result<Analyzed>;

    /// The relation that a subquery expression names by its plan id.
    ///
    /// # Errors
    /// `INVALID_PLAN_INPUT` when the plan does not have it.
    fn relation(&self, plan_id: i64) -> Result<Relation>;

    /// What calls the client's functions in Python.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED`.
    fn python(&self) -> Result<PythonRuntime>;
}

/// One column that an expression of a projection gives.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// A value.
    Column {
        /// The name given or derived.
        name: String,
        /// What computes it.
        value: Typed,
        /// The column of the scope that this is, under its own or another name.
        passthrough: Option<usize>,
    },
    /// A generator, which gives rows.
    Generator {
        /// The names given to its columns; empty for the generator's own.
        names: Vec<String>,
        /// Its name, in lower case and without `_outer`.
        function: String,
        /// Whether a row stays when the generator gives none.
        outer: bool,
        /// Its arguments.
        arguments: Vec<Typed>,
        /// The names of its arguments, which name the columns of some generators.
        argument_names: Vec<String>,
    },
}

/// Resolves expressions against a scope.
#[derive(Clone, Copy)]
pub(super) struct Resolver<'a> {
    settings: &'a Settings,
    scope: &'a Scope<'a>,
    surroundings: &'a dyn Surroundings,
    variables: Option<&'a Variables<'a>>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(settings: &'a Settings, scope: &'a Scope<'a>, surroundings: &'a dyn Surroundings) -> Self {
        Resolver { settings, scope, surroundings, variables: None }
    }

    /// An expression that is one value.
    ///
    /// # Errors
    /// Spark's conditions of names, types and functions.
    pub(super) fn value(&self, expression: &Expression) -> Result<Typed> {
        // Flat chains of operators come as deep trees.
        stacker::maybe_grow(256 * 1024, 4 * 1024 * 1024, || self.resolve(expression))
    }

    fn resolve(&self, expression: &Expression) -> Result<Typed> {
        if let Some((_, index)) = self.scope.computed.iter().find(|(computed, _)| computed.expr_type == expression.expr_type) {
            return self.column(*index);
        }
        let Some(kind) = &expression.expr_type else { return Err(unset("an expression")) };
        match kind {
            ExprType::Literal(value) => literal(value),
            ExprType::UnresolvedAttribute(attribute) => self.attribute(attribute),
            ExprType::UnresolvedFunction(function) => self.function(function),
            ExprType::CallFunction(call) => self.called(call),
            ExprType::ExpressionString(text) => self.value(&crate::sql::parse::expression(&text.expression)?),
            ExprType::Alias(alias) => self.aliased(alias),
            ExprType::Cast(cast) => self.cast(cast),
            ExprType::UnresolvedExtractValue(extract) => {
                let child = self.value(required(extract.child.as_deref(), "the child of an extraction")?)?;
                let extraction = self.value(required(extract.extraction.as_deref(), "what is extracted")?)?;
                self.call("extract_value", vec![child, extraction])
            }
            ExprType::UpdateFields(update) => self.update_fields(update),
            ExprType::UnresolvedNamedLambdaVariable(variable) => self.variable(&variable.name_parts),
            ExprType::Window(window) => self.window(window),
            ExprType::SortOrder(order) => self.value(required(order.child.as_deref(), "the child of a sort order")?),
            ExprType::NamedArgumentExpression(argument) => self.value(required(argument.value.as_deref(), "the value of an argument")?),
            ExprType::SubqueryExpression(subquery) => self.subquery(subquery),
            ExprType::UnresolvedStar(_) => {
                Err(Error::invalid("INVALID_USAGE_OF_STAR_OR_REGEX", "'*' is not allowed in this expression").with_sqlstate("42000"))
            }
            ExprType::UnresolvedRegex(regex) => match self.regex(regex)?.as_slice() {
                [index] => self.column(*index),
                _ => Err(Error::invalid("INVALID_USAGE_OF_STAR_OR_REGEX", "a regular expression of columns is not allowed here")
                    .with_sqlstate("42000")),
            },
            ExprType::LambdaFunction(_) => Err(Error::invalid(
                "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION",
                "a lambda function can only be the argument of a function that takes one",
            )
            .with_sqlstate("42K0D")),
            ExprType::CommonInlineUserDefinedFunction(function) => self.python_call(function),
            ExprType::TypedAggregateExpression(_) => Err(Error::invalid(
                "UNSUPPORTED_FEATURE.JVM_FUNCTION",
                "functions compiled for the JVM cannot run here: write them in SQL or Python",
            )
            .with_sqlstate("0A000")),
            ExprType::MergeAction(_) | ExprType::DirectShufflePartitionId(_) | ExprType::Extension(_) => {
                Err(Error::invalid("UNSUPPORTED_FEATURE", "this kind of expression is not allowed here").with_sqlstate("0A000"))
            }
        }
    }

    /// The columns that an expression of a projection gives: stars expanded, aliases applied, generators apart.
    ///
    /// # Errors
    /// As [`Resolver::value`].
    pub(super) fn named(&self, expression: &Expression) -> Result<Vec<Output>> {
        match &expression.expr_type {
            Some(ExprType::UnresolvedStar(star)) => self.star(star),
            Some(ExprType::UnresolvedFunction(function)) if function.function_name == "star except" => self.star_except(function),
            Some(ExprType::UnresolvedRegex(regex)) => self.regex(regex)?.into_iter().map(|index| self.passing(index)).collect(),
            Some(ExprType::ExpressionString(text)) => self.named(&crate::sql::parse::expression(&text.expression)?),
            Some(ExprType::Alias(alias)) => {
                let inner = required(alias.expr.as_deref(), "what an alias names")?;
                if let Some(mut generator) = self.generator(inner)? {
                    if let Output::Generator { names, .. } = &mut generator {
                        names.clone_from(&alias.name);
                    }
                    return Ok(vec![generator]);
                }
                let value = self.aliased(alias)?;
                let name = alias.name.first().cloned().unwrap_or_default();
                let passthrough = self.passthrough(&value).filter(|_| alias.metadata.is_none());
                Ok(vec![Output::Column { name, value, passthrough }])
            }
            Some(ExprType::SortOrder(_)) => {
                Err(Error::invalid("SparkException", "a sort order is no value: it belongs into `orderBy` or the ORDER BY of a window"))
            }
            _ => {
                if let Some(generator) = self.generator(expression)? {
                    return Ok(vec![generator]);
                }
                let value = self.value(expression)?;
                let passthrough = self.passthrough(&value);
                // A column is spelt as it is asked for.
                let name = name_in(expression, self);
                Ok(vec![Output::Column { name, value, passthrough }])
            }
        }
    }

    /// A sort key.
    ///
    /// # Errors
    /// As [`Resolver::value`].
    pub(super) fn sort(&self, order: &SortOrder) -> Result<SortExpr> {
        Ok(self.sorted(order)?.0)
    }

    /// The same as keys that order nulls inside of nested values as Spark does, which puts them below all others wherever it puts rows that
    /// are null themselves.
    ///
    /// # Errors
    /// As [`Resolver::value`].
    pub(super) fn sort_keys(&self, order: &SortOrder) -> Result<Vec<SortExpr>> {
        let (key, nested) = self.sorted(order)?;
        if !nested || key.nulls_first == key.asc {
            return Ok(vec![key]);
        }
        let nulls = SortExpr::new(Expr::IsNull(Box::new(key.expr.clone())), !key.nulls_first, false);
        Ok(vec![nulls, SortExpr { nulls_first: key.asc, ..key }])
    }

    /// A sort key, and whether its values have parts.
    fn sorted(&self, order: &SortOrder) -> Result<(SortExpr, bool)> {
        let value = self.value(required(order.child.as_deref(), "the child of a sort order")?)?;
        orderable("sort order", &value)?;
        let ascending = order.direction() != SortDirection::Descending;
        let nulls_first = match order.null_ordering() {
            NullOrdering::SortNullsFirst => true,
            NullOrdering::SortNullsLast => false,
            NullOrdering::SortNullsUnspecified => ascending,
        };
        let nested = matches!(value.data_type, DataType::List(_) | DataType::Struct(_));
        Ok((SortExpr::new(value.expr, ascending, nulls_first), nested))
    }

    fn aliased(&self, alias: &expression::Alias) -> Result<Typed> {
        let mut value = self.value(required(alias.expr.as_deref(), "what an alias names")?)?;
        if alias.name.len() != 1 {
            return Err(Error::invalid("INVALID_PLAN_INPUT", "a value has one name").with_sqlstate("42000"));
        }
        if let Some(metadata) = alias.metadata.as_deref().filter(|text| !text.is_empty()) {
            let wrapped = format!(r#"{{"type":"struct","fields":[{{"name":"a","type":"void","metadata":{metadata}}}]}}"#);
            let schema = types::schema_from_json(&wrapped)?;
            if let Some(field) = schema.fields().first() {
                value.metadata = field.metadata().clone();
            }
        }
        Ok(value)
    }

    fn cast(&self, cast: &expression::Cast) -> Result<Typed> {
        let value = self.value(required(cast.expr.as_deref(), "the value of a cast")?)?;
        let field = match &cast.cast_to_type {
            Some(CastToType::Type(data_type)) => types::from_proto(data_type)?,
            Some(CastToType::TypeStr(text)) => types::parse_field_type(text)?,
            None => return Err(unset("the type of a cast")),
        };
        let mode = match cast.eval_mode() {
            EvalMode::Try => CastMode::Try,
            EvalMode::Ansi => CastMode::Ansi,
            EvalMode::Legacy => CastMode::Legacy,
            EvalMode::Unspecified if self.settings.ansi => CastMode::Ansi,
            EvalMode::Unspecified => CastMode::Legacy,
        };
        if matches!(field.data_type(), DataType::Time64(_)) && !self.settings.time_type {
            return Err(time_of_day::switched_off());
        }
        // The parser writes typed literals as casts; what they say is checked when they are read.
        let literal =
            mode == CastMode::Ansi && cast.eval_mode() == EvalMode::Ansi && value.as_literal().is_some_and(|value| !value.is_null());
        let cast = cast::explicit_to(value, &field, mode, self.settings)?;
        Ok(Typed { nullable: cast.nullable && !literal, ..cast })
    }

    fn update_fields(&self, update: &expression::UpdateFields) -> Result<Typed> {
        let base = self.value(required(update.struct_expression.as_deref(), "the struct of an update")?)?;
        let name = Typed::text(&update.field_name);
        match update.value_expression.as_deref() {
            Some(value) => self.call("with_field", vec![base, name, self.value(value)?]),
            None => self.call("drop_field", vec![base, name]),
        }
    }

    fn attribute_at(&self, index: usize) -> Result<&'a Attribute> {
        self.scope.columns.get(index).ok_or_else(|| Error::internal(format!("there is no column {index} in scope")))
    }

    /// The column of the scope at a place.
    fn column(&self, index: usize) -> Result<Typed> {
        let attribute = self.attribute_at(index)?;
        let column = Expr::Column(Column::new_unqualified(attribute.internal.clone()));
        Ok(Typed::new(column, attribute.data_type.clone(), attribute.nullable).with_metadata(attribute.metadata.clone()))
    }

    fn passing(&self, index: usize) -> Result<Output> {
        Ok(Output::Column { name: self.attribute_at(index)?.name.clone(), value: self.column(index)?, passthrough: Some(index) })
    }

    /// The column of the scope that a value is.
    fn passthrough(&self, value: &Typed) -> Option<usize> {
        match &value.expr {
            Expr::Column(column) if column.relation.is_none() => {
                self.scope.columns.iter().position(|attribute| attribute.internal == column.name)
            }
            _ => None,
        }
    }
}

/// Checks that values can be ordered.
pub(super) fn orderable(name: &str, value: &Typed) -> Result<()> {
    fn can(data_type: &DataType) -> bool {
        use arrow::datatypes::IntervalUnit;
        match data_type {
            DataType::Map(..) | DataType::Interval(IntervalUnit::MonthDayNano) => false,
            DataType::List(element) => can(element.data_type()),
            DataType::Struct(fields) => fields.iter().all(|field| can(field.data_type())),
            _ => true,
        }
    }
    if can(&value.data_type) {
        return Ok(());
    }
    Err(faults::mismatch(
        "INVALID_ORDERING_TYPE",
        format!("{name} does not support ordering on type \"{}\"", types::ddl_type(&value.data_type)),
    ))
}

pub(super) fn required<'m, T: ?Sized>(part: Option<&'m T>, what: &str) -> Result<&'m T> {
    part.ok_or_else(|| unset(what))
}

fn unset(what: &str) -> Error {
    Error::invalid("INVALID_PLAN_INPUT", format!("the plan is incomplete: {what} is missing")).with_sqlstate("42000")
}
