//! The columns of an analyzed relation.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema};
use datafusion::common::Column;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::stateful::WATERMARK_DELAY;

use crate::functions::{Settings, Typed, cast};

/// The metadata key of a column that `*` leaves out.
pub(crate) const HIDDEN: &str = "__metadata_col";

/// The metadata keys by which sources mark their hidden columns.
const SOURCE_MARKS: [&str; 2] = [HIDDEN, "__file_source_metadata_col"];

/// A relation whose names, types and functions are resolved.
#[derive(Clone, Debug)]
pub struct Analyzed {
    /// The plan; its columns are the internal names of `columns`, in their order.
    pub plan: LogicalPlan,
    /// Its columns as the user knows them.
    pub columns: Vec<Attribute>,
}

impl Analyzed {
    /// The schema as the user sees it; names may occur more than once, hidden columns are left out.
    pub fn schema(&self) -> Schema {
        Schema::new(self.visible().map(Attribute::to_field).collect::<Vec<_>>())
    }

    /// The plan with its columns under the user's names and without hidden columns.
    ///
    /// # Errors
    /// `COLUMN_ALREADY_EXISTS` when two columns have one name, compared without case.
    pub fn named_plan(&self) -> Result<LogicalPlan> {
        let mut seen: Vec<String> = Vec::new();
        let mut columns: Vec<Expr> = Vec::new();
        for column in self.visible() {
            let folded = column.name.to_lowercase();
            if seen.contains(&folded) {
                return Err(already_exists(&column.name));
            }
            seen.push(folded);
            columns.push(column.column().alias(&column.name));
        }
        Projection::try_new(columns, Arc::new(self.plan.clone())).map(LogicalPlan::Projection).map_err(from_datafusion)
    }

    /// The same with intervals as the text of their literals, for formats that write them so: their units are known here only.
    ///
    /// # Errors
    /// Those of casting.
    pub(crate) fn with_intervals_as_text(self, settings: &Settings) -> Result<Analyzed> {
        let is_interval =
            |column: &Attribute| matches!(column.data_type, DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth));
        if !self.columns.iter().any(is_interval) {
            return Ok(self);
        }
        let (mut items, mut columns) = (Vec::with_capacity(self.columns.len()), Vec::with_capacity(self.columns.len()));
        for column in self.columns {
            if !is_interval(&column) {
                items.push(column.column());
                columns.push(column);
                continue;
            }
            let text = cast::implicit(column.typed(), &DataType::Utf8, settings)?;
            let internal = fresh();
            items.push(item(&text, &internal, &self.plan)?);
            columns.push(Attribute { internal, data_type: DataType::Utf8, metadata: HashMap::new(), ..column });
        }
        Ok(Analyzed { plan: project(self.plan, items)?, columns })
    }

    /// The same to be stored: a hidden column of a source that was selected is there a column like any other.
    #[must_use]
    pub fn stored(mut self) -> Analyzed {
        for column in &mut self.columns {
            column.metadata.retain(|key, _| !SOURCE_MARKS.contains(&key.as_str()));
        }
        self
    }

    fn visible(&self) -> impl Iterator<Item = &Attribute> {
        self.columns.iter().filter(|column| !column.hidden)
    }
}

/// Two columns have one name.
pub(super) fn already_exists(name: &str) -> Error {
    Error::invalid("COLUMN_ALREADY_EXISTS", format!("the column `{name}` is there twice: rename or drop one of them"))
        .with_sqlstate("42711")
}

/// A column of an analyzed relation.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The name that the user gave or that Spark derives from the expression.
    pub name: String,
    /// The name in the engine's plan, which no other column of any plan of this session has.
    pub internal: String,
    /// The type.
    pub data_type: DataType,
    /// Whether it can be null.
    pub nullable: bool,
    /// Comments, character lengths, interval units, watermark delays.
    pub metadata: HashMap<String, String>,
    /// The alias or table that the column can be called by, outermost part first: `spark_catalog`, `default`, `t`; empty if none.
    pub qualifier: Vec<String>,
    /// The frames (`plan_id`) that the column came through, innermost first, so that `df["c"]` finds it.
    pub plan_ids: Vec<i64>,
    /// Left out of `*`: a metadata column.
    pub hidden: bool,
}

