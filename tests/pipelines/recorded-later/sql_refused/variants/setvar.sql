SET my.x = 5;
CREATE MATERIALIZED VIEW t AS SELECT '${my.x}' AS a, '${spark:my.y}' AS b, '${my.x' AS c;