"""State at scale: the same PySpark programs on Millstream and on Spark 4.2, one process per engine, store and task.

    stateful.py --command MILLSTREAM --work DIR --results DIR [--no-spark] [--quick] [--full] [--only keys,sliding,recovery,soak] [--minutes N]

keys      time of a batch of 50,000 rows when the state holds 100 k, 1 M (and with --full 10 M) keys
sliding   processor time of one windowed count at width/slide 1, 6 and 60
recovery  time of a restart with one small batch, and the size of the checkpoint, for the states of `keys`
soak      --minutes of full speed with a steady turnover of keys: memory, state and files of the checkpoint, minute by minute (Millstream alone)
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from engine import STORES, Engine, finish, size_of, told

BATCH_ROWS = 50_000
MEASURED_BATCHES = 12

# --- what runs inside of a child -------------------------------------------------------------------------------------


def counts_by_key(engine: Engine, source: pathlib.Path, checkpoint: pathlib.Path):
    from pyspark.sql import functions as F

    stream = engine.spark.readStream.schema("k BIGINT, v BIGINT").option("maxFilesPerTrigger", 1).parquet(str(source))
    frame = stream.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))


def task_keys(engine: Engine, task: dict) -> dict:
    """A state of that many keys is loaded, then batches of equal size are measured; then the query is started again."""
    source, checkpoint = pathlib.Path(task["input"]), pathlib.Path(task["checkpoint"])
    wall, progress = finish(counts_by_key(engine, source, checkpoint))
    measured = [report for report in progress if report["numInputRows"] == BATCH_ROWS]
    times = [report["durationMs"]["triggerExecution"] for report in measured]
    operator = progress[-1]["stateOperators"][0]
    out = {
        "batch_ms": times,
        "load_s": wall - sum(times) / 1000,
        "state_rows": operator["numRowsTotal"],
        "state_memory_mib": operator["memoryUsedBytes"] / 2**20,
        "rss_mib": engine.memory_mib("VmHWM"),
        "checkpoint_mib": size_of(checkpoint) / 2**20,
    }
    extra = source / "999999.parquet"
    shutil.copy(task["small"], extra)
    try:
        out["restart_s"], again = finish(counts_by_key(engine, source, checkpoint))
        out["restart_batch_ms"] = [report["durationMs"]["triggerExecution"] for report in again if report["numInputRows"]]
    finally:
        extra.unlink()
    return out


def task_sliding(engine: Engine, task: dict) -> dict:
    from pyspark.sql import functions as F

    stream = engine.spark.readStream.schema("k BIGINT, at TIMESTAMP, v BIGINT").option("maxFilesPerTrigger", 2).parquet(task["input"])
    window = F.window("at", "60 seconds", task["slide"])
    frame = stream.withWatermark("at", "5 seconds").groupBy(window, "k").agg(F.count("*").alias("n"), F.max("v").alias("top"))
    cpu = engine.cpu_seconds()
    wall, progress = finish(frame.writeStream.format("noop").outputMode("append").option("checkpointLocation", task["checkpoint"]))
    rows = sum(report["numInputRows"] for report in progress)
    return {"wall_s": wall, "cpu_s": engine.cpu_seconds() - cpu, "rows": rows, "rss_mib": engine.memory_mib("VmHWM")}


def task_soak(engine: Engine, task: dict) -> dict:
    """Writes files as fast as they are read; keys come and go with event time, so the state must stay as it is."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import functions as F

    source, checkpoint = pathlib.Path(task["input"]), pathlib.Path(task["checkpoint"])
    source.mkdir(parents=True)
    stream = engine.spark.readStream.schema("k BIGINT, at TIMESTAMP, v BIGINT").option("maxFilesPerTrigger", 20)
    stream = stream.option("cleanSource", "delete").parquet(str(source))
    frame = stream.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds"), "k").agg(F.count("*"), F.sum("v"))
    query = frame.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(checkpoint)).start()
    ended = threading.Event()

    def produce():
        second = 0
        while not ended.is_set():
            if len(os.listdir(source)) > 60:
                time.sleep(0.01)
                continue
            ids = range(second * 20_000, (second + 1) * 20_000)
            at = pa.array([1_700_000_000_000_000 + second * 1_000_000 + i % 1_000_000 for i in ids], pa.timestamp("us", "UTC"))
            hidden = source / f".{second}"
            pq.write_table(pa.table({"k": pa.array(ids, pa.int64()), "at": at, "v": pa.array(ids, pa.int64())}), hidden)
            hidden.rename(source / f"{second:09}.parquet")
            second += 1

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    samples, started, rows, newest = [], time.monotonic(), 0, -1
    while time.monotonic() - started < task["minutes"] * 60:
        time.sleep(min(60, task["minutes"] * 60 / 10))
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        for report in query.recentProgress:
            report = told(report)
            if report["batchId"] > newest:
                newest, rows, last = report["batchId"], rows + report["numInputRows"], report
        files = [path for path in checkpoint.rglob("*") if path.is_file()]
        samples.append({
            "s": round(time.monotonic() - started),
            "rows": rows,
            "rss_mib": round(engine.memory_mib("VmRSS"), 1),
            "state_rows": last["stateOperators"][0]["numRowsTotal"],
            "state_mib": round(last["stateOperators"][0]["memoryUsedBytes"] / 2**20, 1),
            "checkpoint_files": len(files),
            "checkpoint_mib": round(sum(path.stat().st_size for path in files if path.exists()) / 2**20, 1),
        })
        print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
    ended.set()
    query.stop()
    return {"samples": samples}


