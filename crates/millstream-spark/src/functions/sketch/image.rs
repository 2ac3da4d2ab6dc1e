//! Reading the bytes of a sketch.

use millstream_core::{Error, Result};

/// The bytes of a sketch, read from front to back or at a place; all numbers have their least significant byte first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    /// Bytes that are said to be a sketch.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Image(bytes)
    }

    /// Some bytes at a place.
    ///
    /// # Errors
    /// [`broken`] when they are not there; so do all functions here.
    pub(super) fn bytes(self, at: usize, length: usize) -> Result<&'a [u8]> {
        at.checked_add(length).and_then(|end| self.0.get(at..end)).ok_or_else(broken)
    }

    /// All bytes from a place on.
    pub(super) fn rest(self, at: usize) -> Result<&'a [u8]> {
        self.0.get(at..).ok_or_else(broken)
    }

    /// One byte.
    pub(super) fn byte(self, at: usize) -> Result<u8> {
        self.0.get(at).copied().ok_or_else(broken)
    }

    /// A number of two bytes.
    pub(super) fn short(self, at: usize) -> Result<u16> {
        self.bytes(at, 2)?.try_into().map(u16::from_le_bytes).map_err(|_| broken())
    }

    /// A number of four bytes.
    pub(super) fn int(self, at: usize) -> Result<u32> {
        self.bytes(at, 4)?.try_into().map(u32::from_le_bytes).map_err(|_| broken())
    }

    /// A number of eight bytes.
    pub(super) fn long(self, at: usize) -> Result<u64> {
        self.bytes(at, 8)?.try_into().map(u64::from_le_bytes).map_err(|_| broken())
    }

    /// A double.
    pub(super) fn double(self, at: usize) -> Result<f64> {
        self.long(at).map(f64::from_bits)
    }
}

/// Bytes that are no sketch. Who knows the function names it in Spark's condition.
pub(super) fn broken() -> Error {
    Error::internal("the bytes are not a sketch")
}
