"""Domains: they cover every change, read nothing but changes, and the revised delta rule keeps its meaning.

Mutations that the properties catch (some are tried below, the others were by hand): a sum whose
domain is the intersection of its terms' tuples; a product that keeps only the tuples of a closed lift's body;
a projection that leaves out what cancels; conditions over variables that the domain does not bind; a binding
before the lift of a name that is summed over inside.
"""

from __future__ import annotations

from importlib import import_module

import pytest
from calculus_support import CHANGES, COLUMNS, TABLES, added, plus, queries, result
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from everfresh.algebra import Gmr
from everfresh.calculus import (
    DELTA,
    ONE,
    ZERO,
    Database,
    Exists,
    Lift,
    Query,
    Sum,
    check,
    delta,
    domain,
    evaluate,
    inputs,
    outputs,
    parse,
    product,
    relations,
)
from everfresh.expr import Var
from everfresh.types import BIGINT, Column

MODULE = import_module("everfresh.calculus.domain_extraction")  # the package's name `domain` is the function
GENERATE = (Phase.generate,)
NAMES = sorted(COLUMNS)
SOME = st.sets(st.sampled_from(NAMES), min_size=1)


def covered(change: Query, db: Database, domain=domain) -> None:  # type: ignore[no-untyped-def]
    """Every tuple of `change` is in its domain, whose weights are all one."""
    dom = domain(change)
    assert inputs(dom) == ()
    assert relations(dom) == ()
    assert {v.name for v in outputs(dom)} <= {v.name for v in outputs(change)}
    tuples = evaluate(dom, Database(deltas=db.deltas))
    assert {weight for _, weight in tuples.items()} <= {(1,)}
    places = [[v.name for v in outputs(change)].index(v.name) for v in outputs(dom)]
    for key, _ in evaluate(change, db).items():
        assert tuples.get(tuple(key[i] for i in places)) is not None


def follows(query: Query, k: int, tables, change) -> None:  # type: ignore[no-untyped-def]
    step = check(delta(query, change), DELTA)
    before = result(query, Database(tables=tables), k)
    got = plus(before, result(step, Database(tables=tables, deltas=change), k))
    assert got == result(query, Database(tables=added(tables, change)), k)


@settings(max_examples=max(250, settings().max_examples))
@given(queries(), TABLES, CHANGES, SOME)
def test_a_domain_covers_the_change(made, tables, changes, names) -> None:  # type: ignore[no-untyped-def]
    query, _ = made
    change = {name: changes[name] for name in names}
    covered(delta(query, names), Database(tables=tables, deltas=change))


@st.composite
def nested(draw):  # type: ignore[no-untyped-def]
    """A lift, or an Exists, of a random query that itself may nest."""
    query, _ = draw(queries(depth=2))
    return draw(st.sampled_from([Exists(query), Lift(Var("u", BIGINT), Exists(query))]))


@settings(max_examples=max(250, settings().max_examples))
@given(nested(), TABLES, CHANGES, SOME)
def test_the_revised_rule_keeps_the_meaning(query, tables, changes, names) -> None:  # type: ignore[no-untyped-def]
    follows(query, 0, tables, {name: changes[name] for name in names})


# -- broken rules are found ----------------------------------------------------------------------------------


def intersection(domains: list[Query]) -> Query:
    """Wrong: the tuples that all terms change."""
    return product(*domains) if all(d != ONE for d in domains) else ONE


def closed_like_grouped(query: Query) -> Query:
    """Wrong: a closed lift has a row also where its body holds nothing."""
    return MODULE_DOMAIN(query.body) if isinstance(query, Lift) else MODULE_DOMAIN(query)


def uncounted(query: Query, names: set[str]) -> Query:
    """Wrong: what is projected is the sum of the changes, where an insert and a delete cancel."""
    kept = tuple(v for v in outputs(query) if v.name in names)
    inner = query.body if isinstance(query, Exists) else query
    if len(kept) == len(outputs(query)):
        return query
    return Exists(Sum(kept, inner)) if kept else ONE


MODULE_DOMAIN = MODULE.domain


def test_an_intersection_is_found_by_random_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_union", intersection)

    @settings(max_examples=max(250, settings().max_examples), report_multiple_bugs=False, phases=GENERATE)
    @given(queries(), TABLES, CHANGES, SOME)
    def covers(made, tables, changes, names) -> None:  # type: ignore[no-untyped-def]
        change = {name: changes[name] for name in names}
        covered(delta(made[0], names), Database(tables=tables, deltas=change))

    with pytest.raises(AssertionError):
        covers()