impl Attribute {
    /// A new column for a value.
    pub(super) fn of(name: impl Into<String>, value: &Typed) -> Attribute {
        let mut metadata = value.metadata.clone();
        metadata.retain(|key, delay| key != WATERMARK_DELAY || !delay.is_empty());
        Attribute {
            name: name.into(),
            internal: fresh(),
            data_type: value.data_type.clone(),
            nullable: value.nullable,
            metadata,
            qualifier: Vec::new(),
            plan_ids: Vec::new(),
            hidden: false,
        }
    }

    /// A new column for a field.
    pub(super) fn of_field(field: &Field) -> Attribute {
        let column = Expr::Column(Column::new_unqualified(field.name().clone()));
        let value = Typed::new(column, field.data_type().clone(), field.is_nullable()).with_metadata(field.metadata().clone());
        Attribute::of(field.name(), &value)
    }

    /// The column of a plan whose columns have the names that the user knows.
    pub(crate) fn named(field: &Field) -> Attribute {
        Attribute { internal: field.name().clone(), ..Attribute::of_field(field) }
    }

    /// The column as a field under its user's name.
    pub fn to_field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.nullable).with_metadata(self.metadata.clone())
    }

    /// The column in expressions over its relation.
    pub(super) fn column(&self) -> Expr {
        column(&self.internal)
    }

    /// The same with what is known of it.
    pub(super) fn typed(&self) -> Typed {
        Typed::new(self.column(), self.data_type.clone(), self.nullable).with_metadata(self.metadata.clone())
    }

    /// The same column where `*` does not find it.
    pub(super) fn hidden(mut self) -> Attribute {
        self.hidden = true;
        self
    }
}

/// An internal name that no other column has.
pub(crate) fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("#{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A column by its internal name.
pub(super) fn column(internal: &str) -> Expr {
    Expr::Column(Column::new_unqualified(internal))
}

/// The metadata key by which Spark marks a column whose name it derived; its value is the text `true`. It is shown in schemas and written
/// nowhere, so the engine's plans do without it.
const DERIVED_NAME: &str = "__autoGeneratedAlias";

/// The value as a column whose name is derived from the expression.
pub(super) fn with_derived_name(mut value: Typed) -> Typed {
    value.metadata.insert(DERIVED_NAME.to_owned(), r#""true""#.to_owned());
    value
}

/// The value under an internal name, as an item of a projection of `input`; the field in the plan then has the metadata of the value.
pub(super) fn item(value: &Typed, internal: &str, input: &LogicalPlan) -> Result<Expr> {
    if let Expr::Column(column) = &value.expr
        && column.relation.is_none()
        && column.name == internal
    {
        return Ok(value.expr.clone());
    }
    let mut metadata = value.metadata.clone();
    metadata.remove(DERIVED_NAME);
    if !metadata.contains_key(WATERMARK_DELAY) && carries_delay(&value.expr, input)? {
        metadata.insert(WATERMARK_DELAY.to_owned(), String::new());
    }
    let metadata = (!metadata.is_empty()).then(|| FieldMetadata::from(metadata));
    Ok(value.expr.clone().alias_with_metadata(internal, metadata))
}

/// Whether the field of an expression would be taken for event time.
fn carries_delay(expr: &Expr, input: &LogicalPlan) -> Result<bool> {
    if !input.schema().fields().iter().any(|field| field.metadata().contains_key(WATERMARK_DELAY)) {
        return Ok(false);
    }
    let (_, field) = expr.to_field(input.schema().as_ref()).map_err(from_datafusion)?;
    Ok(field.metadata().get(WATERMARK_DELAY).is_some_and(|delay| !delay.is_empty()))
}

/// A projection.
pub(super) fn project(input: LogicalPlan, items: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(items, Arc::new(input)).map(LogicalPlan::Projection).map_err(from_datafusion)
}
