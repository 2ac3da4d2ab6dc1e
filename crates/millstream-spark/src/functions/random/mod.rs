//! The generators of random numbers whose sequences Spark's users see: with the same seed they give the same numbers.

mod java;
mod twister;
mod xor_shift;

pub(super) use java::JavaRandom;
pub(super) use twister::MersenneTwister;
pub(super) use xor_shift::XorShift;
