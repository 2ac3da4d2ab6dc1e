//! Queries made ready for the planner: parsed, with every relation replaced by a name of its own.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use millstream_core::Options;

use super::RelationSource;
use super::diagnostic::{Diagnostic, Position};
use super::dialect::Spark;
use super::literals::typed_numbers;
use super::relation::{Relation, named_source};
use super::source::SourceFile;
use super::stream::{dotted, placeholder, rewrite};

/// A query whose relations are placeholders.
#[derive(Clone, Debug)]
pub struct PreparedQuery {
    /// The query; every table it reads is the placeholder of one of `relations`.
    pub query: Box<Query>,
    /// What it reads, each place once, `STREAM …` and files first, then tables in the order of the text.
    pub relations: Vec<Relation>,
    /// Where it begins.
    pub position: Position,
    /// The query as one line without comments, variables in place: the same text means the same query.
    pub definition: String,
}

impl PreparedQuery {
    /// The query as a statement for the planner.
    pub fn statement(&self) -> Statement {
        Statement::Query(self.query.clone())
    }

    /// Whether any relation is read as a stream.
    pub fn is_streaming(&self) -> bool {
        self.relations.iter().any(|relation| relation.streaming)
    }
}

const DIALECT: &dyn Dialect = &Spark;

/// Parses a query. `prefix` makes the names of its placeholders unique in the pipeline.
pub(crate) fn prepare(file: &SourceFile, tokens: &[TokenWithSpan], prefix: &str) -> Result<PreparedQuery, Diagnostic> {
    let start = tokens.first().map_or(Location::new(1, 1), |token| token.span.start);
    let rewritten = rewrite(file, &typed_numbers(tokens), prefix)?;
    let end = tokens.last().map_or(start, |token| token.span.end);
    let mut parser = Parser::new(DIALECT).with_tokens_with_locations(rewritten.tokens);
    let mut query = parser.parse_query().map_err(|error| syntax(file, error, end))?;
    finished(file, &parser)?;
    if !is_query(&query.body) {
        return Err(Diagnostic::syntax(file.position(start), "expected a query: SELECT, VALUES or WITH … SELECT"));
    }
    let mut visitor = Relations { file, prefix, relations: rewritten.relations, scopes: Vec::new() };
    if let ControlFlow::Break(fault) = query.visit(&mut visitor) {
        return Err(*fault);
    }
    Ok(PreparedQuery { query, relations: visitor.relations, position: file.position(start), definition: text(tokens) })
}

/// Parses an expression.
pub(crate) fn parse_expression(file: &SourceFile, tokens: &[TokenWithSpan], end: Location) -> Result<Expr, Diagnostic> {
    let mut parser = Parser::new(DIALECT).with_tokens_with_locations(typed_numbers(tokens));
    let expression = parser.parse_expr().map_err(|error| syntax(file, error, end))?;
    finished(file, &parser)?;
    Ok(expression)
}

fn is_query(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(_) | SetExpr::Values(_) => true,
        SetExpr::Query(query) => is_query(&query.body),
        SetExpr::SetOperation { left, right, .. } => is_query(left) && is_query(right),
        _ => false,
    }
}

/// Tokens as one line.
pub(crate) fn text(tokens: &[TokenWithSpan]) -> String {
    tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
}

fn finished(file: &SourceFile, parser: &Parser<'_>) -> Result<(), Diagnostic> {
    match parser.peek_token() {
        TokenWithSpan { token: Token::EOF, .. } => Ok(()),
        TokenWithSpan { token, span } => Err(Diagnostic::syntax(file.position(span.start), format!("unexpected '{token}'"))),
    }
}

/// The parser's error with its place, which it only tells inside of the message.
fn syntax(file: &SourceFile, error: ParserError, end: Location) -> Diagnostic {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => "expressions or queries are nested too deeply".to_owned(),
    };
    let (message, location) = match text.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((message, Location::new(line.parse().ok()?, column.parse().ok()?)))
    }) {
        Some((message, location)) => (message, location),
        None => (text.as_str(), end),
    };
    let message = match message.strip_prefix("Expected") {
        Some(rest) => format!("expected{}", rest.strip_prefix(':').unwrap_or(rest)),
        None => message.to_owned(),
    };
    Diagnostic::syntax(
        file.position(location),
        message.replace(", found: EOF", ", found the end of the query").replace(", found: ", ", found "),
    )
}

