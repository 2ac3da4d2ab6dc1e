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
    let kernel = SeededUuid { seed, generator: Arc::new(Mutex::new(Twister::seeded(seed))) };
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
    generator: Arc<Mutex<Twister>>,
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
        let texts: StringArray = (0..arguments.rows()).map(|_| Some(generator.uuid())).collect();
        Ok(Arc::new(texts))
    }
}

/// The generator of random numbers that Spark takes for identifiers: MT19937, as Apache Commons Math seeds it.
#[derive(Clone, Debug)]
struct Twister {
    words: [u32; 624],
    place: usize,
}

impl Twister {
    fn seeded(seed: i64) -> Twister {
        let seed = seed as u64;
        Self::keyed(&[(seed >> 32) as u32, seed as u32])
    }

    fn keyed(keys: &[u32]) -> Twister {
        let mut words = [0_u32; 624];
        let mut last = 19_650_218_u32;
        for (place, word) in words.iter_mut().enumerate() {
            if place > 0 {
                last = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(place as u32);
            }
            *word = last;
        }
        let mut twister = Twister { words, place: 624 };
        let (mut at, mut key) = (1, 0);
        for _ in 0..624_usize.max(keys.len()) {
            let value = keys.get(key).copied().unwrap_or(0).wrapping_add(key as u32);
            twister.mix(at, 1_664_525, |word| word.wrapping_add(value));
            (at, key) = (at + 1, (key + 1) % keys.len().max(1));
            at = twister.wrapped(at);
        }
        for _ in 0..623 {
            twister.mix(at, 1_566_083_941, |word| word.wrapping_sub(at as u32));
            at = twister.wrapped(at + 1);
        }
        twister.set(0, 0x8000_0000);
        twister
    }

    fn word(&self, at: usize) -> u32 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn set(&mut self, at: usize, value: u32) {
        if let Some(word) = self.words.get_mut(at) {
            *word = value;
        }
    }

    fn mix(&mut self, at: usize, factor: u32, add: impl FnOnce(u32) -> u32) {
        let before = self.word(at - 1);
        let mixed = self.word(at) ^ (before ^ (before >> 30)).wrapping_mul(factor);
        self.set(at, add(mixed));
    }

    /// Behind the last word the first takes its value.
    fn wrapped(&mut self, at: usize) -> usize {
        if at < 624 {
            return at;
        }
        self.set(0, self.word(623));
        1
    }

    fn next(&mut self) -> u32 {
        if self.place >= 624 {
            for at in 0..624 {
                let joined = (self.word(at) & 0x8000_0000) | (self.word((at + 1) % 624) & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.set(at, self.word((at + 397) % 624) ^ (joined >> 1) ^ odd);
            }
            self.place = 0;
        }
        let mut word = self.word(self.place);
        self.place += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn long(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }

    fn uuid(&mut self) -> String {
        let high = (self.long() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.long() | 0x8000_0000_0000_0000) & 0xbfff_ffff_ffff_ffff;
        uuid::Uuid::from_u64_pair(high, low).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut twister = Twister::keyed(&[0x123, 0x234, 0x345, 0x456]);
        let first: Vec<u32> = (0..5).map(|_| twister.next()).collect();
        assert_eq!(first, [1_067_595_299, 955_945_823, 477_289_528, 4_107_218_783, 4_228_976_476]);
    }
}
