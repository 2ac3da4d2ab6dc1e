"""Files as they arrive, into a Delta table partitioned by day, and a count per carrier and day beside it."""

from pyspark.sql import functions as F

import session

spark, data, out = session.start(__doc__)

SCHEMA = """scheduled TIMESTAMP, reported TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
            distance INT, dep_delay INT, arr_delay INT, cancelled BOOLEAN"""

departures = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 8).json(f"{data}/departures")

bronze = (
    departures.withColumn("day", F.to_date("scheduled"))
    .writeStream.format("delta")
    .partitionBy("day")
    .option("checkpointLocation", f"{out}/checkpoints/bronze")
    .trigger(availableNow=True)
    .start(f"{out}/bronze_departures")
)
bronze.awaitTermination()

daily = (
    spark.read.format("delta")
    .load(f"{out}/bronze_departures")
    .groupBy("carrier", "day")
    .agg(
        F.count("*").alias("departures"),
        F.sum(F.col("cancelled").cast("int")).alias("cancelled"),
        F.round(F.avg("dep_delay"), 3).alias("mean_delay"),
    )
)
daily.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(f"{out}/daily_departures")

spark.read.format("delta").load(f"{out}/daily_departures").orderBy(F.desc("departures"), "carrier", "day").show(5)
spark.stop()
