-- Query 22 of TPC-H as the thesis states it (Appendix A.1.1). Deviations from the print:
--   names with the specification's prefixes; DATE('...') written DATE '...'
--   SUBSTRING(phone, 0, 2) is SUBSTRING(phone, 1, 2): both characters of the country code
--   one closing parenthesis too many left out
SELECT cntrycode,
    COUNT(*) AS numcust,
    SUM(custsale.c_acctbal) AS totalacctbal
FROM (
    SELECT SUBSTRING(c.c_phone, 1, 2) AS cntrycode,
        c.c_acctbal
    FROM customer c
    WHERE (SUBSTRING(c.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
      AND c.c_acctbal > (
        SELECT AVG(c2.c_acctbal)
        FROM customer c2
        WHERE c2.c_acctbal > 0.00
          AND (SUBSTRING(c2.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')))
      AND (NOT EXISTS (
        SELECT * FROM orders o
        WHERE o.o_custkey = c.c_custkey))
) custsale
GROUP BY cntrycode
