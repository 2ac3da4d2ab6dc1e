//! Rows in hash tables, one for each key group: a table that grows moves its rows to a larger one, and a small one does that soon.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::hash::KeyHash;
use crate::state::key;

/// What a row costs beside its bytes: its place in a hash table that is three quarters full, the counts of two allocations.
const ROW_OVERHEAD: u64 = 112;
/// What the expiry of a row costs.
const EXPIRY_OVERHEAD: u64 = 24;

/// What disk has of a row that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDisk {
    Nothing,
    /// An older value.
    Older,
    /// The same value.
    Same,
}

/// A row without its key.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) sub: i64,
    pub(super) expiry: i64,
    pub(super) bytes: Box<[u8]>,
    /// The batch that used it last.
    used: u32,
    pub(super) on_disk: OnDisk,
}

/// The values of one key in the order of `sub`; most keys of most operators have one.
#[derive(Debug)]
enum Values {
    One(Value),
    Many(Vec<Value>),
}

impl Values {
    fn as_slice(&self) -> &[Value] {
        match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::Many(values) => values,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Value] {
        match self {
            Values::One(value) => std::slice::from_mut(value),
            Values::Many(values) => values,
        }
    }

    fn find(&mut self, sub: i64) -> Option<&mut Value> {
        let values = self.as_mut_slice();
        let at = values.binary_search_by_key(&sub, |value| value.sub).ok()?;
        values.get_mut(at)
    }

    /// Adds a value under a number that is free.
    fn add(&mut self, value: Value) {
        if let Values::One(_) = self {
            let Values::One(only) = std::mem::replace(self, Values::Many(Vec::with_capacity(2))) else { return };
            if let Values::Many(values) = self {
                values.push(only);
            }
        }
        if let Values::Many(values) = self {
            let at = values.partition_point(|known| known.sub < value.sub);
            values.insert(at, value);
        }
    }

    /// Takes the values that `which` chooses.
    fn take(&mut self, mut which: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let values = match self {
            Values::One(only) if !which(only) => return Vec::new(),
            Values::One(_) => match std::mem::replace(self, Values::Many(Vec::new())) {
                Values::One(only) => return vec![only],
                Values::Many(values) => values,
            },
            Values::Many(values) => std::mem::take(values),
        };
        let (taken, left) = values.into_iter().partition(|value| which(value));
        *self = Values::Many(left);
        taken
    }

    fn take_one(&mut self, sub: i64) -> Option<Value> {
        match self {
            Values::One(only) if only.sub == sub => match std::mem::replace(self, Values::Many(Vec::new())) {
                Values::One(only) => Some(only),
                Values::Many(_) => None,
            },
            Values::One(_) => None,
            Values::Many(values) => values.binary_search_by_key(&sub, |value| value.sub).ok().map(|at| values.remove(at)),
        }
    }
}

/// The key and the `sub` of a row that may expire.
type Hint = (Arc<[u8]>, i64);

/// The rows of one key group.
#[derive(Debug, Default)]
struct Group {
    rows: HashMap<Arc<[u8]>, Values, KeyHash>,
    /// Where to look for rows that expire. An entry is a hint: the row may be gone, or have another expiry by now.
    expiries: BTreeMap<i64, Vec<Hint>>,
}

/// The rows of some key groups.
#[derive(Debug)]
pub(super) struct MemoryStore {
    first: u16,
    groups: Vec<Group>,
    len: u64,
    bytes: u64,
    /// The number of the batch, which wraps around.
    now: u32,
    /// The group from which the next rows are evicted.
    hand: usize,
}

fn size(key: &[u8], value: &Value) -> u64 {
    let expiry = if value.expiry == key::NEVER { 0 } else { EXPIRY_OVERHEAD };
    (key.len() + value.bytes.len()) as u64 + ROW_OVERHEAD + expiry
}

impl MemoryStore {
    pub(super) fn new(groups: Range<u16>) -> Self {
        let hash = KeyHash::default();
        let group = |_| Group { rows: HashMap::with_hasher(hash.clone()), expiries: BTreeMap::new() };
        MemoryStore { first: groups.start, groups: groups.map(group).collect(), len: 0, bytes: 0, now: 0, hand: 0 }
    }

    fn place(&self, key: &[u8]) -> usize {
        usize::from(key::group(key).saturating_sub(self.first))
    }

    fn group(&mut self, key: &[u8]) -> Option<&mut Group> {
        let place = self.place(key);
        self.groups.get_mut(place)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins the next batch, for which what was used in this one is older.
    pub(super) fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
    }

    /// The values of a key, which are used now.
    pub(super) fn get(&mut self, key: &[u8]) -> &[Value] {
        let now = self.now;
        match self.group(key).and_then(|group| group.rows.get_mut(key)) {
            Some(values) => {
                let values = values.as_mut_slice();
                values.iter_mut().for_each(|value| value.used = now);
                values
            }
            None => &[],
        }
    }

    /// One row.
    pub(super) fn row(&self, key: &[u8], sub: i64) -> Option<&Value> {
        let values = self.groups.get(self.place(key))?.rows.get(key)?.as_slice();
        values.get(values.binary_search_by_key(&sub, |value| value.sub).ok()?)
    }

