//! AUTO CDC: changes of rows, in any order, applied to a table that holds the newest state of each (SCD type 1).
//!
//! The table has a column beside its own that tells the sequence of a row's last change; a table beside it keeps the sequences of keys that
//! were deleted, so that a change that comes late does not bring a row back. Both are compared with every batch, so that a batch that is
//! applied twice changes nothing.

mod apply;
mod shape;

use millstream_core::{Error, Result};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::pipeline_command::define_flow::{AutoCdcFlowDetails, ScdType};
use spark_connect_proto::{Expression, Relation};

use crate::analyzer::name_parts;

pub(super) use apply::CdcSink;
pub(super) use shape::{check_side_table, shaped, side_table};

/// What the names of AUTO CDC's own columns and tables begin with.
pub(super) const RESERVED: &str = "__spark_autocdc_";

/// The column of a row's sequences, a struct of [`DELETED`] and [`UPSERTED`].
pub(super) const METADATA: &str = "__spark_autocdc_metadata";

/// The field of the sequence at which a row was deleted.
const DELETED: &str = "deleteSequence";

/// The field of the sequence at which a row got its values.
const UPSERTED: &str = "upsertSequence";

/// A flow that applies changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AutoCdc {
    /// The stream of changes.
    pub(super) source: Relation,
    /// The columns that tell rows apart.
    pub(super) keys: Vec<String>,
    /// What orders the changes of a row.
    pub(super) sequence: Expression,
    /// Whether a change removes its row.
    pub(super) deletes: Option<Expression>,
    /// Which columns of the changes the table has.
    pub(super) columns: Columns,
}

/// A choice of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// All.
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl AutoCdc {
    /// Reads a definition.
    ///
    /// # Errors
    /// `AUTOCDC_*` for what is missing, for expressions in the places of columns, and for what is not supported.
    pub(super) fn of(details: AutoCdcFlowDetails, flow: &str) -> Result<AutoCdc> {
        let scd_type = details.stored_as_scd_type();
        let lacks = |code: &'static str, what: &str| {
            Err(Error::invalid(code, format!("AUTO CDC flow '{flow}' has no {what}")).with_sqlstate("22023"))
        };
        let Some(source) = details.source.filter(|source| !source.is_empty()) else {
            return lacks("AUTOCDC_MISSING_SOURCE", "source of changes");
        };
        if details.keys.is_empty() {
            return lacks("AUTOCDC_EMPTY_KEYS", "keys: name the columns that tell rows apart");
        }
        let Some(sequence) = details.sequence_by else {
            return lacks("AUTOCDC_MISSING_SEQUENCE_BY", "sequence: name what orders the changes of a row");
        };
        let refuse = |what: &str| {
            let message = format!("The feature is not supported: {what} in AUTO CDC flow '{flow}'.");
            Err(Error::invalid("UNSUPPORTED_FEATURE.NOT_IN_MILLSTREAM", message).with_sqlstate("0A000"))
        };
        if scd_type == ScdType::ScdType2 {
            let message = format!("AUTO CDC flow '{flow}' asks for SCD type 2: only type 1 is supported");
            return Err(Error::invalid("AUTOCDC_SCD2_NOT_SUPPORTED", message).with_sqlstate("0A000"));
        }
        if details.apply_as_truncates.is_some() {
            return refuse("APPLY AS TRUNCATE");
        }
        if !details.ignore_null_updates_column_list.is_empty() || !details.ignore_null_updates_except_column_list.is_empty() {
            return refuse("IGNORE NULL UPDATES");
        }
        if !details.track_history_column_list.is_empty() || !details.track_history_except_column_list.is_empty() {
            return refuse("TRACK HISTORY");
        }
        let names = |columns: &[Expression]| columns.iter().map(|column| column_name(column, flow)).collect::<Result<Vec<_>>>();
        let (only, except) = (names(&details.column_list)?, names(&details.except_column_list)?);
        let columns = match (only.is_empty(), except.is_empty()) {
            (false, false) => {
                let message = format!("AUTO CDC flow '{flow}' has a list of columns and a list of columns to leave out: give one of them");
                return Err(Error::invalid("AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST", message).with_sqlstate("42613"));
            }
            (false, true) => Columns::Only(only),
            (true, false) => Columns::Except(except),
            (true, true) => Columns::All,
        };
        Ok(AutoCdc { source: stream_of(&source), keys: names(&details.keys)?, sequence, deletes: details.apply_as_deletes, columns })
    }
}