def child(task: dict) -> None:
    work = pathlib.Path(tempfile.mkdtemp(prefix="state-", dir=task["work"]))
    task["checkpoint"] = str(work / "checkpoint")
    engine = Engine(task["engine"], task["command"], work, STORES[task["store"]])
    try:
        print(json.dumps({"keys": task_keys, "sliding": task_sliding, "soak": task_soak}[task["task"]](engine, task)), flush=True)
    finally:
        engine.close()
        shutil.rmtree(work, ignore_errors=True)


# --- data ------------------------------------------------------------------------------------------------------------


def write(path: pathlib.Path, columns: dict) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(path)


def keys_data(work: pathlib.Path, keys: int) -> pathlib.Path:
    """First every key once, in files of a million, then files of `BATCH_ROWS` rows whose keys are spread over all of them."""
    import numpy as np

    directory = work / f"keys-{keys}"
    if not (directory / "_done").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for number, first in enumerate(range(0, keys, 1_000_000)):
            ids = np.arange(first, min(first + 1_000_000, keys), dtype=np.int64)
            write(directory / f"{number:06}.parquet", {"k": ids, "v": ids % 97})
        random = np.random.default_rng(keys)
        for number in range(MEASURED_BATCHES):
            ids = random.integers(0, keys, BATCH_ROWS, dtype=np.int64)
            write(directory / f"{100_000 + number}.parquet", {"k": ids, "v": ids % 97})
        (directory / "_done").touch()
    # Files are taken in the order of their times.
    for number, path in enumerate(sorted(directory.glob("*.parquet"))):
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return directory


