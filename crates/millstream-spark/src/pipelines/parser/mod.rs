//! Reads a file of pipeline statements, in both dialects.
//!
//! | statement | open Spark 4.2 | Databricks |
//! |---|---|---|
//! | `CREATE STREAMING TABLE`, `CREATE MATERIALIZED VIEW`, `CREATE TEMPORARY VIEW`, `CREATE FLOW`, `SET`, `USE` | yes | yes |
//! | `OR REFRESH`, `PRIVATE`, `CONSTRAINT … EXPECT`, `INSERT INTO ONCE`, `FLOW INSERT …` | no | yes |
//! | `SCHEDULE`, `REFRESH POLICY`, `LIVE` | no | yes |
//!
//! A statement that is wrong does not hide the faults of the next one: all faults of a file are reported together.

mod clause;
mod create;
mod setting;
mod statement;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::sql::{Cursor, Diagnostic, Fragment, SourceFile, Variables};

pub use statement::{Clustering, Column, DatasetDefinition, DatasetKind, Definition, Expectation, FlowDefinition, OnViolation, Settings};

/// What a file defines.
#[derive(Clone, Debug, Default)]
pub struct ParsedFile {
    /// Datasets and flows, in the order of the text.
    pub definitions: Vec<Definition>,
    /// Clauses that are accepted and have no effect.
    pub notes: Vec<Diagnostic>,
    /// Everything that is wrong.
    pub faults: Vec<Diagnostic>,
}

/// Reads one file. `variables` are those given from outside; `SET` in the file comes on top of them, for this file only.
pub fn parse(file: &Arc<SourceFile>, variables: &Variables) -> ParsedFile {
    let mut parsed = ParsedFile::default();
    let mut session = Session { variables: variables.clone(), settings: Settings::default(), notes: Vec::new() };
    for range in file.statements() {
        let outcome = file.tokens(range, &session.variables).and_then(|tokens| {
            let statement = Fragment::new(file.clone(), Arc::new(tokens));
            session.statement(&statement)
        });
        match outcome {
            Ok(definitions) => parsed.definitions.extend(definitions),
            Err(fault) => parsed.faults.push(fault),
        }
    }
    parsed.notes = session.notes;
    parsed
}

/// What earlier statements of the file have set for the later ones.
struct Session {
    variables: Variables,
    settings: Settings,
    notes: Vec<Diagnostic>,
}

impl Session {
    fn statement(&mut self, statement: &Fragment) -> Result<Vec<Definition>, Diagnostic> {
        let cursor = &mut Reader { cursor: statement.cursor(), statement };
        let position = cursor.position();
        let definitions = if cursor.is("CREATE") {
            self.create(cursor)?
        } else if cursor.is("SET") {
            self.set(cursor)?;
            Vec::new()
        } else if cursor.is("USE") {
            self.use_namespace(cursor)?;
            Vec::new()
        } else if cursor.are(&["APPLY", "CHANGES"]) {
            return Err(auto_cdc(cursor));
        } else {
            return Err(not_of_a_pipeline(position, &format!("a statement that begins with {}", cursor.found())));
        };
        if cursor.at_end() { Ok(definitions) } else { Err(cursor.expected("the end of the statement")) }
    }

    fn note(&mut self, position: crate::sql::Position, message: &str) {
        self.notes.push(Diagnostic::new("CLAUSE_WITHOUT_EFFECT", "01000", position, message));
    }
}

/// Reads a statement, parts of which are kept as they are.
struct Reader<'a> {
    cursor: Cursor<'a>,
    statement: &'a Fragment,
}

impl<'a> Deref for Reader<'a> {
    type Target = Cursor<'a>;

    fn deref(&self) -> &Cursor<'a> {
        &self.cursor
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.cursor
    }
}

impl Reader<'_> {
    /// Everything that was not read yet.
    fn remainder(&mut self) -> Fragment {
        let start = self.mark();
        self.rest();
        self.statement.between(start, self.mark())
    }

    /// Reads `( … )` and gives what is inside.
    fn in_brackets(&mut self) -> Result<Fragment, Diagnostic> {
        let start = self.mark();
        self.parenthesized()?;
        Ok(self.statement.between(start + 1, self.mark() - 1))
    }
}

fn not_of_a_pipeline(position: crate::sql::Position, what: &str) -> Diagnostic {
    Diagnostic::new("PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", "42000", position, format!("{what} is not allowed in a pipeline"))
        .with_hint("use CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE FLOW … AS INSERT INTO, SET or USE")
}

fn auto_cdc(cursor: &Cursor<'_>) -> Diagnostic {
    Diagnostic::unsupported(cursor.position(), "AUTO CDC (APPLY CHANGES) is not supported yet")
        .with_hint("append the changes to a streaming table, and compute the newest row per key in a materialized view")
}

#[cfg(test)]
mod tests;
