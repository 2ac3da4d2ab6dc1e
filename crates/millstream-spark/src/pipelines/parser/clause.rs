//! The clauses between the name of a dataset and its query.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::statement::{Clustering, Column, DatasetDefinition, DatasetKind, Expectation, OnViolation};
use super::{Reader, Session};
use crate::sql::parse::placed_condition;
use crate::sql::{Cursor, Diagnostic, Position, property_list};
use crate::types::{column_type, same_name_twice};

/// Which clauses were there already.
#[derive(Debug, Default)]
pub(super) struct Clauses(Vec<&'static str>);

impl Clauses {
    fn first(&mut self, name: &'static str, position: &Position) -> Result<(), Diagnostic> {
        if self.0.contains(&name) {
            let message = format!("clause {name} is there twice");
            return Err(Diagnostic::new("DUPLICATE_CLAUSES", "42614", position.clone(), message).with_hint("keep one of them"));
        }
        self.0.push(name);
        Ok(())
    }
}

/// Words that begin a clause, where the clause before it has no fixed length.
const BEGINNINGS: &[&str] =
    &["AS", "CLUSTER", "COMMENT", "FLOW", "PARTITIONED", "REFRESH", "SCHEDULE", "TBLPROPERTIES", "TRIGGER", "USING", "WITH"];

impl Session {
    /// Reads one clause. `true` when it was the query, which is the last.
    pub(super) fn clause(
        &mut self,
        cursor: &mut Reader<'_>,
        dataset: &mut DatasetDefinition,
        clauses: &mut Clauses,
    ) -> Result<bool, Diagnostic> {
        let position = cursor.position();
        let table = dataset.kind != DatasetKind::TemporaryView;
        let streaming = dataset.kind == DatasetKind::StreamingTable;
        if cursor.peek() == Some(&Token::LParen) {
            clauses.first("(columns)", &position)?;
            self.columns(cursor, dataset)?;
        } else if cursor.eat(&["COMMENT"]) {
            clauses.first("COMMENT", &position)?;
            dataset.comment = Some(cursor.string("the comment as a string")?);
        } else if cursor.eat(&["TBLPROPERTIES"]) {
            clauses.first("TBLPROPERTIES", &position)?;
            dataset.properties = property_list(cursor)?.into_iter().map(|(key, value, _)| (key, value)).collect();
        } else if table && cursor.eat(&["USING"]) {
            clauses.first("USING", &position)?;
            let position = cursor.position();
            let format = cursor.identifier("the format")?.value;
            if !format.eq_ignore_ascii_case("delta") {
                return Err(Diagnostic::unsupported(position, format!("tables of a pipeline are Delta tables, and not {format}"))
                    .with_hint("leave USING out"));
            }
        } else if table && cursor.eat(&["PARTITIONED", "BY"]) {
            clauses.first("PARTITIONED BY", &position)?;
            dataset.partition_by = partition_columns(cursor)?;
        } else if table && cursor.eat(&["CLUSTER", "BY"]) {
            clauses.first("CLUSTER BY", &position)?;
            dataset.clustering = Some(clustering(cursor)?);
            self.note(position, "CLUSTER BY is accepted and does not order the rows yet");
        } else if table && (cursor.is("SCHEDULE") || cursor.is("TRIGGER")) {
            clauses.first("SCHEDULE", &position)?;
            cursor.advance();
            while let Some(token) = cursor.peek() {
                let begins = BEGINNINGS.iter().any(|word| cursor.is(word)) && !cursor.are(&["REFRESH", "EVERY"]);
                if begins || matches!(token, Token::LParen) {
                    break;
                }
                cursor.advance();
            }
            self.note(position, "SCHEDULE is accepted and has no effect: the pipeline runs when it is started");
        } else if table && cursor.eat(&["REFRESH", "POLICY"]) {
            clauses.first("REFRESH POLICY", &position)?;
            let policy = cursor.identifier("AUTO, FULL or INCREMENTAL")?.value.to_ascii_uppercase();
            match policy.as_str() {
                "AUTO" | "FULL" => {}
                "INCREMENTAL" if cursor.is("STRICT") => {
                    return Err(Diagnostic::unsupported(
                        cursor.position(),
                        "REFRESH POLICY INCREMENTAL STRICT: materialized views are computed whole",
                    )
                    .with_hint("use REFRESH POLICY AUTO"));
                }
                "INCREMENTAL" => {}
                _ => {
                    return Err(Diagnostic::syntax(position, format!("there is no REFRESH POLICY {policy}"))
                        .with_hint("use AUTO, FULL or INCREMENTAL"));
                }
            }
            self.note(position, "REFRESH POLICY is accepted; materialized views are computed whole");
        } else if cursor.eat(&["AS"]) {
            dataset.query = Some(self.query(cursor)?);
            return Ok(true);
        } else if streaming && cursor.eat(&["FLOW"]) {
            let (query, once) = self.inline_flow(cursor)?;
            (dataset.query, dataset.once) = (Some(query), once);
            return Ok(true);
        } else if let Some(refused) = REFUSED.iter().find(|(words, ..)| cursor.are(words)) {
            let (words, reason, hint) = *refused;
            return Err(Diagnostic::unsupported(position, format!("{} {reason}", words.join(" "))).with_hint(hint));
        } else {
            return Err(cursor.expected("a clause or AS"));
        }
        Ok(false)
    }

    /// `( column type …, CONSTRAINT … )`.
    fn columns(&mut self, cursor: &mut Reader<'_>, dataset: &mut DatasetDefinition) -> Result<(), Diagnostic> {
        cursor.expect_token(&Token::LParen)?;
        loop {
            let position = cursor.position();
            // A column may have the word for a name.
            let constraint = cursor.is("CONSTRAINT") && ["EXPECT", "PRIMARY", "FOREIGN", "CHECK"].iter().any(|word| cursor.nth_is(2, word));
            if constraint && cursor.nth_is(2, "EXPECT") {
                let expectation = expectation(cursor)?;
                if dataset.expectations.iter().any(|known| known.name.eq_ignore_ascii_case(&expectation.name)) {
                    let message = format!("expectation '{}' is there twice", expectation.name);
                    return Err(Diagnostic::new("DUPLICATE_CONSTRAINT", "42710", position, message).with_hint("give each its own name"));
                }
                dataset.expectations.push(expectation);
            } else if constraint || cursor.are(&["PRIMARY", "KEY"]) || cursor.are(&["FOREIGN", "KEY"]) {
                self.key_constraint(cursor)?;
            } else {
                let column = column(cursor, dataset.kind)?;
                if let Some(fault) = same_name_twice(dataset.columns.iter().map(|column| column.name.as_str()), &column.name, &position) {
                    return Err(fault);
                }
                dataset.columns.push(column);
            }
            if !cursor.eat_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)
    }

    /// `[CONSTRAINT name] PRIMARY KEY (…)` or `FOREIGN KEY (…) REFERENCES …`: informational.
    fn key_constraint(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Diagnostic> {
        let position = cursor.position();
        if cursor.eat(&["CONSTRAINT"]) {
            cursor.identifier("the constraint's name")?;
        }
        if !(cursor.are(&["PRIMARY", "KEY"]) || cursor.are(&["FOREIGN", "KEY"])) {
            return Err(cursor.expected("EXPECT, PRIMARY KEY or FOREIGN KEY"));
        }
        loop {
            match cursor.peek() {
                Some(Token::LParen) => drop(cursor.parenthesized()?),
                Some(Token::Comma | Token::RParen) | None => break,
                _ => drop(cursor.advance()),
            }
        }
        self.note(position, "keys are informational and not enforced");
        Ok(())
    }
}

type Refused = (&'static [&'static str], &'static str, &'static str);

const REFUSED: &[Refused] = &[
    (&["LOCATION"], "is not allowed in a pipeline: tables are stored under the pipeline's storage", "leave it out"),
    (&["OPTIONS"], "is not allowed in a pipeline", "use TBLPROPERTIES"),
    (&["WITH", "ROW"], "FILTER is not supported: nothing would hide the rows", "leave the rows out in the query"),
    (&["ROW", "FILTER"], "is not supported: nothing would hide the rows", "leave the rows out in the query"),
    (&["DEFAULT", "COLLATION"], "is not supported", "leave it out; strings are compared by their bytes"),
    (&["CONSTRAINT"], "belongs into the parentheses after the name", "write t (CONSTRAINT name EXPECT (condition)) AS …"),
    (&["USING"], "does not belong to a view", "leave it out"),
    (&["PARTITIONED"], "BY does not belong to a view", "leave it out"),
    (&["CLUSTER"], "BY does not belong to a view", "leave it out"),
    (&["SCHEDULE"], "does not belong to a view", "leave it out"),
    (&["FLOW"], "belongs to a streaming table", "write AS before the query"),
];

fn column(cursor: &mut Cursor<'_>, kind: DatasetKind) -> Result<Column, Diagnostic> {
    let position = cursor.position();
    let name = cursor.identifier("a column's name or CONSTRAINT")?.value;
    let only_name = matches!(cursor.peek(), Some(Token::Comma | Token::RParen)) || cursor.is("COMMENT");
    if only_name && kind != DatasetKind::StreamingTable {
        let comment = if cursor.eat(&["COMMENT"]) { Some(cursor.string("the comment as a string")?) } else { None };
        return Ok(Column { name, position, field: None, comment });
    }
    let field = column_type(cursor, &name)?;
    for (words, what) in [
        (&["GENERATED"] as &[&str], "generated columns"),
        (&["DEFAULT"], "default values"),
        (&["MASK"], "column masks"),
        (&["PRIMARY", "KEY"], "keys at a column"),
    ] {
        if cursor.are(words) {
            return Err(Diagnostic::unsupported(cursor.position(), format!("{what} are not supported"))
                .with_hint("compute the column in the query"));
        }
    }
    let comment = field.metadata().get(crate::types::COMMENT).cloned();
    Ok(Column { name, position, field: Some(field), comment })
}

/// `CONSTRAINT name EXPECT (condition) [ON VIOLATION DROP ROW | FAIL UPDATE]`.
fn expectation(cursor: &mut Reader<'_>) -> Result<Expectation, Diagnostic> {
    cursor.expect(&["CONSTRAINT"])?;
    let position = cursor.position();
    let name = cursor.identifier("the expectation's name")?.value;
    cursor.expect(&["EXPECT"])?;
    let opening = cursor.position();
    let text = cursor.in_brackets()?;
    if text.tokens().is_empty() {
        return Err(Diagnostic::syntax(opening, "expected an expression between the brackets"));
    }
    let condition = placed_condition(&text)?;
    let on_violation = if !cursor.eat(&["ON", "VIOLATION"]) {
        OnViolation::Keep
    } else if cursor.eat(&["DROP", "ROW"]) {
        OnViolation::DropRow
    } else if cursor.eat(&["FAIL", "UPDATE"]) {
        OnViolation::FailUpdate
    } else {
        return Err(cursor.expected("DROP ROW or FAIL UPDATE"));
    };
    Ok(Expectation { name, position, condition, text, on_violation })
}

fn partition_columns(cursor: &mut Cursor<'_>) -> Result<Vec<(String, Position)>, Diagnostic> {
    cursor.expect_token(&Token::LParen)?;
    let mut columns: Vec<(String, Position)> = Vec::new();
    loop {
        let position = cursor.position();
        let name = cursor.identifier("a column's name")?.value;
        if cursor.peek() == Some(&Token::LParen) {
            return Err(
                Diagnostic::unsupported(position, format!("partitioning by {name}(…)")).with_hint("compute the column in the query")
            );
        }
        if let Some(fault) = same_name_twice(columns.iter().map(|(name, _)| name.as_str()), &name, &position) {
            return Err(fault);
        }
        columns.push((name, position));
        if !cursor.eat_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(columns)
}

fn clustering(cursor: &mut Cursor<'_>) -> Result<Clustering, Diagnostic> {
    if cursor.eat(&["AUTO"]) {
        return Ok(Clustering::Auto);
    }
    if cursor.eat(&["NONE"]) {
        return Ok(Clustering::None);
    }
    partition_columns(cursor).map(|columns| Clustering::Columns(columns.into_iter().map(|(name, _)| name).collect()))
}
