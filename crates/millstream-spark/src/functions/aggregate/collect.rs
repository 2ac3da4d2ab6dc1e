//! `collect_list`, `collect_set`, `array_agg`, `listagg`.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StructArray, UInt32Array, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortColumn, SortOptions, concat, filter, is_not_null, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::{Call, Typed, faults, normalized};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add_all(&["collect_list", "array_agg"], |call, clauses| {
        call.arity(1..=1)?;
        Ok(collect("collect_list", call.value(0)?.clone(), Collect { distinct: false }, clauses))
    });
    aggregates.add("collect_set", |call, clauses| {
        call.arity(1..=1)?;
        let value = call.value(0)?.clone();
        if has_maps(&value.data_type) {
            return Err(faults::mismatch("UNSUPPORTED_INPUT_TYPE", "`collect_set` does not take maps or values with maps in them"));
        }
        Ok(collect("collect_set", normalized(value), Collect { distinct: true }, clauses))
    });
    aggregates.add_all(&["listagg", "string_agg"], listagg);
}

fn collect(name: &'static str, value: Typed, collect: Collect, clauses: &Clauses) -> Typed {
    let field = Field::new("element", value.data_type.clone(), false).with_metadata(value.metadata.clone());
    let data_type = DataType::List(Arc::new(field));
    aggregate(name, collect, vec![value], clauses, data_type, false)
}

fn has_maps(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::List(element) => has_maps(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_maps(field.data_type())),
        _ => false,
    }
}

/// All values that are not null, as a list; or each once. The state is the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Collect {
    distinct: bool,
}

impl Aggregation for Collect {
    fn state(&self, _: &[FieldRef], result: &DataType) -> Vec<Field> {
        vec![Field::new("values", result.clone(), true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let element = inputs.first().map_or(DataType::Null, |field| field.data_type().clone());
        let seen = if self.distinct && element != DataType::Null {
            Some(Seen { converter: RowConverter::new(vec![SortField::new(element)])?, rows: HashSet::new() })
        } else {
            None
        };
        Ok(Box::new(CollectAccumulator { result: result.clone(), chunks: Vec::new(), seen }))
    }

    fn empty(&self, result: &DataType) -> DfResult<ScalarValue> {
        list_of(result, Vec::new())
    }
}

/// One list of the values of some arrays.
fn list_of(data_type: &DataType, chunks: Vec<ArrayRef>) -> DfResult<ScalarValue> {
    let DataType::List(field) = data_type else {
        return Err(DataFusionError::Internal("a list is due".into()));
    };
    let values: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.as_ref()).collect();
    let values = if values.is_empty() { new_empty_array(field.data_type()) } else { concat(&values)? };
    let list = ListArray::try_new(field.clone(), OffsetBuffer::from_lengths([values.len()]), values, None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

struct Seen {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>>,
}

struct CollectAccumulator {
    result: DataType,
    chunks: Vec<ArrayRef>,
    seen: Option<Seen>,
}

impl Debug for CollectAccumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectAccumulator").field("result", &self.result).field("chunks", &self.chunks.len()).finish()
    }
}

impl CollectAccumulator {
    fn add(&mut self, values: &ArrayRef) -> DfResult<()> {
        if *values.data_type() == DataType::Null || values.is_empty() {
            return Ok(());
        }
        let mut values = if values.null_count() > 0 { filter(values, &is_not_null(values)?)? } else { values.clone() };
        if let Some(seen) = &mut self.seen {
            let rows = seen.converter.convert_columns(&[values.clone()])?;
            let mut new = Vec::new();
            for (row, number) in rows.iter().zip(0_u32..) {
                if !seen.rows.contains(row.as_ref()) {
                    seen.rows.insert(row.as_ref().into());
                    new.push(number);
                }
            }
            values = take(&values, &UInt32Array::from(new), None)?;
        }
        if !values.is_empty() {
            self.chunks.push(values);
        }
        Ok(())
    }

    /// All values in one array of its own, so that whole batches are not kept for a few rows.
    fn compacted(&mut self) -> DfResult<ScalarValue> {
        let chunks = std::mem::take(&mut self.chunks);
        let list = list_of(&self.result, chunks)?;
        if let ScalarValue::List(list) = &list
            && !list.values().is_empty()
        {
            self.chunks.push(list.values().clone());
        }
        Ok(list)
    }
}

impl Accumulator for CollectAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        match values.first() {
            Some(values) => self.add(values),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>());
        for list in lists.into_iter().flat_map(|lists| lists.iter()).flatten() {
            self.add(&list)?;
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.compacted()?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.compacted()
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, |seen| seen.rows.iter().map(|row| row.len() + 16).sum());
        size_of_val(self) + self.chunks.iter().map(|chunk| chunk.get_array_memory_size()).sum::<usize>() + seen
    }
}

