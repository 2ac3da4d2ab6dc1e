"""Compares a table and its quarantine with what must be in them, with the deltalake package.

usage: verify_torture.py numbered TABLE N
       verify_torture.py expected TABLES EXPECTED.json [--kept]

`numbered` wants the ids 0..N, each once, with the amount that belongs to them, in the table and in its history. `expected` wants what torture_files.py wrote down; with
--kept the malformed records are in the table's column _corrupt_record and otherwise in the quarantine.
"""

import collections
import glob
import json
import os
import sys
import urllib.parse

import pyarrow.compute as pc
from deltalake import DeltaTable


def numbered(path: str, count: int) -> tuple[str, list[str]]:
    table = DeltaTable(path).to_pyarrow_table(columns=["id", "amount"])
    rows, ids = table.num_rows, table.column("id")
    amounts = pc.subtract(ids, pc.multiply(pc.divide(ids, 1000), 1000))
    wrong = pc.sum(pc.not_equal(amounts, table.column("amount"))).as_py()
    distinct = pc.count_distinct(ids).as_py()
    ends = pc.min_max(ids).as_py()
    problems = []
    if (rows, distinct, ends) != (count, count, {"min": 0, "max": count - 1}):
        problems.append(f"{rows} rows with {distinct} ids {ends} instead of {count}")
    if wrong != 0:
        problems.append(f"{wrong} rows have the wrong amount")
    added, versions = history(path)
    if added != count:
        problems.append(f"history: {added} rows were added instead of {count}")
    for application, batches in versions.items():
        if batches != sorted(set(batches)):
            problems.append(f"history: batches of {application} repeat or go back: {batches}")
    return f"{count} ids, each once", problems


def history(path: str) -> tuple[int, dict[str, list[int]]]:
    """The rows that the commits of a table's log ever added, and the batches of each application in order."""
    added, versions = 0, collections.defaultdict(list)
    for commit in sorted(glob.glob(os.path.join(path, "_delta_log", "*.json"))):
        with open(commit, encoding="utf-8") as lines:
            for action in map(json.loads, lines):
                added += json.loads(action["add"]["stats"])["numRecords"] if "add" in action else 0
                if "txn" in action:
                    versions[action["txn"]["appId"]].append(action["txn"]["version"])
    return added, versions


def expected(tables: str, wanted_path: str, kept: bool) -> tuple[str, list[str]]:
    with open(wanted_path, encoding="utf-8") as file:
        wanted = json.load(file)
    columns = ["id", "file", "_corrupt_record"] if kept else ["id"]
    table = DeltaTable(os.path.join(tables, "events")).to_pyarrow_table(columns=columns)
    problems = []
    left_out = {(file, reason): count for file, reasons in wanted["left_out"].items() for reason, count in reasons.items()}
    if kept:
        good = table.filter(pc.is_null(table.column("_corrupt_record")))
        bad = table.filter(pc.is_valid(table.column("_corrupt_record")))
        records = collections.Counter(bad.column("file").to_pylist())
        problems += different("kept records", records, {file: sum(reasons.values()) for file, reasons in wanted["records"].items()})
    else:
        good = table
        left_out |= {(file, reason): count for file, reasons in wanted["records"].items() for reason, count in reasons.items()}
    rows = collections.Counter(good.column("id").to_pylist())
    problems += different("rows", rows, collections.Counter(wanted["rows"]))

    found = collections.Counter()
    quarantine = DeltaTable(os.path.join(tables, "_quarantine_events")).to_pyarrow_table(columns=["origin", "reason", "detail"])
    for row in quarantine.to_pylist():
        name = urllib.parse.unquote_to_bytes(row["origin"].rsplit("/", 1)[-1]).decode("utf-8", "surrogateescape")
        found[name, row["reason"]] += 1
        if not row["detail"]:
            problems.append(f"no detail for {name}")
    problems += different("quarantine", found, left_out)
    return f"{len(wanted['rows'])} rows and {quarantine.num_rows} quarantined records, as expected", problems


def different(where: str, found: dict, wanted: dict) -> list[str]:
    keys = [key for key in {**found, **wanted} if found.get(key, 0) != wanted.get(key, 0)]
    return [f"{where}: {key!r} {found.get(key, 0)} instead of {wanted.get(key, 0)} times" for key in keys[:20]]


def main() -> int:
    kind, path, *rest = sys.argv[1:]
    if kind == "numbered":
        verdict, problems = numbered(path, int(rest[0]))
    else:
        verdict, problems = expected(path, rest[0], "--kept" in rest)
    print("\n".join(problems) if problems else verdict)
    return 1 if problems else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of the deltalake package sometimes abort the interpreter while it ends.
    os._exit(code)
