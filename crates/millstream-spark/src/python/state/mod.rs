//! Python code that keeps state: `transformWithState`, `transformWithStateInPandas`, `applyInPandasWithState`.
//!
//! A processor gets its rows over the connection of its worker, sorted by key, and asks for its state over a second one; a function over
//! groups gets each state beside the rows and gives it back changed.

mod group_state;
mod messages;
mod processor;
mod rows;
mod server;

#[cfg(test)]
mod tests;

use arrow::datatypes::{Field, Schema};

pub(crate) use group_state::PythonGroupFunction;
pub(crate) use processor::{Frame, PythonProcessor};

use crate::types::schema_to_json;

/// A schema as workers take it among the descriptions of a task. They read these in lower case; escapes keep the letters that are not.
fn described_schema<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    let json = schema_to_json(&Schema::new(fields.into_iter().cloned().collect::<Vec<_>>()));
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.to_lowercase().eq([letter]) {
            text.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}
