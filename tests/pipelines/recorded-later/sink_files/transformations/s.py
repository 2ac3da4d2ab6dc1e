from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('out', 'json', {'path': '@ROOT@/out'})
@dp.append_flow(target='out')
def f():
    return spark.readStream.table('crossings').select('boat', 'riders')
