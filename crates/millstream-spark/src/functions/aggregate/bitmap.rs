//! Bitmaps of 32,768 bits: `bitmap_construct_agg`, `bitmap_or_agg`, `bitmap_and_agg`.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use millstream_engine::to_datafusion;

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::{Call, Typed, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("bitmap_construct_agg", |call, clauses| {
        call.arity(1..=1)?;
        let position = call.long(0)?;
        Ok(bitmap(position, Bitmap::Positions, clauses))
    });
    aggregates.add("bitmap_or_agg", |call, clauses| combined(call, clauses, Bitmap::Or));
    aggregates.add("bitmap_and_agg", |call, clauses| combined(call, clauses, Bitmap::And));
}

fn combined(call: &Call<'_>, clauses: &Clauses, kind: Bitmap) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    if !matches!(value.data_type, DataType::Binary | DataType::Null) {
        return Err(faults::unexpected_type(call.name, 0, "\"BINARY\"", &value.data_type));
    }
    Ok(bitmap(call.binary(0)?, kind, clauses))
}

fn bitmap(value: Typed, kind: Bitmap, clauses: &Clauses) -> Typed {
    let name = match kind {
        Bitmap::Positions => "bitmap_construct_agg",
        Bitmap::Or => "bitmap_or_agg",
        Bitmap::And => "bitmap_and_agg",
    };
    aggregate(name, kind, vec![value], clauses, DataType::Binary, false)
}

const BYTES: usize = 4096;

/// The state is the bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bitmap {
    Positions,
    Or,
    And,
}

impl Bitmap {
    fn start(self) -> Vec<u8> {
        vec![if self == Bitmap::And { 0xFF } else { 0 }; BYTES]
    }
}

impl Aggregation for Bitmap {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("bits", DataType::Binary, true)]
    }

    fn commutes(&self) -> bool {
        true
    }

    fn accumulator(&self, _: &[FieldRef], _: &DataType) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(BitmapAccumulator { kind: *self, bits: self.start() }))
    }

    fn empty(&self, _: &DataType) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Binary(Some(self.start())))
    }
}

#[derive(Debug)]
struct BitmapAccumulator {
    kind: Bitmap,
    bits: Vec<u8>,
}

impl BitmapAccumulator {
    fn combine(&mut self, other: &[u8]) {
        for (place, mine) in self.bits.iter_mut().enumerate() {
            let theirs = other.get(place).copied().unwrap_or(0);
            if self.kind == Bitmap::And { *mine &= theirs } else { *mine |= theirs }
        }
    }
}

impl Accumulator for BitmapAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if self.kind != Bitmap::Positions {
            return self.merge_batch(values);
        }
        let positions = values.first().and_then(|values| values.as_primitive_opt::<Int64Type>());
        for position in positions.into_iter().flatten().flatten() {
            let byte = usize::try_from(position).ok().and_then(|position| self.bits.get_mut(position / 8));
            let Some(byte) = byte else {
                let message = format!("the bit {position} is not in a bitmap of {} bits", 8 * BYTES);
                return Err(to_datafusion(faults::row("INVALID_BITMAP_POSITION", "22003", message)));
            };
            *byte |= 1 << (position % 8);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let bitmaps = states.first().and_then(|states| states.as_binary_opt::<i32>());
        for bitmap in bitmaps.into_iter().flatten().flatten() {
            self.combine(bitmap);
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.bits.clone()))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Binary(Some(self.bits.clone())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bits.capacity()
    }
}