/// A table read as a stream.
fn stream_of(name: &str) -> Relation {
    use spark_connect_proto::relation::RelType;
    use spark_connect_proto::{Read, read};
    let table = read::NamedTable { unparsed_identifier: name.to_owned(), ..Default::default() };
    Relation {
        common: None,
        rel_type: Some(RelType::Read(Read { is_streaming: true, read_type: Some(read::ReadType::NamedTable(table)) })),
    }
}

/// The name of a column.
fn column_name(column: &Expression, flow: &str) -> Result<String> {
    let Some(ExprType::UnresolvedAttribute(attribute)) = &column.expr_type else {
        let message = format!("AUTO CDC flow '{flow}' has an expression where the name of a column belongs");
        return Err(Error::invalid("AUTOCDC_NON_COLUMN_IDENTIFIER", message).with_sqlstate("22023"));
    };
    match name_parts(&attribute.unparsed_identifier)?.as_slice() {
        [name] => Ok(name.clone()),
        _ => {
            let message = format!(
                "AUTO CDC flow '{flow}' names the column '{}': give it without the names of tables or structs",
                attribute.unparsed_identifier
            );
            Err(Error::invalid("AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", message).with_sqlstate("22023"))
        }
    }
}

#[cfg(test)]
mod tests {
    use spark_connect_proto::expression::UnresolvedAttribute;

    use super::*;

    fn column(name: &str) -> Expression {
        let attribute = UnresolvedAttribute { unparsed_identifier: name.to_owned(), ..UnresolvedAttribute::default() };
        Expression { common: None, expr_type: Some(ExprType::UnresolvedAttribute(attribute)) }
    }

    #[test]
    fn definitions_are_checked_before_anything_is_resolved() {
        let whole = AutoCdcFlowDetails {
            source: Some("s".into()),
            keys: vec![column("k")],
            sequence_by: Some(column("n")),
            ..AutoCdcFlowDetails::default()
        };
        assert_eq!(AutoCdc::of(whole.clone(), "f").unwrap().keys, ["k"]);
        let cases: [(AutoCdcFlowDetails, &str); 7] = [
            (AutoCdcFlowDetails { source: None, ..whole.clone() }, "AUTOCDC_MISSING_SOURCE"),
            (AutoCdcFlowDetails { keys: vec![], ..whole.clone() }, "AUTOCDC_EMPTY_KEYS"),
            (AutoCdcFlowDetails { sequence_by: None, ..whole.clone() }, "AUTOCDC_MISSING_SEQUENCE_BY"),
            (AutoCdcFlowDetails { keys: vec![column("a.b")], ..whole.clone() }, "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER"),
            (AutoCdcFlowDetails { keys: vec![Expression::default()], ..whole.clone() }, "AUTOCDC_NON_COLUMN_IDENTIFIER"),
            (AutoCdcFlowDetails { stored_as_scd_type: ScdType::ScdType2.into(), ..whole.clone() }, "AUTOCDC_SCD2_NOT_SUPPORTED"),
            (
                AutoCdcFlowDetails { column_list: vec![column("a")], except_column_list: vec![column("b")], ..whole },
                "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST",
            ),
        ];
        for (details, code) in cases {
            assert_eq!(AutoCdc::of(details, "f").unwrap_err().code(), code);
        }
    }
}
