"""Arrays, maps, structs and functions over them."""

from catalogue import on

one, numbers, nested, texts, times = on("one"), on("numbers"), on("nested"), on("texts"), on("times")
clock = on("times", conf={"spark.sql.timeType.enabled": "true"})

for name in ("aggregate", "reduce"):
    nested(
        name,
        f"F.{name}('a', lit(0), lambda x, y: x + y)", f"F.{name}('a', lit(0), lambda x, y: x + F.coalesce(y, lit(0)), lambda x: x * 10)", f"F.{name}('d', lit(0.0), lambda x, y: x + y)", f"F.{name}('a', lit(0), lambda x, y: lit('x'))",
        f"F.{name}('a', lit(0), lambda x: x)", f"F.{name}('i', lit(0), lambda x, y: x)", f"F.{name}('s', lit(''), lambda x, y: F.concat_ws('-', x, y))", f"F.{name}('a', lit(0).cast('bigint'), lambda x, y: x + y)", f"F.{name}('a', lit(None), lambda x, y: y)",
    )  # fmt: skip
nested("array_sort", "F.array_sort('a')", "F.array_sort('s')", "F.array_sort('d')", "F.array_sort('aa')", "F.array_sort('ra')", "F.array_sort('a', lambda x, y: y - x)", "F.array_sort('s', lambda x, y: F.length(y) - F.length(x))", "F.array_sort('i')", "F.array_sort('a', lambda x, y: lit('x'))", "F.array_sort(F.array('m'))", "F.array_sort('d', lambda x, y: lit(None).cast('int'))")
for name in ("cardinality", "size"):
    nested(name, f"F.{name}('a')", f"F.{name}('m')", f"F.{name}('s')", f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}('r')")
    nested(name, f"F.{name}('a')", ansi=False)
    nested(name, f"F.{name}('a')", conf={"spark.sql.legacy.sizeOfNull": "false"})
nested("concat", "F.concat('a', 'b')", "F.concat('s', F.array(lit('z')))", "F.concat('a', 's')", "F.concat()", "F.concat('a')", "F.concat('a', 'm')", "F.concat('i', lit('x'))", "F.concat('aa', 'aa')", "F.concat('a', lit(None))")
texts("concat", "F.concat('a', 'b')", "F.concat('x', 'x')", "F.concat('a', 'n')", "F.concat('a', 'x')", "F.concat('n', 'n')", "F.concat('a', lit(None))", "F.concat('x', 'n')")
nested("element_at", "F.element_at('a', 1)", "F.element_at('a', -1)", "F.element_at('a', 9)", "F.element_at('a', 0)", "F.element_at('m', 'a')", "F.element_at('m', 'zz')", "F.element_at('k', 1)", "F.element_at('i', 1)", "F.element_at('a', lit(None))", "F.element_at('m', 1)", "F.element_at('a', lit('x'))", "F.element_at(F.array(lit(1), lit(2)), col('i'))")
nested("element_at", "F.element_at('a', 1)", "F.element_at('a', 9)", "F.element_at('a', 0)", "F.element_at('m', 'zz')", ansi=False)
nested("try_element_at", "F.try_element_at('a', lit(1))", "F.try_element_at('a', lit(-1))", "F.try_element_at('a', lit(9))", "F.try_element_at('a', lit(0))", "F.try_element_at('m', lit('a'))", "F.try_element_at('m', lit('zz'))", "F.try_element_at('i', lit(1))", "F.try_element_at('a', 'i')")
for name in ("exists", "forall", "filter"):
    nested(name, f"F.{name}('a', lambda x: x > 1)", f"F.{name}('s', lambda x: x == 'a')", f"F.{name}('a', lambda x: x)", f"F.{name}('i', lambda x: x > 1)", f"F.{name}('a', lambda x: x > col('i'))", f"F.{name}('ra', lambda x: x['x'] > 1)", f"F.{name}('a', lambda x: lit(None))")
