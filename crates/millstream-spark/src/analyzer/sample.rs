//! `sample`, `randomSplit` and `sampleBy`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::logical_expr::{Expr, LogicalPlan, Sort as SortPlan, SortExpr, lit, when};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::is_streaming;
use spark_connect_proto::{Sample, StatSampleBy};

use super::Attribute;
use super::columns::{fresh, item, project};
use super::expression::{Resolver, Scope, literal};
use super::extend::restored;
use super::filter::filtered;
use super::gather::incomplete;
use super::generate::unnested;
use super::relation::{Analyzer, Node};
use crate::functions::{Arguments, Kernel, Typed, coercion, scalar};
use crate::types;

impl Analyzer<'_> {
    pub(super) fn sample(&self, sample: &Sample, outer: Option<&Scope<'_>>) -> Result<Node> {
        let mut input = self.input(sample.input.as_deref(), outer)?;
        refuse_stream(&input)?;
        let (lower, upper) = (sample.lower_bound, sample.upper_bound);
        if !(0.0..=1.0 + 1e-6).contains(&(upper - lower)) && !sample.with_replacement() || upper < lower {
            return Err(Error::invalid("IllegalArgumentException", format!("the fraction {} to sample is not in [0, 1]", upper - lower)));
        }
        if sample.deterministic_order {
            input.plan = sorted(input.plan, &input.columns);
        }
        let (plan, random) = self.with_random(&input, sample.seed)?;
        if sample.with_replacement() {
            let mean = ordered(upper - lower);
            let list = types::array(DataType::Boolean, false);
            let copies = scalar("copies", Copies { mean }, vec![random], list, false);
            let internal = fresh();
            let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
            items.push(copies.expr.alias(&internal));
            let plan = unnested(project(plan, items)?, &internal, false)?;
            return Ok(Node::new(restored(plan, &input.columns)?, input.columns));
        }
        let plan = filtered(plan, random.expr.clone().gt_eq(lit(lower)).and(random.expr.lt(lit(upper))))?;
        Ok(Node::new(restored(plan, &input.columns)?, input.columns))
    }

    /// `sampleBy(column, fractions)`: each value of the column is sampled at its own rate.
    pub(super) fn sample_by(&self, sample: &StatSampleBy, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(sample.input.as_deref(), outer)?;
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let key = self.value(sample.col.as_ref().ok_or_else(|| incomplete("the column to sample by"))?, &scope)?;
        let (plan, random) = self.with_random(&input, sample.seed)?;
        let mut rate = lit(0.0_f64);
        for fraction in sample.fractions.iter().rev() {
            let stratum = literal(fraction.stratum.as_ref().ok_or_else(|| incomplete("a stratum"))?)?;
            if !(0.0..=1.0).contains(&fraction.fraction) {
                return Err(Error::invalid("IllegalArgumentException", format!("the fraction {} is not in [0, 1]", fraction.fraction)));
            }
            let (_, mut both) = coercion::to_common_type("sampleBy", vec![key.clone(), stratum], self.settings)?;
            let (Some(stratum), Some(key)) = (both.pop(), both.pop()) else {
                return Err(Error::internal("two values were brought together"));
            };
            let same = datafusion::logical_expr::binary_expr(key.expr, datafusion::logical_expr::Operator::IsNotDistinctFrom, stratum.expr);
            rate = when(same, lit(fraction.fraction)).otherwise(rate).map_err(from_datafusion)?;
        }
        let plan = filtered(plan, random.expr.lt(rate))?;
        Ok(Node::new(restored(plan, &input.columns)?, input.columns))
    }

    /// The plan with a random number between 0 and 1 beside its columns.
    fn with_random(&self, input: &Node, seed: Option<i64>) -> Result<(LogicalPlan, Typed)> {
        let scope = Scope::default();
        let seed = Typed::literal(ScalarValue::Int64(Some(seed.unwrap_or(0))));
        let random = Resolver::new(self.settings, &scope, self).call("rand", vec![seed])?;
        let attribute = Attribute::of("random", &random);
        let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
        items.push(item(&random, &attribute.internal, &input.plan)?);
        Ok((project(input.plan.clone(), items)?, attribute.typed()))
    }
}

fn refuse_stream(input: &Node) -> Result<()> {
    if is_streaming(&input.plan)? {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_3102", "Sampling is not supported on streaming DataFrames/Datasets"));
    }
    Ok(())
}

/// Rows in an order that depends on their values only.
fn sorted(plan: LogicalPlan, columns: &[Attribute]) -> LogicalPlan {
    let expr: Vec<SortExpr> = columns
        .iter()
        .filter(|column| !matches!(column.data_type, DataType::Map(..)))
        .map(|column| SortExpr::new(column.column(), true, true))
        .collect();
    if expr.is_empty() { plan } else { LogicalPlan::Sort(SortPlan { expr, input: Arc::new(plan), fetch: None }) }
}

/// A number as bits, which can be compared and hashed.
fn ordered(value: f64) -> u64 {
    value.to_bits()
}

/// How often a row is taken with replacement: a Poisson number, from a uniform one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copies {
    /// The bits of the mean.
    mean: u64,
}

impl Kernel for Copies {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mean = f64::from_bits(self.mean);
        let uniform = arguments.array(0)?;
        let uniform = uniform.as_primitive::<Float64Type>();
        let lengths: Vec<usize> = uniform.iter().map(|uniform| poisson(mean, uniform.unwrap_or(0.0))).collect();
        let total = lengths.iter().sum();
        let element = Arc::new(Field::new("element", DataType::Boolean, false));
        let values = Arc::new(BooleanArray::from(vec![true; total]));
        let list = ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), values, None);
        list.map(|list| Arc::new(list) as ArrayRef).map_err(|error| Error::internal("copies of rows cannot be made").caused_by(error))
    }
}

/// The smallest number whose cumulative probability exceeds `uniform`.
fn poisson(mean: f64, uniform: f64) -> usize {
    let mut probability = (-mean).exp();
    let mut cumulative = probability;
    let mut number = 0_u32;
    while uniform >= cumulative && number < 10_000 {
        number += 1;
        probability *= mean / f64::from(number);
        cumulative += probability;
    }
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_numbers_have_their_mean() {
        let draws = 10_000;
        for mean in [0.1, 0.5, 2.0, 7.0] {
            let total: usize = (0..draws).map(|place| poisson(mean, (f64::from(place) + 0.5) / f64::from(draws))).sum();
            let average = total as f64 / f64::from(draws);
            assert!((average - mean).abs() < 0.01 * mean.max(1.0), "{average} is not {mean}");
        }
    }
}
