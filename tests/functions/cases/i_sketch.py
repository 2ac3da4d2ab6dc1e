"""Sketches of DataSketches and geospatial functions."""

from catalogue import on

one, sales, grouped, texts = on("one"), on("sales"), on("sales", by="g"), on("texts")

H = "F.hll_sketch_agg"
for run in (sales, grouped):
    run("hll_sketch_agg", f"F.hll_sketch_estimate({H}('i'))", f"F.hll_sketch_estimate({H}('s', 12))", f"F.hex({H}('i', 4))")
sales("hll_sketch_agg", f"{H}('d')", f"{H}('i', 3)", f"{H}('i', 22)", f"{H}('i', col('q'))", f"F.hex({H}('l'))", f"F.hex({H}('s'))", f"F.hex({H}('b', 8))", f"{H}(lit(None))", f"F.hll_sketch_estimate({H}(lit(None).cast('int')))", "spark.range(5000).select(F.hll_sketch_estimate(F.hll_sketch_agg('id')), F.hll_sketch_estimate(F.hll_sketch_agg('id', 5)))", "spark.range(100).select(F.hex(F.hll_sketch_agg('id', 6)))", "spark.range(20).select(F.hex(F.hll_sketch_agg('id', 12)))")
sales("hll_sketch_estimate", f"F.hll_sketch_estimate({H}('i', 12))", f"F.hll_sketch_estimate({H}('s'))", "F.hll_sketch_estimate(lit(b'nonsense'))", "F.hll_sketch_estimate(lit(None))", "F.hll_sketch_estimate(lit('x'))", "F.hll_sketch_estimate(lit(1))")
sales("hll_union", f"F.hll_sketch_estimate(F.hll_union({H}('i'), {H}('l')))", f"F.hll_sketch_estimate(F.hll_union({H}('i'), {H}('q')))", f"F.hll_union({H}('i', 4), {H}('q', 12))", f"F.hll_sketch_estimate(F.hll_union({H}('i', 4), {H}('q', 12), True))", f"F.hll_union({H}('i'), lit(b'x'))", f"F.hll_union({H}('i'), lit(None))", f"F.hex(F.hll_union({H}('i', 5), {H}('q', 5)))")
PER = "df.groupBy('g').agg({0}.alias('k')).orderBy('g')"
sales("hll_union_agg", *[f"{PER.format(text)}.select({call})" for text, call in ((f"{H}('i')", "F.hll_sketch_estimate(F.hll_union_agg('k'))"), (f"{H}('s', 5)", "F.hex(F.hll_union_agg('k'))"), (f"{H}('i', F.lit(6))", "F.hll_union_agg('k', True)"), (f"{H}('i')", "F.hll_sketch_estimate(F.hll_union_agg('k', False))"), ("F.max('b')", "F.hll_union_agg('k')"))], "F.hll_union_agg('i')", "F.hll_union_agg(lit(None).cast('binary'))")

