//! Formats that every Spark knows by name, in uses that it refuses and that the registry has nothing to say about.

use millstream_core::Error;

/// What a format is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// `spark.read`
    Read,
    /// `spark.readStream`
    ReadStream,
    /// `df.write`
    Write,
    /// `df.writeStream`
    WriteStream,
}

/// What Spark says where it knows the format but not that use of it, in place of an `error` of the registry.
pub(super) fn refused(format: &str, wanted: Use, error: Error) -> Error {
    if error.code() != "DATA_SOURCE_NOT_FOUND" {
        return error;
    }
    let format = format.to_lowercase();
    let refusal = |condition: &str, message: String| Error::invalid(condition.to_owned(), message);
    match (format.as_str(), wanted) {
        ("jdbc" | "noop" | "console", Use::ReadStream) => {
            refusal("_LEGACY_ERROR_TEMP_2049", format!("Data source {format} does not support streamed reading"))
        }
        ("jdbc", Use::WriteStream) => refusal("_LEGACY_ERROR_TEMP_2049", format!("Data source {format} does not support streamed writing")),
        ("noop" | "console", Use::Read) => {
            refusal("_LEGACY_ERROR_TEMP_1135", format!("{format} is not a valid Spark SQL Data Source: it can only be written"))
        }
        ("socket", Use::Write | Use::WriteStream) => {
            refusal("_LEGACY_ERROR_TEMP_1295", "The socket source can only be read: use another format to write".to_owned())
        }
        ("rate", Use::Write) => {
            refusal("INTERNAL_ERROR", "The rate source can only be read: use another format to write".to_owned()).with_sqlstate("XX000")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_refused_as_spark_does_and_unknown_ones_stay_unknown() {
        let missing = || Error::invalid("DATA_SOURCE_NOT_FOUND", "no such format");
        for (format, wanted, code) in [
            ("JDBC", Use::ReadStream, "_LEGACY_ERROR_TEMP_2049"),
            ("noop", Use::Read, "_LEGACY_ERROR_TEMP_1135"),
            ("socket", Use::WriteStream, "_LEGACY_ERROR_TEMP_1295"),
            ("jdbc", Use::Read, "DATA_SOURCE_NOT_FOUND"),
            ("nope", Use::WriteStream, "DATA_SOURCE_NOT_FOUND"),
        ] {
            assert_eq!(refused(format, wanted, missing()).code(), code, "{format} {wanted:?}");
        }
        assert_eq!(refused("jdbc", Use::ReadStream, Error::invalid("OTHER", "")).code(), "OTHER");
    }
}
