from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view(name='@SCHEMA@.qualified')
def a():
    return spark.range(1)
@dp.table(name='@CATALOG@.@SCHEMA@.full')
def b():
    return spark.readStream.table('@CATALOG@.@SCHEMA@.crossings')