for kind, column in (("bigint", "l"), ("double", "d"), ("float", "f")):
    sketch = f"F.kll_sketch_agg_{kind}"
    for run in (sales, grouped):
        run(f"kll_sketch_agg_{kind}", f"F.kll_sketch_get_n_{kind}({sketch}('{column}'))", f"F.kll_sketch_get_quantile_{kind}({sketch}('{column}', 50), lit(0.5))", f"F.hex({sketch}('{column}', 20))")
    sales(f"kll_sketch_agg_{kind}", f"{sketch}('s')", f"{sketch}('{column}', 7)", f"{sketch}('{column}', 70000)", f"{sketch}('{column}', col('q'))", f"F.hex({sketch}('i'))", f"F.hex({sketch}(lit(None).cast('int')))", f"{sketch}('n')")
    sales(f"kll_sketch_get_n_{kind}", f"F.kll_sketch_get_n_{kind}({sketch}('{column}'))", f"F.kll_sketch_get_n_{kind}(lit(b'nonsense'))", f"F.kll_sketch_get_n_{kind}(lit(None))", f"F.kll_sketch_get_n_{kind}('i')")
    sales(f"kll_sketch_get_quantile_{kind}", *[f"F.kll_sketch_get_quantile_{kind}({sketch}('{column}'), lit({rank}))" for rank in (0.0, 0.3, 1.0, 1.5, "None")], f"F.kll_sketch_get_quantile_{kind}({sketch}('{column}'), F.array(lit(0.1), lit(0.9)))", f"F.kll_sketch_get_quantile_{kind}(lit(b'nonsense'), lit(0.5))", f"F.kll_sketch_get_quantile_{kind}({sketch}('{column}'), lit('x'))")
    value = "lit(5)" if kind == "bigint" else f"lit(0.75).cast('{kind}')"
    sales(f"kll_sketch_get_rank_{kind}", f"F.kll_sketch_get_rank_{kind}({sketch}('{column}'), {value})", f"F.kll_sketch_get_rank_{kind}({sketch}('{column}'), F.array({value}, {value}))", f"F.kll_sketch_get_rank_{kind}({sketch}('{column}'), lit(None))", f"F.kll_sketch_get_rank_{kind}(lit(b'nonsense'), {value})", f"F.kll_sketch_get_rank_{kind}({sketch}('{column}'), lit('x'))")
    sales(f"kll_sketch_merge_{kind}", f"F.kll_sketch_get_n_{kind}(F.kll_sketch_merge_{kind}({sketch}('{column}'), {sketch}('i')))", f"F.hex(F.kll_sketch_merge_{kind}({sketch}('{column}', 20), {sketch}('{column}', 20)))", f"F.kll_sketch_merge_{kind}({sketch}('{column}'), lit(None))", f"F.kll_sketch_merge_{kind}({sketch}('{column}'), lit(b'x'))", f"F.kll_sketch_get_n_{kind}(F.kll_sketch_merge_{kind}({sketch}('{column}', 20), {sketch}('{column}', 50)))")
    sales(f"kll_sketch_to_string_{kind}", f"F.kll_sketch_to_string_{kind}({sketch}('{column}'))", f"F.kll_sketch_to_string_{kind}({sketch}('{column}', 20))", f"F.kll_sketch_to_string_{kind}(lit(b'nonsense'))", f"F.kll_sketch_to_string_{kind}(lit(None))")
    merge = f"F.kll_merge_agg_{kind}"
    each = PER.format(f"{sketch}('{column}')")
    sales(f"kll_merge_agg_{kind}", f"{each}.select(F.kll_sketch_get_n_{kind}({merge}('k')))", f"{each}.select(F.kll_sketch_get_quantile_{kind}({merge}('k', 50), lit(0.5)))", f"{each}.select(F.hex({merge}('k')))", f"{merge}('b')", f"{merge}('i')", f"{merge}(lit(None).cast('binary'))", f"{each}.select({merge}('k', 7))")

S = "F.theta_sketch_agg"
for run in (sales, grouped):
    run("theta_sketch_agg", f"F.theta_sketch_estimate({S}('i'))", f"F.theta_sketch_estimate({S}('s', 5))", f"F.hex({S}('i', 12))")
sales("theta_sketch_agg", *[f"F.hex({S}('{column}'))" for column in "lsdfbh"], f"F.hex({S}(F.array('i')))", f"F.hex({S}(F.array('l')))", f"{S}('n')", f"{S}('i', 3)", f"{S}('i', 27)", f"{S}('i', col('q'))", f"F.hex({S}(lit(None).cast('int')))", f"spark.range(5000).select(F.theta_sketch_estimate({S}('id', 5)), F.theta_sketch_estimate({S}('id')))", f"spark.range(100).select(F.hex({S}('id', 4)))")
for name in ("theta_union", "theta_intersection", "theta_difference"):
    sales(name, f"F.theta_sketch_estimate(F.{name}({S}('i'), {S}('q')))", f"F.hex(F.{name}({S}('i'), {S}('l')))", f"F.{name}({S}('i'), lit(None))", f"F.{name}({S}('i'), lit(b'nonsense'))", f"F.{name}({S}('i'), lit(1))", f"F.hex(F.{name}({S}('i', 5), {S}('q', 10)))", f"F.hex(F.{name}({S}('i'), {S}(lit(None).cast('int'))))")
sales("theta_union", f"F.hex(F.theta_union({S}('i'), {S}('q'), 5))", f"F.theta_union({S}('i'), {S}('q'), 3)")
sales("theta_sketch_estimate", f"F.theta_sketch_estimate({S}('i'))", "F.theta_sketch_estimate(lit(b'nonsense'))", "F.theta_sketch_estimate(lit(None))", "F.theta_sketch_estimate(lit(1))")
for name in ("theta_union_agg", "theta_intersection_agg"):
    each = PER.format(f"{S}('q')")
    sales(name, f"{each}.select(F.theta_sketch_estimate(F.{name}('k')))", f"{each}.select(F.hex(F.{name}('k')))", f"F.{name}('b')", f"F.{name}('i')", f"F.hex(F.{name}(lit(None).cast('binary')))")
