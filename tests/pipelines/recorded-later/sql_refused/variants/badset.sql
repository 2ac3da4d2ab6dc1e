SET spark.sql.shuffle.partitions = none;
CREATE MATERIALIZED VIEW t AS SELECT 1 AS a;