//! The Java classes that Spark throws for a condition. Clients choose their own exception by them.

use millstream_core::{Error, ErrorKind};

/// The end of every hierarchy.
const THROWABLE: &[&str] = &["java.lang.Exception", "java.lang.Throwable", "java.lang.Object"];

/// Classes between the thrown one and `java.lang.Exception`.
const PARENTS: &[(&str, &[&str])] = &[
    ("org.apache.spark.sql.catalyst.parser.ParseException", &["org.apache.spark.sql.AnalysisException"]),
    ("org.apache.spark.SparkArithmeticException", &["java.lang.ArithmeticException", RUNTIME]),
    ("org.apache.spark.SparkNumberFormatException", &["java.lang.NumberFormatException", "java.lang.IllegalArgumentException", RUNTIME]),
    ("org.apache.spark.SparkDateTimeException", &["java.time.DateTimeException", RUNTIME]),
    (
        "org.apache.spark.SparkArrayIndexOutOfBoundsException",
        &["java.lang.ArrayIndexOutOfBoundsException", "java.lang.IndexOutOfBoundsException", RUNTIME],
    ),
    ("org.apache.spark.SparkRuntimeException", &[RUNTIME]),
    ("org.apache.spark.SparkUpgradeException", &[RUNTIME]),
    ("org.apache.spark.SparkIllegalArgumentException", &["java.lang.IllegalArgumentException", RUNTIME]),
    ("org.apache.spark.SparkNoSuchElementException", &["java.util.NoSuchElementException", RUNTIME]),
    ("org.apache.spark.SparkUnsupportedOperationException", &["java.lang.UnsupportedOperationException", RUNTIME]),
    ("org.apache.spark.SparkClassNotFoundException", &["java.lang.ClassNotFoundException", "java.lang.ReflectiveOperationException"]),
    ("org.apache.spark.SparkSQLException", &["java.sql.SQLException"]),
    ("org.apache.spark.sql.connect.common.InvalidPlanInput", &[RUNTIME]),
    ("org.apache.spark.api.python.PythonException", &[RUNTIME]),
    (RUNTIME, &[]),
    ("java.lang.IllegalArgumentException", &[RUNTIME]),
    ("java.lang.NumberFormatException", &["java.lang.IllegalArgumentException", RUNTIME]),
    ("java.lang.IllegalStateException", &[RUNTIME]),
    ("java.lang.ArithmeticException", &[RUNTIME]),
    ("java.lang.UnsupportedOperationException", &[RUNTIME]),
    ("java.lang.ArrayIndexOutOfBoundsException", &["java.lang.IndexOutOfBoundsException", RUNTIME]),
    ("java.time.DateTimeException", &[RUNTIME]),
    ("java.util.NoSuchElementException", &[RUNTIME]),
    ("org.apache.spark.sql.pipelines.graph.TableMaterializationException", &[]),
    ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", &["java.lang.IllegalStateException", RUNTIME]),
    ("org.apache.avro.SchemaParseException", &["org.apache.avro.AvroRuntimeException", RUNTIME]),
    ("org.apache.spark.sql.avro.IncompatibleSchemaException", &[]),
    ("java.util.concurrent.ExecutionException", &[]),
];

const RUNTIME: &str = "java.lang.RuntimeException";

