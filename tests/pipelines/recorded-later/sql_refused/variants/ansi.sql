SET spark.sql.ansi.enabled = false;
CREATE MATERIALIZED VIEW t AS SELECT CAST('x' AS INT) AS a;