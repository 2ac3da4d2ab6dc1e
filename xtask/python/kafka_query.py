"""Runs one streaming query from Kafka on our server, in a process of its own.

usage: kafka_query.py REMOTE JSON

JSON: source (options), sink (format, options), checkpoint, once (bool), select. Prints one line of JSON when it ends: rows and errors.
"""

import json
import sys

from pyspark.sql import SparkSession


def main():
    remote, plan = sys.argv[1], json.loads(sys.argv[2])
    spark = SparkSession.builder.remote(remote).getOrCreate()
    rows = spark.readStream.format("kafka").options(**plan["source"]).load()
    if plan.get("select"):
        rows = rows.selectExpr(*plan["select"])
    writer = rows.writeStream.format(plan["format"]).options(**plan["sink"]).option("checkpointLocation", plan["checkpoint"])
    writer = writer.trigger(availableNow=True) if plan["once"] else writer
    try:
        query = writer.start()
        print("started", flush=True)
        query.awaitTermination()
        failure = query.exception()
        rows = sum(progress.numInputRows for progress in query.recentProgress)
        print(json.dumps({"rows": rows, "error": str(failure)[:2000] if failure else None}), flush=True)
    except Exception as error:  # Whoever started this process decides what an error means.
        print(json.dumps({"rows": 0, "error": f"{type(error).__name__}: {error}"[:2000]}), flush=True)


if __name__ == "__main__":
    main()
