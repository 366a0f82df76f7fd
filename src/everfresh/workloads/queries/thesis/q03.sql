-- Query 3 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
SELECT o.o_orderkey,
    o.o_orderdate,
    o.o_shippriority,
    SUM(l_extendedprice * (1 - l_discount)) AS query3
FROM customer c, orders o, lineitem l
WHERE c.c_mktsegment = 'BUILDING'
  AND o.o_custkey = c.c_custkey
  AND l.l_orderkey = o.o_orderkey
  AND o.o_orderdate < DATE '1995-03-15'
  AND l.l_shipdate > DATE '1995-03-15'
GROUP BY o.o_orderkey, o.o_orderdate, o.o_shippriority
