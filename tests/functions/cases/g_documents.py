"""CSV, JSON, variants, XML and URLs."""

from catalogue import on

one, numbers, nested, times, documents, urls = on("one"), on("numbers"), on("nested"), on("times"), on("documents"), on("urls")

documents(
    "from_csv",
    "F.from_csv('c', 'a INT, b STRING, c DOUBLE')", "F.from_csv('c', 'a STRING')", "F.from_csv('c', lit('a INT, b STRING'), {'sep': ';'})", "F.from_csv('c', 'a INT, b STRING, c DOUBLE', {'mode': 'FAILFAST'})", "F.from_csv('c', 'a INT, b STRING, _c STRING', {'columnNameOfCorruptRecord': '_c'})",
    "F.from_csv('n', 'a INT')", "F.from_csv('c', 'nope nope')", "F.from_csv('c', F.schema_of_csv(lit('1,a')))", "F.from_csv(lit('26/08/2015'), 'time TIMESTAMP', {'timestampFormat': 'dd/MM/yyyy'})", "F.from_csv('c', 'a ARRAY<INT>')", "F.from_csv('c', 'a INT', {'mode': 'DROPMALFORMED'})", "F.from_csv('c', col('j'))",
)  # fmt: skip
one("schema_of_csv", "F.schema_of_csv('1,abc,2.5')", "F.schema_of_csv(lit('1|true'), {'sep': '|'})", "F.schema_of_csv('2024-01-01,2024-01-01 00:00:00,,99999999999')", "F.schema_of_csv(col('id'))", "F.schema_of_csv(lit(None))", "F.schema_of_csv('')", "F.schema_of_csv('2024-01-01', {'inferSchema': 'false'})", "F.schema_of_csv('99999999999999999999999,1e5')")
nested("to_csv", "F.to_csv(F.struct('i', lit('x'), lit(None)))", "F.to_csv('r')", "F.to_csv('i')", "F.to_csv(F.struct('a'))", "F.to_csv(F.struct(lit('a,b'), lit('q\"r')), {'sep': ';'})", "F.to_csv(F.struct(lit('a,b'), lit(' x '), lit('q\"r'), lit('')))", "F.to_csv(F.struct(lit('a'), lit('b')), {'quoteAll': 'true'})", "F.to_csv(F.struct('m'))", "F.to_csv(F.struct(lit(None), lit(1)), {'nullValue': 'N'})")
times("to_csv", "F.to_csv(F.struct('ts', 'd', 'n'))", "F.to_csv(F.struct('ts'), {'timestampFormat': 'dd/MM/yyyy'})")
numbers("to_csv", "F.to_csv(F.struct('i', 'd', 'f', 'n', 'w', 't'))")
documents(
    "from_json",
    "F.from_json('j', 'a INT, b STRING')", "F.from_json('j', 'a STRING, b STRING')", "F.from_json('j', 'ARRAY<INT>')", "F.from_json('j', 'MAP<STRING,STRING>')", "F.from_json('j', 'STRUCT<a: BIGINT, c: ARRAY<DOUBLE>, d: STRUCT<e: BOOLEAN>>')", "F.from_json('j', 'a DOUBLE', {'mode': 'FAILFAST'})",
    "F.from_json('j', 'a INT, _c STRING', {'columnNameOfCorruptRecord': '_c'})", "F.from_json('j', F.schema_of_json(lit('{\"a\": 1}')))", "F.from_json('n', 'a INT')", "F.from_json('j', 'nope nope')", "F.from_json('j', T.StructType().add('a', 'int'))", "F.from_json('j', 'STRING')", "F.from_json('j', 'INT')",
    "F.from_json(lit('{\"t\": \"26/08/2015\"}'), 't TIMESTAMP', {'timestampFormat': 'dd/MM/yyyy'})", "F.from_json('j', 'a VARIANT')", "F.from_json('j', 'VARIANT')", "F.from_json('j', 'a INT', {'primitivesAsString': 'true'})", "F.from_json('j', 'MAP<INT,STRING>')", "F.from_json('j', 'a INT', {'mode': 'DROPMALFORMED'})",
    "F.from_json('j', 'ARRAY<STRUCT<a: STRING>>')", "F.from_json('j', col('c'))", "F.from_json(lit(\"{'a': 01, b: +1}\"), 'a INT, b INT', {'allowSingleQuotes': 'true', 'allowUnquotedFieldNames': 'true', 'allowNumericLeadingZeros': 'true'})", "F.from_json(lit('{\"a\": NaN, \"b\": Infinity}'), 'a DOUBLE, b FLOAT')",
)  # fmt: skip
documents("get_json_object", "F.get_json_object('j', '$.a')", "F.get_json_object('j', '$.c[1]')", "F.get_json_object('j', '$.c[*]')", "F.get_json_object('j', '$')", "F.get_json_object('j', '$.d.e')", "F.get_json_object('j', '$[0]')", "F.get_json_object('j', 'nope')", "F.get_json_object('j', '$.*')", "F.get_json_object('n', '$')", "F.get_json_object('j', \"$['b']\")", "F.get_json_object('j', '$..a')")
documents("json_array_length", "F.json_array_length('j')", "F.json_array_length(lit('[1,[2,3],{\"a\":4}]'))", "F.json_array_length(lit(''))", "F.json_array_length('n')", "F.json_array_length(lit(None))", "F.json_array_length(lit('[1,'))")
documents("json_object_keys", "F.json_object_keys('j')", "F.json_object_keys(lit('{\"a\":1,\"b\":{\"c\":2}}'))", "F.json_object_keys(lit('{}'))", "F.json_object_keys('n')", "F.json_object_keys(lit(None))", "F.json_object_keys(lit('{\"a\":'))")
documents("json_tuple", "F.json_tuple('j', 'a', 'b')", "F.json_tuple('j', 'c', 'd', 'nope')", "('n', F.json_tuple('j', 'a'))", "F.json_tuple('n', 'a')", "F.json_tuple('j', 'a').alias('x')", "F.json_tuple('j', 'd.e')", "F.json_tuple(lit(None), 'a')")
one(
    "schema_of_json",
    "F.schema_of_json('{\"a\": 1, \"b\": [1.5, null], \"c\": {\"d\": \"x\"}}')", "F.schema_of_json(lit('[1, \"a\"]'))", "F.schema_of_json('{a: 1}', {'allowUnquotedFieldNames': 'true'})", "F.schema_of_json('not json')", "F.schema_of_json(lit(None))", "F.schema_of_json(col('id'))", "F.schema_of_json('\"2024-01-01\"')",
    "F.schema_of_json('{\"a\": 12345678901234567890, \"b\": 1.50}', {'prefersDecimal': 'true'})", "F.schema_of_json('{}')", "F.schema_of_json('[]')", "F.schema_of_json('{\"t\": \"2024-01-01T00:00:00\"}', {'inferTimestamp': 'true'})", "F.schema_of_json('')",
)  # fmt: skip
nested("to_json", "F.to_json(F.struct('i', 'a'))", "F.to_json('m')", "F.to_json('ra')", "F.to_json('r')", "F.to_json('i')", "F.to_json('r', {'ignoreNullFields': 'false'})", "F.to_json('k')", "F.to_json('d')", "F.to_json(F.struct('i'), {'pretty': 'true'})", "F.to_json(F.struct(F.struct('m', 'aa')))", "F.to_json(F.create_map('r', 'i'))", "F.to_json(F.array())", "F.to_json(F.parse_json(lit('{\"b\":1,\"a\":[1.50,null]}')))")
times("to_json", "F.to_json(F.struct('ts', 'd', 'n'))", "F.to_json(F.struct('ts'), {'timestampFormat': 'dd/MM/yyyy HH'})", "F.to_json(F.struct(E(\"interval '1' day\"), E('make_interval(1, 2)')))")
numbers("to_json", "F.to_json(F.struct('i', 'l', 'd', 'f', 'n', 'w', 't', 's'))", "F.to_json(F.struct(lit(b'ab'), lit('ä\\n\\u0001\"')))")

