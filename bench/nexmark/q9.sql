-- mode: update
SELECT id, winner.* FROM (
  SELECT a.id, max_by(struct(b.auction, b.bidder, b.price, b.dateTime), struct(b.price, -unix_millis(b.dateTime))) AS winner
  FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id
)
