"""Departures as they arrive, with the names of airlines and airports from files that stand still, into a Delta table."""

from pyspark.sql import functions as F

import session

spark, data, out = session.start(__doc__)

SCHEMA = "scheduled TIMESTAMP, reported TIMESTAMP, carrier STRING, flight INT, origin STRING, dest STRING, dep_delay INT, cancelled BOOLEAN"

airlines = spark.read.option("header", True).schema("carrier STRING, name STRING").csv(f"{data}/airlines.csv")
airports = (
    spark.read.option("header", True)
    .schema("faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING")
    .csv(f"{data}/airports.csv")
)

named = (
    spark.readStream.schema(SCHEMA)
    .option("maxFilesPerTrigger", 10)
    .json(f"{data}/departures")
    .alias("d")
    .join(airlines.alias("a"), F.col("d.carrier") == F.col("a.carrier"), "left")
    .join(airports.alias("p"), F.col("d.dest") == F.col("p.faa"), "left")
    .select(
        "d.scheduled",
        "d.flight",
        "d.origin",
        "d.dest",
        F.col("a.name").alias("airline"),
        F.col("p.name").alias("airport"),
        F.col("p.tzone").alias("zone"),
        F.when(F.col("d.cancelled"), "cancelled").when(F.col("d.dep_delay") > 15, "late").otherwise("in time").alias("outcome"),
    )
)

query = (
    named.writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", f"{out}/checkpoints/named")
    .trigger(availableNow=True)
    .start(f"{out}/named_departures")
)
query.awaitTermination()

spark.read.format("delta").load(f"{out}/named_departures").groupBy("outcome").count().orderBy("outcome").show()
spark.stop()
