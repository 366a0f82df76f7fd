"""Cells: every mode gives what row by row and view by view gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.expr import Vector
from everfresh.kv.sharing.cells import MODES, Cells, Part, Sums, Totals
from everfresh.kv.sharing.template import holds
from everfresh.types import BIGINT, VARCHAR

SHAPES: tuple[Any, ...] = (
    ("and", ("in", 0)),
    ("and", ("in", 0), ("in", 0), ("in", 1)),
    ("and", ("or", ("in", 0), ("in", 1)), ("in", 1)),
    ("or", ("in", 0), ("and", ("in", 1), ("in", 0))),
)
BOUND = st.none() | st.integers(-1, 6)
WORDS = ["", "a", "a\0", "b", "ä"]


def leaves(shape: Any) -> list[int]:
    return [shape[1]] if shape[0] == "in" else [i for part in shape[1:] for i in leaves(part)]


def as_dict(sums: Sums) -> dict[tuple[int, int], list[int]]:
    listed = zip(sums.views.tolist(), sums.groups.tolist(), sums.values.T.tolist(), strict=True)
    return {(view, group): values for view, group, values in listed}


@given(data=st.data(), shape=st.sampled_from(SHAPES), big=st.booleans())
def test_all_modes_give_what_row_by_row_gives(data: Any, shape: Any, big: bool) -> None:
    of = leaves(shape)
    word = st.none() | st.sampled_from(WORDS)
    bounds = [st.tuples(BOUND, BOUND) if i == 0 else st.tuples(word, word) for i in of]
    views = data.draw(st.lists(st.tuples(*bounds), min_size=1, max_size=5))
    cells = Cells(shape, 2, views)
    parts, expected = [], {}
    unit = 2**61 if big else 1
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(
            st.lists(st.tuples(st.none() | st.integers(-2, 7), word, st.integers(0, 2), st.integers(-3, 3)))
        )
        columns = [
            Vector.from_pylist([r[0] for r in rows], BIGINT),
            Vector.from_pylist([r[1] for r in rows], VARCHAR),
        ]
        values = np.array([[r[3] for r in rows], [r[3] * unit for r in rows]], np.int64).reshape(2, -1)
        parts.append(Part(cells.ids(columns), np.array([r[2] for r in rows], np.int64), values))
        for a, b, group, weight in rows:
            for view, ranges in enumerate(views):
                if holds(shape, ranges, [a, b]):
                    held = expected.setdefault((view, group), [0, 0])
                    held[0] += weight
                    held[1] += weight * unit
    expected = {place: values for place, values in expected.items() if any(values)}
    for mode in MODES:
        assert as_dict(cells.changes(parts, 3, mode)) == expected


def test_dense_and_routed_cells_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    views = [tuple(sorted(random.integers(0, 50, 2).tolist())) for _ in range(40)]
    cells = Cells(("and", ("in", 0), ("in", 1)), 2, [(pair, (None, 30)) for pair in views])
    columns = [Vector(BIGINT, random.integers(0, 50, 3000)) for _ in range(2)]
    part = Part(cells.ids(columns), random.integers(0, 7, 3000), random.integers(-9, 9, (3, 3000)))
    dense = as_dict(cells._prefixed(part, 7))
    assert dense == as_dict(cells._routed(part)) == as_dict(cells._standard(part, 7)) != {}


@given(changes=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-2, 2)))))
def test_totals_add_up(changes: list[list[tuple[int, int, int]]]) -> None:
    totals, expected = Totals(1), {}
    for change in changes:
        net = {(v, g): n for v, g, n in change if n}
        places = list(net)
        values = np.array([list(net.values())], np.int64).reshape(1, -1)
        views, groups = (np.array([place[i] for place in places], np.int64) for i in (0, 1))
        now = totals.add(Sums(views, groups, values))
        for place, n in net.items():
            expected[place] = expected.get(place, 0) + n
        assert now[0].tolist() == [expected[place] for place in places]
    assert len(totals) == sum(1 for n in expected.values() if n)


def test_totals_grow_beyond_64_bits() -> None:
    totals, one = Totals(1), np.array([0])
    for n in range(1, 5):
        assert totals.add(Sums(one, one, np.array([[2**61]])))[0][0] == n * 2**61
