from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('t2')
dp.create_auto_cdc_flow(target='t2', source='ch', keys=["id"], sequence_by=create_map("v","seq"))
