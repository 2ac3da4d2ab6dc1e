//! `PIVOT` and `UNPIVOT`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::aggregate::{GroupType, Pivot};
use spark_connect_proto::expression::{ExprType, Literal};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Aggregate, Expression, Relation, Unpivot, unpivot};

use super::select::filtered;
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{alias, attribute, call, relation, star, syntax_call};

impl Parser<'_> {
    /// `PIVOT (sum(a) FOR b IN (1, 2 AS two))`.
    pub(super) fn pivot(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        let position = self.position();
        self.cursor.expect(&["PIVOT"])?;
        self.cursor.expect_token(&Token::LParen)?;
        let aggregates = self.comma_separated(Parser::named_expression)?;
        self.cursor.expect(&["FOR"])?;
        let columns = if self.is_token(&Token::LParen) { self.name_list("a column's name")? } else { vec![self.name("a column's name")?] };
        self.cursor.expect(&["IN"])?;
        let values = self.parenthesized_list(Parser::named_expression)?;
        self.cursor.expect_token(&Token::RParen)?;
        let columns: Vec<Expression> = columns.iter().map(|column| attribute(&[column])).collect();
        let mut mentioned = columns.clone();
        for aggregate in &aggregates {
            columns_of(aggregate, &mut mentioned);
        }
        let mut pivoted: Vec<Pivoted> = Vec::with_capacity(values.len());
        for value in values {
            let (value, name) = match value.expr_type {
                Some(ExprType::Alias(named)) => (named.expr.map(|inner| *inner), named.name.into_iter().next()),
                kind => (Some(Expression { common: None, expr_type: kind }), None),
            };
            let literals = value.and_then(|value| literals_of(value, columns.len()));
            let Some(literals) = literals else {
                let message = "the values of PIVOT are not literals, as many as there are columns";
                return Err(Diagnostic::new("NON_LITERAL_PIVOT_VALUES", "42K08", position, message));
            };
            pivoted.push(Pivoted { literals, name });
        }
        let others = syntax_call("star except", std::iter::once(star::<&str>(&[])).chain(mentioned).collect());
        // Values under names, and values of several columns, are computed apart: the plan has no place for them.
        let ([column], true) = (columns.as_slice(), pivoted.iter().all(|value| value.name.is_none())) else {
            return self.pivot_by_conditions(input, &aggregates, &columns, pivoted, others);
        };
        let values = pivoted.into_iter().flat_map(|value| value.literals).collect();
        let pivoted = relation(RelType::Aggregate(Box::new(Aggregate {
            input: Some(Box::new(input)),
            group_type: GroupType::Pivot.into(),
            grouping_expressions: vec![others],
            aggregate_expressions: aggregates,
            pivot: Some(Pivot { col: Some(column.clone()), values }),
            grouping_sets: Vec::new(),
        })));
        self.called(pivoted, None)
    }

    /// A pivot as one aggregate with a condition for each value.
    fn pivot_by_conditions(
        &mut self,
        input: Relation,
        aggregates: &[Expression],
        columns: &[Expression],
        values: Vec<Pivoted>,
        others: Expression,
    ) -> Result<Relation, Diagnostic> {
        let mut items = vec![others.clone()];
        for value in values {
            let literals: Vec<Expression> = value
                .literals
                .into_iter()
                .map(|literal| Expression { common: None, expr_type: Some(ExprType::Literal(literal)) })
                .collect();
            let shown = value.name.unwrap_or_else(|| {
                let texts: Vec<String> = literals.iter().map(crate::analyzer::name_of).collect();
                if texts.len() == 1 { texts.concat() } else { format!("{{{}}}", texts.join(", ")) }
            });
            let equal = columns.iter().zip(literals).map(|(column, literal)| call("<=>", vec![column.clone(), literal]));
            let Some(is_value) = equal.reduce(|one, other| call("and", vec![one, other])) else { continue };
            for aggregate in aggregates {
                let (inner, of_aggregate) = match &aggregate.expr_type {
                    Some(ExprType::Alias(named)) => (named.expr.as_deref().unwrap_or(aggregate), named.name.first().cloned()),
                    _ => (aggregate, None),
                };
                let of_aggregate = of_aggregate.unwrap_or_else(|| crate::analyzer::name_of(inner));
                let name = if aggregates.len() == 1 { shown.clone() } else { format!("{shown}_{of_aggregate}") };
                items.push(alias(call("__filter", vec![inner.clone(), is_value.clone()]), vec![name]));
            }
        }
        let grouping = super::group::Grouping { keys: vec![others], sets: None };
        self.called(super::select::grouped(input, grouping, items), None)
    }

    /// `UNPIVOT INCLUDE NULLS (value FOR name IN (a, b AS bb))`.
    pub(super) fn unpivot(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        let position = self.position();
        self.cursor.expect(&["UNPIVOT"])?;
        let with_nulls = self.cursor.eat(&["INCLUDE", "NULLS"]);
        if !with_nulls {
            self.cursor.eat(&["EXCLUDE", "NULLS"]);
        }
        self.cursor.expect_token(&Token::LParen)?;
        if self.is_token(&Token::LParen) {
            return Err(Diagnostic::unsupported(position, "UNPIVOT into more than one value column is not supported"));
        }
        let value_column_name = self.name("the name of the value column")?;
        self.cursor.expect(&["FOR"])?;
        let variable_column_name = self.name("the name of the variable column")?;
        self.cursor.expect(&["IN"])?;
        let mut columns = Vec::new();
        let values = self.parenthesized_list(|parser| {
            let column = attribute(&parser.names("a column's name")?);
            columns.push(column.clone());
            let named = parser.cursor.eat(&["AS"]) || parser.nth_is_word(0);
            Ok(if named { alias(column, vec![parser.name("a name")?]) } else { column })
        })?;
        self.cursor.expect_token(&Token::RParen)?;
        let others = syntax_call("star except", std::iter::once(star::<&str>(&[])).chain(columns).collect());
        let present = call("isnotnull", vec![attribute(&[&value_column_name])]);
        let unpivoted = relation(RelType::Unpivot(Box::new(Unpivot {
            input: Some(Box::new(input)),
            ids: vec![others],
            values: Some(unpivot::Values { values }),
            variable_column_name,
            value_column_name,
        })));
        self.called(if with_nulls { unpivoted } else { filtered(unpivoted, present) }, None)
    }
}

