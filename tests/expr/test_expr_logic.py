"""Three-valued logic: every connective and test on all 27 rows of {NULL, FALSE, TRUE}^3, against DuckDB."""

from __future__ import annotations

import itertools

import expr_oracle as oracle
import pytest

from everfresh.expr import Vector, build, evaluate, evaluate_vector, parse
from everfresh.types import BOOLEAN, INTEGER

ROWS = list(itertools.product([None, False, True], repeat=3))
NAMES = ("b", "c", "i")
COLUMNS = {
    "b": Vector.from_pylist([row[0] for row in ROWS], BOOLEAN),
    "c": Vector.from_pylist([row[1] for row in ROWS], BOOLEAN),
    "i": Vector.from_pylist([None if row[2] is None else int(row[2]) for row in ROWS], INTEGER),
}

CONDITIONS = """
b AND c; b OR c; NOT b; b AND c AND i = 1; b OR c OR i = 1; b AND (c OR NOT b); NOT (b AND c); NOT (b OR c)
b = c; b <> c; b < c; b IS NULL; b IS NOT NULL; b IS DISTINCT FROM c; b IS NOT DISTINCT FROM c
(b AND c) IS NULL
i IN (0, 1); i IN (1, NULL); i NOT IN (0, NULL); b IN (c, i = 1); b NOT IN (c, i = 0); i IN (NULL, NULL)
CASE WHEN b THEN c WHEN c THEN b ELSE i = 1 END; CASE WHEN b THEN c END; CASE WHEN NOT b THEN NULL ELSE c END
coalesce(b, c); coalesce(b, c, i = 1); coalesce(b AND c, FALSE); nullif(b, c); greatest(b, c); least(b, c)
b AND NULL; b OR NULL; b AND TRUE; b OR FALSE; NULL AND NULL; NOT (i = 1) OR b; (b OR c) AND (c OR i = 1)
b = (c AND i = 1)
"""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    oracle.load(COLUMNS)


@pytest.mark.parametrize(
    "sql", [part.strip() for part in CONDITIONS.replace("\n", ";").split(";") if part.strip()]
)
def test_all_27_rows(sql: str) -> None:
    expr = parse(sql, oracle.VARS, build.MAKERS)
    _, wanted = oracle.ask(sql)
    rows = [
        dict(zip(NAMES, values, strict=True))
        for values in zip(*(COLUMNS[n].to_pylist() for n in NAMES), strict=True)
    ]
    assert [evaluate(expr, row) for row in rows] == wanted
    assert evaluate_vector(expr, COLUMNS, 27).to_pylist() == wanted


@pytest.mark.parametrize(
    ("make", "sql"),
    [(build.is_true, "{} IS TRUE"), (build.is_false, "{} IS FALSE"), (build.is_unknown, "{} IS NULL")],
)
@pytest.mark.parametrize("sql_of", ["b", "b AND c", "NOT (b OR i = 1)"])
def test_truth_tests(make: object, sql: str, sql_of: str) -> None:
    expr = make(parse(sql_of, oracle.VARS, build.MAKERS))  # type: ignore[operator]
    assert evaluate_vector(expr, COLUMNS, 27).to_pylist() == oracle.ask(sql.format(f"({sql_of})"))[1]
    assert not expr.nullable


def test_between_is_unknown_where_a_bound_decides_nothing() -> None:
    i = oracle.VARS["i"]
    expr = build.between(i, build.literal(None), build.literal(0))
    assert evaluate_vector(expr, COLUMNS, 27).to_pylist() == oracle.ask("i BETWEEN NULL AND 0")[1]


def test_truth_is_one_only_where_true() -> None:
    b = oracle.VARS["b"]
    found = evaluate_vector(build.call("truth", b), COLUMNS, 27).to_pylist()
    assert found == [int(row[0] is True) for row in ROWS]
