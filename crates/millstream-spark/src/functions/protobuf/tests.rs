use prost_types::field_descriptor_proto::{Label, Type as Of};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};

use super::super::Settings;
use super::super::testing::{call, constants, evaluate, texts};
use super::*;

fn field(name: &str, number: i32, of: Of, label: Label, type_name: Option<&str>) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(of.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    }
}

/// `message M { optional int32 a = 1; repeated string b = 2; optional E e = 3; optional M m = 4; required uint64 u = 5; }` of proto2.
fn descriptors(recursive: bool) -> Typed {
    let value =
        |name: &str, number: i32| EnumValueDescriptorProto { name: Some(name.to_owned()), number: Some(number), ..Default::default() };
    let mut fields = vec![
        field("a", 1, Of::Int32, Label::Optional, None),
        field("b", 2, Of::String, Label::Repeated, None),
        field("e", 3, Of::Enum, Label::Optional, Some(".p.E")),
        field("u", 5, Of::Uint64, Label::Required, None),
    ];
    if recursive {
        fields.push(field("m", 4, Of::Message, Label::Optional, Some(".p.M")));
    }
    let file = FileDescriptorProto {
        name: Some("m.proto".to_owned()),
        package: Some("p".to_owned()),
        message_type: vec![DescriptorProto { name: Some("M".to_owned()), field: fields, ..DescriptorProto::default() }],
        enum_type: vec![EnumDescriptorProto {
            name: Some("E".to_owned()),
            value: vec![value("X", 0), value("Y", 1)],
            ..Default::default()
        }],
        ..FileDescriptorProto::default()
    };
    Typed::literal(ScalarValue::Binary(Some(FileDescriptorSet { file: vec![file] }.encode_to_vec())))
}

/// The text of the only row.
fn shown(typed: &Typed) -> Result<String> {
    Ok(texts(&evaluate(typed, &[])?, &typed.to_field("value")).remove(0))
}

fn options(pairs: &str) -> Typed {
    call("map", constants(pairs), &Settings::default()).unwrap()
}

fn read(bytes: &[u8], message: &str, recursive: bool, pairs: &str) -> Result<String> {
    let mut arguments = vec![Typed::literal(ScalarValue::Binary(Some(bytes.to_vec()))), Typed::text(message), descriptors(recursive)];
    if !pairs.is_empty() {
        arguments.push(options(pairs));
    }
    let read = call("from_protobuf", arguments, &Settings::default())?;
    Ok(format!("{}: {}", ddl_type(&read.data_type), shown(&read)?))
}

const MESSAGE: &[u8] = &[8, 7, 18, 1, b'x', 18, 0, 24, 1, 40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
const TYPE: &str = "STRUCT<a: INT, b: ARRAY<STRING>, e: STRING, u: BIGINT NOT NULL>";

#[test]
fn messages_become_rows_as_their_descriptors_say() {
    for (bytes, message, pairs, expected) in [
        (MESSAGE, "p.M", "", Ok(format!("{TYPE}: {{7, [x, ], Y, -1}}"))),
        (
            MESSAGE,
            "M",
            "'upcast.unsigned.ints'; 'true'",
            Ok(format!("{}: {{7, [x, ], Y, 18446744073709551615}}", TYPE.replace("BIGINT", "DECIMAL(20,0)"))),
        ),
        (MESSAGE, "M", "'enums.as.ints'; 'true'", Ok(format!("{}: {{7, [x, ], 1, -1}}", TYPE.replace("e: STRING", "e: INT")))),
        (&[40, 1], "M", "", Ok(format!("{TYPE}: {{null, [], null, 1}}"))),
        (&[24, 9, 40, 1], "M", "", Ok(format!("{TYPE}: {{null, [], UNKNOWN_ENUM_VALUE_E_9, 1}}"))),
        (&[18, 9], "M", "", Err("MALFORMED_PROTOBUF_MESSAGE")),
        (&[18, 9], "M", "'mode'; 'PERMISSIVE'", Ok(format!("{}: {{null, null, null, null}}", TYPE.replace(" NOT NULL", "")))),
        (MESSAGE, "M", "'mode'; 'DROPMALFORMED'", Err("PARSE_MODE_UNSUPPORTED")),
        (MESSAGE, "N", "", Err("PROTOBUF_MESSAGE_NOT_FOUND")),
    ] {
        let found = read(bytes, message, false, pairs);
        assert_eq!(found.as_deref().map_err(Error::code), expected.as_deref().map_err(|code| *code), "{bytes:?} {pairs}");
    }
}

#[test]
fn a_message_inside_itself_is_followed_as_often_as_the_options_say() {
    // a = 1, u = 1, m { a = 2, u = 2, m { a = 3, u = 3 } }
    let bytes = [8, 1, 40, 1, 34, 10, 8, 2, 40, 2, 34, 4, 8, 3, 40, 3];
    assert_eq!(read(&bytes, "M", true, "").unwrap_err().code(), "RECURSIVE_PROTOBUF_SCHEMA");
    let once = "STRUCT<a: INT, b: ARRAY<STRING>, e: STRING, u: BIGINT NOT NULL";
    for (depth, expected) in
        [("1", format!("{once}>: {{1, [], null, 1}}")), ("2", format!("{once}, m: {once}>>: {{1, [], null, 1, {{2, [], null, 2}}}}"))]
    {
        assert_eq!(read(&bytes, "M", true, &format!("'recursive.fields.max.depth'; '{depth}'")).unwrap(), expected);
    }
}

#[test]
fn rows_become_messages_and_come_back() {
    let settings = Settings::default();
    let row = |values: &str| call("named_struct", constants(values), &settings).unwrap();
    let write = |row: Typed| call("to_protobuf", vec![row, Typed::text("M"), descriptors(false)], &settings);
    let written = write(row("'e'; 'Y'; 'a'; 7; 'u'; bigint'-1'")).unwrap();
    let read = call("from_protobuf", vec![written, Typed::text("M"), descriptors(false)], &settings).unwrap();
    assert_eq!(shown(&read).unwrap(), "{7, [], Y, -1}");
    for (values, code) in [
        ("'a'; 7", "UNABLE_TO_CONVERT_TO_PROTOBUF_MESSAGE_TYPE"),
        ("'a'; 'x'; 'u'; bigint'1'", "UNABLE_TO_CONVERT_TO_PROTOBUF_MESSAGE_TYPE"),
        ("'z'; 1; 'u'; bigint'1'", "UNABLE_TO_CONVERT_TO_PROTOBUF_MESSAGE_TYPE"),
    ] {
        assert_eq!(write(row(values)).unwrap_err().code(), code, "{values}");
    }
    let unknown = write(row("'e'; 'Z'; 'u'; bigint'1'")).unwrap();
    assert_eq!(shown(&unknown).unwrap_err().code(), "CANNOT_CONVERT_SQL_VALUE_TO_PROTOBUF_ENUM_TYPE");
}
