"""Flat statements over one change against the reference evaluator: what the interpreter gives a `MapStore`
is what `evaluate` says.

Mutations that the property catches: a filter that keeps NULL verdicts, or forgets to filter the weights; a
sign that is lost; a weight beyond ±1 that is added once; components taken before a later filter; NULL keys
that join group 0 or ''; NaN keys in many groups; 128-bit products cut to 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Gmr, Kind
from everfresh.calculus import (
    Bind,
    Cond,
    Database,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    evaluate,
    outputs,
)
from everfresh.compiler import CompiledView
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Var, Vector, build
from everfresh.expr import parse as parse_expr
from everfresh.expr.build import MAKERS
from everfresh.local.store.components import float_total, wide_to_python
from everfresh.local.store.entries import joined_values
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.strings import Interner
from everfresh.program import MapDef, Program, Statement, Trigger, View
from everfresh.testing.one_change import OneChange
from everfresh.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, HUGEINT, NAN, VARCHAR, Column, canonical_float

COLUMNS = (
    Column("a", BIGINT),
    Column("g", VARCHAR),
    Column("d", DOUBLE),
    Column("w", DECIMAL(30, 2)),
    Column("h", HUGEINT),
    Column("b", BOOLEAN),
    Column("p", DECIMAL(9, 2), False),
)
NAMES = [c.name for c in COLUMNS]
VARS = {c.name: Var(c.name, c.type, c.nullable) for c in COLUMNS}
VALUES: dict[str, list[Any]] = {
    "a": [None, 0, 1, -1, (1 << 63) - 1, -(1 << 63)], "g": [None, "", "a", "b", "it's"],
    "d": [None, 0.0, 0.1, 0.2, -1e16, 1e300, 5e-324, NAN, float("inf"), float("-inf")],
    "w": [None, 0, 1, 10**30 - 1, -(10**30) + 1], "h": [None, 0, 10**33, -(10**33)], "b": [None, True, False],
    "p": [0, 125, -999_999_999],
}  # fmt: skip
WEIGHTS = st.sampled_from([1, 1, -1, 2, -2, 3, 7, 0, -1000])
ROWS = st.lists(st.tuples(st.tuples(*(st.sampled_from(VALUES[n]) for n in NAMES)), WEIGHTS), max_size=12)


def expr(text: str) -> Expr:
    return parse_expr(text, VARS, MAKERS)


CONDITIONS = [
    expr(t)
    for t in (
        "a > 0",
        "b",
        "NOT b",
        "g = 'a'",
        "g <> ''",
        "g IS NULL",
        "d > 0.15",
        "d <> d OR a IS NULL",
        "w < 1 OR p > 1",
        "TRUE",
        "a = 0 AND b",
    )
]
KEYS = {
    "k": [expr(t) for t in ("a % 3", "a", "coalesce(a, 7)")],
    "s": [expr(t) for t in ("g", "g || '!'", "coalesce(g, '')")],
    "e": [expr(t) for t in ("d", "d * 2", "coalesce(d, 0.5)")],
}
KEYS = {name: [e if e.type == VARS[base].type else build.cast(e, VARS[base].type) for e in exprs]
        for (name, exprs), base in zip(KEYS.items(), "agd", strict=True)}  # fmt: skip
COMPONENTS = {
    Kind.COUNT: [
        build.call("not_null01", VARS["a"]),
        build.call("truth", VARS["b"]),
        build.call("is_nan01", VARS["d"]),
    ],
    Kind.WIDE: [build.call("if_null_zero", VARS[n]) for n in ("a", "w", "h")] + [VARS["p"]],
    Kind.FLOAT: [build.call("finite_or_zero", VARS["d"]), expr("1e0 / 3")],
}
KINDS = [(kind, item) for kind, items in COMPONENTS.items() for item in items]


@st.composite
def statements(draw: Any) -> tuple[MapDef[Query], Query]:
    """A map and a flat statement over ΔR: a sum of signed products, their factors in any order."""
    columns = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))
    bound = draw(st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=2))
    kinds = tuple(draw(st.lists(st.sampled_from(list(Kind)), max_size=3)))
    # a key that one term binds may be NULL if any term makes it so
    keys = tuple([VARS[n] for n in columns] + [Var(n, KEYS[n][0].type, True) for n in bound])
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        steps: list[Query] = [Bind(v, draw(st.sampled_from(KEYS[v.name]))) for v in keys if v.name in KEYS]
        steps += [Cond(c) for c in draw(st.lists(st.sampled_from(CONDITIONS), max_size=2))]
        if kinds:
            steps.append(Value(tuple(draw(st.sampled_from(COMPONENTS[kind])) for kind in kinds)))
        term: Query = Prod((Rel("R", tuple(VARS.values()), True), *draw(st.permutations(steps))))
        terms.append(Neg(term) if draw(st.booleans()) else term)
    body = terms[0] if len(terms) == 1 else Plus(tuple(terms))
    return MapDef("m", keys, kinds, body), Sum(keys, body)


def store_of(target: MapDef[Query], statement: Query) -> MapStore:
    program = Program((target,), (Trigger("R", (Statement("m", "+=", statement),)),))
    columns = tuple(Column(v.name, v.type, v.nullable) for v in target.keys)
    view = View("m", "m", columns, target.keys)
    return MapStore(CompiledView(None, program, view, "auto"), Interner())  # type: ignore[arg-type]


def change(store: MapStore, rows: list[Any], columns: tuple[Column, ...] = COLUMNS) -> OneChange:
    vectors = {c.name: Vector.from_pylist([row[i] for row, _ in rows], c.type) for i, c in enumerate(columns)}
    return OneChange(columns, vectors, np.array([w for _, w in rows], np.int64), store.codec.interner)


def contents(store: MapStore, slots: np.ndarray) -> dict[tuple[Any, ...], list[Any]]:
    """Entries by physical key: count and components as exact numbers (floats rounded once)."""
    words, values = store.pool.keys_at(slots), store.pool.gather(slots)
    columns = [v.to_pylist() for v in store.codec.vectors(words).values()]
    canon = [[canonical_float(x) if isinstance(x, float) else x for x in column] for column in columns]
    keys = list(zip(*canon, strict=True)) if canon else [()] * len(slots)
    parts: list[list[Any]] = [values.n.tolist()]
    for kind, at in zip(store.layout.kinds, store.layout.offsets, strict=True):
        if kind == Kind.FLOAT:
            parts.append(float_total(np.ascontiguousarray(values.floats[at : at + 3])).tolist())
        elif kind == Kind.WIDE:
            parts.append(wide_to_python(values.ints[at], values.ints[at + 1]))
        else:
            parts.append(values.ints[at].tolist())
    found = dict(zip(keys, map(list, zip(*parts, strict=True)), strict=True))
    assert len(found) == len(slots)
    return found


def reference(target: MapDef[Query], statement: Query, rows: list[Any]) -> dict[tuple[Any, ...], list[Any]]:
    change = Gmr((row, (weight,)) for row, weight in rows)
    order = [[v.name for v in outputs(statement)].index(v.name) for v in target.keys]
    found = {}
    for key, weight in evaluate(statement, Database(deltas={"R": change})).items():
        parts = [
            float(x) if kind == Kind.FLOAT else x for kind, x in zip(target.kinds, weight[1:], strict=True)
        ]
        found[tuple(key[i] for i in order)] = [weight[0], *parts]
    return found


@settings(max_examples=max(200, settings().max_examples))
@given(statements(), st.lists(ROWS, min_size=1, max_size=3))
def test_run_and_add_equal_the_reference_evaluator(
    made: tuple[MapDef[Query], Query], batches: list[list[Any]]
) -> None:
    target, statement = made
    store = store_of(target, statement)
    done: list[Any] = []
    for rows in batches:
        delta = change(store, rows).of(store, statement)
        before = contents(store, store.pool.live())
        touched = store.add_words(delta.words, delta.values)
        store.pool.rollback(touched)
        assert contents(store, store.pool.live()) == before
        touched = store.add_words(delta.words, delta.values)
        done += rows
        # within a batch an entry with n = 0 is there with its values; after it, only n decides
        expected = reference(target, statement, done)
        seen = {k: v for k, v in contents(store, touched.slots).items() if any(v)}
        assert seen == {k: v for k, v in expected.items() if k in seen}
        store.pool.commit(touched)
        # an entry that went with n = 0 and values left has lost them for good: take it out of the history too
        gone = {k for k, v in expected.items() if v[0] == 0}
        if gone:
            return
        assert contents(store, store.pool.live()) == expected


@settings(max_examples=max(60, settings().max_examples))
@given(statements(), ROWS)
def test_rows_merged_first_give_the_same_map(made: tuple[MapDef[Query], Query], rows: list[Any]) -> None:
    """A batch is its net: rows with weights, or each row once per weight, or merged, are one change."""
    target, statement = made
    merged = [(row, w[0]) for row, w in Gmr((row, (weight,)) for row, weight in rows).items()]
    single = [
        (row, 1 if weight > 0 else -1)
        for row, weight in rows
        for _ in range(abs(weight) if abs(weight) < 9 else 0)
    ]
    single += [(row, weight) for row, weight in rows if abs(weight) >= 9]
    found = []
    for given_rows in (rows, merged, single):
        store = store_of(target, statement)
        touched = change(store, given_rows).add(store, statement)
        found.append({k: v for k, v in contents(store, touched.slots).items() if any(v)})
    assert found[0] == found[1] == found[2]


def test_relations_are_matched_by_position() -> None:
    """After ALTER or renaming a variable need not have the name of its column."""
    x = Var("x", BIGINT)
    target = MapDef("m", (x,), (), Rel("R", (x,)))
    statement = Rel("R", (x,), True)
    store = store_of(target, statement)
    touched = change(store, [((1,), 2), ((None,), 3)], COLUMNS[:1]).add(store, statement)
    assert contents(store, touched.slots) == {(1,): [2], (None,): [3]}


def test_an_error_names_the_row_of_the_input() -> None:
    """Rows before it may have been filtered out."""
    statement = Sum((), Prod((
        Rel("R", (VARS["a"],), True), Cond(expr("a <> 5")), Bind(Var("k", BIGINT), expr("7 // a")),
    )))  # fmt: skip
    store = store_of(MapDef("m", (), (), statement), statement)
    with pytest.raises(EverfreshError) as caught:
        change(store, [((a,), 1) for a in (5, 5, 1, 0)], COLUMNS[:1]).of(store, statement)
    assert (caught.value.code, caught.value.row) == (Code.DIVISION_BY_ZERO, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("value", "weights"), [(1.7e308, [2]), (1.7e308, [1, 1]), (-1.7e308, [3])])
def test_a_sum_beyond_the_doubles_is_refused(value: float, weights: list[int]) -> None:
    statement = Sum(
        (), Prod((Rel("R", (VARS["d"],), True), Value((build.call("finite_or_zero", VARS["d"]),))))
    )
    store = store_of(MapDef("m", (), (Kind.FLOAT,), statement), statement)
    scope = change(store, [((value,), w) for w in weights], (COLUMNS[2],))
    with pytest.raises(EverfreshError) as caught:
        scope.add(store, statement)
    assert caught.value.code == Code.OVERFLOW
    assert len(store.pool) == 0


def test_copies_of_a_huge_value_are_refused() -> None:
    statement = Sum((), Prod((Rel("R", (VARS["h"],), True), Value((build.call("if_null_zero", VARS["h"]),)))))
    store = store_of(MapDef("m", (), (Kind.WIDE,), statement), statement)
    for weights in ([20], [1] * 20):
        scope = change(store, [((10**37,), w) for w in weights], (COLUMNS[4],))
        with pytest.raises(EverfreshError) as caught:
            scope.add(store, statement)
        assert caught.value.code == Code.OVERFLOW
        assert len(store.pool) == 0


def test_weights_times_values_are_exact() -> None:
    statement = Sum((), Prod((Rel("R", (VARS["d"], VARS["a"]), True), Value((VARS["d"], VARS["a"])))))
    target = MapDef("m", (), (Kind.FLOAT, Kind.WIDE), statement)
    store = store_of(target, statement)
    columns, row = (COLUMNS[2], COLUMNS[0]), (0.1, 1 << 62)
    values = [change(store, [(row, w)], columns).of(store, statement).values for w in (3, -1000)]
    values = joined_values(*values)
    assert wide_to_python(values.ints[0], values.ints[1]) == [3 << 62, -1000 << 62]
    assert float_total(values.floats).tolist() == [0.1 * 3, -100.0]
    touched = change(store, [(row, 3), (row, -3)], columns).add(store, statement)
    assert contents(store, touched.slots) == {(): [0, 0.0, 0]}


def test_three_copies_at_once_go_one_by_one() -> None:
    """0.1 * 3 is no double: without its rounding error something would stay for ever."""
    statement = Sum((), Prod((Rel("R", (VARS["d"],), True), Value((VARS["d"],)))))
    store = store_of(MapDef("m", (), (Kind.FLOAT,), statement), statement)
    scope = change(store, [((0.1,), w) for w in (3, -1, -1, -1)], (COLUMNS[2],))
    assert contents(store, scope.add(store, statement).slots) == {(): [0, 0.0]}
