from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.materialized_view(spark_conf={'spark.sql.ansi.enabled':'false'})
def a():
    return spark.sql("SELECT CAST('x' AS INT) AS k")
@dp.table(spark_conf={'spark.sql.session.timeZone':'Asia/Tokyo'})
def s():
    return spark.readStream.table('crossings').selectExpr('CAST(left_at AS STRING) AS t', 'current_timezone() AS z')
