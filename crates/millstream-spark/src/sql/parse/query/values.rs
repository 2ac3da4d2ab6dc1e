//! `VALUES`: rows written out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::writer::StreamWriter;
use datafusion::scalar::ScalarValue;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, Literal};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, LocalRelation, Relation, UnresolvedTableValuedFunction};

use crate::functions::{Settings, coercion};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{aliased, call, function, relation, renamed, string};

impl Parser<'_> {
    /// `VALUES (1, 'a'), (2, 'b') AS t (x, y)`.
    pub(super) fn inline_table(&mut self) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["VALUES"])?;
        let position = self.position();
        let rows: Vec<Vec<Expression>> = self.comma_separated(Parser::expression)?.into_iter().map(row).collect();
        let alias = self.table_alias()?;
        let width = rows.first().map_or(0, Vec::len);
        if let Some(other) = rows.iter().find(|row| row.len() != width) {
            let message = format!("the first row has {width} columns and another {}", other.len());
            self.defer(Diagnostic::new("INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH", "42000", position.clone(), message));
        }
        let names: Vec<String> = (1..=width).map(|n| format!("col{n}")).collect();
        let table = match literal_rows(&rows, &names) {
            Ok(Some(local)) => local,
            Ok(None) => generated(&rows, &names),
            Err(column) => {
                let message = format!("the values of column {column} have no common type");
                self.defer(Diagnostic::new("INVALID_INLINE_TABLE.INCOMPATIBLE_TYPES_IN_INLINE_TABLE", "42000", position.clone(), message));
                generated(&rows, &names)
            }
        };
        Ok(match alias {
            Some((name, columns)) => {
                if !columns.is_empty() && columns.len() != width {
                    let message = format!("there are {} names for {width} columns", columns.len());
                    self.defer(Diagnostic::new("INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH", "42000", position, message));
                }
                aliased(renamed(table, columns), name)
            }
            None => table,
        })
    }
}

/// The values of a row: the fields of a struct, or the one value.
fn row(value: Expression) -> Vec<Expression> {
    match function(&value) {
        Some(row) if row.function_name.eq_ignore_ascii_case("struct") => row.arguments.clone(),
        _ => vec![value],
    }
}

/// The rows as a generator of structs, which brings their types together.
fn generated(rows: &[Vec<Expression>], names: &[String]) -> Relation {
    let structs = rows
        .iter()
        .map(|row| call("named_struct", names.iter().zip(row).flat_map(|(name, value)| [string(name), value.clone()]).collect()))
        .collect();
    let arguments = vec![call("array", structs)];
    let function = UnresolvedTableValuedFunction { function_name: "inline".to_owned(), arguments };
    relation(RelType::UnresolvedTableValuedFunction(function))
}

/// The rows as data if they are literals of plain types; the name of a column without a common type as the error.
fn literal_rows(rows: &[Vec<Expression>], names: &[String]) -> Result<Option<Relation>, String> {
    let Some(scalars) = rows.iter().map(|row| row.iter().map(scalar).collect::<Option<Vec<_>>>()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut fields: Vec<Field> = Vec::with_capacity(names.len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(names.len());
    for (n, name) in names.iter().enumerate() {
        let values: Vec<&ScalarValue> = scalars.iter().filter_map(|row| row.get(n)).collect();
        let mut common = DataType::Null;
        for value in &values {
            common = common_type(&common, &value.data_type()).ok_or_else(|| name.clone())?;
        }
        let Ok(cast) = values.iter().map(|value| value.cast_to(&common)).collect::<Result<Vec<_>, _>>() else { return Ok(None) };
        let nullable = cast.iter().any(ScalarValue::is_null);
        let Ok(array) = ScalarValue::iter_to_array(cast) else { return Ok(None) };
        fields.push(Field::new(name, common, nullable));
        columns.push(array);
    }
    Ok(encoded(Arc::new(Schema::new(fields)), columns))
}

fn encoded(schema: Arc<Schema>, columns: Vec<ArrayRef>) -> Option<Relation> {
    let batch = RecordBatch::try_new(schema.clone(), columns).ok()?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).ok()?;
    writer.write(&batch).ok()?;
    let data = writer.into_inner().ok()?;
    Some(relation(RelType::LocalRelation(LocalRelation { data: Some(data.into()), schema: None })))
}

/// The common type of two literals; numbers are not turned into texts.
fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let is_text = |data_type: &DataType| *data_type == DataType::Utf8;
    if *left != DataType::Null && *right != DataType::Null && is_text(left) != is_text(right) {
        return None;
    }
    coercion::common_type(left, right, &Settings::default())
}

/// A literal of a plain type as a value.
fn scalar(value: &Expression) -> Option<ScalarValue> {
    let Some(ExprType::Literal(Literal { literal_type: Some(literal), .. })) = &value.expr_type else { return None };
    Some(match literal {
        LiteralType::Null(_) => ScalarValue::Null,
        LiteralType::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        LiteralType::Byte(value) => ScalarValue::Int8(Some(i8::try_from(*value).ok()?)),
        LiteralType::Short(value) => ScalarValue::Int16(Some(i16::try_from(*value).ok()?)),
        LiteralType::Integer(value) => ScalarValue::Int32(Some(*value)),
        LiteralType::Long(value) => ScalarValue::Int64(Some(*value)),
        LiteralType::Float(value) => ScalarValue::Float32(Some(*value)),
        LiteralType::Double(value) => ScalarValue::Float64(Some(*value)),
        LiteralType::Decimal(decimal) => {
            let unscaled: i128 = decimal.value.replace('.', "").parse().ok()?;
            let (precision, scale) = (u8::try_from(decimal.precision?).ok()?, i8::try_from(decimal.scale?).ok()?);
            ScalarValue::Decimal128(Some(unscaled), precision, scale)
        }
        LiteralType::String(text) => ScalarValue::Utf8(Some(text.clone())),
        LiteralType::Binary(bytes) => ScalarValue::Binary(Some(bytes.to_vec())),
        LiteralType::Date(days) => ScalarValue::Date32(Some(*days)),
        LiteralType::Timestamp(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), Some("UTC".into())),
        LiteralType::TimestampNtz(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        _ => return None,
    })
}
