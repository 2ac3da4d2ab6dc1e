//! How many distinct values a sketch has seen.

use super::{HllSketch, Registers, Values};
use crate::functions::aggregate::values_of_raw_estimate;

impl HllSketch {
    /// The estimate.
    pub(crate) fn estimate(&self) -> f64 {
        match &self.values {
            Values::List(coupons) => of_coupons(coupons.len()),
            Values::Set(set) => of_coupons(set.count),
            Values::Registers(registers) if registers.out_of_order => registers.composite(self.lg_k),
            Values::Registers(registers) => registers.history,
        }
    }
}

/// For how many values this many different coupons are to be expected. Two values have the same coupon with probability 2^-26 / 3.
pub(super) fn of_coupons(coupons: usize) -> f64 {
    let coupons = coupons as f64;
    let addresses = f64::from(1_u32 << super::ADDRESS_BITS);
    let expected = |values: f64| -> f64 {
        (1..=40).map(|zeros| addresses * -(values * (-(f64::from(-zeros).exp2()) / addresses).ln_1p()).exp_m1()).sum::<f64>()
    };
    if coupons < 400.0 {
        return coupons + coupons * (coupons - 1.0) / (6.0 * addresses);
    }
    let (mut low, mut high) = (coupons, coupons * 1.2);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if expected(middle) < coupons { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

impl Registers {
    /// From the registers alone: their harmonic mean, or the free ones where these tell more.
    fn composite(&self, lg_k: u8) -> f64 {
        let k = self.registers.len() as f64;
        let factor = match lg_k {
            4 => 0.673,
            5 => 0.697,
            6 => 0.709,
            _ => 0.7213 / (1.0 + 1.079 / k),
        };
        let raw = factor * k * k / (self.inverse_low + self.inverse_high);
        let adjusted = values_of_raw_estimate(raw, factor, k);
        if adjusted > 3.0 * k {
            return adjusted;
        }
        let linear = match (self.lowest, f64::from(self.at_lowest)) {
            (0, free) if free > 0.0 => k * (harmonic(self.registers.len()) - harmonic(self.at_lowest as usize)),
            _ => k * (k / 0.5).ln(),
        };
        let crossing = match lg_k {
            4 => 0.718,
            5 => 0.672,
            _ => 0.64,
        };
        if f64::midpoint(adjusted, linear) > crossing * k { adjusted } else { linear }
    }
}

/// 1 + 1/2 + … + 1/n.
fn harmonic(n: usize) -> f64 {
    (1..=n).rev().map(|n| 1.0 / n as f64).sum()
}
