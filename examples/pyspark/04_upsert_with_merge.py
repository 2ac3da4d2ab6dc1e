"""The newest state of each aircraft, kept in a Delta table by a MERGE for every batch."""

from pyspark.sql import functions as F

import session

spark, data, out = session.start(__doc__)

SCHEMA = "reported TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT, cancelled BOOLEAN"
STATE = "tailnum STRING, seen TIMESTAMP, airport STRING, carrier STRING, flights BIGINT, miles BIGINT"
table = f"{out}/aircraft"

# The table has to be there before the first MERGE.
spark.createDataFrame([], STATE).write.format("delta").mode("ignore").save(table)


def upsert(batch, batch_id):
    """Adds what a batch says of each aircraft to what is known."""
    updates = (
        batch.where("tailnum IS NOT NULL AND NOT cancelled")
        .groupBy("tailnum")
        .agg(
            F.max("reported").alias("seen"),
            F.max_by("dest", F.struct("reported", "flight")).alias("airport"),
            F.max_by("carrier", F.struct("reported", "flight")).alias("carrier"),
            F.count("*").alias("flights"),
            F.sum("distance").alias("miles"),
        )
    )
    updates.createOrReplaceTempView("updates")
    batch.sparkSession.sql(
        f"""
        MERGE INTO delta.`{table}` AS known
        USING updates AS new
        ON known.tailnum = new.tailnum
        WHEN MATCHED AND new.seen > known.seen THEN UPDATE SET
          seen = new.seen, airport = new.airport, carrier = new.carrier,
          flights = known.flights + new.flights, miles = known.miles + new.miles
        WHEN MATCHED THEN UPDATE SET flights = known.flights + new.flights, miles = known.miles + new.miles
        WHEN NOT MATCHED THEN INSERT *
        """
    )


query = (
    spark.readStream.schema(SCHEMA)
    .option("maxFilesPerTrigger", 6)
    .json(f"{data}/departures")
    .writeStream.foreachBatch(upsert)
    .option("checkpointLocation", f"{out}/checkpoints/aircraft")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

# Aircraft that flew only once are of no interest, and New York is written out.
spark.sql(f"DELETE FROM delta.`{table}` WHERE flights = 1")
spark.sql(f"UPDATE delta.`{table}` SET airport = 'New York ' || airport WHERE airport IN ('EWR', 'JFK', 'LGA')")

spark.read.format("delta").load(table).orderBy(F.desc("miles"), "tailnum").show(5)
spark.stop()
