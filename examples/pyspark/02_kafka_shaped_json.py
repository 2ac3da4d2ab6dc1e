"""Records as Kafka gives them, a binary value with JSON inside: those that parse go into one table, the others into a table of their own,
with the text that did not parse."""

from pyspark.sql import functions as F

import session

spark, data, out = session.start(__doc__)

SCHEMA = "scheduled TIMESTAMP, reported TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, rescued STRING"

# With Kafka: spark.readStream.format("kafka").option("kafka.bootstrap.servers", …).option("subscribe", "departures").load()
records = (
    spark.readStream.format("text")
    .option("pathGlobFilter", "2013-02-28*.json*")
    .option("recursiveFileLookup", "true")
    .load(data)
    .select(F.lit(None).cast("binary").alias("key"), F.encode("value", "UTF-8").alias("value"), F.lit("departures").alias("topic"))
)

parsed = records.select(
    F.col("value").cast("string").alias("text"),
    F.from_json(
        F.col("value").cast("string"), SCHEMA, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "rescued"}
    ).alias("record"),
)


def split(batch, batch_id):
    """Both tables get the rows of a batch once, whatever happens between the two writes."""
    batch.persist()
    good = batch.where("record.rescued IS NULL AND record.scheduled IS NOT NULL").select("record.*").drop("rescued")
    bad = batch.where("record.rescued IS NOT NULL OR record.scheduled IS NULL").select(
        "text", F.coalesce("record.carrier", F.lit("?")).alias("carrier")
    )
    for rows, name in ((good, "departures"), (bad, "rescued")):
        writer = rows.write.format("delta").mode("append").option("txnAppId", f"split-{name}").option("txnVersion", batch_id)
        writer.save(f"{out}/json_{name}")
    batch.unpersist()


query = (
    parsed.writeStream.foreachBatch(split)
    .option("checkpointLocation", f"{out}/checkpoints/kafka_shaped")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()

print(spark.read.format("delta").load(f"{out}/json_departures").count(), "records")
spark.read.format("delta").load(f"{out}/json_rescued").orderBy("text").show(truncate=60)
spark.stop()
