//! Lambdas over the entries of maps.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, FieldRef};
use millstream_core::{Error, Result};

use super::super::array::{Width, common_element};
use super::super::downcast::{self, arrow_error};
use super::super::map::{Duplicates, MapBuilder, check_key_type};
use super::super::{Call, Functions, Typed, cast, coercion, faults, keys, nested};
use super::evaluation::LambdaKernel;
use super::{Body, Elements, Evaluation, HigherOrder, parameter};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("transform_keys", |call| changed(call, Change::Keys));
    functions.add("transform_values", |call| changed(call, Change::Values));
    functions.add("map_filter", |call| changed(call, Change::Filter));
    functions.add("map_zip_with", map_zip_with);
}

/// An argument that is a map, with the fields of its keys and values.
fn map_argument(call: &Call<'_>, index: usize) -> Result<(Typed, FieldRef, FieldRef)> {
    let map = call.value(index)?;
    match nested::entry_fields(&map.data_type) {
        Ok((key, value)) => Ok((map.clone(), key.clone(), value.clone())),
        Err(_) => Err(faults::unexpected_type(call.name, index, "\"MAP\"", &map.data_type)),
    }
}

/// What a lambda over the entries of a map gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Keys,
    Values,
    Filter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ChangeMap {
    change: Change,
    data_type: DataType,
    duplicates: Duplicates,
}

impl LambdaKernel for ChangeMap {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let column = evaluation.value(0)?;
        let maps = downcast::maps(column)?;
        let entries = Elements::of(column)?;
        let (old_keys, old_values) = (entries.take(maps.keys())?, entries.take(maps.values())?);
        let given = evaluation.call(0, &[old_keys.clone(), old_values.clone()], &entries.rows)?;
        let kept = if self.change == Change::Filter { Some(downcast::booleans(&given)?) } else { None };
        let (new_keys, new_values) = match self.change {
            Change::Keys => (&given, &old_values),
            Change::Values => (&old_keys, &given),
            Change::Filter => (&old_keys, &old_values),
        };
        let compared = keys::of_columns(&[new_keys])?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &[new_keys], &[new_values], &compared)?;
        for range in entries.ranges() {
            let valid = range.is_some();
            for index in range.into_iter().flatten() {
                if kept.is_none_or(|kept| kept.is_valid(index) && kept.value(index)) {
                    builder.push((0, index), (0, index))?;
                }
            }
            builder.end(valid)?;
        }
        builder.finish()
    }
}

fn changed(call: &Call<'_>, change: Change) -> Result<Typed> {
    call.arity(2..=2)?;
    let (map, key, value) = map_argument(call, 0)?;
    let lambda = Body::resolve(call, 1, vec![parameter("k", &key), parameter("v", &value)], 2..=2)?;
    let (name, lambda, data_type) = match change {
        Change::Keys => {
            check_key_type(&lambda.body.data_type)?;
            let new_key = lambda.field("key").as_ref().clone().with_nullable(false);
            ("transform_keys", lambda, types::map_of(new_key, value.as_ref().clone()))
        }
        Change::Values => {
            let data_type = types::map_of(key.as_ref().clone(), lambda.field("value").as_ref().clone());
            ("transform_values", lambda, data_type)
        }
        Change::Filter => ("map_filter", lambda.predicate(call, 1)?, map.data_type.clone()),
    };
    let nullable = map.nullable;
    let kernel = ChangeMap { change, data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) };
    Ok(HigherOrder::call(name, kernel, vec![map], vec![lambda], data_type, nullable))
}

/// A lambda over the keys of two maps and their values in each; null in the one that does not have the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MapZipWith {
    data_type: DataType,
}

