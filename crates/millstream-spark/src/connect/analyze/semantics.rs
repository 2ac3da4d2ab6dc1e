//! Whether two plans give the same rows, as far as their text tells.

use std::collections::HashMap;

use parking_lot::Mutex;
use spark_connect_proto::StorageLevel;

use crate::analyzer::Analyzed;

/// What `persist()` without an argument asks for.
pub(super) const MEMORY_AND_DISK: StorageLevel =
    StorageLevel { use_disk: true, use_memory: true, use_off_heap: false, deserialized: true, replication: 1 };

/// The level of what is not persisted.
const NONE: StorageLevel = StorageLevel { use_disk: false, use_memory: false, use_off_heap: false, deserialized: false, replication: 1 };

/// The plans that a session was asked to keep. Nothing is kept: computing them again gives the same rows. Only the level is remembered.
#[derive(Debug, Default)]
pub(super) struct Persisted(Mutex<HashMap<String, StorageLevel>>);

impl Persisted {
    pub(super) fn set(&self, plan: String, level: StorageLevel) {
        self.0.lock().entry(plan).or_insert(level);
    }

    pub(super) fn get(&self, plan: &str) -> StorageLevel {
        self.0.lock().get(plan).cloned().unwrap_or(NONE)
    }

    pub(super) fn remove(&self, plan: &str) {
        self.0.lock().remove(plan);
    }
}

/// A text that plans of the same meaning share. The names that users gave their columns do not matter, and the engine's own are numbered
/// anew in order of appearance.
pub(super) fn fingerprint(analyzed: &Analyzed) -> String {
    renumber(&analyzed.plan.display_indent_schema().to_string())
}

/// Numbers every `#name` by its first appearance.
fn renumber(text: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut renumbered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('#') {
        let (before, from) = rest.split_at(start);
        renumbered.push_str(before);
        let end = from.char_indices().skip(1).find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '.').map_or(from.len(), |(index, _)| index);
        let (name, after) = from.split_at(end);
        let next = numbers.len();
        let number = *numbers.entry(name).or_insert(next);
        renumbered.push_str(&format!("#{number}"));
        rest = after;
    }
    renumbered.push_str(rest);
    renumbered
}

/// A hash that is the same in every process.
pub(super) fn hash(text: &str) -> i32 {
    text.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_engine_do_not_matter() {
        assert_eq!(renumber("Projection: #17 AS #18, #17 + 1"), renumber("Projection: #3 AS #4, #3 + 1"));
        assert_ne!(renumber("Projection: #17, #18"), renumber("Projection: #17, #17"));
        assert_eq!(renumber("no names"), "no names");
    }

    #[test]
    fn a_level_is_remembered_until_it_is_removed() {
        let persisted = Persisted::default();
        persisted.set("p".into(), MEMORY_AND_DISK);
        assert_eq!(persisted.get("p"), MEMORY_AND_DISK);
        persisted.remove("p");
        assert_eq!(persisted.get("p"), NONE);
    }
}
