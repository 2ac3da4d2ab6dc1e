from pyspark import pipelines as dp
from pyspark.sql.functions import *
dp.create_sink('out4', 'json', {'path': '@ROOT@/out4'})
