//! Variance, covariance, correlation, regression, skewness, kurtosis, products: what is computed from sums of powers.
//!
//! Values are added and states are merged by the numerically stable formulas of Chan, Golub, LeVeque and Pébay.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Case, EmitTo, Expr, GroupsAccumulator};
use millstream_core::Result;
use millstream_engine::to_datafusion;

use super::function::{Aggregation, Groups, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::{Argument, Call, Typed, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("stddev_pop", |call, clauses| single(call, clauses, Statistic::StddevPop));
    aggregates.add_all(&["stddev", "std", "stddev_samp"], |call, clauses| single(call, clauses, Statistic::StddevSamp));
    aggregates.add("var_pop", |call, clauses| single(call, clauses, Statistic::VarPop));
    aggregates.add_all(&["variance", "var_samp"], |call, clauses| single(call, clauses, Statistic::VarSamp));
    aggregates.add("skewness", |call, clauses| single(call, clauses, Statistic::Skewness));
    aggregates.add("kurtosis", |call, clauses| single(call, clauses, Statistic::Kurtosis));
    aggregates.add("product", |call, clauses| single(call, clauses, Statistic::Product));
    aggregates.add("corr", |call, clauses| pair(call, clauses, if call.settings.ansi { Statistic::StrictCorr } else { Statistic::Corr }));
    aggregates.add("covar_pop", |call, clauses| pair(call, clauses, Statistic::CovarPop));
    aggregates.add("covar_samp", |call, clauses| pair(call, clauses, Statistic::CovarSamp));
    aggregates.add("regr_avgx", |call, clauses| average(call, clauses, 1));
    aggregates.add("regr_avgy", |call, clauses| average(call, clauses, 0));
    aggregates.add("regr_count", |call, clauses| {
        call.arity(2..=2)?;
        let arguments = vec![Argument::Value(number(call, 0)?), Argument::Value(number(call, 1)?)];
        Aggregates::all().build(&Call { name: "count", arguments, settings: call.settings }, clauses)
    });
    aggregates.add("regr_intercept", |call, clauses| pair(call, clauses, Statistic::RegrIntercept));
    aggregates.add("regr_r2", |call, clauses| pair(call, clauses, Statistic::RegrR2));
    aggregates.add("regr_slope", |call, clauses| pair(call, clauses, Statistic::RegrSlope));
    aggregates.add("regr_sxx", |call, clauses| pair(call, clauses, Statistic::RegrSxx));
    aggregates.add("regr_sxy", |call, clauses| pair(call, clauses, Statistic::RegrSxy));
    aggregates.add("regr_syy", |call, clauses| pair(call, clauses, Statistic::RegrSyy));
}

fn single(call: &Call<'_>, clauses: &Clauses, statistic: Statistic) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(aggregate(statistic.name(), statistic, vec![call.double(0)?], clauses, DataType::Float64, true))
}

fn pair(call: &Call<'_>, clauses: &Clauses, statistic: Statistic) -> Result<Typed> {
    call.arity(2..=2)?;
    let (first, second) = (call.double(0)?, call.double(1)?);
    let arguments = if statistic.is_turned() { vec![second, first] } else { vec![first, second] };
    Ok(aggregate(statistic.name(), statistic, arguments, clauses, DataType::Float64, true))
}

/// The average of one argument where neither is null.
fn average(call: &Call<'_>, clauses: &Clauses, index: usize) -> Result<Typed> {
    call.arity(2..=2)?;
    let value = number(call, index)?;
    let present = |index| -> Result<Expr> { Ok(Expr::IsNotNull(Box::new(number(call, index)?.expr))) };
    let both = present(0)?.and(present(1)?);
    let case = Case { expr: None, when_then_expr: vec![(Box::new(both), Box::new(value.expr))], else_expr: None };
    let arguments = vec![Argument::Value(Typed::new(Expr::Case(case), value.data_type, true))];
    Aggregates::all().build(&Call { name: "avg", arguments, settings: call.settings }, clauses)
}

/// An argument that is a number, or text that is read as one.
fn number(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    if value.data_type == DataType::Utf8 { call.double(index) } else { Ok(value.clone()) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Statistic {
    StddevPop,
    StddevSamp,
    VarPop,
    VarSamp,
    Skewness,
    Kurtosis,
    Product,
    /// Null where a side does not vary.
    Corr,
    /// An error where a side does not vary.
    StrictCorr,
    CovarPop,
    CovarSamp,
    RegrIntercept,
    RegrR2,
    RegrSlope,
    RegrSxx,
    RegrSxy,
    RegrSyy,
}

/// The names of the state's columns.
const SINGLE: [&str; 5] = ["n", "mean", "m2", "m3", "m4"];
const PAIR: [&str; 6] = ["n", "mean_0", "mean_1", "c", "m2_0", "m2_1"];

impl Statistic {
    fn name(self) -> &'static str {
        match self {
            Statistic::StddevPop => "stddev_pop",
            Statistic::StddevSamp => "stddev_samp",
            Statistic::VarPop => "var_pop",
            Statistic::VarSamp => "var_samp",
            Statistic::Skewness => "skewness",
            Statistic::Kurtosis => "kurtosis",
            Statistic::Product => "product",
            Statistic::Corr | Statistic::StrictCorr => "corr",
            Statistic::CovarPop => "covar_pop",
            Statistic::CovarSamp => "covar_samp",
            Statistic::RegrIntercept => "regr_intercept",
            Statistic::RegrR2 => "regr_r2",
            Statistic::RegrSlope => "regr_slope",
            Statistic::RegrSxx => "regr_sxx",
            Statistic::RegrSxy => "regr_sxy",
            Statistic::RegrSyy => "regr_syy",
        }
    }

    fn columns(self) -> &'static [&'static str] {
        match self {
            Statistic::Product => &["n", "product"],
            Statistic::StddevPop | Statistic::StddevSamp | Statistic::VarPop | Statistic::VarSamp => &["n", "mean", "m2"],
            Statistic::Skewness => &["n", "mean", "m2", "m3"],
            Statistic::Kurtosis => &SINGLE,
            _ => &PAIR,
        }
    }

    /// Of `regr_…(y, x)` the second argument is the independent variable. In some of these functions it comes first in the sums, which decides
    /// how they are rounded.
    fn is_turned(self) -> bool {
        matches!(self, Statistic::RegrIntercept | Statistic::RegrSlope | Statistic::RegrSxx | Statistic::RegrSyy)
    }

    fn is_pair(self) -> bool {
        self.columns() == PAIR
    }

    fn update(self, state: &mut Moments, x: f64, y: f64) {
        if self == Statistic::Product {
            let [n, product, ..] = state;
            *product = if *n == 0.0 { x } else { *product * x };
            *n += 1.0;
        } else if self.is_pair() {
            let [n, mean_x, mean_y, c, m2_x, m2_y] = state;
            *n += 1.0;
            let (dx, dy) = (x - *mean_x, y - *mean_y);
            *mean_x += dx / *n;
            *mean_y += dy / *n;
            *c += dx * (y - *mean_y);
            *m2_x += dx * (x - *mean_x);
            *m2_y += dy * (y - *mean_y);
        } else {
            let [n, mean, m2, m3, m4, _] = state;
            *n += 1.0;
            let delta = x - *mean;
            let delta_n = delta / *n;
            let (delta2, delta_n2) = (delta * delta, delta_n * delta_n);
            *mean += delta_n;
            *m2 += delta * (delta - delta_n);
            *m3 = *m3 - 3.0 * delta_n * *m2 + delta * (delta2 - delta_n2);
            *m4 = *m4 - 4.0 * delta_n * *m3 - 6.0 * delta_n2 * *m2 + delta * (delta * delta2 - delta_n * delta_n2);
        }
    }

    fn merge(self, state: &mut Moments, other: &Moments) {
        let [n2, ..] = *other;
        if n2 == 0.0 {
            return;
        }
        if self == Statistic::Product {
            let ([n, product, ..], [_, other, ..]) = (state, other);
            *product = if *n == 0.0 { *other } else { *product * other };
            *n += n2;
        } else if self.is_pair() {
            let [n, mean_x, mean_y, c, m2_x, m2_y] = state;
            let [_, mean_x2, mean_y2, c2, m2_x2, m2_y2] = *other;
            let n1 = *n;
            *n += n2;
            let (dx, dy) = (mean_x2 - *mean_x, mean_y2 - *mean_y);
            let (dx_n, dy_n) = (dx / *n, dy / *n);
            *mean_x += dx_n * n2;
            *mean_y += dy_n * n2;
            *c += c2 + dx * dy_n * n1 * n2;
            *m2_x += m2_x2 + dx * dx_n * n1 * n2;
            *m2_y += m2_y2 + dy * dy_n * n1 * n2;
        } else {
            let [n, mean, m2, m3, m4, _] = state;
            let [_, mean2, m2_2, m3_2, m4_2, _] = *other;
            let n1 = *n;
            *n += n2;
            let delta = mean2 - *mean;
            let delta_n = delta / *n;
            let (m2_1, m3_1) = (*m2, *m3);
            *mean += delta_n * n2;
            *m2 += m2_2 + delta * delta_n * n1 * n2;
            *m3 += m3_2 + delta_n * delta_n * delta * n1 * n2 * (n1 - n2) + 3.0 * delta_n * (n1 * m2_2 - n2 * m2_1);
            *m4 += m4_2
                + delta_n * delta_n * delta_n * delta * n1 * n2 * (n1 * n1 - n1 * n2 + n2 * n2)
                + 6.0 * delta_n * delta_n * (n1 * n1 * m2_2 + n2 * n2 * m2_1)
                + 4.0 * delta_n * (n1 * m3_2 - n2 * m3_1);
        }
    }

    fn evaluate(self, state: &Moments) -> Result<Option<f64>> {
        let [n, mean, m2, m3, m4, _] = *state;
        // Where the arguments are turned, x is the independent variable.
        let [_, mean_x, mean_y, c, m2_x, m2_y] = *state;
        if n == 0.0 {
            return Ok(None);
        }
        let varies = m2_x != 0.0 && m2_y != 0.0;
        if self == Statistic::StrictCorr && n > 1.0 && !varies {
            return Err(faults::divide_by_zero());
        }
        Ok(match self {
            Statistic::StddevPop => Some((m2 / n).sqrt()),
            Statistic::StddevSamp => (n > 1.0).then(|| (m2 / (n - 1.0)).sqrt()),
            Statistic::VarPop => Some(m2 / n),
            Statistic::VarSamp => (n > 1.0).then(|| m2 / (n - 1.0)),
            Statistic::Skewness => (m2 != 0.0).then(|| n.sqrt() * m3 / (m2 * m2 * m2).sqrt()),
            Statistic::Kurtosis => (m2 != 0.0).then(|| n * m4 / (m2 * m2) - 3.0),
            Statistic::Product => Some(mean),
            Statistic::Corr | Statistic::StrictCorr => (n > 1.0 && varies).then(|| c / (m2_x * m2_y).sqrt()),
            Statistic::CovarPop => Some(c / n),
            Statistic::CovarSamp => (n > 1.0).then(|| c / (n - 1.0)),
            Statistic::RegrSlope => (m2_x != 0.0).then(|| c / m2_x),
            Statistic::RegrIntercept => (m2_x != 0.0).then(|| mean_y - c / m2_x * mean_x),
            Statistic::RegrR2 if m2_y == 0.0 => None,
            Statistic::RegrR2 if m2_x == 0.0 => Some(1.0),
            Statistic::RegrR2 => Some((c / (m2_x * m2_y).sqrt()).powi(2)),
            Statistic::RegrSxx => Some(m2_x),
            Statistic::RegrSxy => Some(c),
            Statistic::RegrSyy => Some(m2_y),
        })
    }
}

/// The columns of the state; what a statistic does not use stays zero.
type Moments = [f64; 6];

impl Aggregation for Statistic {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        self.columns().iter().map(|name| Field::new(*name, DataType::Float64, true)).collect()
    }

    fn commutes(&self) -> bool {
        true
    }

    fn groups(&self, _: &[FieldRef], _: &DataType) -> Option<Box<dyn Groups>> {
        Some(Box::new(MomentsOfGroups { statistic: *self, states: Vec::new() }))
    }
}

