//! About the program itself: types of values, identifiers, the session, errors on purpose.

mod bitmap;
mod error;
mod identifier;

use millstream_core::{Error, Result};

use super::{Call, Functions, Typed, faults};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    bitmap::register(functions);
    error::register(functions);
    identifier::register(functions);
    functions.add("typeof", |call| {
        call.arity(1..=1)?;
        Ok(Typed::text(types::simple_name_of(&call.value(0)?.to_field("value"))))
    });
    functions.add("version", |call| constant(call, "4.2.0 0000000000000000000000000000000000000000"));
    functions.add("current_catalog", |call| constant(call, "spark_catalog"));
    functions.add_all(&["current_database", "current_schema"], |call| constant(call, "default"));
    functions.add("current_path", |call| constant(call, "system.builtin,system.session,spark_catalog.default"));
    functions.add_all(&["current_user", "user", "session_user"], |call| constant(call, "millstream"));
    // Outside of the rows of a file there is no file. The analyzer knows better where there is one.
    functions.add("input_file_name", |call| constant(call, ""));
    functions.add_all(&["input_file_block_start", "input_file_block_length"], |call| {
        call.arity(0..=0)?;
        Ok(Typed::literal((-1_i64).into()))
    });
    functions.add("spark_partition_id", |call| {
        call.arity(0..=0)?;
        Ok(Typed::literal(0_i32.into()))
    });
    functions.add("unwrap_udt", |call| {
        call.arity(1..=1)?;
        // There are no types of users.
        Err(faults::unexpected_type(call.name, 0, "\"USERDEFINEDTYPE\"", &call.value(0)?.data_type))
    });
    functions.add_all(&["years", "months", "days", "hours", "bucket"], |call| {
        let message = format!("`{}` says how a table is partitioned, and is no value", call.name);
        Err(Error::invalid("PARTITION_TRANSFORM_EXPRESSION_NOT_IN_PARTITIONED_BY", message).with_sqlstate("42S23"))
    });
    functions.add_all(&["reflect", "java_method", "try_reflect"], |call| {
        let message = format!("`{}` calls Java, which is not there: use a Python function", call.name);
        Err(Error::invalid("UNRESOLVED_ROUTINE", message).with_sqlstate("42883"))
    });
}

fn constant(call: &Call<'_>, text: &str) -> Result<Typed> {
    call.arity(0..=0)?;
    Ok(Typed::text(text))
}
