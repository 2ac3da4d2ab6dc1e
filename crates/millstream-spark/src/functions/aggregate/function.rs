//! Aggregate functions of ours as functions of the planner.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::Clauses;
use super::sliding::Sliding;
use crate::functions::Typed;

/// The accumulator of many groups, which can also serve one.
pub(super) trait Groups: GroupsAccumulator + Sync + Debug {
    /// Makes room for this many groups.
    fn resize(&mut self, groups: usize);
}

/// An aggregate function. Its fields are what it was compiled for; two that compare equal must compute the same.
pub(super) trait Aggregation: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The columns of the partial state, which is written to checkpoints: their order and types never change.
    fn state(&self, inputs: &[FieldRef], result: &DataType) -> Vec<Field>;

    /// The accumulator of one group.
    fn accumulator(&self, inputs: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        match self.groups(inputs, result) {
            Some(groups) => Ok(Box::new(OneGroup(groups))),
            None => Err(DataFusionError::Internal("an aggregate function has no accumulator".into())),
        }
    }

    /// The accumulator of many groups, where there is a fast one.
    fn groups(&self, inputs: &[FieldRef], result: &DataType) -> Option<Box<dyn Groups>> {
        let _ = (inputs, result);
        None
    }

    /// Whether the result does not depend on the order of the rows. If so, the engine may put partial results together in any order.
    fn commutes(&self) -> bool {
        false
    }

    /// The result without rows.
    fn empty(&self, result: &DataType) -> DfResult<ScalarValue> {
        ScalarValue::try_new_null(result)
    }
}

/// A call of an aggregate function of ours.
pub(super) fn aggregate(
    name: &'static str,
    aggregation: impl Aggregation,
    arguments: Vec<Typed>,
    clauses: &Clauses,
    data_type: DataType,
    nullable: bool,
) -> Typed {
    let function = AggregationFunction {
        name,
        aggregation,
        result: Arc::new(Field::new(name, data_type.clone(), nullable)),
        signature: Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], Volatility::Immutable),
    };
    call(Arc::new(AggregateUDF::new_from_impl(function)), arguments, clauses, data_type, nullable)
}

/// A call of an aggregate function of the planner's, whose result is known to be of `data_type`.
pub(super) fn call(function: Arc<AggregateUDF>, arguments: Vec<Typed>, clauses: &Clauses, data_type: DataType, nullable: bool) -> Typed {
    let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
    let filter = clauses.filter.as_ref().map(|filter| Box::new(filter.expr.clone()));
    let expr = Expr::AggregateFunction(AggregateFunction::new_udf(function, arguments, clauses.distinct, filter, Vec::new(), None));
    Typed::new(expr, data_type, nullable)
}

#[derive(Clone, Debug)]
struct AggregationFunction<A> {
    name: &'static str,
    aggregation: A,
    result: FieldRef,
    signature: Signature,
}

impl<A: Aggregation> PartialEq for AggregationFunction<A> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.result == other.result && self.aggregation == other.aggregation
    }
}

impl<A: Aggregation> Eq for AggregationFunction<A> {}

impl<A: Aggregation> Hash for AggregationFunction<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.result.hash(state);
        self.aggregation.hash(state);
        self.type_id().hash(state);
    }
}

impl<A: Aggregation> AggregateUDFImpl for AggregationFunction<A> {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field(&self, _: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(self.result.clone())
    }

