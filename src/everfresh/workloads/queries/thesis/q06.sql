-- Query 6 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
SELECT SUM(l.l_extendedprice * l.l_discount) AS revenue
FROM lineitem l
WHERE l.l_shipdate >= DATE '1994-01-01'
  AND l.l_shipdate < DATE '1995-01-01'
  AND (l.l_discount BETWEEN (0.06 - 0.01) AND (0.06 + 0.01))
  AND l.l_quantity < 24
