"""Columns, literals, conditions, predicates and orders."""

from catalogue import on

one, numbers, texts, nested, times = on("one"), on("numbers"), on("texts"), on("nested"), on("times")

one("broadcast", "df.join(F.broadcast(df.withColumn('x', lit(2))), 'id')", "F.broadcast(df)", "df.crossJoin(F.broadcast(df.toDF('other')))")
one("call_function", "F.call_function('abs', lit(-3))", "F.call_function('no_such_function', lit(-3))", "F.call_function('abs')", "F.call_function('coalesce', lit(None), col('id'))")
numbers("col", "F.col('i')", "F.col('nothing')", "F.col('*')", "F.col('I')", "F.col('`i`') + 1")
nested("col", "F.col('r.x')", "F.col('r.*')", "F.col('m')['a']", "F.col('a')[0]", "F.col('r.nothing')")
numbers("column", "F.column('l')", "F.column('nothing')", "F.column('n') * 2")
one(
    "lit",
    "F.lit(1)", "F.lit(2**40)", "F.lit(1.5)", "F.lit('text')", "F.lit(None)", "F.lit(True)", "F.lit(b'ab')", "F.lit(Decimal('1.50'))",
    "F.lit(datetime.date(2024, 2, 29))", "F.lit(datetime.datetime(2024, 2, 29, 1, 2, 3))", "F.lit(datetime.timedelta(days=1, seconds=2))",
    "F.lit([1, 2, 3])", "F.lit(['a', None])", "F.lit(float('nan'))", "F.lit(-0.0)", "F.lit(col('id'))", "F.lit({'a': 1})",
)  # fmt: skip
numbers("expr", "F.expr('i + l')", "F.expr('i as name')", "F.expr('i +')", "F.expr('nothing + 1')", "F.expr('case when i > 0 then d else l end')", "F.expr('*')")

numbers(
    "coalesce",
    "F.coalesce('i', 'l')", "F.coalesce('i', lit(0))", "F.coalesce(lit(None), 'n', 'w')", "F.coalesce('i', 's')", "F.coalesce('i', lit('x'))",
    "F.coalesce('t', 'i')", "F.coalesce('d', 'f', 'i')", "F.coalesce()", "F.coalesce(lit(None))", "F.coalesce('y', 'h')",
)  # fmt: skip
numbers("coalesce", "F.coalesce('i', 's')", "F.coalesce('n', lit('x'))", ansi=False)
nested("coalesce", "F.coalesce('a', F.array(lit(1)))", "F.coalesce('m', F.create_map())", "F.coalesce('a', 's')")
numbers("ifnull", "F.ifnull('i', lit(0))", "F.ifnull('s', 'd')", "F.ifnull('t', lit(True))", "F.ifnull('i', 't')")
numbers("nvl", "F.nvl('i', 'l')", "F.nvl('n', lit(1.5))", "F.nvl(lit(None), lit(None))", "F.nvl('t', 'i')")
numbers("nvl2", "F.nvl2('i', 'l', 'd')", "F.nvl2('s', lit('has'), lit('none'))", "F.nvl2('i', 't', 'd')", "F.nvl2(lit(None), lit(1), lit('2'))")
numbers("nanvl", "F.nanvl('d', 'f')", "F.nanvl('f', lit(0.0))", "F.nanvl('d', 'i')", "F.nanvl('d', lit(None))", "F.nanvl('f', 'd')", "F.nanvl('s', 't')")
numbers("nullif", "F.nullif('i', lit(0))", "F.nullif('i', 'z')", "F.nullif('s', lit('12'))", "F.nullif('i', 's')", "F.nullif('d', 'd')", "F.nullif('i', 't')")
numbers("nullifzero", "F.nullifzero('i')", "F.nullifzero('n')", "F.nullifzero('d')", "F.nullifzero('s')", "F.nullifzero('t')")
numbers("zeroifnull", "F.zeroifnull('i')", "F.zeroifnull('n')", "F.zeroifnull('d')", "F.zeroifnull('s')", "F.zeroifnull('t')")
numbers(
    "when",
    "F.when(col('i') > 0, 'plus').when(col('i') < 0, 'minus').otherwise('zero')", "F.when(col('i') > 0, col('l'))", "F.when(col('t'), 1).otherwise(2.5)",
    "F.when(col('i'), 1)", "F.when(lit(None), 1).otherwise(2)", "F.when(col('t'), 'x').otherwise(1)", "F.when(col('i') == 0, 1 / col('i')).otherwise(0)",
    "F.when(col('i') != 0, lit(1) / col('i')).otherwise(0)", "F.when(col('t'), col('n')).otherwise(col('w'))", "F.when(col('t'), col('t')).otherwise(1)",
)  # fmt: skip

numbers("equal_null", "F.equal_null('i', 'z')", "F.equal_null('i', lit(None))", "F.equal_null('d', 'd')", "F.equal_null('s', 'i')", "F.equal_null('i', 't')")
nested("equal_null", "F.equal_null('a', 'b')", "F.equal_null('m', 'm')", "F.equal_null('r', 'r')")
texts(
    "ilike",
    "F.ilike('a', lit('%WORLD'))", "F.ilike('a', 'b')", "F.ilike('a', lit('a_b/_c'), lit('/'))", "F.ilike('a', lit('x\\\\'))", "F.ilike('n', lit('1%'))",
    "F.ilike('a', lit(None))",
)  # fmt: skip
texts(
    "like",
    "F.like('a', lit('%World'))", "F.like('a', 'b')", "F.like('a', lit('a_b_c'))", "F.like('a', lit('a/_b'), lit('/'))", "F.like('a', lit('\\\\a%'))",
    "F.like('a', lit('%\\\\'))", "F.like('n', lit('1%'))", "F.like('x', lit('a%'))", "F.like('a', lit('%'), lit('ab'))", "F.like('a', lit(''))",
)  # fmt: skip
numbers("isnan", "F.isnan('d')", "F.isnan('f')", "F.isnan('i')", "F.isnan('s')", "F.isnan('t')", "F.isnan(lit(None))")
numbers("isnotnull", "F.isnotnull('i')", "F.isnotnull('d')", "F.isnotnull(lit(None))", "F.isnotnull(lit(1))")
numbers("isnull", "F.isnull('i')", "F.isnull('s')", "F.isnull(lit(None))", "F.isnull(lit(1))")
for name in ("regexp", "regexp_like", "rlike"):
    texts(
        name,
        f"F.{name}('a', lit('^[A-Z].*d$'))", f"F.{name}('a', 'p')", f"F.{name}('a', lit('('))", f"F.{name}('a', lit(None))", f"F.{name}('n', lit('1+'))",
        f"F.{name}('a', lit('(?i)HELLO'))", f"F.{name}('x', lit('a'))", f"F.{name}('a', lit('\\\\p{{IsHan}}'))",
    )  # fmt: skip

for name in ("asc", "asc_nulls_first", "asc_nulls_last", "desc", "desc_nulls_first", "desc_nulls_last"):
    numbers(name, *[f"df.orderBy(F.{name}('{column}')).select('{column}', 'i')" for column in "idsnt"], f"F.{name}('i')")
    nested(name, f"df.orderBy(F.{name}('a')).select('a')", f"df.orderBy(F.{name}('m')).select('m')", f"df.orderBy(F.{name}('r')).select('r')")
