-- mode: append
WITH counts AS (
  SELECT auction, count(*) AS n, window FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
), hottest AS (
  SELECT window, max(n) AS most, collect_list(struct(auction, n)) AS all FROM counts GROUP BY window
)
SELECT window.start AS starts, item.auction, item.n
FROM hottest LATERAL VIEW explode(filter(all, candidate -> candidate.n = most)) items AS item
