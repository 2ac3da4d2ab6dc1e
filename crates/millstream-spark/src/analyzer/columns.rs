//! The columns of an analyzed relation.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::LogicalPlan;

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
        Schema::new(self.columns.iter().filter(|column| !column.hidden).map(Attribute::to_field).collect::<Vec<_>>())
    }
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
    /// The frames (`plan_id`) that the column came through, so that `df["c"]` finds it.
    pub plan_ids: Vec<i64>,
    /// Left out of `*`: a metadata column.
    pub hidden: bool,
}

impl Attribute {
    /// The column as a field under its user's name.
    pub fn to_field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.nullable).with_metadata(self.metadata.clone())
    }
}
