-- mode: append
SELECT b.auction, b.price, b.bidder, b.dateTime
FROM bid b JOIN (SELECT max(price) AS top, window AS w FROM bid GROUP BY window(dateTime, '10 seconds')) m
ON b.price = m.top AND b.dateTime BETWEEN m.w.start AND m.w.end
