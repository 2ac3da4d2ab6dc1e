//! Spark SQL text as unresolved plans: the messages that a Connect client would send for the same thing.
//!
//! Where the protocol has no message for something that SQL can say, the plan says it like this:
//!
//! | SQL | plan |
//! |---|---|
//! | `SELECT … GROUP BY …` | `Aggregate` whose `group_type` is unspecified: its columns are those of `aggregate_expressions` and no others; sets of `GROUPING SETS`, `ROLLUP` and `CUBE` are written out in `grouping_sets`; `GROUP BY ALL` is the column `ALL` |
//! | `SELECT DISTINCT` | the same, grouped by `*` and giving `*` |
//! | `HAVING`, `QUALIFY` | a `Filter` right above, whose condition may have aggregates or window functions |
//! | `f(…) FILTER (WHERE c)`, `WITHIN GROUP (ORDER BY …)`, `IGNORE NULLS` | calls of `__filter`, `__within_group` and `__ignore_nulls` around the call of `f` |
//! | `* EXCEPT (a, b)` | a call of `star except` of the star and the columns |
//! | `NATURAL JOIN` | a join using the one column `*` |
//! | common table expressions | `WithRelations` with the queries under their names |
//! | subqueries in expressions | `WithRelations` with the queries under negative plan ids |
//! | `LATERAL VIEW` | `LateralJoin` with a table function |
//! | `t VERSION AS OF v`, `TIMESTAMP AS OF x` | the options `versionAsOf` and `timestampAsOf` of the table |
//! | `TIMESTAMP '…'` without a zone | a cast with the evaluation mode `ANSI` |
//! | `VALUES` | `LocalRelation` if all is literal, otherwise the table function `inline` |
//! | `CURRENT_DATE`, `USER` and their like without brackets | columns of that name, which are calls where there is no such column |
//! | the columns that `PIVOT` groups by | `star except` of the columns that it mentions |
//!
//! Operators that Spark names by themselves and not by their function (`-a`, `a << 1`, `(a, b)`) are calls with `is_internal`.

mod expression;
mod interval;
mod lexer;
mod number;
mod parser;
mod proto;
mod query;
mod statement;
mod temporal;

use std::collections::HashMap;

use datafusion::sql::sqlparser::tokenizer::Token;
use millstream_core::{Error, Result};
use spark_connect_proto::{Expression, Relation};

use super::{Diagnostic, Fragment};
use parser::Parser;

pub(crate) use lexer::{SHIFT_RIGHT_UNSIGNED, lex};
pub(crate) use parser::Place;
pub(crate) use statement::*;

/// What `:name` and `?` stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a> {
    named: &'a HashMap<String, Expression>,
    positional: &'a [Expression],
}

/// Reads an expression, which may have an alias. Its subqueries, if there are any, are relations with the plan ids that the expression
/// names.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`, `FAILED_TO_PARSE_TOO_COMPLEX`, and conditions of literals and types.
pub(crate) fn expression_with_subqueries(text: &str) -> Result<(Expression, Vec<Relation>)> {
    let named = HashMap::new();
    let arguments = Arguments { named: &named, positional: &[] };
    not_empty(text)?;
    Ok(parser::parse(text, &arguments, |parser| {
        let expression = parser.named_expression()?;
        Ok((expression, std::mem::take(&mut parser.subqueries)))
    })?)
}

/// Reads an expression, which may have an alias.
///
/// # Errors
/// As [`expression_with_subqueries`]; `UNSUPPORTED_FEATURE` if it has subqueries.
pub(crate) fn expression(text: &str) -> Result<Expression> {
    match expression_with_subqueries(text)? {
        (expression, subqueries) if subqueries.is_empty() => Ok(expression),
        _ => Err(Error::invalid("UNSUPPORTED_FEATURE", format!("the subquery in '{text}' has no plan around it")).with_sqlstate("0A000")),
    }
}

/// Reads a query with its parameters.
///
/// # Errors
/// As [`expression_with_subqueries`], `UNBOUND_SQL_PARAMETER`, and those of the clauses.
pub(crate) fn relation(text: &str, named: &HashMap<String, Expression>, positional: &[Expression]) -> Result<Relation> {
    not_empty(text)?;
    Ok(parser::parse(text, &Arguments { named, positional }, |parser| {
        let query = parser.query()?;
        parser.cursor.eat_token(&Token::SemiColon);
        Ok(query)
    })?)
}

/// Reads a statement with its parameters.
///
/// # Errors
/// As [`relation`].
pub(crate) fn statement(text: &str, named: &HashMap<String, Expression>, positional: &[Expression]) -> Result<Statement> {
    not_empty(text)?;
    Ok(parser::parse(text, &Arguments { named, positional }, |parser| {
        let statement = parser.statement()?;
        parser.cursor.eat_token(&Token::SemiColon);
        Ok(statement)
    })?)
}

/// Reads a statement of a pipeline's file. What is wrong with the meaning of a text whose grammar is right comes beside it: it is the fault of
/// the query, and found when that is resolved. Functions that open Spark does not have are faults, too.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`, `FAILED_TO_PARSE_TOO_COMPLEX`.
pub(crate) fn pipeline_statement(text: &str) -> Result<(PipelineStatement, Option<Error>)> {
    let named = HashMap::new();
    not_empty(text)?;
    let arguments = Arguments { named: &named, positional: &[] };
    let (statement, fault) = parser::parse_with_fault(text, &arguments, |parser| {
        parser.open_spark = true;
        parser.pipeline_statement()
    })?;
    Ok((statement, fault.map(Error::from)))
}

/// Reads the query of a pipeline's file. Gives the places where it names what it reads, too: each such leaf of the plan has the option
/// [`LEAF`](super::relation::LEAF), which is the number of its place.
///
/// # Errors
/// As [`relation`], at places of the file.
pub(crate) fn placed_query(fragment: &Fragment) -> Result<(Relation, Vec<Place>), Diagnostic> {
    placed(fragment, |parser| {
        parser.places = Some(Vec::new());
        let query = parser.query()?;
        Ok((query, parser.places.take().unwrap_or_default()))
    })
}

/// Reads a condition of a pipeline's file.
///
/// # Errors
/// As [`expression`], at places of the file.
pub(crate) fn placed_condition(fragment: &Fragment) -> Result<Expression, Diagnostic> {
    let (condition, subqueries) = placed(fragment, |parser| {
        let condition = parser.expression()?;
        Ok((condition, std::mem::take(&mut parser.subqueries)))
    })?;
    match subqueries.is_empty() {
        true => Ok(condition),
        false => Err(Diagnostic::unsupported(fragment.position(), "a subquery in a condition over the rows of a table")),
    }
}

fn placed<T>(fragment: &Fragment, read: impl FnOnce(&mut Parser<'_>) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
    let named = HashMap::new();
    let arguments = Arguments { named: &named, positional: &[] };
    parser::parse_fragment(fragment, &arguments, read)
}

/// Cuts a name at its dots: `` a.`b.c` `` has two parts.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`.
pub(crate) fn multipart_identifier(text: &str) -> Result<Vec<String>> {
    let named = HashMap::new();
    not_empty(text)?;
    Ok(parser::parse(text, &Arguments { named: &named, positional: &[] }, |parser: &mut Parser<'_>| parser.names("a name"))?)
}

fn not_empty(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid("PARSE_EMPTY_STATEMENT", "the text is empty").with_sqlstate("42617"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
