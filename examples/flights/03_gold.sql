-- Gold: what the dashboard asks for.
CREATE OR REFRESH MATERIALIZED VIEW gold_delays_by_hour
COMMENT 'Delay and cancellations per hour, origin and carrier'
AS SELECT
  date_trunc('hour', scheduled) AS hour, origin, carrier, airline,
  count(*) AS flights,
  count(*) FILTER (WHERE cancelled) AS cancelled,
  round(avg(dep_delay), 1) AS mean_delay_minutes,
  max(dep_delay) AS worst_delay_minutes
FROM silver_departures
GROUP BY date_trunc('hour', scheduled), origin, carrier, airline;

CREATE OR REFRESH MATERIALIZED VIEW gold_cancellations_by_day
COMMENT 'The month at a glance: the blizzard of the 8th stands out'
AS SELECT
  CAST(scheduled AS DATE) AS day,
  count(*) AS flights,
  count(*) FILTER (WHERE cancelled) AS cancelled,
  round(100.0 * count(*) FILTER (WHERE cancelled) / count(*), 1) AS cancelled_percent,
  round(avg(dep_delay), 1) AS mean_delay_minutes
FROM silver_departures
GROUP BY CAST(scheduled AS DATE);
