//! HyperLogLog sketches of the DataSketches library, which count distinct values. Images are those of the library, registers of eight bits.
//!
//! Few values are kept as *coupons*, first in a list and then in a hash set; a coupon is 26 bits of one half of a value's hash and the number
//! of leading zeros of the other half, plus one. Many are kept as registers, each the largest number of zeros that its values had.

mod estimate;
mod functions;
mod image;

use super::murmur;

pub(super) use functions::register;
pub(crate) use functions::same_size;

/// The logarithm of the number of registers where none is given.
pub(crate) const DEFAULT_LG_K: u8 = 12;

const LIST_SLOTS: usize = 8;
const SET_SLOTS: usize = 32;
const ADDRESS_BITS: u32 = 26;
const ADDRESS_MASK: u32 = (1 << ADDRESS_BITS) - 1;

/// A sketch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HllSketch {
    lg_k: u8,
    values: Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// Coupons in the order in which they came.
    List(Vec<u32>),
    Set(CouponSet),
    Registers(Registers),
}

/// Coupons by open addressing; zero is a free place. The number of places is a power of two.
#[derive(Clone, Debug, PartialEq)]
struct CouponSet {
    places: Vec<u32>,
    count: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Registers {
    registers: Vec<u8>,
    /// The estimate by the history of changes, as long as there is one: merging loses it.
    history: f64,
    out_of_order: bool,
    /// Σ 2^-register, those below 32 and the others.
    inverse_low: f64,
    inverse_high: f64,
    lowest: u8,
    at_lowest: u32,
}

impl HllSketch {
    /// An empty sketch of 2^`lg_k` registers.
    pub(crate) fn new(lg_k: u8) -> Self {
        HllSketch { lg_k, values: Values::List(Vec::new()) }
    }

    /// The logarithm of the number of registers.
    pub(crate) fn lg_k(&self) -> u8 {
        self.lg_k
    }

    /// Counts a number.
    pub(crate) fn add_long(&mut self, number: i64) {
        self.add(coupon(murmur::hash_long(number)));
    }

    /// Counts bytes; no bytes are no value.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.add(coupon(murmur::hash(bytes)));
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        match &self.values {
            Values::List(coupons) => coupons.capacity() * size_of::<u32>(),
            Values::Set(set) => set.places.capacity() * size_of::<u32>(),
            Values::Registers(registers) => registers.registers.capacity(),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(&self.values, Values::List(coupons) if coupons.is_empty())
    }

    fn add(&mut self, coupon: u32) {
        match &mut self.values {
            Values::List(coupons) => {
                if coupons.contains(&coupon) {
                    return;
                }
                coupons.push(coupon);
                if coupons.len() < LIST_SLOTS {
                    return;
                }
                let coupons = std::mem::take(coupons);
                self.values = if self.lg_k < 8 {
                    Values::Registers(Registers::of(self.lg_k, &coupons))
                } else {
                    let mut set = CouponSet { places: vec![0; SET_SLOTS], count: 0 };
                    for coupon in coupons {
                        set.add(coupon);
                    }
                    Values::Set(set)
                };
            }
            Values::Set(set) => {
                if set.add(coupon) && set.count * 4 > set.places.len() * 3 {
                    if set.places.len() < 1 << (self.lg_k - 3) {
                        set.grow();
                    } else {
                        let coupons: Vec<u32> = set.coupons().collect();
                        self.values = Values::Registers(Registers::of(self.lg_k, &coupons));
                    }
                }
            }
            Values::Registers(registers) => registers.add(coupon),
        }
    }

