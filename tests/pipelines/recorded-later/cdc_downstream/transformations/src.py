from pyspark import pipelines as dp
from pyspark.sql.functions import *
@dp.temporary_view
def ch():
    return spark.readStream.schema("id INT, v STRING, n INT, op STRING, seq INT").csv("@ROOT@/input/ch")