/// The common table expressions of one query.
struct Scope {
    names: Vec<String>,
    /// How many of them may be used by what is visited now.
    visible: usize,
}

struct Relations<'a> {
    file: &'a SourceFile,
    prefix: &'a str,
    relations: Vec<Relation>,
    scopes: Vec<Scope>,
}

impl Relations<'_> {
    fn is_cte(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.names.iter().take(scope.visible).any(|known| known.eq_ignore_ascii_case(name)))
    }

    fn table(&mut self, name: &mut ObjectName, alias: &mut Option<TableAlias>) -> Result<(), Diagnostic> {
        let Some(parts) = name.0.iter().map(|part| part.as_ident().cloned()).collect::<Option<Vec<Ident>>>() else {
            let position = self.file.position(Location::new(1, 1));
            return Err(Diagnostic::unsupported(position, format!("'{name}' as the name of a table")));
        };
        let Some(first) = parts.first().cloned() else { return Ok(()) };
        if parts.len() == 1 {
            if let Some(relation) = self.relations.iter().find(|relation| relation.placeholder == first.value) {
                if let RelationSource::Table(named) = &relation.source {
                    if let [single] = named.as_slice()
                        && self.is_cte(&single.value)
                    {
                        let message = format!("STREAM cannot be applied to the common table expression '{}'", single.value);
                        return Err(Diagnostic::syntax(relation.position.clone(), message).with_hint("write STREAM inside of its query"));
                    }
                    alias_as(alias, named, first.span.start);
                }
                return Ok(());
            }
            if self.is_cte(&first.value) {
                return Ok(());
            }
        }
        let position = self.file.position(first.span.start);
        let placeholder = placeholder(self.prefix, self.relations.len());
        let mut replaced = Ident::with_quote('`', placeholder.clone());
        replaced.span = first.span;
        *name = ObjectName(vec![ObjectNamePart::Identifier(replaced)]);
        let source = named_source(parts);
        if let RelationSource::Table(named) = &source {
            alias_as(alias, named, first.span.start);
        }
        self.relations.push(Relation { placeholder, position, streaming: false, source, options: Options::new(), watermark: None });
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<(), Diagnostic> {
        let TableFactor::Table { name, alias, args: None, with_hints, version, sample, .. } = factor else { return Ok(()) };
        let span = name.0.first().and_then(|part| part.as_ident()).map_or(Location::new(1, 1), |part| part.span.start);
        let refuse = |what: &str| Err(Diagnostic::unsupported(self.file.position(span), format!("{what} is not supported in a pipeline")));
        if version.is_some() {
            return refuse("reading an earlier version of a table (VERSION AS OF, TIMESTAMP AS OF)");
        }
        if sample.is_some() {
            return refuse("TABLESAMPLE");
        }
        if !with_hints.is_empty() {
            return refuse("WITH (…) on a relation that is not a STREAM");
        }
        self.table(name, alias)
    }
}

/// Columns may be qualified with the last part of the table's name.
fn alias_as(alias: &mut Option<TableAlias>, named: &[Ident], at: Location) {
    if let (None, Some(last)) = (&alias, named.last()) {
        let mut name = Ident::with_quote('`', last.value.clone());
        name.span.start = at;
        name.span.end = at;
        *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
}

impl VisitorMut for Relations<'_> {
    type Break = Box<Diagnostic>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let (names, visible) = match &query.with {
            Some(with) => {
                let names: Vec<String> = with.cte_tables.iter().map(|cte| cte.alias.name.value.clone()).collect();
                let visible = if with.recursive { names.len() } else { 0 };
                (names, visible)
            }
            None => (Vec::new(), 0),
        };
        self.scopes.push(Scope { names, visible });
        ControlFlow::Continue(())
    }

    /// The queries directly below a query are those of its common table expressions first; each makes its name visible to what follows.
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        if let Some(parent) = self.scopes.last_mut() {
            parent.visible = (parent.visible + 1).min(parent.names.len());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        match self.factor(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(Box::new(fault)),
        }
    }
}

impl RelationSource {
    /// The relation as a user would write it.
    pub fn display(&self) -> String {
        match self {
            RelationSource::Table(parts) => dotted(parts),
            RelationSource::Path { format, path } => format!("{format}.`{path}`"),
            RelationSource::ReadFiles { path, .. } => format!("read_files('{path}', …)"),
        }
    }
}

#[cfg(test)]
mod tests;
