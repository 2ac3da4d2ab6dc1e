"""The same query as the example json_to_parquet, run by Apache Spark; and a reader that counts ids as Spark sees them.

usage: spark_json_to_parquet.py run IN OUT CHECKPOINT SCHEMA
       spark_json_to_parquet.py count OUT N
"""

import sys

from pyspark.sql import SparkSession


def main() -> int:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if sys.argv[1] == "run":
        source, target, checkpoint, schema = sys.argv[2:]
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(source)
        query = (
            stream.writeStream.format("parquet")
            .option("path", target)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        print(f"spark: {len(query.recentProgress)} progress reports")
        return 0
    target, count = sys.argv[2], int(sys.argv[3])
    ids = sorted(row.id for row in spark.read.parquet(target).select("id").collect())
    if ids != list(range(count)):
        print(f"spark reads {len(ids)} ids, {len(set(ids))} different, instead of 0..{count}: {ids[:50]}")
        return 1
    print(f"spark reads {count} ids, each once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