nested("exists", "F.exists('a', lambda x: x > 4)", "F.exists('a', lambda x: x > 1)", conf={"spark.sql.legacy.followThreeValuedLogicInArrayExists": "false"})
nested("filter", "F.filter('a', lambda x, i: i > 0)", "F.filter('a', lambda x, y, z: x > 0)", "F.filter('aa', lambda x: F.size(x) > 0)")
nested("map_filter", "F.map_filter('m', lambda k, v: v > 1)", "F.map_filter('k', lambda k, v: k > 1)", "F.map_filter('m', lambda k, v: k)", "F.map_filter('a', lambda k, v: v > 1)", "F.map_filter('m', lambda k: k == 'a')")
nested("map_zip_with", "F.map_zip_with('m', 'm', lambda k, a, b: a + b)", "F.map_zip_with('m', F.create_map(lit('a'), lit(1.5)), lambda k, a, b: F.concat_ws('-', k, a, b))", "F.map_zip_with('m', 'k', lambda k, a, b: a)", "F.map_zip_with('a', 'm', lambda k, a, b: a)", "F.map_zip_with('m', 'm', lambda k, a: a)")
nested("reverse", "F.reverse('a')", "F.reverse('s')", "F.reverse('aa')", "F.reverse('i')", "F.reverse('m')", "F.reverse(lit(None))")
texts("reverse", "F.reverse('a')", "F.reverse('x')")
nested("transform", "F.transform('a', lambda x: x * 2)", "F.transform('a', lambda x, i: x + i)", "F.transform('s', F.upper)", "F.transform('aa', lambda x: F.transform(x, lambda y: y + 1))", "F.transform('i', lambda x: x)", "F.transform('m', lambda x: x)", "F.transform('a', lambda x: F.struct(x.alias('x'), lit(1)))", "F.transform('ra', lambda x: x['y'])", "F.transform('a', lambda x: lit(1))", "F.transform('a', lambda x: x + col('i'))", "F.transform('s', lambda x: x.cast('int'))")
nested("transform_keys", "F.transform_keys('m', lambda k, v: F.upper(k))", "F.transform_keys('k', lambda k, v: k + 1)", "F.transform_keys('m', lambda k, v: lit('x'))", "F.transform_keys('m', lambda k, v: v)", "F.transform_keys('a', lambda k, v: k)", "F.transform_keys('m', lambda k: k)")
nested("transform_keys", "F.transform_keys('m', lambda k, v: lit('x'))", conf={"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
nested("transform_values", "F.transform_values('m', lambda k, v: v * 2)", "F.transform_values('k', lambda k, v: F.concat(k, v))", "F.transform_values('m', lambda k, v: lit(None))", "F.transform_values('a', lambda k, v: v)", "F.transform_values('m', lambda v: v)")
nested("zip_with", "F.zip_with('a', 'b', lambda x, y: x + y)", "F.zip_with('a', 's', lambda x, y: F.concat_ws('-', x, y))", "F.zip_with('a', 'i', lambda x, y: x)", "F.zip_with('a', 'b', lambda x: x)", "F.zip_with('a', 'b', lambda x, y: F.struct(x.alias('x'), y.alias('y')))", "F.zip_with('a', lit(None), lambda x, y: x)")

nested("array", "F.array('i', lit(2))", "F.array()", "F.array('i', lit('x'))", "F.array(['i', 'i'])", "F.array('a', 'b')", "F.array('i', 'a')", "F.array('r', 'r')", "F.array(lit(None))", "F.array(lit(1), lit(2.5))", "F.array('m', 'm')")
ELEMENT = ("1", "lit(None)", "'x'", "lit(1.5)", "col('i')")
for name in ("array_append", "array_prepend", "array_contains", "array_position", "array_remove"):
    nested(name, *[f"F.{name}('a', {value})" for value in ELEMENT], f"F.{name}('s', 'a')", f"F.{name}('d', float('nan'))", f"F.{name}('aa', F.array(lit(3)))", f"F.{name}('i', 1)", f"F.{name}('ra', F.struct(lit(1).alias('x'), lit('a').alias('y')))", f"F.{name}(lit(None), 1)", f"F.{name}('d', -0.0)", f"F.{name}(F.array(lit(1)), lit(2))")
for name in ("array_compact", "array_distinct", "array_max", "array_min", "array_size"):
    nested(name, f"F.{name}('a')", f"F.{name}('s')", f"F.{name}('d')", f"F.{name}('aa')", f"F.{name}('ra')", f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}(F.array('m'))", f"F.{name}(F.array(lit(1), lit(2)))")
for name in ("array_except", "array_intersect", "array_union", "arrays_overlap"):
    nested(name, f"F.{name}('a', 'b')", f"F.{name}('a', 's')", f"F.{name}('s', 's')", f"F.{name}('aa', F.array(F.array(lit(3))))", f"F.{name}('d', F.array(lit(float('nan')), lit(-0.0)))", f"F.{name}('a', F.array(lit(2.5)))", f"F.{name}('a', lit(None))", f"F.{name}('a', 'i')", f"F.{name}('ra', 'ra')", f"F.{name}('a', F.array())", f"F.{name}(F.array(lit(1)), F.array(lit(1)))")
nested("array_insert", "F.array_insert('a', 1, lit(9))", "F.array_insert('a', -1, lit(9))", "F.array_insert('a', 6, lit(9))", "F.array_insert('a', -6, lit(9))", "F.array_insert('a', 0, lit(9))", "F.array_insert('a', 'i', lit(9))", "F.array_insert('a', 1, lit('x'))", "F.array_insert('s', 2, lit('x'))", "F.array_insert('a', lit(None), lit(9))", "F.array_insert('a', 1, lit(None))", "F.array_insert('i', 1, lit(9))", "F.array_insert('a', 2, lit(1.5))")
nested("array_insert", "F.array_insert('a', -1, lit(9))", conf={"spark.sql.legacy.negativeIndexInArrayInsert": "true"})
nested("array_join", "F.array_join('s', ',')", "F.array_join('s', '-', 'NULL')", "F.array_join('a', ',')", "F.array_join('aa', ',')", "F.array_join('i', ',')", "F.array_join('s', '')", "F.array_join('d', ';')")
nested("array_repeat", "F.array_repeat('i', 2)", "F.array_repeat('s', 'i')", "F.array_repeat('i', lit(None))", "F.array_repeat(lit('x'), 0)", "F.array_repeat('i', lit('x'))", "F.array_repeat(lit(None), 2)")
nested("arrays_zip", "F.arrays_zip('a', 'b')", "F.arrays_zip('a', 's', 'd')", "F.arrays_zip('a')", "F.arrays_zip(F.array(lit(1)), 'a')", "F.arrays_zip('a', 'i')", "F.arrays_zip()", "F.arrays_zip(col('a').alias('z'), 'ra')")
nested("flatten", "F.flatten('aa')", "F.flatten('a')", "F.flatten(F.array('s', 's'))", "F.flatten('i')", "F.flatten(F.array('aa'))", "F.flatten(lit(None))")
nested("get", "F.get('a', 0)", "F.get('a', 9)", "F.get('a', -1)", "F.get('a', 'i')", "F.get('m', 0)", "F.get('a', lit(None))", "F.get('a', lit('x'))", "F.get('aa', 0)")
one("sequence", "F.sequence(lit(1), lit(5))", "F.sequence(lit(5), lit(1))", "F.sequence(lit(1), lit(10), lit(4))", "F.sequence(lit(5), lit(1), lit(-2))", "F.sequence(lit(1), lit(5), lit(-1))", "F.sequence(lit(1), lit(5), lit(0))", "F.sequence(lit(3), lit(3), lit(0))", "F.sequence(lit(1), lit(None))", "F.sequence(lit(1.5), lit(3.0))", "F.sequence(lit('a'), lit('b'))", "F.sequence(lit(1).cast('tinyint'), lit(3).cast('bigint'))", "F.sequence(E(\"date'2024-01-30'\"), E(\"date'2024-04-01'\"), E(\"interval '1' month\"))", "F.sequence(E(\"date'2024-01-30'\"), E(\"date'2024-02-02'\"))", "F.sequence(E(\"timestamp'2024-01-01 00:00:00'\"), E(\"timestamp'2024-01-01 02:00:00'\"), E(\"interval '30' minute\"))", "F.sequence(E(\"date'2024-01-01'\"), E(\"date'2024-01-02'\"), E(\"interval '1' hour\"))", "F.sequence(E(\"timestamp_ntz'2024-01-03'\"), E(\"timestamp_ntz'2024-01-01'\"), E(\"interval '-1' day\"))", "F.sequence(E(\"date'2024-01-01'\"), E(\"date'2024-01-05'\"), lit(1))")
nested("shuffle", "F.shuffle('a', 3)", "F.shuffle('s', lit(-7))", "F.shuffle('aa', 0)", "F.shuffle('i', 1)", "F.shuffle(F.sequence(lit(1), lit(20)), 42)")
nested("slice", "F.slice('a', 1, 2)", "F.slice('a', -2, 2)", "F.slice('a', 0, 1)", "F.slice('a', 1, -1)", "F.slice('a', 9, 2)", "F.slice('s', 'i', lit(1))", "F.slice('i', 1, 2)", "F.slice('a', lit(None), 2)", "F.slice('a', lit('x'), 1)", "F.slice('aa', 1, 1)")
nested("sort_array", "F.sort_array('a')", "F.sort_array('a', False)", "F.sort_array('s')", "F.sort_array('d', False)", "F.sort_array('aa')", "F.sort_array('ra', False)", "F.sort_array('i')", "F.sort_array(F.array('m'))", "F.sort_array(F.array(lit(None), lit(None)))")

nested("named_struct", "F.named_struct(lit('p'), 'i', lit('q'), 'a')", "F.named_struct(lit('p'), 'i', lit('p'), 'i')", "F.named_struct(lit('p'))", "F.named_struct('i', 'i')", "F.named_struct()", "F.named_struct(lit(None), 'i')", "F.named_struct(lit(1), 'i')")
nested("struct", "F.struct('i', 'a')", "F.struct(['i', 'r'])", "F.struct(lit(1), lit('x'))", "F.struct(col('i').alias('z'), col('i') + 1)", "F.struct()", "F.struct('r.x', 'r.y')", "F.struct('*')", "F.struct('nothing')")
nested("create_map", "F.create_map('i', 'a')", "F.create_map(lit('a'), lit(1), lit('b'), lit(2))", "F.create_map(lit('a'), lit(1), lit('a'), lit(2))", "F.create_map()", "F.create_map(lit('a'))", "F.create_map(lit(1), lit('x'), lit(2.5), lit(3))", "F.create_map('m', 'i')", "F.create_map(lit(None), lit(1))", "F.create_map(['i', 'i'])", "F.create_map(lit(1), lit(2), lit('x'), lit(3))", "F.create_map(lit(0.0), lit(1), lit(-0.0), lit(2))")
nested("create_map", "F.create_map(lit('a'), lit(1), lit('a'), lit(2))", "F.create_map(lit(0.0), lit(1), lit(-0.0), lit(2))", conf={"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
nested("map_concat", "F.map_concat('m', F.create_map(lit('q'), lit(1)))", "F.map_concat('m', 'm')", "F.map_concat('m')", "F.map_concat()", "F.map_concat('m', 'k')", "F.map_concat('m', 'a')", "F.map_concat('m', lit(None))", "F.map_concat(['m', F.create_map(lit('q'), lit(1.5))])")
nested("map_concat", "F.map_concat('m', 'm')", conf={"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
nested("map_contains_key", "F.map_contains_key('m', 'a')", "F.map_contains_key('k', 1)", "F.map_contains_key('k', 1.0)", "F.map_contains_key('m', 1)", "F.map_contains_key('m', lit(None))", "F.map_contains_key('a', 1)", "F.map_contains_key(F.create_map(), 1)")
for name in ("map_entries", "map_keys", "map_values"):
    nested(name, f"F.{name}('m')", f"F.{name}('k')", f"F.{name}('a')", f"F.{name}(lit(None))", f"F.{name}(F.create_map(lit(1), lit(2)))", f"F.{name}(F.create_map())")
nested("map_from_arrays", "F.map_from_arrays('b', 'b')", "F.map_from_arrays(F.array(lit('p'), lit('q')), F.array(lit(1), lit(None)))", "F.map_from_arrays('a', 's')", "F.map_from_arrays(F.array(lit(1)), F.array(lit(1), lit(2)))", "F.map_from_arrays('a', 'i')", "F.map_from_arrays(F.array(lit(1), lit(1)), F.array(lit(1), lit(2)))", "F.map_from_arrays(F.array('m'), F.array('i'))", "F.map_from_arrays(lit(None), 'a')")
nested("map_from_entries", "F.map_from_entries('e')", "F.map_from_entries('a')", "F.map_from_entries(F.array(F.struct(lit(1), lit(2)), F.struct(lit(1), lit(3))))", "F.map_from_entries(F.array(F.struct(lit(None).cast('int'), lit(2))))", "F.map_from_entries('ra')", "F.map_from_entries(F.array(F.struct(lit(1), lit(2)), lit(None)))", "F.map_from_entries(F.array(F.struct(lit(1))))")
texts("str_to_map", "F.str_to_map(lit('a:1,b:2'))", "F.str_to_map(lit('a=1;b=2'), lit(';'), lit('='))", "F.str_to_map('a')", "F.str_to_map(lit('a:1,a:2'))", "F.str_to_map(lit(''))", "F.str_to_map('n')", "F.str_to_map(lit('a'), lit(None))", "F.str_to_map(lit('a1b22c'), lit('[0-9]+'))", "F.str_to_map('a', 'b', lit('o'))")
texts("str_to_map", "F.str_to_map(lit('a:1,a:2'))", conf={"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})

for name in ("explode", "explode_outer", "posexplode", "posexplode_outer"):
    nested(name, f"F.{name}('a')", f"F.{name}('m')", f"(col('i'), F.{name}('s'))", f"F.{name}('aa')", f"F.{name}('ra')", f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}('a').alias({', '.join(repr(n) for n in (['v'] if name.startswith('e') else ['p', 'v']))})", f"(F.{name}('a'), F.{name}('s'))", f"df.filter(F.{name}('a') > 1)", f"F.{name}('a') + 1")
for name in ("inline", "inline_outer"):
    nested(name, f"F.{name}('ra')", f"(col('i'), F.{name}('e'))", f"F.{name}('a')", f"F.{name}(F.array(F.struct(lit(1), lit('x')), F.struct(lit(2), lit('y'))))", f"F.{name}('m')", f"F.{name}(lit(None))")
nested("stack", "F.stack(lit(2), 'i', lit(1), lit(2), lit(3))", "F.stack(lit(2), lit(1), lit(2), lit(3))", "F.stack(lit(3), lit('a'), lit('b'), lit('c')).alias('v')", "F.stack(lit(2), lit(1), lit('x'))", "F.stack('i', lit(1))", "F.stack(lit(0), lit(1))", "F.stack(lit(1))", "(col('i'), F.stack(lit(1), 'a', 'm'))", "F.stack(lit(None), lit(1))", "F.stack(lit('2'), lit(1), lit(2))")

numbers("hash", "F.hash('i')", "F.hash('i', 'l', 's')", "F.hash('d', 'f')", "F.hash('n', 'w')", "F.hash('t', 'y', 'h')", "F.hash(lit(None))", "F.hash()", "F.hash(lit('😀'), lit(b'x'))")
nested("hash", "F.hash('a')", "F.hash('r', 'aa')", "F.hash('m')", "F.hash('ra')")
times("hash", "F.hash('ts', 'd', 'n')", "F.hash(E(\"interval '1' day\"))", "F.hash(E('make_interval(1, 2)'))")
clock("hash", "F.hash(F.to_time('c'))")
numbers("xxhash64", "F.xxhash64('i')", "F.xxhash64('i', 'l', 's')", "F.xxhash64('d', 'f')", "F.xxhash64('n', 'w')", "F.xxhash64('t', 'y', 'h')", "F.xxhash64(lit(None))", "F.xxhash64()", "F.xxhash64(F.repeat(lit('abc'), 20))")
nested("xxhash64", "F.xxhash64('a')", "F.xxhash64('r', 'aa')", "F.xxhash64('m')")
times("xxhash64", "F.xxhash64('ts', 'd', 'n')", "F.xxhash64(E('make_interval(1, 2)'))")
clock("xxhash64", "F.xxhash64(F.to_time('c'))")
for name in ("crc32", "md5", "sha", "sha1"):
    texts(name, f"F.{name}('a')", f"F.{name}('x')", f"F.{name}('n')", f"F.{name}(lit(None))", f"F.{name}(F.array('n'))")
texts("sha2", *[f"F.sha2('a', {bits})" for bits in (0, 224, 256, 384, 512, 1)], "F.sha2('x', 256)", "F.sha2('n', 256)", "F.sha2(lit(None), 256)", "F.expr(\"sha2('a', n)\")")
