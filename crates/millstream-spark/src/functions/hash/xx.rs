//! xxHash in its form of 64 bits.

use super::values::Algorithm;

pub(super) struct Xx;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

fn round(accumulator: u64, word: u64) -> u64 {
    accumulator.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn merge(state: u64, accumulator: u64) -> u64 {
    (state ^ round(0, accumulator)).wrapping_mul(P1).wrapping_add(P4)
}

fn finish(mut state: u64) -> u64 {
    state = (state ^ (state >> 33)).wrapping_mul(P2);
    state = (state ^ (state >> 29)).wrapping_mul(P3);
    state ^ (state >> 32)
}

impl Algorithm for Xx {
    type State = u64;

    fn int(value: i32, seed: u64) -> u64 {
        Self::bytes(&value.to_le_bytes(), seed)
    }

    fn long(value: i64, seed: u64) -> u64 {
        Self::bytes(&value.to_le_bytes(), seed)
    }

    fn bytes(value: &[u8], seed: u64) -> u64 {
        let (stripes, rest) = value.as_chunks::<32>();
        let mut state = if stripes.is_empty() {
            seed.wrapping_add(P5)
        } else {
            let mut lanes = [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
            for stripe in stripes {
                for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                    *lane = round(*lane, u64::from_le_bytes(*word));
                }
            }
            let [one, two, three, four] = lanes;
            let mixed = one.rotate_left(1).wrapping_add(two.rotate_left(7));
            let mixed = mixed.wrapping_add(three.rotate_left(12)).wrapping_add(four.rotate_left(18));
            lanes.into_iter().fold(mixed, merge)
        };
        state = state.wrapping_add(value.len() as u64);
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            state = (state ^ round(0, u64::from_le_bytes(*word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            state = (state ^ u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        }
        for byte in rest {
            state = (state ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
        }
        finish(state)
    }
}
