//! Our own facts in a commit record, which Spark ignores.

use millstream_core::recovery::CommitRecord;
use millstream_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::FACTS;

/// Puts a fact into `record`.
///
/// # Errors
/// `INTERNAL_ERROR` when the record's facts are not an object, or the fact does not serialise.
pub fn put(record: &mut CommitRecord, name: &str, fact: &impl Serialize) -> Result<()> {
    let fact =
        serde_json::to_value(fact).map_err(|error| Error::internal(format!("the fact {name} does not serialise")).caused_by(error))?;
    match record.extra.entry(FACTS.to_owned()).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(facts) => drop(facts.insert(name.to_owned(), fact)),
        other => return Err(Error::internal(format!("the {FACTS} field of a commit record is {other} and not an object"))),
    }
    Ok(())
}

/// A fact of `record`, `None` where it has none of that name.
///
/// # Errors
/// `CHECKPOINT_RECORD_DAMAGED` when there is one that cannot be read.
pub fn get<T: DeserializeOwned>(record: &CommitRecord, name: &str) -> Result<Option<T>> {
    let Some(fact) = record.extra.get(FACTS).and_then(|facts| facts.get(name)) else { return Ok(None) };
    T::deserialize(fact).map(Some).map_err(|error| {
        let message = format!("the fact '{name}' in a commit record cannot be read; it was written by a newer version, or damaged");
        Error::new(ErrorKind::CheckpointIncompatible, "CHECKPOINT_RECORD_DAMAGED", message).caused_by(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_goes_both_ways_and_a_wrong_one_is_an_error() {
        let mut record = CommitRecord::default();
        put(&mut record, "watermarks", &[1, 2]).unwrap();
        put(&mut record, "query", &"same").unwrap();
        assert_eq!(get::<Vec<i64>>(&record, "watermarks").unwrap(), Some(vec![1, 2]));
        assert_eq!(get::<Vec<i64>>(&record, "lateness").unwrap(), None);
        assert_eq!(get::<Vec<i64>>(&record, "query").unwrap_err().code(), "CHECKPOINT_RECORD_DAMAGED");
        record.extra.insert(FACTS.into(), 3.into());
        assert_eq!(put(&mut record, "query", &"same").unwrap_err().code(), "INTERNAL_ERROR");
    }
}
