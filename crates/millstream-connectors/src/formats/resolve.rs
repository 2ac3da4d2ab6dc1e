//! Columns of a file matched by name with the columns that a query is bound to, for formats whose files carry their own schema.
//!
//! A name matches without regard to case; two fields of a file that differ only in case cannot be told apart and are refused, as in Spark.
//! Columns that the file lacks are null, columns that the query lacks are left out, and what is produced has exactly the bound Arrow types
//! whatever the file's are. Which conversions of single values are allowed is the format's business ([`Rules`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;

/// Turns the values of one column into another type.
pub(super) type Convert = fn(&ArrayRef, &DataType) -> Result<ArrayRef, ArrowError>;

/// How values of a file's type become values of a bound type; `None` where the format does not allow it. Never asked about nested types.
pub(super) type Rules = fn(file: &DataType, bound: &DataType) -> Option<Convert>;

/// Why a file does not fit the bound schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clash {
    /// A value type that the format's rules do not convert.
    Type {
        /// The column, with the names of the structs around it.
        column: String,
        /// The type in the file.
        file: DataType,
        /// The type that the query is bound to.
        bound: DataType,
    },
    /// A struct, array or map where the other side has something else.
    Shape {
        /// The column, with the names of the structs around it.
        column: String,
        /// The type in the file.
        file: DataType,
        /// The type that the query is bound to.
        bound: DataType,
    },
    /// Several fields of the file differ only in case.
    Ambiguous {
        /// The column, with the names of the structs around it.
        column: String,
        /// The fields of the file.
        fields: Vec<String>,
    },
}

impl std::fmt::Display for Clash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Clash::Type { column, file, bound } => write!(f, "column `{column}` is {file} in the file but {bound} is expected"),
            Clash::Shape { column, file, bound } => {
                write!(f, "column `{column}` is {file} in the file, which is built differently from the expected {bound}")
            }
            Clash::Ambiguous { column, fields } => {
                write!(f, "column `{column}` could be any of the fields {} of the file, which differ only in case", fields.join(", "))
            }
        }
    }
}

/// The position of the field of that name, whatever its case.
///
/// # Errors
/// [`Clash::Ambiguous`] when several fields have it.
pub(super) fn find(fields: &Fields, name: &str) -> Result<Option<usize>, Clash> {
    let folded = name.to_lowercase();
    let mut found = fields.iter().enumerate().filter(|(_, field)| field.name() == name || field.name().to_lowercase() == folded);
    let first = found.next().map(|(position, _)| position);
    if found.next().is_some() {
        let same = fields.iter().filter(|field| field.name().to_lowercase() == folded).map(|field| format!("`{}`", field.name()));
        return Err(Clash::Ambiguous { column: name.to_owned(), fields: same.collect() });
    }
    Ok(first)
}

#[derive(Debug)]
enum Node {
    Missing,
    Leaf(Convert),
    Struct(Vec<(usize, Node)>),
    List(Box<Node>),
    Map(Box<(Node, Node)>),
}

/// A file's columns as they become the bound columns.
#[derive(Debug)]
pub(super) struct Resolution {
    bound: SchemaRef,
    columns: Vec<(usize, Node)>,
}

impl Resolution {
    /// Matches the columns `bound` with the columns of a file.
    ///
    /// # Errors
    /// [`Clash`] when the file does not fit.
    pub(super) fn new(file: &Fields, bound: SchemaRef, rules: Rules) -> Result<Self, Clash> {
        let columns = children(file, bound.fields(), rules, "")?;
        Ok(Resolution { bound, columns })
    }

    /// Converts a batch of the file.
    ///
    /// # Errors
    /// Those of the conversions: a value that does not fit the bound type.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let columns = self
            .columns
            .iter()
            .zip(self.bound.fields())
            .map(|((position, node), field)| match node {
                Node::Missing => Ok(new_null_array(field.data_type(), rows)),
                node => convert(node, batch.columns().get(*position).ok_or_else(out_of_step)?, field.data_type()),
            })
            .collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new_with_options(self.bound.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
    }
}

fn out_of_step() -> ArrowError {
    ArrowError::SchemaError("the file's batches do not have the file's columns".to_owned())
}

fn children(file: &Fields, bound: &Fields, rules: Rules, parent: &str) -> Result<Vec<(usize, Node)>, Clash> {
    let column = |name: &str| if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
    bound
        .iter()
        .map(|field| {
            let position = find(file, field.name()).map_err(|clash| match clash {
                Clash::Ambiguous { fields, .. } => Clash::Ambiguous { column: column(field.name()), fields },
                other => other,
            })?;
            match position {
                Some(position) => Ok((position, node(file[position].data_type(), field.data_type(), rules, &column(field.name()))?)),
                None => Ok((0, Node::Missing)),
            }
        })
        .collect()
}

