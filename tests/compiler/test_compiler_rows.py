"""Rows of plans: unification and order of factors; what closing, pruning and the table of aggregates make."""

from __future__ import annotations

import pytest
from compiler_support import joined_catalog

from everfresh.algebra import Kind
from everfresh.calculus import Query, parse
from everfresh.compiler.lowering.aggregates import Components, aggregate
from everfresh.compiler.lowering.lower import Lowered, lower
from everfresh.compiler.lowering.products import Fresh, Term, arrange, settle
from everfresh.compiler.lowering.prune import pruned
from everfresh.expr import Const, Expr, Var, build
from everfresh.program import View
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INTEGER, VARCHAR, Column

NULLABLE, SURE = Column("x", BIGINT), Column("y", BIGINT, False)
SCHEMA = {"R": (NULLABLE, NULLABLE), "N": (SURE, SURE), "L": (NULLABLE, NULLABLE)}


def factors(text: str) -> tuple[Query, ...]:
    found = parse(text, SCHEMA)
    return getattr(found, "factors", (found,))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R(a, b) * R(c, d) * [b = c]", "R(a, b) * R(b, d) * [b IS NOT NULL]"),
        ("N(a, b) * N(c, d) * [b = c]", "N(a, b) * N(b, d)"),
        (
            "R(a, b) * N(c, d) * [c = b]",
            "R(a, b) * N(b?, d) * [b IS NOT NULL]",
        ),  # the one that may be NULL stays
        ("R(a, b) * [a = b]", "R(a, b) * [a = b]"),  # one atom holds both
        (
            "R(a, b) * N(c, d) * [a + 1::BIGINT = c]",
            "R(a, b) * N(c, d) * [a + 1::BIGINT IS NOT NULL] * (c BIGINT := a + 1::BIGINT)",
        ),
        ("R(a, b) * N(c, d) * [a < c AND b = 2::BIGINT]", "R(a, b) * N(c, d) * [a < c] * [b = 2::BIGINT]"),
        ("R(a, b) * [TRUE] * [a > 1::BIGINT]", "R(a, b) * [a > 1::BIGINT]"),
        ("R(a, b) * [FALSE]", None),
        ("R(a, b) * [NULL::BOOLEAN]", None),
        ("R(a, b) * (c := a) * [c > 1::BIGINT]", "R(a, b) * [a > 1::BIGINT]"),
        ("R(a, b) * [a > 1::BIGINT] * [a > 1::BIGINT]", "R(a, b) * [a > 1::BIGINT]"),
        ("R(a, b) * R(a, b)", "R(a, b) * R(a, b)"),  # a square is not the relation
    ],
)
def test_settle(before: str, after: str | None) -> None:
    found = settle(Term(factors(before), {}), Fresh())
    assert (None if found is None else list(found.factors)) == (
        None if after is None else list(factors(after))
    )


def test_settle_renames_columns() -> None:
    term = Term(factors("N(a, b) * N(c, d) * [b = c]"), {"z": Var("c", BIGINT, False)})
    found = settle(term, Fresh())
    assert found is not None
    assert found.columns == {"z": Var("b", BIGINT, False)}


@pytest.mark.parametrize(
    ("given", "ordered", "always"),
    [
        ("[a > 1::BIGINT] * R(a, b)", "R(a, b) * [a > 1::BIGINT]", {}),
        ("R(c, d) * R(b, c) * ΔR(a, b)", "ΔR(a, b) * R(b, c) * R(c, d)", {}),
        ("L(a, v) * R(a, b)", "R(a, b) * L(a, v)", {"L": 1}),  # looked up when its key is bound
        (
            "[v > 1::BIGINT] * L(k, v) * (k := a + b) * R(a, b)",
            "R(a, b) * (k := a + b) * L(k, v) * [v > 1::BIGINT]",
            {"L": 1},
        ),
    ],
)
def test_arrange(given: str, ordered: str, always: dict[str, int]) -> None:
    known = factors(ordered)
    shuffled = sorted(known, key=lambda f: given.index(str(f)))
    assert arrange(shuffled, always) == list(known)


def test_what_cannot_be_arranged_raises() -> None:
    with pytest.raises(ValueError, match="not bound"):
        arrange(factors("L(a, v)"), {"L": 1})


# -- closing and pruning -------------------------------------------------------------------------------

TABLES = ["CREATE TABLE t (a BIGINT, b BIGINT, c BIGINT)", "CREATE TABLE s (x BIGINT, y BIGINT NOT NULL)"]


def lowered(query: str) -> Lowered:
    compiled = joined_catalog(*TABLES, f"CREATE MATERIALIZED VIEW v AS {query}").views["v"].compiled
    return lower("v", compiled.plan)


