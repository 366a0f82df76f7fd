-- Query 13 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
SELECT c_count, COUNT(*) AS custdist
FROM (
    SELECT c.c_custkey AS c_custkey,
        COUNT(o.o_orderkey) AS c_count
    FROM customer c, orders o
    WHERE c.c_custkey = o.o_custkey
      AND (o.o_comment NOT LIKE '%special%requests%')
    GROUP BY c.c_custkey
) c_orders
GROUP BY c_count
