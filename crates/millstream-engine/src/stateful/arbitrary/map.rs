//! The rows of a map variable: a row of a user's key is at the number of that key.
//!
//! Two keys with one number are rare and must not be taken for each other: the second goes to the next free number, and whoever looks for it
//! looks there as well.

use arrow::array::ArrayRef;
use datafusion::error::Result as DfResult;

use super::super::slices;
use super::super::table::{StateTable, normalize};
use super::rows::{Expiring, Rows};
use super::state::GroupKey;

/// The number of a row of columns.
type Number = fn(&[ArrayRef], usize) -> DfResult<i64>;

#[derive(Debug)]
pub(super) struct MapTable {
    /// The user's key and the value.
    pub(super) table: StateTable,
    /// The columns of the user's key.
    width: usize,
    number: Number,
}

/// Where a user's key is or would be.
enum Place {
    At(i64, Box<[u8]>),
    Free(i64),
}

impl MapTable {
    /// A map whose rows begin with so many columns of the user's key.
    pub(super) fn new(table: StateTable, width: usize, number: Number) -> Self {
        MapTable { table, width, number }
    }

    pub(super) fn get(&mut self, key: &GroupKey, user_key: &[ArrayRef], expiring: &Expiring) -> DfResult<Option<Vec<ArrayRef>>> {
        let user_key = normalized(user_key)?;
        let Place::At(_, row) = self.place(key, &user_key)? else { return Ok(None) };
        let columns = self.table.decode_values([row.as_ref()])?;
        let rows = expiring.alive(Rows { columns, count: 1 })?;
        Ok((rows.count > 0).then(|| rows.columns.into_iter().skip(self.width).collect()))
    }

    pub(super) fn put(&mut self, key: &GroupKey, user_key: &[ArrayRef], value: &[ArrayRef], expires: Option<i64>) -> DfResult<()> {
        let user_key = normalized(user_key)?;
        let (Place::At(sub, _) | Place::Free(sub)) = self.place(key, &user_key)?;
        let columns: Vec<ArrayRef> = user_key.iter().chain(value).cloned().collect();
        let encoded = self.table.encode_values(&Expiring::columns(&columns, 1, expires), 1)?;
        self.table.put(&key.0, sub, encoded.row(0), expires)
    }

    pub(super) fn remove(&mut self, key: &GroupKey, user_key: &[ArrayRef]) -> DfResult<()> {
        match self.place(key, &normalized(user_key)?)? {
            Place::At(sub, _) => self.remove_at(&key.0, sub),
            Place::Free(_) => Ok(()),
        }
    }

    pub(super) fn entries(&mut self, key: &GroupKey, expiring: &Expiring) -> DfResult<(Rows, Rows)> {
        let mut values: Vec<Box<[u8]>> = Vec::new();
        self.table.get_many([key.0.as_ref()], &mut |_, _, value| values.push(value.into()))?;
        let columns = self.table.decode_values(slices(&values))?;
        let mut keys = expiring.alive(Rows { columns, count: values.len() })?;
        let values = Rows { columns: keys.columns.split_off(self.width.min(keys.columns.len())), count: keys.count };
        Ok((keys, values))
    }

    /// Removes all entries of a key and says how many there were.
    pub(super) fn clear(&mut self, key: &GroupKey) -> DfResult<usize> {
        let mut subs = Vec::new();
        self.table.get_many([key.0.as_ref()], &mut |_, sub, _| subs.push(sub))?;
        for sub in &subs {
            self.table.remove(&key.0, *sub)?;
        }
        Ok(subs.len())
    }

    /// Removes the entries that expired by `instant` (microseconds) and says how many there were.
    pub(super) fn expire(&mut self, instant: i64) -> DfResult<usize> {
        let gone = self.table.expire(instant)?;
        for (key, sub, _) in &gone {
            self.close_gap(key, *sub)?;
        }
        Ok(gone.len())
    }

    fn place(&mut self, key: &GroupKey, user_key: &[ArrayRef]) -> DfResult<Place> {
        let mut sub = (self.number)(user_key, 0)?;
        loop {
            let Some(row) = self.table.get(&key.0, sub)? else { return Ok(Place::Free(sub)) };
            if self.user_key(&row)?.iter().zip(user_key).all(|(known, wanted)| known.as_ref() == wanted.as_ref()) {
                return Ok(Place::At(sub, row));
            }
            sub = sub.wrapping_add(1);
        }
    }

    fn user_key(&self, row: &[u8]) -> DfResult<Vec<ArrayRef>> {
        let mut columns = self.table.decode_values([row])?;
        columns.truncate(self.width);
        Ok(columns)
    }

    fn remove_at(&mut self, key: &[u8], sub: i64) -> DfResult<()> {
        self.table.remove(key, sub)?;
        self.close_gap(key, sub)
    }

    /// Moves rows that had to go beyond a number which is free now.
    fn close_gap(&mut self, key: &[u8], mut free: i64) -> DfResult<()> {
        let mut sub = free.wrapping_add(1);
        while let Some(row) = self.table.get(key, sub)? {
            let columns = self.table.decode_values([row.as_ref()])?;
            let home = (self.number)(columns.get(..self.width).unwrap_or_default(), 0)?;
            // Distances, since numbers begin again after the last.
            if sub.wrapping_sub(home) as u64 >= sub.wrapping_sub(free) as u64 {
                let expires = self.table.expiries(&[], &columns)?.map(|expires| expires.value(0));
                self.table.remove(key, sub)?;
                self.table.put(key, free, &row, expires)?;
                free = sub;
            }
            sub = sub.wrapping_add(1);
        }
        Ok(())
    }
}

/// A user's key as it is compared: one row of each column.
fn normalized(user_key: &[ArrayRef]) -> DfResult<Vec<ArrayRef>> {
    user_key.iter().map(normalize).collect()
}
