"""Similarity joins by their text, on both engines: the pairs that brute force finds, whatever shape, mapping,
dimensions and number of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from array_strategies import cells, shapes
from fake_spark import FakeSession, install
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.arrays.join import brute_force
from everfresh.arrays.mapping import Affine

RULES = ("round-robin", "hash", "hilbert", "z-order", "k-d")


@pytest.fixture(scope="module")
def session() -> Iterator[FakeSession]:
    with pytest.MonkeyPatch.context() as patch:
        yield install(patch)


def connect(engine: str, session: FakeSession, workers: int) -> ef.Database:
    options = ef.Options(workers=workers, durable=False)
    return ef.connect(engine=engine, spark=session if engine == "spark" else None, options=options)


def fill(db: ef.Database, name: str, coords: Any, lengths: list[int], rule: str) -> None:
    """An array of cells that hold their own numbers."""
    dims = "; ".join(f"d{k}=-300,300,{length}" for k, length in enumerate(lengths))
    how = f" WITH (placement = '{rule}')"
    db.sql(f"CREATE ARRAY {name} <n: BIGINT> [{dims}]{how}")
    rows = [(*map(int, cell), k) for k, cell in enumerate(coords.T)]
    if rows:
        db.apply({name: rows})


def pairs(db: ef.Database, right: str, mapping: Affine, shape: Any, grouped: bool) -> Counter[Any]:
    """The pairs of numbers; or how many of them each left cell has, by its coordinates."""
    on = " AND ".join(f"y.d{k} = {a} * x.d{d} + {b}" for k, (d, a, b) in enumerate(mapping.terms))
    of = f"FROM a AS x SIMILARITY JOIN {right} AS y ON ({on}) WITH SHAPE {shape}"
    if not grouped:
        return Counter(db.sql(f"SELECT x.n AS p, y.n AS q {of}").fetchall())
    found = db.sql(f"SELECT x.n AS p, COUNT(*) AS c {of} GROUP BY x.n").fetchall()
    return Counter(dict(found))


@pytest.mark.parametrize("engine", ["local", "spark"])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 4), st.integers(1, 8), st.booleans(), st.booleans())
def test_pairs_equal_brute_force(
    engine: str, session: FakeSession, data: st.DataObject, ndim: int, workers: int, same: bool, plain: bool
) -> None:
    outputs = ndim if same or plain else data.draw(st.integers(1, ndim))
    affine = st.tuples(st.integers(0, ndim - 1), st.sampled_from([-2, -1, 1, 3]), st.integers(-3, 3))
    mapping = Affine(tuple((k, 1, 0) if plain else data.draw(affine) for k in range(outputs)))
    one = data.draw(cells(ndim, 20))
    other = one if same else data.draw(cells(outputs, 20))
    shape = data.draw(shapes(outputs))
    lengths = [data.draw(st.integers(1, 9)) for _ in range(ndim + outputs)]
    rules = [data.draw(st.sampled_from(RULES)) for _ in range(2)]
    with connect(engine, session, workers) as db:
        fill(db, "a", one, lengths[:ndim], rules[0])
        if not same:
            fill(db, "b", other, lengths[ndim:], rules[1])
        i, j = brute_force(mapping.cells(one), other, shape)
        right = "a" if same else "b"
        assert pairs(db, right, mapping, shape, False) == Counter(zip(i.tolist(), j.tolist(), strict=True))
        assert pairs(db, right, mapping, shape, True) == Counter(np.asarray(i).tolist())
