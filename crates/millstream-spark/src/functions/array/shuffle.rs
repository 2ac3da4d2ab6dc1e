//! `shuffle`: a random order that a seed determines.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::FieldRef;
use datafusion::logical_expr::Volatility;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::downcast;
use super::super::nested::ListBuilder;
use super::super::{Arguments, Call, Functions, Kernel, Typed, kernel, nested};
use super::array_or_null;

pub(super) fn register(functions: &mut Functions) {
    functions.add("shuffle", shuffle);
}

/// The seeds of calls without one: one after the other, so that two of them do not give the same order.
static NEXT_SEED: AtomicU64 = AtomicU64::new(0x5eed);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shuffle {
    seed: i64,
    element: FieldRef,
}

impl Kernel for Shuffle {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let mut twister = MersenneTwister::new(self.seed);
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values()])?;
        for row in 0..lists.len() {
            match nested::range(lists, row) {
                Some(range) => {
                    twister.permutation(range.len()).into_iter().for_each(|place| builder.push(0, range.start + place));
                    builder.end()?;
                }
                None => builder.end_null()?,
            }
        }
        builder.finish()
    }
}

fn shuffle(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let (array, element) = array_or_null(call, 0)?;
    let seed = if call.len() == 2 { call.constant(1)? } else { ScalarValue::Null };
    let seed = match seed.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(Some(seed))) => seed,
        _ => NEXT_SEED.fetch_add(1, Ordering::Relaxed) as i64,
    };
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(kernel::call("shuffle", Shuffle { seed, element }, vec![array], data_type, nullable, Volatility::Volatile))
}

/// The generator MT19937, seeded as Apache Commons Math does it, which Spark shuffles with.
#[derive(Debug)]
struct MersenneTwister {
    state: Vec<u32>,
    next: usize,
}

const SIZE: usize = 624;
const MIDDLE: usize = 397;

impl MersenneTwister {
    fn new(seed: i64) -> Self {
        let key = [(seed as u64 >> 32) as u32, seed as u32];
        let mut state = vec![19_650_218_u32];
        for index in 1..SIZE {
            let last = state[index - 1];
            state.push(1_812_433_253_u32.wrapping_mul(last ^ last >> 30).wrapping_add(index as u32));
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..SIZE {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ last >> 30).wrapping_mul(1_664_525)).wrapping_add(key[j]).wrapping_add(j as u32);
            (i, j) = (i + 1, (j + 1) % key.len());
            if i >= SIZE {
                state[0] = state[SIZE - 1];
                i = 1;
            }
        }
        for _ in 1..SIZE {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ last >> 30).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i >= SIZE {
                state[0] = state[SIZE - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        MersenneTwister { state, next: SIZE }
    }

    /// The next 31 bits.
    fn next_bits(&mut self) -> i64 {
        if self.next >= SIZE {
            for index in 0..SIZE {
                let mixed = self.state[index] & 0x8000_0000 | self.state[(index + 1) % SIZE] & 0x7fff_ffff;
                let twist = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[index] = self.state[(index + MIDDLE) % SIZE] ^ mixed >> 1 ^ twist;
            }
            self.next = 0;
        }
        let mut bits = self.state[self.next];
        self.next += 1;
        bits ^= bits >> 11;
        bits ^= bits << 7 & 0x9d2c_5680;
        bits ^= bits << 15 & 0xefc6_0000;
        bits ^= bits >> 18;
        i64::from(bits >> 1)
    }

    /// A number from 0 to `bound` − 1.
    fn below(&mut self, bound: i64) -> i64 {
        if bound & (bound - 1) == 0 {
            return (bound * self.next_bits()) >> 31;
        }
        loop {
            let bits = self.next_bits();
            let value = bits % bound;
            // Numbers of the last, incomplete round would come up more often than others.
            if bits - value + (bound - 1) <= i64::from(i32::MAX) {
                return value;
            }
        }
    }

    /// The places of a random order of so many elements.
    fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut places = Vec::with_capacity(length);
        for place in 0..length {
            let other = self.below(place as i64 + 1) as usize;
            places.push(place);
            if other != place {
                places[place] = places[other];
                places[other] = place;
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_order_that_spark_gives() {
        assert_eq!(MersenneTwister::new(5).permutation(3), [2, 0, 1]);
    }

    #[test]
    fn a_permutation_has_every_place_once() {
        let mut places = MersenneTwister::new(-1).permutation(100);
        places.sort_unstable();
        assert_eq!(places, (0..100).collect::<Vec<_>>());
    }
}
