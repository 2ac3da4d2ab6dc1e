//! Queries: common table expressions, set operations, ordering and limits.

mod from;
mod group;
mod join;
mod pipe;
mod pivot;
mod select;
mod table;
mod values;

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::set_operation::SetOpType;
use spark_connect_proto::{Expression, Limit, Offset, Project, Relation, RepartitionByExpression, SetOperation, Sort, WithRelations};

use super::parser::Parser;
use super::proto::{aliased, function, integer, relation, renamed, star};
use crate::sql::Diagnostic;

impl Parser<'_> {
    /// A query with everything that may be around it.
    pub(in crate::sql::parse) fn query(&mut self) -> Result<Relation, Diagnostic> {
        self.nested(|parser| {
            let subqueries = std::mem::take(&mut parser.subqueries);
            let windows = std::mem::take(&mut parser.windows);
            let query = parser.query_with_tables();
            parser.windows = windows;
            let own = std::mem::replace(&mut parser.subqueries, subqueries);
            query.map(|query| with_references(query, own))
        })
    }

    fn query_with_tables(&mut self) -> Result<Relation, Diagnostic> {
        let tables = if self.cursor.is("WITH") { self.common_tables()? } else { Vec::new() };
        let query = self.set_operations()?;
        let query = self.organized(query)?;
        Ok(with_references(self.piped(query)?, tables))
    }

    /// `WITH a AS (…), b (x, y) AS (…)`.
    pub(in crate::sql::parse) fn common_tables(&mut self) -> Result<Vec<Relation>, Diagnostic> {
        let position = self.position();
        self.cursor.expect(&["WITH"])?;
        if self.cursor.is("RECURSIVE") && self.nth_is_word(1) && !self.cursor.nth_is(1, "AS") {
            return Err(Diagnostic::unsupported(position, "WITH RECURSIVE is not supported"));
        }
        let mut names: Vec<String> = Vec::new();
        self.comma_separated(|parser| {
            let position = parser.position();
            let name = parser.name("the name of a common table expression")?;
            if names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                let message = format!("the common table expression '{name}' is there twice");
                parser.defer(Diagnostic::new("DUPLICATED_CTE_NAMES", "42602", position, message));
            }
            names.push(name.clone());
            let columns =
                if parser.is_token(&Token::LParen) && !parser.at_query(1) { parser.name_list("a column's name")? } else { Vec::new() };
            parser.cursor.eat(&["AS"]);
            parser.cursor.expect_token(&Token::LParen)?;
            let query = parser.query()?;
            parser.cursor.expect_token(&Token::RParen)?;
            Ok(aliased(renamed(query, columns), name))
        })
    }

    /// Queries joined by `UNION`, `EXCEPT` and `MINUS`, from left to right.
    pub(super) fn set_operations(&mut self) -> Result<Relation, Diagnostic> {
        let first = self.intersections()?;
        self.more_set_operations(first)
    }

    /// The same, the first query being read.
    pub(super) fn more_set_operations(&mut self, first: Relation) -> Result<Relation, Diagnostic> {
        let mut union = vec![first];
        while let Some(kind) =
            self.set_operator(&[("UNION", SetOpType::Union), ("EXCEPT", SetOpType::Except), ("MINUS", SetOpType::Except)])
        {
            let all = self.all_rows();
            let right = self.nested(Parser::intersections)?;
            if kind == SetOpType::Union && all {
                union.push(right);
                continue;
            }
            let left = self.unions(union)?;
            self.grow(1)?;
            union = vec![set_operation(kind, all, left, right)];
        }
        self.unions(union)
    }

    /// `UNION ALL` of many queries as a balanced tree.
    fn unions(&mut self, queries: Vec<Relation>) -> Result<Relation, Diagnostic> {
        self.grow(usize::BITS.saturating_sub(queries.len().leading_zeros()) as usize)?;
        let mut queries: Vec<Option<Relation>> = queries.into_iter().map(Some).collect();
        union_all(&mut queries).ok_or_else(|| self.cursor.expected("a query"))
    }

    fn intersections(&mut self) -> Result<Relation, Diagnostic> {
        let mut left = self.query_primary()?;
        while let Some(kind) = self.set_operator(&[("INTERSECT", SetOpType::Intersect)]) {
            let all = self.all_rows();
            let right = self.nested(Parser::query_primary)?;
            self.grow(1)?;
            left = set_operation(kind, all, left, right);
        }
        Ok(left)
    }

    fn set_operator(&mut self, operators: &[(&str, SetOpType)]) -> Option<SetOpType> {
        operators.iter().find(|(word, _)| self.cursor.eat(&[word])).map(|(_, kind)| *kind)
    }

    fn all_rows(&mut self) -> bool {
        let all = self.cursor.eat(&["ALL"]);
        if !all {
            self.cursor.eat(&["DISTINCT"]);
        }
        all
    }

    fn query_primary(&mut self) -> Result<Relation, Diagnostic> {
        if self.is_token(&Token::LParen) {
            self.cursor.advance();
            let query = self.query()?;
            self.cursor.expect_token(&Token::RParen)?;
            return Ok(query);
        }
        match self.keyword().as_deref() {
            Some("SELECT") => self.select(None),
            Some("FROM") => {
                let input = self.clause_from()?;
                if self.cursor.is("SELECT") { self.select(Some(input)) } else { Ok(all_columns(input)) }
            }
            Some("VALUES") => self.inline_table(),
            Some("TABLE") if self.nth_is_word(1) => {
                self.cursor.advance();
                Ok(all_columns(self.table_by_name()?))
            }
            Some("MAP" | "REDUCE") => {
                Err(Diagnostic::unsupported(self.position(), "MAP … USING and REDUCE … USING run scripts, which is not supported"))
            }
            _ => Err(self.cursor.expected("a query")),
        }
    }

    /// `ORDER BY`, `LIMIT` and what else may follow a query.
    pub(super) fn organized(&mut self, mut query: Relation) -> Result<Relation, Diagnostic> {
        if self.cursor.eat(&["ORDER", "BY"]) {
            let width = self.select_width;
            let order = self.comma_separated(Parser::sort_item)?;
            query = sorted(query, by_all(order, width), true);
        } else if self.cursor.eat(&["CLUSTER", "BY"]) {
            let keys = self.comma_separated(Parser::sort_item)?;
            query = distributed(query, keys.iter().filter_map(|key| key.child.as_deref().cloned()).collect());
            query = sorted(query, keys, false);
        } else {
            if self.cursor.eat(&["DISTRIBUTE", "BY"]) {
                query = distributed(query, self.comma_separated(Parser::expression)?);
            }
            if self.cursor.eat(&["SORT", "BY"]) {
                query = sorted(query, self.comma_separated(Parser::sort_item)?, false);
            }
        }
        self.skip_window_clause()?;
        let mut limit = None;
        if self.cursor.eat(&["LIMIT"]) && !self.cursor.eat(&["ALL"]) {
            limit = Some(self.row_count("limit")?);
        }
        if self.cursor.eat(&["OFFSET"]) {
            let offset = self.row_count("offset")?;
            query = relation(RelType::Offset(Box::new(Offset { input: Some(Box::new(query)), offset })));
        }
        Ok(match limit {
            Some(limit) => relation(RelType::Limit(Box::new(Limit { input: Some(Box::new(query)), limit }))),
            None => query,
        })
    }

    /// The constant of `LIMIT` or `OFFSET`.
    fn row_count(&mut self, what: &str) -> Result<i32, Diagnostic> {
        let position = self.position();
        let value = self.expression()?;
        let refusal = match constant_count(&value) {
            Constant::Number(number) => match i32::try_from(number) {
                Ok(number) if number >= 0 => return Ok(number),
                Ok(_) => ("IS_NEGATIVE", format!("{number} is negative")),
                Err(_) => ("DATA_TYPE", format!("{number} is not an INT")),
            },
            Constant::Other => ("DATA_TYPE", "it is not an INT".to_owned()),
            Constant::Unknown => ("IS_UNFOLDABLE", "it is not constant".to_owned()),
        };
        let mut fault = Diagnostic::new("INVALID_LIMIT_LIKE_EXPRESSION", "42K0E", position, format!("the {what} is wrong: {}", refusal.1));
        fault.code = format!("INVALID_LIMIT_LIKE_EXPRESSION.{}", refusal.0).into();
        self.defer(fault);
        Ok(0)
    }
}

