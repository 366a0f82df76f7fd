-- Query 14 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   LISTMAX(1, x) is GREATEST(1, x)
SELECT (100.00 *
    SUM(CASE WHEN (p.p_type LIKE 'PROMO%') THEN l.l_extendedprice * (1 - l.l_discount) ELSE 0 END) /
    GREATEST(1, SUM(l.l_extendedprice * (1 - l.l_discount)))) AS promo_revenue
FROM lineitem l, part p
WHERE l.l_partkey = p.p_partkey
  AND l.l_shipdate >= DATE '1995-09-01'
  AND l.l_shipdate < DATE '1995-10-01'