    fn is_nullable(&self) -> bool {
        self.result.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let inner = self.aggregation.accumulator(args.expr_fields, self.result.data_type())?;
        if args.is_distinct { Ok(Box::new(Distinct::try_new(inner, args.expr_fields)?)) } else { Ok(inner) }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Sliding::new(self.aggregation.clone(), args.expr_fields, self.result.data_type())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let fields = if args.is_distinct {
            vec![Field::new("rows", Distinct::state_type(args.input_fields), true)]
        } else {
            self.aggregation.state(args.input_fields, self.result.data_type())
        };
        Ok(fields.into_iter().map(|field| Arc::new(field.clone().with_name(format_state_name(args.name, field.name())))).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct && self.aggregation.groups(args.expr_fields, self.result.data_type()).is_some()
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn GroupsAccumulator>> {
        match self.aggregation.groups(args.expr_fields, self.result.data_type()) {
            Some(groups) => Ok(groups),
            None => Err(DataFusionError::Internal(format!("'{}' has no accumulator of many groups", self.name))),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        if self.aggregation.commutes() { AggregateOrderSensitivity::Insensitive } else { AggregateOrderSensitivity::Beneficial }
    }

    fn default_value(&self, data_type: &DataType) -> DfResult<ScalarValue> {
        self.aggregation.empty(data_type)
    }
}

/// The accumulator of many groups, used for one.
#[derive(Debug)]
struct OneGroup(Box<dyn Groups>);

impl OneGroup {
    fn snapshot(&mut self) -> DfResult<Vec<ArrayRef>> {
        self.0.resize(1);
        let state = self.0.state(EmitTo::All)?;
        self.0.merge_batch(&state, &[0], 1)?;
        Ok(state)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.0.update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let rows = states.first().map_or(0, |state| state.len());
        self.0.merge_batch(states, &vec![0; rows], 1)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.snapshot()?.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        // Windows ask for results while they go on.
        let state = self.snapshot()?;
        let result = self.0.evaluate(EmitTo::All)?;
        self.0.merge_batch(&state, &[0], 1)?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}

/// Feeds every combination of arguments once, whatever the aggregate. The state is a list of the combinations.
struct Distinct {
    inner: Box<dyn Accumulator>,
    fields: Fields,
    converter: RowConverter,
    /// The combinations, numbered in the order in which they were seen.
    rows: HashMap<Box<[u8]>, usize>,
}

impl Debug for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Distinct").field("inner", &self.inner).field("rows", &self.rows.len()).finish()
    }
}

impl Distinct {
    fn fields(inputs: &[FieldRef]) -> Fields {
        inputs.iter().enumerate().map(|(number, field)| Field::new(format!("c{number}"), field.data_type().clone(), true)).collect()
    }

    fn state_type(inputs: &[FieldRef]) -> DataType {
        DataType::List(Arc::new(Field::new("element", DataType::Struct(Self::fields(inputs)), true)))
    }

    fn try_new(inner: Box<dyn Accumulator>, inputs: &[FieldRef]) -> DfResult<Self> {
        let sort_fields = inputs.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        Ok(Distinct { inner, fields: Self::fields(inputs), converter: RowConverter::new(sort_fields)?, rows: HashMap::new() })
    }

    fn columns(&self) -> DfResult<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let mut rows: Vec<(usize, &[u8])> = self.rows.iter().map(|(row, place)| (*place, row.as_ref())).collect();
        rows.sort_unstable_by_key(|(place, _)| *place);
        Ok(self.converter.convert_rows(rows.into_iter().map(|(_, row)| parser.parse(row)))?)
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for row in &self.converter.convert_columns(values)? {
            if !self.rows.contains_key(row.as_ref()) {
                self.rows.insert(row.as_ref().into(), self.rows.len());
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>());
        for list in lists.into_iter().flat_map(|lists| lists.iter()).flatten() {
            if let Some(rows) = list.as_struct_opt() {
                self.update_batch(rows.columns())?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let columns = self.columns()?;
        let rows = StructArray::try_new_with_length(self.fields.clone(), columns, None, self.rows.len())?;
        let field = Arc::new(Field::new("element", DataType::Struct(self.fields.clone()), true));
        let offsets = OffsetBuffer::from_lengths([rows.len()]);
        let list = arrow::array::ListArray::try_new(field, offsets, Arc::new(rows), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let columns = self.columns()?;
        if !self.rows.is_empty() {
            self.inner.update_batch(&columns)?;
        }
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.rows.keys().map(|row| row.len() + 32).sum::<usize>()
    }
}
