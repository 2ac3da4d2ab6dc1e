//! `ROLLUP`, `CUBE`, `GROUPING SETS`, and `grouping` and `grouping_id` over them.
//!
//! As in Spark each row is multiplied before the aggregation, once per set, with the keys that are not in the set null; a number that
//! tells the set is one more key.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;

use super::Attribute;
use super::aggregate::{Key, calls_of, unaliased};
use super::columns::{item, project};
use super::expression::Scope;
use super::generate::unnested;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;

const FUNCTIONS: &[&str] = &["grouping", "grouping_id", "grouping__id"];

/// Sets of keys, each as a mask: the first key is the highest bit, and a bit is set for a key that is not in the set.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    masks: Vec<i64>,
}

impl Sets {
    /// All keys, all but the last, and so on to none.
    pub(super) fn rollup(keys: usize) -> Result<Sets> {
        limited(keys)?;
        Ok(Sets { masks: (0..=keys).map(|left_out| (1_i64 << left_out) - 1).collect() })
    }

    /// All subsets of the keys.
    pub(super) fn cube(keys: usize) -> Result<Sets> {
        if keys > 20 {
            return Err(too_many(keys));
        }
        Ok(Sets { masks: (0..1_i64 << keys).collect() })
    }

    /// Sets given by the places of their keys.
    fn of(keys: usize, sets: &[Vec<usize>]) -> Result<Sets> {
        limited(keys)?;
        let all = (1_i64 << keys) - 1;
        Ok(Sets { masks: sets.iter().map(|set| set.iter().fold(all, |mask, key| mask & !bit(keys, *key))).collect() })
    }
}

fn bit(keys: usize, key: usize) -> i64 {
    1_i64 << keys.saturating_sub(key + 1)
}

fn limited(keys: usize) -> Result<()> {
    if keys > 40 { Err(too_many(keys)) } else { Ok(()) }
}

fn too_many(keys: usize) -> Error {
    Error::invalid("GROUPING_SIZE_LIMIT_EXCEEDED", format!("{keys} keys are too many for their sets")).with_sqlstate("54000")
}

/// `grouping` and `grouping_id` need sets.
pub(super) fn refuse_grouping(wanted: &[&Expression]) -> Result<()> {
    if calls_of(wanted, FUNCTIONS).is_empty() {
        return Ok(());
    }
    Err(unsupported())
}

/// There are no sets.
pub(super) fn unsupported() -> Error {
    Error::invalid("UNSUPPORTED_GROUPING_EXPRESSION", "grouping() and grouping_id() need GROUPING SETS, CUBE or ROLLUP")
        .with_sqlstate("42K0E")
}

