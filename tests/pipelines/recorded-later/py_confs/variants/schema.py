from pyspark import pipelines as dp
from pyspark.sql.functions import *
from pyspark.sql.types import *
@dp.materialized_view(schema=StructType().add('id', LongType(), False))
def a():
    return spark.range(2)
@dp.materialized_view(schema='id STRING')
def b():
    return spark.range(2)
