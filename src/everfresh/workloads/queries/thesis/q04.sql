-- Query 4 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   'receiveptdate' is receiptdate
SELECT o.o_orderpriority, COUNT(*) AS order_count
FROM orders o
WHERE o.o_orderdate >= DATE '1993-07-01'
  AND o.o_orderdate < DATE '1993-10-01'
  AND (EXISTS (
    SELECT * FROM lineitem l
    WHERE l.l_orderkey = o.o_orderkey
      AND l.l_commitdate < l.l_receiptdate))
GROUP BY o.o_orderpriority
