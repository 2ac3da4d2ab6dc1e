"""The two engines that run the same PySpark programs: Millstream behind Spark Connect, and Spark 4.2 in a JVM of its own."""

import os
import pathlib
import socket
import subprocess
import time

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {
    "memory": {},
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
}


class Engine:
    """One engine in this process: a session, and the process whose time and memory count."""

    def __init__(self, name: str, command: str, work: pathlib.Path, conf: dict):
        from pyspark.sql import SparkSession

        self.server = None
        if name == "spark":
            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "8g")
            builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.local.dir", str(work / "spark-local"))
        else:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            log = open(work / "server.log", "ab")
            self.server = subprocess.Popen(
                [command, "serve", "--bind", f"127.0.0.1:{port}", "--warehouse", str(work / "warehouse")], stdout=log, stderr=log
            )
            wait_for(port)
            builder = SparkSession.builder.remote(f"sc://127.0.0.1:{port}")
        self.spark = builder.getOrCreate()
        self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        self.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        for key, value in conf.items():
            self.spark.conf.set(key, value)
        if name == "spark":
            self.spark.sparkContext.setLogLevel("ERROR")
            self.pid = self.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        else:
            self.pid = self.server.pid

    def cpu_seconds(self) -> float:
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, field: str) -> float:
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

    def close(self) -> None:
        self.spark.stop()
        if self.server:
            self.server.terminate()
            self.server.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise TimeoutError(f"nothing listens on port {port}")


def finish(writer) -> tuple:
    started = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    wall = time.monotonic() - started
    return wall, [told(report) for report in query.recentProgress]


def told(report) -> dict:
    """What a progress report says, the same for both engines' clients."""
    operators = [{"numRowsTotal": o.numRowsTotal, "memoryUsedBytes": o.memoryUsedBytes} for o in report.stateOperators]
    rows, times = report.numInputRows or 0, dict(report.durationMs)
    return {"batchId": report.batchId, "numInputRows": rows, "durationMs": times, "stateOperators": operators}


def size_of(directory: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
