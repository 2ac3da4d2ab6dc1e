//! Table functions of users, alone and beside a relation.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Field, Fields, Schema};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::subquery_expression::{SubqueryType, TableArgOptions};
use spark_connect_proto::{CommonInlineUserDefinedTableFunction, Expression, NamedArgumentExpression, SubqueryExpression};

use super::Attribute;
use super::call::literal;
use super::columns::{fresh, item, project};
use super::expression::{Resolver, Scope, Surroundings};
use super::normalize::normalized;
use super::relation::{Analyzer, Node};
use crate::functions::{Typed, coercion};
use crate::python::plan::{self, Spread, TableCall};
use crate::python::{Analysis, AnalyzedArgument, TableFunction, pickle_value};

/// An argument of a call.
struct Given {
    name: Option<String>,
    value: Typed,
    is_table: bool,
}

/// The table that is an argument.
struct Table {
    node: Node,
    options: TableArgOptions,
}

/// The rows over which a function is called.
struct Called {
    plan: LogicalPlan,
    /// Columns that pass.
    passing: Vec<Attribute>,
    arguments: Vec<Given>,
    /// Columns that only say where rows go and in which order.
    sorting: Vec<Expr>,
    spread: Spread,
}

impl Analyzer<'_> {
    /// `SELECT * FROM f(…)`.
    pub(super) fn user_table_function(&self, call: &CommonInlineUserDefinedTableFunction, outer: Option<&Scope<'_>>) -> Result<Node> {
        let row = LogicalPlanBuilder::empty(true).build().map_err(from_datafusion)?;
        let (node, generated) = self.table_call(Node::new(row, Vec::new()), call, outer, &[], false)?;
        let plan = project(node.plan, generated.iter().map(Attribute::column).collect())?;
        Ok(Node::new(plan, generated))
    }

    /// The relation with the columns of a table function, which may refer to it, beside its own, where they are hidden; and the columns as
    /// the user sees them. With `keeps` a row stays where the function gives none.
    pub(super) fn table_call(
        &self,
        input: Node,
        call: &CommonInlineUserDefinedTableFunction,
        outer: Option<&Scope<'_>>,
        names: &[String],
        keeps: bool,
    ) -> Result<(Node, Vec<Attribute>)> {
        let function = TableFunction::of(call)?;
        let (given, table) = self.table_arguments(&input, call, outer)?;
        let analysis = match function.declared {
            Some(_) => None,
            None => Some(self.analysis_of(&function, &given)?),
        };
        let declared = function.declared.as_ref().or_else(|| analysis.as_ref().map(|analysis| &analysis.columns));
        let columns: Fields = declared.cloned().unwrap_or_default();
        if !names.is_empty() && names.len() != columns.len() {
            return Err(Error::invalid(
                "UDTF_ALIAS_NUMBER_MISMATCH",
                format!("the table function gives {} columns, but the names are {}", columns.len(), names.join(", ")),
            )
            .with_sqlstate("42802"));
        }
        let generated: Vec<Attribute> = columns
            .iter()
            .enumerate()
            .map(|(place, field)| {
                let field = field.as_ref().clone().with_nullable(field.is_nullable() || keeps);
                Attribute::of_field(&names.get(place).map_or(field.clone(), |name| field.with_name(name)))
            })
            .collect();
        let Called { plan, passing, arguments, sorting, spread } = match table {
            Some(table) => self.over_table(table, given, analysis.as_ref())?,
            None => Called { plan: input.plan, passing: input.columns, arguments: given, sorting: Vec::new(), spread: Spread::AsTheyAre },
        };
        let mut items: Vec<Expr> = passing.iter().map(Attribute::column).collect();
        for argument in &arguments {
            items.push(item(&argument.value, &fresh(), &plan)?);
        }
        items.extend(sorting);
        let below = project(plan, items)?;
        let given: Vec<Field> = below.schema().fields().iter().take(passing.len()).map(|field| Field::clone(field)).collect();
        let results = generated.iter().map(|column| column.to_field().with_name(&column.internal).with_nullable(true));
        let schema = Arc::new(Schema::new(given.iter().cloned().chain(results).collect::<Vec<_>>()));
        let call = TableCall {
            function,
            tables: arguments.iter().enumerate().filter(|(_, argument)| argument.is_table).map(|(place, _)| place).collect(),
            arguments: arguments.into_iter().map(|argument| (argument.name, argument.value.to_field(""))).collect(),
            given: given.len(),
            outer: keeps,
            spread,
            analysis: analysis.map(|analysis| analysis.pickled),
            columns,
        };
        let plan = plan::table(self.python()?, below, call, schema)?;
        let columns = passing.into_iter().chain(generated.iter().cloned().map(Attribute::hidden)).collect();
        Ok((Node::new(plan, columns), generated))
    }

    fn table_arguments(
        &self,
        input: &Node,
        call: &CommonInlineUserDefinedTableFunction,
        outer: Option<&Scope<'_>>,
    ) -> Result<(Vec<Given>, Option<Table>)> {
        let mut table: Option<Table> = None;
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let mut plain: Vec<Expression> = Vec::with_capacity(call.arguments.len());
        let mut at: Option<usize> = None;
        for (place, argument) in call.arguments.iter().enumerate() {
            let Some(subquery) = table_of(argument) else {
                plain.push(argument.clone());
                continue;
            };
            if table.is_some() || !input.columns.is_empty() {
                return Err(Error::invalid(
                    "TABLE_VALUED_FUNCTION_TOO_MANY_TABLE_ARGUMENTS",
                    format!("the table function `{}` takes one table, and none in a lateral join", call.function_name),
                )
                .with_sqlstate("54023"));
            }
            let relation = Surroundings::relation(self, subquery.plan_id)?;
            let node = self.relation(&relation, outer)?;
            table = Some(Table { node, options: subquery.table_arg_options.clone().unwrap_or_default() });
            at = Some(place);
            plain.push(placeholder(argument));
        }
        let values = resolver.python_arguments(&plain, &call.function_name)?;
        let mut given: Vec<Given> = values.into_iter().map(|(name, value)| Given { name, value, is_table: false }).collect();
        if let (Some(table), Some(place)) = (&table, at)
            && let Some(given) = given.get_mut(place)
        {
            given.is_table = true;
            given.value = self.structure_of(&table.node, &[], &[])?;
        }
        Ok((given, table))
    }

    /// The visible columns of a table, or what is selected of it, as one structure; the values of its partitions come after them.
    fn structure_of(&self, table: &Node, select: &[(String, String)], partitions: &[Typed]) -> Result<Typed> {
        let scope = Scope { columns: &table.columns, ..Scope::default() };
        let resolver = Resolver::new(self.settings, &scope, self);
        let mut fields: Vec<Typed> = Vec::new();
        for column in table.visible().filter(|_| select.is_empty()) {
            fields.extend([Typed::text(column.name.clone()), column.typed()]);
        }
        for (expression, alias) in select {
            let name = if alias.is_empty() { expression } else { alias };
            fields.extend([Typed::text(name.clone()), resolver.value(&crate::sql::parse::expression(expression)?)?]);
        }
        for (place, partition) in partitions.iter().enumerate() {
            fields.extend([Typed::text(format!("partition_by_{place}")), partition.clone()]);
        }
        resolver.call("named_struct", fields)
    }

    /// A table as the rows over which a function is called.
    fn over_table(&self, table: Table, mut arguments: Vec<Given>, analysis: Option<&Analysis>) -> Result<Called> {
        let Table { node, options } = table;
        let scope = Scope { columns: &node.columns, ..Scope::default() };
        let resolver = Resolver::new(self.settings, &scope, self);
        let Partitions { by, order_by, single } = Partitions::of(options, analysis)?;
        let (mut sorting, mut keys, mut order, mut partitions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for partition in &by {
            let value = resolver.value(partition)?;
            let name = fresh();
            sorting.push(item(&normalized(&value).unwrap_or_else(|| value.clone()), &name, &node.plan)?);
            keys.push(name);
            partitions.push(value);
        }
        for sort in &order_by {
            let sort = resolver.sort(sort)?;
            let name = fresh();
            sorting.push(sort.expr.alias(&name));
            order.push((name, SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first }));
        }
        let select = analysis.map_or(&[][..], |analysis| analysis.select.as_slice());
        let width = if select.is_empty() { node.visible().count() } else { select.len() };
        let spread = match single || !by.is_empty() || !order.is_empty() {
            true => Spread::By { keys, order, places: (width..width + by.len()).collect() },
            false => Spread::AsTheyAre,
        };
        let structure = self.structure_of(&node, select, &partitions)?;
        for argument in arguments.iter_mut().filter(|argument| argument.is_table) {
            argument.value = structure.clone();
        }
        Ok(Called { plan: node.plan, passing: Vec::new(), arguments, sorting, spread })
    }

    /// What a function says of a call of it.
    fn analysis_of(&self, function: &TableFunction, given: &[Given]) -> Result<Analysis> {
        let mut arguments = Vec::with_capacity(given.len());
        for given in given {
            let field = given.value.to_field("");
            let constant = match coercion::constant_of(&given.value).filter(|_| !given.is_table) {
                Some(value) => {
                    let array = value.to_array().map_err(from_datafusion)?;
                    Some(pickle_value(&field, array.as_ref(), 0)?)
                }
                None => None,
            };
            arguments.push(AnalyzedArgument { name: given.name.clone(), field, constant, is_table: given.is_table });
        }
        self.ask_function(function, arguments)
    }
}

