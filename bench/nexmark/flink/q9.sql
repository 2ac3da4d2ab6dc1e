SELECT id, auction, bidder, price, bidTime FROM (
  SELECT a.id, b.auction, b.bidder, b.price, b.dateTime AS bidTime,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime ASC) AS place
  FROM auction a, bid b WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
) WHERE place <= 1
