from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('out2', 'json', {'path': '@ROOT@/out2'})
@dp.append_flow(target='out2')
def f2():
    return spark.read.table('crossings').select('boat', 'riders')
