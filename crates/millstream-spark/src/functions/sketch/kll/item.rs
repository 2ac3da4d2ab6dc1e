//! The three kinds of numbers of which there are sketches.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::Hash;

use arrow::datatypes::{ArrowPrimitiveType, Float32Type, Float64Type, Int64Type};
use millstream_core::Result;

use super::super::image::Image;
use crate::functions::cast::{push_double, push_float};

/// A number in a sketch.
pub(crate) trait Item: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The library's word for sketches of them.
    const WORD: &'static str;
    /// Bytes in an image.
    const BYTES: usize;

    /// Whether it is no number.
    fn is_nan(self) -> bool {
        false
    }

    /// Whether it is smaller.
    fn below(self, other: Self) -> bool {
        self.order(other) == Ordering::Less
    }

    /// The order of numbers that are no NaN.
    fn order(self, other: Self) -> Ordering;

    /// Appends its bytes.
    fn write(self, out: &mut Vec<u8>);

    /// Reads its bytes.
    ///
    /// # Errors
    /// When they are not there.
    fn read(image: Image<'_>, at: usize) -> Result<Self>;

    /// As Java shows it.
    fn text(self) -> String;
}

/// What a sketch's functions end in: one of the three types below.
pub(crate) trait Numbers: Copy + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The numbers in Arrow.
    type Arrow: ArrowPrimitiveType<Native: Item>;
}

/// `bigint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bigint;

/// `float`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Float;

/// `double`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Double;

impl Numbers for Bigint {
    type Arrow = Int64Type;
}

impl Numbers for Float {
    type Arrow = Float32Type;
}

impl Numbers for Double {
    type Arrow = Float64Type;
}

/// The numbers of a kind.
pub(crate) type Native<K> = <<K as Numbers>::Arrow as ArrowPrimitiveType>::Native;

impl Item for i64 {
    const WORD: &'static str = "Longs";
    const BYTES: usize = 8;

    fn order(self, other: Self) -> Ordering {
        self.cmp(&other)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(image: Image<'_>, at: usize) -> Result<Self> {
        image.long(at).map(|bits| bits as i64)
    }

    fn text(self) -> String {
        self.to_string()
    }
}

impl Item for f64 {
    const WORD: &'static str = "Doubles";
    const BYTES: usize = 8;

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn order(self, other: Self) -> Ordering {
        self.total_cmp(&other)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(image: Image<'_>, at: usize) -> Result<Self> {
        image.double(at)
    }

    fn text(self) -> String {
        let mut text = String::new();
        push_double(&mut text, self);
        text
    }
}

impl Item for f32 {
    const WORD: &'static str = "Floats";
    const BYTES: usize = 4;

    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }

    fn order(self, other: Self) -> Ordering {
        self.total_cmp(&other)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(image: Image<'_>, at: usize) -> Result<Self> {
        image.int(at).map(f32::from_bits)
    }

    fn text(self) -> String {
        let mut text = String::new();
        push_float(&mut text, self);
        text
    }
}
