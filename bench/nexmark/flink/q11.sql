SELECT bidder, COUNT(*) AS n, window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end
