"""Reads every table of the flights demo with the deltalake package and checks the numbers that the data determine.

usage: verify_demo.py LAKE
"""

import os
import sys

from deltalake import DeltaTable


def main() -> int:
    lake = sys.argv[1]
    rows = {}
    for folder, _, _ in os.walk(lake):
        if os.path.isdir(os.path.join(folder, "_delta_log")):
            rows[os.path.relpath(folder, lake)] = DeltaTable(folder).to_pyarrow_table()
    for name, table in sorted(rows.items()):
        print(f"{name}: {table.num_rows} rows, {table.num_columns} columns")

    def table(name):
        found = [table for path, table in rows.items() if path.endswith(name) and "quarantine" not in path]
        assert len(found) == 1, f"{len(found)} tables named {name}"
        return found[0]

    bronze, silver = table("bronze_departures"), table("silver_departures")
    assert bronze.num_rows == 24_951, bronze.num_rows
    assert sum(bronze.column("cancelled").to_pylist()) == 1_261
    assert silver.num_rows == 24_951, silver.num_rows
    assert silver.column("airline").null_count == 0
    gold = table("gold_delays_by_hour")
    assert sum(gold.column("flights").to_pylist()) == 24_951
    assert sum(gold.column("cancelled").to_pylist()) == 1_261
    days = table("gold_cancellations_by_day").to_pylist()
    worst = max(days, key=lambda day: day["cancelled"])
    assert str(worst["day"]) in ("2013-02-08", "2013-02-09"), worst
    quarantined = [table for path, table in rows.items() if "quarantine" in path and "bronze" in path]
    assert len(quarantined) == 1 and quarantined[0].num_rows == 6, [table.num_rows for table in quarantined]
    assert all(quarantined[0].column("reason").to_pylist())
    print("every number is as the data say")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The threads of two native libraries can abort an orderly exit of the interpreter; there is nothing left to tidy up.
    os._exit(code)