#[derive(Debug)]
struct MomentsOfGroups {
    statistic: Statistic,
    states: Vec<Moments>,
}

fn column(values: &[ArrayRef], index: usize) -> DfResult<&Float64Array> {
    let column = values.get(index).and_then(|column| column.as_primitive_opt::<Float64Type>());
    column.ok_or_else(|| DataFusionError::Internal("a column of an aggregate function is not of doubles".into()))
}

impl GroupsAccumulator for MomentsOfGroups {
    fn update_batch(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>, total: usize) -> DfResult<()> {
        self.resize(total);
        let first = column(values, 0)?;
        let second = if self.statistic.is_pair() { column(values, 1)? } else { first };
        for (row, group) in groups.iter().enumerate() {
            let chosen = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if let (true, true, true, Some(state)) = (chosen, first.is_valid(row), second.is_valid(row), self.states.get_mut(*group)) {
                self.statistic.update(state, first.value(row), second.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.resize(total);
        let columns = (0..self.statistic.columns().len()).map(|index| column(values, index)).collect::<DfResult<Vec<_>>>()?;
        for (row, group) in groups.iter().enumerate() {
            let mut other = [0.0; 6];
            for (place, column) in other.iter_mut().zip(&columns) {
                *place = if column.is_valid(row) { column.value(row) } else { 0.0 };
            }
            if let Some(state) = self.states.get_mut(*group) {
                self.statistic.merge(state, &other);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        let states = emit_to.take_needed(&mut self.states);
        let results = states.iter().map(|state| self.statistic.evaluate(state)).collect::<Result<Float64Array>>();
        Ok(Arc::new(results.map_err(to_datafusion)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let states = emit_to.take_needed(&mut self.states);
        let column = |index: usize| states.iter().map(|state| state.get(index).copied()).collect::<Float64Array>();
        Ok((0..self.statistic.columns().len()).map(|index| Arc::new(column(index)) as ArrayRef).collect())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let mut each = MomentsOfGroups { statistic: self.statistic, states: Vec::new() };
        let rows = values.first().map_or(0, |values| values.len());
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<Moments>()
    }
}

impl Groups for MomentsOfGroups {
    fn resize(&mut self, groups: usize) {
        if self.states.len() < groups {
            self.states.resize(groups, [0.0; 6]);
        }
    }
}
