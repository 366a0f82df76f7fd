-- TPC-H query 18 simplified, over c(ck), o(ck, ok), li(ok, qty) (thesis, 3.3.1). Deviations from the print:
--   the sum has a name
SELECT c.ck, SUM(li.qty) AS qty
FROM c, o, li
WHERE c.ck = o.ck AND o.ok = li.ok
  AND 100 < (SELECT SUM(li1.qty) FROM li AS li1 WHERE li.ok = li1.ok)
GROUP BY c.ck
