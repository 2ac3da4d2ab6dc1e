"""Aggregate and window functions."""

from catalogue import on

every, grouped, numbers, nested, times, one = on("sales"), on("sales", by="g"), on("numbers"), on("nested"), on("times"), on("one")
clock = on("times", conf={"spark.sql.timeType.enabled": "true"})


def both(name, *texts, **settings):
    """Over all rows, and by group."""
    every(name, *texts, **settings)
    grouped(name, *texts, **settings)


for name in ("any_value", "first", "first_value", "last", "last_value"):
    ignoring = "True"
    both(name, f"F.{name}('i')", f"F.{name}('s')", f"F.{name}('s', {ignoring})", f"F.{name}('i', False)")
    every(name, f"F.{name}(lit(None))", f"F.{name}(lit(1))", f"F.{name}(F.array('i'))")
    one(name, f"df.filter('id > 1').select(F.{name}('id'))")
both("approx_count_distinct", "F.approx_count_distinct('i')", "F.approx_count_distinct('s')", "F.approx_count_distinct('s', 0.1)")
every("approx_count_distinct", "F.approx_count_distinct('i', 0.5)", "F.approx_count_distinct(lit(None))", "F.approx_count_distinct(F.array('i'))", "spark.range(1000).select(F.approx_count_distinct('id'), F.approx_count_distinct('id', 0.01))")
for name in ("approx_percentile", "percentile_approx"):
    both(name, f"F.{name}('i', 0.5)", f"F.{name}('d', [0.25, 0.75])", f"F.{name}('n', 0.5, 100)")
    every(name, f"F.{name}('i', 1.5)", f"F.{name}('i', lit(None))", f"F.{name}('s', 0.5)", f"F.{name}('i', 0.5, 0)", f"F.{name}('h', 0.1)", f"F.{name}('i', col('d'))", f"F.{name}('t', 0.5)", f"spark.range(10000).select(F.{name}('id', 0.9, lit(10)))", f"spark.range(10000).select(F.{name}('id', (0.1, 0.5), 1000))")
    times(name, f"F.{name}('ts', 0.5)", f"F.{name}('d', 0.5)")
for name in ("array_agg", "collect_list", "collect_set"):
    sort = "F.sort_array(" if name == "collect_set" else "("
    both(name, f"{sort}F.{name}('i'))", f"{sort}F.{name}('s'))", f"F.{name}(lit(1))")
    every(name, f"F.{name}(lit(None))", f"{sort}F.{name}(F.struct('i')))", f"{sort}F.{name}(F.array('i')))", f"F.{name}(F.create_map('i', 'd'))")
    one(name, f"df.filter('id > 1').select(F.{name}('id'))")
for name in ("avg", "mean", "sum", "try_avg", "try_sum"):
    both(name, f"F.{name}('i')", f"F.{name}('d')", f"F.{name}('n')", f"F.{name}('h')", f"F.{name}('f')", f"F.{name}('l')")
    every(name, f"F.{name}(lit('1.5'))", f"F.{name}('t')", f"F.{name}(lit(None))", f"F.{name}('s')", f"F.{name}(lit(9223372036854775807))", f"F.{name}(lit(Decimal('99999999999999999999999999999999999999')))", f"F.{name}(E(\"make_dt_interval(i)\"))", f"F.{name}(E('make_ym_interval(0, i)'))", f"F.{name}('b')")
    every(name, f"F.{name}('s')", f"F.{name}(lit(9223372036854775807))", f"F.{name}(lit(Decimal('99999999999999999999999999999999999999')))", ansi=False)
    one(name, f"df.filter('id > 1').select(F.{name}('id'))")
for name in ("bit_and", "bit_or", "bit_xor"):
    both(name, f"F.{name}('i')", f"F.{name}('l')", f"F.{name}('h')")
    every(name, f"F.{name}('d')", f"F.{name}('t')", f"F.{name}(lit(None))", f"F.{name}(lit('3'))")
    one(name, f"df.filter('id > 1').select(F.{name}('id'))")
both("bitmap_construct_agg", "F.hex(F.substring(F.bitmap_construct_agg(F.bitmap_bit_position('q')), 1, 4))", "F.length(F.bitmap_construct_agg('q'))")
every("bitmap_construct_agg", "F.bitmap_construct_agg(lit(40000))", "F.bitmap_construct_agg('s')", "F.hex(F.substring(F.bitmap_construct_agg(lit(None).cast('bigint')), 1, 2))", "F.bitmap_construct_agg(lit(-1))")
for name in ("bitmap_and_agg", "bitmap_or_agg"):
    both(name, f"F.hex(F.substring(F.{name}('b'), 1, 4))", f"F.length(F.{name}('b'))")
    every(name, f"F.{name}('s')", f"F.hex(F.substring(F.{name}(lit(None).cast('binary')), 1, 2))", f"F.bitmap_count(F.{name}('b'))")
for name in ("bool_and", "bool_or", "every", "some"):
    both(name, f"F.{name}('t')", f"F.{name}(col('i') > 2)")
    every(name, f"F.{name}('i')", f"F.{name}(lit(None))", f"F.{name}(lit('true'))")
