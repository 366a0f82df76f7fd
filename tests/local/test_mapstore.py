"""Maps of views: old rows plus the published change are the new rows; rollback restores; recomputation
agrees.

Mutations that these catch: a group that passes HAVING and is published although it did before; an aggregate
without GROUP BY that has no row over nothing, or two; a change published for entries that came out as they
were; a sum of decimals read off its integer without its scale; NaN groups that recomputation splits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.compiler import Catalog
from everfresh.delta.bags import WEIGHT, difference, expand, net, subtract
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.local.batch.recompute import recompute, relation
from everfresh.local.store.map_store import MapStore, weighted_schema
from everfresh.local.store.pool import Pool, Touched
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.program import Part
from everfresh.sql import parse_and_bind
from everfresh.testing.one_change import OneChange
from everfresh.types import NAN, to_arrow

SCHEMA = "CREATE TABLE t (g VARCHAR, x INTEGER, d DOUBLE, p DECIMAL(15,2), w DECIMAL(38,2))"
VALUES: dict[str, list[Any]] = {
    "g": [None, "", "a"],
    "x": [None, -1, 0, 1],
    "d": [None, 0.1, 1e16, -1e16, NAN, float("inf"), float("-inf")],
    "p": [None, 125, -125, 10**14],
    "w": [None, 10**30, -(10**30), 1],
}
VIEWS = {
    "bag": "SELECT g, x, d FROM t WHERE x IS NULL OR x <> 0",
    "distinct": "SELECT DISTINCT d, g FROM t",
    "grouped": "SELECT g, count(*) AS n, sum(x) AS s, sum(p) p, avg(p) AS a, sum(w) AS w FROM t GROUP BY g",
    "floats": "SELECT g, sum(d) AS s, avg(d) AS a, count(d) AS n FROM t GROUP BY g",
    "having": "SELECT g FROM t GROUP BY g HAVING sum(x) > 0",
    "one row": "SELECT count(*) AS n, sum(x) AS s, sum(d) AS d FROM t",
    "maybe one": "SELECT sum(x) AS s FROM t HAVING count(*) <> 2",
    "by float": "SELECT d, count(*) AS n FROM t GROUP BY d",
    "constant": "SELECT 1 AS one, CAST(NULL AS DATE) AS nothing FROM t",
    "nothing": "SELECT g FROM t WHERE FALSE",
}


def catalog() -> Catalog:
    made = Catalog()
    for text in (SCHEMA, *(f'CREATE MATERIALIZED VIEW "{name}" AS {query}' for name, query in VIEWS.items())):
        (statement,) = parse_and_bind(text, made)
        made, _ = made.execute(statement)
    return made


CATALOG = catalog()
T = CATALOG.tables["t"]
ROW = st.tuples(*(st.sampled_from(VALUES[n]) for n in T.names))
BATCHES = st.lists(
    st.tuples(st.lists(ROW, max_size=5), st.lists(st.integers(0, 20), max_size=4), st.booleans()),
    min_size=2,
    max_size=3,
)


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        {c.name: Vector.from_pylist([r[i] for r in rows], c.type).to_arrow() for i, c in enumerate(T.columns)}
    )


class State:
    """One table, all views, as an engine keeps them."""

    def __init__(self) -> None:
        self.interner = Interner()
        self.table = Table(T, self.interner)
        self.stores = {name: MapStore(view.compiled, self.interner) for name, view in CATALOG.views.items()}

    def add(self, name: str, change: Any) -> list[Touched]:
        store = self.stores[name]
        trigger = store.compiled.program.trigger("t")
        scope = self.scope(change.words, change.weights)
        return [scope.add(store, s.expr) for s in trigger.statements] if trigger else []

    def scope(self, words: Any, weights: Any) -> OneChange:
        return OneChange(T.columns, self.table.codec.vectors(words), weights, self.interner)

    def resolve(self, inserts: list[tuple[Any, ...]], deletes: list[tuple[Any, ...]]) -> Any:
        return self.table.resolve(
            [Part("t", "insert", arrow(inserts), "in"), Part("t", "delete", arrow(deletes), "out")]
        )


def same(a: pa.Table, b: pa.Table, tolerance: float = 0) -> bool:
    return difference(a, b, tolerance).num_rows == 0


@settings(max_examples=max(20, settings().max_examples))
@given(BATCHES)
def test_published_changes_rollback_and_recomputation(batches: list[Any]) -> None:
    state = State()
    there: list[tuple[Any, ...]] = []
    for inserts, gone, keep in batches:
        deletes = [there[i] for i in {g % len(there) for g in gone}] if there else []
        change = state.resolve(inserts, deletes)
        undo = state.table.apply(change)
        for name, store in state.stores.items():
            before = expand(store.rows())
            touched = state.add(name, change)
            for t in touched:
                published = store.published(t)
                assert published.schema == weighted_schema(store.view.columns)
                assert published.num_rows == net(published).num_rows
                assert same(before, subtract(expand(store.rows()), published))
                if keep:
                    store.pool.commit(t)
                else:
                    store.pool.rollback(t)
            after = expand(store.rows())
            assert keep or same(before, after)
        if keep:
            state.table.commit(undo)
            for row in deletes:
                there.remove(row)
            there += inserts
        else:
            state.table.rollback(undo)
        gmr = relation(T, *state.table.rows())
        for name, store in state.stores.items():
            again = expand(recompute(CATALOG.views[name].compiled, {"t": gmr}))
            assert same(again, expand(store.rows()), 1e-12), name


@settings(max_examples=max(10, settings().max_examples))
@given(st.lists(ROW, max_size=8), st.integers(1, 4))
def test_loading_piece_by_piece_equals_maintaining(rows: list[tuple[Any, ...]], size: int) -> None:
    """What `CREATE MATERIALIZED VIEW` over a filled table does."""
    state = State()
    change = state.resolve(rows, [])
    state.table.commit(state.table.apply(change))
    for name, store in state.stores.items():
        for t in state.add(name, change):
            store.pool.commit(t)
        loaded = MapStore(CATALOG.views[name].compiled, state.interner)
        for slots in state.table.chunks(size):
            scope = state.scope(state.table.pool.keys_at(slots), state.table.pool.gather(slots).n)
            loaded.pool.commit(scope.add(loaded, loaded.target.definition))
        assert same(expand(store.rows()), expand(loaded.rows()), 1e-12)
        # a pool that is taken over is the map
        again = MapStore(
            CATALOG.views[name].compiled, state.interner, Pool.from_arrays(loaded.pool.as_arrays())
        )
        assert same(expand(again.rows()), expand(loaded.rows()))
        assert again.count() == loaded.count() == loaded.rows().num_rows


# -- single facts --------------------------------------------------------------------------------------


def published(
    state: State, name: str, inserts: list[Any], deletes: list[Any] | None = None
) -> list[dict[str, Any]]:
    change = state.resolve(inserts, deletes or [])
    state.table.commit(state.table.apply(change))
    store = state.stores[name]
    (touched,) = state.add(name, change)
    found = store.published(touched)
    store.pool.commit(touched)
    return found.to_pylist()


A, B = ("a", 1, 0.5, 125, 1), ("a", -1, 0.5, 250, 1)


def test_one_row_over_nothing() -> None:
    state = State()
    empty = {"n": 0, "s": None, "d": None}
    assert expand(state.stores["one row"].rows()).to_pylist() == [empty]
    assert published(state, "one row", [A]) == [
        {**empty, WEIGHT: -1},
        {"n": 1, "s": Decimal(1), "d": 0.5, WEIGHT: 1},
    ]
    assert published(state, "one row", [], [A]) == [
        {"n": 1, "s": Decimal(1), "d": 0.5, WEIGHT: -1},
        {**empty, WEIGHT: 1},
    ]
    assert expand(state.stores["one row"].rows()).to_pylist() == [empty]


def test_having_publishes_only_what_passes() -> None:
    state = State()
    assert published(state, "having", [B]) == []
    assert published(state, "having", [A, A]) == [{"g": "a", WEIGHT: 1}]
    assert published(state, "having", [A]) == []  # still passes
    assert published(state, "having", [B, B]) == [{"g": "a", WEIGHT: -1}]


def test_a_group_goes_with_its_last_row_and_not_before() -> None:
    state = State()
    published(state, "grouped", [A, B])
    row = {"g": "a", "n": 2, "s": Decimal(0), "p": Decimal("3.75"), "a": 1.875, "w": Decimal("0.02")}
    assert expand(state.stores["grouped"].rows()).to_pylist() == [row]
    assert [r[WEIGHT] for r in published(state, "grouped", [], [A])] == [-1, 1]
    assert [r[WEIGHT] for r in published(state, "grouped", [], [B])] == [-1]


def test_a_change_of_a_float_alone_is_published() -> None:
    state = State()
    published(state, "floats", [A])
    changes = published(state, "floats", [(*A[:2], 0.25, *A[3:])], [A])
    assert [(r["s"], r["n"], r[WEIGHT]) for r in changes] == [(0.5, 1, -1), (0.25, 1, 1)]


def test_nothing_changed_publishes_nothing() -> None:
    state = State()
    published(state, "distinct", [A])
    assert published(state, "distinct", [B]) == []
    store = state.stores["distinct"]
    assert store.no_change().schema == weighted_schema(store.view.columns)


def test_a_sum_outside_its_type_is_refused_before_it_is_published() -> None:
    """128 bits hold more than DECIMAL(38, 2) shows."""
    state = State()
    big = ("a", 1, 0.5, 125, 10**38 - 1)
    published(state, "grouped", [big])
    change = state.resolve([("a", 1, 0.5, 125, 5 * 10**37)], [])
    store = state.stores["grouped"]
    before = store.rows()
    (touched,) = state.add("grouped", change)
    with pytest.raises(EverfreshError, match="outside DECIMAL") as caught:
        store.published(touched)
    assert caught.value.code == Code.OVERFLOW
    store.pool.rollback(touched)
    assert store.rows().equals(before)


def test_nan_is_one_group_for_recomputation_too() -> None:
    state = State()
    rows = [("a", 1, NAN, 1, 1), ("b", 1, NAN, 1, 1), ("c", 1, 0.5, 1, 1)]
    published(state, "by float", rows)
    again = recompute(CATALOG.views["by float"].compiled, {"t": relation(T, *state.table.rows())})
    assert sorted(expand(again).column("n").to_pylist()) == [1, 2]
    assert same(expand(again), expand(state.stores["by float"].rows()))


def test_recomputation_has_the_columns_of_the_view() -> None:
    for name, view in CATALOG.views.items():
        table = recompute(view.compiled, {})
        assert table.column_names == [*(c.name for c in view.columns), WEIGHT], name
        assert [f.type for f in table.schema][:-1] == [to_arrow(c.type) for c in view.columns]


def test_a_change_in_pool_form() -> None:
    """What a worker sends: words and values instead of vectors."""
    state = State()
    change = state.resolve([A, B], [])
    store = state.stores["grouped"]
    (touched,) = state.add("grouped", change)
    words, values = store.pool.keys_at(touched.slots), store.pool.gather(touched.slots)
    other = MapStore(CATALOG.views["grouped"].compiled, state.interner)
    other.pool.commit(other.add_words(words, values))
    assert same(expand(other.rows()), expand(store.rows()))
    assert np.array_equal(other.pool.keys_at(other.pool.live()), words)
