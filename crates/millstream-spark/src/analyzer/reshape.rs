//! `unpivot` and `transpose`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::{Transpose, Unpivot};

use super::Attribute;
use super::columns::{item, project};
use super::expression::{Output, Resolver, Scope};
use super::filter::filtered;
use super::read::scan;
use super::relation::{Analyzer, Node};
use crate::functions::cast::CastMode;
use crate::functions::{Typed, cast, coercion};
use crate::types::ddl_type;

/// How many rows are transposed at most (`spark.sql.transposeMaxValues`).
const MAX_ROWS: usize = 500;

impl Analyzer<'_> {
    pub(super) fn unpivot(&self, unpivot: &Unpivot, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(unpivot.input.as_deref(), outer)?;
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let named = |expressions: &[spark_connect_proto::Expression]| -> Result<Vec<(String, Typed, Option<usize>)>> {
            let mut found = Vec::new();
            for expression in expressions {
                for output in resolver.named(expression)? {
                    match output {
                        Output::Column { name, value, passthrough } => found.push((name, value, passthrough)),
                        Output::Generator { .. } => {
                            return Err(Error::invalid("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "a generator cannot be unpivoted")
                                .with_sqlstate("42K0E"));
                        }
                    }
                }
            }
            Ok(found)
        };
        let ids = named(&unpivot.ids)?;
        let values = match &unpivot.values {
            Some(values) => named(&values.values)?,
            None => {
                let taken: Vec<usize> = ids.iter().filter_map(|(_, _, place)| *place).collect();
                let rest = input.columns.iter().enumerate().filter(|(place, column)| !column.hidden && !taken.contains(place));
                rest.map(|(place, column)| (column.name.clone(), column.typed(), Some(place))).collect()
            }
        };
        if values.is_empty() {
            return Err(Error::invalid("UNPIVOT_REQUIRES_VALUE_COLUMNS", "there is no column left to unpivot").with_sqlstate("42K0E"));
        }
        let types: Vec<String> = values.iter().map(|(name, value, _)| format!("{name} {}", ddl_type(&value.data_type))).collect();
        let names: Vec<String> = values.iter().map(|(name, _, _)| name.clone()).collect();
        let (_, values) = coercion::to_common_type("unpivot", values.into_iter().map(|(_, value, _)| value).collect(), self.settings)
            .map_err(|_| {
                Error::invalid(
                    "UNPIVOT_VALUE_DATA_TYPE_MISMATCH",
                    format!("the columns to unpivot have no common type: {}", types.join(", ")),
                )
                .with_sqlstate("42K09")
            })?;
        let rows = i32::try_from(values.len()).unwrap_or(i32::MAX);
        let mut arguments = vec![Typed::literal(ScalarValue::Int32(Some(rows)))];
        for (name, value) in names.into_iter().zip(values) {
            arguments.extend([Typed::text(name), value]);
        }
        let given = vec![unpivot.variable_column_name.clone(), unpivot.value_column_name.clone()];
        let mut items: Vec<Expr> = Vec::with_capacity(ids.len() + 2);
        let mut columns: Vec<Attribute> = Vec::with_capacity(ids.len() + 2);
        let (node, generated) = self.generate(input.clone(), "stack", arguments, &[], given, false)?;
        for (name, value, passthrough) in ids {
            let passing = passthrough.and_then(|place| input.columns.get(place)).filter(|column| column.name == name);
            let column = passing.cloned().unwrap_or_else(|| Attribute::of(name, &value));
            items.push(item(&value, &column.internal, &node.plan)?);
            columns.push(column);
        }
        for (place, mut column) in generated.into_iter().enumerate() {
            column.nullable = place != 0;
            items.push(column.column());
            columns.push(column);
        }
        Ok(Node::new(project(node.plan, items)?, columns))
    }

    /// Rows become columns, named by the values of the index column.
    pub(super) fn transpose(&self, transpose: &Transpose, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(transpose.input.as_deref(), outer)?;
        let index = match transpose.index_columns.as_slice() {
            [] => input.visible().next().map(Attribute::typed),
            [index] => Some(self.value(index, &Scope { columns: &input.columns, outer, computed: &[] })?),
            _ => {
                return Err(Error::invalid("TRANSPOSE_INVALID_INDEX_COLUMN", "only one column can be the index").with_sqlstate("42804"));
            }
        };
        let Some(index) = index else {
            return Err(Error::invalid("TRANSPOSE_INVALID_INDEX_COLUMN", "there is no column").with_sqlstate("42804"));
        };
        if matches!(index.data_type, DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
            return Err(Error::invalid(
                "TRANSPOSE_INVALID_INDEX_COLUMN",
                format!("the index is a \"{}\" and not a simple value", ddl_type(&index.data_type)),
            )
            .with_sqlstate("42804"));
        }
        let others: Vec<Attribute> = input.visible().filter(|column| column.column() != index.expr).cloned().collect();
        let (data_type, values) = coercion::to_common_type("transpose", others.iter().map(Attribute::typed).collect(), self.settings)
            .map_err(|_| {
                Error::invalid("TRANSPOSE_NO_LEAST_COMMON_TYPE", "the columns to transpose have no common type").with_sqlstate("42K09")
            })?;
        let shown = cast::explicit(index.clone(), &DataType::Utf8, CastMode::Ansi, self.settings)?;
        let plan = filtered(input.plan, index.expr.clone().is_not_null())?;
        let plan = LogicalPlan::Sort(datafusion::logical_expr::Sort {
            expr: vec![index.expr.sort(true, true)],
            input: Arc::new(plan),
            fetch: Some(MAX_ROWS + 1),
        });
        let items = std::iter::once(&shown).chain(&values).map(|value| value.expr.clone().alias(super::columns::fresh())).collect();
        let batches = self.ask(project(plan, items)?)?;
        let names: Vec<String> = others.into_iter().map(|column| column.name).collect();
        transposed(&batches, &names, &data_type)
    }
}

