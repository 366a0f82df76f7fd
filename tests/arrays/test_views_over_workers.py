"""Views over logical workers: equal to the join from scratch after every batch, for every method, shape and
aggregate, for one to eight workers; what is sent is what was planned, and chunks are where catalogs say."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_array_views import AGGREGATES, SHAPES, array, as_rows, cells, expected

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.upkeep import METHODS, PlannerOptions
from everfresh.arrays.views.pipeline import Pipeline, compile_view
from everfresh.arrays.views.slots import ROWS, Changes
from everfresh.arrays.views.spread.logical import LogicalView
from everfresh.arrays.views.spread.stored import as_table, from_table, groups_of, table_of
from everfresh.arrays.views.stages import Base, Joined
from everfresh.delta.bags import difference

RULES = ("round-robin", "hash", "hilbert")


def compiled(text: str, arrays: dict[str, Array]) -> tuple[Pipeline, Joined, tuple[str, ...]]:
    statement = parse(text)
    assert isinstance(statement, aql.CreateView)
    found = compile_view(statement, {n: a.schema for n, a in arrays.items()})
    last = found.stages[-1]
    assert isinstance(last, Joined)
    return found, last, tuple(s.name for k in last.inputs if isinstance(s := found.stages[k], Base))


def run(
    text: str, arrays: dict[str, Array], rng: random.Random, method: str, workers: int, batches: int = 3
) -> int:
    """Random batches; how many chunks have moved."""
    view, stage, names = compiled(text, arrays)
    bags: dict[str, list[Any]] = {}
    for name, some in arrays.items():
        bags[name] = cells(rng, some.schema, rng.randrange(12))
        arrays[name] = some.changed(as_rows(bags[name], some.schema))
    rule = rng.choice(RULES)
    logical = LogicalView(stage.definition, names, workers, rule, PlannerOptions(method)).make(arrays, rule)
    moved = 0
    for _ in range(batches):
        batch = {}
        for name in names:
            some = arrays[name]
            if name in batch or rng.random() < 0.2:
                continue
            gone = rng.sample(bags[name], min(len(bags[name]), rng.randrange(12)))
            new = cells(rng, some.schema, rng.randrange(12)) + (gone[:1] if rng.random() < 0.3 else [])
            for cell in gone:
                bags[name].remove(cell)
            bags[name] += new
            batch[name] = as_rows(new, some.schema), as_rows(gone, some.schema)
            arrays[name] = some.changed(*batch[name])
        plan = logical.step(batch)
        moved += len(plan.moved)
        assert (logical.sent == plan.links).all()
        wrong = difference(expected(view, arrays), logical.table)
        assert wrong.num_rows == 0, f"{text} {method} {workers}\n{wrong.to_pylist()}"
        for name, catalog in logical.catalogs.items():
            kept = {(n, w) for w, held in enumerate(logical.chunks) for array, n in held if array == name}
            assert kept == set(zip(catalog.number.tolist(), catalog.home.tolist(), strict=True))
            assert dict(zip(catalog.number.tolist(), catalog.cells.tolist(), strict=True)) == {
                n: len(chunk) for n, chunk in arrays[name].chunks.items()
            }
        kept = {(n, w) for w, held in enumerate(logical.groups) for n in held}
        assert kept == set(zip(logical.kept.number.tolist(), logical.kept.home.tolist(), strict=True))
    return moved


@settings(max_examples=15)
@given(
    st.integers(1, 3),
    st.sampled_from([*SHAPES, "[*, 0:0, -1:1]"]),
    st.sampled_from(AGGREGATES),
    st.booleans(),
    st.sampled_from(["", "WHERE x.v > 0", "WHERE x.v >= y.v"]),
    st.sampled_from(METHODS),
    st.integers(1, 8),
    st.integers(0, 1 << 30),
)
def test_joins(
    ndim: int, shape: str, items: str, is_self: bool, where: str, method: str, workers: int, seed: int
) -> None:
    ndim = 3 if shape.startswith("[*") else ndim
    rng = random.Random(seed)
    arrays = {"a": array("a", ndim, rng.randint(1, 3))}
    if not is_self:
        arrays["b"] = array("b", ndim, rng.randint(1, 3))
    on = " AND ".join(f"(x.{d} = y.{d})" for d in "ijk"[:ndim])
    group = ", ".join(f"{rng.choice('xy')}.{d}" for d in "ijk"[: rng.randint(1, ndim)])
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM a AS x SIMILARITY JOIN {'a' if is_self else 'b'} AS y "
        f"ON {on} WITH SHAPE {shape} {where} GROUP BY {group}"
    )
    run(text, arrays, rng, method, workers)


@settings(max_examples=5)
@given(st.sampled_from(SHAPES), st.sampled_from(["a", "b"]), st.integers(1, 8), st.integers(0, 1 << 30))
def test_chains(shape: str, middle: str, workers: int, seed: int) -> None:
    rng = random.Random(seed)
    arrays = {"a": array("a", 2), "b": array("b", 2, 3)}
    on = "(x.i = y.i) AND (x.j = y.j)"
    group = rng.choice(["x.i, x.j", "z.i", "x.i, z.j"])
    text = (
        f"CREATE ARRAY VIEW w AS SELECT COUNT(*) AS n, SUM(z.v) AS s, MIN(x.u) AS m FROM a AS x SIMILARITY "
        f"JOIN {middle} AS y ON {on} WITH SHAPE {shape} SIMILARITY JOIN a AS z ON "
        f"{on.replace('y.', 'z.').replace('x.', 'y.')} WITH SHAPE L1(1) GROUP BY {group}"
    )
    run(text, arrays, rng, "auto", workers, 3)


def test_mappings_that_keep_no_order() -> None:
    """Whatever a function does to cells: all chunks meet."""
    arrays = {"a": array("a", 2)}
    text = (
        "CREATE ARRAY VIEW w AS SELECT COUNT(*) AS n, MAX(y.v) AS m FROM a AS x SIMILARITY JOIN a AS y ON "
        "'mapping_functions:scattered/2/2' WITH SHAPE LINF(1) GROUP BY x.i, x.j"
    )
    run(text, arrays, random.Random(4), "differential", 3)


def test_chunks_move_to_where_view_chunks_are() -> None:
    arrays = {"a": array("a", 2, 2, 12)}
    text = (
        "CREATE ARRAY VIEW w AS SELECT COUNT(*) AS n FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND "
        "y.j = x.j) WITH SHAPE LINF(2) GROUP BY x.i, x.j"
    )
    assert run(text, arrays, random.Random(2), "reassign", 4, 6) > 0


@pytest.mark.parametrize("items", AGGREGATES)
def test_groups_as_chunks(items: str) -> None:
    """What is kept of groups is there again, to the last bit, sums that have left 64 bits too."""
    arrays = {"a": array("a", 2)}
    rng = random.Random(9)
    arrays["a"] = arrays["a"].changed(as_rows(cells(rng, arrays["a"].schema, 60), arrays["a"].schema))
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM a AS x SIMILARITY JOIN a AS y ON (x.i = y.i) AND "
        "(x.j = y.j) WITH SHAPE LINF(1) GROUP BY x.i, x.j"
    )
    _, stage, _ = compiled(text, arrays)
    found = stage.start([arrays["a"], arrays["a"]]).changes
    if "s0" in found.columns and found.columns["s0"].dtype.kind == "i":
        wide = found.columns["s0"].astype(object)
        wide[:2] = [1 << 70, -(1 << 66)]
        found = Changes(found.keys, {**found.columns, "s0": wide})
    for back in (groups_of(stage.definition, table_of(stage.definition, found)), from_table(as_table(found))):
        assert (back.keys == found.keys).all()
        assert back.columns.keys() == found.columns.keys()
        for name, column in found.columns.items():
            there = found.columns[f"n{name[-1]}"] > 0 if name != ROWS else np.ones(len(found), bool)
            assert repr(back.columns[name][there].tolist()) == repr(column[there].tolist())
