-- VWAP of the financial workload (thesis, Appendix A.1.2). Deviations from the print:
--   the sum has a name
--   an empty sum is NULL, as in SQL, where the thesis reads it as 0: orders at the best price do not count
SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) >
      (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)
