//! Generators: `explode`, `posexplode`, `inline`, `stack` and `json_tuple`, which give rows.
//!
//! Each becomes a list beside the columns of its input, and the list is unnested. Two generators of one projection are a product.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Column, NullHandling, UnnestOptions};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, Unnest};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;

use super::Attribute;
use super::columns::{column, fresh, item, project};
use super::expression::{Resolver, Scope};
use super::relation::{Analyzer, Node};
use crate::functions::{Arguments, Kernel, Typed, cast, coercion, faults, scalar};
use crate::types::{self, ddl_type};

/// What a generator gives for each row.
enum Rows {
    /// The elements of a list are the values of one column.
    Values(Typed),
    /// The elements of a list are structs, whose fields are the columns.
    Structs(Typed),
    /// One row.
    One(Vec<(String, Typed)>),
}

impl Analyzer<'_> {
    /// The relation with the columns of a generator beside its own, where they are hidden; and the columns as the user sees them.
    pub(super) fn generate(
        &self,
        input: Node,
        function: &str,
        arguments: Vec<Typed>,
        argument_names: &[String],
        names: Vec<String>,
        outer: bool,
    ) -> Result<(Node, Vec<Attribute>)> {
        let _ = argument_names;
        match self.rows(function, arguments)? {
            Rows::Values(list) => {
                let DataType::List(element) = &list.data_type else { return Err(Error::internal("a generator gives a list")) };
                let value = Typed::new(list.expr.clone(), element.data_type().clone(), element.is_nullable() || outer);
                let attribute = Attribute::of(one_name(&names)?.unwrap_or_else(|| "col".to_owned()), &value);
                let (plan, mut columns) = with_list(&input, &list, &attribute.internal, outer)?;
                columns.push(attribute.clone().hidden());
                Ok((Node { plan, columns, ..input }, vec![attribute]))
            }
            Rows::Structs(list) => {
                let fields = struct_fields(&list.data_type)?;
                check_names(&names, fields.len())?;
                let internal = fresh();
                let (plan, mut columns) = with_list(&input, &list, &internal, outer)?;
                let mut items: Vec<Expr> = columns.iter().map(Attribute::column).collect();
                let mut given = Vec::with_capacity(fields.len());
                let rows_nullable = matches!(&list.data_type, DataType::List(element) if element.is_nullable());
                for (index, field) in fields.iter().enumerate() {
                    let value = get_field(column(&internal), field.name().as_str());
                    let nullable = field.is_nullable() || outer || rows_nullable;
                    let value = Typed::new(value, field.data_type().clone(), nullable).with_metadata(field.metadata().clone());
                    let attribute = Attribute::of(names.get(index).unwrap_or(field.name()), &value);
                    items.push(item(&value, &attribute.internal, &plan)?);
                    columns.push(attribute.clone().hidden());
                    given.push(attribute);
                }
                Ok((Node { plan: project(plan, items)?, columns, ..input }, given))
            }
            Rows::One(values) => {
                check_names(&names, values.len())?;
                let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
                let mut columns = input.columns;
                let mut given = Vec::with_capacity(values.len());
                for (index, (name, value)) in values.into_iter().enumerate() {
                    let attribute = Attribute::of(names.get(index).cloned().unwrap_or(name), &value);
                    items.push(item(&value, &attribute.internal, &input.plan)?);
                    columns.push(attribute.clone().hidden());
                    given.push(attribute);
                }
                Ok((Node { plan: project(input.plan, items)?, columns, below: input.below, grouped: input.grouped }, given))
            }
        }
    }

    fn rows(&self, function: &str, mut arguments: Vec<Typed>) -> Result<Rows> {
        let count = arguments.len();
        let only = |arguments: &mut Vec<Typed>| match (arguments.pop(), count) {
            (Some(argument), 1) => Ok(argument),
            _ => Err(faults::wrong_number(function, 1, count)),
        };
        match function {
            "explode" => {
                let argument = only(&mut arguments)?;
                match &argument.data_type {
                    DataType::List(_) => Ok(Rows::Values(argument)),
                    DataType::Map(..) => Ok(Rows::Structs(listed(argument, false)?)),
                    other => Err(faults::unexpected_type(function, 0, "(\"ARRAY\" or \"MAP\")", other)),
                }
            }
            "posexplode" => {
                let argument = only(&mut arguments)?;
                match &argument.data_type {
                    DataType::List(_) | DataType::Map(..) => Ok(Rows::Structs(listed(argument, true)?)),
                    other => Err(faults::unexpected_type(function, 0, "(\"ARRAY\" or \"MAP\")", other)),
                }
            }
            "inline" => {
                let argument = only(&mut arguments)?;
                match &argument.data_type {
                    DataType::List(element) if matches!(element.data_type(), DataType::Struct(_)) => Ok(Rows::Structs(argument)),
                    other => Err(faults::unexpected_type(function, 0, "\"ARRAY<STRUCT>\"", other)),
                }
            }
            "stack" => self.stack(arguments).map(Rows::Structs),
            "json_tuple" => self.json_tuple(arguments).map(Rows::One),
            _ => Err(faults::unresolved_routine(function)),
        }
    }

    /// `stack(n, a, b, …)`: the values in `n` rows.
    fn stack(&self, mut arguments: Vec<Typed>) -> Result<Typed> {
        if arguments.len() < 2 {
            return Err(faults::wrong_number("stack", "> 1", arguments.len()));
        }
        let values = arguments.split_off(1);
        let rows = match arguments.pop().map(|rows| (coercion::constant_of(&rows), rows.data_type)) {
            Some((Some(ScalarValue::Int32(Some(rows @ 1..))), _)) => usize::try_from(rows).unwrap_or(1),
            Some((Some(_), DataType::Int32)) => {
                return Err(faults::mismatch("VALUE_OUT_OF_RANGE", "the number of rows of `stack` must be positive"));
            }
            Some((Some(_), other)) => return Err(faults::unexpected_type("stack", 0, "\"INT\"", &other)),
            _ => return Err(faults::not_foldable("stack", 0)),
        };
        let width = values.len().div_ceil(rows);
        let mut fields: Vec<Field> = Vec::with_capacity(width);
        let mut cells: Vec<Typed> = values.clone();
        for place in 0..width {
            let of_column: Vec<Typed> = values.iter().skip(place).step_by(width).cloned().collect();
            let typed = of_column.iter().find(|value| value.data_type != DataType::Null);
            let data_type = typed.map_or(DataType::Null, |value| value.data_type.clone());
            if of_column.iter().any(|value| value.data_type != DataType::Null && value.data_type != data_type) {
                let message = format!("the values of column {place} of `stack` differ in type");
                return Err(faults::mismatch("STACK_COLUMN_DIFF_TYPES", message));
            }
            let cast_values = of_column.into_iter().map(|value| cast::implicit(value, &data_type, self.settings));
            let cast_values = cast_values.collect::<Result<Vec<_>>>()?;
            for (cell, value) in cells.iter_mut().skip(place).step_by(width).zip(cast_values) {
                *cell = value;
            }
            fields.push(Field::new(format!("col{place}"), data_type, true));
        }
        let data_type = types::array(DataType::Struct(Fields::from(fields)), false);
        Ok(scalar("stack", Stack { rows, width, data_type: data_type.clone() }, cells, data_type, false))
    }

    /// `json_tuple(json, 'a', 'b')`.
    fn json_tuple(&self, arguments: Vec<Typed>) -> Result<Vec<(String, Typed)>> {
        if arguments.len() > 1 && arguments.iter().any(|argument| argument.data_type != DataType::Utf8) {
            return Err(faults::mismatch("NON_STRING_TYPE", "the arguments of `json_tuple` must be strings"));
        }
        let mut arguments = arguments.into_iter();
        let (Some(json), true) = (arguments.next(), arguments.len() > 0) else { return Err(faults::wrong_number("json_tuple", "> 1", 1)) };
        let scope = Scope::default();
        let resolver = Resolver::new(self.settings, &scope, self);
        arguments
            .enumerate()
            .map(|(index, name)| {
                let path = match coercion::constant_of(&cast::implicit(name, &DataType::Utf8, self.settings)?) {
                    Some(ScalarValue::Utf8(name)) => Typed::text(format!("$['{}']", name.unwrap_or_default())),
                    _ => return Err(faults::not_foldable("json_tuple", index + 1)),
                };
                Ok((format!("c{index}"), resolver.call("get_json_object", vec![json.clone(), path])?))
            })
            .collect()
    }
}

