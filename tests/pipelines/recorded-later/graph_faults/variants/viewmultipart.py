from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.temporary_view(name='a.v')
def v():
    return spark.range(1)