VARIANT = "F.try_parse_json('j')"
documents("is_valid_variant", f"F.is_valid_variant({VARIANT})", "F.is_valid_variant(lit('x'))", "F.is_valid_variant(lit(None))", "F.is_valid_variant(F.parse_json(lit('1')))")
documents("is_variant_null", f"F.is_variant_null({VARIANT})", "F.is_variant_null(F.parse_json(lit('null')))", "F.is_variant_null(lit(None))", "F.is_variant_null('n')")
one("parse_json", "F.parse_json(lit('{\"a\": 1, \"b\": [true, null, 1.50, \"x\"]}'))", "F.parse_json(lit('not json'))", "F.parse_json(lit(None))", "F.parse_json(lit('12345678901234567890123456789012345678901'))", "F.parse_json(lit('{\"a\":1,\"a\":2}'))", "F.parse_json(lit(''))", "F.parse_json('id')", "F.parse_json(lit('1e3'))", "F.parse_json(lit('-0.0'))")
documents("try_parse_json", VARIANT, "F.try_parse_json(lit('1.0'))", "F.try_parse_json('n')", "F.try_parse_json(lit(None))", "F.try_parse_json(lit('[1, 2'))")
documents("schema_of_variant", f"F.schema_of_variant({VARIANT})", "F.schema_of_variant(F.parse_json(lit('[1, 1.5, \"a\"]')))", "F.schema_of_variant(F.parse_json(lit('{\"b\": {\"c\": null}, \"a\": 1}')))", "F.schema_of_variant('n')", "F.schema_of_variant(lit(None))")
documents("schema_of_variant_agg", f"F.schema_of_variant_agg({VARIANT})", "F.schema_of_variant_agg(F.parse_json(lit('{\"a\": 1}')))", "F.schema_of_variant_agg('n')", "df.filter('n > 2').filter('n < 4').select(F.schema_of_variant_agg(F.parse_json('j')))", "F.schema_of_variant_agg(lit(None))")
for name in ("variant_get", "try_variant_get"):
    documents(
        name,
        f"F.{name}({VARIANT}, '$.a', 'int')", f"F.{name}({VARIANT}, '$.a', 'string')", f"F.{name}({VARIANT}, '$.c[1]', 'double')", f"F.{name}({VARIANT}, '$', 'variant')", f"F.{name}({VARIANT}, '$.d', 'struct<e:boolean>')", f"F.{name}({VARIANT}, '$.c', 'array<decimal(5,2)>')", f"F.{name}({VARIANT}, 'nope', 'int')",
        f"F.{name}({VARIANT}, '$.d', 'map<string,string>')", f"F.{name}(lit('x'), '$.a', 'int')", f"F.{name}({VARIANT}, lit('$.b'), 'string')", f"F.{name}({VARIANT}, '$.a', 'boolean')", f"F.{name}({VARIANT}, '$.a', 'nope')", f"F.{name}(F.parse_json(lit('\"2024-01-01\"')), '$', 'date')", f"F.{name}(F.parse_json(lit('300')), '$', 'tinyint')",
    )  # fmt: skip
