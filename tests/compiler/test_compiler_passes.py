"""Simplification: every pass alone and all together keep the meaning, on random queries and data; golden
rewrites.

Mutations that the properties catch (tried by hand): `[a AND b]` split into a sum; a double negation in a
product kept as one; a binding dropped although a later factor compares it; unification that renames only
the first occurrence, or although the variable is in the group; `0 + Q` taken for 0; a lift over an empty
body that loses its columns.
"""

from __future__ import annotations

import pytest
from calculus_support import CHANGES, COLUMNS, TABLES, queries, result
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Gmr
from everfresh.calculus import DELTA, QUERY, ZERO, Database, check, delta, outputs, parse, relations
from everfresh.compiler import PASSES, simplify
from everfresh.rewrite import RuleSet, Trace, rewrite
from everfresh.types import INTEGER, Column

ALL = sum((rules for _, rules in PASSES), RuleSet(()))


@settings(max_examples=max(200, settings().max_examples))
@given(queries(dull=True), TABLES)
def test_simplify_keeps_the_meaning_and_is_idempotent(made, tables) -> None:  # type: ignore[no-untyped-def]
    query, k = made
    simple = check(simplify(query), QUERY)
    db = Database(tables=tables)
    assert result(simple, db, k) == result(query, db, k)
    assert simplify(simple) == simple
    assert set(relations(simple)) <= set(relations(query))
    assert simple == ZERO or {v.name for v in outputs(simple)} == {v.name for v in outputs(query)}
    assert rewrite(simple, ALL) == simple  # a fixpoint of all passes together


@settings(max_examples=max(150, settings().max_examples))
@given(queries(dull=True), TABLES, st.sampled_from(PASSES))
def test_each_pass_alone_keeps_the_meaning(made, tables, chosen) -> None:  # type: ignore[no-untyped-def]
    (query, k), (_, rules) = made, chosen
    db = Database(tables=tables)
    trace = Trace()
    after = check(rewrite(query, rules, trace), QUERY)
    assert result(after, db, k) == result(query, db, k)
    assert set(trace.names()) <= {rule.name for rule in rules}


@settings(max_examples=max(100, settings().max_examples))
@given(queries(dull=True), TABLES, CHANGES)
def test_simplified_deltas(made, tables, changes) -> None:  # type: ignore[no-untyped-def]
    """What compilation does: simplify, take the delta, simplify again."""
    query, k = made
    db = Database(tables=tables, deltas=changes)
    step = check(simplify(delta(simplify(query), COLUMNS)), DELTA)
    assert result(step, db, k) == result(delta(query, COLUMNS), db, k)


A, B = Column("a", INTEGER), Column("b", INTEGER, False)
SCHEMA = {"R": (A, A), "S": (A, A), "T": (A,), "N": (B,)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # identities
        ("Sum_[x](Sum_[x, y](1 * (R(x, y) * 1)))", "Sum_[x](R(x, y))"),
        ("Sum_[x, y](R(x, y))", "R(x, y)"),
        ("Sum_[y, x](R(x, y))", "Sum_[y, x](R(x, y))"),  # a map's columns have an order
        ("R(x, y) * 0 + S(x, y)", "S(x, y)"),
        ("Sum_[](R(x, y) * 0)", "0"),
        ("-(-R(x, y))", "R(x, y)"),
        ("(-R(x, y)) * (-S(y, z))", "R(x, y) * S(y, z)"),
        ("R(x, y) * (-S(y, z))", "-(R(x, y) * S(y, z))"),
        ("Sum_[x](-R(x, y))", "-Sum_[x](R(x, y))"),
        ("T(x) + (T(x) + (-0))", "T(x) + T(x)"),
        ("Exists(T(x) * 0)", "0"),
        ("(v INTEGER :=: T(x) * 0)", "0"),
        ("(v INTEGER :=! Sum_[](T(x) * 0))", "(v INTEGER :=! 0)"),  # closed: one row with value 0
        # partial evaluation
        ("T(x) * [TRUE]", "T(x)"),
        ("T(x) * [1 = 2]", "0"),
        ("T(x) * [NULL = 1]".replace("NULL", "NULL::INTEGER"), "0"),
        ("T(x) * [x > 1 + 1 AND TRUE]", "T(x) * [x > 2]"),
        ("T(x) * [x > 1 AND x < 3]", "T(x) * [x > 1] * [x < 3]"),
        ("T(x) * [x > 1 OR x < 3]", "T(x) * [x > 1 OR x < 3]"),
        ("Sum_[](T(x) * ⟨1 + 1⟩)", "Sum_[](T(x) * ⟨2⟩)"),
        # unification
        ("Sum_[y](T(x) * (y := x))", "T(y)"),
        ("Sum_[x, y](T(x) * (y := x))", "T(x) * (y := x)"),  # both are columns
        ("Sum_[z](T(x) * (y := x) * (z := y))", "T(z)"),
        ("Sum_[y](T(x) * [x > 1] * (y := x) * ⟨x⟩)", "T(y) * [y > 1] * ⟨y⟩"),
        ("Sum_[x](T(x) * (y := x + 1))", "T(x)"),
        ("Sum_[x](T(x) * (y := x + 1) * [y > 2])", "Sum_[x](T(x) * (y := x + 1) * [y > 2])"),
        (
            "Sum_[x](T(x) * (y := x) * (y := 1))",
            "Sum_[x](T(x) * (y := x) * (y := 1))",
        ),  # the second one compares
        ("Sum_[y](N(x) * (y INTEGER? := x))", "Sum_[y](N(x) * (y INTEGER? := x))"),  # another type: stays
    ],
)
def test_golden(before: str, after: str) -> None:
    assert str(simplify(parse(before, SCHEMA))) == after


@pytest.mark.parametrize(
    "text",
    [
        # y is local to the nested sum, which binds x of its own: renaming y to x, or x to y, would capture
        "Sum_[x](T(y) * Sum_[](R(x, z) * [y = z]) * (x := y))",
        "Sum_[x](Sum_[](R(y, z)) * T(y) * (x := y))",
    ],
)
def test_unification_does_not_capture(text: str) -> None:
    query = check(parse(text, SCHEMA), QUERY)
    db = Database({"T": Gmr([((1,), (2,)), ((2,), (3,))]), "R": Gmr([((1, 2), (5,)), ((3, 1), (7,))])})
    assert result(simplify(query), db, 0) == result(query, db, 0) != {}


def test_the_trace_names_rules() -> None:
    trace = Trace()
    simplify(parse("Sum_[y](T(x) * [TRUE] * (y := x))", SCHEMA), trace)
    assert trace.names()[:2] == ["fold condition", "equal variables"]
