"""Functions of users in Python: udf, pandas_udf, arrow_udf, mapInPandas, applyInPandas, table functions. Needs Python workers on the server."""

import datetime
import decimal
from typing import Iterator, Tuple

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf, pandas_udf, udf, udtf
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType
from pyspark.sql.window import Window

KV = "k string, v long"


# ---- local helpers ------------------------------------------------------------------------------
def _kv(t, *rows):
    return t.table(KV, *(rows or (("a", 1), ("a", 2), ("b", 10), ("b", None), (None, 7))))


def _refused(t, make, what):
    """The frame is refused when it is analyzed."""
    t.fails(lambda: make().schema, what)


def _dies(t, make, what):
    """The frame fails when it runs; also says whether the client's own words are in the message."""
    error = t.fails(lambda: make().collect(), what)
    t.note(f"{what}: words", "the reason" in str(error))


def _each(t, rows, schema, function, *types, arrow=True):
    """The same function under several return types."""
    df = t.table(schema, *rows)
    for kind in types:
        try:
            t.rows(df.select(udf(function, kind, useArrow=arrow)("x").alias("y")), f"{kind}")
        except Exception as error:  # noqa: BLE001 - recorded as it is
            t.fails(lambda: (_ for _ in ()).throw(error), f"{kind}")


# ---- scalar functions ---------------------------------------------------------------------------
def udf_over_every_type_of_argument(t):
    df = t.spark.sql("""SELECT * FROM VALUES
        (true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 1.20BD, 'x', X'0102', DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05.678', TIMESTAMP_NTZ'2024-01-02 03:04:05',
         array(1, null), map('a', 1), named_struct('p', 1, 'q', 'z'), interval '1 02:03:04.5' day to second, null),
        (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)
        AS v(b, i1, i2, i4, i8, f4, f8, dec, s, bin, d, ts, ntz, arr, m, st, iv, n)""")
    show = udf(lambda x: f"{type(x).__name__}: {x!r}", "string")
    t.rows(df.select(*[show(c).alias(c) for c in df.columns if c != "n"]), "arrow")
    show = udf(lambda x: f"{type(x).__name__}: {x!r}", "string", useArrow=False)
    t.rows(df.select(*[show(c).alias(c) for c in df.columns if c != "n"]), "pickled")


def udf_of_every_type_of_result(t):
    df = t.table("i int", (0,), (1,))
    values = {
        "boolean": True, "tinyint": 1, "smallint": 2, "int": 3, "bigint": 1 << 40, "float": 1.5, "double": 2.25, "decimal(10,2)": decimal.Decimal("1.20"),
        "string": "x", "binary": b"\x01", "date": datetime.date(2024, 1, 2), "timestamp": datetime.datetime(2024, 1, 2, 3, 4, 5),
        "timestamp_ntz": datetime.datetime(2024, 1, 2, 3, 4, 5), "array<int>": [1, None], "map<string,int>": {"a": 1, "b": None},
        "struct<p:int,q:string>": (1, "z"), "interval day to second": datetime.timedelta(days=1, seconds=2), "array<struct<a:int,b:array<string>>>": [(1, ["x"]), None],
    }
    for arrow in (True, False):
        for kind, value in values.items():
            f = udf(lambda i, value=value: None if i else value, kind, useArrow=arrow)
            t.rows(df.select(f("i").alias("y")), f"{kind} {arrow}")
        t.schema(df.select(udf(lambda i: (1, {}), "struct<p:int not null,q:map<string,array<int>>>", useArrow=arrow)("i").alias("y")), f"schema {arrow}")


def udf_result_of_another_type_carried_by_arrow(t):
    for function, name in ((lambda x: x, "itself"), (lambda x: None if x is None else str(x), "text"), (lambda x: None if x is None else x + 0.5, "float"),
                           (lambda x: None if x is None else x > 1, "boolean")):
        df = t.table("x long", (1,), (2,), (None,))
        for kind in ("boolean", "tinyint", "int", "bigint", "float", "double", "decimal(5,1)", "string", "binary", "date", "timestamp", "array<long>"):
            f = udf(function, kind, useArrow=True)
            try:
                t.rows(df.select(f("x").alias("y")), f"{name} as {kind}")
            except Exception as error:  # noqa: BLE001
                t.note(f"{name} as {kind}", getattr(error, "getCondition", lambda: None)() or type(error).__name__)


def udf_result_of_another_type_pickled(t):
    for function, name in ((lambda x: x, "itself"), (lambda x: None if x is None else str(x), "text"), (lambda x: None if x is None else x + 0.5, "float"),
                           (lambda x: None if x is None else x > 1, "boolean"), (lambda x: None if x is None else [x], "list"), (lambda x: None if x is None else {"k": x}, "dict"),
                           (lambda x: None if x is None else decimal.Decimal(x), "decimal"), (lambda x: None if x is None else b"ab", "bytes")):
        df = t.table("x long", (1,), (2,), (None,))
        for kind in ("boolean", "tinyint", "int", "bigint", "float", "double", "decimal(5,1)", "string", "binary", "array<long>", "map<string,long>"):
            f = udf(function, kind, useArrow=False)
            try:
                t.rows(df.select(f("x").alias("y")), f"{name} as {kind}")
            except Exception as error:  # noqa: BLE001
                t.note(f"{name} as {kind}", getattr(error, "getCondition", lambda: None)() or type(error).__name__)