/// `listagg(text [, separator]) [WITHIN GROUP (ORDER BY …)]`, also of bytes.
fn listagg(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=2)?;
    let binary = call.value(0)?.data_type == DataType::Binary;
    let data_type = if binary { DataType::Binary } else { DataType::Utf8 };
    let value = call.coerced(0, &data_type)?;
    let separator = match call.arguments.get(1) {
        Some(_) => separator(call, &data_type)?,
        None => Vec::new(),
    };
    if clauses.distinct && !clauses.order_by.is_empty() {
        let same =
            clauses.order_by.len() == 1 && clauses.order_by.iter().all(|order| Some(&order.expr) == call.value(0).ok().map(|v| &v.expr));
        if !same {
            return Err(Error::invalid(
                "INVALID_WITHIN_GROUP_EXPRESSION.MISMATCH_WITH_DISTINCT_INPUT",
                format!("`{}(DISTINCT …)` can only be ordered by its own argument", call.name),
            )
            .with_sqlstate("42K0K"));
        }
    }
    let directions = clauses.order_by.iter().map(|order| (order.asc, order.nulls_first)).collect();
    let mut arguments = vec![value];
    // The types of the keys come from the plan.
    arguments.extend(clauses.order_by.iter().map(|order| Typed::new(order.expr.clone(), DataType::Null, true)));
    Ok(aggregate("listagg", ListAgg { separator, directions }, arguments, clauses, data_type, true))
}

/// What stands between two values: a constant of their type, or one that becomes text.
fn separator(call: &Call<'_>, of: &DataType) -> Result<Vec<u8>> {
    let given = call.value(1)?;
    let separator = match (&given.data_type, of) {
        (DataType::Null, _) => return Ok(Vec::new()),
        (DataType::Binary, DataType::Binary) => given.clone(),
        (given, DataType::Binary) | (given @ DataType::Binary, _) => return Err(faults::different_types(call.name, &[of, given])),
        _ => call.string(1)?,
    };
    Ok(match call.folded(1, &separator)? {
        ScalarValue::Utf8(text) => text.unwrap_or_default().into_bytes(),
        ScalarValue::Binary(bytes) => bytes.unwrap_or_default(),
        _ => Vec::new(),
    })
}

/// Texts in one, in the order of keys. The state is a list of texts with their keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListAgg {
    separator: Vec<u8>,
    /// Ascending, nulls first.
    directions: Vec<(bool, bool)>,
}

fn row_fields(inputs: &[FieldRef]) -> Fields {
    inputs.iter().enumerate().map(|(number, field)| Field::new(format!("c{number}"), field.data_type().clone(), true)).collect()
}

impl Aggregation for ListAgg {
    fn state(&self, inputs: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("rows", types::array(DataType::Struct(row_fields(inputs)), true), true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let state = types::array(DataType::Struct(row_fields(inputs)), true);
        Ok(Box::new(ListAggAccumulator { listagg: self.clone(), result: result.clone(), state, chunks: Vec::new() }))
    }
}

#[derive(Debug)]
struct ListAggAccumulator {
    listagg: ListAgg,
    result: DataType,
    state: DataType,
    chunks: Vec<ArrayRef>,
}

impl ListAggAccumulator {
    fn sorted(&self, rows: &StructArray) -> DfResult<ArrayRef> {
        let texts = rows.column(0).clone();
        if self.listagg.directions.is_empty() || rows.is_empty() {
            return Ok(texts);
        }
        let keys = rows.columns().iter().skip(1).zip(&self.listagg.directions).map(|(values, (ascending, nulls_first))| SortColumn {
            values: values.clone(),
            options: Some(SortOptions { descending: !ascending, nulls_first: *nulls_first }),
        });
        Ok(take(&texts, &lexsort_to_indices(&keys.collect::<Vec<_>>(), None)?, None)?)
    }
}

impl Accumulator for ListAggAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let DataType::List(field) = &self.state else { return Ok(()) };
        let (DataType::Struct(fields), Some(first)) = (field.data_type(), values.first()) else { return Ok(()) };
        let rows: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), values.to_vec(), None)?);
        let rows = filter(&rows, &is_not_null(first)?)?;
        if !rows.is_empty() {
            self.chunks.push(rows);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>());
        self.chunks.extend(lists.into_iter().flat_map(|lists| lists.iter()).flatten().filter(|list| !list.is_empty()));
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![list_of(&self.state, self.chunks.clone())?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let ScalarValue::List(list) = list_of(&self.state, self.chunks.clone())? else { return ScalarValue::try_new_null(&self.result) };
        let Some(rows) = list.values().as_struct_opt().filter(|rows| !rows.is_empty()) else {
            return ScalarValue::try_new_null(&self.result);
        };
        let texts = self.sorted(rows)?;
        let parts: Vec<&[u8]> = if let Some(texts) = texts.as_binary_opt::<i32>() {
            texts.iter().flatten().collect()
        } else {
            texts.as_any().downcast_ref::<StringArray>().into_iter().flat_map(|texts| texts.iter().flatten().map(str::as_bytes)).collect()
        };
        let joined = parts.join(self.listagg.separator.as_slice());
        Ok(match self.result {
            DataType::Binary => ScalarValue::Binary(Some(joined)),
            _ => ScalarValue::Utf8(Some(String::from_utf8_lossy(&joined).into_owned())),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.chunks.iter().map(|chunk| chunk.get_array_memory_size()).sum::<usize>()
    }
}
