//! Tables, streams, files and table functions as relations, with their options, watermarks, versions and samples.

use std::collections::HashMap;

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Limit, Range, Read, Relation, Sample, UnresolvedTableValuedFunction, WithWatermark, read};

use super::projected;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{dotted, relation, star};
use crate::sql::relation::{named_source, read_files};
use crate::sql::{Diagnostic, RelationSource};

impl Parser<'_> {
    /// `db.t`, with the name `t` that its columns have.
    pub(in crate::sql::parse) fn table_by_name(&mut self) -> Result<Relation, Diagnostic> {
        self.table_of(false)
    }

    /// A table, or a table function, with what may follow its name.
    pub(super) fn table(&mut self) -> Result<Relation, Diagnostic> {
        if let Some(function) = self.table_function(false)? {
            return self.called(function, None);
        }
        let mut table = self.table_of(false)?;
        self.version_of(&mut table)?;
        self.options_of(&mut table)?;
        let table = self.sampled(table)?;
        let table = self.with_watermark(table)?;
        self.called(table, None)
    }

    fn table_of(&mut self, is_streaming: bool) -> Result<Relation, Diagnostic> {
        let position = self.position();
        let source = if self.cursor.is("IDENTIFIER") && self.nth_is_token(1, &Token::LParen) {
            RelationSource::Table(self.identifier_clause()?.into_iter().map(datafusion::sql::sqlparser::ast::Ident::new).collect())
        } else {
            let mark = self.cursor.mark();
            let parts = self.cursor.object_name("the name of a table")?;
            self.reset(mark);
            self.names("the name of a table")?;
            named_source(parts)
        };
        let options = self.read_at(position, &source);
        let read_type = match source {
            RelationSource::Path { format, path } => {
                read::ReadType::DataSource(read::DataSource { format: Some(format), paths: vec![path], options, ..Default::default() })
            }
            RelationSource::Table(parts) => {
                let names: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
                read::ReadType::NamedTable(read::NamedTable { unparsed_identifier: dotted(&names), options })
            }
            RelationSource::ReadFiles { .. } => return Err(self.cursor.expected("the name of a table")),
        };
        Ok(relation(RelType::Read(Read { is_streaming, read_type: Some(read_type) })))
    }

    /// Whether the word `STREAM` comes next as a keyword, and not as the name of a table.
    pub(super) fn at_stream(&self) -> bool {
        if !self.cursor.is("STREAM") {
            return false;
        }
        let mut after = self.cursor.clone();
        after.advance();
        match after.peek() {
            Some(Token::LParen) => true,
            Some(Token::Word(word)) if word.quote_style.is_none() => ![
                "WHERE",
                "GROUP",
                "HAVING",
                "ORDER",
                "LIMIT",
                "UNION",
                "EXCEPT",
                "INTERSECT",
                "MINUS",
                "JOIN",
                "LEFT",
                "RIGHT",
                "FULL",
                "INNER",
                "CROSS",
                "NATURAL",
                "SEMI",
                "ANTI",
                "LATERAL",
                "ON",
                "USING",
                "AS",
                "WATERMARK",
                "TABLESAMPLE",
                "PIVOT",
                "UNPIVOT",
                "SELECT",
                "WINDOW",
                "SORT",
                "CLUSTER",
                "DISTRIBUTE",
                "OFFSET",
                "VERSION",
                "TIMESTAMP",
                "FOR",
                "WITH",
            ]
            .iter()
            .any(|next| next.eq_ignore_ascii_case(&word.value)),
            Some(Token::Word(_)) => true,
            _ => false,
        }
    }

    /// `STREAM t`, `STREAM(t)`, `STREAM read_files(…)`.
    pub(super) fn stream(&mut self) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["STREAM"])?;
        let bracketed = self.cursor.eat_token(&Token::LParen);
        if bracketed && self.at_query(0) {
            return Err(Diagnostic::syntax(self.position(), "STREAM takes the name of a table or view, but not a query"));
        }
        let mut input = match self.table_function(true)? {
            Some(function) => function,
            None => self.table_of(true)?,
        };
        if bracketed {
            self.cursor.expect_token(&Token::RParen)?;
        }
        self.options_of(&mut input)?;
        let position = self.position();
        if self.cursor.eat(&["IDENTIFIED", "BY"]) {
            self.name("the name of the source")?;
            self.defer(Diagnostic::new(
                "STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED",
                "42KI1",
                position,
                "IDENTIFIED BY needs spark.sql.streaming.queryEvolution.enableSourceEvolution, which is not supported",
            ));
        }
        let input = self.with_watermark(input)?;
        self.called(input, None)
    }

    /// `WITH (key = value, …)` after a table.
    fn options_of(&mut self, table: &mut Relation) -> Result<(), Diagnostic> {
        if !(self.cursor.is("WITH") && self.nth_is_token(1, &Token::LParen)) {
            return Ok(());
        }
        self.cursor.advance();
        let given = crate::sql::property_list(&mut self.cursor)?;
        if let Some(options) = options_mut(table) {
            options.extend(given.into_iter().map(|(key, value, _)| (key, value)));
        }
        Ok(())
    }

    /// `VERSION AS OF 3`, `FOR TIMESTAMP AS OF '…'`.
    fn version_of(&mut self, table: &mut Relation) -> Result<(), Diagnostic> {
        let after_for = usize::from(self.cursor.is("FOR"));
        let by_version = self.nth_is_any(after_for, &["VERSION", "SYSTEM_VERSION"]);
        let by_time = self.nth_is_any(after_for, &["TIMESTAMP", "SYSTEM_TIME"]);
        if !(by_version || by_time) || !self.cursor.nth_is(after_for + 1, "AS") || !self.cursor.nth_is(after_for + 2, "OF") {
            return Ok(());
        }
        for _ in 0..after_for + 3 {
            self.cursor.advance();
        }
        let position = self.position();
        let value = self.nested(|parser| parser.value(1))?;
        let Some(text) = constant(&value) else {
            let message = "the version or timestamp to read is not a constant";
            self.defer(Diagnostic::new("INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT", "42K0E", position, message));
            return Ok(());
        };
        if let Some(options) = options_mut(table) {
            options.insert(if by_version { "versionAsOf" } else { "timestampAsOf" }.to_owned(), text);
        }
        Ok(())
    }

    /// `TABLESAMPLE (10 PERCENT) REPEATABLE (1)`.
    pub(super) fn sampled(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        if !self.cursor.eat(&["TABLESAMPLE"]) {
            return Ok(input);
        }
        let position = self.position();
        self.cursor.eat(&["SYSTEM"]);
        self.cursor.expect_token(&Token::LParen)?;
        let fraction = if self.cursor.eat(&["BUCKET"]) {
            let bucket = self.cursor.integer("a bucket")?;
            self.cursor.expect(&["OUT", "OF"])?;
            let of = self.cursor.integer("the number of buckets")?;
            bucket as f64 / of.max(1) as f64
        } else {
            let value = self.expression()?;
            if self.cursor.eat(&["ROWS"]) {
                self.cursor.expect_token(&Token::RParen)?;
                self.seed()?;
                let limit = constant(&value).and_then(|text| text.parse().ok()).filter(|rows| *rows >= 0);
                if limit.is_none() {
                    self.defer(Diagnostic::syntax(position, "the number of rows of TABLESAMPLE is not a constant INT"));
                }
                let limit = Limit { input: Some(Box::new(input)), limit: limit.unwrap_or(0) };
                return Ok(relation(RelType::Limit(Box::new(limit))));
            }
            self.cursor.expect(&["PERCENT"])?;
            constant(&value).and_then(|text| text.parse::<f64>().ok()).map_or(f64::NAN, |percent| percent / 100.0)
        };
        self.cursor.expect_token(&Token::RParen)?;
        let seed = self.seed()?;
        if !(0.0..=1.0).contains(&fraction) {
            let fault = Diagnostic::new(
                "_LEGACY_ERROR_TEMP_0064",
                "42000",
                position,
                format!("Sampling fraction ({fraction}) must be on interval [0, 1]"),
            );
            self.defer(Diagnostic { sqlstate: None, ..fault });
        }
        Ok(relation(RelType::Sample(Box::new(Sample {
            input: Some(Box::new(input)),
            lower_bound: 0.0,
            upper_bound: fraction,
            with_replacement: Some(false),
            seed,
            deterministic_order: false,
        }))))
    }

    fn seed(&mut self) -> Result<Option<i64>, Diagnostic> {
        if !self.cursor.eat(&["REPEATABLE"]) {
            return Ok(None);
        }
        self.cursor.expect_token(&Token::LParen)?;
        let seed = self.cursor.integer("a seed")?;
        self.cursor.expect_token(&Token::RParen)?;
        Ok(i64::try_from(seed).ok())
    }

    /// `WATERMARK ts DELAY OF INTERVAL 10 MINUTES`.
    pub(super) fn with_watermark(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        if !self.cursor.is("WATERMARK") {
            return Ok(input);
        }
        let position = self.position();
        self.cursor.advance();
        let column = self.named_expression()?;
        self.cursor.expect(&["DELAY", "OF"])?;
        let delay_threshold = self.interval()?.delay();
        let (input, event_time) = match &column.expr_type {
            Some(ExprType::UnresolvedAttribute(attribute)) => (input, attribute.unparsed_identifier.clone()),
            Some(ExprType::Alias(alias)) => {
                let name = dotted(&alias.name);
                (projected(Some(input), vec![star::<&str>(&[]), column]), name)
            }
            _ => {
                let message = "the event time of a watermark is an expression and needs a name";
                self.defer(
                    Diagnostic::new("REQUIRES_EXPLICIT_NAME_IN_WATERMARK_CLAUSE", "42000", position, message)
                        .with_hint("write WATERMARK expression AS name DELAY OF …"),
                );
                (input, String::new())
            }
        };
        let watermark = WithWatermark { input: Some(Box::new(input)), event_time, delay_threshold };
        Ok(relation(RelType::WithWatermark(Box::new(watermark))))
    }

    /// The arguments of a table function.
    pub(super) fn table_function_arguments(&mut self) -> Result<Vec<Expression>, Diagnostic> {
        if self.is_token(&Token::LParen) && self.nth_is_token(1, &Token::RParen) {
            self.cursor.advance();
            self.cursor.advance();
            return Ok(Vec::new());
        }
        self.parenthesized_list(Parser::argument)
    }

    /// `range(10)`, `explode(…)`, `read_files(…)`, if that comes next.
    fn table_function(&mut self, is_streaming: bool) -> Result<Option<Relation>, Diagnostic> {
        let mark = self.cursor.mark();
        let position = self.position();
        if self.cursor.is("IDENTIFIER") {
            return Ok(None);
        }
        let name = self.names("a table function")?;
        if !self.is_token(&Token::LParen) || self.at_query(1) {
            self.reset(mark);
            return Ok(None);
        }
        let is_read_files = matches!(name.as_slice(), [single] if single.eq_ignore_ascii_case("read_files"));
        if is_read_files && !self.open_spark {
            return self.read_files(is_streaming, position).map(Some);
        }
        let arguments = self.table_function_arguments()?;
        if self.open_spark && is_streaming {
            // Spark resolves the arguments first, and has no such function that gives a stream.
            let column = arguments.iter().find_map(|argument| match &argument.expr_type {
                Some(ExprType::UnresolvedAttribute(attribute)) => Some(attribute.unparsed_identifier.clone()),
                _ => None,
            });
            let fault = match column {
                Some(column) => {
                    let message = format!(
                        "A column, variable, or function parameter with name {column} cannot be resolved: a function has no columns"
                    );
                    Diagnostic::new("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "42703", position, message)
                }
                None => unresolvable(&name, position),
            };
            self.defer(fault);
            return Ok(Some(relation(RelType::Range(Range::default()))));
        }
        if is_read_files {
            self.defer(unresolvable(&name, position));
            return Ok(Some(relation(RelType::Range(Range::default()))));
        }
        let changes = ["table_changes", "table_changes_by_path"]
            .into_iter()
            .find(|known| matches!(name.as_slice(), [single] if single.eq_ignore_ascii_case(known)));
        if let Some(function) = changes {
            return table_changes(arguments, function == "table_changes_by_path", is_streaming, position).map(Some);
        }
        if is_streaming {
            return Err(Diagnostic::unsupported(position, format!("the table function '{}' cannot be read as a stream", name.join("."))));
        }
        if matches!(name.as_slice(), [single] if single.eq_ignore_ascii_case("range"))
            && let Some(range) = range_of(&arguments)
        {
            return Ok(Some(relation(RelType::Range(range))));
        }
        let function_name = match name.as_slice() {
            [single] => single.clone(),
            parts => dotted(parts),
        };
        let function = UnresolvedTableValuedFunction { function_name, arguments };
        Ok(Some(relation(RelType::UnresolvedTableValuedFunction(function))))
    }

    fn read_files(&mut self, is_streaming: bool, position: crate::sql::Position) -> Result<Relation, Diagnostic> {
        let files = read_files(&mut self.cursor)?;
        let options = self.read_at(position, &files);
        let RelationSource::ReadFiles { path, arguments } = files else { return Err(self.cursor.expected("files")) };
        let mut source = read::DataSource { paths: vec![path], options, ..read::DataSource::default() };
        // Whoever asks for places has the arguments from there.
        let arguments = if self.places.is_some() { Vec::new() } else { arguments };
        for argument in arguments {
            let Some(value) = argument.value else { continue };
            match argument.name.to_ascii_lowercase().as_str() {
                "format" => source.format = Some(value),
                "schema" => source.schema = Some(value),
                _ => drop(source.options.insert(argument.name, value)),
            }
        }
        Ok(relation(RelType::Read(Read { is_streaming, read_type: Some(read::ReadType::DataSource(source)) })))
    }
}

