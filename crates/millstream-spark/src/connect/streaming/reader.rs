//! `read` and `readStream`: from a client's data source to what a connector is asked for.

use arrow::datatypes::{DataType, Field, SchemaRef};
use millstream_core::registry::ReadRequest;
use millstream_core::{Error, Options, Result};
use spark_connect_proto::read::DataSource;

use crate::connect::config::Confs;
use crate::connect::schema;
use crate::types::CHAR_VARCHAR;

/// Formats whose values are text, in which times may have no zone and records may be malformed.
const TEXTUAL: [&str; 3] = ["json", "csv", "xml"];

/// What a mode of malformed records can be.
const MODES: [&str; 3] = ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"];

/// What the connector of `format` is asked for, with the session's settings where the source says nothing.
///
/// # Errors
/// Those of the schema's text; `UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING` for columns of limited length;
/// `STREAMING_QUERY_EVOLUTION_ERROR.*` for a stream with a name, or without one, against the session's setting.
pub(crate) fn request(confs: &Confs, format: &str, source: &DataSource, streaming: bool) -> Result<ReadRequest> {
    let schema = match source.schema.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => Some(schema::parse(text)?),
        None => None,
    };
    if let Some(schema) = &schema
        && !confs.is_true("spark.sql.legacy.charVarcharAsString")
    {
        refuse_limited(schema)?;
    }
    if streaming {
        check_name(confs, source.source_name.as_deref(), format)?;
    }
    let mut options: Options = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let textual = TEXTUAL.iter().any(|name| name.eq_ignore_ascii_case(format));
    if textual
        && options.get("timeZone").is_none()
        && let Some(zone) = confs.get("spark.sql.session.timeZone")
    {
        options.set("timeZone", zone);
    }
    if textual
        && let Some(mode) = options.get("mode")
        && !MODES.iter().any(|known| known.eq_ignore_ascii_case(mode))
    {
        tracing::warn!(mode, "there is no such mode of malformed records: PERMISSIVE is used, as in Spark");
        options.set("mode", "PERMISSIVE");
    }
    if streaming && options.get("schemaInference").is_none() && confs.is_true("spark.sql.streaming.schemaInference") {
        options.set("schemaInference", "true");
    }
    const PARTITION_TYPES: &str = "spark.sql.sources.partitionColumnTypeInference.enabled";
    if confs.get(PARTITION_TYPES).is_some_and(|value| value.trim().eq_ignore_ascii_case("false")) {
        options.set("partitionColumnTypeInference", "false");
    }
    Ok(ReadRequest { schema, paths: source.paths.clone(), options })
}

fn refuse_limited(schema: &SchemaRef) -> Result<()> {
    if !schema.fields().iter().any(|field| is_limited(field)) {
        return Ok(());
    }
    Err(Error::invalid(
        "UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING",
        "The char/varchar type can't be used in the schema of a source: use STRING, or set spark.sql.legacy.charVarcharAsString to true",
    )
    .with_sqlstate("0A000"))
}

fn is_limited(field: &Field) -> bool {
    let inner = |data_type: &DataType| match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| is_limited(field)),
        DataType::List(element) | DataType::Map(element, _) => is_limited(element),
        _ => false,
    };
    field.metadata().contains_key(CHAR_VARCHAR) || inner(field.data_type())
}

/// Names of sources are for queries whose sources may change, and then all of them have one.
fn check_name(confs: &Confs, name: Option<&str>, format: &str) -> Result<()> {
    let evolves = confs.is_true("spark.sql.streaming.queryEvolution.enableSourceEvolution");
    let refused = match name.filter(|name| !name.is_empty()) {
        Some(name) if !evolves => (
            "SOURCE_NAMING_NOT_SUPPORTED",
            format!(
                "Streaming source naming is not supported. Source name '{name}' was provided but the feature is disabled: set \
                 spark.sql.streaming.queryEvolution.enableSourceEvolution to true."
            ),
        ),
        None if evolves => (
            "UNNAMED_STREAMING_SOURCES_WITH_ENFORCEMENT",
            format!(
                "All streaming sources must be named when spark.sql.streaming.queryEvolution.enableSourceEvolution is enabled, and a source \
                 of format {format} is not: use name()."
            ),
        ),
        _ => return Ok(()),
    };
    Err(evolution(refused.0, refused.1))
}

/// Refuses two sources of one name in a query.
///
/// # Errors
/// `STREAMING_QUERY_EVOLUTION_ERROR.DUPLICATE_SOURCE_NAMES`.
pub(super) fn check_distinct(names: &[String]) -> Result<()> {
    let twice = names.iter().enumerate().find(|(place, name)| names.iter().take(*place).any(|earlier| earlier == *name));
    match twice {
        None => Ok(()),
        Some((_, name)) => {
            let what = format!("Duplicate streaming source names detected: '{name}'. Each streaming source must have a unique name.");
            Err(evolution("DUPLICATE_SOURCE_NAMES", what))
        }
    }
}

fn evolution(condition: &str, message: String) -> Error {
    Error::invalid(format!("STREAMING_QUERY_EVOLUTION_ERROR.{condition}"), message).with_sqlstate("42KDE")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::streaming::tests::session;

    #[test]
    fn sources_are_refused_as_in_spark() {
        let session = session();
        let source = |schema: &str, name: Option<&str>| DataSource {
            schema: Some(schema.to_owned()),
            source_name: name.map(str::to_owned),
            ..DataSource::default()
        };
        let code = |source: &DataSource, streaming: bool| {
            request(&session.confs, "json", source, streaming).err().map(|error| error.code().to_owned()).unwrap_or_default()
        };
        assert_eq!(code(&source("a varchar(3)", None), false), "UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING");
        assert_eq!(code(&source("a int", Some("x")), true), "STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED");
        assert_eq!(code(&source("a int", Some("x")), false), "");
        session.confs.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true").unwrap();
        assert_eq!(code(&source("a int", Some("x")), true), "");
        assert_eq!(code(&source("a int", None), true), "STREAMING_QUERY_EVOLUTION_ERROR.UNNAMED_STREAMING_SOURCES_WITH_ENFORCEMENT");
    }

    #[test]
    fn the_session_says_what_the_source_does_not() {
        let session = session();
        session.confs.set("spark.sql.session.timeZone", "Asia/Tokyo").unwrap();
        let source = DataSource { options: [("mode".to_owned(), "LOOSE".to_owned())].into(), ..DataSource::default() };
        let options = request(&session.confs, "json", &source, true).unwrap().options;
        assert_eq!((options.get("timeZone"), options.get("mode")), (Some("Asia/Tokyo"), Some("PERMISSIVE")));
        assert_eq!(request(&session.confs, "parquet", &DataSource::default(), true).unwrap().options.get("timeZone"), None);
    }

    #[test]
    fn names_are_distinct() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(check_distinct(&names(&["a", "b"])).is_ok());
        assert!(check_distinct(&names(&["a", "b", "a"])).is_err());
    }
}
