"""Kafka to Delta, exactly once, while the broker is killed, the server is killed, and partitions are added.

usage: kafka_torture.py --broker JARS --binary MILLSTREAM --folder FOLDER --kills N --seed N
"""

import collections
import glob
import json
import os
import random
import subprocess
import sys
import time
import urllib.parse

import pyarrow.parquet as pq
from deltalake import DeltaTable

from kafka_broker import environment_of_client
from kafka_scene import HERE, Scene, arguments, expect, run, size, truth

# What a query may end with while its broker is away.
EXCUSED = ("TimeoutException", "UnknownTopicOrPartition", "cannot be reached", "do not answer", "Cannot fetch record")


def torture(scene, transactional, kills, chance):
    topic = "events-tx" if transactional else "events"
    broker, folder = scene.broker, scene.folder
    broker.create(topic, 2)
    stop, result = folder / f"{topic}.stop", folder / f"{topic}.json"
    words = ["--transactions"] if transactional else []
    with open(folder / f"{topic}.log", "wb") as log:
        feed = subprocess.Popen(
            [sys.executable, str(HERE / "kafka_feed.py"), broker.servers, topic, str(stop), str(result), *words],
            stderr=log, stdout=log, env=environment_of_client())
    table = folder / f"{topic}-table"
    source = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "3000", "minPartitions": "3"}
    if transactional:
        source["kafka.isolation.level"] = "read_committed"
    select = ["partition", "offset", "CAST(value AS STRING) AS value"]
    plan = scene.plan(source, {"path": str(table)}, name=topic, once=False, select=select)
    query = scene.start(plan)
    did, partitions = collections.Counter(), 2
    for kill in range(kills):
        # Records are to flow between kills, however slow the machine is.
        enough, until = size(broker.servers, topic) + 100, time.monotonic() + 90
        while size(broker.servers, topic) < enough and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(chance.random() * 1.5)
        what = chance.choice(["server", "server", "broker", "broker", "both", "partition"])
        if what == "partition" and partitions >= 6:
            what = "broker"
        did[what] += 1
        if what in ("broker", "both"):
            broker.kill()
            time.sleep(chance.random())
        if what in ("server", "both"):
            scene.kill_server(query)
        if what in ("broker", "both"):
            broker.start()
        if what in ("server", "both"):
            scene.server.start()
            query = scene.start(plan)
        if what == "partition":
            partitions += 1
            broker.add_partitions(topic, partitions)
        if query.poll() is not None:
            said, _ = query.communicate()
            last = said.strip().splitlines()[-1] if said.strip() else ""
            expect(any(word in last for word in EXCUSED), f"after {dict(did)} a query ended with {last}")
            query = scene.start(plan)
        print(f"\rkafka torture: {topic}: {kill + 1}/{kills}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    stop.touch()
    expect(feed.wait(180) == 0, f"the feed failed: see {folder / f'{topic}.log'}")
    scene.kill_server(query)
    scene.server.start()
    ended = scene.run({**plan, "once": True})
    expect(ended["error"] is None, f"the last run ended with {ended['error']}")
    there = truth(broker.servers, topic)
    confirmed = json.loads(result.read_text())
    expect(len(confirmed) > 40 * kills, f"only {len(confirmed)} records were sent: see {folder / f'{topic}.log'}")
    ids = collections.Counter(json.loads(value)["id"] for _, _, value in there)
    lost = sorted(set(confirmed) - set(ids))
    expect(not lost, f"the topic itself lacks records that the broker confirmed: {lost[:10]}")
    verify(table, there)
    print(f"kafka torture: {topic}: {len(there)} records of {partitions} partitions, each once, in the table and in its history, after {dict(did)}")


def verify(table, there):
    """The table has every record of the topic once, and so have the files that its commits added."""
    wanted = collections.Counter((partition, offset) for partition, offset, _ in there)
    values = {(partition, offset): value.decode() for partition, offset, value in there}
    columns = ["partition", "offset", "value"]
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=columns).to_pylist()
    compare("table", collections.Counter((row["partition"], row["offset"]) for row in rows), wanted)
    expect(all(values[(row["partition"], row["offset"])] == row["value"] for row in rows), "a row has another value than its record")
    added, batches = collections.Counter(), []
    for commit in sorted(glob.glob(os.path.join(table, "_delta_log", "*.json"))):
        with open(commit, encoding="utf-8") as lines:
            for action in map(json.loads, lines):
                expect("remove" not in action, f"{commit} removes a file")
                if "txn" in action:
                    batches.append(action["txn"]["version"])
                if "add" in action:
                    path = os.path.join(table, urllib.parse.unquote(action["add"]["path"]))
                    added.update((row["partition"], row["offset"]) for row in pq.ParquetFile(path).read(columns[:2]).to_pylist())
    compare("history", added, wanted)
    expect(batches == sorted(set(batches)), f"batches repeat or go back: {batches}")


def compare(where, found, wanted):
    lost, alien = sorted(wanted - found), sorted(found - wanted)
    expect(not lost and not alien, f"{where}: {len(lost)} records lost: {lost[:10]}, {len(alien)} doubled or never sent: {alien[:10]}")


def main():
    given = arguments("kills", "seed")
    chance, kills = random.Random(int(given.seed)), int(given.kills)
    began = time.monotonic()
    with Scene(given) as scene:
        torture(scene, False, kills - kills // 2, chance)
        torture(scene, True, kills // 2, chance)
    print(f"kafka torture: all held ({kills} kills, seed {given.seed}, {time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    run(main)
