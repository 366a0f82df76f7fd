"""Pairs of chunks: joining them is joining the arrays, whatever shape, mapping and chunks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import mapping_functions as functions
import numpy as np
from array_strategies import cells, shapes
from hypothesis import given
from hypothesis import strategies as st

from everfresh.arrays.cells import array_of
from everfresh.arrays.join import brute_force, counted, matched
from everfresh.arrays.mapping import Affine, Mapping, dimensions, function, identity
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.partners import cells_of, partners
from everfresh.arrays.shape import Cuboid, Hamming

MAPPINGS: list[Mapping] = [
    identity(2),
    dimensions(1, 0),
    dimensions(1),
    Affine(((0, -2, 5), (1, 1, 3))),
    function(functions.mirrored, 2, 2, ordered=True),
    function(functions.scattered, 2, 2),
]


def _array(coords: Any, lengths: tuple[int, ...]) -> Any:
    sizes = [Dimension(f"d{k}", -40, 40, length) for k, length in enumerate(lengths)]
    return array_of(ArraySchema("a", tuple(sizes)), (coords.T, {}))


@given(st.data(), st.sampled_from(MAPPINGS))
def test_pairs_of_chunks_join_the_arrays(data: st.DataObject, mapping: Mapping) -> None:
    shape = data.draw(shapes(mapping.outputs))
    a = _array(data.draw(cells(2)), data.draw(st.sampled_from([(3, 5), (80, 2), (1, 1)])))
    lengths = data.draw(st.sampled_from([(2, 7), (81, 81), (4, 1)]))[: mapping.outputs]
    b = _array(data.draw(cells(mapping.outputs)), lengths)
    left, right = list(a.chunks.values()), list(b.chunks.values())
    pairs = partners(left, right, b.schema, mapping, shape)
    assert len(set(zip(*pairs, strict=True))) == len(pairs[0])
    want: Any = ([], [])
    if left and right:
        ours, theirs = cells_of(left, mapping), cells_of(right)
        want = brute_force(ours.coords, theirs.coords, shape)
        found = matched(ours, theirs, shape, pairs)
        assert Counter(zip(*found, strict=True)) == Counter(zip(*want, strict=True))
        counts = counted(ours, theirs, shape, pairs)
        assert counts.tolist() == np.bincount(want[0], minlength=len(ours)).tolist()
    if not len(pairs[0]):
        assert not len(want[0])


def test_far_chunks_do_not_meet() -> None:
    """A past-only window of half a chunk meets the chunk itself and the one before."""
    a = _array(np.arange(-40, 40)[None, :], (10,))
    chunks = list(a.chunks.values())
    p, q = partners(chunks, chunks, a.schema, identity(1), Cuboid(((-5, -1),)))
    assert set(zip(p.tolist(), q.tolist(), strict=True)) == {
        (k, j) for k in range(len(chunks)) for j in (k - 1, k) if j >= 0
    }
    p, _ = partners(chunks, chunks, a.schema, identity(1), Hamming(1))
    assert len(p) == len(chunks) ** 2
