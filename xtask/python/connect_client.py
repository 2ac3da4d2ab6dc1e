"""One PySpark client against a running server: what every version of it must be able to do.

    connect_client.py sc://127.0.0.1:15002 FOLDER

The folder is empty and both processes can reach it.
"""

import datetime
import decimal
import json
import pathlib
import sys
import threading
import time

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.version import __version__

PATIENCE_S = 60


def equal(what, found, expected):
    assert found == expected, f"{what}: {expected!r} was expected, found {found!r}"


def rows(spark):
    equal("select", spark.sql("SELECT 1 AS n, 'one' AS name").collect(), [Row(n=1, name="one")])
    values = [
        (1, "a", 1.5, decimal.Decimal("1.50"), datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4), [1, 2], {"k": 1}),
        (None,) * 8,
    ]
    types = "i int, s string, d double, m decimal(10,2), day date, at timestamp, l array<int>, kv map<string,int>"
    frame = spark.createDataFrame(values, types)
    equal("what was sent", [tuple(row) for row in frame.collect()], values)
    equal("the schema", frame.schema.simpleString(), types.replace(" ", ":").replace(",:", ",").join(("struct<", ">")))
    counts = spark.range(1000).groupBy((F.col("id") % 3).alias("k")).count().orderBy("k")
    equal("counts", [tuple(row) for row in counts.collect()], [(0, 334), (1, 333), (2, 333)])
    equal("toPandas", spark.range(5).toPandas()["id"].tolist(), [0, 1, 2, 3, 4])
    equal("toLocalIterator", sum(row.id for row in spark.range(10_000).toLocalIterator()), 49_995_000)
    joined = spark.range(3).alias("a").join(spark.range(2, 5).alias("b"), F.col("a.id") == F.col("b.id"))
    equal("a join", joined.count(), 1)
    frame.createOrReplaceTempView("sent")
    equal("a view", spark.sql("SELECT count(i), count(*) FROM sent").collect()[0][:], (1, 2))
    equal("arguments", spark.sql("SELECT :n + 1 AS n", args={"n": 1}).first().n, 2)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    zone = spark.sql("SELECT date_format(timestamp_seconds(0), 'HH') AS hour").first().hour
    equal("a setting", zone, "09")
    spark.conf.unset("spark.sql.session.timeZone")


class Told(StreamingQueryListener):
    def __init__(self):
        self.events = []
        self.ended = threading.Event()

    def onQueryStarted(self, event):
        self.events.append(("started", event.id, event.runId))

    def onQueryProgress(self, event):
        self.events.append(("progress", event.progress.id, event.progress.numInputRows))

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        self.events.append(("terminated", event.id, event.exception))
        self.ended.set()


def query(spark, folder):
    source = folder / "in"
    source.mkdir()
    told = Told()
    spark.streams.addListener(told)
    numbers = spark.readStream.schema("id bigint, at timestamp").json(str(source))
    windows = numbers.withWatermark("at", "10 seconds").groupBy(F.window("at", "1 minute")).agg(F.sum("id").alias("total"))
    name = "client"
    running = (windows.writeStream.format("memory").queryName(name).outputMode("update")
               .option("checkpointLocation", str(folder / "checkpoint")).start())
    assert running.isActive and running.name == name
    equal("the active query", [active.id for active in spark.streams.active], [running.id])
    for number, seconds in enumerate((0, 30, 90)):
        staged = folder / f"{number}.json"
        staged.write_text(json.dumps({"id": number + 1, "at": f"2024-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"}) + "\n")
        staged.rename(source / staged.name)
        running.processAllAvailable()
    totals = {row.total for row in spark.table(name).collect()}
    assert {3} <= totals, f"the first window holds 1 + 2: {totals}"
    last = running.lastProgress
    equal("the sink", last["sink"]["description"] if isinstance(last, dict) else last.sink.description, "MemorySink")
    assert len(running.recentProgress) >= 3 and running.status["message"]
    equal("a wait that is too short", running.awaitTermination(0.05), False)
    running.stop()
    equal("a stopped query", (running.isActive, running.awaitTermination(10), running.exception()), (False, True, None))
    assert told.ended.wait(PATIENCE_S), f"the listener heard no end: {told.events}"
    kinds = [event[0] for event in told.events]
    assert kinds[0] == "started" and kinds[-1] == "terminated" and kinds.count("progress") >= 3, told.events
    spark.streams.removeListener(told)

    failing = (numbers.select(F.raise_error(F.lit("on purpose"))).writeStream.format("noop")
               .option("checkpointLocation", str(folder / "failing")).start())
    refused(lambda: failing.awaitTermination(PATIENCE_S), "STREAM_FAILED", "XXKST")
    assert "on purpose" in str(failing.exception()), failing.exception()


def refused(action, condition, state):
    try:
        action()
    except PySparkException as error:
        found = (error.getCondition(), error.getSqlState())
        assert found == (condition, state), f"{condition} {state} was expected, found {found}: {error}"
        return error
    raise AssertionError(f"{condition} was expected, and nothing was refused")


def refusals(spark):
    error = refused(lambda: spark.sql("SELECT nope FROM range(1)").collect(), "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
    equal("its class", type(error).__name__, "AnalysisException")
    refused(lambda: spark.sql("SELEKT 1").collect(), "PARSE_SYNTAX_ERROR", "42601")
    refused(lambda: spark.sql("SELECT 1/0").collect(), "DIVIDE_BY_ZERO", "22012")
    refused(lambda: spark.table("no_such_table").collect(), "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    refused(lambda: spark.range(1).writeStream.format("noop").start(), "WRITE_STREAM_NOT_ALLOWED", "42601")


def main():
    remote, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    began = time.monotonic()
    spark = SparkSession.builder.remote(remote).getOrCreate()
    assert spark.version.startswith("4."), spark.version
    started = time.monotonic() - began
    rows(spark)
    query(spark, folder)
    refusals(spark)
    spark.stop()
    print(f"PySpark {__version__}: rows, a streaming query with its progress and events, refusals; connected in {started * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