nested("to_variant_object", "F.to_variant_object('r')", "F.to_variant_object('m')", "F.to_variant_object('a')", "F.to_variant_object('ra')", "F.to_variant_object('i')", "F.to_variant_object('k')", "F.to_variant_object(lit(None))", "F.to_variant_object(F.struct(lit(1), lit(Decimal('1.50')), lit('x'), lit(b'a')))")

documents(
    "from_xml",
    "F.from_xml('x', 'a STRING, b STRING')", "F.from_xml('x', 'a ARRAY<STRING>, b STRING')", "F.from_xml('x', '_k STRING, c STRUCT<d: DOUBLE>')", "F.from_xml('x', 'a INT', {'mode': 'FAILFAST'})", "F.from_xml('x', lit('a INT'), {'attributePrefix': '@'})", "F.from_xml('n', 'a INT')",
    "F.from_xml('x', T.StructType().add('b', 'int'))", "F.from_xml('x', F.schema_of_xml(lit('<r><a>1</a></r>')))", "F.from_xml('x', 'a INT, _corrupt STRING', {'columnNameOfCorruptRecord': '_corrupt'})", "F.from_xml('x', 'nope nope')", "F.from_xml(lit('<p><t>26/08/2015</t></p>'), 't TIMESTAMP', {'timestampFormat': 'dd/MM/yyyy'})",
    "F.from_xml(lit('<p k=\"1\">text</p>'), '_k INT, _VALUE STRING')", "F.from_xml(lit('<p><a><![CDATA[x<y]]></a><!-- c --><e>&lt;&#228;</e></p>'), 'a STRING, e STRING')", "F.from_xml('x', 'VARIANT')", "F.from_xml('x', 'a MAP<STRING, STRING>, c MAP<STRING, DOUBLE>')",
)  # fmt: skip
one("schema_of_xml", "F.schema_of_xml('<r><a>1</a><b>x</b></r>')", "F.schema_of_xml(lit('<r><a k=\"1\">1</a><a>2.5</a></r>'))", "F.schema_of_xml('<r><a>1</a></r>', {'attributePrefix': '@'})", "F.schema_of_xml('not xml')", "F.schema_of_xml(lit(None))", "F.schema_of_xml(col('id'))", "F.schema_of_xml('<r/>')", "F.schema_of_xml('<r><a>true</a><a>2024-01-01</a><d>1e5</d><t>2024-01-01T00:00:00</t></r>')")
nested("to_xml", "F.to_xml(F.struct('i', lit('x')))", "F.to_xml('r')", "F.to_xml(F.struct('a'))", "F.to_xml(F.struct('i'), {'rowTag': 'person'})", "F.to_xml('i')", "F.to_xml(F.struct('m', 'ra'))", "F.to_xml(F.struct(lit(1).alias('_k'), lit('<&>').alias('v')))", "F.to_xml(F.struct(lit(None).alias('v')), {'nullValue': 'N'})", "F.to_xml('m')")
times("to_xml", "F.to_xml(F.struct('ts', 'd', 'n'))")
documents("xpath", "F.xpath('x', lit('r/a/text()'))", "F.xpath(lit('<a><b>b1</b><b>b2</b><c/></a>'), lit('a/*/text()'))", "F.xpath('x', lit('//@k'))", "F.xpath('x', lit('//['))", "F.xpath(lit('<a>'), lit('a'))", "F.xpath('x', 'c')", "F.xpath('n', lit('a'))", "F.xpath(lit('<a/>'), lit(None))")
for name in ("xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string"):
    documents(
        name,
        f"F.{name}(lit('<a><b>1</b><b>2.5</b><c k=\"7\">x</c></a>'), lit('a/b'))", f"F.{name}(lit('<a><b>1</b><b>2.5</b></a>'), lit('sum(a/b)'))", f"F.{name}(lit('<a><b>1</b></a>'), lit('a/nope'))", f"F.{name}(lit('<a><c k=\"7\">x</c></a>'), lit('a/c/@k'))", f"F.{name}(lit('<a><c>x</c></a>'), lit('a/c'))",
        f"F.{name}(lit('<a><b>1</b><b>2</b></a>'), lit('count(//b[. > 1])'))", f"F.{name}(lit('<a>'), lit('a'))", f"F.{name}(lit('<a/>'), lit('//['))", f"F.{name}(lit(None), lit('a'))", f"F.{name}(lit('<a><b>1</b></a>'), 'c')", f"F.{name}(lit('<a><b>ab</b></a>'), lit(\"concat(a/b, '-', string-length(a/b))\"))", f"F.{name}(lit('<a><b>3000000000</b></a>'), lit('a/b'))",
    )  # fmt: skip

for name in ("parse_url", "try_parse_url"):
    urls(name, *[f"F.{name}('u', lit('{part}'))" for part in ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "nope", "host")], f"F.{name}('u', lit('QUERY'), 'k')", f"F.{name}('u', lit('QUERY'), lit('b'))", f"F.{name}('u', lit('HOST'), lit('b'))", f"F.{name}('u', lit(None))", f"F.{name}(lit(1), lit('HOST'))", f"F.{name}(lit('http://spark.apache.org/path?query=1'), lit('HOST'))")
    urls(name, f"F.{name}('u', lit('HOST'))", ansi=False)
for name in ("url_decode", "try_url_decode"):
    urls(name, f"F.{name}(lit('https%3A%2F%2Fspark.apache.org+x'))", f"F.{name}('u')", f"F.{name}(lit('%E6%97%A5'))", f"F.{name}(lit('%zz'))", f"F.{name}(lit(None))", f"F.{name}(lit('%ff'))", f"F.{name}(lit(1))")
urls("url_encode", "F.url_encode('u')", "F.url_encode(lit('a b+c/日*~-_.'))", "F.url_encode(lit(None))", "F.url_encode(lit(1))")
