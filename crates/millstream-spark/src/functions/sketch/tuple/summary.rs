//! The numbers that hashes carry.

use std::fmt::Debug;
use std::hash::Hash;

use arrow::datatypes::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};
use millstream_core::Result;

use super::super::image::Image;
use crate::functions::faults;

/// How numbers of one hash become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Their sum.
    #[default]
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// 1.
    AlwaysOne,
}

const MODES: [(&str, Mode); 4] = [("sum", Mode::Sum), ("min", Mode::Min), ("max", Mode::Max), ("alwaysone", Mode::AlwaysOne)];

impl Mode {
    /// The mode of a name.
    ///
    /// # Errors
    /// `TUPLE_INVALID_SKETCH_MODE`.
    pub(crate) fn of(function: &str, name: &str) -> Result<Mode> {
        let found = MODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let message = format!("'{name}' is not a mode of `{function}`: use sum, min, max or alwaysone");
            faults::row("TUPLE_INVALID_SKETCH_MODE", "22023", message)
        })
    }

    fn number(self) -> u8 {
        match self {
            Mode::Sum => 0,
            Mode::Min => 1,
            Mode::Max => 2,
            Mode::AlwaysOne => 3,
        }
    }

    fn of_number(number: u8) -> Option<Mode> {
        MODES.get(usize::from(number)).map(|(_, mode)| *mode)
    }
}

/// What a summary is made of: a double or an integer.
pub(crate) trait Number: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// Bytes in an image.
    const BYTES: usize;

    /// What a mode starts from.
    fn start(mode: Mode) -> Self;

    /// Takes in another number.
    fn with(self, other: Self, mode: Mode) -> Self;

    /// Appends its bytes.
    fn write(self, out: &mut Vec<u8>);

    /// Reads its bytes.
    ///
    /// # Errors
    /// When they are not there.
    fn read(image: Image<'_>, at: usize) -> Result<Self>;
}

/// What a sketch's functions end in: one of the two types below.
pub(crate) trait Numbers: Copy + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The numbers in Arrow.
    type Arrow: ArrowPrimitiveType<Native: Number>;
    /// All summaries of a sketch as one.
    type Total: ArrowPrimitiveType;

    /// All summaries of a sketch as one.
    fn total(values: impl Iterator<Item = Native<Self>>, mode: Mode) -> <Self::Total as ArrowPrimitiveType>::Native;
}

/// The numbers of a kind.
pub(crate) type Native<K> = <<K as Numbers>::Arrow as ArrowPrimitiveType>::Native;

/// `double`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Doubles;

/// `integer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Integers;

impl Numbers for Doubles {
    type Arrow = Float64Type;
    type Total = Float64Type;

    fn total(values: impl Iterator<Item = f64>, mode: Mode) -> f64 {
        match mode {
            Mode::AlwaysOne => values.count() as f64,
            _ => values.fold(f64::start(mode), |total, value| total.with(value, mode)),
        }
    }
}

impl Numbers for Integers {
    type Arrow = Int32Type;
    type Total = Int64Type;

    fn total(values: impl Iterator<Item = i32>, mode: Mode) -> i64 {
        let values = values.map(i64::from);
        match mode {
            Mode::Sum => values.sum(),
            Mode::Min => values.min().unwrap_or(i64::MAX),
            Mode::Max => values.max().unwrap_or(i64::MIN),
            Mode::AlwaysOne => values.count() as i64,
        }
    }
}

impl Number for f64 {
    const BYTES: usize = 8;

    fn start(mode: Mode) -> Self {
        match mode {
            Mode::Sum => 0.0,
            Mode::Min => f64::INFINITY,
            Mode::Max => f64::NEG_INFINITY,
            Mode::AlwaysOne => 1.0,
        }
    }

    fn with(self, other: Self, mode: Mode) -> Self {
        match mode {
            Mode::Sum => self + other,
            Mode::Min if other < self => other,
            Mode::Max if other > self => other,
            Mode::Min | Mode::Max => self,
            Mode::AlwaysOne => 1.0,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(image: Image<'_>, at: usize) -> Result<Self> {
        image.double(at)
    }
}

impl Number for i32 {
    const BYTES: usize = 4;

    fn start(mode: Mode) -> Self {
        match mode {
            Mode::Sum => 0,
            Mode::Min => i32::MAX,
            Mode::Max => i32::MIN,
            Mode::AlwaysOne => 1,
        }
    }

    fn with(self, other: Self, mode: Mode) -> Self {
        match mode {
            Mode::Sum => self.wrapping_add(other),
            Mode::Min => self.min(other),
            Mode::Max => self.max(other),
            Mode::AlwaysOne => 1,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(image: Image<'_>, at: usize) -> Result<Self> {
        image.int(at).map(|bits| bits as i32)
    }
}

/// A number with the mode that made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary<N> {
    pub(super) value: N,
    pub(super) mode: Mode,
}

impl<N: Number> Summary<N> {
    /// The summary of no number.
    pub(crate) fn new(mode: Mode) -> Self {
        Summary { value: N::start(mode), mode }
    }

    /// Takes in a number.
    pub(crate) fn add(&mut self, value: N) {
        self.value = self.value.with(value, self.mode);
    }

    /// The summary of two, in a mode.
    pub(super) fn of(mode: Mode, left: Summary<N>, right: Summary<N>) -> Self {
        let mut both = Summary::new(mode);
        both.add(left.value);
        both.add(right.value);
        both
    }

    /// Appends its bytes.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        self.value.write(out);
        out.push(self.mode.number());
    }

    /// Reads its bytes.
    ///
    /// # Errors
    /// When they are not there.
    pub(super) fn read(image: Image<'_>, at: usize) -> Result<Self> {
        let mode = Mode::of_number(image.byte(at + N::BYTES)?).ok_or_else(super::super::image::broken)?;
        Ok(Summary { value: N::read(image, at)?, mode })
    }
}
