"""Nexmark on Millstream, Spark 4.2 and Flink SQL: the same files, in turn.

    nexmark.py --command MILLSTREAM --generator MILLSTREAM_BENCH --work DIR --results DIR
               [--with spark,flink] [--events 2000000] [--rate 100000] [--query q0,q5] [--runs 3] [--store memory|rocksdb] [--no-check]

Queries are `bench/nexmark/*.sql` (Spark's dialect, unchanged on Millstream and Spark) and `bench/nexmark/flink/*.sql`. First the rows of a small run are
compared between Millstream and Spark, batch by batch in update mode; then every engine reads the same files into a sink that keeps nothing,
with a checkpoint. The first run of each query warms up and does not count. Engines take turns within each query.
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from engine import STORES, Engine, finish, size_of

QUERIES = pathlib.Path(__file__).resolve().parent.parent / "nexmark"
SCHEMA = (
    "event_type INT,"
    " person STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING, city: STRING, state: STRING, dateTime: TIMESTAMP, extra: STRING>,"
    " auction STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT, reserve: BIGINT, dateTime: TIMESTAMP, expires: TIMESTAMP,"
    " seller: BIGINT, category: BIGINT, extra: STRING>,"
    " bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, dateTime: TIMESTAMP, extra: STRING>"
)
FILES, FILES_PER_BATCH = 20, 2


def query_text(name: str) -> tuple:
    head, text = (QUERIES / f"{name}.sql").read_text().split("\n", 1)
    return head.removeprefix("-- mode: "), text


# --- Millstream and Spark ----------------------------------------------------------------------------------------------


def views(engine: Engine, source: str, form: str) -> None:
    from pyspark.sql import functions as F

    events = engine.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH).format(form).load(source)
    for kind, name in enumerate(["person", "auction", "bid"]):
        rows = events.where(F.col("event_type") == kind).select(f"{name}.*")
        rows.withWatermark("dateTime", "4 seconds").createOrReplaceTempView(name)
    engine.spark.range(10_000).select(F.col("id").alias("key"), F.col("id").alias("value")).createOrReplaceTempView("side_input")


def rows_of(engine: Engine, name: str, work: pathlib.Path) -> list:
    mode, text = query_text(name)
    writer = engine.spark.sql(text).writeStream.format("memory").queryName(f"rows_{name}").outputMode(mode)
    finish(writer.option("checkpointLocation", str(work / f"check-{name}")))
    rows = engine.spark.sql(f"SELECT * FROM rows_{name}").collect()
    return sorted(json.dumps(plain(row), default=str) for row in rows)


def plain(value):
    if hasattr(value, "asDict"):
        return [plain(part) for part in value]
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def timed(engine: Engine, name: str, work: pathlib.Path) -> dict:
    mode, text = query_text(name)
    checkpoint = work / f"checkpoint-{name}"
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = engine.spark.sql(text).writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    cpu = engine.cpu_seconds()
    wall, progress = finish(writer)
    batches = [report["durationMs"]["triggerExecution"] for report in progress if report["numInputRows"]]
    state = [operator for report in progress[-1:] for operator in report["stateOperators"]]
    return {
        "wall_s": wall,
        "cpu_s": engine.cpu_seconds() - cpu,
        "rss_mib": engine.memory_mib("VmHWM"),
        "batch_ms": batches,
        "state_rows": sum(operator["numRowsTotal"] for operator in state),
        "state_mib": sum(operator["memoryUsedBytes"] for operator in state) / 2**20,
        "checkpoint_mib": size_of(checkpoint) / 2**20,
    }


def serve(name: str, options: dict) -> None:
    """A child that keeps one engine warm and takes tasks as JSON lines."""
    work = pathlib.Path(tempfile.mkdtemp(prefix=f"nexmark-{name}-", dir=options["work"]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine(name, options["command"], work, STORES[options["store"]])
    try:
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            task = json.loads(line)
            try:
                views(engine, task["source"], task["format"])
                answer = {"rows": rows_of(engine, task["query"], work)} if task["task"] == "rows" else timed(engine, task["query"], work)
            except Exception as error:  # the measuring side decides what a failure means
                answer = {"error": str(error).split("\n")[0][:300]}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        engine.close()
        shutil.rmtree(work, ignore_errors=True)


class Child:
    """An engine in a process of its own."""

    def __init__(self, name: str, options: dict):
        command = [sys.executable, __file__, "serve", name, json.dumps(options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()

    def run(self, task: dict) -> dict:
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the engine ended"}

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


# --- Flink -------------------------------------------------------------------------------------------------------------

FLINK_EVENTS = """CREATE TABLE events (
  event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP(3), expires TIMESTAMP(3),
    seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING>,
  dateTime AS CASE WHEN event_type = 0 THEN person.dateTime WHEN event_type = 1 THEN auction.dateTime ELSE bid.dateTime END,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{source}', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')"""
FLINK_VIEWS = {
    "person": "SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, dateTime, person.extra"
    " FROM events WHERE event_type = 0",
    "auction": "SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, dateTime, auction.expires,"
    " auction.seller, auction.category, auction.extra FROM events WHERE event_type = 1",
    "bid": "SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra FROM events WHERE event_type = 2",
}


def flink(source: str, name: str) -> None:
    """A child that runs one query on Flink's own cluster in this process's JVM; time and memory of the JVM count."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    conf = environment.get_config()
    for key, value in {"parallelism.default": "2", "execution.checkpointing.interval": "10 s", "table.local-time-zone": "UTC"}.items():
        conf.set(key, value)
    environment.execute_sql(FLINK_EVENTS.format(source=source))
    for view, text in FLINK_VIEWS.items():
        environment.execute_sql(f"CREATE TEMPORARY VIEW {view} AS {text}")
    environment.execute_sql(
        "CREATE TABLE side_input (key BIGINT, `value` BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '10000',"
        " 'fields.key.kind' = 'sequence', 'fields.key.start' = '0', 'fields.key.end' = '9999')"
    )
    text = (QUERIES / "flink" / f"{name}.sql").read_text()
    environment.execute_sql(f"CREATE TEMPORARY VIEW result AS {text}")
    columns = environment.from_path("result").get_schema()
    fields = ", ".join(f"`{n}` {t}" for n, t in zip(columns.get_field_names(), map(flink_type, columns.get_field_data_types())))
    environment.execute_sql(f"CREATE TABLE sink ({fields}) WITH ('connector' = 'blackhole')")
    started = time.monotonic()
    environment.execute_sql("INSERT INTO sink SELECT * FROM result").wait()
    print(json.dumps({"wall_s": time.monotonic() - started}), flush=True)


