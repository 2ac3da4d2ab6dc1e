from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view
def a():
    v = spark.version
    return spark.range(1)
