-- Each line is run in DuckDB and here. Rows are compared in order where a line ends in --ordered.
-- joins
SELECT * FROM r, s
SELECT * FROM r JOIN s ON r.b = s.b
SELECT r.*, s.d FROM r INNER JOIN s ON r.b = s.b AND d > 1.5
SELECT * FROM r CROSS JOIN k
SELECT * FROM r LEFT JOIN s ON r.b = s.b
SELECT * FROM r LEFT OUTER JOIN s ON r.b = s.b AND s.d > 2
SELECT * FROM r LEFT JOIN s ON r.b = s.b AND r.a = 1
SELECT * FROM r LEFT JOIN s ON r.b < s.b
SELECT * FROM r LEFT JOIN s ON false
SELECT * FROM r RIGHT JOIN s ON r.b = s.b
SELECT * FROM r FULL JOIN s ON r.b = s.b
SELECT * FROM r FULL OUTER JOIN s ON r.b > s.b AND r.a = 2
SELECT * FROM r JOIN s USING (b)
SELECT * FROM r LEFT JOIN s USING (b)
SELECT * FROM r RIGHT JOIN s USING (b)
SELECT * FROM r FULL JOIN s USING (b)
SELECT b, r.b, s.b FROM r FULL JOIN s USING (b)
SELECT b, r.b, s.b FROM r RIGHT JOIN s USING (b)
SELECT r.*, s.* FROM r FULL JOIN s USING (b)
SELECT * EXCLUDE (b) FROM r FULL JOIN s USING (b)
SELECT * EXCLUDE (r.b) FROM r JOIN s ON r.b = s.b
SELECT * FROM r NATURAL JOIN s
SELECT * FROM r NATURAL JOIN u
SELECT * FROM r NATURAL LEFT JOIN u
SELECT * FROM r NATURAL FULL JOIN u
SELECT * FROM r JOIN u USING (a, c)
SELECT * FROM r JOIN u USING (a) JOIN k USING (a)
SELECT * FROM r FULL JOIN u USING (a) FULL JOIN k USING (a)
SELECT * FROM r LEFT JOIN u USING (a) RIGHT JOIN k USING (a)
SELECT a, count(*), sum(f) FROM r FULL JOIN u USING (a) GROUP BY a
SELECT a FROM r FULL JOIN u USING (a) WHERE a IS NULL OR a > 2 ORDER BY a, r.b --ordered
SELECT * FROM r JOIN (u JOIN k USING (a)) USING (a)
SELECT * FROM (r JOIN u ON r.a = u.a) JOIN k ON k.a = u.a
SELECT * FROM (r JOIN u USING (a)) AS q
SELECT q.x, q.f FROM (r JOIN u USING (a)) AS q (x, y)
SELECT * FROM (r)
SELECT count(*) FROM r JOIN u JOIN k ON u.a = k.a ON r.a = k.a
SELECT count(*) FROM r, s FULL JOIN k ON s.b = k.id
SELECT count(*) FROM r, s LEFT JOIN k ON s.b = k.id, u
SELECT x.a, y.a FROM r x JOIN r y ON x.a < y.a
SELECT x.a, y.b FROM r AS x, r AS y WHERE x.b = y.b AND x.c <> y.c
SELECT r.a, u.a, k.id FROM r, u, k WHERE r.a = u.a AND u.a = k.a
SELECT r.a FROM r SEMI JOIN u ON r.a = u.a
SELECT * FROM r ANTI JOIN u USING (a)
SELECT * FROM r ANTI JOIN s ON r.b = s.b AND s.d > 2
SELECT t1.id, t2.id FROM k t1 LEFT JOIN k t2 ON t1.id = t2.a
SELECT k.id, r.b FROM k LEFT JOIN r ON k.a = r.a WHERE r.b IS NULL
SELECT k.name, count(r.a), count(*) FROM k LEFT JOIN r ON k.a = r.a GROUP BY k.name
SELECT r.a = u.a AS same, r.c || u.c FROM r JOIN u ON r.c = u.c
SELECT * FROM r LEFT JOIN u ON r.a = u.a AND r.c = u.c LEFT JOIN s ON s.b = r.b
SELECT * FROM r JOIN s ON r.b = s.b OR r.a = 3
SELECT * FROM r JOIN s ON r.b IS NOT DISTINCT FROM s.b
SELECT * FROM u JOIN r ON u.a = r.b
SELECT r.b, s.b FROM r JOIN s ON r.b + 0.5 > s.b
SELECT v.a, v.total, k.name FROM v JOIN k ON v.a = k.a
SELECT x.total + y.total FROM v x, v y WHERE x.a = y.a
-- derived tables, VALUES
SELECT * FROM (SELECT a, b FROM r) AS q
SELECT q.x + 1 FROM (SELECT a, b FROM r) AS q (x, y) WHERE y > 10
SELECT * FROM (SELECT a + 1 AS a, b AS b FROM r) q WHERE a > 2
SELECT * FROM (SELECT a, a, b AS a FROM r)
SELECT a_1 FROM (SELECT a, b AS a FROM r) q
SELECT unnamed_subquery.a FROM (SELECT a FROM r)
SELECT x.n, y.m FROM (SELECT a, count(*) AS n FROM r GROUP BY a) x JOIN (SELECT a, max(f) AS m FROM u GROUP BY a) y ON x.a = y.a
SELECT * FROM (SELECT a FROM r) x LEFT JOIN (SELECT a FROM u) y ON x.a = y.a
SELECT sum(n) FROM (SELECT count(*) AS n FROM r GROUP BY a)
SELECT m, count(*) FROM (SELECT max(b) AS m FROM r GROUP BY a) GROUP BY m
SELECT * FROM (SELECT a, b FROM r ORDER BY a, b LIMIT 3)
SELECT a FROM (SELECT a, b FROM r ORDER BY b DESC, a LIMIT 4 OFFSET 1)
SELECT * FROM (SELECT b FROM r ORDER BY a)
SELECT * FROM (SELECT DISTINCT c FROM r ORDER BY c NULLS FIRST LIMIT 2) q
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v
SELECT p, col1 FROM (VALUES (1, 'a'), (2.5, NULL)) v (p)
SELECT * FROM (VALUES (NULL), ('a'), (NULL)) v
SELECT * FROM (VALUES (1::TINYINT), (200), (NULL)) v
SELECT * FROM (VALUES (DATE '2024-01-01'), ('2024-02-01')) v
SELECT r.a, q.n FROM r JOIN (VALUES (1, 'one'), (2, 'two')) AS q (i, n) ON r.a = q.i
VALUES (1, 2), (3, 4)
VALUES (1, 'b'), (3, 'a') ORDER BY 2 --ordered
SELECT * FROM (VALUES (1), (2)), (SELECT 3 AS z)
FROM (SELECT a FROM r) q SELECT q.a
SELECT * FROM ((SELECT a FROM r WHERE a = 1)) q
(SELECT a, b FROM r) ORDER BY b, a LIMIT 3 --ordered
(SELECT a, b FROM r ORDER BY a, b LIMIT 5) ORDER BY b, a LIMIT 2 --ordered
-- common table expressions
WITH q AS (SELECT a, b FROM r WHERE b > 5) SELECT * FROM q
WITH q (x, y) AS (SELECT a, b FROM r) SELECT y, x FROM q
WITH q (x) AS (SELECT a, b FROM r) SELECT b, x FROM q
WITH q AS (SELECT a FROM r) SELECT x.a, y.a FROM q x JOIN q y ON x.a = y.a
WITH q AS (SELECT a FROM r), p AS (SELECT a + 1 AS a FROM q) SELECT q.a, p.a FROM q, p WHERE q.a = p.a
WITH r AS (SELECT a FROM r WHERE a > 1) SELECT * FROM r
WITH q AS (SELECT 1 AS one) SELECT (SELECT one FROM q), a FROM r
WITH q AS (SELECT max(b) AS m FROM r) SELECT a FROM r, q WHERE r.b = q.m
WITH q AS MATERIALIZED (SELECT a FROM r) SELECT count(*) FROM q
WITH q AS (SELECT a FROM r) SELECT * FROM (WITH q AS (SELECT 5 AS five) SELECT * FROM q) z, q
WITH q AS (SELECT a, sum(b) AS t FROM r GROUP BY a) SELECT a FROM q WHERE t = (SELECT max(t) FROM q)
WITH q AS (VALUES (1, 2)) SELECT * FROM q
WITH q AS (SELECT a FROM r UNION SELECT id FROM k) SELECT count(*) FROM q
WITH unused AS (SELECT 1) SELECT a FROM r
SELECT a, (WITH q AS (SELECT r.a + 1 AS n) SELECT n FROM q) FROM r
-- scalar subqueries
SELECT a, (SELECT max(b) FROM s) FROM r
SELECT (SELECT 1), (SELECT NULL), (SELECT 'a' || 'b') AS x
SELECT a, (SELECT sum(d) FROM s WHERE s.b = r.b) FROM r
SELECT a, (SELECT count(*) FROM s WHERE s.b = r.b) FROM r
SELECT a, (SELECT count(*) FROM s WHERE s.b = r.b GROUP BY s.b) FROM r
SELECT a, (SELECT sum(d) FROM s WHERE s.b = r.b GROUP BY s.b) AS t FROM r
SELECT a, (SELECT avg(d) FROM s WHERE s.b < r.b) FROM r
SELECT id, (SELECT name FROM k AS o WHERE o.id = k.a) FROM k
SELECT id, (SELECT name FROM k AS o WHERE o.id = k.id + 1) AS next FROM k
SELECT a FROM r WHERE b > (SELECT min(b) FROM s)
SELECT a FROM r WHERE b > (SELECT avg(b) FROM r AS o WHERE o.a = r.a)
SELECT a FROM r WHERE b = (SELECT max(b) FROM r)
SELECT a FROM r WHERE (SELECT max(b) FROM s) > b OR a IS NULL
SELECT a FROM r WHERE (SELECT true)
SELECT a, CASE WHEN b > (SELECT avg(b) FROM r) THEN 'big' ELSE (SELECT min(c) FROM u) END FROM r
SELECT coalesce((SELECT f FROM u WHERE u.a = r.a), -1) FROM r
SELECT (SELECT max(f) FROM u WHERE u.a = r.a) + 1, -(SELECT count(*) FROM u) FROM r
SELECT sum((SELECT max(f) FROM u WHERE u.a = r.a)) FROM r
SELECT count((SELECT f FROM u WHERE u.a = r.a)) FILTER (WHERE (SELECT count(*) FROM k WHERE k.a = r.a) > 0) FROM r
SELECT a, sum(b) FROM r GROUP BY a HAVING sum(b) > (SELECT min(b) FROM s)
SELECT a, sum(b) FROM r GROUP BY a HAVING sum(b) > (SELECT count(*) FROM u WHERE u.a = r.a)
SELECT a, (SELECT count(*) FROM u WHERE u.a = r.a) FROM r GROUP BY a
SELECT a + 1 AS q, (SELECT count(*) FROM u WHERE u.a = q) FROM r GROUP BY q
SELECT (SELECT max(f) FROM u WHERE u.a = r.a) AS m, count(*) FROM r GROUP BY m
SELECT (SELECT max(f) FROM u WHERE u.a = r.a), count(*) FROM r GROUP BY 1
SELECT (SELECT max(f) FROM u WHERE u.a = r.a), count(*) FROM r GROUP BY (SELECT max(f) FROM u WHERE u.a = r.a)
SELECT (SELECT max(f) FROM u WHERE u.a = r.a) AS m, count(*) FROM r GROUP BY ALL ORDER BY m NULLS FIRST --ordered
SELECT a, b FROM r ORDER BY (SELECT count(*) FROM s WHERE s.b = r.b), a, b --ordered
SELECT a AS q, (SELECT count(*) FROM u WHERE u.a = q) AS n FROM r ORDER BY n, q --ordered
SELECT a FROM r JOIN s ON r.b = (SELECT max(x.b) FROM r AS x WHERE x.b = s.b)
SELECT k.id FROM k LEFT JOIN u ON u.a = (SELECT min(a) FROM r WHERE r.a = k.a)
SELECT a, (SELECT (SELECT max(d) FROM s WHERE s.b = r.b) FROM k WHERE k.id = 1) FROM r
SELECT a, (SELECT count(*) FROM u WHERE u.a = r.a AND f > (SELECT min(f) FROM u AS w WHERE w.c = r.c)) FROM r
SELECT (SELECT r.a + count(*) FROM s) FROM r
SELECT (SELECT sum(r.a + s.b) FROM s) FROM r
SELECT (SELECT count(*) FROM s GROUP BY r.a) FROM r
SELECT (SELECT b FROM s ORDER BY d DESC, b LIMIT 1) FROM r
SELECT a, (SELECT e FROM s WHERE s.b = r.b ORDER BY e DESC LIMIT 1) FROM r
SELECT (SELECT max(b) FROM r LIMIT 1)
SELECT a, (SELECT r.a) FROM r
SELECT (SELECT a) FROM r
SELECT (SELECT 1 UNION SELECT 1), (SELECT 1 EXCEPT SELECT 1), (SELECT a FROM k WHERE id = 1 UNION ALL SELECT id FROM k WHERE id > 9)
SELECT a BETWEEN (SELECT min(a) FROM u) AND (SELECT 2), (SELECT 1) IN (1, 2), a IN (1, (SELECT 2)) FROM r
SELECT (SELECT max(x.b) FROM (SELECT b FROM s WHERE s.b = r.b) x) FROM r
SELECT CAST((SELECT count(*) FROM r) AS VARCHAR) || '!', (SELECT 1) IS NULL, ((SELECT 3))
SELECT a FROM r WHERE a = (SELECT a FROM r WHERE false)
SELECT DISTINCT (SELECT count(*) FROM s WHERE s.b = r.b) AS n FROM r
SELECT (SELECT count(*) FROM r, s), (SELECT count(*) FROM r a1, s JOIN k ON s.b = k.id), (SELECT count(*) FROM r FULL JOIN s ON r.b = s.b)
SELECT (SELECT count(DISTINCT a) FROM r WHERE b IN (10, 20) AND c LIKE 'x%'), (SELECT max(q) FROM (SELECT a AS q FROM r) AS z), (FROM r SELECT min(a))
-- EXISTS, IN, ANY, ALL
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a)
SELECT a FROM r WHERE NOT EXISTS (SELECT * FROM u WHERE u.a = r.a)
SELECT a, EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND d > 2), NOT EXISTS (SELECT 1) FROM r
SELECT EXISTS (SELECT 1 FROM r WHERE a = 99), EXISTS (FROM r), EXISTS (VALUES (1))
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND EXISTS (SELECT 1 FROM u WHERE u.a = r.a))
SELECT a FROM r WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = r.a)
SELECT a FROM r WHERE EXISTS (SELECT a FROM u GROUP BY a HAVING count(*) > 1)
SELECT a FROM r WHERE a IN (SELECT a FROM u)
SELECT a FROM r WHERE a NOT IN (SELECT a FROM u)
SELECT a FROM r WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)
SELECT a FROM r WHERE a NOT IN (SELECT a FROM u WHERE false)
SELECT a, a IN (SELECT a FROM u), a NOT IN (SELECT a FROM u), NOT (a IN (SELECT a FROM u)) FROM r
SELECT a, a IN (SELECT a FROM u WHERE u.c = r.c), a NOT IN (SELECT a FROM u WHERE u.c = r.c) FROM r
SELECT a, b = ANY (SELECT b FROM s), b <> ANY (SELECT b FROM s), b < SOME (SELECT b FROM s) FROM r
SELECT a, b = ALL (SELECT b FROM s), b <> ALL (SELECT b FROM s), b < ALL (SELECT b FROM s), b >= ALL (SELECT b FROM s WHERE b IS NOT NULL) FROM r
SELECT b > ALL (SELECT b FROM s WHERE s.b < r.b), b <= ALL (SELECT b FROM s WHERE false), b > ANY (SELECT b FROM s WHERE false) FROM r
SELECT NOT b > ALL (SELECT b FROM s), NOT b = ANY (SELECT b FROM s) FROM r
SELECT a FROM r WHERE b IN (SELECT d FROM s)
SELECT b IN (SELECT f FROM u), 10 IN (SELECT b FROM s), NULL IN (SELECT b FROM s), '10' IN (SELECT b FROM s) FROM r
SELECT a FROM r WHERE (a, c) IN (SELECT a, c FROM u)
SELECT a, c, (a, c) IN (SELECT a, c FROM u), (a, c) NOT IN (SELECT a, c FROM u) FROM r
SELECT (a, b) = ANY (SELECT a, id FROM k), (a, c) <> ALL (SELECT a, c FROM u) FROM r
SELECT (3, 2) NOT IN (SELECT 1, NULL), (1, 2) NOT IN (SELECT 1, NULL)
SELECT (a, b) IN ((1, 10), (2, NULL)), (a, b) NOT IN ((1, 10)), (a, b) = (2, NULL), (a, b) <> (1, 10) FROM r
SELECT a FROM r WHERE a IN (SELECT a FROM u UNION SELECT id FROM k)
SELECT a FROM r WHERE a IN (VALUES (1), (3))
SELECT a FROM r WHERE a IN ((SELECT a FROM u))
SELECT a, count(*) FROM r GROUP BY a HAVING a IN (SELECT a FROM u) OR count(*) IN (SELECT id FROM k)
SELECT a, sum(b) IN (SELECT b FROM s) FROM r GROUP BY a
SELECT a FROM r WHERE b IN (SELECT b FROM s WHERE s.b = r.b ORDER BY d LIMIT 1)
SELECT r.a FROM r JOIN u ON r.a = u.a AND u.c IN (SELECT c FROM r)
SELECT CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = r.a) THEN 'yes' ELSE 'no' END, a IN (SELECT a FROM u) IS NULL FROM r
SELECT count(*) FILTER (WHERE a IN (SELECT a FROM u)), sum(CASE WHEN EXISTS (SELECT 1 FROM k WHERE k.a = r.a) THEN b END) FROM r
SELECT a IN (SELECT a FROM u) AS q, count(*) FROM r GROUP BY q
SELECT a FROM r WHERE a IN (SELECT max(a) FROM u GROUP BY c)
SELECT a FROM r WHERE NOT (a IN (SELECT a FROM u) AND b > ALL (SELECT b FROM s WHERE s.b = r.b))
-- set operations, DISTINCT
SELECT a FROM r UNION SELECT a FROM u
SELECT a FROM r UNION ALL SELECT a FROM u
SELECT a FROM r INTERSECT SELECT a FROM u
SELECT a FROM r INTERSECT ALL SELECT a FROM r
SELECT a FROM r EXCEPT SELECT a FROM u
SELECT a FROM r EXCEPT ALL SELECT a FROM u
SELECT a, b FROM r UNION SELECT a, id FROM k
SELECT a AS x, c FROM r UNION SELECT a, c FROM u ORDER BY x, c NULLS FIRST --ordered
SELECT a AS x, c FROM r UNION SELECT a, c AS z FROM u ORDER BY z, 1 DESC LIMIT 4 --ordered
SELECT a FROM r UNION ALL SELECT a FROM u ORDER BY a NULLS FIRST LIMIT 5 OFFSET 2 --ordered
SELECT a AS x FROM r UNION SELECT a FROM u ORDER BY -x --ordered
SELECT a + 1 FROM r UNION SELECT a FROM u ORDER BY a + 1 DESC --ordered
SELECT a FROM r UNION SELECT a FROM u INTERSECT SELECT id FROM k
(SELECT a FROM r UNION SELECT a FROM u) INTERSECT SELECT id FROM k
SELECT a FROM r EXCEPT (SELECT a FROM u EXCEPT SELECT id FROM k)
SELECT a FROM r UNION ALL SELECT b FROM r UNION SELECT id FROM k
SELECT a FROM r UNION SELECT d FROM s
SELECT a FROM r UNION ALL SELECT c FROM r
SELECT a FROM u UNION SELECT f FROM u
SELECT e FROM s UNION SELECT TIMESTAMP '2024-01-01 10:00:00'
SELECT e FROM s UNION SELECT '2024-01-01'
SELECT NULL UNION ALL SELECT a FROM r
SELECT NULL AS n UNION ALL SELECT NULL
SELECT a, NULL FROM r UNION ALL SELECT NULL, c FROM u
SELECT g FROM u UNION SELECT a FROM r
SELECT a FROM u UNION SELECT 1
SELECT 1 AS a, 2 AS a UNION SELECT 3, 4
SELECT max(a) FROM r UNION ALL SELECT count(*) FROM u
SELECT a, count(*) FROM r GROUP BY a UNION SELECT a, count(*) FROM u GROUP BY a
(SELECT a FROM r ORDER BY a LIMIT 2) UNION ALL (SELECT a FROM u ORDER BY a DESC LIMIT 1)
SELECT x.a, count(*) FROM (SELECT a FROM r UNION ALL SELECT a FROM u) x GROUP BY x.a
SELECT a FROM r WHERE a IN (SELECT a FROM u EXCEPT SELECT id FROM k)
WITH q AS (SELECT a FROM r EXCEPT SELECT 1) SELECT * FROM q UNION ALL SELECT * FROM q
SELECT id FROM k UNION SELECT id + 1 FROM k
SELECT DISTINCT a FROM r
SELECT DISTINCT r.a, u.c FROM r JOIN u ON r.a = u.a ORDER BY 1, 2 --ordered
SELECT DISTINCT a, count(*) FROM r GROUP BY a, c
SELECT count(*) FROM (SELECT DISTINCT a, b FROM r)
SELECT DISTINCT * FROM r
-- aggregates
SELECT min(a), max(a), min(c), max(c), min(b), max(b) FROM r
SELECT min(d), max(d), min(e), max(e), min(d + 1) FROM s
SELECT min(f), max(f), min(g), max(g), min(NULL), max(NULL) FROM u
SELECT a, min(b), max(c) FROM r GROUP BY a
SELECT count(DISTINCT a), sum(DISTINCT a), avg(DISTINCT b), min(DISTINCT a), max(DISTINCT c) FROM r
SELECT a, count(DISTINCT b), count(DISTINCT c), sum(DISTINCT b) FROM r GROUP BY a
SELECT count(DISTINCT (a, b)) FROM r
SELECT count(DISTINCT a) FILTER (WHERE b > 10), sum(DISTINCT b) FILTER (WHERE c = 'x') FROM r
SELECT stddev(b), stddev_samp(b), stddev_pop(b), variance(b), var_samp(b), var_pop(b) FROM r
SELECT stddev(d), var_pop(d), stddev(f), variance(f), STDDEV_POP(a) FROM s, u
SELECT a, stddev(b), var_pop(b) FROM r GROUP BY a
SELECT stddev(NULL), var_pop(NULL), stddev(a) FILTER (WHERE a > 100) FROM r
SELECT stddev(DISTINCT b), var_samp(DISTINCT a) FROM r
SELECT bool_and(g), bool_or(g), bool_and(f > 0), bool_or(a = 7), bool_and(NULL) FROM u
SELECT c, bool_and(g), bool_or(g), bool_or(g) FILTER (WHERE f > 1) FROM u GROUP BY c
SELECT min(a) FILTER (WHERE b = 10), max(b) FILTER (WHERE false) FROM r
SELECT max(a) - min(a), max(b) / count(*), min(a + b) FROM r
SELECT a FROM r GROUP BY a HAVING max(b) > 10 AND min(c) IS NOT NULL
SELECT a FROM r GROUP BY a ORDER BY max(b) DESC NULLS LAST, a LIMIT 3 --ordered
SELECT r.a, sum(s.d), count(s.b), min(s.e) FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a
SELECT r.c, u.c, count(*) FROM r JOIN u USING (a) GROUP BY ALL
SELECT a, b, count(*) FROM r GROUP BY (a, b)
SELECT sum(d) AS t, e FROM s GROUP BY e HAVING t > 1 ORDER BY t, e --ordered
SELECT max(a) FROM r WHERE false
SELECT count(*) FROM r HAVING max(a) > 100
SELECT a % 2 AS p, max(b) FROM r GROUP BY p HAVING p IS NOT NULL
SELECT sum(r.a * u.f), avg(r.b + u.f) FROM r JOIN u ON r.c = u.c
-- windows
SELECT a, b, sum(b) OVER () FROM r
SELECT a, b, sum(b) OVER (PARTITION BY a), count(*) OVER (PARTITION BY a), avg(b) OVER (PARTITION BY c) FROM r
SELECT id, row_number() OVER (ORDER BY id), rank() OVER (ORDER BY a), dense_rank() OVER (ORDER BY a DESC) FROM k
SELECT id, lag(name) OVER (ORDER BY id), lead(id, 2) OVER (ORDER BY id), lag(id, 1, 0) OVER (ORDER BY id DESC) FROM k
SELECT id, lag(id, -1) OVER (ORDER BY id), lag(id, 0) OVER (ORDER BY id), lead(id, NULL) OVER (ORDER BY id), lag(id, id, -1) OVER (ORDER BY id) FROM k
SELECT id, lag(id, 1, 1.5) OVER (ORDER BY id), lag(name, 1, 'none') OVER (PARTITION BY a ORDER BY id) FROM k
SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b), dense_rank() OVER (ORDER BY a NULLS FIRST) FROM r
SELECT b, sum(a) OVER (ORDER BY b), count(*) OVER (ORDER BY b), min(a) OVER (ORDER BY b DESC) FROM r
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), sum(id) OVER (ORDER BY id ROWS 2 PRECEDING) FROM k
SELECT id, max(a) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), count(*) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 + 1 FOLLOWING) FROM k
SELECT id, avg(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), sum(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM k
SELECT b, sum(b) OVER (ORDER BY b RANGE BETWEEN 10 PRECEDING AND CURRENT ROW), count(*) OVER (ORDER BY b DESC RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING) FROM r
SELECT d, count(*) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND 0.75 FOLLOWING), sum(d) OVER (ORDER BY d RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM s
SELECT e, count(*) OVER (ORDER BY e RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS n FROM s
SELECT b, count(*) OVER (ORDER BY b RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), count(*) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM r
SELECT id, first_value(name) OVER (ORDER BY id), last_value(name) OVER (ORDER BY id), last_value(name) OVER (PARTITION BY a ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM k
SELECT id, sum(id) OVER w, rank() OVER (w ORDER BY id) FROM k WINDOW w AS (PARTITION BY a)
SELECT id, count(*) OVER w2 FROM k WINDOW w AS (PARTITION BY a), w2 AS (w ORDER BY id)
SELECT id FROM k QUALIFY row_number() OVER (PARTITION BY a ORDER BY id) = 1
SELECT id, row_number() OVER (ORDER BY id DESC) AS rn FROM k QUALIFY rn <= 2
SELECT id, name FROM k WHERE id > 1 QUALIFY count(*) OVER () = 3
SELECT a, sum(b), sum(sum(b)) OVER (ORDER BY a), rank() OVER (ORDER BY sum(b) DESC) FROM r GROUP BY a
SELECT a, count(*) AS n FROM r GROUP BY a QUALIFY rank() OVER (ORDER BY n DESC) = 1
SELECT a, count(*) FROM r GROUP BY a HAVING count(*) > 1 QUALIFY row_number() OVER (ORDER BY a) = 1
SELECT b, sum(b) FILTER (WHERE a > 1) OVER (ORDER BY b), count(*) FILTER (WHERE a = 1) OVER () FROM r
SELECT id, stddev(id) OVER (ORDER BY id), bool_or(id > 2) OVER (ORDER BY id), var_pop(id) OVER () FROM k
SELECT id FROM k ORDER BY row_number() OVER (ORDER BY a NULLS FIRST, id DESC) --ordered
SELECT DISTINCT count(*) OVER (PARTITION BY a) FROM r
SELECT a AS q, sum(b) OVER (PARTITION BY q) FROM r
SELECT sum(b) OVER (ORDER BY 1), rank() OVER () FROM r
SELECT id, row_number() OVER (ORDER BY id) + 1, -(rank() OVER (ORDER BY id)) FROM k
SELECT k.id, sum(r.b) OVER (PARTITION BY k.id) FROM k LEFT JOIN r ON k.a = r.a
SELECT id, (SELECT max(x.rn) FROM (SELECT row_number() OVER (ORDER BY id) AS rn FROM k) x) FROM k
SELECT * FROM (SELECT id, rank() OVER (ORDER BY a) AS pos FROM k) WHERE pos = 1
SELECT id, sum((SELECT count(*) FROM r WHERE r.a = k.id)) OVER (ORDER BY id) FROM k
SELECT id, rank() OVER (ORDER BY id) IN (SELECT a FROM u) FROM k
SELECT a, max(count(*)) OVER () FROM r GROUP BY a ORDER BY a --ordered
SELECT id, count(*) OVER (ORDER BY id ROWS CURRENT ROW), sum(id) OVER (PARTITION BY a, name ORDER BY id DESC NULLS FIRST, name ASC) FROM k
SELECT id FROM k UNION ALL SELECT row_number() OVER (ORDER BY id) FROM k
-- nesting
SELECT x.a FROM (SELECT a FROM r WHERE a IN (SELECT a FROM u)) x LEFT JOIN k ON k.a = x.a WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b = k.id)
SELECT c, (SELECT count(*) FROM r AS x WHERE x.c = r.c AND x.a > ALL (SELECT a FROM u WHERE u.c = x.c)) AS n FROM r GROUP BY c HAVING count(*) >= (SELECT min(id) FROM k)
SELECT a FROM r WHERE (SELECT count(*) FROM (SELECT DISTINCT c FROM u WHERE u.a = r.a) z) > 0
SELECT o.a, o.n FROM (SELECT a, count(*) AS n FROM r GROUP BY a) o WHERE o.n = (SELECT max(n) FROM (SELECT a, count(*) AS n FROM r GROUP BY a) i WHERE i.a >= o.a)
SELECT a FROM r WHERE a = ANY (SELECT a FROM u WHERE f > (SELECT avg(f) FROM u w WHERE w.g = u.g))
SELECT a, b FROM r WHERE b IN (SELECT b FROM s WHERE d > (SELECT avg(d) FROM s) OR EXISTS (SELECT 1 FROM u WHERE u.a = r.a AND u.f < s.d))
-- lateral joins
SELECT k.id, t.d FROM k, LATERAL (SELECT d FROM s WHERE s.b = k.a * 10) t
SELECT r.a, t.n, t.m FROM r, (SELECT count(*) AS n, max(f) AS m FROM u WHERE u.a = r.a) t
SELECT r.b, t.d FROM r LEFT JOIN LATERAL (SELECT d FROM s WHERE s.b <= r.b ORDER BY d DESC NULLS LAST, e LIMIT 1) t ON true
SELECT r.a, t.x, v.c FROM r CROSS JOIN LATERAL (SELECT r.a + r.b AS x) t LEFT JOIN LATERAL (SELECT DISTINCT c FROM u WHERE u.a < t.x) v ON v.c <> r.c
SELECT k.id, t.q FROM k JOIN LATERAL (SELECT b AS q FROM s WHERE s.b > k.id EXCEPT SELECT k.a) t ON t.q IS NOT NULL
SELECT id FROM k WHERE EXISTS (SELECT 1 FROM u, LATERAL (SELECT u.a + k.id AS z) t WHERE t.z > 4)
SELECT k.id, t.n FROM k, LATERAL (SELECT u.g, count(*) AS n, row_number() OVER (ORDER BY u.g NULLS FIRST) AS rn FROM u LEFT JOIN r ON r.a = k.a AND r.c = u.c GROUP BY u.g) t WHERE t.rn = 1
SELECT a.id, t.x, w.y FROM k a FULL JOIN k b ON a.a = b.id, LATERAL (SELECT a.id + b.id AS x) t, LATERAL (VALUES (t.x), (b.a)) w(y)
-- lists taken apart
SELECT * FROM r, UNNEST([a, b]) AS l(x)
SELECT a, n.unnest, m FROM r, UNNEST([a, NULL, b]) n, UNNEST([c]) m WHERE n IS NOT NULL
SELECT id, x, o FROM k LEFT JOIN UNNEST(CASE WHEN a > 1 THEN [a, id] END) WITH ORDINALITY l(x, o) ON TRUE
SELECT id, x FROM k LEFT JOIN UNNEST([a, id]) l(x) ON x > 1
SELECT UNNEST([a, b]) AS x, UNNEST([c]), a + 1 FROM r
SELECT UNNEST([a, b]) AS x, count(*) FROM r GROUP BY x
SELECT c, UNNEST([min(b), max(b)]) AS m, count(*) FROM r GROUP BY c ORDER BY c NULLS FIRST, m NULLS FIRST --ordered
SELECT DISTINCT UNNEST([a, b]) FROM r
SELECT id, UNNEST(range(id)) + 1, row_number() OVER (ORDER BY id DESC) FROM k
SELECT UNNEST([3, 1, 2]) AS x ORDER BY x DESC LIMIT 2 --ordered
SELECT UNNEST({'p': id, 'q': name}), id FROM k
SELECT l.p, t.l FROM (SELECT {'p': id, 'q': name} AS l FROM k) t
SELECT l.*, l.q FROM (SELECT {'p': id, 'q': name} AS l FROM k) t
SELECT u FROM UNNEST([1, 2]) WITH ORDINALITY u
SELECT * FROM range(3), generate_series(2, 4) g, range(5, 0, -2) AS h(y)
SELECT g.generate_series, id FROM generate_series(0, 4) g LEFT JOIN k ON k.id = g
SELECT id, n FROM k, range(id, 4) w(n)
SELECT e, d FROM range(DATE '2024-01-01', DATE '2024-01-04', INTERVAL 1 DAY) t(day) LEFT JOIN s ON e = day
SELECT * FROM generate_series(TIMESTAMP '2024-01-31', TIMESTAMP '2024-05-31', INTERVAL '1 month')
SELECT generate_series(TIMESTAMP '2024-01-31', TIMESTAMP '2023-12-01', INTERVAL '-1 month'), range(2), generate_series(1, NULL)
SELECT id FROM k WHERE id IN (SELECT UNNEST([a, 3])) OR EXISTS (SELECT 1 FROM UNNEST([a, 4]) l(x) WHERE x = id)
SELECT id, (SELECT sum(x) FROM UNNEST([a, id, NULL]) l(x) WHERE x >= k.a) FROM k
SELECT k.id, t.x FROM k, LATERAL (SELECT x FROM UNNEST([a, id]) l(x) ORDER BY x DESC NULLS LAST LIMIT 1) t
SELECT x, r.b FROM k, UNNEST([id, a]) l(x) JOIN r ON r.a = x
SELECT x FROM UNNEST((SELECT [min(a), max(a)] FROM r)) l(x)
SELECT x FROM r, UNNEST([[a], [b, 1]]) l(y), UNNEST(y) m(x)
SELECT UNNEST([]), UNNEST(NULL)
-- pivots
PIVOT r ON c IN ('x', 'y', NULL) USING sum(b) GROUP BY a
PIVOT r ON c IN ('x', 'y'), a IN (1, 2) USING sum(b) AS s, count(*) AS n
PIVOT k ON a IN (1, 4) USING max(name), count(DISTINCT id)
PIVOT (SELECT a, c FROM r) ON c IN ('x')
SELECT * FROM r PIVOT (sum(b) AS t FOR c IN ('x' AS ex, 'y') GROUP BY a)
SELECT p.a, p.x FROM r AS q PIVOT (count(*) FOR c IN ('x', 'y') a IN (1)) AS p(a, x)
SELECT * FROM r PIVOT (max(b) FOR c IN ('x')) p JOIN k ON k.a = p.a
SELECT a, x FROM (PIVOT r ON c IN ('x', 'y') USING sum(b) GROUP BY a) WHERE x > 10
WITH p AS (PIVOT r ON c IN ('x') USING min(b) GROUP BY a) SELECT k.id, p.x FROM k LEFT JOIN p USING (a)
UNPIVOT r ON a, b INTO NAME n VALUE v
UNPIVOT k ON id, a
UNPIVOT (SELECT a, b FROM r) ON COLUMNS(*) INTO NAME a VALUE b
SELECT n, count(v), sum(v) FROM r UNPIVOT INCLUDE NULLS (v FOR n IN (a, b AS bee)) GROUP BY n
SELECT * FROM r UNPIVOT ((v, w) FOR n IN ((a, b), (b, a))) AS u
UNPIVOT r ON a + 1 AS more, b INTO NAME n VALUE v
SELECT id FROM k WHERE id IN (SELECT v FROM r UNPIVOT (v FOR n IN (a, b)))
-- stars and columns
SELECT * EXCLUDE (c) REPLACE (a + 1 AS a) RENAME (b AS bee) FROM r
SELECT r.* RENAME (b AS bee, a AS ay), r.* LIKE 'a%' FROM r
SELECT * NOT LIKE 'n%', * ILIKE 'N%' FROM k
SELECT COLUMNS('^(a|b)$') + 1, COLUMNS('(a|b)') AS 'is_\1' FROM r
SELECT max(COLUMNS(*)), count(COLUMNS(* EXCLUDE (c))) FROM r
SELECT COLUMNS(['b', 'a']), COLUMNS(lambda n: n > 'b') FROM r
SELECT a, min(COLUMNS('b|c')) FROM r GROUP BY ALL HAVING count(*) > 1
SELECT a FROM r WHERE COLUMNS('a|b') > 1
-- lists that are asked
SELECT a, a IN [1, NULL], a = ANY([1, b]), a <> ALL([1, b]), a > ANY([b]), a NOT IN [a, b] FROM r
SELECT a FROM r WHERE b IN CASE WHEN a > 1 THEN [10, 30] ELSE [20] END
SELECT r.b, t.l FROM r JOIN (SELECT [a, id] AS l FROM k) t ON r.a = ANY(t.l)
-- columns by name
SELECT a, b FROM r UNION ALL BY NAME SELECT b, d FROM s
SELECT a FROM r UNION BY NAME SELECT name AS c, a FROM k ORDER BY ALL
SELECT * FROM s PIVOT (count(*) FOR d IN (1.5, 1.50, 7.00, NULL) e IN ('2024-01-01', NULL))
PIVOT u ON f IN (0.5, 8, 8.0), g IN (true, false) USING count(*) GROUP BY c
