"""The delta table: `Q(D + ΔD) = Q(D) + ΔQ(D, ΔD)` for random queries, databases and changes.

Mutations that the first property catches (tried by hand): a product rule without the cross term ΔA * ΔB; a
lift whose delta drops the `-(x := A)`; Exists treated as linear; Neg or Sum that forgets its wrapper; a
Plus that stops at its first changing term; a relation whose delta stays `R`. The degree test catches a rule
that keeps a base relation it need not.
"""

from __future__ import annotations

import pytest
from calculus_support import CHANGES, COLUMNS, TABLES, added, plus, queries, result
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.calculus import (
    DELTA,
    QUERY,
    ZERO,
    Cond,
    Database,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    check,
    degree,
    delta,
    parse,
    relations,
)
from everfresh.calculus.delta import RULES
from everfresh.expr import Const, Var
from everfresh.rewrite import node
from everfresh.types import BIGINT, BOOLEAN

NAMES = sorted(COLUMNS)


@settings(max_examples=max(180, settings().max_examples))
@given(queries(), TABLES, CHANGES, st.sets(st.sampled_from(NAMES), min_size=1))
def test_simultaneous_delta(made, tables, changes, names) -> None:  # type: ignore[no-untyped-def]
    query, k = made
    check(query, QUERY)
    change = {name: changes[name] for name in names}
    new = added(tables, change)
    before = result(query, Database(tables=tables), k)
    step = check(delta(query, names), DELTA)
    got = plus(before, result(step, Database(tables=tables, deltas=change), k))
    assert got == result(query, Database(tables=new), k)


@settings(max_examples=max(100, settings().max_examples))
@given(queries(), TABLES, CHANGES, st.permutations(NAMES))
def test_deltas_of_single_relations_telescope_in_any_order(made, tables, changes, order) -> None:  # type: ignore[no-untyped-def]
    query, k = made
    total = result(query, Database(tables=tables), k)
    state = tables
    for name in order:
        change = {name: changes[name]}
        total = plus(total, result(delta(query, {name}), Database(tables=state, deltas=change), k))
        state = added(state, change)
    assert total == result(query, Database(tables=added(tables, changes)), k)


@settings(max_examples=max(100, settings().max_examples))
@given(queries(), st.sampled_from(NAMES))
def test_a_relation_that_is_not_read_changes_nothing(made, name) -> None:  # type: ignore[no-untyped-def]
    query, _ = made
    assert name in relations(query) or delta(query, {name}) == ZERO
    assert delta(query, ()) == ZERO


# -- degree (Theorem 2.3.1) ----------------------------------------------------------------------------


def frozen(query: Query, step: int) -> Query:
    """The changes of a delta as relations of their own, which change no more."""
    if isinstance(query, Rel):
        return Rel(f"{query.name}~{step}", query.vars) if query.delta else query
    return query.map_children(lambda child: frozen(child, step) if isinstance(child, Query) else child)


def base_degree(query: Query) -> float:
    """The degree over the base relations alone."""
    return degree(replaced(query))


def replaced(query: Query) -> Query:
    if isinstance(query, Rel):
        return query if query.name in COLUMNS else Prod(())
    return query.map_children(lambda child: replaced(child) if isinstance(child, Query) else child)


@settings(max_examples=max(150, settings().max_examples))
@given(queries(flat=True))
def test_the_degree_of_a_flat_query_falls_by_one_with_each_delta(made) -> None:  # type: ignore[no-untyped-def]
    query, _ = made
    for step in range(3):
        if base_degree(query) <= 0:
            break
        change = frozen(delta(query, COLUMNS), step)
        assert base_degree(change) == base_degree(query) - 1
        query = change
    else:
        return
    assert delta(query, COLUMNS) == ZERO or base_degree(query) < 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("1", 0),
        ("0", float("-inf")),
        ("R(x, y) * S(y, z) * R(z, u)", 3),
        ("Sum_[x](R(x, y) * (S(y, z) + (-(T(y) * T(z) * (u := 1)))) * [x > 1::BIGINT])", 3),
        ("R(x, y) * 0 + T(x) * (y := x)", 1),
        ("ΔR(x, y) * S(y, z)", 1),
    ],
)
def test_degrees(query: str, expected: float) -> None:
    assert degree(parse(query, COLUMNS)) == expected


