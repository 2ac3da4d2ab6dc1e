"""Compares the tables that the programs of examples/pyspark left with those that were recorded: `compare OUT EXPECTED`, `record OUT EXPECTED`."""

import datetime
import decimal
import hashlib
import json
import os
import sys

from deltalake import DeltaTable

SHOWN = 3


def plain(value):
    """A value as JSON has it, the same whoever wrote the table."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, (datetime.date, decimal.Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def table(path):
    """Columns, number of rows, a digest over all rows, and the first of them."""
    delta = DeltaTable(path)
    rows = delta.to_pyarrow_table().to_pylist()
    lines = sorted(json.dumps(plain(row), sort_keys=True) for row in rows)
    columns = {field.name: json.loads(field.type.to_json()) for field in delta.schema().fields}
    return {
        "columns": columns,
        "partitioned_by": delta.metadata().partition_columns,
        "rows": len(lines),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "first": [json.loads(line) for line in lines[:SHOWN]],
    }


def found(out):
    tables = {}
    for name in sorted(os.listdir(out)):
        path = os.path.join(out, name)
        if os.path.isdir(os.path.join(path, "_delta_log")):
            tables[name] = table(path)
        elif name.endswith(".json"):
            with open(path) as file:
                tables[name] = json.load(file)
    return tables


def main():
    what, out, expected = sys.argv[1:]
    tables = found(out)
    if not tables:
        sys.exit(f"there are no tables in {out}")
    place = os.path.join(expected, "tables.json")
    if what == "record":
        os.makedirs(expected, exist_ok=True)
        with open(place, "w") as file:
            json.dump(tables, file, indent=1, sort_keys=True)
            file.write("\n")
        print(f"recorded {len(tables)} tables")
        return
    with open(place) as file:
        wanted = json.load(file)
    wrong = [name for name in sorted(set(tables) | set(wanted)) if tables.get(name) != wanted.get(name)]
    for name in wrong:
        print(f"{name}:\n  expected {json.dumps(wanted.get(name))}\n  found    {json.dumps(tables.get(name))}", file=sys.stderr)
    if wrong:
        sys.exit(f"{len(wrong)} of {len(wanted)} tables differ: {', '.join(wrong)}")
    print(f"examples: {len(wanted)} tables are as Spark wrote them")


main()
