from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view(spark_conf={'spark.sql.shuffle.partitions':'none'})
def a():
    return spark.range(1)