def flink_type(data_type) -> str:
    text = str(data_type._j_data_type.getLogicalType().asSerializableString()) if hasattr(data_type, "_j_data_type") else ""
    if text:
        return text
    from pyflink.table.types import _to_java_data_type

    return _to_java_data_type(data_type).getLogicalType().asSerializableString().replace(" NOT NULL", "")


def run_flink(python: str, source: pathlib.Path, name: str) -> dict:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([python, __file__, "flink", str(source), name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(answers[-1]) | {"cpu_s": cpu, "rss_mib": after.ru_maxrss / 1024}


# --- the measuring side ------------------------------------------------------------------------------------------------


def generate(options, events: int, directory: pathlib.Path) -> dict:
    done = directory / "_facts.json"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        arguments = ["--events", str(events), "--rate", str(options.rate), "--files", str(FILES), "--format", options.format]
        arguments += ["--disorder", str(options.disorder), "--seed", "1"]
        out = subprocess.run([options.generator, "nexmark-data", str(directory), *arguments], stdout=subprocess.PIPE, text=True, check=True)
        done.write_text(out.stdout)
        whole = directory.with_name(directory.name + "-whole")
        shutil.rmtree(whole, ignore_errors=True)
        if options.format == "json" and "flink" in options.engines:
            # Flink reads several files in no order and would call most of their rows late: it gets the same lines as one file.
            whole.mkdir()
            with open(whole / "events.json", "wb") as out:
                for part in sorted(directory.glob("*.json")):
                    if part.name != "_facts.json":
                        out.write(part.read_bytes())
    return json.loads(done.read_text())


def compare(options, children: dict, names: list, source: pathlib.Path) -> dict:
    verdicts = {}
    for name in names:
        rows = {engine: child.run({"task": "rows", "query": name, "source": str(source), "format": options.format}) for engine, child in children.items()}
        errors = {engine: answer["error"] for engine, answer in rows.items() if "error" in answer}
        if errors:
            verdicts[name] = {"same": False, "errors": errors}
        else:
            ours, theirs = (collections.Counter(rows[engine]["rows"]) for engine in ("millstream", "spark"))
            verdicts[name] = {"same": ours == theirs, "rows": sum(ours.values()), "only_millstream": sum((ours - theirs).values()), "only_spark": sum((theirs - ours).values())}
        print(f"check {name}: {verdicts[name]}", file=sys.stderr, flush=True)
    return verdicts


def measure(options, children: dict, names: list, source: pathlib.Path, events: int) -> list:
    cases = []
    for name in names:
        runs = collections.defaultdict(list)
        for turn in range(options.runs + 1):
            for engine, child in children.items():
                answer = child.run({"task": "time", "query": name, "source": str(source), "format": options.format})
                if turn or "error" in answer:
                    runs[engine].append(answer)
            if "flink" in options.engines and turn < max(1, options.runs - 1):
                runs["flink"].append(run_flink(options.flink_python, source.with_name(source.name + "-whole"), name))
        for engine, answers in runs.items():
            errors = [answer["error"] for answer in answers if "error" in answer]
            case = {"query": name, "engine": engine, "runs": answers}
            if errors:
                case["error"] = errors[0]
            else:
                for key in ("wall_s", "cpu_s"):
                    rates = sorted(events / answer[key] for answer in answers)
                    case["events_per_s" if key == "wall_s" else "events_per_cpu_s"] = [statistics.median(rates), rates[0], rates[-1]]
            cases.append(case)
            print(f"{name} {engine}: {case.get('error') or round(case['events_per_cpu_s'][0])} events per CPU-second", file=sys.stderr, flush=True)
    return cases


def table(cases: list, engines: list) -> dict:
    by = {(case["query"], case["engine"]): case for case in cases}
    names = list(dict.fromkeys(case["query"] for case in cases))
    print(f"\n{'query':<6}" + "".join(f" | {engine + ': events/s':>22} {'per CPU-s':>11} {'RSS MiB':>8} {'p50/p99 ms':>14}" for engine in engines) + " | of others, per CPU-s")
    ratios = collections.defaultdict(list)
    for name in names:
        line = f"{name:<6}"
        for engine in engines:
            case = by.get((name, engine), {"error": "not run"})
            if "error" in case:
                line += f" | {case['error'][:58]:>58}"
                continue
            batches = sorted(ms for run in case["runs"] for ms in run.get("batch_ms", []))
            spread = f"{batches[len(batches) // 2]:.0f}/{batches[-1]:.0f}" if batches else ""
            rss = max(run["rss_mib"] for run in case["runs"])
            line += f" | {case['events_per_s'][0]:>22,.0f} {case['events_per_cpu_s'][0]:>11,.0f} {rss:>8.0f} {spread:>14}"
        ours = by.get((name, "millstream"), {})
        for engine in engines[1:]:
            theirs = by.get((name, engine), {})
            if "events_per_cpu_s" in ours and "events_per_cpu_s" in theirs:
                ratio = ours["events_per_cpu_s"][0] / theirs["events_per_cpu_s"][0]
                ratios[engine].append(ratio)
                line += f" | {ratio:>5.1f} x {engine}"
        print(line)
    means = {engine: math.exp(statistics.fmean(map(math.log, values))) for engine, values in ratios.items() if values}
    for engine, mean in means.items():
        print(f"geometric mean over {len(ratios[engine])} queries: {mean:.1f} x {engine}, least {min(ratios[engine]):.1f} x")
    return means


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        return serve(sys.argv[2], json.loads(sys.argv[3]))
    if sys.argv[1:2] == ["flink"]:
        return flink(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--with", dest="others", default="spark")
    parser.add_argument("--flink-python", default=sys.executable)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=100_000)
    parser.add_argument("--disorder", type=int, default=1)
    parser.add_argument("--format", default="json")
    parser.add_argument("--query", default="")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--store", default="memory", choices=list(STORES))
    parser.add_argument("--no-check", action="store_true")
    options = parser.parse_args()
    options.work = options.work.absolute()
    options.work.mkdir(parents=True, exist_ok=True)
    options.engines = ["millstream"] + [engine for engine in options.others.split(",") if engine]
    every = sorted((path.stem for path in QUERIES.glob("*.sql")), key=lambda name: int(name[1:]))
    names = options.query.split(",") if options.query else every
    now = datetime.datetime.now(datetime.timezone.utc)
    results = {"at": now.isoformat(timespec="seconds"), "events": options.events, "rate": options.rate, "disorder": options.disorder, "format": options.format}
    results |= {"store": options.store, "files": FILES, "files_per_batch": FILES_PER_BATCH, "cores": os.cpu_count(), "load_average_at_start": os.getloadavg()[0]}
    results["commit"] = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    name = lambda events: options.work / f"nexmark-{events}-{options.rate}-{options.disorder}-{options.format}"
    results["selectivities"] = generate(options, options.events, name(options.events))
    child_options = {"work": str(options.work), "command": options.command, "store": options.store}
    children = {engine: Child(engine, child_options) for engine in options.engines if engine != "flink"}
    try:
        if not options.no_check and "spark" in children:
            generate(options, 60_000, name(60_000))
            results["check"] = compare(options, children, names, name(60_000))
        results["cases"] = measure(options, children, names, name(options.events), options.events)
    finally:
        for child in children.values():
            child.close()
    results["geometric_means"] = table(results["cases"], options.engines)
    results["load_average_at_end"] = os.getloadavg()[0]
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"nexmark-{now.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
