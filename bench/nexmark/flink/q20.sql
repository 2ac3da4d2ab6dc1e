SELECT b.auction, b.bidder, b.price, b.channel, b.dateTime, a.itemName, a.seller, a.category
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10