@pytest.mark.parametrize(
    ("name", "broken", "text"),
    [
        ("_union", intersection, "ΔT(x) + Sum_[x](ΔR(x, y))"),
        ("domain", closed_like_grouped, "ΔT(x) * (z BIGINT :=! Sum_[x](ΔR(x, y)))"),
        ("_project", uncounted, "Sum_[x](ΔR(x, y) * ⟨if_null_zero(y)⟩)"),
    ],
)
def test_a_wrong_rule_is_found(name: str, broken, text: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    change = parse(text, COLUMNS)

    @settings(max_examples=max(150, settings().max_examples), report_multiple_bugs=False, phases=GENERATE)
    @given(TABLES, CHANGES)
    def covers(tables, changes) -> None:  # type: ignore[no-untyped-def]
        covered(change, Database(tables=tables, deltas=changes), MODULE.domain)

    covers()
    monkeypatch.setattr(MODULE, name, broken)
    with pytest.raises(AssertionError):
        covers()


def test_an_intersection_of_tuples_loses_changes_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    query = parse("Exists(T(x) + Sum_[x](R(x, y)))", COLUMNS)
    tables = {"T": Gmr(), "R": Gmr()}
    change = {"T": Gmr([((1,), (1,))]), "R": Gmr([((0, 0), (1,))])}
    follows(query, 0, tables, change)
    monkeypatch.setattr(MODULE, "_union", intersection)
    with pytest.raises(AssertionError):
        follows(query, 0, tables, change)


# -- golden --------------------------------------------------------------------------------------------------

TPCH = {
    "C": (Column("ck", BIGINT, False),),
    "O": (Column("ck", BIGINT, False), Column("ok", BIGINT, False)),
    "LI": (Column("ok", BIGINT, False), Column("qty", BIGINT, False)),
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ΔR(x, y)", "Exists(ΔR(x, y))"),
        ("-ΔR(x, y)", "Exists(ΔR(x, y))"),
        ("S(x, y)", "1"),
        ("0", "0"),
        ("ΔR(x, y) * 0", "0"),
        ("ΔR(x, y) * S(y, z) * ΔT(z)", "Exists(ΔR(x, y)) * Exists(ΔT(z))"),
        # conditions over what the domain binds, wherever they stand; nothing that can fail
        ("S(y, z) * [y > 3::BIGINT] * [z > 3::BIGINT] * ΔR(x, y)", "Exists(ΔR(x, y)) * [y > 3::BIGINT]"),
        ("ΔT(x) * (y := x) * [x + 1::BIGINT > 2::BIGINT] * [1 = 1]", "Exists(ΔT(x)) * (y := x)"),
        # Example 3.4.1, with its condition
        ("Sum_[x](ΔR(x, y) * [y > 3::BIGINT])", "Exists(Sum_[x](Exists(ΔR(x, y)) * [y > 3::BIGINT]))"),
        ("Sum_[](ΔR(x, y))", "1"),
        ("Sum_[z](ΔR(x, y) * S(y, z))", "1"),
        # a sum: the tuples of both, on what both bind
        ("ΔR(x, y) + S(x, y)", "1"),
        ("ΔR(x, y) + (-ΔS(x, y))", "Exists(Exists(ΔR(x, y)) + Exists(ΔS(x, y)))"),
        (
            "ΔT(x) * S(x, y) + ΔR(x, y)",
            "Exists(Exists(ΔT(x)) + Exists(Sum_[x](Exists(ΔR(x, y~)))))",
        ),
        ("ΔR(x, y) * S(z, u) + R(x, y) * ΔS(z, u)", "1"),
        # lifts: a grouped one is where its body is, a closed one everywhere
        ("(z BIGINT :=: Sum_[x](ΔR(x, y)))", "Exists(Sum_[x](Exists(ΔR(x, y))))"),
        ("ΔT(x) * (z BIGINT :=! Sum_[](ΔR(y, y)))", "Exists(ΔT(x))"),
    ],
)
def test_golden_domains(query: str, expected: str) -> None:
    assert str(domain(parse(query, COLUMNS))) == expected


@pytest.mark.parametrize(
    ("query", "name", "expected"),
    [
        # Example 3.2.2
        (
            "(b BIGINT :=: C(a))",
            "C",
            "Exists(ΔC(a)) * ((b BIGINT :=: C(a) + ΔC(a)) + (-(b BIGINT :=: C(a))))",
        ),
        # the lift of the simplified Q18 (section 3.3.1)
        (
            "(x BIGINT :=: Sum_[ok](LI(ok, qty) * ⟨qty⟩))",
            "LI",
            "Exists(Sum_[ok](Exists(ΔLI(ok, qty))))"
            " * ((x BIGINT :=: Sum_[ok](LI(ok, qty) * ⟨qty⟩) + Sum_[ok](ΔLI(ok, qty) * ⟨qty⟩))"
            " + (-(x BIGINT :=: Sum_[ok](LI(ok, qty) * ⟨qty⟩))))",
        ),
        # a name that is summed over inside is not bound before the lift
        (
            "Exists(Sum_[](C(ck)) * O(ck, ok))",
            "O",
            "Exists(Sum_[ok](Exists(ΔO(ck~, ok))))"
            " * (Exists(Sum_[](C(ck)) * O(ck, ok) + Sum_[](C(ck)) * ΔO(ck, ok))"
            " + (-Exists(Sum_[](C(ck)) * O(ck, ok))))",
        ),
        ("Exists(O(ck, ok) * 0)", "O", "0"),
    ],
)
def test_golden_deltas(query: str, name: str, expected: str) -> None:
    change = check(delta(parse(query, TPCH), {name}), DELTA)
    assert str(change) == expected


def test_a_domain_of_nothing_is_nothing() -> None:
    assert domain(ZERO) == ZERO
    assert domain(ONE) == ONE
