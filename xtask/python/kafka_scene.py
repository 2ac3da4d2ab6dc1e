"""What the scripts about Kafka share: a server, queries on it, and the truth about a topic."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kafka_broker import Broker, environment_of_client
from millstream_server import Server

HERE = pathlib.Path(__file__).parent


def arguments(*more):
    parser = argparse.ArgumentParser()
    for name in ["broker", "binary", "folder", *more]:
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    given.folder = pathlib.Path(given.folder)
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    return given


class Scene:
    """A broker, a server, and a folder."""

    def __init__(self, given):
        self.folder = given.folder
        self.broker = Broker(given.broker, given.folder / "broker")
        self.server = Server(given.binary, given.folder / "server")

    def __enter__(self):
        self.broker.start()
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.broker.stop()

    def plan(self, source, sink, format="delta", name="query", once=True, select=None):
        source = {"kafka.bootstrap.servers": self.broker.servers, **source}
        if format == "kafka":
            sink = {"kafka.bootstrap.servers": self.broker.servers, **sink}
        return {"source": source, "sink": sink, "format": format, "checkpoint": str(self.folder / f"cp-{name}"), "once": once, "select": select}

    def start(self, plan):
        command = [sys.executable, str(HERE / "kafka_query.py"), self.server.remote, json.dumps(plan)]
        with open(self.folder / "queries.log", "ab") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment_of_client(), text=True)

    def kill_server(self, query):
        """Kills the server, and the client that waits for its query: it would go on looking for the server for minutes."""
        self.server.kill()
        query.kill()
        query.communicate()

    def run(self, plan, patience_s=300):
        """Runs a query to its end and returns what it says of itself."""
        query = self.start(plan)
        said, _ = query.communicate(timeout=patience_s)
        lines = said.strip().splitlines()
        if not lines or not lines[-1].startswith("{"):
            raise RuntimeError(f"a query said {said!r}; see {self.folder / 'queries.log'}")
        return json.loads(lines[-1])


def truth(servers, topic, committed=True):
    """Every record of a topic as its readers see it: (partition, offset, value). Read with another client than ours."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "truth", "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted"})
    partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    records, open_partitions = [], set(partitions)
    until = time.monotonic() + 300
    while open_partitions and time.monotonic() < until:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            if message.error().code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(message.error())
            open_partitions.discard(message.partition())
            continue
        records.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    if open_partitions:
        raise RuntimeError(f"the ends of partitions {open_partitions} were not reached")
    return records


def size(servers, topic):
    """How many offsets a topic has used, also for records that are not committed."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "size"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1] for partition in partitions]
    consumer.close()
    return sum(ends)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def run(main):
    """Runs a script to its end and leaves at once: threads of native libraries can hang or abort an orderly exit of the interpreter."""
    status = 0
    try:
        main()
    except AssertionError as error:
        print(f"FAILED: {error}")
        status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