fn node(file: &DataType, bound: &DataType, rules: Rules, column: &str) -> Result<Node, Clash> {
    match (file, bound) {
        (DataType::Struct(from), DataType::Struct(to)) => Ok(Node::Struct(children(from, to, rules, column)?)),
        (DataType::List(from), DataType::List(to)) => {
            Ok(Node::List(Box::new(node(from.data_type(), to.data_type(), rules, &format!("{column}.element"))?)))
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => match (entries(from), entries(to)) {
            (Some((from_key, from_value)), Some((to_key, to_value))) => Ok(Node::Map(Box::new((
                node(from_key.data_type(), to_key.data_type(), rules, &format!("{column}.key"))?,
                node(from_value.data_type(), to_value.data_type(), rules, &format!("{column}.value"))?,
            )))),
            _ => Err(Clash::Shape { column: column.to_owned(), file: file.clone(), bound: bound.clone() }),
        },
        (file, bound) if file.is_nested() || bound.is_nested() => {
            Err(Clash::Shape { column: column.to_owned(), file: file.clone(), bound: bound.clone() })
        }
        (file, bound) => match rules(file, bound) {
            Some(convert) => Ok(Node::Leaf(convert)),
            None => Err(Clash::Type { column: column.to_owned(), file: file.clone(), bound: bound.clone() }),
        },
    }
}

/// The key and value fields of a map's entries.
pub(super) fn entries(field: &Field) -> Option<(&FieldRef, &FieldRef)> {
    match field.data_type() {
        DataType::Struct(fields) => fields.first().zip(fields.get(1)),
        _ => None,
    }
}

fn convert(node: &Node, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match (node, to) {
        (Node::Missing, to) => Ok(new_null_array(to, array.len())),
        (Node::Leaf(convert), to) => convert(array, to),
        (Node::Struct(children), DataType::Struct(fields)) => {
            let array = array.as_struct_opt().ok_or_else(out_of_step)?;
            let columns = children
                .iter()
                .zip(fields)
                .map(|((position, node), field)| match node {
                    Node::Missing => Ok(new_null_array(field.data_type(), array.len())),
                    node => convert_child(node, array, *position, field.data_type()),
                })
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())?))
        }
        (Node::List(item), DataType::List(field)) => {
            let array = array.as_list_opt::<i32>().ok_or_else(out_of_step)?;
            let values = convert(item, array.values(), field.data_type())?;
            Ok(Arc::new(ListArray::try_new(field.clone(), array.offsets().clone(), values, array.nulls().cloned())?))
        }
        (Node::Map(nodes), DataType::Map(field, ordered)) => {
            let array = array.as_map_opt().ok_or_else(out_of_step)?;
            let (DataType::Struct(fields), Some((key, value))) = (field.data_type(), entries(field)) else {
                return Err(out_of_step());
            };
            let columns = vec![convert(&nodes.0, array.keys(), key.data_type())?, convert(&nodes.1, array.values(), value.data_type())?];
            let entries = StructArray::try_new(fields.clone(), columns, None)?;
            Ok(Arc::new(MapArray::try_new(field.clone(), array.offsets().clone(), entries, array.nulls().cloned(), *ordered)?))
        }
        _ => Err(out_of_step()),
    }
}

fn convert_child(node: &Node, array: &StructArray, position: usize, to: &DataType) -> Result<ArrayRef, ArrowError> {
    convert(node, array.columns().get(position).ok_or_else(out_of_step)?, to)
}

/// The values as they are.
pub(super) fn same(array: &ArrayRef, _to: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(array.clone())
}

/// Arrow's cast, with an error for a value that does not fit.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &CastOptions { safe: false, format_options: FormatOptions::default() })
}

/// [`cast`] by way of a 32-bit integer: days of a date, months of an interval.
pub(super) fn cast_by_int32(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast(&cast(array, &DataType::Int32)?, to)
}

/// [`cast`] by way of a 64-bit integer: the bare number of a timestamp or time.
pub(super) fn cast_by_int64(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast(&cast(array, &DataType::Int64)?, to)
}

/// A timestamp in another unit, keeping its number as it is: a time zone is a label and moves nothing.
pub(super) fn relabel_timestamp(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(unit, _) = to else { return Err(out_of_step()) };
    let number = match array.data_type() {
        DataType::Timestamp(from, _) if from != unit => {
            let bare = cast_by_int64(array, &DataType::Timestamp(*from, None))?;
            cast(&cast(&bare, &DataType::Timestamp(*unit, None))?, &DataType::Int64)?
        }
        _ => cast(array, &DataType::Int64)?,
    };
    cast(&number, to)
}

/// Text and bytes in any of Arrow's layouts.
pub(super) fn is_text_or_bytes(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

/// The Arrow type of Spark's `timestamp` (`utc`) and `timestamp_ntz`.
pub(super) fn timestamp(utc: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into()))
}

/// A list of nullable elements, as Spark has it.
pub(super) fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}

/// A map with nullable values, as Spark has it.
pub(super) fn map_of(key: DataType, value: DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}