# -- the table itself ----------------------------------------------------------------------------------


def test_every_node_class_that_stands_in_a_view_has_a_rule() -> None:
    assert {cls for cls in Query.__subclasses__() if cls.__module__ == "everfresh.calculus.nodes"} - set(
        RULES
    ) == {MapRef}


def test_a_node_without_a_rule_raises() -> None:
    @node
    class Unknown(Query):
        body: Query

    x = Var("x", BIGINT)
    for query in (Unknown(Rel("R", (x,))), MapRef("M", (x,)), Prod((Rel("R", (x,)), Sum((), Unknown(ZERO))))):
        with pytest.raises(TypeError, match="no delta rule"):
            delta(query, {"R"})


def test_there_is_no_delta_of_a_change() -> None:
    x = Var("x", BIGINT)
    with pytest.raises(ValueError, match="ΔR"):
        delta(Prod((Rel("R", (x,)), Rel("R", (x,), True))), {"R"})


def test_constants_do_not_change() -> None:
    x = Var("x", BIGINT)
    for query in (Cond(Const(True, BOOLEAN)), Value((x,)), Prod(()), Plus(()), Neg(Prod(()))):
        assert delta(query, {"R"}) == ZERO


SCHEMA = {**COLUMNS, "R": COLUMNS["R"], "P": COLUMNS["R"]}


@pytest.mark.parametrize(
    ("query", "names", "expected"),
    [
        # Example 2.2.5, with a batch ΔR in place of a single tuple
        (
            "Sum_[](R(a, b) * S(c, d) * [b = c] * ⟨a * d⟩)",
            "R",
            "Sum_[](ΔR(a, b) * S(c, d) * [b = c] * ⟨a * d⟩)",
        ),
        (
            "Sum_[](R(a, b) * S(c, d) * [b = c] * ⟨a * d⟩)",
            "RS",
            "Sum_[](ΔR(a, b) * S(c, d) * [b = c] * ⟨a * d⟩"
            " + R(a, b) * ΔS(c, d) * [b = c] * ⟨a * d⟩ + ΔR(a, b) * ΔS(c, d) * [b = c] * ⟨a * d⟩)",
        ),
        # Example 2.2.6: the lift keeps its old value with a minus
        (
            "Sum_[a, b](R(a, b) * (z BIGINT :=! Sum_[](S(c, d) * [a > c] * ⟨d⟩)) * [b < z])",
            "S",
            "Sum_[a, b](R(a, b) * ((z BIGINT :=! Sum_[](S(c, d) * [a > c] * ⟨d⟩)"
            " + Sum_[](ΔS(c, d) * [a > c] * ⟨d⟩))"
            " + (-(z BIGINT :=! Sum_[](S(c, d) * [a > c] * ⟨d⟩)))) * [b < z])",
        ),
        # a self-join has its cross term within one relation
        ("R(x, y) * R(y, z)", "R", "ΔR(x, y) * R(y, z) + R(x, y) * ΔR(y, z) + ΔR(x, y) * ΔR(y, z)"),
        ("T(x) + (-R(x, x))", "R", "-ΔR(x, x)"),
        (
            "Exists(T(x) + R(x, x))",
            "R",
            "Exists(ΔR(x, x)) * (Exists(T(x) + R(x, x) + ΔR(x, x)) + (-Exists(T(x) + R(x, x))))",
        ),
        (
            "Sum_[](T(x)) * R(y, z)",
            "RT",
            "Sum_[](ΔT(x)) * R(y, z) + Sum_[](T(x)) * ΔR(y, z) + Sum_[](ΔT(x)) * ΔR(y, z)",
        ),
        ("R(x, y) * S(y, z)", "T", "0"),
    ],
)
def test_golden_text(query: str, names: str, expected: str) -> None:
    assert str(delta(parse(query, SCHEMA), set(names))) == expected
