"""The same topics, read by a real Spark and by our server, with every option: the rows, the batches and what is refused must be the same.

usage: kafka_compare.py --broker JARS --binary MILLSTREAM --folder FOLDER --spark-python PYTHON --spark-jars JARS
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

from kafka_broker import Broker, environment_of_client
from millstream_server import Server

HERE = pathlib.Path(__file__).parent

# Jars that Spark brings itself.
SPARKS_OWN = ("hadoop", "scala-library", "slf4j", "lz4", "snappy", "jsr305", "spark-tags")

# Cases in which we are not Spark, and why.
KNOWN = {
    "stream: minOffsetsPerTrigger": "a query that ends with its data does not wait for more of it; both read everything",
}


def fill(broker):
    """Topics with everything that a log can have."""
    broker.create("t1", 3)
    broker.create("t2", 1)
    broker.create("empty", 2)
    broker.create("lat", 1, message_timestamp_type="LogAppendTime")
    broker.create("tx", 1)
    broker.create("aborted", 1)
    broker.create("open", 1)
    broker.create("deleted", 1)
    broker.create("compacted", 1, cleanup_policy="compact", segment_ms=500, min_cleanable_dirty_ratio=0.01, delete_retention_ms=100)
    producer = broker.producer()
    for number in range(30):
        producer.produce(
            "t1", partition=number % 3, timestamp=1000 * (number + 1),
            key=None if number % 5 == 0 else b"k%d" % number, value=None if number % 7 == 0 else b"v\xff%d" % number,
            headers=[("h1", b"x"), ("h1", None), ("h2", b"\xff")] if number % 4 == 0 else None)
    for number in range(5):
        producer.produce("t2", value=b"w%d" % number, timestamp=5000 + number)
        producer.produce("lat", value=b"l%d" % number)
    for number in range(12):
        producer.produce("deleted", value=b"d%d" % number, timestamp=1000 + number)
    producer.flush()
    broker.delete_records("deleted", 0, 7)
    transactions(broker)
    compact(broker)


def transactions(broker):
    producer = broker.producer(transactional_id="compare")
    producer.init_transactions()
    for round, (topic, commit) in enumerate([("tx", True), ("tx", False), ("tx", True), ("tx", False), ("aborted", False), ("aborted", False), ("open", True)]):
        producer.begin_transaction()
        for number in range(4):
            producer.produce(topic, value=b"%d-%d" % (round, number), timestamp=1000 + 10 * round + number)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    # Left open until the end of the comparison: readers of committed records stop before it.
    fill.open = broker.producer(transactional_id="compare-open", transaction_timeout_ms=890_000)
    fill.open.init_transactions()
    fill.open.begin_transaction()
    for number in range(3):
        fill.open.produce("open", value=b"open-%d" % number, timestamp=9000 + number)
    fill.open.flush()


def compact(broker):
    """Updates of few keys until the cleaner has taken some away."""
    producer = broker.producer()
    log = broker.folder / "data" / "compacted-0"
    for round in range(6):
        for number in range(20):
            producer.produce("compacted", key=b"k%d" % (number % 7), value=b"c%d-%d" % (round, number), timestamp=1000 + 1000 * round + number)
        producer.flush()
        time.sleep(0.6)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        checkpoint = broker.folder / "data" / "cleaner-offset-checkpoint"
        if checkpoint.exists() and "compacted 0" in checkpoint.read_text():
            return
        time.sleep(0.2)
    raise RuntimeError(f"nothing was compacted in {log}")


def cases(python, arguments, output):
    command = [str(python), str(HERE / "kafka_cases.py"), *arguments]
    with open(output, "wb") as out, open(f"{output}.log", "wb") as log:
        status = subprocess.run(command, stdout=out, stderr=log, env=environment_of_client(), check=False, timeout=1500)
    if status.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {status.returncode}; see {output}.log")
    return json.loads(pathlib.Path(output).read_text())


def same(spark, ours):
    """Whether two outcomes are the same: of errors the class, the condition and the SQLSTATE, but not the words."""
    if "error" in spark or "error" in ours:
        return all(spark.get(what, "") == ours.get(what, "") for what in ("error", "condition", "state"))
    # How often a query looks without finding anything is a matter of time.
    batches = [[batch for batch in side.get("batches", []) if batch["numInputRows"] or batch["startOffset"] != batch["endOffset"]] for side in (spark, ours)]
    return spark["rows"] == ours["rows"] and spark.get("schema") == ours.get("schema") and batches[0] == batches[1]


def main():
    parser = argparse.ArgumentParser()
    for name in ["broker", "binary", "folder", "spark-python", "spark-jars"]:
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    jars = [str(jar) for jar in pathlib.Path(arguments.spark_jars).glob("*.jar") if not jar.name.startswith(SPARKS_OWN)]
    with Broker(arguments.broker, folder / "broker") as broker:
        fill(broker)
        server = Server(arguments.binary, folder / "server").start()
        try:
            ours = cases(sys.executable, ["--remote", server.remote, "--servers", broker.servers, "--checkpoints", str(folder / "ours")], folder / "ours.json")
        finally:
            server.kill()
        sparks = cases(
            arguments.spark_python,
            ["--jars", ",".join(jars), "--servers", broker.servers, "--checkpoints", str(folder / "sparks")], folder / "sparks.json")
    different = [name for name in sparks if not same(sparks[name], ours[name])]
    for name in different:
        why = KNOWN.get(name)
        print(f"{'known' if why else 'DIFFERENT'}: {name}{': ' + why if why else ''}")
        if not why:
            print(f"  spark: {json.dumps(sparks[name])[:1500]}\n  ours:  {json.dumps(ours[name])[:1500]}")
    rows = sum(len(outcome.get("rows", [])) for outcome in sparks.values())
    refused = sum("error" in outcome for outcome in sparks.values())
    bad = [name for name in different if name not in KNOWN]
    print(f"kafka compare: {len(sparks)} cases, {rows} rows, {refused} refusals: {len(sparks) - len(different)} the same, {len(bad)} different")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
