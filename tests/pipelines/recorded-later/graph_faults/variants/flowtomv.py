from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.append_flow(target='m')
def f():
    return spark.readStream.table('crossings')
@dp.materialized_view
def m():
    return spark.range(1)