fn unresolvable(name: &[String], position: crate::sql::Position) -> Diagnostic {
    let message = format!("`{}` is no table-valued function of open Spark: use spark.readStream in Python", name.join("."));
    Diagnostic::new("UNRESOLVABLE_TABLE_VALUED_FUNCTION", "42883", position, message)
}

fn options_mut(table: &mut Relation) -> Option<&mut HashMap<String, String>> {
    match &mut table.rel_type {
        Some(RelType::Read(Read { read_type: Some(read::ReadType::NamedTable(table)), .. })) => Some(&mut table.options),
        Some(RelType::Read(Read { read_type: Some(read::ReadType::DataSource(source)), .. })) => Some(&mut source.options),
        _ => None,
    }
}

/// A constant as text.
fn constant(value: &Expression) -> Option<String> {
    match &value.expr_type {
        Some(ExprType::Literal(literal)) => match literal.literal_type.as_ref()? {
            LiteralType::String(text) => Some(text.clone()),
            LiteralType::Integer(number) | LiteralType::Short(number) | LiteralType::Byte(number) => Some(number.to_string()),
            LiteralType::Long(number) => Some(number.to_string()),
            LiteralType::Double(number) => Some(number.to_string()),
            LiteralType::Float(number) => Some(number.to_string()),
            LiteralType::Decimal(decimal) => Some(decimal.value.clone()),
            LiteralType::Boolean(value) => Some(value.to_string()),
            LiteralType::Timestamp(micros) | LiteralType::TimestampNtz(micros) => {
                chrono::DateTime::from_timestamp_micros(*micros).map(|time| time.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
            }
            _ => None,
        },
        // A typed literal, and a cast of one.
        Some(ExprType::Cast(cast)) => constant(cast.expr.as_deref()?),
        _ => None,
    }
}

/// `range` over whole numbers.
fn range_of(arguments: &[Expression]) -> Option<Range> {
    let numbers: Vec<i64> = arguments.iter().map(|argument| constant(argument)?.parse().ok()).collect::<Option<_>>()?;
    let range = |start, end, step, num_partitions| Range { start, end, step, num_partitions };
    match numbers.as_slice() {
        [end] => Some(range(Some(0), *end, 1, None)),
        [start, end] => Some(range(Some(*start), *end, 1, None)),
        [start, end, step] => Some(range(Some(*start), *end, *step, None)),
        [start, end, step, partitions] => Some(range(Some(*start), *end, *step, i32::try_from(*partitions).ok())),
        _ => None,
    }
}

/// `table_changes('t', 0, 5)`: the change data feed of a table between versions or times.
fn table_changes(
    arguments: Vec<Expression>,
    by_path: bool,
    is_streaming: bool,
    position: crate::sql::Position,
) -> Result<Relation, Diagnostic> {
    let is_text = |argument: &Expression| match &argument.expr_type {
        Some(ExprType::Literal(literal)) => matches!(literal.literal_type, Some(LiteralType::String(_))),
        _ => false,
    };
    let texts: Option<Vec<(String, bool)>> = arguments.iter().map(|argument| Some((constant(argument)?, is_text(argument)))).collect();
    let Some(texts) = texts else {
        let message = "the arguments of table_changes are a table and one or two versions or times, all of them constants";
        return Err(Diagnostic::new("DELTA_CDC_NON_CONSTANT_ARGUMENT", "42K0H", position, message));
    };
    let ((table, _), bounds) = match texts.split_first() {
        Some((table, bounds)) if (1..=2).contains(&bounds.len()) => (table.clone(), bounds),
        _ => return Err(Diagnostic::syntax(position, "table_changes takes a table and one or two versions or times")),
    };
    let mut options: HashMap<String, String> = HashMap::from([("readChangeFeed".to_owned(), "true".to_owned())]);
    for ((bound, is_time), which) in bounds.iter().zip(["starting", "ending"]) {
        options.insert(format!("{which}{}", if *is_time { "Timestamp" } else { "Version" }), bound.clone());
    }
    let read_type = match by_path {
        true => read::ReadType::DataSource(read::DataSource {
            format: Some("delta".to_owned()),
            paths: vec![table],
            options,
            ..Default::default()
        }),
        false => read::ReadType::NamedTable(read::NamedTable { unparsed_identifier: table, options }),
    };
    Ok(relation(RelType::Read(Read { is_streaming, read_type: Some(read_type) })))
}
