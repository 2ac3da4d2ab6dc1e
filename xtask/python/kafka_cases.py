"""Reads topics in every way that the options allow, and prints what came as JSON.

usage: kafka_cases.py (--remote sc://… | --jars a.jar,b.jar) --servers HOST:PORT --checkpoints FOLDER

With jars it starts Spark with its own Connect server and spark-sql-kafka, so that both sides are asked through the same client; what it prints
must be the same.
"""

import argparse
import json
import socket
import sys
import traceback

from pyspark.sql.connect.session import SparkSession

# Sub: the subscription. Each case is read as a batch and as a stream until nothing is left.
T1 = ("subscribe", "t1")
CASES = {
    "defaults": (T1, {}),
    "earliest": (T1, {"startingOffsets": "earliest"}),
    "latest": (T1, {"startingOffsets": "latest"}),
    "no subscription": (None, {}),
    "two subscriptions": (T1, {"assign": '{"t1":[0]}'}),
    "empty subscribe": (("subscribe", " , "), {}),
    "bad assign": (("assign", "nope"), {}),
    "assign": (("assign", '{"t1":[0,2]}'), {"startingOffsets": "earliest"}),
    "pattern": (("subscribePattern", "t[0-9]"), {"startingOffsets": "earliest"}),
    "pattern that finds": (("subscribePattern", "1"), {"startingOffsets": "earliest"}),
    "two topics": (("subscribe", "t2,t1"), {"startingOffsets": "earliest"}),
    "missing topic": (("subscribe", "nosuch"), {"startingOffsets": "earliest"}),
    "one of two topics missing": (("subscribe", "t1,nosuch"), {"startingOffsets": "earliest"}),
    "headers": (T1, {"startingOffsets": "earliest", "includeHeaders": "true"}),
    "offsets": (T1, {"startingOffsets": '{"t1":{"0":3,"1":-2,"2":9}}'}),
    "offsets, one latest": (T1, {"startingOffsets": '{"t1":{"0":3,"1":-2,"2":-1}}'}),
    "offsets for some": (T1, {"startingOffsets": '{"t1":{"0":3,"1":-2}}'}),
    "offsets for too many": (T1, {"startingOffsets": '{"t1":{"0":3,"1":-2,"2":1,"7":1}}'}),
    "offsets beyond the end": (T1, {"startingOffsets": '{"t1":{"0":300,"1":-2,"2":1}}'}),
    "offsets that are no JSON": (T1, {"startingOffsets": "nope"}),
    "end earliest": (T1, {"endingOffsets": "earliest"}),
    "end latest": (T1, {"endingOffsets": "latest"}),
    "end offsets": (T1, {"endingOffsets": '{"t1":{"0":3,"1":-1,"2":5}}'}),
    "end offsets, one earliest": (T1, {"endingOffsets": '{"t1":{"0":-2,"1":-1,"2":5}}'}),
    "end offsets beyond": (T1, {"endingOffsets": '{"t1":{"0":300,"1":-1,"2":5}}'}),
    "end offsets beyond, no fail": (T1, {"endingOffsets": '{"t1":{"0":300,"1":-1,"2":5}}', "failOnDataLoss": "false"}),
    "end before start": (T1, {"startingOffsets": '{"t1":{"0":5,"1":5,"2":5}}', "endingOffsets": '{"t1":{"0":3,"1":-1,"2":5}}'}),
    "start and end": (T1, {"startingOffsets": '{"t1":{"0":1,"1":2,"2":3}}', "endingOffsets": '{"t1":{"0":3,"1":2,"2":7}}'}),
    "timestamp": (T1, {"startingTimestamp": "15000"}),
    "timestamp beyond": (T1, {"startingTimestamp": "99000"}),
    "timestamp beyond, latest": (T1, {"startingTimestamp": "99000", "startingOffsetsByTimestampStrategy": "latest"}),
    "timestamp, unknown strategy": (T1, {"startingTimestamp": "99000", "startingOffsetsByTimestampStrategy": "foo"}),
    "timestamp that is no number": (T1, {"startingTimestamp": "foo"}),
    "negative timestamp": (T1, {"startingTimestamp": "-5"}),
    "timestamps": (T1, {"startingOffsetsByTimestamp": '{"t1":{"0":15000,"1":1,"2":29500}}'}),
    "timestamps for some": (T1, {"startingOffsetsByTimestamp": '{"t1":{"0":15000}}'}),
    "timestamps that are no JSON": (T1, {"startingOffsetsByTimestamp": "nope"}),
    "timestamps before offsets": (
        T1,
        {"startingOffsetsByTimestamp": '{"t1":{"0":15000,"1":1,"2":20000}}', "startingOffsets": '{"t1":{"0":0,"1":0,"2":0}}'},
    ),
    "timestamp before timestamps": (T1, {"startingOffsetsByTimestamp": '{"t1":{"0":1,"1":1,"2":1}}', "startingTimestamp": "20000"}),
    "end timestamp": (T1, {"endingTimestamp": "15000"}),
    "end timestamp beyond": (T1, {"endingTimestamp": "99000"}),
    "end timestamps": (T1, {"endingOffsetsByTimestamp": '{"t1":{"0":15000,"1":1,"2":29500}}'}),
    "minPartitions": (T1, {"startingOffsets": "earliest", "minPartitions": "7"}),
    "minPartitions 0": (T1, {"startingOffsets": "earliest", "minPartitions": "0"}),
    "minPartitions x": (T1, {"startingOffsets": "earliest", "minPartitions": "x"}),
    "maxRecordsPerPartition": (T1, {"startingOffsets": "earliest", "maxRecordsPerPartition": "3"}),
    "maxRecordsPerPartition -1": (T1, {"startingOffsets": "earliest", "maxRecordsPerPartition": "-1"}),
    "maxOffsetsPerTrigger": (T1, {"startingOffsets": '{"t1":{"0":1,"1":5,"2":9}}', "maxOffsetsPerTrigger": "7"}),
    "maxOffsetsPerTrigger 1": (("subscribe", "t2"), {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1"}),
    "maxOffsetsPerTrigger x": (T1, {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "x"}),
    "minOffsetsPerTrigger": (T1, {"startingOffsets": "earliest", "minOffsetsPerTrigger": "5"}),
    "min above max": (T1, {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "3"}),
    "maxTriggerDelay x": (T1, {"startingOffsets": "earliest", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "x"}),
    "failOnDataLoss x": (T1, {"startingOffsets": "earliest", "failOnDataLoss": "x"}),
    "includeHeaders x": (T1, {"startingOffsets": "earliest", "includeHeaders": "x"}),
    "group": (T1, {"startingOffsets": "earliest", "kafka.group.id": "cases"}),
    "transactions": (("subscribe", "tx"), {"startingOffsets": "earliest"}),
    "transactions, committed": (("subscribe", "tx"), {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}),
    "transactions, committed, from the middle": (
        ("subscribe", "tx"),
        {"startingOffsets": '{"tx":{"0":6}}', "kafka.isolation.level": "read_committed"},
    ),
    "transactions, committed, 3 at a time": (
        ("subscribe", "tx"),
        {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "3"},
    ),
    "transactions, 3 at a time": (("subscribe", "tx"), {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}),
    "open transaction, committed": (("subscribe", "open"), {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}),
    "open transaction": (("subscribe", "open"), {"startingOffsets": "earliest"}),
    "only aborted, committed": (("subscribe", "aborted"), {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}),
    "compacted": (("subscribe", "compacted"), {"startingOffsets": "earliest"}),
    "compacted, 7 at a time": (("subscribe", "compacted"), {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "7", "minPartitions": "4"}),
    "records deleted": (("subscribe", "deleted"), {"startingOffsets": "earliest"}),
    "below deleted records": (("subscribe", "deleted"), {"startingOffsets": '{"deleted":{"0":2}}'}),
    "below deleted records, no fail": (("subscribe", "deleted"), {"startingOffsets": '{"deleted":{"0":2}}', "failOnDataLoss": "false"}),
    "empty topic": (("subscribe", "empty"), {"startingOffsets": "earliest"}),
    "empty topic, timestamp": (("subscribe", "empty"), {"startingTimestamp": "5"}),
    "append time": (("subscribe", "lat"), {"startingOffsets": "earliest"}),
    **{
        name: (T1, {"startingOffsets": "earliest", f"kafka.{name}": "1000"})
        for name in [
            "auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes", "key.serializer",
            "max.poll.records", "receive.buffer.bytes", "bogus.setting",
        ]
    },
}

COLUMNS = ["hex(key)", "hex(value)", "topic", "partition", "offset", "unix_micros(timestamp)", "timestampType"]
HEADERS = "transform(headers, h -> struct(h.key, hex(h.value)))"


class Cases:
    def __init__(self, spark, servers, checkpoints):
        self.spark, self.servers, self.checkpoints = spark, servers, checkpoints

    def reader(self, reader, subscription, options):
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.servers)
        for name, value in [subscription] if subscription else []:
            reader = reader.option(name, value)
        rows = reader.options(**options).load()
        return rows.selectExpr(*COLUMNS, *([HEADERS] if "headers" in rows.columns else []))

    def batch(self, _, subscription, options):
        rows = self.reader(self.spark.read, subscription, options)
        return {"schema": rows.schema.simpleString(), "rows": sorted(map(plain, rows.collect()), key=repr)}

    def stream(self, name, subscription, options):
        rows = self.reader(self.spark.readStream, subscription, options)
        table = "s_" + "".join(letter if letter.isalnum() else "_" for letter in name)
        writer = rows.writeStream.format("memory").queryName(table).trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{self.checkpoints}/{table}").start()
        query.awaitTermination(120)
        failure = query.exception()
        if failure is not None:
            raise failure
        batches = [report(progress) for progress in query.recentProgress]
        return {"rows": sorted(map(plain, self.spark.table(table).collect()), key=repr), "batches": batches}


def report(progress):
    """What a report says about the source, without times and without what only we say."""
    progress = json.loads(progress.json)
    source = progress["sources"][0]
    metrics = {name: source.get("metrics", {}).get(name) for name in ["minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"]}
    kept = {name: source.get(name) for name in ["description", "startOffset", "endOffset", "latestOffset", "numInputRows"]}
    return {"batchId": progress["batchId"], **kept, **metrics}


def plain(row):
    return [plain(value) if isinstance(value, (list, tuple)) else value for value in row]


def outcome(case, *arguments):
    try:
        return case(*arguments)
    except Exception as error:  # What a case raises is its outcome.
        condition = getattr(error, "getCondition", lambda: None)()
        state = getattr(error, "getSqlState", lambda: None)()
        return {"error": type(error).__name__, "condition": condition, "state": state, "message": first_line(error)}


def first_line(error):
    text = str(error) or traceback.format_exc()
    return text.split("JVM stacktrace")[0].strip()[:400]


def served_by_spark(jars):
    """Starts Spark with its Connect server on a free port of this machine."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql.session import SparkSession as ClassicSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false").set("spark.jars", jars)
    conf.set("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin").set("spark.connect.grpc.binding.port", str(port))
    context = SparkContext(conf=conf)
    context.setLogLevel("OFF")
    ClassicSession(context)
    return f"sc://127.0.0.1:{port}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--remote")
    parser.add_argument("--jars")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--checkpoints", required=True)
    arguments = parser.parse_args()
    remote = arguments.remote or served_by_spark(arguments.jars)
    spark = SparkSession.builder.remote(remote).config("spark.sql.session.timeZone", "UTC").create()
    cases = Cases(spark, arguments.servers, arguments.checkpoints)
    found = {}
    for name, (subscription, options) in CASES.items():
        found[f"batch: {name}"] = outcome(cases.batch, name, subscription, options)
        found[f"stream: {name}"] = outcome(cases.stream, name, subscription, options)
    json.dump(found, sys.stdout)
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
