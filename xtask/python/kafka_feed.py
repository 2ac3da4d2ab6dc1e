"""Sends numbered records to a topic until it is told to stop, whatever happens to the broker meanwhile.

usage: kafka_feed.py SERVERS TOPIC STOP_FILE RESULT_FILE [--transactions]

With transactions every fifth one is aborted. The result is what the broker has confirmed.
"""

import json
import pathlib
import sys
import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

BATCH = 40
PAUSE_S = 0.02


class Feed:
    def __init__(self, servers, topic, transactions):
        self.servers, self.topic, self.transactions = servers, topic, transactions
        self.confirmed, self.next, self.rounds = [], 0, 0
        self.partitions = 1
        self.producer = None

    def open(self):
        config = {"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 2,
                  "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 1000}
        if self.transactions:
            config["transactional.id"] = "feed"
        else:
            config["message.timeout.ms"] = 300_000
        self.producer = Producer(config)
        if self.transactions:
            self.producer.init_transactions(120)

    def step(self):
        numbers = range(self.next, self.next + BATCH)
        self.next += BATCH
        taken = []

        def heard(error, message, number=None):
            if error is None:
                taken.append(number)

        if self.rounds % 25 == 0:
            self.partitions = len(AdminClient({"bootstrap.servers": self.servers}).list_topics(self.topic, timeout=30).topics[self.topic].partitions) or 1
        self.rounds += 1
        if self.transactions:
            self.producer.begin_transaction()
        for number in numbers:
            while True:
                try:
                    self.producer.produce(
                        self.topic, key=b"%d" % (number % 97), value=json.dumps({"id": number}).encode(), partition=number % self.partitions,
                        on_delivery=lambda error, message, number=number: heard(error, message, number))
                    break
                except BufferError:
                    self.producer.poll(0.1)
        self.producer.poll(0)
        if not self.transactions:
            self.producer.flush(60)
            self.confirmed += taken
        elif self.rounds % 5 == 0:
            self.producer.flush(60)
            self.producer.abort_transaction(60)
        else:
            self.producer.commit_transaction(60)
            self.confirmed += numbers


def main():
    servers, topic, stop, result = sys.argv[1:5]
    feed = Feed(servers, topic, "--transactions" in sys.argv)
    stop = pathlib.Path(stop)
    while not stop.exists():
        try:
            if feed.producer is None:
                feed.open()
            feed.step()
        except KafkaException as error:
            # The outcome is not known: what it sent is in the topic or not, and counts by what is there.
            print(f"feed: {error}", file=sys.stderr, flush=True)
            feed.producer = None
        time.sleep(PAUSE_S)
    if feed.producer is not None:
        feed.producer.flush(60)
    pathlib.Path(result).write_text(json.dumps(feed.confirmed))


if __name__ == "__main__":
    main()
