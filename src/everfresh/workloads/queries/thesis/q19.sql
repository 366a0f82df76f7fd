-- Query 19 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   the third disjunct, which is missing in print, is that of the specification
--   a closing parenthesis without its opening one left out
SELECT SUM(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM lineitem l, part p
WHERE
    (
        p.p_partkey = l.l_partkey
        AND p.p_brand = 'Brand#12'
        AND (p.p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'))
        AND l.l_quantity >= 1 AND l.l_quantity <= 1 + 10
        AND (p.p_size BETWEEN 1 AND 5)
        AND (l.l_shipmode IN ('AIR', 'AIR REG'))
        AND l.l_shipinstruct = 'DELIVER IN PERSON'
    )
    OR
    (
        p.p_partkey = l.l_partkey
        AND p.p_brand = 'Brand#23'
        AND (p.p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'))
        AND l.l_quantity >= 10 AND l.l_quantity <= 10 + 10
        AND (p.p_size BETWEEN 1 AND 10)
        AND (l.l_shipmode IN ('AIR', 'AIR REG'))
        AND l.l_shipinstruct = 'DELIVER IN PERSON'
    )
    OR
    (
        p.p_partkey = l.l_partkey
        AND p.p_brand = 'Brand#34'
        AND (p.p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'))
        AND l.l_quantity >= 20 AND l.l_quantity <= 20 + 10
        AND (p.p_size BETWEEN 1 AND 15)
        AND (l.l_shipmode IN ('AIR', 'AIR REG'))
        AND l.l_shipinstruct = 'DELIVER IN PERSON'
    )
