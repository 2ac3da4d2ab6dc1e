//! Joins.

use spark_connect_proto::join::JoinType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Join, LateralJoin, Relation};

use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::relation;

/// The words before `JOIN`, the longest first.
const KINDS: &[(&[&str], JoinType)] = &[
    (&["LEFT", "OUTER", "JOIN"], JoinType::LeftOuter),
    (&["LEFT", "SEMI", "JOIN"], JoinType::LeftSemi),
    (&["LEFT", "ANTI", "JOIN"], JoinType::LeftAnti),
    (&["LEFT", "JOIN"], JoinType::LeftOuter),
    (&["RIGHT", "OUTER", "JOIN"], JoinType::RightOuter),
    (&["RIGHT", "JOIN"], JoinType::RightOuter),
    (&["FULL", "OUTER", "JOIN"], JoinType::FullOuter),
    (&["FULL", "JOIN"], JoinType::FullOuter),
    (&["INNER", "JOIN"], JoinType::Inner),
    (&["CROSS", "JOIN"], JoinType::Cross),
    (&["SEMI", "JOIN"], JoinType::LeftSemi),
    (&["ANTI", "JOIN"], JoinType::LeftAnti),
    (&["JOIN"], JoinType::Inner),
];

/// The one column of a join on all columns of the same name.
const SHARED_COLUMNS: &str = "*";

impl Parser<'_> {
    /// The next join of `left`, and whether there is one.
    pub(super) fn join(&mut self, left: Relation) -> Result<(Relation, bool), Diagnostic> {
        let natural = self.cursor.is("NATURAL") && self.nth_is_any(1, &["JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "SEMI", "ANTI"]);
        if natural {
            self.cursor.advance();
        }
        let Some((_, kind)) = KINDS.iter().find(|(words, _)| self.cursor.eat(words)) else {
            return if natural { Err(self.cursor.expected("JOIN")) } else { Ok((left, false)) };
        };
        let is_lateral = self.at_lateral() && self.cursor.eat(&["LATERAL"]);
        let right = self.nested(Parser::relation_primary)?;
        let (mut condition, mut using_columns) = (None, Vec::new());
        if natural {
            using_columns.push(SHARED_COLUMNS.to_owned());
        } else if self.cursor.eat(&["ON"]) {
            condition = Some(self.expression()?);
        } else if self.cursor.eat(&["USING"]) {
            using_columns = self.name_list("a column's name")?;
        }
        if is_lateral {
            return Ok((lateral(left, right, *kind, condition), true));
        }
        Ok((joined(left, right, *kind, condition, using_columns), true))
    }
}

fn joined(left: Relation, right: Relation, kind: JoinType, join_condition: Option<Expression>, using_columns: Vec<String>) -> Relation {
    relation(RelType::Join(Box::new(Join {
        left: Some(Box::new(left)),
        right: Some(Box::new(right)),
        join_condition,
        join_type: kind.into(),
        using_columns,
        join_data_type: None,
    })))
}

/// Every row of the one with every row of the other.
pub(super) fn crossed(left: Relation, right: Relation) -> Relation {
    joined(left, right, JoinType::Inner, None, Vec::new())
}

/// A join whose right side may refer to its left.
pub(super) fn lateral(left: Relation, right: Relation, kind: JoinType, join_condition: Option<Expression>) -> Relation {
    relation(RelType::LateralJoin(Box::new(LateralJoin {
        left: Some(Box::new(left)),
        right: Some(Box::new(right)),
        join_condition,
        join_type: kind.into(),
    })))
}