def sliding_data(work: pathlib.Path, rows: int) -> pathlib.Path:
    import numpy as np
    import pyarrow as pa

    directory = work / f"sliding-{rows}"
    if not (directory / "_done").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        random, files = np.random.default_rng(7), 10
        for number in range(files):
            ids = np.arange(number * rows // files, (number + 1) * rows // files, dtype=np.int64)
            at = 1_700_000_000_000_000 + ids * (600_000_000 // rows) + random.integers(-1_000_000, 1_000_000, len(ids))
            columns = {"k": random.integers(0, 1_000, len(ids), dtype=np.int64), "at": pa.array(at, pa.timestamp("us", "UTC")), "v": ids % 1_009}
            write(directory / f"{number:06}.parquet", columns)
            os.utime(directory / f"{number:06}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
        (directory / "_done").touch()
    return directory


# --- the measuring side ----------------------------------------------------------------------------------------------


def run(options, task: dict) -> dict:
    task |= {"command": options.command, "work": str(options.work)}
    print(f"… {task['engine']} {task['store']} {task['task']} {task.get('label', '')}", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, __file__, "child", json.dumps(task)], stdout=subprocess.PIPE, text=True, check=False)
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not answers:
        return {"error": f"exit status {done.returncode}"}
    return json.loads(answers[-1])


def measure_keys(options, engines) -> list:
    sizes = [10_000, 100_000] if options.quick else [100_000, 1_000_000] + ([10_000_000] if options.full else [])
    small = options.work / "small.parquet"
    import numpy as np

    write(small, {"k": np.arange(10, dtype=np.int64), "v": np.zeros(10, dtype=np.int64)})
    cases = []
    for keys in sizes:
        source = keys_data(options.work, keys)
        for engine in engines:
            for store in options.stores:
                task = {"task": "keys", "engine": engine, "store": store, "input": str(source), "small": str(small), "label": f"{keys} keys"}
                cases.append({"engine": engine, "store": store, "keys": keys} | run(options, task))
    print("\nA batch of 50,000 rows over a state of so many keys (milliseconds, median), and a restart with ten rows")
    print(f"{'engine':<11} {'store':<8} {'keys':>11} {'batch ms':>9} {'of first':>9} {'RSS MiB':>8} {'state MiB':>10} {'checkpoint MiB':>15} {'restart s':>10}")
    first = {}
    for case in cases:
        if "error" in case:
            print(f"{case['engine']:<11} {case['store']:<8} {case['keys']:>11} {case['error']}")
            continue
        batch = statistics.median(case["batch_ms"][2:])
        base = first.setdefault((case["engine"], case["store"]), batch)
        print(
            f"{case['engine']:<11} {case['store']:<8} {case['keys']:>11} {batch:>9.1f} {batch / base:>9.2f} {case['rss_mib']:>8.0f}"
            f" {case['state_memory_mib']:>10.1f} {case['checkpoint_mib']:>15.1f} {case['restart_s']:>10.2f}"
        )
    return cases


def measure_sliding(options, engines) -> list:
    rows = 200_000 if options.quick else 2_000_000
    source, cases = sliding_data(options.work, rows), []
    for slide in [60, 10, 1]:
        for engine in engines:
            for store in options.stores[:1]:
                task = {"task": "sliding", "engine": engine, "store": store, "input": str(source), "slide": f"{slide} seconds"}
                cases.append({"engine": engine, "store": store, "width_over_slide": 60 // slide} | run(options, task | {"label": f"60/{slide}"}))
    print("\nA windowed count and maximum by 1,000 keys, width 60 s, at width/slide 1, 6 and 60")
    print(f"{'engine':<11} {'width/slide':>11} {'CPU s':>8} {'wall s':>8} {'of first':>9} {'RSS MiB':>8}")
    first = {}
    for case in cases:
        if "error" in case:
            print(f"{case['engine']:<11} {case['width_over_slide']:>11} {case['error']}")
            continue
        base = first.setdefault(case["engine"], case["cpu_s"])
        print(
            f"{case['engine']:<11} {case['width_over_slide']:>11} {case['cpu_s']:>8.2f} {case['wall_s']:>8.2f} {case['cpu_s'] / base:>9.2f} {case['rss_mib']:>8.0f}"
        )
    return cases


def measure_soak(options) -> list:
    out = []
    for store in options.stores:
        task = {"task": "soak", "engine": "millstream", "store": store, "minutes": options.minutes, "label": f"{options.minutes} minutes"}
        task["input"] = tempfile.mkdtemp(prefix="soak-", dir=options.work) + "/in"
        case = {"store": store, "minutes": options.minutes} | run(options, task)
        shutil.rmtree(pathlib.Path(task["input"]).parent, ignore_errors=True)
        out.append(case)
        if "error" in case:
            print(f"soak {store}: {case['error']}")
            continue
        print(f"\n{options.minutes} minutes at full speed, keys of ten-second windows, {store} store")
        print(f"{'s':>6} {'rows':>12} {'RSS MiB':>8} {'state rows':>11} {'state MiB':>10} {'files':>6} {'checkpoint MiB':>15}")
        for sample in case["samples"]:
            print(
                f"{sample['s']:>6} {sample['rows']:>12} {sample['rss_mib']:>8} {sample['state_rows']:>11} {sample['state_mib']:>10}"
                f" {sample['checkpoint_files']:>6} {sample['checkpoint_mib']:>15}"
            )
    return out


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        child(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="keys,sliding")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--stores", default="memory,rocksdb")
    options = parser.parse_args()
    options.work, options.stores = options.work.absolute(), options.stores.split(",")
    options.work.mkdir(parents=True, exist_ok=True)
    engines = ["millstream"] if options.no_spark else ["millstream", "spark"]
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {"at": now.isoformat(timespec="seconds"), "quick": options.quick, "load_average_at_start": os.getloadavg()[0]}
    results["cores"], results["commit"] = os.cpu_count(), subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    wanted = options.only.split(",")
    if "keys" in wanted or "recovery" in wanted:
        results["keys"] = measure_keys(options, engines)
    if "sliding" in wanted:
        results["sliding"] = measure_sliding(options, engines)
    if "soak" in wanted:
        results["soak"] = measure_soak(options)
    results["load_average_at_end"] = os.getloadavg()[0]
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"state-{now.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
