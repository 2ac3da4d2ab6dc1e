from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('out5', 'json', {})
@dp.append_flow(target='out5')
def f5():
    return spark.readStream.table('crossings').select('boat', 'riders')