def udf_results_at_the_edge_of_their_types(t):
    df = t.table("x long", (127,), (128,), (32768,), (1 << 31,), (-(1 << 31),))
    for arrow in (True, False):
        for kind in ("tinyint", "smallint", "int", "float", "decimal(3,0)"):
            f = udf(lambda x: decimal.Decimal(x) if kind.startswith("dec") else x, kind, useArrow=arrow)
            try:
                t.rows(df.select(f("x").alias("y")), f"{kind} {arrow}")
            except Exception as error:  # noqa: BLE001
                t.note(f"{kind} {arrow}", getattr(error, "getCondition", lambda: None)() or type(error).__name__)
        big = udf(lambda x: x * (1 << 40), "bigint", useArrow=arrow)
        try:
            t.rows(df.select(big("x").alias("y")), f"too long {arrow}")
        except Exception as error:  # noqa: BLE001
            t.note(f"too long {arrow}", getattr(error, "getCondition", lambda: None)() or type(error).__name__)


def udf_structs_as_rows_dicts_and_tuples(t):
    df = t.table("x long", (1,), (2,), (3,))
    for arrow in (True, False):
        for what, make in (("tuple", lambda x: (x, "t")), ("list", lambda x: [x, "l"]), ("dict", lambda x: {"b": "d", "a": x}), ("row", lambda x: Row(a=x, b="r")),
                           ("row in another order", lambda x: Row(b="r", a=x)), ("dict without a field", lambda x: {"a": x})):
            f = udf(make, "a long, b string", useArrow=arrow)
            try:
                t.rows(df.select(f("x").alias("y")).select("y.*"), f"{what} {arrow}")
            except Exception as error:  # noqa: BLE001
                t.note(f"{what} {arrow}", getattr(error, "getCondition", lambda: None)() or type(error).__name__)


def udf_of_several_columns_names_and_constants(t):
    f = udf(lambda a, b, c=3: f"{a}-{b}-{c}", "string")
    df = _kv(t)
    t.rows(df.select(f("k", "v"), f("v", F.lit(2), F.lit(None)), f("k", b="v"), f(b=F.lit("b"), a="k")))
    t.schema(df.select(f("k", "v"), f("v", F.lit(2)), f("k", b="v"), udf(lambda x: x)("k"), udf(len, "int")(F.upper("k"))))


def udf_without_arguments(t):
    t.rows(t.spark.range(3).select("id", udf(lambda: 7, "int")().alias("y"), udf(lambda: 8, "int", useArrow=False)().alias("z")))


def udf_chained_and_nested(t):
    plus, twice, both = udf(lambda x: x + 1, "long"), udf(lambda x: x * 2, "long"), udf(lambda a, b: a * 100 + b, "long")
    old = udf(lambda x: x + 1, "long", useArrow=False)
    df = t.table("x long", (1,), (2,))
    t.rows(df.select(plus(twice("x")), twice(plus(plus("x"))), both(plus("x"), twice("x")), both(plus(twice("x")), F.col("x")), plus(F.abs(twice("x")) + 1), plus(old("x")), old(plus(old("x")))))


def udf_mixed_with_pandas_udf(t):
    plus = udf(lambda x: x + 1, "long")

    @pandas_udf("long")
    def twice(s: pd.Series) -> pd.Series:
        return s * 2

    df = t.table("x long", (1,), (2,))
    t.rows(df.select(plus(twice("x")), twice(plus("x")), (plus("x") + twice("x")).alias("sum"), plus("x"), twice("x")))


def udf_in_filter_sort_group_and_join(t):
    odd, name = udf(lambda v: v is not None and v % 2 == 1, "boolean"), udf(lambda k: f"<{k}>", "string")
    df = _kv(t)
    t.rows(df.filter(odd("v")), "filter")
    t.rows(df.filter(odd("v") & (F.col("k") == "a")), "filter with another")
    t.rows(df.filter(F.col("v").isNotNull() & udf(lambda v: v + 1 > 2, "boolean")("v")), "guarded by another condition")
    t.rows(df.withColumn("n", udf(lambda v: v + 1, "long")("v")).filter("v is not null"), "filter above")
    t.note("sort", [r.k for r in df.sort(udf(lambda v: -(v or 0), "long")("v")).collect()])
    t.rows(df.groupBy(name("k").alias("n")).agg(F.sum("v").alias("s"), F.max(udf(lambda v: v or 0, "long")("v")).alias("m")), "group")
    t.rows(df.groupBy("k").agg(F.sum("v").alias("s")).select(name("k"), udf(lambda s: s + 1, "long")("s")), "above a group")
    other = t.table("n string, w int", ("<a>", 1), ("<None>", 2))
    t.rows(df.join(other, name(df.k) == other.n), "join by a function of one side")
    t.rows(df.join(other, udf(lambda k, n: n == f"<{k}>", "boolean")(df.k, other.n)), "join by a function of both sides")
    t.rows(df.join(other, name(df.k) == other.n, "left"), "left join by a function of one side")
    _refused_or_dies(t, lambda: df.join(other, udf(lambda k, n: n == k, "boolean")(df.k, other.n), "left"), "left join by a function of both sides")


def _refused_or_dies(t, make, what):
    t.fails(lambda: make().collect(), what)


