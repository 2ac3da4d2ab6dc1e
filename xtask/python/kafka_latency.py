"""How long a record takes from its producer to the rows that a query on a memory sink shows, when the query had nothing to do before.

usage: kafka_latency.py --broker JARS --binary MILLSTREAM --folder FOLDER
"""

import statistics
import time

from pyspark.sql import SparkSession

from kafka_scene import Scene, arguments, expect, run

RECORDS = 60
# A query that found records only by looking for them four times a second would need 125 ms.
MOST_MS = 100


def measure(spark, scene, name, pause_s):
    """Times in milliseconds, for records that come one by one with this pause."""
    scene.broker.create(name, 3)
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", scene.broker.servers).option("subscribe", name).load()
    query = rows.writeStream.format("memory").queryName(name).option("checkpointLocation", str(scene.folder / f"cp-{name}")).start()
    producer = scene.broker.producer(linger_ms=0)
    seen = spark.table(name)
    times = []
    time.sleep(1)
    for number in range(RECORDS):
        began = time.monotonic()
        producer.produce(name, value=b"%d" % number, partition=number % 3)
        producer.flush()
        while seen.count() <= number:
            expect(time.monotonic() - began < 30, f"{name}: record {number} does not come")
        times.append((time.monotonic() - began) * 1000)
        time.sleep(pause_s)
    expect(query.exception() is None, f"{name}: the query ended with {query.exception()}")
    query.stop()
    return sorted(times[5:])


def main():
    with Scene(arguments()) as scene:
        spark = SparkSession.builder.remote(scene.server.remote).getOrCreate()
        for name, pause_s in [("steady", 0.0), ("seldom", 0.35)]:
            times = measure(spark, scene, name, pause_s)
            median, late = statistics.median(times), times[int(len(times) * 0.95)]
            print(f"kafka latency: a record each {pause_s} s: p50 {median:.1f} ms, p95 {late:.1f} ms, most {times[-1]:.1f} ms")
            expect(median < MOST_MS, f"half of the records took longer than {median:.0f} ms")
    print("kafka latency: all held")


if __name__ == "__main__":
    run(main)
