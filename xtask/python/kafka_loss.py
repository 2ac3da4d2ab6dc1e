"""Records that are gone before they were read: an error with Spark's condition, or a warning, and never silence.

usage: kafka_loss.py --broker JARS --binary MILLSTREAM --folder FOLDER
"""


from deltalake import DeltaTable

from kafka_scene import Scene, arguments, expect, run

SELECT = ["partition", "offset"]


def send(broker, topic, numbers, partition=0):
    producer = broker.producer()
    for number in numbers:
        producer.produce(topic, value=b"%d" % number, partition=partition)
    producer.flush()


def offsets(table):
    return sorted(DeltaTable(str(table)).to_pyarrow_table(columns=["offset"]).column("offset").to_pylist())


def refused(scene, name, plan, condition):
    """Runs a query that must fail. Clients are told that a query failed and in which words, as in Spark; the condition is in the log."""
    said = f'code="{condition}"'
    before = scene.server.log.read_text(errors="replace").count(said)
    ended = scene.run(plan)
    expect(ended["error"] is not None and "Some data may have been lost" in ended["error"], f"{name}: the run gave {ended}")
    expect(scene.server.log.read_text(errors="replace").count(said) > before, f"{name}: expected {condition}, the run gave {ended}")


def case(scene, name, damage, condition, kept):
    """Reads half of a topic, lets something happen to it, and goes on; first strictly, then leniently."""
    topic = name.replace(" ", "-")
    scene.broker.create(topic, 1)
    send(scene.broker, topic, range(50))
    table = scene.folder / topic
    source = {"subscribe": topic, "startingOffsets": "earliest"}
    plan = scene.plan(source, {"path": str(table)}, name=topic, select=SELECT)
    first = scene.run(plan)
    expect(first == {"rows": 50, "error": None}, f"{name}: the first run gave {first}")
    send(scene.broker, topic, range(50, 100))
    damage(topic)
    refused(scene, name, plan, condition)
    expect(offsets(table) == list(range(50)), f"{name}: a failed run changed the table")
    before = scene.server.log.read_text(errors="replace").count("records of Kafka are lost")
    lenient = scene.run({**plan, "source": {**plan["source"], "failOnDataLoss": "false"}})
    expect(lenient["error"] is None, f"{name}: failOnDataLoss=false ended with {lenient}")
    warned = scene.server.log.read_text(errors="replace").count("records of Kafka are lost") - before
    expect(warned > 0, f"{name}: nothing was said about the loss")
    expect(offsets(table) == kept, f"{name}: the table has {offsets(table)}")
    print(f"kafka loss: {name}: {condition}, then {len(kept)} rows and {warned} warning(s)")


def main():
    given = arguments()
    with Scene(given) as scene:
        broker = scene.broker

        def recreate(topic):
            broker.delete(topic)
            broker.create(topic, 1)
            send(broker, topic, range(20))

        case(scene, "records deleted", lambda topic: broker.delete_records(topic, 0, 80),
             "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", [*range(50), *range(80, 100)])
        case(scene, "all records deleted", lambda topic: broker.delete_records(topic, 0, 100),
             "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", list(range(50)))
        case(scene, "topic made anew", recreate, "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", list(range(50)))
        gap_in_time(scene)
    print("kafka loss: all held")


def gap_in_time(scene):
    """A partition that is added and loses records before it is seen does not begin at 0."""
    scene.broker.create("late", 1)
    send(scene.broker, "late", range(5))
    plan = scene.plan({"subscribe": "late", "startingOffsets": "earliest"}, {"path": str(scene.folder / "late")}, name="late", select=SELECT)
    expect(scene.run(plan) == {"rows": 5, "error": None}, "late: the first run failed")
    scene.broker.add_partitions("late", 2)
    send(scene.broker, "late", range(10), partition=1)
    scene.broker.delete_records("late", 1, 4)
    condition = "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    refused(scene, "late", plan, condition)
    print(f"kafka loss: partition that begins late: {condition}")


if __name__ == "__main__":
    run(main)