@pytest.mark.parametrize(
    ("query", "keys", "domains"),
    [
        ("SELECT (SELECT sum(y) FROM s WHERE s.x = t.a) AS n FROM t", [["x"]], 0),
        ("SELECT (SELECT sum(y) FROM s WHERE s.x = t.a + t.b) AS n FROM t", [["x"]], 0),
        ("SELECT (SELECT sum(y) FROM s WHERE s.x = t.a AND s.y = t.b) AS n FROM t", [["x", "y"]], 0),
        ("SELECT (SELECT sum(y) FROM s WHERE s.x < t.a) AS n FROM t", [["a"]], 1),
        ("SELECT (SELECT sum(y + t.b) FROM s WHERE s.x = t.a) AS n FROM t", [["x", "b"]], 1),
    ],
)
def test_closing(query: str, keys: list[list[str]], domains: int) -> None:
    """Equalities make keys of the inner columns; anything else joins the combinations that occur outside."""
    found = lowered(query)
    totals = [r for r in found.relations if isinstance(r, View) and r.always]
    held = {m.name: [v.name.removeprefix("s.") for v in m.keys] for m in found.maps}
    assert [sorted(k.removeprefix("t.") for k in held[r.map]) for r in totals] == [sorted(k) for k in keys]
    assert len(found.relations) - len(totals) == domains
    if not domains and "+" not in query:
        (inner,) = (m for m in found.maps if m.name == totals[0].map)
        assert "x IS NOT NULL" in str(inner.definition)  # a NULL key would be found by a NULL outside


def test_a_condition_on_the_outer_row_is_a_gate() -> None:
    found = lowered("SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = t.a AND t.b > 3)")
    inner = next(m for m in found.maps if m.name != "v")
    assert "3" not in str(inner.definition)
    assert "b > 3" in str(found.maps[-1].definition)


def test_pruning_drops_columns_and_relations_that_nothing_reads() -> None:
    query = "SELECT n, y FROM (SELECT a, b, count(*) AS n, sum(c) AS s FROM t GROUP BY a, b) AS g, s"
    before = lowered(query)
    after = pruned(before)
    assert [len(r.columns) for r in before.relations] == [4]
    assert [[c.name for c in r.columns] for r in after.relations] == [["count_1"]]
    assert pruned(after) == after
    once = lowered("SELECT a FROM t, (SELECT count(*) AS n FROM s) AS g")
    assert [len(r.columns) for r in pruned(once).relations] == [0]  # it is still one row


# -- the table of aggregates ---------------------------------------------------------------------------

N, X, F, D, B = (
    Var("n", INTEGER, False), Var("x", INTEGER), Var("f", DOUBLE), Var("d", DECIMAL(9, 2)), Var("b", BOOLEAN)
)  # fmt: skip


@pytest.mark.parametrize(
    ("call", "kinds", "value"),
    [
        (p.AggregateCall("count"), (), "#0"),
        (p.AggregateCall("count", (N,)), (), "#0"),
        (p.AggregateCall("count", (X,)), (Kind.COUNT,), "#1"),
        (p.AggregateCall("count", (), filter=B), (Kind.COUNT,), "#1"),
        (p.AggregateCall("sum", (N,)), (Kind.WIDE,), "#1"),
        (
            p.AggregateCall("sum", (X,)),
            (Kind.COUNT, Kind.WIDE),
            "CASE WHEN #1 = 0::BIGINT THEN NULL::HUGEINT ELSE #2 END",
        ),
        (p.AggregateCall("avg", (N,)), (Kind.WIDE,), "CAST(#1 AS DOUBLE) / CAST(#0 AS DOUBLE)"),
        (p.AggregateCall("min", (X,)), (), "#1.x"),
        (
            p.AggregateCall("bool_or", (B,)),
            (Kind.COUNT, Kind.COUNT),
            "CASE WHEN #1 = 0::BIGINT THEN NULL::BOOLEAN ELSE #2 > 0::BIGINT END",
        ),
        (p.AggregateCall("count", (X,), True), (), "#1.1"),
    ],
)
def test_aggregates(call: p.AggregateCall, kinds: tuple[Kind, ...], value: str) -> None:
    components = Components()
    assert str(aggregate(call, components, sure=True)) == value
    assert components.kinds == kinds


def test_components_are_shared() -> None:
    components = Components()
    for fn in ("sum", "avg", "count", "sum"):
        aggregate(p.AggregateCall(fn, (X,)), components, sure=True)
    assert components.kinds == (Kind.COUNT, Kind.WIDE)
    for fn in ("min", "max", "min"):
        aggregate(p.AggregateCall(fn, (X,)), components, sure=True)
    assert len(components.sides) == 2
    floats = Components()
    aggregate(p.AggregateCall("sum", (F,)), floats, sure=True)
    assert floats.kinds == (Kind.COUNT, Kind.FLOAT, Kind.COUNT, Kind.COUNT, Kind.COUNT)


@pytest.mark.parametrize("x", [F, build.cast(F, DOUBLE)])
def test_the_variance_of_floats_is_over_sums_of_products_and_their_rests(x: Expr) -> None:
    components = Components()
    aggregate(p.AggregateCall("var_pop", (x,)), components, sure=True)
    kinds = [kind for kind, _ in components.items]
    assert kinds == [Kind.COUNT, Kind.FLOAT, Kind.FLOAT, Kind.FLOAT, Kind.COUNT]
    assert {"finite_or_zero", "product_rest", "is_nan01"} <= {e.op for _, e in components.items}


def test_a_group_over_nothing_is_null_only_where_there_may_be_none() -> None:
    found = aggregate(p.AggregateCall("sum", (N,)), Components(), sure=False)
    assert str(found) == "CASE WHEN #0 = 0::BIGINT THEN NULL::HUGEINT ELSE #1 END"
    nothing = p.AggregateCall("count", (Const(None, VARCHAR),))
    assert str(aggregate(nothing, Components(), sure=False)) == "#1"
