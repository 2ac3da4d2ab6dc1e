//! `randstr`: text of random letters and digits.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use parking_lot::Mutex;

use super::super::hash::murmur3_bytes;
use super::super::random::XorShift;
use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, call, coercion, faults, udf};

pub(super) fn register(functions: &mut Functions) {
    functions.add("randstr", build);
}

/// `randstr(length[, seed])`
fn build(call_site: &Call<'_>) -> Result<Typed> {
    call_site.arity(1..=2)?;
    let constant = |index: usize, value: Typed| coercion::fold(&value)?.ok_or_else(|| faults::not_foldable("randstr", index));
    let length = match constant(0, call_site.int(0)?)? {
        ScalarValue::Int32(Some(length)) => usize::try_from(length).map_err(|_| {
            let message = format!("the length of `randstr` is {length} but must not be negative");
            Error::invalid("INVALID_PARAMETER_VALUE.LENGTH", message).with_sqlstate("22023")
        })?,
        _ => 0,
    };
    if call_site.len() == 1 {
        // Every row gets a seed of its own.
        let seed = udf(datafusion::functions::string::uuid(), Vec::new(), DataType::Utf8, false);
        return Ok(call("randstr", SeededText { length }, vec![seed], DataType::Utf8, false, Volatility::Volatile));
    }
    let seed = match constant(1, call_site.long(1)?)? {
        ScalarValue::Int64(Some(seed)) => seed,
        _ => return Err(faults::mismatch("UNEXPECTED_NULL", "the seed of `randstr` must not be null")),
    };
    let kernel = RandomText { length, seed, generator: Arc::new(Mutex::new(XorShift::seeded(seed))) };
    Ok(call("randstr", kernel, Vec::new(), DataType::Utf8, false, Volatility::Volatile))
}

/// The texts of a sequence, which goes on from batch to batch.
#[derive(Clone, Debug)]
struct RandomText {
    length: usize,
    seed: i64,
    generator: Arc<Mutex<XorShift>>,
}

impl PartialEq for RandomText {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.seed == other.seed && Arc::ptr_eq(&self.generator, &other.generator)
    }
}

impl Eq for RandomText {}

impl Hash for RandomText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.length, self.seed).hash(state);
    }
}

impl Kernel for RandomText {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mut generator = self.generator.lock();
        let texts: StringArray = (0..arguments.rows()).map(|_| Some(text(&mut generator, self.length))).collect();
        Ok(Arc::new(texts))
    }
}

/// A text for each row's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SeededText {
    length: usize,
}

impl Kernel for SeededText {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let seed = row.bytes(0);
            let (low, high) = (murmur3_bytes(seed, 1), murmur3_bytes(seed, 2));
            out.push_str(&text(&mut XorShift::seeded(i64::from(high) << 32 | i64::from(low)), self.length));
            Ok(true)
        })
    }
}

/// Letters and digits of a sequence.
fn text(generator: &mut XorShift, length: usize) -> String {
    const CHARACTERS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let place = |number: i32| usize::try_from((number % 62).unsigned_abs()).unwrap_or(0);
    (0..length).filter_map(|_| CHARACTERS.get(place(generator.next_int()))).map(|byte| char::from(*byte)).collect()
}
