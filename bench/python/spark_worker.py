"""Spark's side of the benchmark: takes tasks as JSON lines on standard input, answers with JSON lines.

    {"task": "micro_batch", "sink": S, "dir": D, "batches": N, "schema": DDL}  -> {"trigger_ms": [...]}
    {"task": "ingest", "format": F, "input": D, "checkpoint": D, "schema": DDL} -> {"wall_s", "cpu_s", "rows", "rss_mib"}

With arguments, a start-up to be timed from outside:

    spark_worker.py first-batch INPUT CHECKPOINT SCHEMA
"""

import json
import os
import shutil
import sys
import time

from pyspark.sql import SparkSession


def session() -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def jvm(spark: SparkSession) -> int:
    return spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int, field: str) -> float:
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


def micro_batch(spark: SparkSession, task: dict) -> dict:
    """Drops one file of one row at a time, waits for its batch, and returns what Spark says each trigger took."""
    shutil.rmtree(task["dir"], ignore_errors=True)
    source, checkpoint, target = (os.path.join(task["dir"], name) for name in ("in", "checkpoint", "out"))
    os.makedirs(source)
    writer = spark.readStream.schema(task["schema"]).json(source).writeStream.option("checkpointLocation", checkpoint)
    writer = writer.trigger(processingTime="0 seconds").format(task["sink"])
    if task["sink"] == "memory":
        writer = writer.queryName("rows")
    if task["sink"] == "parquet":
        writer = writer.option("path", target)
    query = writer.start()
    for number in range(task["batches"]):
        hidden = os.path.join(source, f".{number}")
        with open(hidden, "w", encoding="utf-8") as file:
            file.write('{"id":%d,"name":"n","at":"2024-01-01T00:00:00Z","price":1.5}\n' % number)
        os.rename(hidden, os.path.join(source, f"{number:06}.json"))
        query.processAllAvailable()
    progress = [json.loads(report.json) for report in query.recentProgress]
    query.stop()
    return {"trigger_ms": [report["durationMs"]["triggerExecution"] for report in progress if report["numInputRows"] == 1]}


def ingest(spark: SparkSession, task: dict) -> dict:
    """Runs one query over everything that is there, into the noop sink."""
    shutil.rmtree(task["checkpoint"], ignore_errors=True)
    pid = jvm(spark)
    cpu, wall = cpu_seconds(pid), time.monotonic()
    query = (
        spark.readStream.schema(task["schema"])
        .format(task["format"])
        .load(task["input"])
        .writeStream.format("noop")
        .option("checkpointLocation", task["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    wall, cpu = time.monotonic() - wall, cpu_seconds(pid) - cpu
    rows = sum(json.loads(report.json)["numInputRows"] for report in query.recentProgress)
    return {"wall_s": wall, "cpu_s": cpu, "rows": rows, "rss_mib": rss_mib(pid, "VmHWM")}


def first_batch(source: str, checkpoint: str, schema: str) -> None:
    spark = session()
    query = spark.readStream.schema(schema).json(source).writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    print(json.dumps({"pid": jvm(spark)}), flush=True)
    query.awaitTermination()


def main() -> None:
    if sys.argv[1:2] == ["first-batch"]:
        first_batch(*sys.argv[2:])
        return
    spark = session()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        if task["task"] == "stop":
            break
        try:
            answer = {"micro_batch": micro_batch, "ingest": ingest}[task["task"]](spark, task)
        except Exception as error:  # the measuring side decides what a failure means
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
