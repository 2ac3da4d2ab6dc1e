"""The sink under kills: nothing is lost without transactions, nothing is lost or doubled with them.

usage: kafka_sink.py --broker JARS --binary MILLSTREAM --folder FOLDER
"""

import collections
import os
import random
import sys
import time

from kafka_scene import Scene, arguments, expect, truth

KILLS = 6
RECORDS = 6000


def main():
    given = arguments()
    chance = random.Random(7)
    with Scene(given) as scene:
        broker = scene.broker
        broker.create("in", 2)
        producer = broker.producer()
        for number in range(RECORDS):
            producer.produce("in", key=b"%d" % number, value=b"%d" % number, partition=number % 2)
        producer.flush()
        for name, transactional in [("out", "false"), ("out-tx", "true")]:
            broker.create(name, 3)
            source = {"subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
            sink = {"topic": name, "transactional": transactional, "batchHeader": "batch"}
            plan = scene.plan(source, sink, format="kafka", name=name, once=True, select=["key", "value"])
            kills = 0
            for _ in range(KILLS):
                query = scene.start(plan)
                query.stdout.readline()
                time.sleep(0.1 + chance.random() * 0.5)
                if query.poll() is not None:
                    break
                scene.server.kill()
                query.communicate(timeout=120)
                scene.server.start()
                kills += 1
            ended = scene.run(plan)
            expect(ended["error"] is None, f"{name}: the last run ended with {ended}")
            found = collections.Counter(int(value) for _, _, value in truth(broker.servers, name))
            lost = sorted(set(range(RECORDS)) - found.keys())
            doubled = sum(times - 1 for times in found.values())
            expect(not lost, f"{name}: {len(lost)} records are lost: {lost[:10]}")
            expect(transactional == "false" or doubled == 0, f"{name}: {doubled} records are there more than once")
            print(f"kafka sink: transactional={transactional}: {RECORDS} records after {kills} kills, {doubled} of them sent again")
    print("kafka sink: all held")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
