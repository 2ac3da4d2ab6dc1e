from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('a.out6', 'json', {'path': '@ROOT@/out6'})
@dp.append_flow(target='a.out6')
def f6():
    return spark.readStream.table('crossings').select('boat', 'riders')
