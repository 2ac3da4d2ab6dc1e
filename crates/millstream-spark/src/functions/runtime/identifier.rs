//! Identifiers made for each row: `uuid`, `monotonically_increasing_id`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use parking_lot::Mutex;

use super::super::random::MersenneTwister;
use super::super::{Arguments, Call, Functions, Kernel, Typed, call, coercion, faults, udf};

pub(super) fn register(functions: &mut Functions) {
    functions.add("uuid", uuid);
    functions.add("monotonically_increasing_id", |call_site| {
        call_site.arity(0..=0)?;
        Ok(call("monotonically_increasing_id", Counter::default(), Vec::new(), DataType::Int64, false, Volatility::Volatile))
    });
}

/// `uuid([seed])`: random, or the identifiers of a sequence, which goes on from batch to batch.
fn uuid(call_site: &Call<'_>) -> Result<Typed> {
    call_site.arity(0..=1)?;
    if call_site.is_empty() {
        return Ok(udf(datafusion::functions::string::uuid(), Vec::new(), DataType::Utf8, false));
    }
    let seed = match coercion::constant_of(&call_site.long(0)?) {
        Some(ScalarValue::Int64(Some(seed))) => seed,
        Some(_) => 0,
        None => return Err(faults::not_foldable("uuid", 0)),
    };
    let kernel = SeededUuid { seed, generator: Arc::new(Mutex::new(MersenneTwister::seeded(seed))) };
    Ok(call("uuid", kernel, Vec::new(), DataType::Utf8, false, Volatility::Volatile))
}

/// Numbers that rise from row to row, whichever thread asks.
#[derive(Clone, Debug, Default)]
struct Counter {
    next: Arc<AtomicI64>,
}

impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.next, &other.next)
    }
}

impl Eq for Counter {}

impl Hash for Counter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.next).hash(state);
    }
}

impl Kernel for Counter {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = i64::try_from(arguments.rows()).unwrap_or(i64::MAX);
        let first = self.next.fetch_add(rows, Ordering::Relaxed);
        Ok(Arc::new(Int64Array::from_iter_values(first..first + rows)))
    }
}

#[derive(Clone, Debug)]
struct SeededUuid {
    seed: i64,
    generator: Arc<Mutex<MersenneTwister>>,
}

impl PartialEq for SeededUuid {
    fn eq(&self, other: &Self) -> bool {
        self.seed == other.seed && Arc::ptr_eq(&self.generator, &other.generator)
    }
}

impl Eq for SeededUuid {}

impl Hash for SeededUuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.seed.hash(state);
    }
}

impl Kernel for SeededUuid {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mut generator = self.generator.lock();
        let texts: StringArray = (0..arguments.rows()).map(|_| Some(next_uuid(&mut generator))).collect();
        Ok(Arc::new(texts))
    }
}

/// The next identifier of a sequence, of version 4.
fn next_uuid(generator: &mut MersenneTwister) -> String {
    let high = (generator.next_long() & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (generator.next_long() | 0x8000_0000_0000_0000) & 0xbfff_ffff_ffff_ffff;
    uuid::Uuid::from_u64_pair(high, low).to_string()
}
