"""Avro in columns: `pyspark.sql.avro.functions`. Recorded with the jar of spark-avro."""

from catalogue import on

one, numbers, texts, times, nested = on("one"), on("numbers"), on("texts"), on("times"), on("nested")


def _record(*fields):
    inner = ", ".join('{"name": "%s", "type": %s}' % field for field in fields)
    return '{"type": "record", "name": "r", "fields": [%s]}' % inner


def _from(data, schema, options=None):
    return f"A.from_avro({data}, {schema!r}" + (f", {options!r})" if options else ")")


def _raw(hexadecimal, schema, options=None):
    return _from(f"F.unhex(lit('{hexadecimal}'))", schema, options)


INT_TEXT = _record(("a", '"int"'), ("b", '["null", "string"]'))
FAST, SOFT = {"mode": "FAILFAST"}, {"mode": "PERMISSIVE"}
DECIMAL = '{"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}'
FIXED = '{"type": "fixed", "name": "f", "size": %d, "logicalType": "decimal", "precision": 10, "scale": 2}'

numbers("to_avro", *[f"A.to_avro('{name}')" for name in "ilhydfnwst"], "A.to_avro(F.struct('i', 's', 't'))", "A.to_avro(F.struct(F.coalesce('i', lit(0)).alias('i')))")
numbers(
    "to_avro",
    "A.to_avro('i', '\"int\"')", "A.to_avro('i', '[\"null\", \"int\"]')", "A.to_avro('i', '[\"int\", \"null\"]')", "A.to_avro('i', '\"long\"')", "A.to_avro('l', '\"int\"')", "A.to_avro('i', '\"string\"')", "A.to_avro('h', '[\"null\", \"int\"]')",
    f"A.to_avro('n', '[\"null\", {DECIMAL}]')", "A.to_avro('n', '[\"null\", %s]')" % (FIXED % 5), "A.to_avro(F.struct('i', 's'), %r)" % _record(("s", '["null", "string"]'), ("i", '["null", "int"]')), "A.to_avro(F.struct('i'), %r)" % _record(("j", '["null", "int"]')),
    "A.to_avro(F.struct('i', 's'), %r)" % _record(("i", '["null", "int"]')), "A.to_avro('i', 'nope')", "A.to_avro('i', '{\"type\": \"nope\"}')", "A.to_avro('f', '[\"null\", \"double\"]')", "E('to_avro(i)')", "E('to_avro(i, i)')", "E('to_avro()')",
)  # fmt: skip
texts("to_avro", "A.to_avro('a')", "A.to_avro('x')", "A.to_avro('a', '[\"null\", \"bytes\"]')", "A.to_avro('x', '[\"null\", {\"type\": \"fixed\", \"name\": \"f\", \"size\": 3}]')", "A.to_avro(lit('B'), '{\"type\": \"enum\", \"name\": \"e\", \"symbols\": [\"A\", \"B\"]}')", "A.to_avro(lit('C'), '{\"type\": \"enum\", \"name\": \"e\", \"symbols\": [\"A\", \"B\"]}')")
times("to_avro", "A.to_avro('ts')", "A.to_avro('n')", "A.to_avro('d')", "A.to_avro('ts', '[\"null\", {\"type\": \"long\", \"logicalType\": \"timestamp-millis\"}]')", "A.to_avro('ts', '[\"null\", \"long\"]')")
nested("to_avro", "A.to_avro('a')", "A.to_avro('m')", "A.to_avro('r')", "A.to_avro('ra')", "A.to_avro('k')", "A.to_avro('aa')")
one("to_avro", "A.to_avro(lit(None))", "A.to_avro(F.expr(\"INTERVAL '1' DAY\"))")