/// What Spark throws for a condition, or for every condition below a prefix that ends in a dot or underscore.
const THROWN: &[(&str, &[&str])] = &[
    (
        "org.apache.spark.sql.catalyst.parser.ParseException",
        &[
            "PARSE_",
            "_LEGACY_ERROR_TEMP_00",
            "INVALID_SQL_SYNTAX.",
            "INVALID_TYPED_LITERAL",
            "INVALID_TEMP_OBJ_QUALIFIER",
            "INVALID_NUMERIC_LITERAL_RANGE",
            "INVALID_IDENTIFIER",
            "INVALID_ESC",
            "INVALID_WINDOW_REFERENCE",
            "DUPLICATE_CLAUSES",
            "DUPLICATE_KEY",
            "REPETITIVE_WINDOW_DEFINITION",
            "UNCLOSED_BRACKETED_COMMENT",
            "UNSUPPORTED_DATATYPE",
            "DATATYPE_MISSING_SIZE",
            "INCOMPLETE_TYPE_DEFINITION.",
            "INVALID_STATEMENT_OR_CLAUSE",
            "UNSUPPORTED_FEATURE.LATERAL_JOIN_USING",
            "UNSUPPORTED_FEATURE.TRANSFORM_NON_HIVE",
        ],
    ),
    (
        "org.apache.spark.SparkArithmeticException",
        &[
            "DIVIDE_BY_ZERO",
            "REMAINDER_BY_ZERO",
            "ARITHMETIC_OVERFLOW",
            "BINARY_ARITHMETIC_OVERFLOW",
            "CAST_OVERFLOW",
            "CAST_OVERFLOW_IN_TABLE_INSERT",
            "NUMERIC_VALUE_OUT_OF_RANGE.",
            "NUMERIC_VALUE_OUT_OF_RANGE",
            "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
            "INTERVAL_ARITHMETIC_OVERFLOW.",
            "INTERVAL_DIVIDED_BY_ZERO",
            "DATETIME_OVERFLOW",
            "SUM_OF_LIMIT_AND_OFFSET_EXCEEDS_MAX_INT",
        ],
    ),
    (
        "org.apache.spark.SparkDateTimeException",
        &["CANNOT_PARSE_TIMESTAMP", "CANNOT_PARSE_TIME", "INVALID_FRACTION_OF_SECOND", "DATETIME_FIELD_OUT_OF_BOUNDS."],
    ),
    ("org.apache.spark.SparkArrayIndexOutOfBoundsException", &["INVALID_ARRAY_INDEX", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"]),
    ("org.apache.spark.SparkUpgradeException", &["INCONSISTENT_BEHAVIOR_CROSS_VERSION."]),
    (
        "org.apache.spark.SparkIllegalArgumentException",
        &[
            "_LEGACY_ERROR_TEMP_2047",
            "INVALID_CONF_VALUE.",
            "INVALID_DATETIME_PATTERN.",
            "INVALID_INTERVAL_FORMAT.",
            "INVALID_PARAMETER_VALUE.CHARSET",
            "INCORRECT_RAMP_UP_RATE",
            "INCORRECT_END_OFFSET",
        ],
    ),
    ("org.apache.spark.SparkNoSuchElementException", &["SQL_CONF_NOT_FOUND"]),
    ("org.apache.spark.SparkUnsupportedOperationException", &["UNSUPPORTED_CALL.", "UNSUPPORTED_FEATURE.TABLE_OPERATION"]),
    ("org.apache.spark.SparkClassNotFoundException", &["DATA_SOURCE_NOT_FOUND"]),
    ("org.apache.spark.SparkSQLException", &["INVALID_HANDLE.", "INVALID_CURSOR.", "INVALID_CLONE_SESSION_REQUEST.", "OPERATION_CANCELED"]),
    ("org.apache.spark.sql.connect.common.InvalidPlanInput", &["CONNECT_INVALID_PLAN.", "INVALID_PLAN_INPUT"]),
    ("org.apache.spark.api.python.PythonException", &["PYTHON_EXCEPTION"]),
    ("org.apache.spark.sql.streaming.StreamingQueryException", &["STREAM_FAILED"]),
    ("org.apache.spark.sql.pipelines.graph.TableMaterializationException", &["TableMaterializationException"]),
    (RUNTIME, &["RuntimeException"]),
    (
        "org.apache.spark.api.python.StreamingPythonRunner$StreamingPythonRunnerInitializationException",
        &["STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE"],
    ),
    (
        "org.apache.spark.SparkRuntimeException",
        &[
            "USER_RAISED_EXCEPTION",
            "INVALID_INDEX_OF_ZERO",
            "DUPLICATED_MAP_KEY",
            "NULL_MAP_KEY",
            "NOT_NULL_ASSERT_VIOLATION",
            "INVALID_PARAMETER_VALUE.",
            "MALFORMED_VARIANT",
            "INVALID_VARIANT_CAST",
            "INVALID_VARIANT_GET_PATH",
            "ARTIFACT_ALREADY_EXISTS",
        ],
    ),
    ("java.lang.IllegalArgumentException", &["UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"]),
    ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", &["KAFKA_", "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"]),
    ("java.util.concurrent.ExecutionException", &["UnknownTopicOrPartitionException"]),
    ("org.apache.avro.SchemaParseException", &["SchemaParseException"]),
    ("org.apache.spark.sql.avro.IncompatibleSchemaException", &["IncompatibleSchemaException"]),
    (
        "org.apache.spark.SparkException",
        &[
            "MALFORMED_RECORD_IN_PARSING.",
            "SCALAR_SUBQUERY_TOO_MANY_ROWS",
            "FAILED_READ_FILE.",
            "FAILED_EXECUTE_UDF",
            "TASK_WRITE_FAILED",
            "CATALOG_NOT_FOUND",
            "PIPELINE_STORAGE_ROOT_INVALID",
            "INTERNAL_ERROR",
        ],
    ),
];

fn covers(pattern: &str, code: &str) -> bool {
    if pattern.ends_with(['.', '_']) || pattern.starts_with("_LEGACY") { code.starts_with(pattern) } else { code == pattern }
}

/// The class that Spark throws for an error, and its parents.
pub(in crate::connect) fn hierarchy(error: &Error) -> Vec<&'static str> {
    let thrown = thrown(error);
    let parents = PARENTS.iter().find(|(class, _)| *class == thrown).map_or(&[][..], |(_, parents)| parents);
    [thrown].into_iter().chain(parents.iter().copied()).chain(THROWABLE.iter().copied()).collect()
}

fn thrown(error: &Error) -> &'static str {
    let code = error.code();
    if code == "CAST_INVALID_INPUT" {
        return of_cast(error.message());
    }
    if let Some((class, _)) = THROWN.iter().find(|(_, patterns)| patterns.iter().any(|pattern| covers(pattern, code))) {
        return class;
    }
    if code == "INVALID_OPTION_VALUE" {
        return "java.lang.IllegalArgumentException";
    }
    // A condition that is none, but the name of what Java's library throws.
    if code.ends_with("Exception") {
        let java = PARENTS.iter().map(|(class, _)| *class).filter(|class| class.starts_with("java."));
        return java.into_iter().find(|class| class.rsplit('.').next() == Some(code)).unwrap_or("org.apache.spark.SparkException");
    }
    match error.kind() {
        ErrorKind::Invalid => "org.apache.spark.sql.AnalysisException",
        ErrorKind::BadRecord => "org.apache.spark.SparkRuntimeException",
        _ => "org.apache.spark.SparkException",
    }
}