/// `ORDER BY ALL` is by every position of the select list.
fn by_all(order: Vec<SortOrder>, width: Option<usize>) -> Vec<SortOrder> {
    match (order.as_slice(), width.and_then(|width| i32::try_from(width).ok())) {
        ([single], Some(width)) if is_named_all(single) => {
            (1..=width).map(|position| SortOrder { child: Some(Box::new(integer(position))), ..single.clone() }).collect()
        }
        _ => order,
    }
}

fn is_named_all(order: &SortOrder) -> bool {
    matches!(
        order.child.as_deref().map(|child| &child.expr_type),
        Some(Some(ExprType::UnresolvedAttribute(column))) if column.unparsed_identifier.eq_ignore_ascii_case("all")
    )
}

/// What is known of the expression of a limit.
enum Constant {
    Number(i64),
    Other,
    Unknown,
}

fn constant_count(value: &Expression) -> Constant {
    match &value.expr_type {
        Some(ExprType::Literal(literal)) => match literal.literal_type {
            Some(LiteralType::Integer(number) | LiteralType::Short(number) | LiteralType::Byte(number)) => Constant::Number(number.into()),
            Some(LiteralType::Long(number)) => Constant::Number(number),
            _ => Constant::Other,
        },
        Some(ExprType::UnresolvedFunction(call)) => {
            let operands: Vec<Constant> = call.arguments.iter().map(constant_count).collect();
            let number = match (call.function_name.as_str(), operands.as_slice()) {
                ("+", [Constant::Number(left), Constant::Number(right)]) => left.checked_add(*right),
                ("-", [Constant::Number(left), Constant::Number(right)]) => left.checked_sub(*right),
                ("*", [Constant::Number(left), Constant::Number(right)]) => left.checked_mul(*right),
                ("negative", [Constant::Number(number)]) => number.checked_neg(),
                _ => return Constant::Unknown,
            };
            number.map_or(Constant::Other, Constant::Number)
        }
        Some(ExprType::Cast(cast)) => cast.expr.as_deref().map_or(Constant::Unknown, constant_count),
        _ => Constant::Unknown,
    }
}

