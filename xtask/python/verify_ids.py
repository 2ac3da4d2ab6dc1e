"""Counts ids 0..N in a Delta table and in its history, with the deltalake package.

usage: verify_ids.py TABLE N QUARANTINE M

Fails unless every id is in the table exactly once, no id was ever added twice by the commits of its log, and the quarantine table has M different records.
"""

import collections
import glob
import json
import os
import sys
import urllib.parse

import pyarrow.parquet as pq
from deltalake import DeltaTable


def main() -> int:
    table, count = sys.argv[1], int(sys.argv[2])
    wanted = set(range(count))

    now = collections.Counter(DeltaTable(table).to_pyarrow_table(columns=["id"]).column("id").to_pylist())
    problems = describe("table", now, wanted)

    added = collections.Counter()
    commits = sorted(glob.glob(os.path.join(table, "_delta_log", "*.json")))
    batches = collections.defaultdict(list)
    for commit in commits:
        with open(commit, encoding="utf-8") as lines:
            for action in map(json.loads, lines):
                if "remove" in action:
                    problems.append(f"{os.path.basename(commit)} removes {action['remove']['path']}")
                if "txn" in action:
                    batches[action["txn"]["appId"]].append(action["txn"]["version"])
                if "add" in action:
                    path = urllib.parse.unquote(action["add"]["path"])
                    added.update(pq.ParquetFile(os.path.join(table, path)).read(["id"]).column("id").to_pylist())
    problems += describe("history", added, wanted)
    for application, versions in batches.items():
        if versions != sorted(set(versions)):
            problems.append(f"batches of {application} repeat or go back: {versions}")

    quarantine, malformed = sys.argv[3], int(sys.argv[4])
    records = DeltaTable(quarantine).to_pyarrow_table(columns=["origin", "position"]).to_pylist()
    places = {(record["origin"], record["position"]) for record in records}
    if len(records) != malformed or len(places) != malformed:
        problems.append(f"quarantine: {len(records)} records from {len(places)} places instead of {malformed}")

    if problems:
        print("\n".join(problems))
        return 1
    print(f"{count} ids, each once, in the table and in the history of {len(commits)} commits; {malformed} records in the quarantine, each once")
    return 0


def describe(where: str, found: collections.Counter, wanted: set) -> list[str]:
    lost = sorted(wanted - found.keys())
    doubled = sorted(key for key, times in found.items() if times > 1)
    alien = sorted(found.keys() - wanted)
    named = [("lost", lost), ("doubled", doubled), ("never written", alien)]
    return [f"{where}: {len(ids)} ids {what}: {ids[:10]}" for what, ids in named if ids]


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The threads of two native libraries can abort an orderly exit of the interpreter; there is nothing left to tidy up.
    os._exit(code)
