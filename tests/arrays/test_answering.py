"""A query that workers run gives what the evaluator gives over whole arrays, for any number of workers."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import mapping_functions  # noqa: F401 - a mapping is found in what was imported
import pyarrow as pa
import pytest

from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.evaluate import create, evaluate
from everfresh.arrays.execute import split, worker
from everfresh.arrays.execute.answering import LocalQuery
from everfresh.arrays.execute.work import work_of
from everfresh.arrays.plan import PlanOptions

A = "CREATE ARRAY a <v: INT, u: DOUBLE, w: VARCHAR> [i=1,40,4; j=-10,20,5]"
B = "CREATE ARRAY b <x: DECIMAL(9,2), y: BOOLEAN> [i=1,40,7; j=-10,20,3]"
C = "CREATE ARRAY c <z: BIGINT> [k=1,40,6]"

ON = "ON (b.i = a.i AND b.j = a.j)"
SELF = "FROM a AS l SIMILARITY JOIN a AS r ON (r.i = l.i AND r.j = l.j)"
STATEMENTS = {
    "rows": f"SELECT a.i, a.j, v, x FROM a SIMILARITY JOIN b {ON} WITH SHAPE L1(2)",
    "star": "SELECT * FROM a SIMILARITY JOIN c ON (c.k = a.i) WITH SHAPE [0:1]",
    "where": f"SELECT v + 1 AS n, w FROM a SIMILARITY JOIN b {ON} WITH SHAPE LINF(2) WHERE v > 1 AND x < 5",
    "groups": f"SELECT l.i, l.j, COUNT(*) AS n, SUM(r.v) AS s, AVG(r.u) AS m, MIN(r.w) AS w {SELF} "
    "WITH SHAPE LINF(1) WITHOUT CENTER GROUP BY l.i, l.j",
    "by text": "SELECT w, COUNT(x) AS n, MAX(x) AS x, AVG(x) AS m, BOOL_AND(y) AS y "
    f"FROM a SIMILARITY JOIN b {ON} WITH SHAPE L2(3) GROUP BY w",
    "asymmetric": f"SELECT l.i, COUNT(*) AS n {SELF} WITH SHAPE [-3:-1, 0:2] GROUP BY l.i",
    "distinct": f"SELECT l.i, COUNT(DISTINCT r.v) AS n, STDDEV_POP(r.v) AS s {SELF} "
    "WITH SHAPE L1(2) GROUP BY l.i",
    "all": f"SELECT COUNT(*) AS n, SUM(l.v * r.v) AS s, MAX(r.u) AS m, AVG(l.v) AS a {SELF} "
    "WITH SHAPE LINF(1)",
    "none": f"SELECT COUNT(*) AS n, SUM(l.v) AS s {SELF} WITH SHAPE LINF(1) WHERE l.v > 1000",
    "all distinct": f"SELECT COUNT(DISTINCT l.w) AS n {SELF} WITH SHAPE LINF(1)",
    "expression": f"SELECT 2 * SUM(r.v) + COUNT(*) AS n, l.i // 4 AS g {SELF} "
    "WITH SHAPE L1(1) GROUP BY l.i // 4",
    "mapped": "SELECT l.i, l.j, r.i AS p, r.j AS q FROM a AS l SIMILARITY JOIN a AS r "
    "ON (r.i = 2*l.j + 3 AND r.j = l.i - 9) WITH SHAPE L1(2)",
    "function": "SELECT l.i, l.j, r.i AS p, r.j AS q FROM a AS l SIMILARITY JOIN b AS r "
    "ON 'mapping_functions:scattered/2/2' WITH SHAPE L1(2)",
    "filtered": "SELECT x.i, COUNT(*) AS n FROM FILTER(a, v > 1) AS x "
    "SIMILARITY JOIN BETWEEN(b, 3, -5, 30, 9) AS y ON (y.i = x.i AND y.j = x.j) "
    "WITH SHAPE LINF(2) GROUP BY x.i",
    "projected": "SELECT l.i, SUM(r.v) AS s FROM PROJECT(a, v) AS l SIMILARITY JOIN PROJECT(a, v) AS r "
    "ON (r.i = l.i AND r.j = l.j) WITH SHAPE L1(1) GROUP BY l.i",
    "equal": "SELECT a.i, v, z FROM a JOIN c ON a.i = c.k AND c.z = a.v + 1",
    "equal, groups": "SELECT l.w, COUNT(*) AS n, SUM(r.v) AS s FROM a AS l JOIN a AS r "
    "ON l.v = r.v AND l.w = r.w GROUP BY l.w",
    "equal, where": "SELECT a.i, a.j, x FROM a JOIN b ON a.i = b.i AND a.j = b.j AND x > 3 WHERE v > 1",
    "equal, into": "SELECT a.i, a.j, x, v INTO t [i=1,40,5; j=-10,20,5] FROM a JOIN b "
    "ON a.i = b.i AND a.j = b.j",
    "apply": "APPLY(a, COUNT(*) AS n, SUM(v) AS s, AVG(u) AS m, LINF(1) WITHOUT CENTER)",
    "apply distinct": "APPLY(a, COUNT(DISTINCT v) AS n, MAX(w) AS w, L1(1))",
    "apply filtered": "APPLY(FILTER(a, v <> 2), COUNT(*) AS n, SUM(v + i) AS s, [-2:-1, 0])",
    "regrid": "REGRID(a, 3, 2, SUM(v) AS s, COUNT(*) AS n)",
    "scan": "SELECT i, v * 2 AS d FROM a WHERE w = 'x'",
    "scan groups": "SELECT j, COUNT(*) AS n, AVG(v) AS m FROM a GROUP BY j",
    "scan all": "SELECT SUM(v) AS s FROM a",
    "between": "BETWEEN(a, 3, -4, 22, 7)",
    "subarray": "SUBARRAY(a, 3, -4, 22, 7)",
    "filter": "FILTER(a, v > 1)",
    "project": "PROJECT(a, u, v)",
    "into": f"SELECT a.i, a.j, v, x INTO t FROM a SIMILARITY JOIN b {ON} WITH SHAPE L1(1)",
    "into groups": f"SELECT l.i, l.j, COUNT(*) AS n INTO t {SELF} WITH SHAPE LINF(1) GROUP BY l.i, l.j",
    "into chunks": f"SELECT l.i, COUNT(*) AS n INTO t [i=1,50,9] {SELF} WITH SHAPE LINF(1) GROUP BY l.i",
    "into scan": "SELECT i, j, v INTO t FROM a WHERE v > 0",
    "into apply": "SELECT * INTO t FROM APPLY(a, COUNT(*) AS n, L1(1)) AS x",
    "into regrid": "SELECT * INTO t FROM REGRID(a, 4, 4, MAX(v) AS m) AS x",
}


def arrays(seed: int = 1, count: int = 160) -> dict[str, Array]:
    """Some cells, some of them with several tuples, NULLs and a few far from all others."""
    rng = random.Random(seed)

    def at() -> tuple[int, int]:
        return rng.randrange(1, 31), rng.randrange(-10, 12)

    a = [(*at(), rng.randrange(5), rng.choice([None, 0.5, -1.25]), rng.choice("xyz")) for _ in range(count)]
    a += [(40, 20, 4, None, None), (40, 20, None, 1.0, "x"), *a[:5]]
    b = [
        (*at(), f"{rng.randrange(900) / 100:.2f}", rng.choice([True, False, None])) for _ in range(count // 2)
    ]
    c = [(rng.randrange(1, 41), k) for k in range(12)]
    return {"a": create(A, a), "b": create(B, b), "c": create(C, c)}


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows as a bag, doubles rounded."""

    def plain(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, float) and math.isfinite(value) else value

    return Counter(tuple(map(plain, row.values())) for row in table.to_pylist())