    /// Replaces a row that is there, and returns what disk had of it.
    pub(super) fn replace(&mut self, key: &[u8], sub: i64, bytes: &[u8], expiry: i64) -> Option<OnDisk> {
        let now = self.now;
        let group = self.group(key)?;
        let value = group.rows.get_mut(key)?.find(sub)?;
        let before = size(key, value);
        let (known, moved) = (value.on_disk, value.expiry != expiry);
        value.bytes = bytes.into();
        value.expiry = expiry;
        value.used = now;
        if known == OnDisk::Same {
            value.on_disk = OnDisk::Older;
        }
        let after = size(key, value);
        if moved
            && expiry != key::NEVER
            && let Some((shared, _)) = group.rows.get_key_value(key)
        {
            group.expiries.entry(expiry).or_default().push((shared.clone(), sub));
        }
        self.bytes = self.bytes + after - before;
        Some(known)
    }

    /// Adds a row that is not there.
    pub(super) fn add(&mut self, key: &[u8], sub: i64, bytes: &[u8], expiry: i64, on_disk: OnDisk) {
        let value = Value { sub, expiry, bytes: bytes.into(), used: self.now, on_disk };
        let size = size(key, &value);
        let Some(group) = self.group(key) else { return };
        let shared = match group.rows.get_mut(key) {
            Some(values) => {
                values.add(value);
                None
            }
            None => {
                let shared: Arc<[u8]> = key.into();
                group.rows.insert(shared.clone(), Values::One(value));
                Some(shared)
            }
        };
        if expiry != key::NEVER
            && let Some(shared) = shared.or_else(|| group.rows.get_key_value(key).map(|(shared, _)| shared.clone()))
        {
            group.expiries.entry(expiry).or_default().push((shared, sub));
        }
        self.len += 1;
        self.bytes += size;
    }

    /// The disk has the row as it is now.
    pub(super) fn written(&mut self, key: &[u8], sub: i64) {
        if let Some(value) = self.group(key).and_then(|group| group.rows.get_mut(key)).and_then(|values| values.find(sub)) {
            value.on_disk = OnDisk::Same;
        }
    }

    /// Takes a row out.
    pub(super) fn remove(&mut self, key: &[u8], sub: i64) -> Option<Value> {
        let group = self.group(key)?;
        let values = group.rows.get_mut(key)?;
        let value = values.take_one(sub)?;
        if values.as_slice().is_empty() {
            group.rows.remove(key);
        }
        self.len -= 1;
        self.bytes -= size(key, &value);
        Some(value)
    }

    /// Takes out every row whose expiry is at or before `instant`.
    pub(super) fn take_expired(&mut self, instant: i64, take: &mut dyn FnMut(&[u8], Value)) {
        for place in 0..self.groups.len() {
            while let Some(entry) = self.groups.get_mut(place).and_then(|group| group.expiries.first_entry()) {
                if *entry.key() > instant {
                    break;
                }
                let (expiry, hints) = entry.remove_entry();
                for (key, sub) in hints {
                    if self.row(&key, sub).is_some_and(|value| value.expiry == expiry)
                        && let Some(value) = self.remove(&key, sub)
                    {
                        take(&key, value);
                    }
                }
            }
        }
    }

    /// The earliest expiry there may be.
    pub(super) fn first_expiry(&self) -> Option<i64> {
        self.groups.iter().filter_map(|group| group.expiries.first_key_value()).map(|(expiry, _)| *expiry).min()
    }

    /// Visits the rows of a key group until the visitor answers `false`; answers whether it never did.
    pub(super) fn scan(&self, group: u16, visit: &mut dyn FnMut(&[u8], &Value) -> bool) -> bool {
        let Some(group) = group.checked_sub(self.first).and_then(|place| self.groups.get(usize::from(place))) else { return true };
        group.rows.iter().all(|(key, values)| values.as_slice().iter().all(|value| visit(key, value)))
    }

    /// Takes out rows of about so many bytes, sparing those that were used in the last batch as long as there are others.
    pub(super) fn evict(&mut self, bytes: u64, take: &mut dyn FnMut(&[u8], Value)) {
        let goal = self.bytes.saturating_sub(bytes);
        for spare in [true, false] {
            for _ in 0..self.groups.len() {
                if self.bytes <= goal {
                    return;
                }
                self.evict_group(spare, take);
                self.hand = (self.hand + 1) % self.groups.len();
            }
        }
    }

    fn evict_group(&mut self, spare: bool, take: &mut dyn FnMut(&[u8], Value)) {
        let (now, hand) = (self.now, self.hand);
        let Some(group) = self.groups.get_mut(hand) else { return };
        let (mut rows, mut bytes) = (0, 0);
        group.rows.retain(|key, values| {
            for value in values.take(|value| !spare || value.used != now) {
                rows += 1;
                bytes += size(key, &value);
                take(key, value);
            }
            !values.as_slice().is_empty()
        });
        // Otherwise the table would stay as large as it ever was, and the hints would keep the keys.
        group.rows.shrink_to_fit();
        let left = &group.rows;
        group.expiries.retain(|expiry, hints| {
            hints.retain(|(key, sub)| {
                let values = left.get(key).map_or(&[][..], Values::as_slice);
                values
                    .binary_search_by_key(sub, |value| value.sub)
                    .ok()
                    .and_then(|at| values.get(at))
                    .is_some_and(|value| value.expiry == *expiry)
            });
            hints.shrink_to_fit();
            !hints.is_empty()
        });
        self.len -= rows;
        self.bytes -= bytes;
    }
}
