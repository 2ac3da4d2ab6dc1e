//! An expression together with what is known about its result.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{Expr, lit};
use datafusion::scalar::ScalarValue;

/// An expression of the planner with its type, its nullability and its metadata. Keeping them beside the expression makes the analysis of
/// long expressions linear.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// What computes it.
    pub expr: Expr,
    /// Its type, under [`crate::types`]' table.
    pub data_type: DataType,
    /// Whether it can be null.
    pub nullable: bool,
    /// What the column carries with it: interval units, character lengths, watermark delays.
    pub metadata: HashMap<String, String>,
}

impl Typed {
    /// An expression without metadata.
    pub fn new(expr: Expr, data_type: DataType, nullable: bool) -> Self {
        Typed { expr, data_type, nullable, metadata: HashMap::new() }
    }

    /// A constant.
    pub fn literal(value: ScalarValue) -> Self {
        let (data_type, nullable) = (value.data_type(), value.is_null());
        Typed::new(lit(value), data_type, nullable)
    }

    /// A string constant.
    pub fn text(value: impl Into<String>) -> Self {
        Typed::literal(ScalarValue::Utf8(Some(value.into())))
    }

    /// The constant null of a type.
    pub fn null(data_type: &DataType) -> Self {
        let value = ScalarValue::try_from(data_type).unwrap_or(ScalarValue::Null);
        Typed::new(lit(value), data_type.clone(), true)
    }

    /// The value, if it is a constant.
    pub fn as_literal(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            Expr::Alias(alias) => match alias.expr.as_ref() {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// The same value with metadata.
    pub fn with_metadata(mut self, metadata: HashMap<String, String>) -> Self {
        self.metadata = metadata;
        self
    }

    /// A field of that name holding this value.
    pub fn to_field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.clone(), self.nullable).with_metadata(self.metadata.clone())
    }

    /// The same as a shared field.
    pub fn to_field_ref(&self, name: &str) -> Arc<Field> {
        Arc::new(self.to_field(name))
    }
}
