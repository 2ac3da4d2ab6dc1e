WITH counts AS (
  SELECT auction, COUNT(*) AS n, window_start, window_end
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end
)
SELECT c.window_start, c.auction, c.n FROM counts c JOIN (
  SELECT MAX(n) AS most, window_start, window_end FROM counts GROUP BY window_start, window_end
) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.most
