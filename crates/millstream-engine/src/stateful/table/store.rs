//! What a state store does: bytes by key, with an order of expiry.

use std::fmt::Debug;

use millstream_core::Result;

/// Takes the key, the number and the value of a row, and says whether to go on.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], i64, &[u8]) -> bool + 'a;

/// Keeps the values of one table. A key has any number of values, told apart by a number (`sub`).
///
/// The cost of every call depends on what it touches or removes, never on how much is kept; `scan` is the exception.
pub(crate) trait Store: Debug + Send {
    /// Visits the values of each key, in the order of `sub`: the position of the key, `sub`, the value.
    ///
    /// # Errors
    /// Those of the medium.
    fn get_many<'a>(&self, keys: &mut dyn Iterator<Item = &'a [u8]>, visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()>;

    /// One value of a key.
    ///
    /// # Errors
    /// Those of the medium.
    fn get(&self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>>;

    /// Puts a value that may leave when time has passed `expiry`. Returns whether it replaced one.
    ///
    /// # Errors
    /// Those of the medium.
    fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: Option<i64>) -> Result<bool>;

    /// Removes a value. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the medium.
    fn remove(&mut self, key: &[u8], sub: i64) -> Result<bool>;

    /// Removes every value whose expiry is at or before `instant` and hands it over, in the order of expiry.
    ///
    /// # Errors
    /// Those of the medium.
    fn take_expired(&mut self, instant: i64, take: &mut dyn FnMut(Box<[u8]>, i64, Box<[u8]>)) -> Result<()>;

    /// The earliest expiry there may be; that of a value which is gone counts as well.
    fn first_expiry(&self) -> Option<i64>;

    /// Visits every value until the visitor answers `false`.
    ///
    /// # Errors
    /// Those of the medium.
    fn scan(&self, visit: &mut Visit<'_>) -> Result<()>;

    /// Values kept.
    fn len(&self) -> u64;

    /// Bytes of memory used, about.
    fn bytes(&self) -> u64;
}