/// How a table is partitioned and ordered.
struct Partitions {
    by: Vec<Expression>,
    order_by: Vec<SortOrder>,
    /// Whether all rows belong together.
    single: bool,
}

impl Partitions {
    /// As the call says, or else as the function does.
    fn of(options: TableArgOptions, analysis: Option<&Analysis>) -> Result<Partitions> {
        let single = options.with_single_partition();
        let said = !options.partition_spec.is_empty() || single || !options.order_spec.is_empty();
        let Some(analysis) = analysis.filter(|analysis| analysis.single_partition || !analysis.partition_by.is_empty()) else {
            return Ok(Partitions { by: options.partition_spec, order_by: options.order_spec, single });
        };
        if said {
            return Err(Error::invalid(
                "TABLE_VALUED_FUNCTION_REQUIRED_METADATA_INCOMPATIBLE_WITH_CALL",
                "the table function says itself how its table is partitioned: leave PARTITION BY and ORDER BY out of the call",
            )
            .with_sqlstate("22023"));
        }
        let by = analysis.partition_by.iter().map(|text| crate::sql::parse::expression(text)).collect::<Result<Vec<_>>>()?;
        let mut order_by = Vec::with_capacity(analysis.order_by.len());
        for (text, ascending, nulls_first) in &analysis.order_by {
            let direction = if *ascending { SortDirection::Ascending } else { SortDirection::Descending };
            let nulls = if nulls_first.unwrap_or(*ascending) { NullOrdering::SortNullsFirst } else { NullOrdering::SortNullsLast };
            let child = Some(Box::new(crate::sql::parse::expression(text)?));
            order_by.push(SortOrder { child, direction: direction.into(), null_ordering: nulls.into() });
        }
        Ok(Partitions { by, order_by, single: analysis.single_partition })
    }
}

/// The table that an argument is.
fn table_of(argument: &Expression) -> Option<&SubqueryExpression> {
    match &argument.expr_type {
        Some(ExprType::SubqueryExpression(subquery)) if subquery.subquery_type() == SubqueryType::TableArg => Some(subquery),
        Some(ExprType::NamedArgumentExpression(named)) => table_of(named.value.as_deref()?),
        _ => None,
    }
}

/// A place for a table among arguments that are values.
fn placeholder(argument: &Expression) -> Expression {
    let value = literal(LiteralType::Boolean(true));
    match &argument.expr_type {
        Some(ExprType::NamedArgumentExpression(named)) => {
            let argument = NamedArgumentExpression { key: named.key.clone(), value: Some(Box::new(value)) };
            Expression { common: None, expr_type: Some(ExprType::NamedArgumentExpression(Box::new(argument))) }
        }
        _ => value,
    }
}
