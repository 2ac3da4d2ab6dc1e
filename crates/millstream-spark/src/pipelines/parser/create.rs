//! `CREATE …`.

use std::collections::BTreeMap;

use super::clause::Clauses;
use super::statement::{DatasetDefinition, DatasetKind, Definition, FlowDefinition};
use super::{Reader, Session, auto_cdc, not_of_a_pipeline};
use crate::pipelines::name::TableName;
use crate::sql::{Cursor, Diagnostic, Fragment, Position};

impl Session {
    pub(super) fn create(&mut self, cursor: &mut Reader<'_>) -> Result<Vec<Definition>, Diagnostic> {
        let start = cursor.position();
        cursor.expect(&["CREATE"])?;
        let replaces = cursor.eat(&["OR", "REFRESH"]) || cursor.eat(&["OR", "REPLACE"]);
        let private = cursor.eat(&["PRIVATE"]);
        if cursor.is("FLOW") && !replaces && !private {
            return Ok(vec![Definition::Flow(Box::new(self.flow(cursor)?))]);
        }
        let temporary = cursor.eat(&["TEMPORARY"]) || cursor.eat(&["TEMP"]);
        let kind = if cursor.eat(&["STREAMING", "TABLE"]) || cursor.eat(&["STREAMING", "LIVE", "TABLE"]) {
            DatasetKind::StreamingTable
        } else if cursor.eat(&["MATERIALIZED", "VIEW"]) || cursor.eat(&["LIVE", "TABLE"]) {
            DatasetKind::MaterializedView
        } else if cursor.eat(&["LIVE", "VIEW"]) || cursor.eat(&["STREAMING", "LIVE", "VIEW"]) || (temporary && cursor.eat(&["VIEW"])) {
            DatasetKind::TemporaryView
        } else if cursor.is("SINK") {
            return Err(Diagnostic::unsupported(cursor.position(), "CREATE SINK is not supported yet")
                .with_hint("write into a streaming table; its Delta table can be read by other systems"));
        } else if cursor.is("VIEW") {
            return Err(
                not_of_a_pipeline(start, "CREATE VIEW").with_hint("write CREATE TEMPORARY VIEW, or CREATE MATERIALIZED VIEW to store it")
            );
        } else if cursor.is("TABLE") {
            return Err(not_of_a_pipeline(start, "CREATE TABLE").with_hint("write CREATE STREAMING TABLE or CREATE MATERIALIZED VIEW"));
        } else {
            return Err(cursor.expected("STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW or FLOW"));
        };
        let definition = self.dataset(cursor, kind, private || (temporary && kind != DatasetKind::TemporaryView))?;
        Ok(vec![Definition::Dataset(Box::new(definition))])
    }

    fn dataset(&mut self, cursor: &mut Reader<'_>, kind: DatasetKind, private: bool) -> Result<DatasetDefinition, Diagnostic> {
        cursor.eat(&["IF", "NOT", "EXISTS"]);
        let (name, position) = self.table_name(cursor, &format!("the name of the {}", kind.name()))?;
        let mut definition = DatasetDefinition {
            kind,
            name,
            position,
            private,
            columns: Vec::new(),
            expectations: Vec::new(),
            partition_by: Vec::new(),
            clustering: None,
            comment: None,
            properties: BTreeMap::new(),
            query: None,
            once: false,
            settings: self.settings.clone(),
        };
        let mut clauses = Clauses::default();
        while !cursor.at_end() && !self.clause(cursor, &mut definition, &mut clauses)? {}
        if definition.query.is_none() && kind != DatasetKind::StreamingTable {
            return Err(cursor.expected(&format!("AS and the query of the {}", kind.name())));
        }
        Ok(definition)
    }

    /// Reads `AS query`, the `AS` being read.
    pub(super) fn query(&self, cursor: &mut Reader<'_>) -> Result<Fragment, Diagnostic> {
        if cursor.at_end() {
            return Err(cursor.expected("a query"));
        }
        Ok(cursor.remainder())
    }

    pub(super) fn table_name(&self, cursor: &mut Cursor<'_>, what: &str) -> Result<(TableName, Position), Diagnostic> {
        let position = cursor.position();
        let parts = cursor.object_name(what)?;
        match self.settings.namespace.resolve(&parts) {
            Some(name) => Ok((name, position)),
            None => Err(Diagnostic::syntax(position, "a table is named by at most three parts: catalog.schema.table")),
        }
    }

    /// `FLOW name [COMMENT '…'] AS INSERT INTO [ONCE] target BY NAME query`.
    fn flow(&mut self, cursor: &mut Reader<'_>) -> Result<FlowDefinition, Diagnostic> {
        cursor.expect(&["FLOW"])?;
        let (name, position) = self.table_name(cursor, "the name of the flow")?;
        let comment = if cursor.eat(&["COMMENT"]) { Some(cursor.string("the comment as a string")?) } else { None };
        cursor.expect(&["AS"])?;
        if cursor.are(&["AUTO", "CDC"]) || cursor.are(&["APPLY", "CHANGES"]) {
            return Err(auto_cdc(cursor));
        }
        if cursor.is("REPLACE") {
            return Err(replace_flow(cursor));
        }
        cursor.expect(&["INSERT", "INTO"])?;
        let once = cursor.is("ONCE") && !cursor.nth_is(1, "BY") && cursor.eat(&["ONCE"]);
        let (target, target_position) = self.table_name(cursor, "the name of the table to insert into")?;
        by_name(cursor)?;
        let query = self.query(cursor)?;
        Ok(FlowDefinition { name, position, comment, target, target_position, once, query, settings: self.settings.clone() })
    }

    /// `FLOW INSERT [ONCE] BY NAME query` at the end of `CREATE STREAMING TABLE`, the `FLOW` being read. Gives whether it is once.
    pub(super) fn inline_flow(&self, cursor: &mut Reader<'_>) -> Result<(Fragment, bool), Diagnostic> {
        if cursor.are(&["AUTO", "CDC"]) {
            return Err(auto_cdc(cursor));
        }
        if cursor.is("REPLACE") {
            return Err(replace_flow(cursor));
        }
        cursor.expect(&["INSERT"])?;
        let once = cursor.eat(&["ONCE"]);
        by_name(cursor)?;
        Ok((self.query(cursor)?, once))
    }
}

fn replace_flow(cursor: &Cursor<'_>) -> Diagnostic {
    Diagnostic::unsupported(cursor.position(), "REPLACE flows are not supported").with_hint("use a materialized view")
}

fn by_name(cursor: &mut Cursor<'_>) -> Result<(), Diagnostic> {
    if cursor.eat(&["BY", "NAME"]) {
        return Ok(());
    }
    let message = "a flow inserts by name: columns are matched by their names and not by their places";
    Err(Diagnostic::new("PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", "42000", cursor.position(), message)
        .with_hint("write BY NAME before the query"))
}
