"""Random expressions on random rows: the scalar evaluator, the vectorised one and DuckDB agree.

What these catch: NULLs that leak into or out of vectorised functions, wrong row selection in CASE, AND and
COALESCE, wrapped integers, dictionaries mixed up, an error on one side only, a result type that is not
DuckDB's.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import duckdb
import expr_oracle as oracle
import pytest
from expr_strategies import domain, exprs, rows, single, to_duckdb
from hypothesis import HealthCheck, given, settings

from everfresh.errors import EverfreshError
from everfresh.expr import Call, Case, Const, Expr, Vector, evaluate, evaluate_vector, variables
from everfresh.types import SqlType

QUICK = settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), derandomize=True)


def outcome(expr: Expr, env: dict[str, Any]) -> tuple[str, Any]:
    """`("value", v)` or `("error", code)` of the reference."""
    try:
        return "value", evaluate(expr, env)
    except EverfreshError as error:
        return "error", error.code


def columns_of(table: list[dict[str, Any]]) -> dict[str, Vector]:
    """The rows as columns that cannot be written to: an evaluator that does so fails."""
    columns = {}
    for name, type_ in oracle.TYPES.items():
        columns[name] = column = Vector.from_pylist([row[name] for row in table], type_)
        for array in (column.values, column.valid, column.dictionary):
            if array is not None:
                array.flags.writeable = False
    return columns


@QUICK
@given(exprs(), rows)
def test_vectors_agree_with_scalars(expr: Expr, table: list[dict[str, Any]]) -> None:
    wanted = [outcome(expr, row) for row in table]
    failing = [i for i, (kind, _) in enumerate(wanted) if kind == "error"]
    if failing:
        with pytest.raises(EverfreshError) as caught:
            evaluate_vector(expr, columns_of(table), len(table))
        row, code = caught.value.row, caught.value.code  # type: ignore[attr-defined]
        assert (row, code) == (failing[0], wanted[failing[0]][1])
        return
    found = evaluate_vector(expr, columns_of(table), len(table))
    assert found.type == expr.type
    assert repr([("value", v) for v in found.to_pylist()]) == repr(wanted)
    if not expr.nullable:
        assert all(value is not None for _, value in wanted)
    if found.valid is not None:  # NULL slots hold zeros
        assert not any(v for v in found.values[~found.valid].tolist() if v not in ((0, 0, 0), 0, False))


def loose(expr: Expr) -> bool:
    """Whether DuckDB may evaluate parts that everfresh does not reach, or the other way round."""
    return any(
        isinstance(n, Case)
        or (isinstance(n, Call) and n.op in ("and", "or", "coalesce", "finite_or_zero"))
        or (isinstance(n, Const) and n.value is None)
        for n in expr.walk()
    )


def causes(expr: Expr, table: list[dict[str, Any]]) -> set[str]:
    """The codes of all errors in any part of the expression on any row."""
    found = {
        outcome(part, row)
        for part in expr.walk()
        for row in table
        if isinstance(part, Expr) and outcome(part, row)[0] == "error"
    }
    return {code for _, code in found}


def ask(expr: Expr) -> tuple[SqlType | None, list[Any]] | str:
    """DuckDB's answer, or the cause of its error."""
    try:
        return oracle.ask(to_duckdb(expr))
    except duckdb.Error as error:
        return oracle.cause(error)


@functools.cache
def table_of_duckdb() -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [
        {
            name: None if rng.random() < 0.2 else single(rng.choice(domain(type_)), type_)
            for name, type_ in oracle.TYPES.items()
        }
        for _ in range(40)
    ]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    oracle.load(columns_of(table_of_duckdb()))


@QUICK
@given(exprs())
def test_values_types_and_errors_are_those_of_duckdb(expr: Expr) -> None:
    table = table_of_duckdb()
    ours = [outcome(expr, row) for row in table]
    failed = [code for kind, code in ours if kind == "error"]
    answer = ask(expr)
    if isinstance(answer, str):
        assert answer in (causes(expr, table) if loose(expr) else failed), f"{expr}: {answer}"
        return
    type_, theirs = answer
    if failed:
        assert loose(expr), f"only everfresh fails: {expr}"
    assert type_ in (None, expr.type), str(expr)
    for row, (kind, value), their in zip(table, ours, theirs, strict=True):
        used = {v.name: row[v.name] for v in variables(expr)}
        assert kind == "error" or repr(value) == repr(their), f"{expr} on {used}"
