//! Shapes on a plane (`GEOMETRY`) and on the earth (`GEOGRAPHY`): `st_geomfromwkb`, `st_geogfromwkb`, `st_asbinary`, `st_srid`, `st_setsrid`.

mod wkb;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, StructArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::downcast::{self, arrow_error};
use super::rows::Rows;
use super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use crate::types::{Shape, geospatial};
use wkb::{Order, rewritten};

pub(super) fn register(functions: &mut Functions) {
    functions.add("st_geomfromwkb", |call| {
        call.arity(1..=2)?;
        let srid = if call.len() == 2 { call.int(1)? } else { Typed::literal(0_i32.into()) };
        made(call, Shape::Geometry, "st_geomfromwkb", srid)
    });
    functions.add("st_geogfromwkb", |call| {
        call.arity(1..=1)?;
        made(call, Shape::Geography, "st_geogfromwkb", Typed::literal(GEOGRAPHY_SRID.into()))
    });
    functions.add("st_asbinary", as_binary);
    functions.add("st_srid", |call| {
        call.arity(1..=1)?;
        let Some((value, _)) = shape(call)? else { return Ok(Typed::null(&DataType::Int32)) };
        let nullable = value.nullable;
        Ok(scalar("st_srid", Srid, vec![value], DataType::Int32, nullable))
    });
    functions.add("st_setsrid", set_srid);
}

/// The reference system of longitudes and latitudes.
const GEOGRAPHY_SRID: i32 = 4326;

impl Shape {
    fn srids(self) -> &'static [i32] {
        match self {
            Shape::Geometry => &[0, 3857, GEOGRAPHY_SRID],
            Shape::Geography => &[GEOGRAPHY_SRID],
        }
    }

    fn check(self, srid: i32) -> Result<()> {
        if self.srids().contains(&srid) {
            return Ok(());
        }
        let known: Vec<String> = self.srids().iter().map(i32::to_string).collect();
        let message = format!("{srid} is no reference system of {}: use {}", self.name().to_uppercase(), known.join(" or "));
        Err(faults::row("ST_INVALID_SRID_VALUE", "22023", message))
    }

    /// The value with the type of shapes of a reference system, or of any where it is not known before there are rows.
    fn typed(self, value: Typed, srid: &Typed) -> Result<Typed> {
        let srid = match coercion::constant_of(srid) {
            Some(ScalarValue::Int32(Some(srid))) => {
                self.check(srid)?;
                srid.to_string()
            }
            _ => "ANY".to_owned(),
        };
        Ok(value.with_metadata([(self.key().to_owned(), srid)].into()))
    }
}

/// The first argument with its kind of shape; `None` for an untyped null.
fn shape(call: &Call<'_>) -> Result<Option<(Typed, Shape)>> {
    let value = call.value(0)?;
    if value.data_type == DataType::Null {
        return Ok(None);
    }
    match Shape::of(&value.metadata) {
        Some(shape) => Ok(Some((value.clone(), shape))),
        None => Err(faults::unexpected_type(call.name, 0, "(\"GEOMETRY\" or \"GEOGRAPHY\")", &value.data_type)),
    }
}

fn made(call: &Call<'_>, shape: Shape, name: &'static str, srid: Typed) -> Result<Typed> {
    let bytes = call.binary(0)?;
    let nullable = bytes.nullable || srid.nullable;
    let value = scalar(name, FromBytes { shape }, vec![bytes, srid.clone()], geospatial(), nullable);
    shape.typed(value, &srid)
}

fn as_binary(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let order = if call.len() == 2 { call.string(1)? } else { Typed::text("NDR") };
    let Some((value, _)) = shape(call)? else { return Ok(Typed::null(&DataType::Binary)) };
    let nullable = value.nullable || order.nullable;
    Ok(scalar("st_asbinary", AsBinary, vec![value, order], DataType::Binary, nullable))
}

fn set_srid(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let srid = call.int(1)?;
    let Some((value, shape)) = shape(call)? else {
        return Ok(Typed::null(&geospatial()).with_metadata([(Shape::Geometry.key().to_owned(), "ANY".to_owned())].into()));
    };
    let nullable = value.nullable || srid.nullable;
    let value = scalar("st_setsrid", SetSrid { shape }, vec![value, srid.clone()], geospatial(), nullable);
    shape.typed(value, &srid)
}

fn column(srids: Vec<i32>, shapes: Vec<Option<Vec<u8>>>) -> Result<ArrayRef> {
    let DataType::Struct(fields) = geospatial() else { return Err(Error::internal("a shape is a struct")) };
    let nulls = shapes.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    let bytes = BinaryArray::from_iter_values(shapes.into_iter().map(Option::unwrap_or_default));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(srids)), Arc::new(bytes)];
    Ok(Arc::new(StructArray::try_new(fields, columns, Some(nulls)).map_err(arrow_error)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FromBytes {
    shape: Shape,
}

impl Kernel for FromBytes {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let (mut srids, mut shapes) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for at in 0..rows.len() {
            let row = rows.row(at);
            if !row.is_complete() {
                srids.push(0);
                shapes.push(None);
                continue;
            }
            let srid = row.int(1);
            self.shape.check(srid)?;
            let read = rewritten(row.bytes(0), Order::Little, self.shape == Shape::Geography);
            let shape = read.map_err(|fault| {
                faults::row("WKB_PARSE_ERROR", "22023", format!("the bytes are no shape: {} at byte {}", fault.what, fault.at))
            })?;
            srids.push(srid);
            shapes.push(Some(shape));
        }
        column(srids, shapes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AsBinary;

impl Kernel for AsBinary {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        rows.bytes(|row, out| {
            let order = match row.text(1).to_ascii_uppercase().as_str() {
                "NDR" => Order::Little,
                "XDR" => Order::Big,
                _ => {
                    let message = format!("'{}' is no byte order: use NDR or XDR", row.text(1));
                    return Err(faults::row("ST_INVALID_ENDIANNESS_VALUE", "22023", message));
                }
            };
            let Some((shapes, at)) = row.array(0) else { return Ok(false) };
            let bytes = downcast::structs(shapes)?.column(1).as_binary::<i32>().value(at);
            let written =
                rewritten(bytes, order, false).map_err(|fault| Error::internal(format!("a stored shape is broken: {}", fault.what)))?;
            out.extend(written);
            Ok(true)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Srid;

impl Kernel for Srid {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.numbers::<Int32Type>(|row| {
            let Some((shapes, at)) = row.array(0) else { return Ok(None) };
            Ok(Some(downcast::structs(shapes)?.column(0).as_primitive::<Int32Type>().value(at)))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SetSrid {
    shape: Shape,
}

impl Kernel for SetSrid {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let (shapes, given) = (arguments.array(0)?, arguments.array(1)?);
        let (shapes, given) = (downcast::structs(&shapes)?, downcast::primitive::<Int32Type>(&given)?);
        let bytes = shapes.column(1).as_binary::<i32>();
        let (mut srids, mut changed) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for at in 0..rows.len() {
            let srid = downcast::value(given, at).filter(|_| shapes.is_valid(at));
            if let Some(srid) = srid {
                self.shape.check(srid)?;
            }
            srids.push(srid.unwrap_or(0));
            changed.push(srid.map(|_| bytes.value(at).to_vec()));
        }
        column(srids, changed)
    }
}