/// A bad cast throws what the target type's parser throws.
fn of_cast(message: &str) -> &'static str {
    let target = message.split("cannot be cast to \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    if target.starts_with("DATE") || target.starts_with("TIME") {
        "org.apache.spark.SparkDateTimeException"
    } else if target.starts_with("BOOLEAN") || target.starts_with("INTERVAL") {
        "org.apache.spark.SparkRuntimeException"
    } else {
        "org.apache.spark.SparkNumberFormatException"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_decides_the_class() {
        let bad_cast =
            |target: &str| Error::new(ErrorKind::BadRecord, "CAST_INVALID_INPUT", format!("'a' cannot be cast to \"{target}\" …"));
        let cases = [
            (Error::invalid("UNRESOLVED_COLUMN.WITH_SUGGESTION", ""), "org.apache.spark.sql.AnalysisException"),
            (Error::invalid("PARSE_SYNTAX_ERROR", ""), "org.apache.spark.sql.catalyst.parser.ParseException"),
            (Error::invalid("_LEGACY_ERROR_TEMP_0029", ""), "org.apache.spark.sql.catalyst.parser.ParseException"),
            (Error::invalid("_LEGACY_ERROR_TEMP_3102", ""), "org.apache.spark.sql.AnalysisException"),
            (Error::invalid("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", ""), "org.apache.spark.SparkArithmeticException"),
            (bad_cast("INT"), "org.apache.spark.SparkNumberFormatException"),
            (bad_cast("TIMESTAMP_NTZ"), "org.apache.spark.SparkDateTimeException"),
            (bad_cast("BOOLEAN"), "org.apache.spark.SparkRuntimeException"),
            (Error::invalid("IllegalArgumentException", ""), "java.lang.IllegalArgumentException"),
            (Error::invalid("SQL_CONF_NOT_FOUND", ""), "org.apache.spark.SparkNoSuchElementException"),
            (Error::new(ErrorKind::BadRecord, "USER_RAISED_EXCEPTION", ""), "org.apache.spark.SparkRuntimeException"),
            (Error::internal(""), "org.apache.spark.SparkException"),
            (Error::invalid("KAFKA_DATA_LOSS.PARTITIONS_DELETED", ""), "org.apache.spark.sql.kafka010.KafkaIllegalStateException"),
            (Error::invalid("UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", ""), "java.lang.IllegalArgumentException"),
        ];
        for (error, class) in cases {
            assert_eq!(hierarchy(&error)[0], class, "{}", error.code());
        }
    }

    #[test]
    fn parents_come_before_the_end_of_every_hierarchy() {
        let classes = hierarchy(&Error::invalid("CANNOT_PARSE_TIMESTAMP", ""));
        assert_eq!(
            classes,
            [
                "org.apache.spark.SparkDateTimeException",
                "java.time.DateTimeException",
                "java.lang.RuntimeException",
                "java.lang.Exception",
                "java.lang.Throwable",
                "java.lang.Object"
            ]
        );
    }
}