    /// Adds what another sketch counted. A sketch of fewer registers takes them away here, too.
    pub(crate) fn union(&mut self, other: &HllSketch) {
        let Values::Registers(theirs) = &other.values else {
            if self.is_empty() && self.lg_k == other.lg_k {
                self.values = other.values.clone();
                return;
            }
            match &other.values {
                Values::List(coupons) => coupons.iter().for_each(|coupon| self.add(*coupon)),
                Values::Set(set) => set.coupons().for_each(|coupon| self.add(coupon)),
                Values::Registers(_) => {}
            }
            return;
        };
        let limit = self.lg_k;
        match &mut self.values {
            Values::Registers(mine) => {
                let fewer = self.lg_k.min(other.lg_k);
                if fewer < self.lg_k {
                    *mine = mine.with(fewer);
                    self.lg_k = fewer;
                }
                mine.merge(&theirs.registers);
            }
            few => {
                let few = std::mem::replace(few, Values::List(Vec::new()));
                let lg_k = limit.min(other.lg_k);
                self.lg_k = lg_k;
                self.values = Values::Registers(if lg_k < other.lg_k { theirs.with(lg_k) } else { theirs.clone() });
                match few {
                    Values::List(coupons) => coupons.iter().for_each(|coupon| self.add(*coupon)),
                    Values::Set(set) => set.coupons().for_each(|coupon| self.add(coupon)),
                    Values::Registers(_) => {}
                }
            }
        }
    }
}

impl CouponSet {
    /// Whether the coupon was not there.
    fn add(&mut self, coupon: u32) -> bool {
        let mask = self.places.len() - 1;
        let stride = ((coupon & ADDRESS_MASK) as usize >> self.places.len().trailing_zeros()) | 1;
        let mut place = coupon as usize & mask;
        for _ in 0..self.places.len() {
            match self.places.get_mut(place) {
                Some(free) if *free == 0 => {
                    *free = coupon;
                    self.count += 1;
                    return true;
                }
                Some(there) if *there == coupon => return false,
                _ => place = (place + stride) & mask,
            }
        }
        false
    }

    fn grow(&mut self) {
        let mut larger = CouponSet { places: vec![0; self.places.len() * 2], count: 0 };
        self.coupons().for_each(|coupon| {
            larger.add(coupon);
        });
        *self = larger;
    }

    fn coupons(&self) -> impl Iterator<Item = u32> {
        self.places.iter().copied().filter(|coupon| *coupon != 0)
    }
}

impl Registers {
    fn empty(lg_k: u8) -> Self {
        let k = 1_u32 << lg_k;
        Registers {
            registers: vec![0; k as usize],
            history: 0.0,
            out_of_order: false,
            inverse_low: f64::from(k),
            inverse_high: 0.0,
            lowest: 0,
            at_lowest: k,
        }
    }

    fn of(lg_k: u8, coupons: &[u32]) -> Self {
        let mut registers = Registers::empty(lg_k);
        coupons.iter().for_each(|coupon| registers.add(*coupon));
        registers.history = estimate::of_coupons(coupons.len());
        registers
    }

    fn add(&mut self, coupon: u32) {
        let place = coupon as usize & (self.registers.len() - 1);
        let zeros = (coupon >> ADDRESS_BITS) as u8;
        let k = self.registers.len() as f64;
        let Some(register) = self.registers.get_mut(place).filter(|register| **register < zeros) else { return };
        let before = std::mem::replace(register, zeros);
        self.history += k / (self.inverse_low + self.inverse_high);
        for (register, sign) in [(before, -1.0), (zeros, 1.0)] {
            let inverse = if register < 32 { &mut self.inverse_low } else { &mut self.inverse_high };
            *inverse += sign * power(register);
        }
        if before == 0 && self.lowest == 0 {
            self.at_lowest = self.at_lowest.saturating_sub(1);
        }
    }

    /// The same values in fewer registers; the history stays.
    fn with(&self, lg_k: u8) -> Self {
        let mut fewer = Registers::empty(lg_k);
        for (place, zeros) in self.registers.iter().enumerate().filter(|(_, zeros)| **zeros > 0) {
            fewer.add(u32::from(*zeros) << ADDRESS_BITS | place as u32);
        }
        fewer.history = self.history;
        fewer.out_of_order = self.out_of_order;
        fewer
    }

    fn merge(&mut self, others: &[u8]) {
        let mask = self.registers.len() - 1;
        for (place, theirs) in others.iter().enumerate() {
            if let Some(mine) = self.registers.get_mut(place & mask) {
                *mine = (*mine).max(*theirs);
            }
        }
        self.out_of_order = true;
        self.history = 0.0;
        self.recount();
    }

    /// What follows from the registers.
    fn recount(&mut self) {
        (self.inverse_low, self.inverse_high) = (self.registers.len() as f64, 0.0);
        for register in self.registers.iter().filter(|register| **register > 0) {
            let inverse = if *register < 32 { &mut self.inverse_low } else { &mut self.inverse_high };
            *inverse += power(*register) - 1.0;
        }
        self.lowest = self.registers.iter().copied().min().unwrap_or(0);
        self.at_lowest = self.registers.iter().filter(|register| **register == self.lowest).count() as u32;
    }
}

/// 2^-n.
fn power(n: u8) -> f64 {
    (-f64::from(n)).exp2()
}

fn coupon((address, zeros): (u64, u64)) -> u32 {
    let value = zeros.leading_zeros().min(62) + 1;
    value << ADDRESS_BITS | (address as u32 & ADDRESS_MASK)
}
