from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('t')
dp.create_auto_cdc_flow(target='t', source='ch', keys=["id"], sequence_by="seq", apply_as_deletes="op = 'd'")