impl LambdaKernel for MapZipWith {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let (left, right) = (downcast::maps(evaluation.value(0)?)?, downcast::maps(evaluation.value(1)?)?);
        let compared = keys::of_columns(&[left.keys(), right.keys()])?;
        let [left_keys, right_keys] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let (mut rows, mut keys_of, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut counts: Vec<Option<usize>> = Vec::with_capacity(evaluation.rows());
        for row in 0..evaluation.rows() {
            let Some((ours, theirs)) = nested::entries_range(left, row).zip(nested::entries_range(right, row)) else {
                counts.push(None);
                continue;
            };
            let before = rows.len();
            for index in ours.clone() {
                let other = theirs.clone().find(|other| right_keys.row(*other) == left_keys.row(index));
                rows.push(row as u32);
                keys_of.push((0, index));
                first.push((0, index));
                second.push(other.map_or((1, 0), |other| (0, other)));
            }
            for index in theirs {
                if ours.clone().all(|known| left_keys.row(known) != right_keys.row(index)) {
                    rows.push(row as u32);
                    keys_of.push((1, index));
                    first.push((1, 0));
                    second.push((0, index));
                }
            }
            counts.push(Some(rows.len() - before));
        }
        let (key, _) = nested::entry_fields(&self.data_type)?;
        let sources = [nested::relabel(left.keys(), key.data_type())?, nested::relabel(right.keys(), key.data_type())?];
        let all_keys = interleave(&[sources[0].as_ref(), sources[1].as_ref()], &keys_of).map_err(arrow_error)?;
        let gather = |values: &ArrayRef, picks: &[(usize, usize)]| -> Result<ArrayRef> {
            let null = new_null_array(values.data_type(), 1);
            interleave(&[values.as_ref(), null.as_ref()], picks).map_err(arrow_error)
        };
        let rows = UInt32Array::from(rows);
        let parameters = [all_keys.clone(), gather(left.values(), &first)?, gather(right.values(), &second)?];
        let values = evaluation.call(0, &parameters, &rows)?;
        let compared = keys::of_columns(&[&all_keys])?;
        let mut builder = MapBuilder::new(self.data_type.clone(), Duplicates::Fail, &[&all_keys], &[&values], &compared)?;
        let mut next = 0;
        for count in counts {
            for index in next..next + count.unwrap_or(0) {
                builder.push((0, index), (0, index))?;
            }
            next += count.unwrap_or(0);
            builder.end(count.is_some())?;
        }
        builder.finish()
    }
}

fn map_zip_with(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let ((left, left_key, first), (right, right_key, second)) = (map_argument(call, 0)?, map_argument(call, 1)?);
    let common = if call.settings.ansi {
        common_element(left_key.data_type(), right_key.data_type(), Width::Tight, call.settings)
    } else {
        coercion::common_type(left_key.data_type(), right_key.data_type(), call.settings)
    };
    let Some(key) = common else {
        let message = format!(
            "`map_zip_with` takes two maps with keys of one type, not \"{}\" and \"{}\"",
            types::ddl_type(&left.data_type),
            types::ddl_type(&right.data_type)
        );
        return Err(faults::mismatch("MAP_ZIP_WITH_DIFF_TYPES", message));
    };
    let with_key = |map: Typed, value: &FieldRef| {
        let data_type = types::map(key.clone(), value.data_type().clone(), value.is_nullable());
        cast::implicit(map, &data_type, call.settings)
    };
    let (left, right) = (with_key(left, &first)?, with_key(right, &second)?);
    let key = left_key.as_ref().clone().with_data_type(key);
    let parameters = vec![parameter("k", &key), parameter("x", &first).with_nullable(true), parameter("y", &second).with_nullable(true)];
    let lambda = Body::resolve(call, 2, parameters, 3..=3)?;
    let data_type = types::map_of(key, lambda.field("value").as_ref().clone());
    let nullable = left.nullable || right.nullable;
    let kernel = MapZipWith { data_type: data_type.clone() };
    Ok(HigherOrder::call("map_zip_with", kernel, vec![left, right], vec![lambda], data_type, nullable))
}
