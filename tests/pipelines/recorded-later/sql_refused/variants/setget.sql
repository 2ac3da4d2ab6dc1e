SET spark.sql.ansi.enabled;
CREATE MATERIALIZED VIEW t AS SELECT 1 AS a;