for name in ("corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"):
    both(name, f"F.{name}('d', 'i')", f"F.{name}('q', 'n')", f"F.{name}('f', 'f')")
    every(name, f"F.{name}('s', 'i')", f"F.{name}('d', lit(None))", f"F.{name}('d', lit(1))", f"F.{name}(lit('1'), 'd')")
    one(name, f"df.filter('id > 1').select(F.{name}('id', 'id'))")
both("count", "F.count('i')", "F.count('*')", "F.count(lit(1))", "F.count(lit(None))")
every("count", "F.count(F.array('i'))", "F.expr('count(i, s)')", "F.expr('count(distinct i, s)')", "F.expr('count()')", "F.expr('count(sales.*)')")
both("count_distinct", "F.count_distinct('s')", "F.count_distinct('s', 'q')", "F.count_distinct(lit(None))")
every("count_distinct", "F.count_distinct('*')", "F.count_distinct(F.array('i'))", "F.count_distinct(F.create_map('i', 'd'))", "F.count_distinct('f')")
both("count_if", "F.count_if(col('i') > 2)", "F.count_if('t')")
every("count_if", "F.count_if('i')", "F.count_if(lit(None))", "F.count_if(lit('true'))")
both("count_min_sketch", "F.hex(F.count_min_sketch('i', 0.5, 0.5, 1))", "F.hex(F.count_min_sketch('s', 0.9, 0.2, 7))")
every("count_min_sketch", "F.count_min_sketch('i', 0.0, 0.5, 1)", "F.count_min_sketch('i', 0.5, 1.0, 1)", "F.count_min_sketch('d', 0.5, 0.5, 1)", "F.hex(F.count_min_sketch('b', 0.5, 0.5, 1))", "F.hex(F.count_min_sketch(lit(None).cast('int'), 0.5, 0.5, 1))", "F.count_min_sketch('i', col('d'), 0.5, 1)", "F.hex(F.count_min_sketch('l', lit(0.1), lit(0.95), lit(42)))")
every("grouping", "df.cube('g').agg(F.grouping('g'), F.sum('i')).orderBy('g', F.grouping('g'))", "df.rollup('g', 'q').agg(F.grouping('q')).orderBy('g', 'q', 'grouping(q)')", "df.groupBy('g').agg(F.grouping('g'))", "F.grouping('g')", "df.cube('g').agg(F.grouping('q'))")
every("grouping_id", "df.cube('g', 'q').agg(F.grouping_id('g', 'q').alias('x'), F.count('*')).orderBy('g', 'q', 'x')", "df.rollup('g').agg(F.grouping_id()).orderBy('g', 'grouping_id()')", "df.groupBy('g').agg(F.grouping_id('g'))", "df.cube('g', 'q').agg(F.grouping_id('q', 'g'))", "df.cube('g', 'q').agg(F.grouping_id('g'))")
both("histogram_numeric", "F.histogram_numeric('i', lit(3))", "F.histogram_numeric('d', lit(5))")
every("histogram_numeric", "F.histogram_numeric('n', lit(4))", "F.histogram_numeric('i', lit(1))", "F.histogram_numeric('s', lit(3))", "F.histogram_numeric('i', lit(None))", "F.histogram_numeric('i', col('q'))", "F.histogram_numeric(lit(None), lit(3))", "spark.range(100).select(F.histogram_numeric('id', lit(5)))")
times("histogram_numeric", "F.histogram_numeric('d', lit(2))", "F.histogram_numeric('ts', lit(2))")
for name in ("kurtosis", "skewness", "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"):
    both(name, f"F.{name}('i')", f"F.{name}('d')", f"F.{name}('n')")
    every(name, f"F.{name}('s')", f"F.{name}(lit(None))", f"F.{name}(lit(1))", f"F.{name}(lit('2'))", f"F.{name}('t')")
    one(name, f"df.select(F.{name}('id'))", f"df.filter('id > 1').select(F.{name}('id'))")
for name in ("listagg", "string_agg", "listagg_distinct", "string_agg_distinct"):
    both(name, f"F.{name}('s')", f"F.{name}('s', ',')")
    every(name, f"F.{name}('i', '-')", f"F.{name}('b')", f"F.{name}('b', b'|')", f"F.{name}('s', lit(None))", f"F.{name}('s', col('g'))", f"F.{name}(lit(None))", f"F.{name}('b', ',')", f"F.{name}(F.array('i'))", f"F.{name}('s', lit(1))")
for name in ("listagg", "string_agg"):
    every(name, f"F.expr(\"{name}(s, ',') within group (order by s desc)\")", f"F.expr(\"{name}(distinct s, ',') within group (order by s)\")", f"F.expr(\"{name}(s, ',') within group (order by i desc, s)\")", f"F.expr(\"{name}(distinct s, ',') within group (order by i)\")")
