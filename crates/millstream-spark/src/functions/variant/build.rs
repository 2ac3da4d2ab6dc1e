//! The functions of variants.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field};
use millstream_core::variant::{Builder, Fault, Parsed, Value, from_json};
use millstream_core::{Error, Result};

use super::super::formats;
use super::super::rows::{Memo, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::get::{Cast, Column};
use super::object::{Failure, append, is_convertible};
use super::path::Path;
use super::schema::{Schema, schema_of};
use super::{Parts, is_variant, malformed};
use crate::types::{self, VARIANT, ddl_type};
use millstream_core::json::{self, Cursor, Syntax};

pub(super) fn register(functions: &mut Functions) {
    functions.add("parse_json", |call| parse_json(call, "parse_json", true));
    functions.add("try_parse_json", |call| parse_json(call, "try_parse_json", false));
    functions.add("variant_get", |call| variant_get(call, "variant_get", true));
    functions.add("try_variant_get", |call| variant_get(call, "try_variant_get", false));
    functions.add("is_variant_null", |call| {
        call.arity(1..=1)?;
        Ok(scalar("is_variant_null", IsVariantNull, vec![variant(call)?], DataType::Boolean, false))
    });
    functions.add("is_valid_variant", |call| {
        call.arity(1..=1)?;
        let variant = variant(call)?;
        let nullable = variant.nullable;
        Ok(scalar("is_valid_variant", IsValidVariant, vec![variant], DataType::Boolean, nullable))
    });
    functions.add("schema_of_variant", |call| {
        call.arity(1..=1)?;
        let variant = variant(call)?;
        let nullable = variant.nullable;
        Ok(scalar("schema_of_variant", SchemaOfVariant, vec![variant], DataType::Utf8, nullable))
    });
    functions.add("to_variant_object", to_variant_object);
}

/// What a column of variants carries with it.
pub(super) fn metadata() -> HashMap<String, String> {
    HashMap::from([(VARIANT.to_owned(), "true".to_owned())])
}

fn field() -> Field {
    Field::new("value", types::variant(), true).with_metadata(metadata())
}

/// The first argument, which must be a variant.
pub(in crate::functions) fn variant(call: &Call<'_>) -> Result<Typed> {
    let value = call.value(0)?;
    if is_variant(&value.to_field("value")) {
        return Ok(value.clone());
    }
    if value.data_type == DataType::Null {
        return Ok(Typed::null(&types::variant()).with_metadata(metadata()));
    }
    Err(faults::unexpected_type(call.name, 0, "\"VARIANT\"", &value.data_type))
}

/// An error for what cannot be a variant.
pub(in crate::functions) fn fault(fault: Fault) -> Error {
    match fault {
        Fault::DuplicateKey(name) => {
            let message = format!("an object of a variant has the name '{name}' twice: names must be unique");
            faults::row("VARIANT_DUPLICATE_KEY", "22023", message)
        }
        Fault::TooLarge => faults::row("VARIANT_SIZE_LIMIT", "22023", "a variant takes at most 128 MiB: keep larger values as strings"),
    }
}

fn parse_json(call: &Call<'_>, name: &'static str, fails: bool) -> Result<Typed> {
    call.arity(1..=1)?;
    let text = call.exactly(0, &[DataType::Utf8])?;
    let nullable = !fails || text.nullable;
    Ok(scalar(name, ParseJson { fails }, vec![text], types::variant(), nullable).with_metadata(metadata()))
}

/// What `parse_json` allows: JSON and nothing beyond it.
const STRICT: Syntax = Syntax {
    comments: false,
    unquoted_names: false,
    single_quotes: false,
    leading_zeros: false,
    non_numeric: false,
    any_escape: false,
    control_chars: false,
    max_depth: 1000,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ParseJson {
    fails: bool,
}

impl Kernel for ParseJson {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let mut column = Column::default();
        for at in 0..rows.len() {
            let Some(text) = rows.row(at).text_opt(0) else {
                column.push_null();
                continue;
            };
            let (mut value, mut metadata) = (Vec::new(), Vec::new());
            let what = match from_json(&mut Cursor::new(text.as_bytes(), &STRICT), &mut value, &mut metadata) {
                Ok(Parsed::Good) => {
                    column.add(value, metadata);
                    continue;
                }
                Ok(Parsed::Bad(fault)) => self::fault(fault).message().to_owned(),
                Err(json::Fault::Syntax { at, what }) => format!("{what} at byte {at}"),
                Err(json::Fault::TooDeep) => "it is nested too deeply".to_owned(),
            };
            if self.fails {
                return Err(formats::malformed(text, &what));
            }
            column.push_null();
        }
        column.finish(&field())
    }
}

/// The types of the variants of a column that are not null.
///
/// # Errors
/// `MALFORMED_VARIANT`.
pub(in crate::functions) fn schemas(variants: &ArrayRef, mut each: impl FnMut(Schema)) -> Result<()> {
    let parts = Parts::of(variants)?;
    for row in (0..variants.len()).filter(|row| variants.is_valid(*row)) {
        each(schema_of(parts.get(row)).ok_or_else(malformed)?);
    }
    Ok(())
}

/// A type that is named by a constant: one type, or the columns of a struct.
fn target(call: &Call<'_>, index: usize) -> Result<Field> {
    let Some(text) = call.constant_text(index)? else { return formats::schema(call, index) };
    crate::types::parse_field_type(&text).or_else(|error| formats::schema(call, index).map_err(|_| error))
}

/// `variant_get(variant, path[, type])`
fn variant_get(call: &Call<'_>, name: &'static str, fails: bool) -> Result<Typed> {
    call.arity(2..=3)?;
    let to = if call.len() == 3 { target(call, 2)? } else { field() };
    let to = formats::nullable(&to).with_name("value");
    if !is_convertible(to.data_type()) {
        let message = format!("a variant cannot be cast to \"{}\"", ddl_type(to.data_type()));
        return Err(faults::mismatch("CAST_WITHOUT_SUGGESTION", message));
    }
    let arguments = vec![variant(call)?, call.string(1)?];
    let (data_type, metadata) = (to.data_type().clone(), to.metadata().clone());
    let kernel = VariantGet { to, cast: Cast { fails, settings: call.settings.clone() } };
    Ok(scalar(name, kernel, arguments, data_type, true).with_metadata(metadata))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct VariantGet {
    to: Field,
    cast: Cast,
}

impl Kernel for VariantGet {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (variants, rows) = (arguments.array(0)?, Rows::of(arguments)?);
        let parts = Parts::of(&variants)?;
        let name = if self.cast.fails { "variant_get" } else { "try_variant_get" };
        let mut paths = Memo::new();
        let mut found = Vec::with_capacity(rows.len());
        for at in 0..rows.len() {
            let Some(text) = rows.row(at).text_opt(1) else {
                found.push(None);
                continue;
            };
            let path: &Path = paths.get(text, |text| Path::parse(text, name))?;
            found.push(if variants.is_null(at) { None } else { path.find(parts.get(at)) });
        }
        self.cast.all(&found, &self.to)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IsVariantNull;

impl Kernel for IsVariantNull {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let variants = arguments.array(0)?;
        let parts = Parts::of(&variants)?;
        let is_null = |row: usize| Some(variants.is_valid(row) && matches!(parts.get(row).value(), Some(Value::Null)));
        Ok(std::sync::Arc::new((0..variants.len()).map(is_null).collect::<BooleanArray>()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct IsValidVariant;

impl Kernel for IsValidVariant {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let variants = arguments.array(0)?;
        let parts = Parts::of(&variants)?;
        // What has a type in all of its parts can be read.
        Rows::of(arguments)?.booleans(|row| Ok(Some(schema_of(parts.get(row.at())).is_some())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SchemaOfVariant;

impl Kernel for SchemaOfVariant {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let variants = arguments.array(0)?;
        let parts = Parts::of(&variants)?;
        Rows::of(arguments)?.texts(|row, out| {
            out.push_str(&schema_of(parts.get(row.at())).ok_or_else(malformed)?.to_string());
            Ok(true)
        })
    }
}

/// `to_variant_object(value)`: structs, arrays and maps.
fn to_variant_object(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?;
    let nested = matches!(value.data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..));
    if !nested || !is_convertible(&value.data_type) {
        let message = format!("`to_variant_object` cannot make a variant of \"{}\": cast values without parts", ddl_type(&value.data_type));
        return Err(faults::mismatch("CAST_WITHOUT_SUGGESTION", message));
    }
    let kernel = ToVariantObject { field: value.to_field("value") };
    Ok(scalar("to_variant_object", kernel, vec![value.clone()], types::variant(), value.nullable).with_metadata(metadata()))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToVariantObject {
    field: Field,
}

impl Kernel for ToVariantObject {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let mut column = Column::default();
        for row in 0..values.len() {
            if values.is_null(row) {
                column.push_null();
                continue;
            }
            let mut builder = Builder::default();
            match append(&values, row, &self.field, &mut builder) {
                Ok(()) => column.push(builder, Ok(()))?,
                Err(Failure::Fault(fault)) => return Err(self::fault(fault)),
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        column.finish(&field())
    }
}
