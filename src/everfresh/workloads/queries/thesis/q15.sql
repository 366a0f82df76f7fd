-- Query 15 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   'supkey' is suppkey
SELECT s.s_suppkey, s.s_name, s.s_address, s.s_phone,
    r1.total_revenue AS total_revenue
FROM supplier s,
    (SELECT l.l_suppkey AS supplier_no,
        SUM(l.l_extendedprice * (1 - l.l_discount)) AS total_revenue
     FROM lineitem l
     WHERE l.l_shipdate >= DATE '1996-01-01'
       AND l.l_shipdate < DATE '1996-04-01'
     GROUP BY l.l_suppkey) r1
WHERE s.s_suppkey = r1.supplier_no
  AND (NOT EXISTS (
    SELECT 1
    FROM (SELECT l.l_suppkey,
              SUM(l.l_extendedprice * (1 - l.l_discount)) AS total_revenue
          FROM lineitem l
          WHERE l.l_shipdate >= DATE '1996-01-01'
            AND l.l_shipdate < DATE '1996-04-01'
          GROUP BY l.l_suppkey) AS r2
    WHERE r2.total_revenue > r1.total_revenue))
