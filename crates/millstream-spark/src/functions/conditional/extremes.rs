//! `greatest` and `least`.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, interleave};
use millstream_core::{Error, Result};

use super::comparison::require_orderable;
use super::floats::normalized;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, coercion, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("greatest", |call| extreme(call, true));
    functions.add("least", |call| extreme(call, false));
}

fn extreme(call: &Call<'_>, greatest: bool) -> Result<Typed> {
    call.arity(2..=usize::MAX)?;
    let (data_type, values) = coercion::to_type(call.name, call.values_from(0)?, call.settings, coercion::common_type_without_text)?;
    require_orderable(call.name, &data_type)?;
    let nullable = values.iter().all(|value| value.nullable);
    let metadata = values.first().map(|value| value.metadata.clone()).unwrap_or_default();
    let values = values.into_iter().map(normalized).collect();
    let name = if greatest { "greatest" } else { "least" };
    Ok(kernel::scalar(name, Extreme { greatest }, values, data_type, nullable).with_metadata(metadata))
}

/// The greatest or the smallest of the values that are not null; NaN is greater than any number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
}

impl Kernel for Extreme {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let failed = |error| Error::internal("values cannot be compared").caused_by(error);
        let wanted = if self.greatest { Ordering::Greater } else { Ordering::Less };
        let rows = columns.first().map_or(0, |column| column.len());
        let mut best = vec![0_usize; rows];
        let mut columns_seen: Vec<&ArrayRef> = Vec::with_capacity(columns.len());
        for (number, column) in columns.iter().enumerate() {
            let orders = columns_seen
                .iter()
                .map(|seen| make_comparator(column, seen, SortOptions::default()).map_err(failed))
                .collect::<Result<Vec<_>>>()?;
            for (row, best) in best.iter_mut().enumerate() {
                if number == 0 || column.is_null(row) {
                    continue;
                }
                let best_is_null = columns.get(*best).is_none_or(|column| column.is_null(row));
                if best_is_null || orders.get(*best).is_some_and(|order| order(row, row) == wanted) {
                    *best = number;
                }
            }
            columns_seen.push(column);
        }
        let values: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
        let indices: Vec<(usize, usize)> = best.into_iter().enumerate().map(|(row, column)| (column, row)).collect();
        interleave(&values, &indices).map_err(failed)
    }
}
