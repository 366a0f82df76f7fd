"""Statements of blocks as compiled code equal what the interpreter makes of them, batch by batch.

Catches: code that is never used; code of another order, of another place or of a view that was made anew; a
relation read as it is where it is to be read as it was; an error that code swallows or names otherwise.
"""

from __future__ import annotations

from pathlib import Path
from sys import path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh.algebra import Kind
from everfresh.calculus import Prod
from everfresh.distributed import RANDOM, REPLICATED
from everfresh.distributed.plan.ir import Eval
from everfresh.distributed.worker.native_blocks import as_before
from everfresh.errors import EverfreshError
from everfresh.expr import Var
from everfresh.local.native import manager
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Layout, Values
from everfresh.local.store.strings import Interner
from everfresh.program import MapDef
from everfresh.testing.random_sql import random_case, spelled
from everfresh.types import BIGINT, arrow_schema, quoted
from everfresh.workloads import WORKLOADS

path.insert(0, str(Path(__file__).parents[1] / "workloads"))
from test_distributed_twin import LARGE, changes, histories
from twin import Twins, started

THESIS = [q.name for q in WORKLOADS["thesis"].queries]
FEW = ("q03", "q04", "q06", "q13", "q18")
"""Those of the thesis's queries whose code is made in a few seconds: joins, a derived relation, sums alone,
an outer join, a nested aggregate."""
TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL)"


def both(state: Any, workers: int, **how: Any) -> Twins:
    """The local engine's state beside compiled blocks and interpreted ones."""
    twins = Twins(state, (workers,), compile="now", **how)
    twins.others += Twins(state, (workers,), compile="off", **how).others
    return twins


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.soak) for name in THESIS]
)
def test_compiled_blocks_equal_interpreted_ones(name: str) -> None:
    number = THESIS.index(name)
    query = WORKLOADS["thesis"].query(name)
    state = started([*WORKLOADS["thesis"].tables.values(), query.ddl], LARGE)
    twins = both(state, 2 + number % 2, given=((REPLICATED, RANDOM)[number % 2],), sizes=LARGE)
    ran = [0, 0]
    for batch in histories(state, "thesis", number):
        twins.apply(batch)
        compiled, interpreted = (other.traffic for other in twins.others)
        assert compiled.compiled + compiled.interpreted == interpreted.interpreted
        assert not interpreted.compiled
        ran = [ran[0] + compiled.compiled, ran[1] + compiled.interpreted]
    assert ran[0]
    assert name not in FEW or not ran[1]


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(3000, 3100), marks=pytest.mark.soak)])
def test_random_views_equal_the_local_engine(seeds: range) -> None:
    ran = 0
    for seed in seeds:
        history = spelled(random_case(seed, views=2).history)
        views = [f"CREATE MATERIALIZED VIEW {quoted(n)} AS {q}" for n, q in history.views]
        try:
            state = started([*(s.ddl for s in history.schemas), *views])
        except EverfreshError:
            continue  # a view that everfresh does not have
        twins = both(state, 1 + seed % 3, given=((REPLICATED, RANDOM)[seed % 2],))
        for batch in history.batches:
            try:
                twins.apply(list(changes({s.name: s for s in history.schemas}, batch)))
            except EverfreshError:
                break  # refused by the local engine, before anything was compared
            ran += twins.others[0].traffic.compiled
    assert ran


def rows(state: Any, *given: tuple[int, int, int]) -> pa.Table:
    made = [dict(zip("kgv", row, strict=True)) for row in given]
    return pa.Table.from_pylist(made, schema=arrow_schema(state.catalog.tables["t"].columns))


def test_an_error_is_the_interpreters() -> None:
    ddl = "CREATE MATERIALIZED VIEW b AS SELECT g, SUM(CAST(v AS INTEGER)) AS q FROM t GROUP BY g"
    state = started([TABLE, ddl])
    twins = both(state, 2)
    twins.apply([("t", "insert", rows(state, (1, 1, 5), (2, 1, 6)))])
    assert twins.others[0].traffic.compiled
    said = []
    for other in twins.others:
        with pytest.raises(EverfreshError) as caught:
            other.apply({"t": (rows(state, (3, 1, 7), (4, 2, 2**40)), np.ones(2, np.int64))})
        said.append(caught.value.to_dict())
        assert not other.misplaced()
    assert said[0] == said[1]
    twins.apply([("t", "insert", rows(state, (5, 2, 8)))])


def test_code_follows_maps_that_grow() -> None:
    """Their arrays move, and their joins are ordered anew."""
    views = [
        "CREATE TABLE u (g BIGINT, w BIGINT)",
        "CREATE MATERIALIZED VIEW j AS "
        "SELECT t.g, SUM(t.v * u.w) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    ]
    state = started([TABLE, *views], LARGE)
    twins = both(state, 2, sizes=LARGE)
    names = arrow_schema(state.catalog.tables["u"].columns)
    start, rng = 0, np.random.default_rng(3)
    for size in (3, 40, 600, 2500):
        given = rng.integers(0, size, (3, size))
        twins.apply(
            [
                ("t", "insert", rows(state, *((start + i, int(given[0, i]), i % 7) for i in range(size)))),
                ("u", "insert", pa.table({"g": given[1], "w": given[2]}, schema=names)),
            ]
        )
        assert twins.others[0].traffic.compiled
        start += size


def test_nobody_waits_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background a statement is interpreted until enough rows have come and its code is there."""
    asked: list[manager.Form] = []

    def ask(form: manager.Form, owner: object, how: str) -> None:
        assert how == "background"
        form.code.asked = True
        asked.append(form)

    monkeypatch.setattr(manager, "ask", ask)
    state = started([TABLE, "CREATE MATERIALIZED VIEW a AS SELECT g, SUM(v) AS s FROM t GROUP BY g"])
    twins = Twins(state, (1,), compile="background")
    traffic = []
    for start, size in ((0, 10), (100, manager.ENOUGH), (10**6, 10)):
        twins.apply([("t", "insert", rows(state, *((start + i, i % 5, i) for i in range(size))))])
        traffic.append((twins.others[0].traffic.compiled, len(asked)))
    assert traffic == [(0, 0), (0, 1), (0, 1)]
    manager.compile_now(asked[0])
    twins.apply([("t", "insert", rows(state, (2 * 10**6, 3, 4)))])
    assert twins.others[0].traffic.compiled == 1


def test_what_was_before_is_read_where_marks_still_point() -> None:
    """A map that has changed again since its change in a round: the interpreter reads it as it was."""
    interner = Interner()
    var = Var("a", BIGINT, False)
    store = EntryStore(MapDef("m", (var,), (Kind.WIDE,), None), interner)

    def added(*keys: int) -> Any:
        values = Values.zeros(Layout((Kind.WIDE,)), len(keys))
        values.n[:] = 1
        return store.add_words(np.array([keys], np.int64), values)

    wiring = SimpleNamespace(stores=lambda name: store)
    form = SimpleNamespace(made=SimpleNamespace(places=SimpleNamespace(befores={"m": None})))
    eval_ = Eval(None, Prod(()), "v", "r", 0, frozenset(("map:m",)), ())  # type: ignore[arg-type]
    first = added(7, 8, 9)
    assert as_before(form, eval_, wiring, {"m": first})  # type: ignore[arg-type]
    assert as_before(form, eval_, wiring, {})  # type: ignore[arg-type]
    second = added(9, 8)
    assert not as_before(form, eval_, wiring, {"m": first})  # type: ignore[arg-type]
    assert as_before(form, eval_, wiring, {"m": second})  # type: ignore[arg-type]
