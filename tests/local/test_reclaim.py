"""Strings and memory that nothing uses any more: freed in time, and nothing else.

Mutations that these catch: a holder of codes that is not asked (a table, a map, a slice over strings that are
only kept, an index over computed strings, a change that nobody has asked for yet), a label or a constant in
compiled code that outlives its code, a pool that shrinks under a slice, looking too often or never.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.local import ranges, reclaim, strings
from everfresh.local.bands import Band
from everfresh.local.reclaim import Held, renumber
from everfresh.local.slices import Slice
from everfresh.local.state import LocalState
from everfresh.testing.oracle import DuckOracle, assert_same

TABLES = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, s VARCHAR, note VARCHAR); "
    "CREATE TABLE u (s VARCHAR, x BIGINT)"
)
VIEWS = {
    "grouped": "SELECT s, COUNT(*) AS n FROM t GROUP BY s",
    "ends": "SELECT g, MIN(s) AS a, MAX(s) AS b FROM t GROUP BY g",
    "distinct_": "SELECT DISTINCT g, s FROM t",
    "like_": "SELECT k, s FROM t WHERE s LIKE 'a%b%'",
    "constant": "SELECT k, CASE WHEN s = 'ab' THEN 'yes it is' ELSE 'no' END AS c FROM t WHERE g <> 'b'",
    "joined": "SELECT t.k, u.x FROM t JOIN u ON t.s = u.s",
    "outer_": "SELECT u.s, COUNT(t.k) AS n FROM u LEFT JOIN t ON t.s = u.s GROUP BY u.s",
    "windowed": "SELECT k, ROW_NUMBER() OVER (PARTITION BY g ORDER BY s, k) AS r FROM t",
    "first_": "SELECT s, k FROM t ORDER BY s, k LIMIT 3",
    "computed": "SELECT upper(s) || '!' AS loud, COUNT(*) AS n FROM t GROUP BY upper(s) || '!'",
    "above": "SELECT a.k, COUNT(*) AS n FROM t a JOIN u b ON upper(b.s) < a.s GROUP BY a.k",
    "least": "SELECT k FROM t WHERE s > (SELECT MIN(s) FROM u)",
    "on_view": "SELECT MAX(a) AS a FROM ends",
    "again": "SELECT g, MAX(s) AS s FROM t GROUP BY g",
}
WORDS = st.sampled_from(["", "a", "ab", "abab", "aab and b", "B", "ä longer string than a word", "zzzzzzzzz"])
ROWS = st.tuples(st.integers(0, 7), WORDS, st.one_of(st.none(), WORDS), WORDS)
BATCHES = st.lists(
    st.tuples(st.lists(ROWS, max_size=5), st.lists(st.tuples(WORDS, st.integers(0, 9)), max_size=4), st.integers(0, 9)),
    min_size=2,
    max_size=7,
)


def state_of(db: ef.Database) -> LocalState:
    state: LocalState = db._engine._state  # type: ignore[attr-defined]
    return state


def made(*views: str, history: int = 100, compile: str = "off", path: Path | None = None) -> ef.Database:
    options = ef.Options(history=history, compile=compile, durable=False)
    db = ef.connect(path, engine="local", options=options)
    db.sql(TABLES)
    for name in views or VIEWS:
        how = "WITH (strategy = 're-evaluate') " if name == "again" else ""
        db.sql(f"CREATE MATERIALIZED VIEW {name} {how}AS {VIEWS[name]}")
    state_of(db).upkeep.always = True
    return db


def deltas(batches: list[Any]) -> Iterator[dict[str, ef.Delta]]:
    """Changes that tables allow: a row of `t` whose key is there is an update, or takes its place."""
    items: dict[int, Any] = {}
    bag: list[Any] = []
    for rows, others, pick in batches:
        come = {row[0]: row for row in rows}
        gone = [row for key, row in items.items() if key in come or (key + pick) % 4 == 0]
        items = {key: row for key, row in items.items() if row not in gone} | come
        leaves, bag = bag[: pick % (len(bag) + 1)], [*bag[pick % (len(bag) + 1) :], *others]
        yield {"t": ef.Delta(inserts=[*come.values()], deletes=gone), "u": ef.Delta(inserts=others, deletes=leaves)}


@pytest.fixture(scope="module", params=["off", "now"])
def shared(request: pytest.FixtureRequest) -> Iterator[tuple[ef.Database, DuckOracle]]:
    """One database for all examples: making its views takes longer than they do."""
    chosen = COMPILED if request.param == "now" else [*VIEWS]
    with closing(made(*chosen, compile=request.param)) as db, closing(DuckOracle()) as oracle:
        for table in ("t", "u"):
            oracle.create(db._engine.catalog.tables[table])
        yield db, oracle


@settings(deadline=None)
@given(BATCHES)
def test_views_are_those_of_duckdb_when_strings_are_freed_after_every_batch(
    shared: tuple[ef.Database, DuckOracle], batches: list[Any]
) -> None:
    db, oracle = shared
    db.sql("DELETE FROM t; DELETE FROM u")
    for table in ("t", "u"):
        oracle.create(oracle.tables[table])
    past: list[tuple[int, dict[str, pa.Table]]] = []
    views = [name for name in VIEWS if name in db._engine.catalog.views]
    for batch in deltas(batches):
        epoch = db.apply(batch)
        for table, delta in batch.items():
            oracle.apply(table, delta.inserts, delta.deletes)
        oracle.create_view("ends", VIEWS["ends"])
        found = {name: db.view(name).to_arrow() for name in views}
        for name, rows in found.items():
            assert_same(oracle.query(VIEWS[name]), rows, name)
        oracle.drop_views()
        past.append((epoch, found))
        held = {text for rows in db._engine.catalog.tables for text in texts(db.table(rows).to_arrow())}
        assert held <= set(known(db))
    for epoch, found in past:
        for name, rows in found.items():
            assert_same(rows, db.view(name).to_arrow(at=epoch), name)


def texts(rows: pa.Table) -> set[str]:
    return {value for row in rows.to_pylist() for value in row.values() if isinstance(value, str)}
