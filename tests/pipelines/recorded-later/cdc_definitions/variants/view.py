from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.temporary_view(name='t2')
def z():
    return spark.range(1)
dp.create_auto_cdc_flow(target='t2', source='ch', keys=["id"], sequence_by="seq")
