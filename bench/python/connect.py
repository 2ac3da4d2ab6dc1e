"""Start-up and the smallest query over Spark Connect, for Millstream and for Apache Spark's own server beside it.

    connect.py --command BINARY --work FOLDER --results FOLDER [--no-spark] [--quick]

Both are asked by the same PySpark client in the same process, one after the other.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "xtask/python"))

import grpc  # noqa: E402
import pyspark.sql.connect.proto as proto  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub  # noqa: E402

from millstream_server import Server  # noqa: E402

# Starts Spark's server and says when it has answered.
SPARK_START = """
import time
from pyspark.sql import SparkSession
began = time.perf_counter()
spark = SparkSession.builder.remote("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.version
version = time.perf_counter()
spark.sql("SELECT 1").collect()
print((version - began) * 1e3, (time.perf_counter() - began) * 1e3)
"""


def spread(values):
    values = sorted(values)
    at = lambda share: round(values[min(len(values) - 1, int(len(values) * share))], 3)  # noqa: E731
    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "min": at(0), "max": at(1), "count": len(values)}


def version(stub, session_id):
    request = proto.AnalyzePlanRequest(session_id=session_id)
    request.spark_version.SetInParent()
    return stub.AnalyzePlan(request).spark_version.version


def select_one(stub, session_id):
    """What the server needs, without what PySpark needs."""
    request = proto.ExecutePlanRequest(session_id=session_id)
    request.plan.root.sql.query = "SELECT 1"
    return sum(response.HasField("arrow_batch") for response in stub.ExecutePlan(request))


def start_up(arguments):
    """Milliseconds from the start of the process to its first answer, and to the first row of a query."""
    answers, rows, memory = [], [], []
    session_id = "00112233-4455-6677-8899-aabbccddeeff"
    for turn in range(arguments.starts + 1):
        began = time.perf_counter()
        with Server(arguments.command, arguments.work / "start") as server:
            with grpc.insecure_channel(server.address) as channel:
                stub = SparkConnectServiceStub(channel)
                assert version(stub, session_id).startswith("4.")
                answered = time.perf_counter()
                assert select_one(stub, session_id) == 1
                row = time.perf_counter()
                # The first start warms the page cache.
                if turn > 0:
                    answers.append((answered - began) * 1e3)
                    rows.append((row - began) * 1e3)
                    memory.append(server.memory_mib())
    return {"answer_ms": spread(answers), "first_row_ms": spread(rows), "rss_mib": spread(memory)}


def timed(action, count):
    times = []
    for turn in range(count + count // 5 + 10):
        began = time.perf_counter()
        action()
        if turn >= count // 5 + 10:
            times.append((time.perf_counter() - began) * 1e3)
    return spread(times)


def queries(remote, count, server=None):
    """Milliseconds of a call, as PySpark makes it and as the protocol needs it."""
    spark = SparkSession.builder.remote(remote).create()
    frame = spark.sql("SELECT 1")
    client = spark.client
    stub, session_id = client._stub, client._session_id
    user = client._user_id
    request = proto.ExecutePlanRequest(session_id=session_id)
    request.plan.root.sql.query = "SELECT 1"
    if user:
        request.user_context.user_id = user
    results = {}
    before = server.cpu_s() if server else 0
    results["sql('SELECT 1').collect()"] = timed(lambda: spark.sql("SELECT 1").collect(), count)
    if server:
        asked = count + count // 5 + 10
        results["sql('SELECT 1').collect()"]["server_cpu_ms"] = round((server.cpu_s() - before) / asked * 1e3, 3)
    results["frame.collect()"] = timed(frame.collect, count)
    results["range(1).count()"] = timed(lambda: spark.range(1).count(), count)
    results["the call ExecutePlan"] = timed(lambda: list(stub.ExecutePlan(request)), count)
    results["conf.get"] = timed(lambda: spark.conf.get("spark.sql.ansi.enabled"), count)
    # Before its server is gone: a client tries for ten minutes to release what it had.
    spark.stop()
    return results


def spark_start_up(arguments):
    answers, rows = [], []
    script = arguments.work / "spark_start.py"
    script.write_text(SPARK_START)
    for _ in range(2 if arguments.quick else 4):
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
        answered, row = map(float, done.stdout.split()[-2:])
        answers.append(answered)
        rows.append(row)
    return {"answer_ms": spread(answers), "first_row_ms": spread(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    arguments.work = (arguments.work / "connect").absolute()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.starts = 5 if arguments.quick else 20
    count = 100 if arguments.quick else 1000

    results = {"at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "quick": arguments.quick, "cores": os.cpu_count(),
               "load_average": os.getloadavg()[0]}
    results["millstream"] = start_up(arguments)
    with Server(arguments.command, arguments.work / "queries") as server:
        results["millstream"]["queries_ms"] = queries(server.remote, count, server)
    if not arguments.no_spark:
        results["spark"] = spark_start_up(arguments)
        local = SparkSession.builder.remote("local[*]").config("spark.ui.enabled", "false").getOrCreate()
        results["spark"]["queries_ms"] = queries(f"sc://{local.client._builder.endpoint}", count)
        local.stop()
    results["load_average_at_end"] = os.getloadavg()[0]
    show(results)
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{results['at'][:19].replace(':', '-')}-connect.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {path}")


def show(results):
    engines = [engine for engine in ("millstream", "spark") if engine in results]
    print(f"\nSpark Connect, milliseconds at the median (and at p99); load {results['load_average']:.1f} to {results['load_average_at_end']:.1f}"
          f" on {results['cores']} cores")
    print(f"{'':<44}" + "".join(f"{engine:>26}" for engine in engines))

    def line(what, of):
        cells = "".join(f"{of(results[engine])['p50']:>16.2f} ({of(results[engine])['p99']:.1f})".rjust(26) for engine in engines)
        print(f"{what:<44}{cells}")

    line("start of the process to the first answer", lambda engine: engine["answer_ms"])
    line("start of the process to the first row", lambda engine: engine["first_row_ms"])
    for query in results["millstream"]["queries_ms"]:
        line(query, lambda engine, query=query: engine["queries_ms"][query])
    cpu = results["millstream"]["queries_ms"]["sql('SELECT 1').collect()"]["server_cpu_ms"]
    print(f"Millstream's processor time for sql('SELECT 1').collect(): {cpu:.2f} ms; memory after a first query: "
          f"{results['millstream']['rss_mib']['p50']:.0f} MiB")


if __name__ == "__main__":
    main()
