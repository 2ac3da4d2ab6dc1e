//! `na.fill`, `na.drop` and `na.replace`.

use arrow::datatypes::DataType;
use datafusion::functions::math::expr_fn::isnan;
use datafusion::logical_expr::{Expr, lit, when};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::{NaDrop, NaFill, NaReplace};

use super::Attribute;
use super::columns::{item, project};
use super::expression::{Resolver, Scope, literal, name_parts};
use super::filter::filtered;
use super::gather::incomplete;
use super::relation::{Analyzer, Node};
use crate::functions::cast::CastMode;
use crate::functions::{Typed, cast};

/// Kinds of columns that a value can fill or replace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Truth,
    Other,
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Utf8 => Kind::Text,
        DataType::Boolean => Kind::Truth,
        number if number.is_numeric() => Kind::Number,
        _ => Kind::Other,
    }
}

impl Analyzer<'_> {
    pub(super) fn fill_na(&self, fill: &NaFill, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(fill.input.as_deref(), outer)?;
        let values = fill.values.iter().map(literal).collect::<Result<Vec<_>>>()?;
        let mut fills: Vec<Option<&Typed>> = vec![None; input.columns.len()];
        match values.as_slice() {
            [] => return Err(incomplete("the values to fill in")),
            [value] => {
                for place in self.places(&input, &fill.cols)? {
                    let fits = input.columns.get(place).is_some_and(|column| kind(&column.data_type) == kind(&value.data_type));
                    if let Some(slot) = fills.get_mut(place).filter(|_| fits) {
                        *slot = Some(value);
                    }
                }
            }
            values => {
                if values.len() != fill.cols.len() {
                    return Err(
                        Error::invalid("INVALID_PLAN_INPUT", "there are not as many values to fill in as columns").with_sqlstate("42000")
                    );
                }
                for (name, value) in fill.cols.iter().zip(values) {
                    for place in self.places(&input, std::slice::from_ref(name))? {
                        if let Some(slot) = fills.get_mut(place) {
                            *slot = Some(value);
                        }
                    }
                }
            }
        }
        let mut outputs: Vec<(Attribute, Typed)> = Vec::with_capacity(input.columns.len());
        for (column, value) in input.columns.iter().zip(fills) {
            let Some(value) = value else {
                outputs.push((column.clone(), column.typed()));
                continue;
            };
            let value = cast::explicit(value.clone(), &column.data_type, self.mode(), self.settings)?;
            let known = present(column);
            let expr = when(known, column.column()).otherwise(value.expr).map_err(from_datafusion)?;
            let filled = Typed::new(expr, column.data_type.clone(), value.nullable);
            outputs.push((Attribute::of(&column.name, &filled), filled));
        }
        given(input, outputs)
    }

    pub(super) fn drop_na(&self, drop: &NaDrop, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(drop.input.as_deref(), outer)?;
        let places = self.places(&input, &drop.cols)?;
        let columns: Vec<&Attribute> = places.iter().filter_map(|place| input.columns.get(*place)).collect();
        let condition = match drop.min_non_nulls {
            None => columns.iter().map(|column| present(column)).reduce(Expr::and),
            Some(least) => {
                let mut counted = lit(0_i32);
                for column in &columns {
                    counted = counted + when(present(column), lit(1_i32)).otherwise(lit(0_i32)).map_err(from_datafusion)?;
                }
                Some(counted.gt_eq(lit(least)))
            }
        };
        match condition {
            Some(condition) => {
                let plan = filtered(input.plan.clone(), condition)?;
                Ok(input.over(plan))
            }
            None => Ok(input),
        }
    }

    pub(super) fn replace(&self, replace: &NaReplace, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(replace.input.as_deref(), outer)?;
        let mut pairs: Vec<(Typed, Typed)> = Vec::with_capacity(replace.replacements.len());
        for replacement in &replace.replacements {
            let old = literal(replacement.old_value.as_ref().ok_or_else(|| incomplete("a value to replace"))?)?;
            let new = literal(replacement.new_value.as_ref().ok_or_else(|| incomplete("a value to replace with"))?)?;
            pairs.push((old, new));
        }
        let Some(of) = pairs.iter().map(|(old, _)| kind(&old.data_type)).find(|kind| *kind != Kind::Other) else { return Ok(input) };
        let places = self.places(&input, &replace.cols)?;
        let mut outputs: Vec<(Attribute, Typed)> = Vec::with_capacity(input.columns.len());
        for (place, column) in input.columns.iter().enumerate() {
            if !places.contains(&place) || kind(&column.data_type) != of {
                outputs.push((column.clone(), column.typed()));
                continue;
            }
            let mut expr = column.column();
            let mut nullable = column.nullable;
            for (old, new) in pairs.iter().rev() {
                let new = cast::explicit(new.clone(), &column.data_type, self.mode(), self.settings)?;
                nullable |= new.nullable;
                let same = self.equal(column.typed(), old.clone())?;
                expr = when(same, new.expr).otherwise(expr).map_err(from_datafusion)?;
            }
            let replaced = Typed::new(expr, column.data_type.clone(), nullable);
            outputs.push((Attribute::of(&column.name, &replaced), replaced));
        }
        given(input, outputs)
    }

    /// The places of the columns named; of all that the user sees when none is.
    fn places(&self, input: &Node, names: &[String]) -> Result<Vec<usize>> {
        if names.is_empty() || matches!(names, [all] if all == "*") {
            return Ok(input.columns.iter().enumerate().filter(|(_, column)| !column.hidden).map(|(place, _)| place).collect());
        }
        let scope = Scope { columns: &input.columns, ..Scope::default() };
        let resolver = Resolver::new(self.settings, &scope, self);
        names.iter().map(|name| resolver.place(&name_parts(name)?)).collect()
    }

    fn mode(&self) -> CastMode {
        if self.settings.ansi { CastMode::Ansi } else { CastMode::Legacy }
    }
}

/// Whether a value is there: neither null nor NaN.
fn present(column: &Attribute) -> Expr {
    let known = column.column().is_not_null();
    match column.data_type {
        DataType::Float32 | DataType::Float64 => known.and(Expr::Not(Box::new(isnan(column.column())))),
        _ => known,
    }
}

fn given(input: Node, outputs: Vec<(Attribute, Typed)>) -> Result<Node> {
    let items = outputs.iter().map(|(attribute, value)| item(value, &attribute.internal, &input.plan)).collect::<Result<Vec<Expr>>>()?;
    let columns: Vec<Attribute> = outputs.into_iter().map(|(attribute, _)| attribute).collect();
    let below = super::extend::below(&input, &columns);
    Ok(Node { plan: project(input.plan, items)?, columns, below, grouped: None })
}
