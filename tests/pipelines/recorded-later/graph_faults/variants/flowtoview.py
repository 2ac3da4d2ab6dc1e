from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.temporary_view
def v():
    return spark.range(1)
@dp.append_flow(target='v')
def f():
    return spark.readStream.table('crossings')
