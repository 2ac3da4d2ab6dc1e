-- mode: append
SELECT bidder, count(*) AS n, session_window.start AS starts, session_window.end AS ends
FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')
