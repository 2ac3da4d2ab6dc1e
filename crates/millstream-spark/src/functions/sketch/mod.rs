//! Sketches of the DataSketches library: small summaries of very many values, as bytes that other systems can read. A folder is a family;
//! `aggregate/sketch` builds them from rows.

pub(crate) mod hll;
pub(crate) mod image;
pub(crate) mod kll;
mod murmur;
pub(crate) mod theta;
pub(crate) mod tuple;

use millstream_core::{Error, Result};

use super::{Functions, faults};

pub(super) fn register(functions: &mut Functions) {
    hll::register(functions);
    theta::register(functions);
    kll::register(functions);
    tuple::register(functions);
}

/// A family's condition for bytes that are none of its sketches, with its SQLSTATE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    condition: &'static str,
    sqlstate: &'static str,
    producer: &'static str,
}

/// HyperLogLog.
pub(crate) const HLL: Family = Family { condition: "HLL_INVALID_INPUT_SKETCH_BUFFER", sqlstate: "22546", producer: "hll_sketch_agg" };
/// Theta sketches.
pub(crate) const THETA: Family = Family { condition: "THETA_INVALID_INPUT_SKETCH_BUFFER", sqlstate: "22000", producer: "theta_sketch_agg" };
/// KLL sketches of quantiles.
pub(crate) const KLL: Family = Family { condition: "KLL_INVALID_INPUT_SKETCH_BUFFER", sqlstate: "22000", producer: "kll_sketch_agg_*" };
/// Tuple sketches.
pub(crate) const TUPLE: Family =
    Family { condition: "TUPLE_INVALID_INPUT_SKETCH_BUFFER", sqlstate: "22000", producer: "tuple_sketch_agg_*" };

impl Family {
    /// What was read of an image, or the error of the function that was called with it.
    ///
    /// # Errors
    /// The family's condition.
    pub(crate) fn read<T>(self, function: &str, read: Result<T>) -> Result<T> {
        read.map_err(|_| self.error(function))
    }

    fn error(self, function: &str) -> Error {
        let message = format!("`{function}` takes the sketches that `{}` makes, and these bytes are none", self.producer);
        faults::row(self.condition, self.sqlstate, message)
    }
}

/// The smallest and the largest logarithm of a theta or tuple sketch's nominal number of entries.
const LG_ENTRIES: std::ops::RangeInclusive<i32> = 4..=26;
/// The logarithm where none is given.
pub(crate) const DEFAULT_LG_ENTRIES: u8 = 12;

/// Checks the logarithm of a nominal number of entries.
///
/// # Errors
/// `SKETCH_INVALID_LG_NOM_ENTRIES`.
pub(crate) fn lg_entries(function: &str, value: i32) -> Result<u8> {
    match u8::try_from(value) {
        Ok(lg) if LG_ENTRIES.contains(&value) => Ok(lg),
        _ => {
            let message =
                format!("`lgNomEntries` of `{function}` must be between {} and {}, not {value}", LG_ENTRIES.start(), LG_ENTRIES.end());
            Err(faults::row("SKETCH_INVALID_LG_NOM_ENTRIES", "22003", message))
        }
    }
}
