-- mode: append
SELECT p.id, p.name, p.w.start AS starts
FROM (SELECT id, name, window AS w FROM person GROUP BY id, name, window(dateTime, '10 seconds')) p
JOIN (SELECT seller, window AS w FROM auction GROUP BY seller, window(dateTime, '10 seconds')) a
ON p.id = a.seller AND p.w = a.w
