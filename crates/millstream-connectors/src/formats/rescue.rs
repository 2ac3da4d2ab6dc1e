//! The rescued-data column: what a record has and the schema does not take, as a flat JSON object of one row.
//!
//! The offending top-level fields are its keys and `_file_path` is the file's URL; a row without offending fields has null. Strings are
//! kept as JSON strings, numbers and truth values as they are written, objects and arrays as JSON text inside a string.

use millstream_core::json::quote;
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options};

/// The option `rescuedDataColumn`.
pub const RESCUED_DATA_COLUMN: OptionSpec = OptionSpec {
    name: "rescuedDataColumn",
    kind: OptionKind::Text,
    default: None,
    doc: "The column that takes fields which are not in the schema or do not fit it, as JSON.",
};

/// The name of the rescued-data column, if the options ask for one.
pub fn rescued_data_column(options: &Options) -> Option<&str> {
    options.get("rescuedDataColumn").filter(|name| !name.is_empty())
}

/// The rescued data of one row after another.
#[derive(Debug, Default)]
pub struct Rescue {
    json: Vec<u8>,
}

impl Rescue {
    /// Keeps a field whose value is text.
    pub fn text(&mut self, name: &[u8], value: &[u8]) {
        self.key(name);
        quote(value, &mut self.json);
    }

    /// Keeps a field whose value is JSON: a number or a truth value.
    pub fn json(&mut self, name: &[u8], value: &[u8]) {
        self.key(name);
        self.json.extend_from_slice(value);
    }

    /// Whether the row has kept nothing so far.
    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Ends the row and calls `keep` with its rescued data, or with `None` when there is nothing to rescue. `url` is the file's.
    pub fn finish(&mut self, url: &str, keep: impl FnOnce(Option<&[u8]>)) {
        if self.json.is_empty() {
            return keep(None);
        }
        self.text(b"_file_path", url.as_bytes());
        self.json.push(b'}');
        keep(Some(&self.json));
        self.json.clear();
    }

    /// Forgets the row.
    pub fn clear(&mut self) {
        self.json.clear();
    }

    fn key(&mut self, name: &[u8]) {
        self.json.push(if self.json.is_empty() { b'{' } else { b',' });
        quote(name, &mut self.json);
        self.json.push(b':');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(rescue: &mut Rescue) -> Option<String> {
        let mut kept = None;
        rescue.finish("file:///a%20b.json", |json| kept = json.map(|json| String::from_utf8(json.to_vec()).unwrap()));
        kept
    }

    #[test]
    fn fields_are_keys_and_the_file_comes_last() {
        let mut rescue = Rescue::default();
        assert_eq!(finished(&mut rescue), None);
        rescue.text(b"price", b"$100.00");
        rescue.json(b"n", b"1.50");
        rescue.text(b"quantity", b"{\"units\":2}");
        let expected = r#"{"price":"$100.00","n":1.50,"quantity":"{\"units\":2}","_file_path":"file:///a%20b.json"}"#;
        assert_eq!(finished(&mut rescue).as_deref(), Some(expected));
        assert_eq!(finished(&mut rescue), None);
    }

    #[test]
    fn quoting_is_what_any_json_reader_takes_back() {
        let text: String = (0..0x80_u8).map(char::from).chain("žluť😀".chars()).collect();
        let mut out = Vec::new();
        quote(text.as_bytes(), &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}