numbers("from_avro", *[_from(f"A.to_avro('{name}')", f'["{kind}", "null"]') for name, kind in [("i", "int"), ("l", "long"), ("d", "double"), ("f", "float"), ("s", "string"), ("t", "boolean")]])
numbers(
    "from_avro",
    _from("A.to_avro('n')", '[%s, "null"]' % (FIXED % 5)), _from("A.to_avro(F.struct('i', 's'))", _record(("i", '["null", "int"]'), ("s", '["null", "string"]'))), _from("A.to_avro('i')", '["null", "int"]'), _from("'s'", '"string"'), _from("'i'", '"int"'),
    _from("A.to_avro('i')", '["null", "string"]'),
)  # fmt: skip
texts("from_avro", _from("A.to_avro('x')", '["bytes", "null"]'), _from("A.to_avro('a')", '["bytes", "null"]'), _from("'x'", INT_TEXT, SOFT), _from("'x'", '"string"', SOFT), _from("'x'", '"int"', SOFT), _from("'x'", '"int"', FAST))
times(
    "from_avro",
    _from("A.to_avro('ts')", '[{"type": "long", "logicalType": "timestamp-micros"}, "null"]'), _from("A.to_avro('n')", '[{"type": "long", "logicalType": "local-timestamp-micros"}, "null"]'), _from("A.to_avro('d')", '[{"type": "int", "logicalType": "date"}, "null"]'),
    _from("A.to_avro('ts')", '[{"type": "long", "logicalType": "timestamp-millis"}, "null"]'), _from("A.to_avro('d')", '[{"type": "int", "logicalType": "time-millis"}, "null"]'),
)  # fmt: skip
nested("from_avro", _from("A.to_avro('a')", '[{"type": "array", "items": ["int", "null"]}, "null"]'), _from("A.to_avro('m')", '[{"type": "map", "values": ["int", "null"]}, "null"]'))
one(
    "from_avro",
    _raw("0201", INT_TEXT), _raw("04020278", INT_TEXT), _raw("0400", INT_TEXT), _raw("04", INT_TEXT), _raw("04", INT_TEXT, FAST), _raw("04", INT_TEXT, SOFT), _raw("", INT_TEXT, FAST), _raw("0400FF", INT_TEXT), _raw("0404", INT_TEXT, FAST), _raw("04020278", INT_TEXT, {"mode": "DROPMALFORMED"}),
    _raw("04", INT_TEXT, {"mode": "nope"}), _raw("FFFFFFFFFFFFFFFFFFFF01", '"int"', FAST), _raw("8080808010", '"int"', SOFT), _raw("02", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}'), _raw("08", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}', FAST), _raw("08", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}', SOFT),
    _raw("010203", '{"type": "fixed", "name": "f", "size": 3}'), _raw("0102", '{"type": "fixed", "name": "f", "size": 3}', FAST), _raw("0102", '{"type": "fixed", "name": "f", "size": 3}', SOFT), _raw("0000000064", FIXED % 5), _raw("0404D2", DECIMAL), _raw("0C0102030405060708", DECIMAL, SOFT),
    _raw("0204", '["int", "string"]'), _raw("020278", '["int", "string"]'), _raw("0004", '["int", "long"]'), _raw("0204", '["int", "long"]'), _raw("000000803F", '["float", "double"]'), _raw("020278", '["int", "string", "null"]'), _raw("02", '["null"]'), _raw("020278", '["int", "string"]', {"enableStableIdentifiersForUnionType": "true"}),
    _raw("04020278", INT_TEXT, {"avroSchema": _record(("b", '["null", "string"]'))}), _raw("04020278", INT_TEXT, {"avroSchema": _record(("a", '"long"'), ("c", '["null", "int"]'))}), _raw("04020278", INT_TEXT, {"avroSchema": '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "double"}, {"name": "c", "type": "int", "default": 7}]}'}),
    _raw("04020278", INT_TEXT, {"avroSchema": _record(("a", '"string"'))}), _raw("04020278", INT_TEXT, {"avroSchema": _record(("z", '"int"'))}), _raw("04020278", INT_TEXT, {"avroSchema": '{"type": "record", "name": "other", "fields": [{"name": "a", "type": "int"}]}'}), _raw("04020278", INT_TEXT, {"avroSchema": '{"type": "record", "name": "r", "fields": [{"name": "q", "aliases": ["a"], "type": "int"}]}'}),
    _raw("0402060204080A00", '{"type": "array", "items": "int"}'), _raw("0602040600", '{"type": "array", "items": "int"}'), _raw("05060204080A00", '{"type": "array", "items": "int"}', SOFT), _raw("020261020000", '{"type": "map", "values": "int"}'), _raw("02026102026204", '{"type": "map", "values": "int"}', SOFT), _raw("040261020261040000", '{"type": "map", "values": "int"}'),
    _raw("02", '"boolean"', FAST), _raw("01", '"boolean"'), _raw("05", '"boolean"', SOFT), _raw("00", '"null"'), _raw("04C3BC", '"string"'), _raw("04FFFE", '"string"', FAST), _raw("40E20100", '{"type": "int", "logicalType": "time-millis"}'), _raw("80897A", '{"type": "long", "logicalType": "time-micros"}'), _raw("80897A", '{"type": "long", "logicalType": "local-timestamp-millis"}'),
    _raw("48" + "36393965653234362D303061662D343830342D396463342D343330306462353764613065", '{"type": "string", "logicalType": "uuid"}'), _raw("02", 'nope'), _raw("02", '{"type": "record", "name": "r"}'), _raw("02", '{"type": "array"}'), _raw("02", '{"type": "record", "name": "n", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "n"]}]}'),
    _raw("0204", '{"type": "record", "name": "r", "namespace": "a.b", "fields": [{"name": "x", "type": {"type": "enum", "name": "e", "symbols": ["P", "Q"]}}, {"name": "y", "type": "e"}]}', SOFT), "A.from_avro(lit(None), '\"int\"')", "A.from_avro(lit(None).cast('binary'), '\"int\"')",
    "E(\"from_avro(unhex('04'), '\\\"int\\\"')\")", "E(\"from_avro(unhex('04'), '\\\"int\\\"', map('mode', 'FAILFAST'))\")", "E(\"from_avro(unhex('04'), id)\")", "E(\"from_avro(unhex('04'))\")", "E(\"from_avro(unhex('04'), '\\\"int\\\"', 1)\")", "E(\"from_avro(unhex('04'), NULL)\")", "E(\"from_avro('x', '\\\"int\\\"')\")",
    _raw("0402", _record(("a", '"int"'), ("A", '"int"'))), _raw("0A", '{"type": "int", "logicalType": "nope"}'), _raw("0A", '{"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}'), _raw("0A", '{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}', SOFT), _raw("18" + "01000000" + "02000000" + "03000000", '{"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}', SOFT),
)  # fmt: skip
one("schema_of_avro", "E(\"schema_of_avro('[\\\"null\\\", \\\"int\\\"]')\")", "E(\"schema_of_avro('%s')\")" % INT_TEXT.replace('"', '\\"'), "E(\"schema_of_avro('nope')\")", "E(\"schema_of_avro('[\\\"int\\\", \\\"string\\\"]', map('enableStableIdentifiersForUnionType', 'true'))\")")
UNION = _record(("u", '["int", "string", "null"]'))
one(
    "from_avro",
    _raw("000E", UNION), _raw("020278", UNION), _raw("04", UNION), _raw("020278", UNION, {"enableStableIdentifiersForUnionType": "true"}), _raw("06", UNION, SOFT), _raw("00020E", '["null", %s]' % INT_TEXT), _raw("020400", '["null", %s]' % INT_TEXT), _raw("020400", '["null", %s]' % INT_TEXT, SOFT),
    _raw("04", _record(("a", '"int"')), {"avroSchema": _record(("a", '["null", "int"]'))}), _raw("04", _record(("a", '"int"')), {"avroSchema": _record(("a", '["string", "int"]'))}), _raw("04", _record(("a", '"int"')), {"avroSchema": _record(("a", '["long", "int"]'))}), _raw("0204", _record(("a", '["null", "int"]')), {"avroSchema": _record(("a", '"int"'))}),
    _raw("00", _record(("a", '["null", "int"]')), {"avroSchema": _record(("a", '"int"'))}), _raw("0278", '"string"', {"avroSchema": '"bytes"'}), _raw("0278", '"bytes"', {"avroSchema": '"string"'}), _raw("04", '"int"', {"avroSchema": '"float"'}), _raw("04", '"int"', {"avroSchema": '{"type": "int", "logicalType": "date"}'}),
    _raw("02", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}', {"avroSchema": '{"type": "enum", "name": "e", "symbols": ["A", "C"], "default": "C"}'}), _raw("02", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}', {"avroSchema": '{"type": "enum", "name": "e", "symbols": ["A"]}'}), _raw("02", '{"type": "enum", "name": "e", "symbols": ["A", "B"]}', {"avroSchema": '{"type": "enum", "name": "x", "symbols": ["A", "B"]}'}),
    _raw("04", _record(("a", '"int"')), {"avroSchema": '{"type": "record", "name": "r", "fields": [{"name": "b", "type": {"type": "array", "items": "int"}, "default": [1, 2]}, {"name": "c", "type": ["null", "string"], "default": null}, {"name": "d", "type": "bytes", "default": "\\u00ff"}]}'}),
)  # fmt: skip
nested("to_avro", "A.to_avro('r', %r)" % _record(("x", '"int"'), ("y", '["null", "string"]')), "A.to_avro('r', %r)" % _record(("X", '["null", "int"]'), ("Y", '["null", "string"]')), "A.to_avro('r', %r)" % _record(("x", '["null", "int"]'), ("y", '["null", "string"]'), ("z", '["null", "long"]')), "A.to_avro('r', %r)" % _record(("x", '["null", "int"]'), ("y", '["null", "string"]'), ("z", '"long"')), "A.to_avro('a', '{\"type\": \"array\", \"items\": \"int\"}')", "A.to_avro('i', '[\"int\"]')", "A.to_avro('i', '[\"null\", \"int\", \"string\"]')")
