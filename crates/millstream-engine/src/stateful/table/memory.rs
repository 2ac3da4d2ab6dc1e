//! State in hash tables of this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::HashMap;
use millstream_core::Result;

use super::Store;
use super::store::Visit;

/// Where a row is: its key and its number among the values of the key.
type Place = (Arc<[u8]>, i64);

/// What a row costs beside its bytes: the entry of the hash table, two pointers, counts.
const ROW_OVERHEAD: u64 = 64;

/// Rows by key, and keys by expiry.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    rows: HashMap<Arc<[u8]>, Values>,
    /// Where to look for rows that expire. An entry is a hint: the row may be gone, or have another expiry by now.
    expiries: BTreeMap<i64, Vec<Place>>,
    len: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Value {
    sub: i64,
    expiry: Option<i64>,
    bytes: Box<[u8]>,
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

    fn get(&self, sub: i64) -> Option<&Value> {
        match self {
            Values::One(only) => Some(only).filter(|only| only.sub == sub),
            Values::Many(values) => values.binary_search_by_key(&sub, |value| value.sub).ok().and_then(|at| values.get(at)),
        }
    }

    /// Puts a value and returns the one that it replaced.
    fn put(&mut self, value: Value) -> Option<Value> {
        match self {
            Values::One(only) if only.sub == value.sub => Some(std::mem::replace(only, value)),
            Values::One(_) => {
                let Values::One(only) = std::mem::replace(self, Values::Many(Vec::with_capacity(2))) else { return None };
                if let Values::Many(values) = self {
                    values.extend(if only.sub < value.sub { [only, value] } else { [value, only] });
                }
                None
            }
            Values::Many(values) => match values.binary_search_by_key(&value.sub, |value| value.sub) {
                Ok(at) => values.get_mut(at).map(|old| std::mem::replace(old, value)),
                Err(at) => {
                    values.insert(at, value);
                    None
                }
            },
        }
    }

    /// Removes a value. The second part says whether none is left.
    fn remove(&mut self, sub: i64, when: impl Fn(&Value) -> bool) -> (Option<Value>, bool) {
        match self {
            Values::One(only) if only.sub == sub && when(only) => {
                let Values::One(only) = std::mem::replace(self, Values::Many(Vec::new())) else { return (None, true) };
                (Some(only), true)
            }
            Values::One(_) => (None, false),
            Values::Many(values) => {
                let at = values.binary_search_by_key(&sub, |value| value.sub).ok().filter(|at| values.get(*at).is_some_and(&when));
                let removed = at.map(|at| values.remove(at));
                (removed, values.is_empty())
            }
        }
    }
}

impl MemoryStore {
    fn remove_when(&mut self, key: &[u8], sub: i64, when: impl Fn(&Value) -> bool) -> Option<Value> {
        let values = self.rows.get_mut(key)?;
        let (removed, empty) = values.remove(sub, when);
        if empty {
            self.rows.remove(key);
        }
        if let Some(value) = &removed {
            self.len -= 1;
            self.bytes -= size(key, &value.bytes);
        }
        removed
    }
}

fn size(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ROW_OVERHEAD
}

impl Store for MemoryStore {
    fn get_many<'a>(&self, keys: &mut dyn Iterator<Item = &'a [u8]>, visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()> {
        for (index, key) in keys.enumerate() {
            for value in self.rows.get(key).map_or(&[][..], Values::as_slice) {
                visit(index, value.sub, &value.bytes);
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>> {
        Ok(self.rows.get(key).and_then(|values| values.get(sub)).map(|value| value.bytes.clone()))
    }

    fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: Option<i64>) -> Result<bool> {
        self.bytes += size(key, value);
        let value = Value { sub, expiry, bytes: value.into() };
        let (shared, replaced) = match self.rows.get_key_value_mut(key) {
            Some((shared, values)) => (shared.clone(), values.put(value)),
            None => {
                let shared: Arc<[u8]> = key.into();
                self.rows.insert(shared.clone(), Values::One(value));
                (shared, None)
            }
        };
        match &replaced {
            Some(old) => self.bytes -= size(key, &old.bytes),
            None => self.len += 1,
        }
        if let Some(expiry) = expiry
            && replaced.as_ref().is_none_or(|old| old.expiry != Some(expiry))
        {
            self.expiries.entry(expiry).or_default().push((shared, sub));
        }
        Ok(replaced.is_some())
    }

    fn remove(&mut self, key: &[u8], sub: i64) -> Result<bool> {
        Ok(self.remove_when(key, sub, |_| true).is_some())
    }

    fn take_expired(&mut self, instant: i64, take: &mut dyn FnMut(Box<[u8]>, i64, Box<[u8]>)) -> Result<()> {
        while let Some(entry) = self.expiries.first_entry() {
            if *entry.key() > instant {
                break;
            }
            let (expiry, keys) = entry.remove_entry();
            for (key, sub) in keys {
                if let Some(value) = self.remove_when(&key, sub, |value| value.expiry == Some(expiry)) {
                    take(key.as_ref().into(), sub, value.bytes);
                }
            }
        }
        Ok(())
    }

    fn first_expiry(&self) -> Option<i64> {
        self.expiries.first_key_value().map(|(expiry, _)| *expiry)
    }

    fn scan(&self, visit: &mut Visit<'_>) -> Result<()> {
        for (key, values) in &self.rows {
            for value in values.as_slice() {
                if !visit(key, value.sub, &value.bytes) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
