//! As-of joins: each row of the left side with the nearest row of the right side, if there is one.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, Operator, SortExpr, binary_expr, lit, when};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::AsOfJoin;

use super::columns::{column, fresh};
use super::expression::{Resolver, Scope};
use super::extend::restored;
use super::filter::filtered;
use super::gather::incomplete;
use super::join::{joined, separated};
use super::relation::{Analyzer, Node};
use super::{Attribute, rows};
use crate::functions::Typed;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Backward,
    Forward,
    Nearest,
}

impl Analyzer<'_> {
    pub(super) fn as_of_join(&self, join: &AsOfJoin, outer: Option<&Scope<'_>>) -> Result<Node> {
        let left = self.input(join.left.as_deref(), outer)?;
        let right = self.input(join.right.as_deref(), outer)?;
        let (left, right) = separated(left, right)?;
        let kind = match join.join_type.to_lowercase().replace('_', "").as_str() {
            "inner" => JoinType::Inner,
            "left" | "leftouter" => JoinType::Left,
            other => {
                return Err(Error::invalid("UNSUPPORTED_JOIN_TYPE", format!("an as-of join is inner or left, and not '{other}'"))
                    .with_sqlstate("0A000"));
            }
        };
        let direction = match join.direction.to_lowercase().as_str() {
            "backward" => Direction::Backward,
            "forward" => Direction::Forward,
            "nearest" => Direction::Nearest,
            other => {
                return Err(Error::invalid("INVALID_PARAMETER_VALUE", format!("the direction of an as-of join is '{other}'"))
                    .with_sqlstate("22023"));
            }
        };
        let columns: Vec<Attribute> = left.columns.iter().chain(&right.columns).cloned().collect();
        let of = |expression: Option<&spark_connect_proto::Expression>, columns: &[Attribute], what: &str| {
            self.value(expression.ok_or_else(|| incomplete(what))?, &Scope { columns, outer, computed: &[] })
        };
        let one = of(join.left_as_of.as_ref(), &left.columns, "the left time")?;
        let other = of(join.right_as_of.as_ref(), &right.columns, "the right time")?;
        let scope = Scope { columns: &columns, outer, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let compare = |name: &str, a: &Typed, b: &Typed| resolver.call(name, vec![a.clone(), b.clone()]).map(|value| value.expr);
        let exact = join.allow_exact_matches;
        let mut condition = match (direction, exact) {
            (Direction::Backward, true) => compare(">=", &one, &other)?,
            (Direction::Backward, false) => compare(">", &one, &other)?,
            (Direction::Forward, true) => compare("<=", &one, &other)?,
            (Direction::Forward, false) => compare("<", &one, &other)?,
            (Direction::Nearest, true) => lit(true),
            (Direction::Nearest, false) => Expr::Not(Box::new(compare("=", &one, &other)?)),
        };
        if let Some(tolerance) = &join.tolerance {
            let tolerance = self.value(tolerance, &Scope::default())?;
            if matches!(direction, Direction::Backward | Direction::Nearest) {
                condition = condition.and(compare(">=", &other, &resolver.call("-", vec![one.clone(), tolerance.clone()])?)?);
            }
            if matches!(direction, Direction::Forward | Direction::Nearest) {
                condition = condition.and(compare("<=", &other, &resolver.call("+", vec![one.clone(), tolerance])?)?);
            }
        }
        if let Some(more) = &join.join_expr {
            condition = condition.and(self.condition(more, &scope, "a join")?.expr);
        }
        for name in &join.using_columns {
            let place = |columns: &[Attribute]| {
                Resolver::new(self.settings, &Scope { columns, ..Scope::default() }, self)
                    .place(std::slice::from_ref(name))
                    .map(|place| columns.get(place).map(Attribute::typed))
            };
            let (Some(a), Some(b)) = (place(&left.columns)?, place(&right.columns)?) else { return Err(incomplete("a column to join by")) };
            condition = condition.and(self.equal(a, b)?);
        }
        // Each row of the left side is numbered, and of its matches the nearest is kept.
        let row = fresh();
        let numbered = rows::with_window(left.plan, vec![rows::number(Vec::new(), Vec::new()).alias(&row)])?;
        let pairs = joined(Node::new(numbered, left.columns), right, kind, Some(condition))?;
        let distance = match direction {
            Direction::Backward => SortExpr::new(other.expr, false, false),
            Direction::Forward => SortExpr::new(other.expr, true, false),
            Direction::Nearest => {
                let before = resolver.call("-", vec![one.clone(), other.clone()])?.expr;
                let after = resolver.call("-", vec![other.clone(), one.clone()])?.expr;
                let is_before = binary_expr(one.expr.clone(), Operator::GtEq, other.expr.clone());
                SortExpr::new(when(is_before, before).otherwise(after).map_err(from_datafusion)?, true, false)
            }
        };
        let rank = fresh();
        let plan = rows::with_window(pairs.plan, vec![rows::number(vec![column(&row)], vec![distance]).alias(&rank)])?;
        let plan = filtered(plan, column(&rank).eq(lit(1_u64)))?;
        Ok(Node::new(restored(plan, &pairs.columns)?, pairs.columns))
    }
}
