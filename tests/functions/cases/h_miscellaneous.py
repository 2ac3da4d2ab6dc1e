"""Encryption, the session, errors on purpose, bitmaps, Java, partitioning, Python functions."""

from catalogue import on

one, numbers, nested, texts, times, sales = on("one"), on("numbers"), on("nested"), on("texts"), on("times"), on("sales")

KEY, LONG = "lit('0000111122223333')", "lit('abcdefghijklmnop12345678ABCDEFGH')"
IV = "F.unhex(lit('000000000000000000000000'))"
IV16 = "F.unhex(lit('00000000000000000000000000000000'))"
one(
    "aes_encrypt",
    f"F.hex(F.aes_encrypt(lit('Spark'), {KEY}, lit('ECB')))", f"F.hex(F.aes_encrypt(lit('Spark'), {LONG}, lit('GCM'), lit('DEFAULT'), {IV}, lit('This is an AAD')))", f"F.hex(F.aes_encrypt(lit('Spark'), {LONG}, lit('CBC'), lit('PKCS'), {IV16}))", f"F.length(F.aes_encrypt(lit('Spark'), {KEY}))",
    f"F.aes_encrypt(lit('Spark'), lit('short'))", f"F.aes_encrypt(lit('Spark'), {KEY}, lit('CBC'), lit('NONE'))", f"F.aes_encrypt(lit('Spark'), {KEY}, lit('nope'))", f"F.aes_encrypt(lit(None), {KEY})", f"F.aes_encrypt(lit('Spark'), {KEY}, lit('GCM'), lit('DEFAULT'), {IV16})", f"F.aes_encrypt(lit('Spark'), {KEY}, lit('ECB'), lit('PKCS'), {IV})",
)  # fmt: skip
ENCRYPTED = "F.unbase64(lit('83F16B2AA704794132802D248E6BFD4E380078182D1544813898AC97E709B28A94'))"
for name in ("aes_decrypt", "try_aes_decrypt"):
    one(
        name,
        f"F.{name}(F.unhex(lit('83F16B2AA704794132802D248E6BFD4E380078182D1544813898AC97E709B28A94')), {KEY}).cast('string')", f"F.{name}(F.unbase64(lit('3lmwu+Mw0H3fi5NDvcu9lg==')), lit('1234567890abcdef'), lit('ECB'), lit('PKCS')).cast('string')",
        f"F.{name}(F.aes_encrypt(lit('Spark'), {LONG}, lit('CBC')), {LONG}, lit('CBC')).cast('string')", f"F.{name}(F.aes_encrypt(lit('Spark'), {LONG}, lit('GCM'), lit('DEFAULT'), {IV}, lit('aad')), {LONG}, lit('GCM'), lit('DEFAULT'), lit('aad')).cast('string')", f"F.{name}(F.unhex(lit('00')), {KEY})",
        f"F.{name}(lit(b'nonsense that is long enough, really'), {KEY})", f"F.{name}(lit(b'x'), lit('short'))", f"F.{name}(lit(b'x'), {KEY}, lit('nope'))", f"F.{name}(lit(None), {KEY})", f"F.{name}({ENCRYPTED}, {KEY}, lit('ECB'))",
    )  # fmt: skip
numbers("assert_true", "F.assert_true(lit(True))", "F.assert_true(col('i') > 0)", "F.assert_true(lit(False), 'no')", "F.assert_true(lit(False), F.concat(lit('a'), lit('b')))", "F.assert_true('i')", "F.assert_true(lit(None))", "F.assert_true(col('i') > -100, col('s'))")
one("raise_error", "F.raise_error('no')", "F.raise_error(lit(None))", "F.when(lit(False), F.raise_error('no')).otherwise(1)", "F.raise_error(F.concat(lit('a'), col('id')))", "F.when(col('id') == 1, F.raise_error('no')).otherwise(1)", "F.raise_error(col('id'))", "F.expr(\"raise_error('VIEW_NOT_FOUND', map('relationName', '`v`'))\")")
for name in ("bitmap_bit_position", "bitmap_bucket_number"):
    numbers(name, f"F.{name}('i')", f"F.{name}('h')", f"F.{name}(lit(32768))", f"F.{name}(lit(-32768))", f"F.{name}(lit(None))", f"F.{name}('d')", f"F.{name}('s')")
texts("bitmap_count", "F.bitmap_count('x')", "F.bitmap_count(lit(b'\\xff\\x0f'))", "F.bitmap_count(lit(None))", "F.bitmap_count('a')")
for name in ("current_catalog", "current_database", "current_schema", "current_path"):
    one(name, f"F.{name}()", f"F.upper(F.{name}())", f"F.{name}() == F.{name}()")
for name in ("current_user", "session_user", "user"):
    one(name, f"F.{name}()", f"F.length(F.{name}()) > 0", types_only=True)
    one(name, f"F.{name}() == F.current_user()")
for name in ("input_file_block_length", "input_file_block_start", "input_file_name"):
    numbers(name, f"F.{name}()", f"F.isnull(F.{name}())", f"('i', F.{name}())")
