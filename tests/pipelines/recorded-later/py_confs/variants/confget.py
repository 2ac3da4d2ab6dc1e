from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view
def a():
    return spark.range(1).select(lit(spark.conf.get('spark.sql.session.timeZone')).alias('z'))
