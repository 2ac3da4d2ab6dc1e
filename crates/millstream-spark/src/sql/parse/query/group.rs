//! `GROUP BY`: positions, `ROLLUP`, `CUBE` and `GROUPING SETS`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::expression::literal::LiteralType;

use super::is_star;
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;

/// What rows are grouped by.
#[derive(Clone, Debug, Default)]
pub(super) struct Grouping {
    pub(super) keys: Vec<Expression>,
    /// The keys of each grouping set.
    pub(super) sets: Option<Vec<Vec<Expression>>>,
}

/// The most sets that are written out.
const MAX_SETS: usize = 4_096;

type Sets = Vec<Vec<Expression>>;

impl Parser<'_> {
    /// What follows `GROUP BY`. Positions stand for the items of the select list.
    pub(super) fn grouping(&mut self, items: &[Expression]) -> Result<Grouping, Diagnostic> {
        let mut elements: Vec<Sets> = Vec::new();
        let mut plain = true;
        let listed = self.comma_separated(|parser| {
            let sets = parser.grouping_element()?;
            plain &= !sets.1;
            elements.push(sets.0);
            Ok(())
        })?;
        drop(listed);
        let keys: Vec<Expression> = elements.iter().flatten().flatten().cloned().collect();
        if self.cursor.eat(&["WITH", "ROLLUP"]) {
            let columns = keys.iter().map(|key| vec![key.clone()]).collect();
            (elements, plain) = (vec![rollup(columns)], false);
        } else if self.cursor.eat(&["WITH", "CUBE"]) {
            let columns = keys.iter().map(|key| vec![key.clone()]).collect();
            (elements, plain) = (vec![self.cube(columns)?], false);
        } else if self.cursor.eat(&["GROUPING", "SETS"]) {
            let sets = self.parenthesized_list(Parser::grouping_set)?;
            (elements, plain) = (vec![sets], false);
        }
        let items_have_star = items.iter().any(is_star);
        for key in elements.iter_mut().flatten().flatten() {
            self.position_replaced(key, items, items_have_star);
        }
        if plain {
            return Ok(Grouping { keys: elements.into_iter().flatten().flatten().collect(), sets: None });
        }
        let mut sets: Sets = vec![Vec::new()];
        for element in elements {
            if sets.len().saturating_mul(element.len()) > MAX_SETS {
                return Err(self.too_many_sets());
            }
            sets = sets.iter().flat_map(|set| element.iter().map(|more| set.iter().chain(more).cloned().collect())).collect();
        }
        let mut keys: Vec<Expression> = Vec::new();
        for key in sets.iter().flatten() {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        Ok(Grouping { keys, sets: Some(sets) })
    }

    fn too_many_sets(&self) -> Diagnostic {
        let message = format!("there are more than {MAX_SETS} grouping sets");
        Diagnostic::new("GROUPING_SIZE_LIMIT_EXCEEDED", "54000", self.position(), message)
    }

    /// One element and whether it is more than an expression.
    fn grouping_element(&mut self) -> Result<(Sets, bool), Diagnostic> {
        let before_bracket = self.nth_is_token(1, &Token::LParen);
        if before_bracket && self.cursor.eat(&["ROLLUP"]) {
            return Ok((rollup(self.parenthesized_list(Parser::grouping_set)?), true));
        }
        if before_bracket && self.cursor.eat(&["CUBE"]) {
            let columns = self.parenthesized_list(Parser::grouping_set)?;
            return Ok((self.cube(columns)?, true));
        }
        if self.nth_is_token(2, &Token::LParen) && self.cursor.eat(&["GROUPING", "SETS"]) {
            let elements = self.parenthesized_list(|parser| {
                let analytics = (parser.is_any(&["ROLLUP", "CUBE"]) && parser.nth_is_token(1, &Token::LParen))
                    || (parser.cursor.are(&["GROUPING", "SETS"]) && parser.nth_is_token(2, &Token::LParen));
                if analytics { parser.nested(Parser::grouping_element).map(|element| element.0) } else { Ok(vec![parser.grouping_set()?]) }
            })?;
            return Ok((elements.into_iter().flatten().collect(), true));
        }
        Ok((vec![vec![self.expression()?]], false))
    }

    /// `(a, b)`, `()` or one expression.
    fn grouping_set(&mut self) -> Result<Vec<Expression>, Diagnostic> {
        if self.is_token(&Token::LParen) && matches!(self.after_closing(0), Some(Token::Comma | Token::RParen)) {
            if self.nth_is_token(1, &Token::RParen) {
                self.cursor.advance();
                self.cursor.advance();
                return Ok(Vec::new());
            }
            return self.parenthesized_list(Parser::expression);
        }
        Ok(vec![self.expression()?])
    }

    fn cube(&self, columns: Sets) -> Result<Sets, Diagnostic> {
        if columns.len() > 12 {
            return Err(self.too_many_sets());
        }
        let subsets = 0..1_usize << columns.len();
        Ok(subsets
            .map(|left_out| {
                let kept = columns.iter().enumerate().filter(|(n, _)| left_out >> (columns.len() - 1 - n) & 1 == 0);
                kept.flat_map(|(_, column)| column.iter().cloned()).collect()
            })
            .collect())
    }

    /// Puts the item of the select list in place of its position.
    fn position_replaced(&mut self, key: &mut Expression, items: &[Expression], items_have_star: bool) {
        let Some(ExprType::Literal(literal)) = &key.expr_type else { return };
        let Some(LiteralType::Integer(place)) = literal.literal_type else { return };
        let position = self.position();
        if items_have_star {
            let message = "a position in GROUP BY cannot be used with '*' in the select list";
            self.defer(Diagnostic::new("STAR_GROUP_BY_POS", "0A000", position, message));
            return;
        }
        let item = usize::try_from(place).ok().and_then(|place| items.get(place.checked_sub(1)?));
        match item {
            None => {
                let message = format!("the position {place} in GROUP BY is not one of the {} of the select list", items.len());
                self.defer(Diagnostic::new("GROUP_BY_POS_OUT_OF_RANGE", "42805", position, message));
            }
            Some(item) => {
                let unaliased = match &item.expr_type {
                    Some(ExprType::Alias(alias)) => alias.expr.as_deref().unwrap_or(item),
                    _ => item,
                };
                if is_aggregate_call(unaliased) {
                    let message = format!("the position {place} in GROUP BY is an aggregate");
                    self.defer(Diagnostic::new("GROUP_BY_POS_AGGREGATE", "42903", position, message));
                }
                *key = unaliased.clone();
            }
        }
    }
}

fn rollup(columns: Sets) -> Sets {
    (0..=columns.len()).rev().map(|kept| columns.iter().take(kept).flatten().cloned().collect()).collect()
}

/// Whether the expression itself, or an operand of an operator in it, is an aggregate.
fn is_aggregate_call(expression: &Expression) -> bool {
    let Some(ExprType::UnresolvedFunction(function)) = &expression.expr_type else { return false };
    let name = function.function_name.to_ascii_lowercase();
    crate::functions::aggregate::Aggregates::all().contains(&name)
        || name == "__filter"
        || name == "__within_group"
        || function.arguments.iter().any(is_aggregate_call)
}
