"""A listener that writes what happens to a query into a file."""

import json
import os
import threading

from pyspark.sql.streaming import StreamingQueryListener

import session

spark, data, out = session.start(__doc__)
os.makedirs(out, exist_ok=True)
path = f"{out}/listener.json"


class ToFile(StreamingQueryListener):
    """Counts batches and rows, and writes them down when the query ends."""

    def __init__(self):
        self.seen = {"started": [], "batches": 0, "rows": 0, "failed": False}
        self.ended = threading.Event()

    def onQueryStarted(self, event):
        self.seen["started"].append(event.name)

    def onQueryProgress(self, event):
        self.seen["batches"] += 1
        self.seen["rows"] += event.progress.numInputRows

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        self.seen["failed"] = event.exception is not None
        with open(path, "w") as file:
            json.dump(self.seen, file)
        self.ended.set()


listener = ToFile()
spark.streams.addListener(listener)
query = (
    spark.readStream.schema("carrier STRING, flight INT")
    .option("maxFilesPerTrigger", 7)
    .json(f"{data}/departures")
    .writeStream.format("delta")
    .queryName("listened")
    .option("checkpointLocation", f"{out}/checkpoints/listened")
    .trigger(availableNow=True)
    .start(f"{out}/listened")
)
query.awaitTermination()
if not listener.ended.wait(60):
    raise SystemExit("the listener was not told that the query ended")
spark.streams.removeListener(listener)
print(open(path).read())
spark.stop()