/// The plan with a list beside its columns, unnested.
fn with_list(input: &Node, list: &Typed, internal: &str, outer: bool) -> Result<(LogicalPlan, Vec<Attribute>)> {
    let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
    items.push(list.expr.clone().alias(internal));
    let plan = unnested(project(input.plan.clone(), items)?, internal, outer)?;
    Ok((plan, input.columns.clone()))
}

/// The plan with one row for each element of a list. With `outer` a row without elements stays, with a null.
pub(super) fn unnested(plan: LogicalPlan, internal: &str, outer: bool) -> Result<LogicalPlan> {
    let null_handling = if outer { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
    let options = UnnestOptions { null_handling, recursions: Vec::new() };
    Unnest::try_new(Arc::new(plan), vec![Column::new_unqualified(internal)], options).map(LogicalPlan::Unnest).map_err(from_datafusion)
}

fn one_name(names: &[String]) -> Result<Option<String>> {
    match names {
        [] => Ok(None),
        [name] => Ok(Some(name.clone())),
        _ => Err(wrong_names(names, 1)),
    }
}

fn check_names(names: &[String], columns: usize) -> Result<()> {
    if names.is_empty() || names.len() == columns { Ok(()) } else { Err(wrong_names(names, columns)) }
}

fn wrong_names(names: &[String], columns: usize) -> Error {
    Error::invalid("UDTF_ALIAS_NUMBER_MISMATCH", format!("the generator gives {columns} columns, but the names are {}", names.join(", ")))
        .with_sqlstate("42802")
}

fn struct_fields(list: &DataType) -> Result<Fields> {
    match list {
        DataType::List(element) => match element.data_type() {
            DataType::Struct(fields) => Ok(fields.clone()),
            other => Err(Error::internal(format!("a generator gives structs and not {}", ddl_type(other)))),
        },
        other => Err(Error::internal(format!("a generator gives a list and not {}", ddl_type(other)))),
    }
}

/// A list or map as a list of structs: with the position if wanted, then `col`, or `key` and `value`.
fn listed(argument: Typed, position: bool) -> Result<Typed> {
    let mut fields: Vec<Field> = Vec::new();
    if position {
        fields.push(Field::new("pos", DataType::Int32, false));
    }
    match &argument.data_type {
        DataType::List(element) => fields.push(Field::new("col", element.data_type().clone(), element.is_nullable())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => fields.extend(pair.iter().map(|field| Field::clone(field))),
            _ => return Err(Error::internal("a map has no entries")),
        },
        other => return Err(Error::internal(format!("{} has no elements", ddl_type(other)))),
    }
    let data_type = types::array(DataType::Struct(Fields::from(fields)), false);
    let nullable = argument.nullable;
    Ok(scalar("elements", Elements { position, data_type: data_type.clone() }, vec![argument], data_type, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Elements {
    position: bool,
    data_type: DataType,
}

impl Kernel for Elements {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let array = arguments.array(0)?;
        let (offsets, nulls, mut columns) = match array.data_type() {
            DataType::Map(..) => {
                let map = array.as_map();
                (map.offsets().clone(), map.nulls().cloned(), map.entries().columns().to_vec())
            }
            _ => {
                let list = array.as_list::<i32>();
                (list.offsets().clone(), list.nulls().cloned(), vec![list.values().clone()])
            }
        };
        let length = columns.first().map_or(0, |column| column.len());
        if self.position {
            let mut positions = vec![0_i32; length];
            for bounds in offsets.windows(2) {
                let (start, end) = (bounds.first().copied().unwrap_or(0), bounds.last().copied().unwrap_or(0));
                let part = positions.get_mut(usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0));
                for (position, place) in part.into_iter().flatten().zip(0..) {
                    *position = place;
                }
            }
            columns.insert(0, Arc::new(Int32Array::from(positions)));
        }
        let DataType::List(element) = &self.data_type else { return Err(Error::internal("elements are a list")) };
        let fields = struct_fields(&self.data_type)?;
        let values = StructArray::try_new(fields, columns, None).map_err(failed)?;
        Ok(Arc::new(ListArray::try_new(element.clone(), offsets, Arc::new(values), nulls).map_err(failed)?))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stack {
    rows: usize,
    width: usize,
    data_type: DataType,
}

impl Kernel for Stack {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let cells = arguments.arrays()?;
        let DataType::List(element) = &self.data_type else { return Err(Error::internal("a stack is a list")) };
        let fields = struct_fields(&self.data_type)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.width);
        for (place, field) in fields.iter().enumerate() {
            // The last row may be shorter than the others: a column of nulls fills it.
            let mut of_column: Vec<ArrayRef> = cells.iter().skip(place).step_by(self.width).cloned().collect();
            of_column.resize_with(self.rows, || arrow::array::new_null_array(field.data_type(), arguments.rows()));
            let sources: Vec<&dyn Array> = of_column.iter().map(AsRef::as_ref).collect();
            let picks: Vec<(usize, usize)> =
                (0..arguments.rows()).flat_map(|row| (0..self.rows).map(move |source| (source, row))).collect();
            columns.push(interleave(&sources, &picks).map_err(failed)?);
        }
        let values = StructArray::try_new(fields, columns, None).map_err(failed)?;
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(self.rows, arguments.rows()));
        Ok(Arc::new(ListArray::try_new(element.clone(), offsets, Arc::new(values), None).map_err(failed)?))
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal("the rows of a generator cannot be made").caused_by(error)
}
