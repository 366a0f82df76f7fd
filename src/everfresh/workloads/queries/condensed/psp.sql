-- PSP over b(p, v), a(p, v) (thesis, 3.3.2). Deviations from the print:
--   the sum has a name
--   A' and B' are a1 and b1
--   the nested sums are over volumes, as in the calculus of 3.3.2 and in Appendix A.1.2, not over prices
SELECT SUM(a.p - b.p) AS psp
FROM a, b
WHERE b.v > (SELECT SUM(b1.v * 0.0001) FROM b AS b1)
  AND a.v > (SELECT SUM(a1.v * 0.0001) FROM a AS a1)
