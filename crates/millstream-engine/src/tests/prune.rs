//! Which files of a table a condition leaves out.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{col, lit};
use millstream_core::versioned::{ColumnBounds, DataFile};

use super::doubles::World;
use crate::prune::Files;

#[test]
fn a_condition_leaves_files_out_only_where_it_cannot_hold() {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true), Field::new("p", DataType::Utf8, true)]));
    let bounds = |column: &str| match column {
        "v" => Some(ColumnBounds {
            min: Arc::new(Int64Array::from(vec![Some(1), Some(10), None])),
            max: Arc::new(Int64Array::from(vec![Some(5), Some(20), None])),
            nulls: UInt64Array::from(vec![Some(0), Some(0), None]),
        }),
        "p" => {
            let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
            Some(ColumnBounds { min: values.clone(), max: values, nulls: UInt64Array::from(vec![Some(0), Some(0), None]) })
        }
        _ => None,
    };
    let file = DataFile { rows: Some(5), ..DataFile::default() };
    let listed = [file.clone(), file.clone(), file];
    let files = Files { files: &listed, schema, bounds: &bounds };
    let session = World::new().session;
    for (condition, expected) in [
        (col("v").gt(lit(7_i64)), vec![1, 2]),
        (col("v").eq(lit(3_i64)).and(col("p").eq(lit("a"))), vec![0, 2]),
        ((col("v") % lit(2_i64)).eq(lit(0_i64)), vec![0, 1, 2]),
    ] {
        assert_eq!(files.candidates(Some(&condition), &session).unwrap(), expected, "{condition}");
    }
    let constant = ["p".to_owned()];
    assert_eq!(files.decided(&col("p").not_eq(lit("a")), &constant, &session).unwrap(), Some(vec![1]));
    assert_eq!(files.decided(&col("v").gt(lit(0_i64)), &constant, &session).unwrap(), None);
}
