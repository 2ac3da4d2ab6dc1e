#!/usr/bin/env python3
"""Runs the sample calls of every function of `pyspark.sql.functions` and compares them with recorded Spark 4.2.

  run.py --remote 'local[1]' --record [-k FUNCTION …]            record expected/ with Spark itself (full pyspark, Java 17)
  run.py --remote sc://127.0.0.1:15002 [-k FUNCTION …]           compare a server
         [--table FILE]  write the table of functions    [--known FILE]  fail when a function is worse than that table says    [-v]  show differences

A call is the same when its schema (names, types, nullability), its rows in order, or its error condition and SQLSTATE are. Rows of grouped calls
compare in any order. Doubles may differ in the last two of their 53 bits: Java's and C's libraries round transcendental functions differently.
"""

import argparse
import collections
import datetime
import decimal
import json
import math
import os
import pathlib
import signal
import socket
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import catalogue  # noqa: E402
import table  # noqa: E402
from frames import FRAMES  # noqa: E402


class Late(Exception):
    """A call did not end in time."""


def encoded(value):
    """A value as JSON that tells apart what Python tells apart."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"double": repr(value)}
    if isinstance(value, decimal.Decimal):
        return {"decimal": f"{value:f}"}
    if isinstance(value, (datetime.date, datetime.time)):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, datetime.timedelta):
        return {"microseconds": value // datetime.timedelta(microseconds=1)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"map": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"struct": [encoded(v) for v in value]}
    if isinstance(value, list):
        return [encoded(v) for v in value]
    if type(value).__name__ == "VariantVal":
        return {"variant": value.toJson()}
    if type(value).__name__ in ("Geometry", "Geography"):
        return {type(value).__name__: [value.getBytes().hex(), value.getSrid()]}
    return {type(value).__name__: str(value)}


class Runner:
    """Runs calls in a session."""

    def __init__(self, spark):
        import pyspark.sql.avro.functions as A
        import pyspark.sql.functions as F
        import pyspark.sql.types as T
        from pyspark.sql import Window

        self.spark = spark
        self.frames = {name: spark.createDataFrame(rows, schema) for name, (schema, rows) in FRAMES.items()}
        self.names = {
            "A": A, "F": F, "T": T, "W": Window, "col": F.col, "lit": F.lit, "E": F.expr, "spark": spark,
            "datetime": datetime, "Decimal": decimal.Decimal,
        }  # fmt: skip

    def frame(self, call):
        df = self.frames[call.frame]
        value = eval(call.text, self.names | {"df": df})  # noqa: S307 - the calls are our own
        if hasattr(type(value), "collect"):
            return value
        columns = value if isinstance(value, (list, tuple)) else [value]
        if call.by:
            return df.groupBy(call.by).agg(*columns)
        return df.select(*columns)

    def table(self, df):
        """The rows and the schema of a frame, in one request. Intervals of months come as text: Python has no values for them."""
        from pyspark.errors import PySparkException
        from pyspark.sql.conversion import ArrowTableToRowsConversion
        from pyspark.sql.types import CalendarIntervalType, YearMonthIntervalType

        def has_months(schema):
            return any(isinstance(field.dataType, (CalendarIntervalType, YearMonthIntervalType)) for field in schema)

        try:
            table, schema = df._to_table()
        except PySparkException:
            raise
        except Exception:  # noqa: BLE001 - what Arrow cannot read is found out below
            schema = df.schema
            if not has_months(schema):
                raise
        if has_months(schema):
            names = [f"c{i}" for i in range(len(schema))]
            df = df.toDF(*names).selectExpr(*[f"CAST({name} AS STRING)" for name in names])
            table, texts = df._to_table()
            return ArrowTableToRowsConversion.convert(table, texts), schema
        return ArrowTableToRowsConversion.convert(table, schema), schema

    def outcome(self, call):
        from pyspark.errors import PySparkException

        for key, value in call.conf:
            self.spark.conf.set(key, value)
        try:
            table, schema = self.table(self.frame(call))
            for field in schema.fields:
                field.metadata = {}
            out = {"schema": json.loads(schema.json())["fields"]}
            if not call.types_only:
                out["rows"] = [[encoded(value) for value in row] for row in table]
            return out
        except PySparkException as error:
            return {"error": error.getCondition() or type(error).__name__, "sqlstate": error.getSqlState()}
        except (Late, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - what a call dies of is its result
            return {"error": type(error).__name__, "sqlstate": None}
        finally:
            for key, _ in call.conf:
                self.spark.conf.unset(key)
            if call.conf:
                configure(self.spark)

    def outcome_in_time(self, call, seconds):
        def late(*_):
            raise Late

        signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        try:
            return json.loads(json.dumps(self.outcome(call)))
        except Late:
            return {"error": "Late", "sqlstate": None}
        finally:
            signal.alarm(0)


def close(left, right):
    """Whether two encoded values are equal, doubles to within two units in the last place."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right) or abs(left - right) <= 2 * math.ulp(max(abs(left), abs(right)))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def difference(call, expected, actual):
    """In what an outcome differs from the recorded one, or None."""
    if "error" in expected or "error" in actual:
        if expected.get("error") != actual.get("error"):
            return f"{actual.get('error', 'gives rows')} instead of {expected.get('error', 'rows')}"
        if expected["sqlstate"] != actual["sqlstate"]:
            return f"SQLSTATE {actual['sqlstate']} instead of {expected['sqlstate']}"
        return None
    if expected["schema"] != actual["schema"]:
        for what in ("name", "type", "nullable"):
            before, after = ([field[what] for field in side["schema"]] for side in (expected, actual))
            if before != after:
                return f"{what} {json.dumps(after, ensure_ascii=False)} instead of {json.dumps(before, ensure_ascii=False)}"
    before, after = expected.get("rows"), actual.get("rows")
    if call.by and before and after:
        before, after = (sorted(rows, key=json.dumps) for rows in (before, after))
    if not close(before, after):
        if before is None or after is None or len(before) != len(after):
            return f"{len(after or [])} rows instead of {len(before or [])}"
        for expected_row, actual_row in zip(before, after):
            if not close(expected_row, actual_row):
                return f"{json.dumps(actual_row, ensure_ascii=False)} instead of {json.dumps(expected_row, ensure_ascii=False)}"
    return None


