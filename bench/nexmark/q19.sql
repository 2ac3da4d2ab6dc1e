-- mode: update
SELECT auction, top10 FROM (
  SELECT auction, max_by(struct(bidder, price, dateTime), price, 10) AS top10 FROM bid GROUP BY auction
)
