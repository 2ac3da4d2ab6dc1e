from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('T')
@dp.append_flow(target='t')
def f():
    return spark.readStream.table('crossings')
