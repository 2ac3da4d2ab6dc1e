SELECT b.auction, b.price, b.bidder, b.dateTime FROM bid b JOIN (
  SELECT MAX(price) AS top, window_end AS ends FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
) m ON b.price = m.top AND b.dateTime BETWEEN m.ends - INTERVAL '10' SECOND AND m.ends
