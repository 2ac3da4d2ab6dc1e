//! Files that a condition cannot hold in, told from what is known of their values.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::physical_optimizer::pruning::{PruningPredicateBuilder, PruningStatistics};
use millstream_core::versioned::{ColumnBounds, DataFile};
use millstream_core::{Error, Result};

use crate::from_datafusion;
use crate::session::Session;

/// The files of a table, with what is known of their values. Columns are called as in the condition.
pub struct Files<'a> {
    /// The files.
    pub files: &'a [DataFile],
    /// The columns of the table.
    pub schema: SchemaRef,
    /// The bounds of a column.
    pub bounds: &'a (dyn Fn(&str) -> Option<ColumnBounds> + Sync),
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Files<'_> {
    /// The files in which a condition may hold, by their places. A condition that cannot be decided keeps every file.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn candidates(&self, condition: Option<&Expr>, session: &Session) -> Result<Vec<usize>> {
        let all = || (0..self.files.len()).collect();
        let Some(condition) = condition.filter(|condition| !condition.is_volatile() && !self.files.is_empty()) else { return Ok(all()) };
        let schema = DFSchema::try_from(self.schema.as_ref().clone()).map_err(from_datafusion)?;
        let simplified = session.context().create_physical_expr(condition.clone(), &schema).map_err(from_datafusion)?;
        let Ok(predicate) = PruningPredicateBuilder::new().with_file_schema(self.schema.clone()).try_build(simplified) else {
            return Ok(all());
        };
        match predicate.prune(self) {
            Ok(kept) => Ok(kept.into_iter().enumerate().filter(|(_, kept)| *kept).map(|(place, _)| place).collect()),
            Err(error) => {
                tracing::debug!(%error, "files cannot be told apart by a condition");
                Ok(all())
            }
        }
    }

    /// The files all of whose rows a condition holds for, where the condition is about columns only whose values are the same in all rows
    /// of a file; `None` for another condition.
    ///
    /// # Errors
    /// Those of the condition.
    pub fn decided(&self, condition: &Expr, constant: &[String], session: &Session) -> Result<Option<Vec<usize>>> {
        let columns = condition.column_refs();
        if columns.is_empty() || condition.is_volatile() || !columns.iter().all(|column| constant.contains(&column.name)) {
            return Ok(None);
        }
        let mut values: Vec<ArrayRef> = Vec::with_capacity(constant.len());
        let mut fields = Vec::with_capacity(constant.len());
        for field in self.schema.fields().iter().filter(|field| constant.contains(field.name())) {
            let Some(bounds) = (self.bounds)(field.name()) else { return Ok(None) };
            values.push(bounds.min);
            fields.push(field.as_ref().clone().with_nullable(true));
        }
        let schema = Arc::new(Schema::new(fields));
        let rows =
            RecordBatch::try_new_with_options(schema.clone(), values, &RecordBatchOptions::new().with_row_count(Some(self.files.len())))
                .map_err(|error| Error::internal("values of files do not fit their schema").caused_by(error))?;
        let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(from_datafusion)?;
        let condition = session.context().create_physical_expr(condition.clone(), &schema).map_err(from_datafusion)?;
        let held = condition.evaluate(&rows).and_then(|held| held.into_array(rows.num_rows())).map_err(from_datafusion)?;
        let held = held.as_boolean_opt().ok_or_else(|| Error::internal("a condition is no boolean"))?;
        Ok(Some((0..held.len()).filter(|place| held.is_valid(*place) && held.value(*place)).collect()))
    }

    fn of(&self, column: &Column, pick: impl Fn(ColumnBounds) -> ArrayRef) -> Option<ArrayRef> {
        let values = pick((self.bounds)(&column.name)?);
        let field = self.schema.field_with_name(&column.name).ok()?;
        cast(&values, field.data_type()).ok()
    }
}

impl PruningStatistics for Files<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column, |bounds| bounds.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column, |bounds| bounds.max)
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        (self.bounds)(&column.name).map(|bounds| Arc::new(bounds.nulls) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows: UInt64Array = self.files.iter().map(|file| if file.has_deletions { None } else { file.rows }).collect();
        Some(Arc::new(rows))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
