//! The bytes of a key of state: its key group, its expiry where a column of the key says when it may leave, its encoded columns. The group is that
//! of the columns that say to which task a row goes: all of them, or some where rows of different keys belong together.
//!
//! The order of bytes is the order of groups and, within a group, of expiries: tasks own ranges of groups, and what expires is one range of
//! each group.

use crate::KEY_GROUPS;

/// Bytes of the key group at the beginning of every key.
pub const GROUP_BYTES: usize = 2;
/// Bytes of the expiry that follows in keys that have one.
pub const EXPIRY_BYTES: usize = 8;
/// The expiry of what never leaves by time.
pub const NEVER: i64 = i64::MAX;

/// The key group of encoded columns. It never changes: files in checkpoints name ranges of groups.
pub fn group_of(columns: &[u8]) -> u16 {
    // A CRC is linear in its input; keys that are close to each other must not be in groups that are.
    let mut hash = crc32c::crc32c(columns);
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^= hash >> 16;
    (hash % u32::from(KEY_GROUPS)) as u16
}

/// Appends a key of this group to `out`. `expiry` is that of tables whose keys have one, microseconds.
pub fn write(out: &mut Vec<u8>, group: u16, expiry: Option<i64>, columns: &[u8]) {
    out.extend_from_slice(&group.to_be_bytes());
    if let Some(expiry) = expiry {
        out.extend_from_slice(&ordered(expiry));
    }
    out.extend_from_slice(columns);
}

/// The key group of a key.
pub fn group(key: &[u8]) -> u16 {
    key.first_chunk::<GROUP_BYTES>().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// The expiry of a key of a table whose keys have one.
pub fn expiry(key: &[u8]) -> i64 {
    let bytes = key.get(GROUP_BYTES..).and_then(|rest| rest.first_chunk::<EXPIRY_BYTES>());
    bytes.map_or(NEVER, |bytes| from_ordered(*bytes))
}

/// A number as bytes in the same order.
pub fn ordered(number: i64) -> [u8; 8] {
    ((number as u64) ^ (1 << 63)).to_be_bytes()
}

/// The number of [`ordered`] bytes.
pub fn from_ordered(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_fixed_for_ever() {
        for (columns, expected) in [(&b""[..], 0), (b"a", 32), (b"abcdefgh", 47), (&[0; 9], 69)] {
            assert_eq!(group_of(columns), expected, "{columns:?}");
        }
    }

    #[test]
    fn keys_are_spread_over_the_groups() {
        let mut counts = vec![0u32; usize::from(KEY_GROUPS)];
        for number in 0..128_000u64 {
            counts[usize::from(group_of(&number.to_be_bytes()))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn bytes_are_in_the_order_of_group_and_expiry() {
        let instants = [i64::MIN, -1, 0, 1, 1_700_000_000_000_000, NEVER];
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for expiry in instants {
            let mut key = Vec::new();
            write(&mut key, group_of(b"columns"), Some(expiry), b"columns");
            assert_eq!((group(&key), super::expiry(&key)), (group_of(b"columns"), expiry));
            keys.push(key);
        }
        assert!(keys.is_sorted());
    }
}
