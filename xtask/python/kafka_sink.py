"""The sink under kills: nothing is lost without transactions, nothing is lost or doubled with them.

usage: kafka_sink.py --broker JARS --binary MILLSTREAM --folder FOLDER
"""

import collections
import random
import time

from kafka_scene import Scene, arguments, expect, run, size, truth

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
                # Until it has sent some more: most kills are to come in the middle of a batch or of a commit.
                enough = size(broker.servers, name) + 1 + chance.randrange(600)
                while query.poll() is None and size(broker.servers, name) < enough:
                    time.sleep(0.01)
                time.sleep(chance.random() * 0.05)
                if query.poll() is not None:
                    break
                scene.kill_server(query)
                scene.server.start()
                kills += 1
            expect(kills > 0, f"{name}: everything was sent before the first kill")
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
    run(main)
