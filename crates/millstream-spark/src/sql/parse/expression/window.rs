//! `OVER (…)` and the windows that a `WINDOW` clause names.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::Expression;
use spark_connect_proto::expression::window::WindowFrame;
use spark_connect_proto::expression::window::window_frame::{FrameBoundary, FrameType, frame_boundary};
use spark_connect_proto::expression::{ExprType, SortOrder, Window};

use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{call, expression};

/// What a window function sees.
#[derive(Clone, Debug, Default)]
pub(in crate::sql::parse) struct WindowSpec {
    partition: Vec<Expression>,
    order: Vec<SortOrder>,
    frame: Option<WindowFrame>,
}

/// A window with its name in a `WINDOW` clause.
#[derive(Clone, Debug)]
pub(in crate::sql::parse) struct NamedWindow {
    pub(in crate::sql::parse) name: String,
    pub(in crate::sql::parse) spec: WindowSpec,
}

impl Parser<'_> {
    /// `OVER w` or `OVER (…)` of a function.
    pub(super) fn over(&mut self, function: Expression) -> Result<Expression, Diagnostic> {
        self.cursor.expect(&["OVER"])?;
        let spec = self.window_spec()?;
        Ok(expression(ExprType::Window(Box::new(Window {
            window_function: Some(Box::new(function)),
            partition_spec: spec.partition,
            order_spec: spec.order,
            frame_spec: spec.frame.map(Box::new),
        }))))
    }

    /// A name, or `( PARTITION BY … ORDER BY … ROWS … )`.
    pub(in crate::sql::parse) fn window_spec(&mut self) -> Result<WindowSpec, Diagnostic> {
        if self.nth_is_word(0) {
            return self.window_by_name();
        }
        self.cursor.expect_token(&Token::LParen)?;
        if self.nth_is_word(0) && self.nth_is_token(1, &Token::RParen) {
            let spec = self.window_by_name()?;
            self.cursor.expect_token(&Token::RParen)?;
            return Ok(spec);
        }
        let mut spec = WindowSpec::default();
        if self.cursor.eat(&["CLUSTER", "BY"]) {
            spec.partition = self.comma_separated(Parser::expression)?;
        } else {
            if self.cursor.eat(&["PARTITION", "BY"]) || self.cursor.eat(&["DISTRIBUTE", "BY"]) {
                spec.partition = self.comma_separated(Parser::expression)?;
            }
            if self.cursor.eat(&["ORDER", "BY"]) || self.cursor.eat(&["SORT", "BY"]) {
                spec.order = self.comma_separated(Parser::sort_item)?;
            }
        }
        let kind = match self.keyword().as_deref() {
            Some("ROWS") => Some(FrameType::Row),
            Some("RANGE") => Some(FrameType::Range),
            _ => None,
        };
        if let Some(kind) = kind {
            self.cursor.advance();
            let (lower, upper) = if self.cursor.eat(&["BETWEEN"]) {
                let lower = self.frame_boundary()?;
                self.cursor.expect(&["AND"])?;
                (lower, self.frame_boundary()?)
            } else {
                (self.frame_boundary()?, frame_boundary::Boundary::CurrentRow(true))
            };
            let boundary = |boundary| Some(Box::new(FrameBoundary { boundary: Some(boundary) }));
            spec.frame = Some(WindowFrame { frame_type: kind.into(), lower: boundary(lower), upper: boundary(upper) });
        }
        self.cursor.expect_token(&Token::RParen)?;
        Ok(spec)
    }

    fn window_by_name(&mut self) -> Result<WindowSpec, Diagnostic> {
        let position = self.position();
        let name = self.cursor.identifier("a window")?.value;
        match self.windows.iter().find(|window| window.name.eq_ignore_ascii_case(&name)) {
            Some(window) => Ok(window.spec.clone()),
            None => {
                let message = format!("there is no window '{name}' in the WINDOW clause");
                self.defer(Diagnostic::new("MISSING_WINDOW_SPECIFICATION", "42P20", position, message));
                Ok(WindowSpec::default())
            }
        }
    }

    fn frame_boundary(&mut self) -> Result<frame_boundary::Boundary, Diagnostic> {
        if self.cursor.eat(&["CURRENT", "ROW"]) {
            return Ok(frame_boundary::Boundary::CurrentRow(true));
        }
        if self.cursor.eat(&["UNBOUNDED"]) {
            if !self.eat_any(&["PRECEDING", "FOLLOWING"]) {
                return Err(self.cursor.expected("PRECEDING or FOLLOWING"));
            }
            return Ok(frame_boundary::Boundary::Unbounded(true));
        }
        let distance = self.expression()?;
        if self.cursor.eat(&["PRECEDING"]) {
            return Ok(frame_boundary::Boundary::Value(Box::new(call("negative", vec![distance]))));
        }
        self.cursor.expect(&["FOLLOWING"])?;
        Ok(frame_boundary::Boundary::Value(Box::new(distance)))
    }
}