def wanted(text: str, held: dict[str, Array]) -> pa.Table:
    value = evaluate(parse(text), held)
    return value.to_arrow() if isinstance(value, Array) else value


@pytest.mark.parametrize("name", STATEMENTS)
def test_any_number_of_workers(name: str) -> None:
    text, held = STATEMENTS[name], arrays()
    statement = parse(text)
    work = work_of(statement, {n: array.schema for n, array in held.items()})
    assert work is not None, "workers run it"
    want = wanted(text, held)
    rules = ("round-robin", "hash", "hilbert", "z-order", "k-d")
    for workers in (1, 2, 3, 8):
        algorithm = ("bhvc", "opt-vc", "mr", "struct")[workers % 4]
        options = PlanOptions(algorithm, budget=None if workers < 3 else 2000)
        query = LocalQuery.of(work, held, workers, dict.fromkeys("abc", rules[workers % 5]), options)
        rows, measured = query.run()
        assert rows.column_names == want.column_names
        assert [str(t) for t in rows.schema.types] == [str(t) for t in want.schema.types]
        assert bag(rows) == bag(want), workers
        if query.plan is not None:
            assert measured is not None
            measured.check(query.plan)


def test_partial_aggregates_are_folded_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows are kept before they are folded, the result is the same."""
    monkeypatch.setattr(split, "_MANY", 3)
    monkeypatch.setattr(worker, "_CELLS", 40)
    held = arrays()
    for name in ("groups", "by text", "all", "apply", "distinct", "scan groups"):
        work = work_of(parse(STATEMENTS[name]), {n: array.schema for n, array in held.items()})
        assert work is not None
        rows, _ = LocalQuery.of(work, held, 2).run()
        assert bag(rows) == bag(wanted(STATEMENTS[name], held)), name


def test_aggregates_travel_folded() -> None:
    """What leaves a worker for its groups is no more than the groups it has."""
    held = arrays(count=600)
    work = work_of(parse(STATEMENTS["asymmetric"]), {"a": held["a"].schema})
    assert work is not None
    assert work.cut.combine is not None
    _, measured = LocalQuery.of(work, held, 4).run()
    assert measured is not None
    assert 0 < measured.rows_moved.sum() <= 4 * 40


def test_empty_arrays() -> None:
    held = {n: Array(array.schema) for n, array in arrays().items()}
    for text in STATEMENTS.values():
        work = work_of(parse(text), {n: array.schema for n, array in held.items()})
        assert work is not None
        rows, _ = LocalQuery.of(work, held, 3).run()
        assert bag(rows) == bag(wanted(text, held))
