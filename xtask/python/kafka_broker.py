"""An Apache Kafka broker of one's own on loopback, from its jars: started, stopped, killed, and talked to with another client than ours."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

# How long a broker may take to start, on a busy machine.
PATIENCE_S = 90

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.cleaner.backoff.ms=200
log.cleaner.min.cleanable.ratio=0.01
log.initial.task.delay.ms=500
auto.create.topics.enable=false
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """A broker in KRaft mode whose jars are in `jars`, with its data and its log below `folder`."""

    def __init__(self, jars, folder):
        self.classpath = str(pathlib.Path(jars) / "*")
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port, controller = free_ports(2)
        self.properties = self.folder / "server.properties"
        self.properties.write_text(PROPERTIES.format(port=self.port, controller=controller, data=self.folder / "data"))
        self.log = self.folder / "broker.log"
        self.process = None
        self._java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self.properties))

    @property
    def servers(self):
        return f"127.0.0.1:{self.port}"

    def _java(self, *words):
        said = subprocess.run(["java", "-Xmx256m", "-cp", self.classpath, *words], capture_output=True, text=True, check=False)
        if said.returncode != 0:
            raise RuntimeError(f"{words[0]} failed: {said.stdout[-2000:]}{said.stderr[-2000:]}")

    def start(self):
        """Returns once the broker says that it has started."""
        began = self.log.stat().st_size if self.log.exists() else 0
        command = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self.classpath, "kafka.Kafka", str(self.properties)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with open(self.log, "rb") as log:
                log.seek(began)
                if b"Kafka Server started" in log.read():
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the broker did not start: {self.log.read_text(errors='replace')[-3000:]}")

    def kill(self):
        """As a crash would: at once, with nothing tidied up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def _ask(self, request):
        # The client must live until its answers have come.
        admin = AdminClient({"bootstrap.servers": self.servers})
        for future in request(admin).values():
            future.result(30)

    def create(self, topic, partitions=1, **config):
        config = {name.replace("_", "."): str(value) for name, value in config.items()}
        self._ask(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))

    def delete(self, topic):
        self._ask(lambda admin: admin.delete_topics([topic], operation_timeout=20))

    def add_partitions(self, topic, total):
        self._ask(lambda admin: admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, topic, partition, before):
        """Removes every record below the offset `before`."""
        self._ask(lambda admin: admin.delete_records([TopicPartition(topic, partition, before)]))

    def producer(self, **config):
        config = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 2, **config})


def environment_of_client():
    """The PySpark client without the variables of another Spark."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