/// A query with the queries that it refers to.
pub(in crate::sql::parse) fn with_references(query: Relation, references: Vec<Relation>) -> Relation {
    if references.is_empty() {
        return query;
    }
    relation(RelType::WithRelations(Box::new(WithRelations { root: Some(Box::new(query)), references })))
}

/// `SELECT * FROM input`.
pub(super) fn all_columns(input: Relation) -> Relation {
    projected(Some(input), vec![star::<&str>(&[])])
}

pub(super) fn projected(input: Option<Relation>, expressions: Vec<Expression>) -> Relation {
    relation(RelType::Project(Box::new(Project { input: input.map(Box::new), expressions })))
}

pub(super) fn sorted(input: Relation, order: Vec<SortOrder>, global: bool) -> Relation {
    relation(RelType::Sort(Box::new(Sort { input: Some(Box::new(input)), order, is_global: Some(global) })))
}

fn distributed(input: Relation, partition_exprs: Vec<Expression>) -> Relation {
    relation(RelType::RepartitionByExpression(Box::new(RepartitionByExpression {
        input: Some(Box::new(input)),
        partition_exprs,
        num_partitions: None,
    })))
}

fn set_operation(kind: SetOpType, all: bool, left: Relation, right: Relation) -> Relation {
    relation(RelType::SetOp(Box::new(SetOperation {
        left_input: Some(Box::new(left)),
        right_input: Some(Box::new(right)),
        set_op_type: kind.into(),
        is_all: Some(all),
        by_name: Some(false),
        allow_missing_columns: Some(false),
    })))
}

fn union_all(queries: &mut [Option<Relation>]) -> Option<Relation> {
    if let [single] = queries {
        return single.take();
    }
    let (left, right) = queries.split_at_mut_checked(queries.len().saturating_sub(1) / 2 + 1)?;
    Some(set_operation(SetOpType::Union, true, union_all(left)?, union_all(right)?))
}

/// Whether an expression is a star, with or without `EXCEPT`.
pub(super) fn is_star(expression: &Expression) -> bool {
    matches!(expression.expr_type, Some(ExprType::UnresolvedStar(_)))
        || function(expression).is_some_and(|function| function.function_name == "star except" && function.is_internal == Some(true))
}
