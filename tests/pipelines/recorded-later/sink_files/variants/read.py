from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view
def rd():
    return spark.read.table('out')
