//! The options of the formats, and Spark's conditions for wrong ones.

use millstream_core::options::OptionKind;
use millstream_core::{Error, OptionSpec};

const PATH: OptionSpec =
    OptionSpec { name: "path", kind: OptionKind::Text, default: None, doc: "The checkpoint of the query: a folder or a URL." };

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Text, default, doc }
}

/// Options of `statestore`. Numbers are texts here because their errors are Spark's.
pub(super) const STATE_STORE: &[OptionSpec] = &[
    PATH,
    text("batchId", None, "The batch after which the state is read; the last committed one by default."),
    text("operatorId", Some("0"), "The operator, counted from the top of the plan down."),
    text(
        "storeName",
        Some("default"),
        "The store of the operator: of joins `left-keyToNumValues`, `left-keyWithIndexToValue` and the same of the right.",
    ),
    text("joinSide", Some("none"), "The side of a join whose rows are read: left or right."),
    text(
        "snapshotStartBatchId",
        None,
        "The batch of a snapshot to begin with; state here is always read from its newest snapshot, so it only has to be there.",
    ),
    text("snapshotPartitionId", None, "The partition to read with snapshotStartBatchId."),
    text("readChangeFeed", Some("false"), "Whether to read what each batch changed instead of the state after one."),
    text("changeStartBatchId", None, "The first batch of the changes."),
    text("changeEndBatchId", None, "The last batch of the changes; the last committed one by default."),
    text("stateVarName", None, "The state variable of a transformWithState operator."),
    text("readRegisteredTimers", Some("false"), "Whether to read the timers of a transformWithState operator."),
    text("flattenCollectionTypes", Some("true"), "Whether lists and maps of a transformWithState operator give a row for each element."),
];

/// Options of `state-metadata`.
pub(super) const STATE_METADATA: &[OptionSpec] = &[PATH];

/// An option that must be given is not.
pub(super) fn unspecified(option: &str) -> Error {
    Error::invalid("STDS_REQUIRED_OPTION_UNSPECIFIED", format!("'{option}' must be specified")).with_sqlstate("42601")
}

/// Two options that exclude each other are given.
pub(super) fn conflict(options: &[&str]) -> Error {
    let all: Vec<String> = options.iter().map(|option| format!("'{option}'")).collect();
    Error::invalid("STDS_CONFLICT_OPTIONS", format!("the options {} cannot be specified together", all.join(", "))).with_sqlstate("42613")
}

/// A number that must not be negative is.
pub(super) fn negative(option: &str) -> Error {
    Error::invalid("STDS_INVALID_OPTION_VALUE.IS_NEGATIVE", format!("the value of '{option}' cannot be negative")).with_sqlstate("42616")
}

/// A text that must not be empty is.
pub(super) fn empty(option: &str) -> Error {
    Error::invalid("STDS_INVALID_OPTION_VALUE.IS_EMPTY", format!("the value of '{option}' cannot be empty")).with_sqlstate("42616")
}

/// An option has a value that means nothing.
pub(super) fn wrong(option: &str, why: &str) -> Error {
    Error::invalid("STDS_INVALID_OPTION_VALUE.WITH_MESSAGE", format!("the value of '{option}' is wrong: {why}")).with_sqlstate("42616")
}

/// Nothing was committed.
pub(super) fn no_batch(checkpoint: &str) -> Error {
    Error::invalid("STDS_COMMITTED_BATCH_UNAVAILABLE", format!("no committed batch was found in the checkpoint {checkpoint}"))
        .with_sqlstate("KD006")
}