for name in ("max", "min"):
    both(name, f"F.{name}('i')", f"F.{name}('s')", f"F.{name}('n')", f"F.{name}('t')")
    every(name, f"F.{name}('d')", f"F.{name}('b')", f"F.{name}(F.struct('i', 's'))", f"F.{name}(F.array('i'))", f"F.{name}(lit(None))", f"F.{name}(F.create_map('q', 'd'))")
    times(name, f"F.{name}('ts')", f"F.{name}('d')", f"F.{name}('n')")
    clock(name, f"F.{name}(F.to_time('c'))")
    numbers(name, f"F.{name}('d')", f"F.{name}('f')")
for name in ("max_by", "min_by"):
    both(name, f"F.{name}('s', 'i')", f"F.{name}('i', 'd')", f"F.{name}('s', 'i', 2)")
    every(name, f"F.{name}('s', F.struct('q', 'i'))", f"F.{name}('s', F.create_map('q', 'i'))", f"F.{name}('s', lit(None))", f"F.{name}('s', 'i', 0)", f"F.{name}('s', 'i', 100)", f"F.{name}('s', 'q')", f"F.{name}(F.array('i'), 'i')")
both("median", "F.median('i')", "F.median('d')", "F.median('n')")
every("median", "F.median('s')", "F.median(lit(None))", "F.median(lit('1'))", "F.median(E('make_dt_interval(i)'))", "F.median(E('make_ym_interval(0, i)'))", "F.median('t')")
both("mode", "F.mode('q', True)", "F.mode(F.when(col('t'), 'x').otherwise('y'), True)")
every("mode", "F.mode('b', True)", "F.mode('s', True)", "F.mode(lit(None))", "F.mode(F.create_map('i', 'd'))", "F.expr('mode() within group (order by q)')", "F.expr('mode() within group (order by q desc)')", "F.mode('h', True)")
both("percentile", "F.percentile('i', 0.5)", "F.percentile('d', [0.25, 0.75])", "F.percentile('i', 0.5, col('q'))")
every("percentile", "F.percentile('i', 1.5)", "F.percentile('s', 0.5)", "F.percentile('i', lit(None))", "F.percentile('n', 0.1)", "F.percentile('i', 0.5, lit(-1))", "F.percentile('i', col('d'))", "F.percentile('i', 0.3, lit(2))", "F.percentile(E('make_dt_interval(i)'), 0.5)", "F.expr('percentile_cont(0.3) within group (order by i)')", "F.expr('percentile_disc(0.3) within group (order by i desc)')", "F.percentile('t', 0.5)")
both("product", "F.product('i')", "F.product('f')")
every("product", "F.product('s')", "F.product(lit(None))", "F.product(lit('2'))", "F.product('n')")
both("sum_distinct", "F.sum_distinct('q')", "F.sum_distinct('n')", "F.sum_distinct('d')")
every("sum_distinct", "F.sum_distinct('s')", "F.sum_distinct(lit(None))", "F.sum_distinct(lit('2'))", "F.sum_distinct('t')")

W = "W.partitionBy('g').orderBy('q')"
A = "W.orderBy('q', 'i')"
for name in ("cume_dist", "dense_rank", "percent_rank", "rank", "row_number"):
    every(name, f"('g', 'q', F.{name}().over({W}))", f"('q', 'i', F.{name}().over({A}))", f"F.{name}()", f"F.{name}().over(W.partitionBy('g'))", f"F.{name}().over(W.orderBy('q').rowsBetween(-1, 0))", f"('s', F.{name}().over(W.orderBy(F.desc_nulls_last('s'))))")
for name in ("lag", "lead"):
    every(name, f"('g', 'q', F.{name}('i').over({W}))", f"F.{name}('i', 2, 0).over({A})", f"F.{name}('s', -1).over({A})", f"F.{name}('i')", f"F.{name}('i', 0).over({A})", f"F.{name}('i', 1, 'x').over({A})", f"F.expr('{name}(i, 1) ignore nulls over (order by q, i)')", f"F.{name}('d', 1, lit(1)).over({A})", f"F.{name}('i', 100, -1).over({A})", f"F.{name}('i').over(W.partitionBy('g'))")
every("nth_value", f"('g', 'q', F.nth_value('i', 2).over({W}))", f"F.nth_value('i', 2, True).over({A})", f"F.nth_value('s', 1).over({A})", f"F.nth_value('i', 0).over({A})", "F.nth_value('i', 1)", f"F.nth_value('i', 3).over({A}.rowsBetween(-1, 1))", f"F.nth_value('i', 99).over({A})")
every("ntile", f"('g', 'q', F.ntile(2).over({W}))", f"F.ntile(3).over({A})", f"F.ntile(0).over({A})", f"F.ntile(100).over({A})", "F.ntile(2)", f"F.ntile(-1).over({A})")
for name in ("sum", "avg", "max", "min", "count", "first", "last", "collect_list"):
    every(name, f"F.{name}('i').over({W})", f"F.{name}('i').over({A}.rowsBetween(-1, 1))", f"F.{name}('i').over({A}.rangeBetween(-1, 0))" if name == "x" else f"F.{name}('i').over(W.orderBy('q').rangeBetween(-1, 1))", f"F.{name}('i').over(W.partitionBy('g'))")
