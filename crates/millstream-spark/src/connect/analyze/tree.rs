//! `df.printSchema()`.

use arrow::datatypes::{DataType, Field, Schema};

use crate::types::{CHAR_VARCHAR, INTERVAL, Shape, VARIANT, simple_name, simple_name_of};

/// A schema as Spark prints it, down to a level.
pub(super) fn render(schema: &Schema, level: Option<usize>) -> String {
    let mut text = String::from("root\n");
    let most = level.unwrap_or(usize::MAX);
    for field in schema.fields() {
        push_field(&mut text, field, " |", most);
    }
    text
}

fn push_field(text: &mut String, field: &Field, prefix: &str, depth: usize) {
    if depth > 0 {
        text.push_str(&format!("{prefix}-- {}: {} (nullable = {})\n", field.name(), type_name(field), field.is_nullable()));
        push_inside(text, field, &format!("{prefix}    |"), depth - 1);
    }
}

fn push_inside(text: &mut String, field: &Field, prefix: &str, depth: usize) {
    if depth == 0 || field.metadata().contains_key(VARIANT) || Shape::of(field.metadata()).is_some() {
        return;
    }
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().for_each(|field| push_field(text, field, prefix, depth)),
        DataType::List(element) => {
            text.push_str(&format!("{prefix}-- element: {} (containsNull = {})\n", type_name(element), element.is_nullable()));
            push_inside(text, element, &format!("{prefix}    |"), depth - 1);
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return };
            let [key, value] = pair.as_ref() else { return };
            text.push_str(&format!("{prefix}-- key: {}\n", type_name(key)));
            push_inside(text, key, &format!("{prefix}    |"), depth - 1);
            text.push_str(&format!("{prefix}-- value: {} (valueContainsNull = {})\n", type_name(value), value.is_nullable()));
            push_inside(text, value, &format!("{prefix}    |"), depth - 1);
        }
        _ => {}
    }
}

fn type_name(field: &Field) -> String {
    if field.metadata().contains_key(VARIANT) || Shape::of(field.metadata()).is_some() {
        return simple_name_of(field);
    }
    if let Some(length) = field.metadata().get(CHAR_VARCHAR) {
        return length.clone();
    }
    if let Some(units) = field.metadata().get(INTERVAL) {
        return format!("interval {units}");
    }
    match field.data_type() {
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(_) => "array".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        DataType::Int8 => "byte".to_owned(),
        DataType::Int16 => "short".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Null => "void".to_owned(),
        other => simple_name(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_schema;

    #[test]
    fn nested_types_are_indented() {
        let schema =
            parse_schema("id BIGINT NOT NULL, x ARRAY<STRUCT<a: INT, m: MAP<STRING, ARRAY<INT>>>>, i INTERVAL DAY TO HOUR").unwrap();
        let expected = "root
 |-- id: long (nullable = false)
 |-- x: array (nullable = true)
 |    |-- element: struct (containsNull = true)
 |    |    |-- a: integer (nullable = true)
 |    |    |-- m: map (nullable = true)
 |    |    |    |-- key: string
 |    |    |    |-- value: array (valueContainsNull = true)
 |    |    |    |    |-- element: integer (containsNull = true)
 |-- i: interval day to hour (nullable = true)
";
        assert_eq!(render(&schema, None), expected);
        assert_eq!(render(&schema, Some(1)).lines().count(), 4);
    }
}
