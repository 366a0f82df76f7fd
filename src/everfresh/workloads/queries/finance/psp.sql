-- PSP of the financial workload (thesis, Appendix A.1.2). Deviations from the print:
--   the sum has a name
SELECT SUM(a.price - b.price) AS psp
FROM bids b, asks a
WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1)
  AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)