impl Analyzer<'_> {
    /// Groups by sets of expressions.
    pub(super) fn grouping_sets(
        &self,
        input: Node,
        mut keys: Vec<Expression>,
        sets: &[Vec<Expression>],
        wanted: &[&Expression],
        outer: Option<&Scope<'_>>,
    ) -> Result<Node> {
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let mut values: Vec<Option<Typed>> = keys.iter().map(|key| self.value(key, &scope).ok()).collect();
        let mut places: Vec<Vec<usize>> = Vec::with_capacity(sets.len());
        for set in sets {
            let mut of_set: Vec<usize> = Vec::with_capacity(set.len());
            for expression in set {
                let value = self.value(expression, &scope).ok();
                let same = |(key, known): &(&Expression, &Option<Typed>)| match (known, &value) {
                    (Some(known), Some(value)) => known.expr == value.expr,
                    _ => unaliased(key).expr_type == unaliased(expression).expr_type,
                };
                let place = match keys.iter().zip(&values).position(|pair| same(&pair)) {
                    Some(place) => place,
                    None => {
                        keys.push(expression.clone());
                        values.push(value);
                        keys.len() - 1
                    }
                };
                of_set.push(place);
            }
            places.push(of_set);
        }
        let sets = Sets::of(keys.len(), &places)?;
        self.group(input, &keys, Some(sets), wanted, outer)
    }

    /// Multiplies the rows of `input`, once per set. The columns of the keys become those of the multiplied rows; the keys given back are the
    /// number of the set, and what `grouping` and `grouping_id` in `wanted` give, which are found under `computed`.
    pub(super) fn expand(
        &self,
        input: Node,
        keys: &mut [Key],
        sets: &Sets,
        computed: &mut Vec<(Expression, usize)>,
        wanted: &[&Expression],
    ) -> Result<(Node, Vec<Key>)> {
        let count = keys.len();
        let all = (1_i64 << count) - 1;
        // Sets that occur twice give their groups twice.
        let numbers: Vec<ScalarValue> = sets
            .masks
            .iter()
            .enumerate()
            .map(|(place, mask)| {
                let earlier = sets.masks.iter().take(place).filter(|known| *known == mask).count();
                ScalarValue::Int64(Some(i64::try_from(earlier).unwrap_or(0) << count | mask))
            })
            .collect();
        let list = Typed::literal(ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &DataType::Int64)));
        let number = Attribute { data_type: DataType::Int64, nullable: false, ..Attribute::of("spark_grouping_id", &list) };
        let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
        items.push(item(&list, &number.internal, &input.plan)?);
        let plan = unnested(project(input.plan, items)?, &number.internal, false)?;

        let masked = |mask: i64| binary_expr(number.column(), Operator::BitwiseAnd, lit(mask));
        let mut columns = input.columns;
        let mut items: Vec<Expr> = columns.iter().map(Attribute::column).collect();
        items.push(number.column());
        columns.push(number.clone().hidden());
        let mut more = vec![Key { expr: number.column(), column: number.clone() }];
        let functions = self.grouping_functions(wanted, keys, &columns, computed)?;
        for (place, key) in keys.iter_mut().enumerate() {
            let value = when(masked(bit(count, place)).eq(lit(0_i64)), key.column.column())
                .otherwise(Typed::null(&key.column.data_type).expr)
                .map_err(from_datafusion)?;
            let value = Typed::new(value, key.column.data_type.clone(), true).with_metadata(key.column.metadata.clone());
            let column = Attribute { internal: super::columns::fresh(), nullable: true, ..key.column.clone() };
            items.push(item(&value, &column.internal, &plan)?);
            columns.push(column.clone().hidden());
            key.column = column;
        }
        for (call, of) in functions {
            let value = match of {
                None => Typed::new(masked(all), DataType::Int64, false),
                Some(place) => {
                    let is_null = masked(bit(count, place)).not_eq(lit(0_i64));
                    Typed::new(cast(is_null, DataType::Int8), DataType::Int8, false)
                }
            };
            let column = Attribute::of(super::naming::name_of(&call), &value);
            items.push(item(&value, &column.internal, &plan)?);
            computed.push((call, columns.len()));
            more.push(Key { expr: column.column(), column: column.clone() });
            columns.push(column.hidden());
        }
        Ok((Node::new(project(plan, items)?, columns), more))
    }

    /// The calls of `grouping` with the place of their key, and of `grouping_id`.
    fn grouping_functions(
        &self,
        wanted: &[&Expression],
        keys: &[Key],
        columns: &[Attribute],
        computed: &[(Expression, usize)],
    ) -> Result<Vec<(Expression, Option<usize>)>> {
        let scope = Scope { columns, outer: None, computed };
        let mut found = Vec::new();
        for call in calls_of(wanted, FUNCTIONS) {
            let (name, arguments) = match &call.expr_type {
                Some(ExprType::UnresolvedFunction(function)) => (function.function_name.to_lowercase(), function.arguments.as_slice()),
                Some(ExprType::CallFunction(function)) => (function.function_name.to_lowercase(), function.arguments.as_slice()),
                _ => (String::new(), &[][..]),
            };
            let mut places = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let value = self.value(argument, &scope)?;
                places.push(keys.iter().position(|key| key.expr == value.expr));
            }
            if name == "grouping" {
                let [Some(place)] = places.as_slice() else {
                    return Err(Error::invalid(
                        "GROUPING_COLUMN_MISMATCH",
                        "the argument of grouping() is not one of the grouping columns",
                    )
                    .with_sqlstate("42803"));
                };
                found.push((call, Some(*place)));
                continue;
            }
            let in_order = places.iter().enumerate().all(|(index, place)| *place == Some(index));
            let all_keys = in_order && places.len() == keys.len();
            if !places.is_empty() && !all_keys {
                return Err(Error::invalid("GROUPING_ID_COLUMN_MISMATCH", "the arguments of grouping_id() are not the grouping columns")
                    .with_sqlstate("42803"));
            }
            found.push((call, None));
        }
        Ok(found)
    }
}
