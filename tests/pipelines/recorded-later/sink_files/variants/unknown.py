from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('out3', 'nosuchformat', {'path': '@ROOT@/out3'})
@dp.append_flow(target='out3')
def f3():
    return spark.readStream.table('crossings').select('boat', 'riders')
