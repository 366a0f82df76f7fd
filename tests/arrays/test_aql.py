"""The language of arrays: text both ways, queries against brute force, Example 2, refusals."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import mapping_functions  # noqa: F401 - a mapping is found in what was imported
import numpy as np
import pyarrow as pa
import pytest
from array_strategies import shapes
from hypothesis import given
from hypothesis import strategies as st

from everfresh.arrays import evaluate as evaluation
from everfresh.arrays.aql import CreateArray
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array, array_of
from everfresh.arrays.evaluate import evaluate
from everfresh.arrays.explained import explained
from everfresh.arrays.join import brute_force
from everfresh.errors import EverfreshError

TEXTS = [
    "CREATE ARRAY a <v: INTEGER, u: DOUBLE NOT NULL> [i=1,8,2; j=-5,8,2]",
    'CREATE UNIQUE ARRAY "my array" <p: DECIMAL(9,2)> [i=1,8,2]',
    "CREATE ARRAY a <> [i=1,8,2]",
    "CREATE ARRAY IF NOT EXISTS a <v: INTEGER> [i=1,8,2]",
    "CREATE UNIQUE ARRAY IF NOT EXISTS a <> [i=1,8,2] WITH (placement = 'k-d')",
    "DROP ARRAY a",
    "DROP ARRAY IF EXISTS a",
    "a",
    "APPLY(a, SUM(v + u), COUNT(*) AS n, L1(1) WITHOUT CENTER UNION [0:2, -1])",
    "APPLY(a, SUM(v), {(0, 1), (2, 0)})",
    "BETWEEN(SUBARRAY(a, 1, 1, 4, 4), 0, 0, 1, 1)",
    "FILTER(PROJECT(a, v, u), v > 3 AND u IN (1, 2))",
    "REGRID(a, 2, 3, SUM(v) AS s, MAX(u) AS m)",
    "SELECT * FROM a",
    "SELECT i, SUM(v) AS s FROM a WHERE v > 1 GROUP BY i",
    "SELECT * INTO t FROM a SIMILARITY JOIN b ON (a.i = b.i AND a.j = b.j) WITH SHAPE LINF(1)",
    "SELECT x.i, 'it''s, FROM' AS w INTO t [i=1,4,2; k=0,9,5] FROM a AS x SIMILARITY JOIN a AS y "
    "ON (y.i = 2*x.j + 1) WITH SHAPE L2(1.5) WHERE x.v < y.v GROUP BY x.i",
    "SELECT * FROM a SIMILARITY JOIN b ON '(x1, x0)' WITH SHAPE [0:1, *]",
    "SELECT * FROM a JOIN b ON (a.i = b.i AND a.v = b.j) WHERE a.v > 2",
    "SELECT i, SUM(a.v) AS s FROM FILTER(a, v > 2) GROUP BY i",
    "SELECT * FROM (SELECT i, j, v FROM a) SIMILARITY JOIN APPLY(b, SUM(v) AS s, L1(1)) "
    "ON (a.i = b.i AND a.j = b.j) WITH SHAPE L0",
    "SELECT * FROM FILTER(a, v > 2) AS f SIMILARITY JOIN (SELECT i, j, v FROM a) AS g "
    "ON (f.i = g.i AND f.j = g.j) WITH SHAPE L0",
]


@pytest.mark.parametrize("text", TEXTS)
def test_statements_print_and_parse(text: str) -> None:
    statement = parse(text)
    assert str(statement) == text
    assert parse(str(statement)) == statement


def test_words_in_any_case_and_names_of_types() -> None:
    statement = parse("create array A <v: int, w: varchar not null> [I=1,8,2] ;")
    assert str(statement) == "CREATE ARRAY A <v: INTEGER, w: VARCHAR NOT NULL> [I=1,8,2]"
    assert str(parse("select  v\n+ 1 as w from a b where  v>1")) == "SELECT v + 1 as w FROM a AS b WHERE v>1"


def _array(ddl: str, cells: Any) -> Array:
    statement = parse(ddl)
    assert isinstance(statement, CreateArray)
    return array_of(statement.schema, cells)


A = _array(
    "CREATE ARRAY a <v: INT, u: DOUBLE> [i=1,8,2; j=1,8,2]",
    [(1, 1, 1, 0.5), (1, 2, 2, None), (2, 2, 3, 1.5), (2, 2, 4, 2.5), (8, 8, None, 9.0)],
)
ARRAYS = {"a": A}


def _run(text: str, **arrays: Array) -> list[tuple[Any, ...]]:
    found = evaluate(parse(text), {**ARRAYS, **arrays})
    table = found.to_arrow() if isinstance(found, Array) else found
    return list(zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("FILTER(a, v >= 3)", [(2, 2, 3, 1.5), (2, 2, 4, 2.5)]),
        ("PROJECT(a, u)", [(1, 1, 0.5), (1, 2, None), (2, 2, 1.5), (2, 2, 2.5), (8, 8, 9.0)]),
        ("BETWEEN(a, 1, 2, 2, 8)", [(1, 2, 2, None), (2, 2, 3, 1.5), (2, 2, 4, 2.5)]),
        ("SUBARRAY(a, 1, 2, 2, 8)", [(0, 0, 2, None), (1, 0, 3, 1.5), (1, 0, 4, 2.5)]),
        ("REGRID(a, 2, 4, SUM(v) AS s, COUNT(*) AS n)", [(1, 1, 10, 4), (4, 2, None, 1)]),
        ("APPLY(a, COUNT(*) AS n, SUM(v + u) AS s, L1(1))",
         [(1, 1, 2, 1.5), (1, 2, 4, 12.5), (2, 2, 3, 11.0), (8, 8, 1, None)]),
        ("APPLY(a, COUNT(*) AS n, MAX(v) AS m, L1(1) WITHOUT CENTER)",
         [(1, 1, 1, 2), (1, 2, 3, 4), (2, 2, 1, 2), (8, 8, 0, None)]),
        ("SELECT j, SUM(v) AS s FROM a WHERE v IS NOT NULL GROUP BY j ", [(1, 1), (2, 9)]),
        ("SELECT x.v, y.v FROM a x JOIN a AS y ON x.v = y.i WHERE y.u = 0.5", [(1, 1)]),
        ("SELECT x.i, x.j, COUNT(*) AS n, SUM(y.v - x.v) AS d INTO t FROM a x SIMILARITY JOIN a y "
         "ON (x.i = y.i AND x.j = y.j) WITH SHAPE [1, 0] WHERE y.u > 1 GROUP BY x.i, x.j", [(1, 2, 2, 3)]),
        ("SELECT COUNT(*) AS n FROM FILTER(a, v < 3) AS f SIMILARITY JOIN BETWEEN(a, 2, 2, 8, 8) AS g "
         "ON (f.i = g.i AND f.j = g.j) WITH SHAPE LINF(1)", [(4,)]),
        ("SELECT COUNT(*) AS n FROM a x SIMILARITY JOIN a y ON '(-1*x0 + 9, x1)' WITH SHAPE HAMMING(1)",
         [(15,)]),
    ],
)  # fmt: skip
def test_queries(text: str, rows: list[tuple[Any, ...]]) -> None:
    assert Counter(_run(text)) == Counter(rows)


def test_example_2_of_the_paper() -> None:
    alpha = _array(
        "CREATE ARRAY alpha <> [i=1,4,2; j=1,4,2]", [(1, 1), (3, 1), (3, 2), (2, 3), (4, 3), (1, 4)]
    )
    beta = _array("CREATE ARRAY beta <> [k=1,3,2]", [(1,), (3,)])
    found = evaluate(
        parse("SELECT * INTO t FROM alpha SIMILARITY JOIN beta ON (k = j) WITH SHAPE [0:1]"),
        {"alpha": alpha, "beta": beta},
    )
    assert isinstance(found, Array)
    assert set(zip(*found.to_arrow().to_pydict().values(), strict=True)) == {
        (1, 1, 1), (3, 1, 1), (2, 3, 3), (4, 3, 3), (3, 2, 3),
    }  # fmt: skip
    assert found.schema.ddl == "CREATE ARRAY t <> [i=1,4,2; j=1,3,2; k=1,3,2]"


def test_results_are_chunked_as_they_are_told() -> None:
    found = evaluate(parse("SELECT i, j, v INTO t [j=0,9,3] FROM a"), ARRAYS)
    assert isinstance(found, Array)
    assert found.schema.ddl == "CREATE ARRAY t <i: BIGINT NOT NULL, v: INTEGER> [j=0,9,3]"
    both = evaluate(parse("SELECT * INTO t FROM a x SIMILARITY JOIN a y ON (x.i = y.i AND x.j = y.j) "
                          "WITH SHAPE L0"), ARRAYS)  # fmt: skip
    assert isinstance(both, Array)
    assert both.schema.dimension_names == ("x_i", "x_j", "y_i", "y_j")
    assert len(both) == 1 + 1 + 4 + 1


def test_a_dimension_that_both_arrays_have_is_that_of_the_array_it_is_selected_from() -> None:
    other = _array("CREATE ARRAY b <> [i=10,30,4; j=-9,9,5]", [(11, 1), (12, -2)])
    text = """SELECT y.i, y.j, COUNT(*) AS n INTO t FROM a AS x
              SIMILARITY JOIN b AS y ON (y.i = x.i + 10 AND y.j = x.j) WITH SHAPE LINF(4) GROUP BY y.i, y.j"""
    found = evaluate(parse(text), {**ARRAYS, "b": other})
    assert isinstance(found, Array)
    assert found.schema.ddl == "CREATE ARRAY t <n: BIGINT NOT NULL> [i=10,30,4; j=-9,9,5]"
    text = """SELECT y.i AS j, x.i, ROW_NUMBER() OVER (ORDER BY x.i) AS k INTO t
              FROM a AS x JOIN b AS y ON x.j = y.j ORDER BY 1 LIMIT 1"""
    found = evaluate(parse(text), {**ARRAYS, "b": other})
    assert isinstance(found, Array)
    assert found.schema.ddl == "CREATE ARRAY t <k: BIGINT NOT NULL> [j=10,30,4; i=1,8,2]"


@given(st.data())
def test_similarity_joins_equal_brute_force(data: st.DataObject) -> None:
    """However the arrays are chunked, and for a mapping that mirrors."""
    shape = data.draw(shapes(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    cells = [rng.integers(0, 8, (2, data.draw(st.integers(0, 15)))) for _ in range(2)]
    chunk = data.draw(st.integers(1, 9))
    ddl = f"<v: INT> [i=0,7,{chunk}; j=0,7,3]"
    left, right = (
        _array(f"CREATE ARRAY {name} {ddl}", (coords.T, np.arange(coords.shape[1])))
        for name, coords in zip("ab", cells, strict=True)
    )
    found = evaluate(
        parse(
            f"SELECT a.v, b.v FROM a SIMILARITY JOIN b ON (b.i = -1*a.j + 7 AND a.i = b.j) WITH SHAPE {shape}"
        ),
        {"a": left, "b": right},
    )
    assert isinstance(found, pa.Table)
    images = np.stack([7 - cells[0][1], cells[0][0]])
    want = Counter(zip(*map(list, brute_force(images, cells[1], shape)), strict=True))
    assert Counter(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)) == want


@given(st.data())
def test_apply_is_a_join_with_itself(data: st.DataObject) -> None:
    """In one block or in many."""
    shape = data.draw(shapes(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    coords = rng.integers(0, 6, (2, data.draw(st.integers(0, 20))))
    values = rng.integers(0, 100, coords.shape[1])
    array = _array("CREATE ARRAY a <v: INT> [i=0,5,2; j=0,5,3]", (coords.T, values))
    groups: dict[tuple[int, ...], list[int]] = {tuple(cell): [] for cell in coords.T.tolist()}
    centers = np.array(sorted(groups), np.int64).reshape(-1, 2).T
    for i, j in zip(*brute_force(centers, coords, shape), strict=True):
        groups[tuple(centers[:, i].tolist())].append(int(values[j]))
    want = [(*cell, len(of), sum(of) if of else None) for cell, of in sorted(groups.items())]
    before, evaluation._BLOCK = evaluation._BLOCK, data.draw(st.sampled_from([1 << 21, 7, 1]))
    try:
        assert _run(f"APPLY(a, COUNT(*) AS n, SUM(v) AS s, {shape})", a=array) == want
    finally:
        evaluation._BLOCK = before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a name is expected"),
        ("CREATE ARRAY a <v INT> [i=1,2,1]", "':' is expected"),
        ("CREATE ARRAY a <v: NOTYPE> [i=1,2,1]", "NOTYPE"),
        ("CREATE ARRAY a <v: INT DEFAULT 3> [i=1,2,1]", "is not a type"),
        ("CREATE ARRAY a <v: INT) FROM x> [i=1,2,1]", "not"),
        ("CREATE ARRAY a <v: INT> [i=1,2]", "',' is expected"),
        ("APPLY(a, L1(1))", "needs an aggregate"),
        ("APPLY(a, SUM(v))", "a shape is expected"),
        ("BETWEEN(a, 1, 2, 3)", "first and the last index"),
        ("SELECT FROM a", "an expression is expected"),
        ("SELECT * FROM a SIMILARITY JOIN a AS b ON (a.i = b.i) WITHOUT SHAPE L1(1)", "expected"),
        ("a b", "should end here"),
        ("BETWEEN(a, 1, 99999999999999999999)", "an integer of 64 bits"),
    ],
)
def test_what_is_no_statement_is_refused(text: str, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        parse(text)


JOIN = "SELECT * FROM a SIMILARITY JOIN a AS b ON {on} WITH SHAPE {shape}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("none", "no array 'none'"),
        ("DROP ARRAY a", "is not a query"),
        ("FILTER(a, w > 1)", "w"),
        ("FILTER(a, v + ) ", "missing|expected|syntax"),
        ("PROJECT(a, w)", "w"),
        ("BETWEEN(a, 1, 2)", "needs 2 dimensions"),
        ("REGRID(a, 2, SUM(v))", "needs 2 dimensions"),
        ("APPLY(a, SUM(v), [0:1])", "has 1 dimensions"),
        ("APPLY(a, SUM(v) AS i, L1(1))", "two dimensions or attributes"),
        ("SELECT * FROM a SIMILARITY JOIN a ON (i = i) WITH SHAPE L1(1)", "two arrays"),
        (JOIN.format(on="(a.i = b.i)", shape="L1(1)"), "says nothing of dimension 'j'"),
        (JOIN.format(on="(a.i = b.i AND a.j = b.v)", shape="L1(1)"), "no dimension 'v'"),
        (JOIN.format(on="(i = b.i AND a.j = b.j)", shape="L1(1)"), "'i' is ambiguous"),
        (JOIN.format(on="(a.i = a.j AND a.j = b.j)", shape="L1(1)"), "compares a dimension of b"),
        (JOIN.format(on="(a.i = 2*b.i AND a.j = b.j)", shape="L1(1)"), "compares a dimension of b"),
        (JOIN.format(on="(c.i = b.i AND a.j = b.j)", shape="L1(1)"), "no dimension of the arrays"),
        (JOIN.format(on="'(x0)'", shape="L1(1)"), "the arrays have 2 and 2"),
        (JOIN.format(on="(a.i = b.i AND a.j = b.j)", shape="[0:1]"), "has 1 dimensions"),
        ("SELECT v INTO t FROM a", "none of the columns is a dimension"),
        ("SELECT i INTO t [k=1,2,1] FROM a", "'k' that is not selected"),
        ("SELECT i INTO t [i=1,2,1] FROM a", "is outside of 1..2"),
        ("APPLY(a, SUM(v) FILTER (WHERE v > (SELECT AVG(v) FROM a)) AS s, L1(1))", "with a subquery"),
    ],
)
def test_bad_queries_are_refused(text: str, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        _run(text)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT a.i, COUNT(*) AS n FROM a SIMILARITY JOIN a AS b ON (b.i = a.i AND b.j = a.j) "
         "WITH SHAPE L1(1) GROUP BY a.i HAVING COUNT(*) > 1 ORDER BY n DESC, a.i LIMIT 1", [(1, 6)]),
        ("SELECT a.v FROM a SIMILARITY JOIN a AS b ON (b.i = a.i AND b.j = a.j) WITH SHAPE L0 "
         "ORDER BY a.v DESC LIMIT 2", [(4,), (4,)]),
        ("SELECT v FROM a WHERE v > 1 ORDER BY v LIMIT 1", [(2,)]),
        ("SELECT x.v, y.v FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L0 "
         "WHERE y.v > (SELECT AVG(v) FROM y) + 1 ORDER BY x.v", [(3, 4), (4, 4)]),
        ("SELECT x.i, COUNT(*) AS n FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND y.j = x.j) "
         "WITH SHAPE L1(1) GROUP BY x.i HAVING COUNT(*) > "
         "(SELECT COUNT(*) FROM x, y WHERE x.v = 1 AND y.v < 3) ORDER BY x.i",
         [(1, 6), (2, 6)]),
    ],
)  # fmt: skip
def test_what_stands_behind_a_query(text: str, rows: list[tuple[Any, ...]]) -> None:
    assert str(parse(str(parse(text)))) == str(parse(text))
    assert _run(text) == rows


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a", ["a: 5 cells in 3 of 16 chunks"]),
        ("APPLY(FILTER(a, v > 1), SUM(v), L1(1))",
         ["APPLY SUM(v) over L1(1): 5 offsets in 3 intervals", "  FILTER v > 1",
          "    a: 5 cells in 3 of 16 chunks"]),
        ("REGRID(PROJECT(SUBARRAY(a, 1, 1, 4, 4), v), 2, 2, SUM(v) AS s)",
         ["REGRID SUM(v) AS s over blocks of 2 x 2", "  PROJECT v", "    SUBARRAY (1, 1) .. (4, 4)",
          "      a: 5 cells in 3 of 16 chunks"]),
        ("SELECT i FROM a SIMILARITY JOIN FILTER(a, v > 1) AS b ON (i = b.i AND a.j = b.j) "
         "WITH SHAPE HAMMING(1)",
         ["SELECT i",
          "  SIMILARITY JOIN ON (i = b.i AND a.j = b.j) WITH SHAPE HAMMING(1): offsets without bound",
          "    chunk pairs: known when both sides are computed", "    a: 5 cells in 3 of 16 chunks",
          "    FILTER v > 1", "      a: 5 cells in 3 of 16 chunks"]),
    ],
)  # fmt: skip
def test_explain(text: str, lines: list[str]) -> None:
    array = _array(
        "CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]", [(1, 1, 1), (1, 2, 1), (2, 2, 2), (4, 4, 1), (8, 8, 5)]
    )
    assert explained(parse(text), {"a": array}).splitlines() == lines


@given(st.data())
def test_explain_counts_what_the_join_looks_at(data: st.DataObject) -> None:
    """No pair of chunks that holds a pair of cells is left out."""
    shape = data.draw(shapes(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    arrays = {}
    for name in "ab":
        coords = rng.integers(0, 9, (2, data.draw(st.integers(1, 12))))
        arrays[name] = _array(
            f"CREATE ARRAY {name} <v: INT> [i=0,8,2; j=0,8,3]", (coords.T, np.arange(coords.shape[1]))
        )
    query = f"FROM a SIMILARITY JOIN b ON (b.i = -1*a.j + 8 AND b.j = a.i) WITH SHAPE {shape}"
    found = evaluate(parse(f"SELECT a.v, b.v {query}"), arrays)
    assert isinstance(found, pa.Table)
    text = explained(parse(f"SELECT a.v {query}"), arrays)
    pairs, candidates = (int(n) for n in re.search(r"pairs: (\d+) of \d+, with (\d+)", text).groups())  # type: ignore[union-attr]
    where = {
        name: {
            v: int(array.schema.chunk_ids(np.array([[i], [j]]))[0])
            for i, j, v in array.to_arrow().to_pandas().to_numpy()
        }
        for name, array in arrays.items()
    }
    met = {
        (where["a"][i], where["b"][j]) for i, j in zip(*(c.to_pylist() for c in found.columns), strict=True)
    }
    assert len(met) <= pairs
    assert found.num_rows <= candidates


def test_a_mapping_that_fails_is_told() -> None:
    with pytest.raises(EverfreshError, match="untouched/2/1 failed: TypeError"):
        _run("SELECT * FROM a SIMILARITY JOIN b ON 'mapping_functions:untouched/2/1' WITH SHAPE [0:1]",
             b=_array("CREATE ARRAY b <> [k=1,2,1]", [(1,)]))  # fmt: skip