fn transposed(batches: &[RecordBatch], names: &[String], data_type: &DataType) -> Result<Node> {
    let failed = |error: arrow::error::ArrowError| Error::internal("rows cannot be transposed").caused_by(error);
    let whole = |place: usize| -> Result<Option<ArrayRef>> {
        let parts: Vec<&dyn Array> = batches.iter().filter_map(|batch| batch.columns().get(place)).map(AsRef::as_ref).collect();
        if parts.is_empty() { Ok(None) } else { concat(&parts).map(Some).map_err(failed) }
    };
    let mut fields = vec![Field::new("key", DataType::Utf8, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(names))];
    if let Some(index) = whole(0)? {
        if index.len() > MAX_ROWS {
            return Err(Error::invalid("TRANSPOSE_EXCEED_ROW_LIMIT", format!("more than {MAX_ROWS} rows cannot be transposed"))
                .with_sqlstate("54006"));
        }
        let values = (1..=names.len()).map(whole).collect::<Result<Option<Vec<ArrayRef>>>>();
        let values = values?.unwrap_or_default();
        let sources: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        for (row, name) in index.as_string::<i32>().iter().enumerate() {
            let picks: Vec<(usize, usize)> = (0..sources.len()).map(|source| (source, row)).collect();
            fields.push(Field::new(name.unwrap_or_default(), data_type.clone(), true));
            columns.push(if sources.is_empty() {
                arrow::array::new_empty_array(data_type)
            } else {
                arrow::compute::interleave(&sources, &picks).map_err(failed)?
            });
        }
    }
    // Values of the index may be equal, and a table cannot have two columns of one name.
    let given: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let numbered: Vec<Field> = fields.into_iter().enumerate().map(|(place, field)| field.with_name(format!("c{place}"))).collect();
    let schema = Arc::new(Schema::new(numbered));
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(failed)?;
    let table = MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?;
    let mut node = scan(Arc::new(table), &["transposed".to_owned()])?;
    for (column, name) in node.columns.iter_mut().zip(given) {
        column.name = name;
        column.qualifier.clear();
    }
    Ok(node)
}
