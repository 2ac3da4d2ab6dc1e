"""Where an example runs: on a server that `--remote` names, else on a Spark of its own with Delta Lake."""

import argparse
import glob
import os

from pyspark.sql import SparkSession

# The release of Delta Lake that runs on Spark 4.2.
DELTA = "io.delta:delta-spark_2.13:4.2.0"


def start(description):
    """The session, the folder of the data, and the folder for tables and checkpoints."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--remote", help="a Spark Connect server, such as sc://127.0.0.1:15002")
    parser.add_argument("--data", default=os.path.join(os.path.dirname(__file__), "../flights/data"), help="the flights")
    parser.add_argument("--out", default="/tmp/millstream-examples", help="where tables and checkpoints go")
    arguments = parser.parse_args()
    name = os.path.basename(os.sys.argv[0])
    if arguments.remote:
        spark = SparkSession.builder.remote(arguments.remote).appName(name).getOrCreate()
    else:
        builder = (
            SparkSession.builder.master("local[2]")
            .appName(name)
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        )
        jars = glob.glob(os.path.join(os.environ.get("DELTA_JARS", ""), "*.jar")) if "DELTA_JARS" in os.environ else []
        spark = (builder.config("spark.jars", ",".join(jars)) if jars else builder.config("spark.jars.packages", DELTA)).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark, os.path.abspath(arguments.data), os.path.abspath(arguments.out)