sales("theta_union_agg", f"{PER.format(S + chr(40) + repr('q') + chr(41))}.select(F.hex(F.theta_union_agg('k', 5)))", f"{PER.format(S + chr(40) + repr('q') + chr(41))}.select(F.theta_union_agg('k', 30))")

for kind, column in (("double", "d"), ("integer", "q")):
    sketch = f"F.tuple_sketch_agg_{kind}"
    for run in (sales, grouped):
        run(f"tuple_sketch_agg_{kind}", f"F.tuple_sketch_estimate_{kind}({sketch}('i', '{column}'))", f"F.tuple_sketch_summary_{kind}({sketch}('s', '{column}'))", f"F.hex({sketch}('i', '{column}', 12, 'max'))")
    sales(f"tuple_sketch_agg_{kind}", *[f"F.hex({sketch}('{key}', '{column}'))" for key in "lsdb"], f"{sketch}('i', 's')", f"{sketch}('i', '{column}', 3)", f"{sketch}('i', '{column}', 12, 'nope')", f"{sketch}('n', '{column}')", f"F.hex({sketch}('g', '{column}', None, 'min'))", f"F.hex({sketch}('g', '{column}', 5, 'alwaysone'))", f"{sketch}('i', '{column}', col('q'))")
    sales(f"tuple_sketch_estimate_{kind}", f"F.tuple_sketch_estimate_{kind}({sketch}('i', '{column}'))", f"F.tuple_sketch_estimate_{kind}(lit(b'nonsense'))", f"F.tuple_sketch_estimate_{kind}(lit(None))", f"F.tuple_sketch_estimate_{kind}(lit(1))")
    sales(f"tuple_sketch_summary_{kind}", *[f"F.tuple_sketch_summary_{kind}({sketch}('g', '{column}'), '{mode}')" for mode in ("sum", "min", "max", "alwaysone", "nope")], f"F.tuple_sketch_summary_{kind}({sketch}('g', '{column}'))", f"F.tuple_sketch_summary_{kind}(lit(b'nonsense'))", f"F.tuple_sketch_summary_{kind}(lit(None))")
    sales(f"tuple_sketch_theta_{kind}", f"F.tuple_sketch_theta_{kind}({sketch}('i', '{column}'))", f"F.tuple_sketch_theta_{kind}(lit(b'nonsense'))", f"F.tuple_sketch_theta_{kind}(lit(None))", f"spark.range(100).select(F.tuple_sketch_theta_{kind}({sketch}('id', F.lit(1).cast('{'int' if kind == 'integer' else 'double'}'), 4)))")
    for name in (f"tuple_union_{kind}", f"tuple_intersection_{kind}", f"tuple_difference_{kind}"):
        sales(name, f"F.tuple_sketch_estimate_{kind}(F.{name}({sketch}('i', '{column}'), {sketch}('q', '{column}')))", f"F.hex(F.{name}({sketch}('i', '{column}'), {sketch}('l', '{column}')))", f"F.{name}({sketch}('i', '{column}'), lit(None))", f"F.{name}({sketch}('i', '{column}'), lit(b'nonsense'))", f"F.{name}({sketch}('i', '{column}'), lit(1))")
    sales(f"tuple_union_{kind}", f"F.tuple_sketch_summary_{kind}(F.tuple_union_{kind}({sketch}('g', '{column}'), {sketch}('g', '{column}'), 5, 'max'))", f"F.tuple_union_{kind}({sketch}('g', '{column}'), {sketch}('g', '{column}'), 3)", f"F.tuple_union_{kind}({sketch}('g', '{column}'), {sketch}('g', '{column}'), 12, 'nope')")
    sales(f"tuple_intersection_{kind}", f"F.tuple_sketch_summary_{kind}(F.tuple_intersection_{kind}({sketch}('g', '{column}'), {sketch}('g', '{column}'), 'min'))", f"F.tuple_intersection_{kind}({sketch}('g', '{column}'), {sketch}('g', '{column}'), 'nope')")
    for name in (f"tuple_union_theta_{kind}", f"tuple_intersection_theta_{kind}", f"tuple_difference_theta_{kind}"):
        sales(name, f"F.tuple_sketch_estimate_{kind}(F.{name}({sketch}('i', '{column}'), {S}('q')))", f"F.hex(F.{name}({sketch}('i', '{column}'), {S}('l')))", f"F.{name}({sketch}('i', '{column}'), lit(None))", f"F.{name}({sketch}('i', '{column}'), lit(b'nonsense'))")
    for name in (f"tuple_union_agg_{kind}", f"tuple_intersection_agg_{kind}"):
        each = PER.format(f"{sketch}('q', '{column}')")
        sales(name, f"{each}.select(F.tuple_sketch_estimate_{kind}(F.{name}('k')))", f"{each}.select(F.hex(F.{name}('k')))", f"{each}.select(F.tuple_sketch_summary_{kind}(F.{name}('k', mode='max')))", f"F.{name}('b')", f"F.{name}('i')", f"{each}.select(F.{name}('k', mode='nope'))")

