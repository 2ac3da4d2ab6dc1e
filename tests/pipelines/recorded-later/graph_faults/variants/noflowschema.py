from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_streaming_table('lonely', schema='a INT')
