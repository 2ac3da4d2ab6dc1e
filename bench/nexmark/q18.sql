-- mode: update
SELECT last.* FROM (
  SELECT max_by(struct(auction, bidder, price, dateTime, extra), dateTime) AS last FROM bid GROUP BY bidder, auction
)
