"""Joins of unions: products that a condition rules out are not kept, in no map.

Catches: the cross product of unions held as a relation of its own, because it has too many products before
the conditions above it are looked at.
"""

from __future__ import annotations

import everfresh as ef
from everfresh.testing.oracle import assert_rows

YEARS = """
CREATE TABLE s (c BIGINT, y BIGINT, x BIGINT);
CREATE TABLE w (c BIGINT, y BIGINT, x BIGINT);
CREATE MATERIALIZED VIEW v AS
WITH total AS (
  SELECT c, y, SUM(x) AS x, 's' AS kind FROM s GROUP BY c, y
  UNION ALL SELECT c, y, SUM(x) AS x, 'w' AS kind FROM w GROUP BY c, y)
SELECT a.c FROM total a, total b, total c, total d
WHERE a.c = b.c AND a.c = c.c AND a.c = d.c
  AND a.kind = 's' AND b.kind = 's' AND c.kind = 'w' AND d.kind = 'w'
  AND a.y = 1 AND b.y = 2 AND c.y = 1 AND d.y = 2 AND b.x * c.x < a.x * d.x
"""


def test_no_map_has_a_cross_product() -> None:
    with ef.connect(engine="local") as db:
        db.sql(YEARS)
        text = db.views["v"].explain()
        assert "LARGE MAPS" not in text
        rows = [(c, y, c + y) for c in range(30) for y in (1, 2)]
        db.apply(s=rows, w=[(c, y, x * (1 + (c % 3 == 0) * y)) for c, y, x in rows])
        assert_rows(db.views["v"], *((c,) for c in range(0, 30, 3)))
        maps = db.statistics()["maps beside them"]
        assert all(found["entries"] <= 60 for found in maps.values())
