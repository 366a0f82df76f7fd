"""Queries answered by views of other shapes: the same rows as the query's own join, or not at all."""

from __future__ import annotations

import random

import pytest
from test_array_views import array, as_rows, cells

import everfresh as ef
from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.evaluate import evaluate
from everfresh.arrays.views.answers import Answer, CostModel, answer
from everfresh.arrays.views.pipeline import compile_view
from everfresh.delta.bags import difference

PAIRS = [
    ("LINF(1)", "L1(1)"),
    ("LINF(1)", "LINF(2)"),
    ("LINF(2)", "LINF(1)"),
    ("L1(1)", "L1(2)"),
    ("LINF(2)", "L1(1)"),
    ("L2(3)", "L1(3)"),
    ("L1(3)", "L2(3)"),
    ("LINF(1) WITHOUT CENTER", "LINF(1)"),
    ("[-5:-1, -1:1]", "[-4:-1, -1:1]"),
    ("LINF(3)", "L2(3)"),
    ("L1(1)", "L1(1)"),
]
VIEW = (
    "CREATE ARRAY VIEW w AS SELECT COUNT(*) AS c, SUM(b.v) AS s, SUM(b.v*c.v) AS p, SUM(b.d) AS d, "
    "SUM(b.w) AS w, MAX(b.v) AS mv FROM a AS c SIMILARITY JOIN a AS b ON (b.i=c.i AND b.j=c.j) "
    "WITH SHAPE {} WHERE c.v > 0 GROUP BY c.i, c.j"
)
QUERY = (
    "SELECT {} FROM a AS x SIMILARITY JOIN a AS q ON (q.i=x.i AND q.j=x.j) WITH SHAPE {} WHERE x.v > 0 "
    "GROUP BY x.i, x.j"
)


def answered(items: str, asked: str, kept: str, seed: int = 5) -> tuple[Answer | None, object]:
    rng = random.Random(seed)
    a = array("a", 2)
    a = a.changed(as_rows(cells(rng, a.schema, 25), a.schema))
    statement, query = parse(VIEW.format(kept)), parse(QUERY.format(items, asked))
    assert isinstance(statement, aql.CreateView)
    assert isinstance(query, aql.Query)
    view = compile_view(statement, {"a": a.schema})
    return answer(query, {"a": a}, "w", view, view.start({"a": a}), CostModel()), evaluate(query, {"a": a})


@pytest.mark.parametrize(("asked", "kept"), PAIRS)
def test_both_ways_give_the_same(asked: str, kept: str) -> None:
    for items in (
        "COUNT(*) AS n",
        "x.j, AVG(q.v) AS m, x.i, COUNT(*) AS n",
        "SUM(q.v * x.v) AS s, AVG(q.d) AS d, SUM(q.w) AS w",
    ):
        found, expected = answered(items, asked, kept)
        assert found is not None
        for rows in (found.rows(), found.joined()):
            assert rows.schema == expected.schema  # type: ignore[attr-defined]
            assert difference(expected, rows).num_rows == 0  # type: ignore[arg-type]
        assert "chosen: the" in str(found)


def test_what_a_view_cannot_answer() -> None:
    found, expected = answered("MAX(q.v) AS m", "LINF(2)", "LINF(1)")
    assert found is not None  # nothing is taken away
    assert difference(expected, found.rows()).num_rows == 0  # type: ignore[arg-type]
    assert answered("MAX(q.v) AS m", "LINF(1)", "LINF(2)")[0] is None
    assert answered("SUM(q.u) AS m", "LINF(1)", "LINF(2)")[0] is None
    assert answered("MIN(x.v) AS m", "LINF(1)", "LINF(1)")[0] is None


def test_in_a_database() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT> [i=0,99,10; j=0,99,10]")
        db.apply(a=[(i % 100, i // 7 % 100, i) for i in range(600)])
        join = "FROM a x SIMILARITY JOIN a y ON (x.i = y.i AND x.j = y.j) WITH SHAPE LINF(2)"
        text = f"SELECT x.i, x.j, COUNT(*) AS n, AVG(y.v) AS m {join} GROUP BY x.i, x.j"
        before = db.sql(text).to_arrow()  # type: ignore[union-attr]
        assert "no view" in str(db.sql(f"EXPLAIN {text}"))
        db.sql(f"CREATE ARRAY VIEW near AS SELECT COUNT(*) AS n, SUM(y.v) AS s {join} GROUP BY x.i, x.j")
        told = str(db.sql(f"EXPLAIN {text}"))
        assert "by view near" in told
        assert "chosen: the view" in told
        after = db.sql(text).to_arrow()  # type: ignore[union-attr]
        assert difference(before, after).num_rows == 0
