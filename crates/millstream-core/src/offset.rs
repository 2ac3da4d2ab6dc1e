//! Positions in a source.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};

/// A position in a source, as the JSON text that goes into `offsets/N`. Only the source knows what it means.
///
/// The text is kept byte for byte, because Spark compares offsets as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offset(String);

impl Offset {
    /// An offset from its JSON text.
    ///
    /// # Errors
    /// `MALFORMED_OFFSET` when the text is not one JSON value on one line.
    pub fn from_json(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.contains('\n') {
            return Err(Error::new(ErrorKind::CheckpointIncompatible, "MALFORMED_OFFSET", format!("offset {text:?} spans lines")));
        }
        serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| {
            Error::new(ErrorKind::CheckpointIncompatible, "MALFORMED_OFFSET", format!("offset {text:?} is not JSON")).caused_by(error)
        })?;
        Ok(Offset(text))
    }

    /// An offset from a value that serialises to JSON.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the value does not serialise.
    pub fn of<T: Serialize>(value: &T) -> Result<Self> {
        serde_json::to_string(value).map(Offset).map_err(|error| Error::internal("an offset does not serialise").caused_by(error))
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The offset read as `T`.
    ///
    /// # Errors
    /// `MALFORMED_OFFSET` when the JSON has another shape: the checkpoint belongs to another kind of source.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|error| {
            Error::new(
                ErrorKind::CheckpointIncompatible,
                "MALFORMED_OFFSET",
                format!("the checkpoint's offset {} does not belong to this kind of source", self.0),
            )
            .caused_by(error)
        })
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Offset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: Box<serde_json::value::RawValue> =
            serde_json::value::RawValue::from_string(self.0.clone()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(Offset(raw.get().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_embedding_byte_for_byte() {
        let offset = Offset::from_json(r#"{"logOffset":  3}"#).unwrap();
        let json = serde_json::to_string(&vec![Some(offset.clone()), None]).unwrap();
        assert_eq!(json, r#"[{"logOffset":  3},null]"#);
        let back: Vec<Option<Offset>> = serde_json::from_str(&json).unwrap();
        assert_eq!(back[0], Some(offset));
    }

    #[test]
    fn what_is_not_one_line_of_json_is_refused() {
        assert_eq!(Offset::from_json("{\"a\":\n1}").unwrap_err().code(), "MALFORMED_OFFSET");
        assert_eq!(Offset::from_json("{").unwrap_err().code(), "MALFORMED_OFFSET");
    }
}
