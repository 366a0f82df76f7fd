-- Query 11 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   'supkey' is suppkey
SELECT p.ps_partkey, SUM(p.value) AS query11
FROM (
    SELECT ps.ps_partkey,
        SUM(ps.ps_supplycost * ps.ps_availqty) AS value
    FROM partsupp ps, supplier s, nation n
    WHERE ps.ps_suppkey = s.s_suppkey
      AND s.s_nationkey = n.n_nationkey
      AND n.n_name = 'GERMANY'
    GROUP BY ps.ps_partkey
) p
WHERE p.value > (
    SELECT SUM(ps.ps_supplycost * ps.ps_availqty) * 0.001
    FROM partsupp ps, supplier s, nation n
    WHERE ps.ps_suppkey = s.s_suppkey
      AND s.s_nationkey = n.n_nationkey
      AND n.n_name = 'GERMANY')
GROUP BY p.ps_partkey
