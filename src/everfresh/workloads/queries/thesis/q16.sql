-- Query 16 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   'supkey' is suppkey
SELECT p.p_brand, p.p_type, p.p_size,
    COUNT(DISTINCT ps.ps_suppkey) AS supplier_cnt
FROM partsupp ps, part p
WHERE p.p_partkey = ps.ps_partkey
  AND p.p_brand <> 'Brand#45'
  AND (p.p_type NOT LIKE 'MEDIUM POLISHED%')
  AND (p.p_size IN (49, 14, 23, 45, 19, 3, 36, 9))
  AND (ps.ps_suppkey NOT IN (
    SELECT s.s_suppkey FROM supplier s
    WHERE s.s_comment LIKE '%Customer%Complaints%'))
GROUP BY p.p_brand, p.p_type, p.p_size
