from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.table(format='json', partition_cols=['boat'], comment='c')
def pj():
    return spark.readStream.table('crossings').select('riders','boat')
@dp.table
def fromj():
    return spark.readStream.table('j')
