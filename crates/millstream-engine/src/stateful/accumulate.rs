//! Aggregate functions over partial states: the columns that DataFusion's partial aggregation gives, merged by group.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

/// The aggregate functions of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    functions: Vec<Arc<AggregateFunctionExpr>>,
    /// The columns of each function's partial state.
    states: Vec<Range<usize>>,
    fields: Vec<FieldRef>,
}

impl Functions {
    pub(crate) fn new(functions: &[Arc<AggregateFunctionExpr>]) -> DfResult<Self> {
        let (mut states, mut fields) = (Vec::with_capacity(functions.len()), Vec::new());
        for function in functions {
            let from = fields.len();
            let name = function.fun().name();
            fields.extend(function.state_fields()?.into_iter().map(|field| under_own_name(&field, name)));
            states.push(from..fields.len());
        }
        Ok(Functions { functions: functions.to_vec(), states, fields })
    }

    /// The columns of the partial states of all functions.
    pub(crate) fn state_fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// Their names and arguments, for telling whether state has the same meaning.
    pub(crate) fn text(&self) -> String {
        let text = |function: &Arc<AggregateFunctionExpr>| {
            let arguments: Vec<String> = function.expressions().iter().map(ToString::to_string).collect();
            format!("{}({})", function.fun().name(), arguments.join(", "))
        };
        self.functions.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Accumulators without groups.
    pub(crate) fn start(&self) -> DfResult<Accumulating> {
        let accumulators = self.functions.iter().map(accumulator).collect::<DfResult<Vec<_>>>()?;
        Ok(Accumulating { accumulators, states: self.states.clone() })
    }

    /// The results of complete states, one row for each.
    pub(crate) fn evaluate(&self, states: &[ArrayRef], rows: usize) -> DfResult<Vec<ArrayRef>> {
        let mut accumulating = self.start()?;
        let groups: Vec<usize> = (0..rows).collect();
        accumulating.merge(states, &groups, rows)?;
        accumulating.evaluate()
    }
}

/// A column of a state called as the function calls it: `sum(#7)[count]` is its `count`, and a lone value has the function's name.
fn under_own_name(field: &FieldRef, function: &str) -> FieldRef {
    let own = field.name().rsplit_once('[').and_then(|(_, own)| own.strip_suffix(']')).filter(|own| *own != "value");
    Arc::new(field.as_ref().clone().with_name(own.unwrap_or(function)))
}

fn accumulator(function: &Arc<AggregateFunctionExpr>) -> DfResult<Box<dyn GroupsAccumulator>> {
    if function.groups_accumulator_supported() {
        return function.create_groups_accumulator();
    }
    let function = function.clone();
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
}

/// Groups that partial states are merged into.
pub(crate) struct Accumulating {
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    states: Vec<Range<usize>>,
}

impl std::fmt::Debug for Accumulating {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulating").field("functions", &self.states.len()).finish()
    }
}

impl Accumulating {
    /// Merges partial states, each into the group given for it. Within a group earlier rows come first.
    pub(crate) fn merge(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        for (accumulator, range) in self.accumulators.iter_mut().zip(&self.states) {
            accumulator.merge_batch(states.get(range.clone()).unwrap_or_default(), groups, total)?;
        }
        Ok(())
    }

    /// The partial states of all groups, which are gone then.
    pub(crate) fn states(&mut self) -> DfResult<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        Ok(columns)
    }

    /// The results of all groups, which are gone then.
    pub(crate) fn evaluate(&mut self) -> DfResult<Vec<ArrayRef>> {
        self.accumulators.iter_mut().map(|accumulator| accumulator.evaluate(EmitTo::All)).collect()
    }
}
