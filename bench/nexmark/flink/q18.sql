SELECT auction, bidder, price, dateTime, extra FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place FROM bid
) WHERE place <= 1
