//! Literals have Spark's types: a whole number is an `INT` as long as it fits, one with a point is a decimal, suffixes say other types.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The types that Spark's suffixes of numbers mean.
const SUFFIXES: &[(&str, &str)] =
    &[("L", "BIGINT"), ("S", "SMALLINT"), ("Y", "TINYINT"), ("D", "DOUBLE"), ("F", "FLOAT"), ("BD", "DECIMAL")];

/// Makes casts of numbers whose type their text tells (`5L`, `1.5D`, `1e3`), which the parser would take for something else.
pub(super) fn typed_numbers(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut typed = Vec::with_capacity(tokens.len());
    let mut rest = tokens.iter().peekable();
    while let Some(token) = rest.next() {
        let Token::Number(digits, long) = &token.token else {
            typed.push(token.clone());
            continue;
        };
        let suffix = rest.peek().and_then(|next| match &next.token {
            Token::Word(word) if next.span.start == token.span.end && word.quote_style.is_none() => {
                SUFFIXES.iter().find(|(suffix, _)| suffix.eq_ignore_ascii_case(&word.value))
            }
            _ => None,
        });
        if suffix.is_some() {
            rest.next();
        }
        let exponent = digits.contains(['e', 'E']);
        let data_type = match suffix {
            Some((_, "DECIMAL")) => {
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                format!("DECIMAL({},{})", (whole.len() + fraction.len()).max(1), fraction.len())
            }
            Some((_, name)) => (*name).to_owned(),
            None if *long => "BIGINT".to_owned(),
            None if exponent => "DOUBLE".to_owned(),
            None => {
                typed.push(token.clone());
                continue;
            }
        };
        // As text, because the parser of decimals does not take exponents.
        let number = if exponent { Token::SingleQuotedString(digits.clone()) } else { Token::Number(digits.clone(), false) };
        let mut cast = vec![Token::make_word("CAST", None), Token::LParen, number, Token::make_word("AS", None)];
        match data_type.strip_prefix("DECIMAL(").and_then(|arguments| arguments.trim_end_matches(')').split_once(',')) {
            Some((precision, scale)) => cast.extend([
                Token::make_word("DECIMAL", None),
                Token::LParen,
                Token::Number(precision.to_owned(), false),
                Token::Comma,
                Token::Number(scale.to_owned(), false),
                Token::RParen,
            ]),
            None => cast.push(Token::make_word(&data_type, None)),
        }
        cast.push(Token::RParen);
        typed.extend(cast.into_iter().map(|cast| TokenWithSpan { token: cast, span: token.span }));
    }
    typed
}

/// The plan with whole numbers as 32-bit literals where they fit.
pub(super) fn narrow(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        // A limit counts in 64 bits, and has no type.
        if matches!(node, LogicalPlan::Limit(_)) {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        let narrowed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(narrow_literal)?.update_data(|expr| name.restore(expr)))
        })?;
        narrowed.map_data(|node| match node {
            LogicalPlan::Values(values) => LogicalPlanBuilder::values(values.values)?.build(),
            node => node.recompute_schema(),
        })
    })
    .map(|plan| plan.data)
}

/// The same for an expression.
pub(super) fn narrow_expression(expr: Expr) -> DfResult<Expr> {
    expr.transform_up(narrow_literal).map(|expr| expr.data)
}

fn narrow_literal(expr: Expr) -> DfResult<Transformed<Expr>> {
    if let Expr::Literal(ScalarValue::Int64(Some(number)), metadata) = &expr
        && let Ok(number) = i32::try_from(*number)
    {
        return Ok(Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(number)), metadata.clone())));
    }
    Ok(Transformed::no(expr))
}
