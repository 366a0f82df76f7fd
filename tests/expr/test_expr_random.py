"""Random expressions on random rows: the scalar evaluator, the vectorised one and DuckDB agree.

What these catch: NULLs that leak into or out of vectorised functions, wrong row selection in CASE, AND and COALESCE,
wrapped integers, dictionaries mixed up, an error on one side only, a result type that is not DuckDB's.
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

QUICK = settings(deadline=None, max_examples=400, suppress_health_check=list(HealthCheck), derandomize=True)


def outcome(expr: Expr, env: dict[str, Any]) -> tuple[str, Any]:
    """`("value", v)` or `("error", code)` of the reference."""
    try:
        return "value", evaluate(expr, env)
    except EverfreshError as error:
        return "error", error.code


def columns_of(table: list[dict[str, Any]]) -> dict[str, Vector]:
    return {name: Vector.from_pylist([row[name] for row in table], type_) for name, type_ in oracle.TYPES.items()}


@QUICK
@given(exprs(), rows)
def test_vectors_agree_with_scalars(expr: Expr, table: list[dict[str, Any]]) -> None:
    wanted = [outcome(expr, row) for row in table]
    try:
        found = evaluate_vector(expr, columns_of(table), len(table))
    except EverfreshError as error:
        failing = [i for i, (kind, _) in enumerate(wanted) if kind == "error"]
        assert failing
        assert (error.row, error.code) == (failing[0], wanted[failing[0]][1])  # type: ignore[attr-defined]
        return
    assert found.type == expr.type
    assert repr([("value", v) for v in found.to_pylist()]) == repr(wanted)
    if not expr.nullable:
        assert all(value is not None for _, value in wanted)
    if found.valid is not None:  # NULL slots hold zeros
        assert not any(v for v in found.values[~found.valid].tolist() if v not in ((0, 0, 0), 0, False))


def loose(expr: Expr) -> bool:
    """Whether DuckDB may evaluate parts that everfresh does not reach, or the other way round."""
    return any(isinstance(n, Case) or (isinstance(n, Call) and n.op in ("and", "or", "coalesce", "finite_or_zero"))
               or (isinstance(n, Const) and n.value is None) for n in expr.walk())


def causes(expr: Expr, table: list[dict[str, Any]]) -> set[str]:
    """The codes of all errors in any part of the expression on any row."""
    found = {outcome(part, row) for part in expr.walk() for row in table if isinstance(part, Expr)
             and outcome(part, row)[0] == "error"}
    return {code for _, code in found}


@functools.cache
def table_of_duckdb() -> list[dict[str, Any]]:
    rng = random.Random(7)
    table = [{name: None if rng.random() < 0.2 else single(rng.choice(domain(type_)), type_)
              for name, type_ in oracle.TYPES.items()} for _ in range(40)]
    return table


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    oracle.load(columns_of(table_of_duckdb()))


@QUICK
@given(exprs())
def test_values_types_and_errors_are_those_of_duckdb(expr: Expr) -> None:
    table = table_of_duckdb()
    ours = [outcome(expr, row) for row in table]
    failed = [code for kind, code in ours if kind == "error"]
    try:
        type_, theirs = oracle.ask(to_duckdb(expr))
    except duckdb.Error as error:
        said = oracle.cause(error)
        assert said in (causes(expr, table) if loose(expr) else failed), f"{expr}: {error}"
        return
    if failed:
        assert loose(expr), f"only everfresh fails: {expr}"
    assert type_ in (None, expr.type), str(expr)
    for row, (kind, value), their in zip(table, ours, theirs, strict=True):
        used = {v.name: row[v.name] for v in variables(expr)}
        assert kind == "error" or repr(value) == repr(their), f"{expr} on {used}"