for name in ("java_method", "reflect", "try_reflect"):
    one(
        name,
        f"F.{name}(lit('java.util.UUID'), lit('fromString'), lit('a5cf6c42-0c85-418f-af6c-3e4e5b1328f2'))", f"F.{name}(lit('java.lang.Math'), lit('abs'), lit(-5))", f"F.{name}(lit('nope.Nope'), lit('x'))", f"F.{name}(lit('java.util.UUID'))", f"F.{name}(lit('java.util.UUID'), lit('fromString'), lit('nope'))",
        f"F.{name}(lit('java.util.UUID'), lit('nope'))",
    )  # fmt: skip
numbers("monotonically_increasing_id", "F.monotonically_increasing_id()", "('i', F.monotonically_increasing_id())", "df.filter('i > 0').select(F.monotonically_increasing_id() + 1)")
numbers("spark_partition_id", "F.spark_partition_id()", "('i', F.spark_partition_id() + 1)", "F.spark_partition_id() == 0")
numbers("typeof", *[f"F.typeof('{column}')" for column in "ilhydfnwst"], "F.typeof(lit(None))", "F.typeof(F.array('i'))")
nested("typeof", *[f"F.typeof('{column}')" for column in ("a", "m", "r", "ra")])
times("typeof", "F.typeof('ts')", "F.typeof('n')", "F.typeof('d')", "F.typeof(E(\"interval '1' day\"))", "F.typeof(E('make_interval(1)'))", "F.typeof(F.parse_json(lit('1')))")
one("version", "F.version()", "F.length(F.version()) > 5", types_only=True)
one("version", "F.substring(F.version(), 1, 5)")
for name in ("years", "months", "days", "hours"):
    times(name, f"F.partitioning.{name}('ts')", f"F.{name}('ts')", f"F.{name}('i')")
times("bucket", "F.bucket(4, 'i')", "F.partitioning.bucket(4, 'i')", "F.bucket(lit(4), 'ts')")
nested("unwrap_udt", "F.unwrap_udt('i')", "F.unwrap_udt('r')", "F.unwrap_udt('nothing')")

numbers("udf", "F.udf(lambda x: None if x is None else x + 1, 'int')('i')", "F.udf(lambda s, i: f'{s}-{i}')('s', 'i')", "F.udf(lambda x: [x, x], 'array<int>')('i')", "F.udf(lambda x: 1 / 0, 'int')('i')", "F.udf(lambda x: x, 'int', useArrow=True)('i')", "F.udf(lambda: 7, 'int')()")
nested("udf", "F.udf(lambda r: r and r.x, 'int')('r')", "F.udf(lambda m: m and len(m), 'int')('m')")
numbers("pandas_udf", "F.pandas_udf(lambda s: s + 1, 'double', F.PandasUDFType.SCALAR)('d')", "F.pandas_udf(lambda s: s.str.upper(), 'string', F.PandasUDFType.SCALAR)('s')", "F.pandas_udf(lambda s: s.mean(), 'double', F.PandasUDFType.GROUPED_AGG)('d')")
sales("pandas_udf", "df.groupBy('g').agg(F.pandas_udf(lambda s: s.sum(), 'double', F.PandasUDFType.GROUPED_AGG)('q').alias('x')).orderBy('g')")
numbers("arrow_udf", "F.arrow_udf(lambda a: a, 'int', F.ArrowUDFType.SCALAR)('i')", "F.arrow_udf(lambda a: __import__('pyarrow').compute.add(a, 1.0), 'double', F.ArrowUDFType.SCALAR)('d')", "F.arrow_udf(lambda a: __import__('pyarrow').compute.sum(a).as_py(), 'bigint', F.ArrowUDFType.GROUPED_AGG)('h')")
one("call_udf", "F.call_udf('abs', lit(-1))", "F.call_udf('no_such_udf', 'id')", "(spark.udf.register('plus_one', lambda x: x + 1, 'int'), F.call_udf('plus_one', 'id'))[1]")
TABLE = "type('Squares', (), {'eval': lambda self, n: ((i, i * i) for i in range(n))})"
one("udtf", f"F.udtf({TABLE}, returnType='i int, square int')(lit(3))", "F.udtf(type('Twice', (), {'eval': lambda self, x: [(x,), (x,)]}), returnType='x string')(lit('a'))", "F.udtf(type('Empty', (), {'eval': lambda self: iter(())}), returnType='x string')()")
one("arrow_udtf", "F.arrow_udtf(type('Batch', (), {'eval': lambda self: iter([__import__('pyarrow').table({'x': [1, 2]})])}), returnType='x bigint')()", "F.arrow_udtf(type('Batch', (), {'eval': lambda self, n: iter([__import__('pyarrow').table({'x': n})])}), returnType='x int')(lit(5))", "F.arrow_udtf(type('Batch', (), {'eval': lambda self: iter(())}), returnType='x int')()")

on("times", conf={"spark.sql.timeType.enabled": "true"})("typeof", "F.typeof(F.to_time('c'))", "F.typeof(F.current_time(3))")
