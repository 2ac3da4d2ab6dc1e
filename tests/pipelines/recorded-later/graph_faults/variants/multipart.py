from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('t')
@dp.append_flow(target='t', name='a.b')
def f():
    return spark.readStream.table('crossings')
