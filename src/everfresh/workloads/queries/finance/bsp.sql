-- BSP of the financial workload (thesis, Appendix A.1.2). Deviations from the print:
--   the sum has a name
--   its name is printed ESP
SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) AS bsp
FROM bids x, bids y
WHERE x.broker_id = y.broker_id
  AND x.t > y.t
GROUP BY x.broker_id
