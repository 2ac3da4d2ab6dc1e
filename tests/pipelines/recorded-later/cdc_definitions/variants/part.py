from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('t2', partition_cols=['op'], comment='c', table_properties={'a':'b'})
dp.create_auto_cdc_flow(target='t2', source='ch', keys=["id"], sequence_by="seq")