def udf_in_case_and_coalesce_runs_for_every_row(t):
    f = udf(lambda v: 10 // v, "long")
    df = t.table("v long", (1,), (2,))
    t.rows(df.select(F.when(F.col("v") > 1, f("v")).otherwise(-1).alias("y"), F.coalesce(F.lit(5).cast("long"), f("v")).alias("z")))
    _dies(t, lambda: t.table("v long", (0,), (2,)).select(F.when(F.col("v") > 1, f("v")).otherwise(-1).alias("y")), "a branch that is not taken")


def udf_in_lambda_function_is_refused(t):
    f = udf(lambda v: v + 1, "int")
    df = t.spark.sql("SELECT array(1, 2) a")
    _refused_or_dies(t, lambda: df.select(F.transform("a", lambda x: f(x))), "in a lambda")
    t.rows(df.select(F.transform("a", lambda x: x + 1).alias("y"), udf(lambda a: sum(a), "int")(F.transform("a", lambda x: x * 2)).alias("z")))


def udf_exceptions(t):
    def fail(x):
        raise ValueError("the reason")

    df = t.table("x long", (1,))
    _dies(t, lambda: df.select(udf(fail, "long")("x")), "arrow")
    _dies(t, lambda: df.select(udf(fail, "long", useArrow=False)("x")), "pickled")
    _dies(t, lambda: df.select(pandas_udf(lambda s: fail(s), "long")("x")), "pandas")
    _dies(t, lambda: df.filter(udf(fail, "boolean")("x")), "filter")
    _dies(t, lambda: df.select(udf(lambda x: next(iter([])), "long")("x")), "stop iteration")
    _dies(t, lambda: df.select(udf(lambda x: x.nothing, "long")("x")), "no attribute")
    _dies(t, lambda: df.select(udf(lambda x, y: x, "long")("x")), "too few arguments")
    t.rows(df.select(udf(lambda x: x + 1, "long")("x")), "and the next one works")


def udf_that_kills_its_worker(t):
    def die(x):
        import os

        os._exit(3)

    df = t.table("x long", (1,))
    _refused_or_dies(t, lambda: df.select(udf(die, "long")("x")), "exit")
    t.rows(df.select(udf(lambda x: x + 1, "long")("x")), "and the next one works")


def udf_that_is_not_deterministic(t):
    import random

    f = udf(lambda: random.random(), "double").asNondeterministic()
    df = t.spark.range(4).withColumn("r", f())
    t.note("same value twice", [r.same for r in df.select((F.col("r") == F.col("r")).alias("same")).collect()])
    _refused_or_dies(t, lambda: df.groupBy(f()).count(), "as a key")
    t.fails(lambda: t.spark.range(4).agg(F.sum(f())).collect(), "in an aggregate")


def udf_columns_have_names_and_can_be_null(t):
    def named(x):
        return x

    t.schema(t.table("x long", (1,)).select(udf(named, "long")("x"), udf(lambda x: x, "long")("x"), pandas_udf(lambda s: s, "long")("x"), udf(named, "array<int>")(F.col("x") + 1)))
    t.schema(t.spark.range(1).select(udf(lambda: 1, "int")(), F.array(udf(lambda: 1, "int")()).alias("a")))


# ---- pandas and arrow functions -----------------------------------------------------------------
def pandas_udf_kinds(t):
    @pandas_udf("long")
    def plus(s: pd.Series) -> pd.Series:
        return s + 1

    @pandas_udf("long")
    def each(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for s in batches:
            yield s + 10

    @pandas_udf("long")
    def pairs(batches: Iterator[Tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        for a, b in batches:
            yield a * 100 + b

    @pandas_udf("a long, b string")
    def frame(s: pd.Series) -> pd.DataFrame:
        return pd.DataFrame({"a": s, "b": s.astype(str)})

    @pandas_udf("long")
    def of_struct(d: pd.DataFrame) -> pd.Series:
        return d["p"] + d["q"]

    df = t.table("x long, y long", (1, 2), (3, 4))
    t.rows(df.select(plus("x"), each("x"), pairs("x", "y"), frame("x"), of_struct(F.struct(F.col("x").alias("p"), F.col("y").alias("q")))))
    t.rows(df.select(each(plus("x")), plus(each("x"))), "chained")


def pandas_udf_types_and_nulls(t):
    df = t.spark.sql("""SELECT * FROM VALUES (true, 1, 4L, 2.5D, 1.20BD, 'x', X'0102', DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05', array(1, 2)), (null, null, null, null, null, null, null, null, null, null)
        AS v(b, i4, i8, f8, dec, s, bin, d, ts, arr)""")
    for c, kind in df.dtypes:
        t.rows(df.select(pandas_udf(lambda s: s, kind)(c).alias("y")), f"{kind} itself")
        t.rows(df.select(pandas_udf(lambda s: pd.Series([str(s.dtype)] * len(s)), "string")(c).alias("y")), f"{kind} dtype")


def pandas_udf_results_that_do_not_fit(t):
    df = t.table("x long", (1,), (2,))
    _dies(t, lambda: df.select(pandas_udf(lambda s: s.head(1), "long")("x")), "too few")
    _dies(t, lambda: df.select(pandas_udf(lambda s: 7, "long")("x")), "no series")
    _dies(t, lambda: df.select(pandas_udf(lambda s: s.astype(str) + "x", "long")("x")), "text as long")
    _dies(t, lambda: df.select(pandas_udf(lambda s: pd.DataFrame({"b": s}), "a long")("x")), "another name")

    @pandas_udf("long")
    def none(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for _ in batches:
            pass
        return iter([])

    _dies(t, lambda: df.select(none("x")), "nothing")


def pandas_udf_sees_batches_of_the_size_that_is_set(t):
    @pandas_udf("int")
    def size(s: pd.Series) -> pd.Series:
        return pd.Series([len(s)] * len(s))

    df = t.spark.range(0, 25, 1, 1)
    t.rows(df.select(size("id").alias("n")).groupBy("n").count(), "default")
    t.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        t.rows(df.select(size("id").alias("n")).groupBy("n").count(), "ten")
    finally:
        t.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def arrow_udf_kinds(t):
    import pyarrow.compute as pc

    @arrow_udf("long")
    def plus(a: pa.Array) -> pa.Array:
        return pc.add(a, 1)

    @arrow_udf("long")
    def each(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for a in batches:
            yield pc.multiply(a, 2)

    @arrow_udf("double")
    def mean(a: pa.Array) -> float:
        return pc.mean(a).as_py()

    df = _kv(t)
    t.rows(df.select(plus("v"), each("v"), plus(plus("v"))))
    t.rows(df.groupBy("k").agg(mean("v").alias("m")), "grouped")
    t.rows(df.select("k", mean("v").over(Window.partitionBy("k")).alias("m")), "window")


# ---- aggregates ---------------------------------------------------------------------------------
@pandas_udf("double")
def _mean(s: pd.Series) -> float:
    return s.mean()


@pandas_udf("long")
def _count(s: pd.Series) -> int:
    return len(s)


@pandas_udf("double")
def _weighted(v: pd.Series, w: pd.Series) -> float:
    return (v * w).sum() / w.sum()


def grouped_aggregates(t):
    df = _kv(t)
    t.rows(df.groupBy("k").agg(_mean("v"), _count("v").alias("n")), "by key")
    t.rows(df.groupBy("k").agg(_weighted("v", F.lit(2.0)).alias("w"), (_mean("v") + 1).alias("m"), F.upper("k").alias("u")), "in expressions")
    t.rows(df.groupBy(F.col("v") % 2).agg(_count("k").alias("n")), "by an expression")
    t.rows(df.agg(_mean("v").alias("m"), _count("v").alias("n")), "of all")
    t.rows(df.groupBy("k").agg(_mean("v").alias("m")).filter("m > 2").select("m"), "filtered")
    t.rows(df.filter("v > 100").groupBy("k").agg(_count("v").alias("n")), "of nothing by key")
    t.rows(df.filter("v > 100").agg(_count("v").alias("n")), "of nothing")
    t.rows(df.groupBy("k").agg(_count(udf(lambda v: v or 0, "long")("v")).alias("n"), udf(lambda x: x + 1, "double")(_mean("v")).alias("m")), "of and in other functions")
    t.schema(df.groupBy("k").agg(_mean("v"), _weighted("v", F.lit(2.0))), "schema")


def grouped_aggregates_over_batches(t):
    @pandas_udf("long")
    def total(batches: Iterator[pd.Series]) -> int:
        return sum(int(s.sum()) for s in batches)

    t.rows(_kv(t).groupBy("k").agg(total("v").alias("s")))


def grouped_aggregates_mixed_with_others_are_refused(t):
    df = _kv(t)
    _refused_or_dies(t, lambda: df.groupBy("k").agg(_mean("v"), F.sum("v")), "with sum")
    _refused_or_dies(t, lambda: df.select(_mean("v"), "k"), "without a group")
    _refused_or_dies(t, lambda: df.groupBy("k").agg(pandas_udf(lambda s: s, "long")("v")), "a scalar function of a column that is no key")
    _refused_or_dies(t, lambda: df.filter(_mean("v") > 1), "in a filter")
    _refused_or_dies(t, lambda: df.groupBy("k").pivot("v").agg(_mean("v")), "in a pivot")
    _refused_or_dies(t, lambda: df.rollup("k").agg(_count("v").alias("n")), "in a rollup")


def window_aggregates(t):
    df = t.table("k string, o int, v long", ("a", 1, 1), ("a", 2, 2), ("a", 2, 4), ("a", 3, 8), ("b", 1, None), ("b", 2, 5))
    w = Window.partitionBy("k").orderBy("o")
    t.rows(df.select("*", _mean("v").over(Window.partitionBy("k")).alias("m"), _count("v").over(Window.partitionBy()).alias("n")), "unbounded")
    t.rows(df.select("*", _mean("v").over(w).alias("m")), "to the current row")
    t.rows(df.select("*", _count("v").over(w.rowsBetween(-1, 0)).alias("n"), _mean("v").over(w.rowsBetween(Window.unboundedPreceding, 1)).alias("m")), "rows")
    t.rows(df.select("*", _count("v").over(w.rangeBetween(-1, 0)).alias("n"), _count("v").over(w.rangeBetween(0, Window.unboundedFollowing)).alias("m")), "range")
    t.rows(df.select("*", _mean("v").over(w).alias("m"), F.sum("v").over(w).alias("s"), _weighted("v", "o").over(Window.partitionBy("k")).alias("w")), "with others")


# ---- frames to frames ---------------------------------------------------------------------------
def map_in_pandas(t):
    def keep(frames):
        for frame in frames:
            yield frame[frame.v > 1]

    def more(frames):
        for frame in frames:
            yield pd.DataFrame({"n": [len(frame)], "t": ["first"]})
            yield pd.DataFrame({"t": ["second"], "n": [0]})

    df = _kv(t).coalesce(1)
    t.rows(df.mapInPandas(keep, KV), "keep")
    t.rows(df.mapInPandas(more, "n int, t string"), "other columns, by name")
    t.rows(df.mapInPandas(lambda frames: iter([]), "n int"), "nothing")
    t.rows(df.filter("v > 100").mapInPandas(keep, KV), "of nothing")
    t.rows(df.select("k", F.struct("v", F.lit(1).alias("w")).alias("s")).mapInPandas(lambda frames: (pd.DataFrame({"x": [str(type(f.iloc[0]["s"]).__name__)]}) for f in frames), "x string"), "struct")
    t.schema(df.mapInPandas(keep, "k string, v long not null"))
    _dies(t, lambda: df.mapInPandas(lambda frames: (f.rename(columns={"v": "w"}) for f in frames), KV), "another name")
    _dies(t, lambda: df.mapInPandas(lambda frames: (f[["k"]] for f in frames), KV), "a column less")
    _dies(t, lambda: df.mapInPandas(lambda frames: 7, KV), "no iterator")
    _dies(t, lambda: df.mapInPandas(lambda frames: iter([7]), KV), "no frame")
    t.rows(df.mapInPandas(lambda frames: (pd.DataFrame({0: f.k, 1: f.v}) for f in frames), KV), "by position")


def map_in_arrow(t):
    def keep(batches):
        for batch in batches:
            yield batch.slice(0, 1)

    def names(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": pa.array([batch.num_rows], pa.int32())})

    df = _kv(t).coalesce(1)
    t.rows(df.mapInArrow(keep, KV), "first")
    t.rows(df.mapInArrow(names, "n int"), "other columns")
    _refused_or_dies(t, lambda: df.mapInArrow(names, "n long"), "another type")
    _refused_or_dies(t, lambda: df.mapInArrow(lambda batches: iter([7]), "n long"), "no batch")
    _refused_or_dies(t, lambda: df.mapInArrow(names, "m int"), "another name")
    _refused_or_dies(t, lambda: df.mapInArrow(names, "n int, m int"), "a column less")


def apply_in_pandas(t):
    def summary(frame):
        return pd.DataFrame({"k": [frame.k.iloc[0]], "n": [len(frame)], "s": [frame.v.sum()]})

    def with_key(key, frame):
        return pd.DataFrame({"key": [str(key[0])], "n": [len(frame)]})

    def batches(frames):
        for frame in frames:
            yield frame.assign(v=frame.v + 1)

    df = _kv(t)
    t.rows(df.groupBy("k").applyInPandas(summary, "k string, n long, s double"), "by key")
    t.rows(df.groupBy("k").applyInPandas(with_key, "key string, n int"), "with the key")
    t.rows(df.groupBy().applyInPandas(with_key_or_none, "n int"), "all")
    t.rows(df.groupBy("k", (F.col("v") % 2).alias("odd")).applyInPandas(lambda key, f: pd.DataFrame({"a": [str(key)], "c": [",".join(f.columns)]}), "a string, c string"), "by an expression")
    t.rows(df.groupBy("k").applyInPandas(lambda f: pd.DataFrame(), "n int"), "nothing")
    t.rows(df.groupBy("k").applyInPandas(lambda f: pd.DataFrame({0: [1], 1: ["x"]}), "n int, m string"), "by position")
    t.rows(df.filter("v > 100").groupBy("k").applyInPandas(summary, "k string, n long, s double"), "of nothing")
    _dies(t, lambda: df.groupBy("k").applyInPandas(lambda f: f, "k string, w long"), "another name")
    _dies(t, lambda: df.groupBy("k").applyInPandas(lambda f: 7, KV), "no frame")
    _dies(t, lambda: df.groupBy("k").applyInPandas(_fail, KV), "exception")


def with_key_or_none(key, frame):
    return pd.DataFrame({"n": [len(frame) + 100 * len(key)]})


def _fail(*_):
    raise ValueError("the reason")


def apply_in_arrow(t):
    def count(table):
        return pa.table({"n": pa.array([table.num_rows], pa.int64())})

    def with_key(key, table):
        return pa.table({"k": pa.array([key[0].as_py()], pa.string()), "n": pa.array([table.num_rows], pa.int64())})

    df = _kv(t)
    t.rows(df.groupBy("k").applyInArrow(count, "n long"), "count")
    t.rows(df.groupBy("k").applyInArrow(with_key, "k string, n long"), "with the key")
    t.rows(df.groupBy("k").applyInArrow(lambda table: table, KV), "itself")
    _refused_or_dies(t, lambda: df.groupBy("k").applyInArrow(count, "n int"), "another type")
    _refused_or_dies(t, lambda: df.groupBy("k").applyInArrow(count, "m long"), "another name")


def groups_of_special_keys(t):
    df = t.spark.sql("SELECT * FROM VALUES (double('NaN'), 1), (double('NaN'), 2), (0.0D, 3), (-0.0D, 4), (null, 5), (null, 6) AS v(x, i)")
    t.rows(df.groupBy("x").agg(_count("i").alias("n")).select("n"), "aggregate")
    t.rows(df.groupBy("x").applyInPandas(lambda f: pd.DataFrame({"n": [len(f)]}), "n int"), "apply")


def cogrouped_apply(t):
    left = t.table("k string, v long", ("a", 1), ("a", 2), ("b", 3), (None, 9))
    right = t.table("key string, w string", ("a", "x"), ("c", "y"), (None, "z"))

    def sizes(l, r):
        return pd.DataFrame({"l": [len(l)], "r": [len(r)], "c": [",".join(list(l.columns) + list(r.columns))]})

    def keyed(key, l, r):
        return pd.DataFrame({"k": [str(key)], "l": [len(l)], "r": [len(r)]})

    pair = left.groupBy("k").cogroup(right.groupBy("key"))
    t.rows(pair.applyInPandas(sizes, "l int, r int, c string"), "sizes")
    t.rows(pair.applyInPandas(keyed, "k string, l int, r int"), "with the key")
    t.rows(pair.applyInPandas(lambda l, r: pd.merge(l, r, left_on="k", right_on="key"), "k string, v long, key string, w string"), "merged")
    t.rows(pair.applyInArrow(lambda l, r: pa.table({"n": pa.array([l.num_rows * 10 + r.num_rows], pa.int64())}), "n long"), "arrow")
    t.rows(left.groupBy().cogroup(right.groupBy()).applyInPandas(sizes, "l int, r int, c string"), "of all")
    _dies(t, lambda: pair.applyInPandas(_fail, KV), "exception")
    _refused_or_dies(t, lambda: left.groupBy("k").cogroup(right.groupBy("key", "w")).applyInPandas(sizes, "l int, r int, c string"), "another number of keys")


def functions_over_frames_in_a_chain(t):
    df = _kv(t)
    out = df.mapInPandas(lambda fs: (f.assign(v=f.v.fillna(0).astype(int) + 1) for f in fs), KV).groupBy("k").applyInPandas(lambda f: f.head(1)[["k"]].assign(n=len(f)), "k string, n int")
    t.rows(out.withColumn("m", udf(lambda n: n * 2, "int")("n")).filter("m > 2").join(df.groupBy("k").count(), "k"))


# ---- registered functions and SQL ---------------------------------------------------------------
def registered_functions_in_sql(t):
    t.spark.udf.register("py_plus", lambda x: None if x is None else x + 1, "long")
    t.spark.udf.register("py_text", lambda x: x)
    t.spark.udf.register("py_twice", pandas_udf(lambda s: s * 2, "long"))
    t.spark.udf.register("py_mean", _mean)
    t.spark.udf.register("py_named", udf(lambda a, b: a * 100 + b, "long"))
    df = _kv(t)
    df.createOrReplaceTempView("py_kv")
    sql = t.spark.sql
    t.rows(sql("SELECT k, py_plus(v), PY_PLUS(v) + 1, py_twice(v), py_text(v), py_plus(py_plus(v)) FROM py_kv WHERE py_plus(v) > 1 OR v IS NULL"), "select")
    t.schema(sql("SELECT k, py_plus(v), PY_PLUS(v) + 1, py_twice(v), py_text(v) FROM py_kv"), "schema")
    t.rows(sql("SELECT k, py_mean(v) AS m FROM py_kv GROUP BY k HAVING py_mean(v) > 1"), "aggregate")
    t.rows(sql("SELECT k, v, py_mean(v) OVER (PARTITION BY k) AS m FROM py_kv"), "window")
    t.rows(sql("SELECT py_named(1, 2), py_named(b => 1, a => 2), py_named(1, b => 2)"), "named")
    t.rows(df.select(F.expr("py_plus(v)"), F.call_function("py_twice", "v"), F.call_udf("py_plus", "v")), "from a frame")
    t.rows(df.filter("py_plus(v) = 2"), "filter")
    t.note("exists", [t.spark.catalog.functionExists("py_plus"), t.spark.catalog.functionExists("py_nothing")])
    _refused(t, lambda: sql("SELECT py_nothing(v) FROM py_kv"), "unknown")
    _refused_or_dies(t, lambda: sql("SELECT py_plus(DISTINCT v) FROM py_kv"), "distinct")
    t.spark.udf.register("upper", lambda x: f"my {x}", "string")
    try:
        t.rows(sql("SELECT upper('x') AS u"), "over a built-in function")
    finally:
        t.fails(lambda: sql("DROP TEMPORARY FUNCTION upper").collect(), "drop")
        t.rows(sql("SELECT upper('x') AS u"), "after the drop")
    t.spark.catalog.dropTempView("py_kv")


def registered_functions_are_kept_by_name_and_session(t):
    t.spark.udf.register("py_one", lambda: 1, "int")
    t.rows(t.spark.sql("SELECT py_one() AS y"))
    t.spark.udf.register("PY_ONE", lambda: 2, "int")
    t.rows(t.spark.sql("SELECT py_one() AS y"))
    t.schema(t.spark.sql("SELECT py_one()"))


def java_functions_are_refused(t):
    t.fails(lambda: t.spark.udf.registerJavaFunction("j", "org.example.NoSuchFunction", "int"), "function")
    t.fails(lambda: t.spark.udf.registerJavaUDAF("j", "org.example.NoSuchFunction"), "aggregate")


# ---- table functions ----------------------------------------------------------------------------
def udtf_alone(t):
    @udtf(returnType="n int, s string")
    class Count:
        def eval(self, n: int):
            for i in range(n):
                yield i, str(i)

    @udtf(returnType="n int")
    class Constant:
        def eval(self):
            yield (1,)
            yield (2,)

    t.rows(Count(F.lit(3)), "count")
    t.rows(Count(n=F.lit(2)), "by name")
    t.rows(Count(F.lit(0)), "none")
    t.rows(Constant(), "constant")
    t.rows(Count(F.lit(3)).filter("n > 0").select("s"), "filtered")
    t.schema(Count(F.lit(3)))


def udtf_pickled(t):
    @udtf(returnType="n int, s string", useArrow=False)
    class Count:
        def eval(self, n: int):
            for i in range(n):
                yield i, str(i)

    @udtf(returnType="n int", useArrow=True)
    class Arrow:
        def eval(self, n: int):
            for i in range(n):
                yield (i,)

    t.rows(Count(F.lit(3)), "pickled")
    t.rows(Arrow(F.lit(3)), "arrow")


def udtf_in_sql_and_lateral(t):
    @udtf(returnType="w string, n int")
    class Words:
        def eval(self, text: str):
            for i, word in enumerate((text or "").split()):
                yield word, i

    t.spark.udtf.register("py_words", Words)
    t.table("id int, line string", (1, "a b"), (2, ""), (3, None), (4, "c")).createOrReplaceTempView("py_lines")
    sql = t.spark.sql
    t.rows(sql("SELECT * FROM py_words('x y z')"), "alone")
    t.rows(sql("SELECT w FROM py_words('x y z') WHERE n > 0"), "filter")
    t.rows(sql("SELECT id, w, n FROM py_lines, LATERAL py_words(line)"), "lateral")
    t.rows(sql("SELECT id, w, n FROM py_lines LEFT JOIN LATERAL py_words(line)"), "left lateral")
    t.rows(sql("SELECT id, q.a, q.b FROM py_lines JOIN LATERAL py_words(line) AS q(a, b) ON b = id - 1"), "with names and a condition")
    t.rows(sql("SELECT id, a FROM py_lines LATERAL VIEW py_words(line) q AS a, b"), "lateral view")
    t.rows(t.spark.table("py_lines").lateralJoin(Words(F.col("line").outer())).select("id", "w"), "lateral join")
    _refused_or_dies(t, lambda: sql("SELECT * FROM py_nothing('x')"), "unknown")
    t.spark.catalog.dropTempView("py_lines")


def udtf_life_of_an_instance(t):
    @udtf(returnType="what string, n int")
    class Sum:
        def __init__(self):
            self.n = 0

        def eval(self, v):
            self.n += v or 0
            yield "eval", v

        def terminate(self):
            yield "end", self.n

    t.rows(Sum(F.lit(3)), "alone")
    t.table("v int", (1,), (2,)).coalesce(1).createOrReplaceTempView("py_v")
    t.spark.udtf.register("py_sum", Sum)
    t.rows(t.spark.sql("SELECT v, what, n FROM py_v, LATERAL py_sum(v)"), "lateral")
    t.spark.catalog.dropTempView("py_v")


def udtf_results_that_do_not_fit(t):
    def made(body, schema="n int, s string", **options):
        return udtf(type("Made", (), {"eval": body}), returnType=schema, **options)

    for arrow in (True, False):
        _dies(t, lambda: made(lambda self: iter([(1,)]), useArrow=arrow)(), f"a column less {arrow}")
        _dies(t, lambda: made(lambda self: 7, useArrow=arrow)(), f"no iterator {arrow}")
        _dies(t, lambda: made(lambda self: iter([7]), useArrow=arrow)(), f"no row {arrow}")
        _dies(t, lambda: made(lambda self: _fail(), useArrow=arrow)(), f"exception {arrow}")
        _refused_or_dies(t, lambda: made(lambda self: iter([("x", "y")]), useArrow=arrow)(), f"text as int {arrow}")
        t.rows(made(lambda self: None, useArrow=arrow)(), f"none {arrow}")
        t.rows(made(lambda self: iter([(None, None)]), useArrow=arrow)(), f"nulls {arrow}")


def udtf_over_a_table(t):
    @udtf(returnType="n int, c string")
    class Rows:
        def __init__(self):
            self.n, self.c = 0, ""

        def eval(self, row: Row):
            self.n += 1
            self.c = ",".join(f"{k}={v}" for k, v in row.asDict().items())

        def terminate(self):
            yield self.n, self.c

    t.spark.udtf.register("py_rows", Rows)
    t.table("k string, v int", ("a", 1), ("a", 2), ("b", 3)).createOrReplaceTempView("py_t")
    sql = t.spark.sql
    t.rows(sql("SELECT * FROM py_rows(TABLE(py_t))").select("n"), "whole")
    t.rows(sql("SELECT * FROM py_rows(TABLE(SELECT k, v * 2 AS w FROM py_t) PARTITION BY k ORDER BY w)"), "partitioned")
    t.rows(sql("SELECT * FROM py_rows(TABLE(py_t) WITH SINGLE PARTITION)").select("n"), "single partition")
    t.rows(sql("SELECT * FROM py_rows(row => TABLE(py_t) PARTITION BY k ORDER BY v DESC)"), "by name, ordered")
    t.rows(Rows(t.spark.table("py_t").asTable().partitionBy("k").orderBy(F.desc("v"))), "from a frame")
    t.rows(sql("SELECT * FROM py_rows(TABLE(SELECT * FROM py_t WHERE v > 100))"), "of nothing")
    t.spark.catalog.dropTempView("py_t")


def udtf_with_analysis(t):
    from pyspark.sql.udtf import AnalyzeResult

    @udtf
    class Columns:
        @staticmethod
        def analyze(n):
            if n.dataType.typeName() != "integer":
                raise ValueError("the reason")
            return AnalyzeResult(StructType().add("n", n.dataType).add("s", StringType()))

        def eval(self, n):
            yield n, "s"

    t.rows(Columns(F.lit(3)), "rows")
    t.schema(Columns(F.lit(3)), "schema")
    _refused_or_dies(t, lambda: Columns(F.lit("x")), "refused by itself")


# ---- streams ------------------------------------------------------------------------------------
def stream_of_udfs_in_projection_and_filter(t):
    twice = pandas_udf(lambda s: s * 2, "double")
    t.add("in", dict(k="a", v=1), dict(k="b", v=None))
    t.add("in", dict(k="c", v=5))
    df = t.stream("in", KV).select("k", udf(lambda v: None if v is None else v + 1, "long")("v").alias("p"), twice("v").alias("t")).filter(udf(lambda k: k != "b", "boolean")("k"))
    q = t.start(df)
    t.step(q)
    t.add("in", dict(k="d", v=6), dict(k="b", v=7))
    t.step(q)


def stream_through_map_in_pandas(t):
    def double(frames):
        for frame in frames:
            yield pd.concat([frame, frame.assign(v=-frame.v)])

    t.add("in", dict(k="a", v=1))
    q = t.start(t.stream("in", KV).mapInPandas(double, KV))
    t.step(q)
    t.add("in", dict(k="b", v=2))
    t.step(q)


def stream_through_map_in_arrow(t):
    t.add("in", dict(k="a", v=1), dict(k="b", v=2))
    q = t.start(t.stream("in", KV).mapInArrow(lambda batches: (b.slice(0, 1) for b in batches), KV))
    t.step(q)


def stream_with_udf_below_a_windowed_aggregation(t):
    f = udf(lambda k: (k or "").upper(), "string")
    s = t.stream("in", "k string, ts timestamp, v long").withWatermark("ts", "10 seconds")
    q = t.start(s.groupBy(F.window("ts", "10 seconds"), f("k").alias("u")).agg(F.sum(udf(lambda v: v * 10, "long")("v")).alias("s")).select("window.start", "u", "s"))
    for second, k in ((1, "a"), (5, "A"), (31, "b"), (61, "c")):
        t.add("in", dict(k=k, ts=f"2024-01-01T00:00:{second % 60:02d}Z" if second < 60 else "2024-01-01T00:01:01Z", v=second))
        t.step(q)


def stream_with_udf_above_an_aggregation(t):
    t.add("in", dict(k="a", v=1), dict(k="b", v=2))
    q = t.start(t.stream("in", KV).groupBy("k").agg(F.sum("v").alias("s")).select(udf(lambda k, s: f"{k}{s}", "string")("k", "s").alias("y")), mode="complete")
    t.step(q)
    t.add("in", dict(k="a", v=3))
    t.step(q)


def stream_with_registered_function_in_sql(t):
    t.spark.udf.register("py_mark", lambda k: f"<{k}>", "string")
    t.add("in", dict(k="a", v=1))
    t.stream("in", KV).createOrReplaceTempView("py_stream")
    q = t.start(t.spark.sql("SELECT py_mark(k) AS m, v FROM py_stream WHERE py_mark(k) <> '<b>'"))
    t.step(q)
    t.add("in", dict(k="b", v=2), dict(k="c", v=3))
    t.step(q)
    t.spark.catalog.dropTempView("py_stream")


def stream_that_dies_of_a_udf(t):
    t.add("in", dict(k="a", v=0))
    q = t.start(t.stream("in", KV).select(udf(lambda v: 1 // v, "long")("v").alias("y")))
    t.query_fails(q)


def stream_with_grouped_aggregate_is_refused(t):
    t.add("in", dict(k="a", v=1))

    def run():
        q = t.start(t.stream("in", KV).groupBy("k").agg(_mean("v").alias("m")), mode="complete")
        q.processAllAvailable()

    error = t.fails(run, "grouped aggregate")
    t.note("says", "pandas" in str(error).lower())


def stream_with_apply_in_pandas(t):
    t.add("in", dict(k="a", v=1), dict(k="a", v=2), dict(k="b", v=3))

    def run():
        q = t.start(t.stream("in", KV).groupBy("k").applyInPandas(lambda f: pd.DataFrame({"n": [len(f)]}), "n int"))
        t.step(q)

    t.fails(run, "apply")


def stream_with_cogrouped_apply(t):
    t.add("in", dict(k="a", v=1))

    def run():
        s = t.stream("in", KV).groupBy("k")
        q = t.start(s.cogroup(_kv(t).groupBy("k")).applyInPandas(lambda l, r: pd.DataFrame({"n": [len(l)]}), "n int"))
        t.step(q)

    t.fails(run, "cogroup")


def stream_with_grouped_functions_in_foreach_batch(t):
    target = t.path("target")

    def write(df, batch_id):
        @pandas_udf("double")
        def mean(s: pd.Series) -> float:
            return s.mean()

        out = df.groupBy("k").applyInPandas(lambda f: pd.DataFrame({"k": [f.k.iloc[0]], "n": [len(f)]}), "k string, n long")
        out.join(df.groupBy("k").agg(mean("v").alias("m")), "k").withColumn("plus", udf(lambda n: n + 1, "long")("n")).write.mode("append").json(target)

    t.add("in", dict(k="a", v=1), dict(k="a", v=3), dict(k="b", v=5))
    q = t.stream("in", KV).writeStream.foreachBatch(write).option("checkpointLocation", t.path("ck")).start()
    t._queries.append(q)
    q.processAllAvailable()
    t.rows(t.spark.read.schema("k string, n long, m double, plus long").json(target))


def stream_with_udtf(t):
    @udtf(returnType="w string")
    class Words:
        def eval(self, text: str):
            for word in (text or "").split():
                yield (word,)

    t.spark.udtf.register("py_split", Words)
    t.add("in", dict(k="a b", v=1))
    t.stream("in", KV).createOrReplaceTempView("py_stream")
    q = t.start(t.spark.sql("SELECT v, w FROM py_stream, LATERAL py_split(k)"))
    t.step(q)
    t.add("in", dict(k="", v=2), dict(k="c", v=3))
    t.step(q)
    t.spark.catalog.dropTempView("py_stream")


def stream_restarts_with_another_function(t):
    def run(f):
        return t.start(t.stream("in", KV).select(udf(f, "long")("v").alias("y")))

    q = run(lambda v: v + 1)
    t.add("in", dict(k="a", v=1))
    t.step(q)
    t.stop(q)
    folder = t.path("out")
    q = t.stream("in", KV).select(udf(lambda v: v * 10, "long")("v").alias("y")).writeStream.format("json").option("path", folder).option("checkpointLocation", t.path("ck-out")).start()
    t._queries.append(q)
    t.add("in", dict(k="a", v=2))
    q.processAllAvailable()
    t.rows(t.spark.read.schema("y long").json(folder))
