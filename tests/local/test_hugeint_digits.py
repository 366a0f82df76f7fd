"""A HUGEINT that no Arrow column holds (39 digits) is never in a view: the batch that would make it is
refused, and so is the view that would show it."""

from __future__ import annotations

from decimal import Decimal

import pytest

import everfresh as ef
from everfresh.errors import Code

MOST = 10**38 - 1
SUMS = "SELECT g, SUM(x) AS s FROM t GROUP BY g"
VIEWS = {
    "a sum": [SUMS],
    "one that others read": [SUMS, "SELECT COUNT(s) AS n FROM v0"],
    "a key": [SUMS, "SELECT s, COUNT(*) AS n FROM v0 GROUP BY s"],
    "a key of a derived relation": [f"SELECT s, COUNT(*) AS n FROM ({SUMS}) q GROUP BY s"],
    "the greatest sum": [f"SELECT MAX(s) AS m, MIN(s) AS l FROM ({SUMS}) q"],
    "an outer join": [f"SELECT q.g, s FROM ({SUMS}) q FULL JOIN (SELECT DISTINCT g FROM t) r ON q.g = r.g"],
    "the first rows": [f"{SUMS} ORDER BY s DESC LIMIT 2"],
    "a window": ["SELECT g, SUM(x) OVER (PARTITION BY g) AS s FROM t"],
}


def create(db: ef.Database, texts: list[str]) -> None:
    for i, text in enumerate(texts):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")


@pytest.mark.parametrize("texts", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("sign", [1, -1])
def test_it_is_refused(texts: list[str], sign: int) -> None:
    with ef.connect(engine="local") as db, ef.connect(engine="local") as late:
        for one in (db, late):
            one.sql("CREATE TABLE t (g INTEGER, x HUGEINT)")
        create(db, texts)
        for one in (db, late):
            one.apply(t=[(1, sign * MOST), (2, -3)])
        before = {name: db.view(name).to_arrow().to_pylist() for name in db.views}
        late.apply(t=[(1, sign * 7)])
        with pytest.raises(ef.EverfreshError) as refused:
            db.apply(t=[(1, sign * 7)])
        with pytest.raises(ef.EverfreshError) as created:
            create(late, texts)
        assert refused.value.code == created.value.code == Code.OVERFLOW
        assert before == {name: db.view(name).to_arrow().to_pylist() for name in db.views}
        assert all(db.view(name).verify().num_rows == 0 for name in db.views)
        db.apply(t=[(1, -sign)])
        held = str([row for name in db.views for row in db.view(name).to_arrow().to_pylist()])
        assert "n" in held or str(Decimal(sign * (MOST - 1))) in held
        assert all(db.view(name).verify().num_rows == 0 for name in db.views)


@pytest.mark.parametrize(
    "text", ["SELECT g, AVG(x) AS s FROM t GROUP BY g", "SELECT g FROM t WHERE x < (SELECT SUM(x) FROM t)"]
)
def test_a_sum_that_nobody_sees_may_be_larger(text: str) -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (g INTEGER, x HUGEINT)")
        create(db, [text])
        db.apply(t=[(1, MOST), (2, -3)])
        db.apply(t=[(1, 7)])
        assert db.view("v0").verify().num_rows == 0