/// A value of the columns that are pivoted.
struct Pivoted {
    literals: Vec<Literal>,
    name: Option<String>,
}

/// The literal, or the literals of a row of this width.
fn literals_of(value: Expression, width: usize) -> Option<Vec<Literal>> {
    let values = match value.expr_type {
        Some(ExprType::UnresolvedFunction(row)) if row.function_name == "struct" => row.arguments,
        kind => vec![Expression { common: None, expr_type: kind }],
    };
    let literals: Vec<Literal> = values
        .into_iter()
        .map(|value| match value.expr_type {
            Some(ExprType::Literal(literal)) => Some(literal),
            _ => None,
        })
        .collect::<Option<_>>()?;
    (literals.len() == width).then_some(literals)
}

/// The columns that an expression mentions.
fn columns_of(expression: &Expression, found: &mut Vec<Expression>) {
    match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(_)) if !found.contains(expression) => found.push(expression.clone()),
        Some(ExprType::UnresolvedFunction(function)) => function.arguments.iter().for_each(|argument| columns_of(argument, found)),
        Some(ExprType::Alias(alias)) => alias.expr.iter().for_each(|inner| columns_of(inner, found)),
        Some(ExprType::Cast(cast)) => cast.expr.iter().for_each(|inner| columns_of(inner, found)),
        Some(ExprType::UnresolvedExtractValue(extract)) => {
            extract.child.iter().chain(&extract.extraction).for_each(|inner| columns_of(inner, found));
        }
        _ => {}
    }
}