POINT, BIG = "F.unhex(lit('0101000000000000000000F03F0000000000000040'))", "F.unhex(lit('00000000013FF00000000000004000000000000000'))"
LINE = "F.unhex(lit('010200000002000000000000000000F03F000000000000004000000000000008400000000000001040'))"
geo = on("one", conf={"spark.sql.geospatial.enabled": "true"})
geo("st_asbinary", f"F.hex(F.st_asbinary(F.st_geogfromwkb({POINT})))", f"F.hex(F.st_asbinary(F.st_geomfromwkb({LINE})))", f"F.hex(F.st_asbinary(F.st_geomfromwkb({BIG})))", f"F.hex(F.st_asbinary(F.st_geomfromwkb({POINT}), lit('XDR')))", f"F.hex(F.st_asbinary(F.st_geomfromwkb({POINT}), lit('NDR')))", f"F.st_asbinary(F.st_geomfromwkb({POINT}), lit('nope'))", "F.st_asbinary(lit(None))", "F.st_asbinary(lit(1))")
geo("st_geogfromwkb", f"F.st_geogfromwkb({POINT})", f"F.st_geogfromwkb({LINE})", "F.st_geogfromwkb(lit(b'nonsense'))", "F.st_geogfromwkb(lit(None))", "F.st_geogfromwkb(lit(1))", "F.st_geogfromwkb(F.unhex(lit('01010000000000000000C072400000000000000040')))", "F.typeof(F.st_geogfromwkb(F.unhex(lit('0101000000000000000000F03F0000000000000040'))))")
geo("st_geomfromwkb", f"F.st_geomfromwkb({POINT})", f"F.st_geomfromwkb({POINT}, 4326)", f"F.st_geomfromwkb({POINT}, lit(3857))", f"F.st_geomfromwkb({POINT}, 999)", "F.st_geomfromwkb(lit(b'nonsense'))", "F.st_geomfromwkb(lit(None))", f"F.st_srid(F.st_geomfromwkb({POINT}, col('id') * 4326))", "F.st_geomfromwkb(lit(b''))")
geo("st_setsrid", f"F.st_srid(F.st_setsrid(F.st_geomfromwkb({POINT}), 3857))", f"F.st_setsrid(F.st_geomfromwkb({POINT}), lit(4326))", f"F.st_setsrid(F.st_geogfromwkb({POINT}), 3857)", f"F.st_setsrid(F.st_geogfromwkb({POINT}), 4326)", f"F.st_setsrid(F.st_geomfromwkb({POINT}), lit(None))", "F.st_setsrid(lit(1), 4326)", f"F.st_setsrid(F.st_geomfromwkb({POINT}), 999)")
geo("st_srid", f"F.st_srid(F.st_geomfromwkb({POINT}))", f"F.st_srid(F.st_geogfromwkb({POINT}))", f"F.st_srid(F.st_geomfromwkb({POINT}, 3857))", "F.st_srid(lit(None))", "F.st_srid(lit(1))")
for name, text in (("st_asbinary", f"F.st_asbinary(F.st_geogfromwkb({POINT}))"), ("st_geogfromwkb", f"F.st_geogfromwkb({POINT})"), ("st_geomfromwkb", f"F.st_geomfromwkb({POINT})"), ("st_setsrid", f"F.st_setsrid(F.st_geomfromwkb({POINT}), 3857)"), ("st_srid", f"F.st_srid(F.st_geomfromwkb({POINT}))")):
    one(name, text)
