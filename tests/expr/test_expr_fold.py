"""Folding: the value never changes, errors only vanish where folding proved the part is not needed."""

from __future__ import annotations

from typing import Any

import expr_oracle as oracle
import pytest
from expr_strategies import exprs, rows
from hypothesis import HealthCheck, given, settings

from everfresh.errors import EverfreshError
from everfresh.expr import FOLD, Expr, build, evaluate, parse, to_text, total
from everfresh.rewrite import rewrite

QUICK = settings(deadline=None, max_examples=250, suppress_health_check=list(HealthCheck), derandomize=True)


def outcome(expr: Expr, row: dict[str, Any]) -> str:
    try:
        return repr(evaluate(expr, row))
    except EverfreshError as error:
        return f"error {error.code}"


@QUICK
@given(exprs(depth=4), rows)
def test_folding_never_changes_the_value(expr: Expr, table: list[dict[str, Any]]) -> None:
    folded = rewrite(expr, FOLD)
    assert folded.type == expr.type
    assert expr.nullable or not folded.nullable
    for row in table:
        assert outcome(folded, row) == outcome(expr, row), f"{expr} -> {folded}"


@QUICK
@given(exprs(depth=4), rows)
def test_what_is_total_raises_on_no_row(expr: Expr, table: list[dict[str, Any]]) -> None:
    for node in expr.walk():
        if isinstance(node, Expr) and total(node):
            for row in table:
                evaluate(node, row)


FOLDED = [
    ("1 + 2", "3"),
    ("i + (1 + 2)", "i + 3"),
    ("1 // 0", "1 // 0"),
    ("b AND TRUE", "b"),
    ("b OR FALSE", "b"),
    ("b AND FALSE", "FALSE"),
    ("i // j = 1 AND FALSE", "i // j = 1 AND FALSE"),
    ("FALSE AND i // j = 1", "FALSE"),
    ("TRUE OR b", "TRUE"),
    ("NOT NOT b", "b"),
    ("b AND (c AND b)", "b AND c AND b"),
    ("b AND 1 = 1", "b"),
    ("CASE WHEN 1 = 1 THEN i ELSE j END", "i"),
    ("CASE WHEN 1 = 2 THEN i ELSE j END", "j"),
    ("CASE WHEN NULL THEN i WHEN b THEN j END", "CASE WHEN b THEN j ELSE NULL::INTEGER END"),
    ("CASE WHEN b THEN i ELSE i END", "i"),
    ("CAST(CAST(i AS BIGINT) AS INTEGER)", "i"),
    ("CAST(CAST(bi AS INTEGER) AS BIGINT)", "CAST(CAST(bi AS INTEGER) AS BIGINT)"),
    ("CAST(CAST(i AS BIGINT) AS DECIMAL(15,2))", "CAST(i AS DECIMAL(15,2))"),
    ("CAST(i AS INTEGER)", "i"),
    ("CAST(CAST(m AS INTEGER) AS DECIMAL(15,2))", "CAST(CAST(m AS INTEGER) AS DECIMAL(15,2))"),
    ("coalesce(NULL, i, j)", "coalesce(i, j)"),
    ("coalesce(1, i // 0)", "1"),
    ("i + NULL", "NULL::INTEGER"),
    ("i IS NULL", "i IS NULL"),
    ("(i IS NULL) IS NULL", "FALSE"),
    ("CAST('7' AS INTEGER)", "7"),
    ("CAST('x' AS INTEGER)", "CAST('x' AS INTEGER)"),
    ("ts < DATE '2020-01-31' + INTERVAL '1 month'", "ts < TIMESTAMP '2020-02-29 00:00:00'"),
]


@pytest.mark.parametrize(("sql", "text"), FOLDED)
def test_folded_form(sql: str, text: str) -> None:
    assert to_text(rewrite(parse(sql, oracle.VARS, build.MAKERS), FOLD)) == text