def session(remote, jars=None):
    os.environ["TZ"] = "UTC"
    time.tzset()
    # Workers need what this process has: pandas and pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if remote.startswith("local"):
        remote = served_by_spark(remote, jars)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    configure(spark)
    return spark


def configure(spark):
    """What every call finds, whatever the one before it set."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "1")


def served_by_spark(master, jars):
    """Starts Spark with its Connect server on a free port, so that recordings can run side by side."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql.session import SparkSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = SparkConf().setMaster(master).set("spark.ui.enabled", "false").set("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    conf.set("spark.connect.grpc.binding.port", str(port)).set("spark.sql.artifact.isolation.enabled", "true")
    conf.set("spark.sql.warehouse.dir", tempfile.mkdtemp())
    if jars:
        conf.set("spark.jars", jars)
    # Thousands of tiny queries: compiling each would cost far more than running it.
    conf.set("spark.sql.codegen.wholeStage", "false").set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    conf.set("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    SparkSession(context)
    return f"sc://127.0.0.1:{port}"


def stored(area):
    file = HERE / "expected" / f"{area}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def write(area, outcomes):
    """One call a line, so that a changed one is a changed line."""
    lines = []
    for function, calls in outcomes.items():
        entries = ",\n".join(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(outcome, ensure_ascii=False)}" for name, outcome in calls.items())
        lines.append(f" {json.dumps(function)}: {{\n{entries}\n }}")
    (HERE / "expected").mkdir(exist_ok=True)
    (HERE / "expected" / f"{area}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def record(calls, runner, seconds, again):
    """Records what is not recorded yet, all of it `again` where functions are named; what is no call any more is forgotten."""
    areas = {}
    for call in catalogue.load():
        areas.setdefault(call.area, []).append(call)
    wanted, made = set(calls), 0
    for area, listed in areas.items():
        before, outcomes = stored(area), {}
        for place, call in enumerate(listed):
            outcome = before.get(call.function, {}).get(call.name())
            if call in wanted and (again or outcome is None):
                outcome = runner.outcome_in_time(call, seconds)
                made += 1
                if made % 50 == 0:
                    print(f"{area}: {place + 1} of {len(listed)}", flush=True)
                    write(area, before | outcomes)
            if outcome is not None:
                outcomes.setdefault(call.function, {})[call.name()] = outcome
        write(area, outcomes)
    print(f"recorded {made} calls")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remote", required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("-k", nargs="*", default=[], help="functions, or areas ending in a dot")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--known", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=sys.maxsize, metavar="N", help="record only the first N calls of each function")
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--jars", help="what Spark needs beside itself to record j_avro: the jar of spark-avro")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()

    calls = [call for call in catalogue.load() if not args.k or call.function in args.k or f"{call.area}." in args.k]
    if args.record:
        places = collections.Counter()
        chosen = []
        for call in calls:
            places[call.function] += 1
            if places[call.function] <= args.first:
                chosen.append(call)
        return record(chosen, Runner(session(args.remote, args.jars)), args.timeout, bool(args.k))
    runner = Runner(session(args.remote))
    recorded = {area: stored(area) for area in {call.area for call in calls}}
    found, unrecorded = {}, 0
    for call in calls:
        if call.name() not in recorded[call.area].get(call.function, {}):
            unrecorded += 1
            continue
        outcome = runner.outcome_in_time(call, args.timeout)
        told = difference(call, recorded[call.area][call.function][call.name()], outcome)
        found.setdefault(call.function, []).append((call, told, outcome))
        if told and args.v:
            print(f"{call.function}: {call.name()}\n    {told}", flush=True)
    text = table.written(found)
    if args.table:
        args.table.write_text(text)
    same = sum(all(told is None for _, told, _ in calls) for calls in found.values())
    print(f"{same} of {len(found)} functions are the same, {sum(told is None for calls in found.values() for _, told, _ in calls)} of {sum(map(len, found.values()))} calls; {unrecorded} are not recorded")
    if args.known:
        worse = table.worse(args.known.read_text(), text)
        print(*[f"worse than {args.known} says: {line}" for line in worse], sep="\n")
        return 1 if worse else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
