//! Whether two plans give the same rows, as far as their text tells.

use std::collections::HashMap;

use crate::analyzer::Analyzed;

/// A text that plans of the same meaning share. The names that users gave their columns do not matter, and the engine's own are numbered
/// anew in order of appearance.
pub(in crate::connect) fn fingerprint(analyzed: &Analyzed) -> String {
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
}
