"""Placements: every rule deals chunks to the workers that exist, each with its own property."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_support import arrays, chunks_of

from everfresh.arrays.plan import PLACEMENTS, Chunks, place
from everfresh.arrays.plan.place import hilbert, mixed, z_order
from everfresh.errors import Code, EverfreshError


def grid(side: int, dims: int) -> Chunks:
    return chunks_of(np.array(list(itertools.product(range(side), repeat=dims))), (0,) * dims, (1,) * dims)


@given(st.data(), st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 9))
def test_every_rule_gives_each_chunk_a_worker(data: st.DataObject, rule: str, workers: int) -> None:
    dims = data.draw(st.integers(1, 4))
    chunks = chunks_of(data.draw(arrays(dims)), (0,) * dims, (2,) * dims)
    home = place(chunks, rule, workers).home
    assert home.min() >= 0
    assert home.max() < workers


def test_round_robin_goes_in_row_major_order() -> None:
    chunks = grid(3, 2)
    shuffled = np.random.default_rng(1).permutation(len(chunks))
    mixed_up = Chunks.of(
        chunks.lo[shuffled], chunks.hi[shuffled], cells=chunks.cells, start=(0, 0), length=(1, 1)
    )
    home = np.empty(9, np.int64)
    home[shuffled] = place(mixed_up, "round-robin", 4).home
    assert home.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]


def test_a_hash_does_not_depend_on_the_other_chunks() -> None:
    chunks = grid(6, 2)
    some = chunks_of(chunks.lo[7:20], (0, 0), (1, 1))
    assert place(some, "hash", 5).home.tolist() == place(chunks, "hash", 5).home[7:20].tolist()
    assert len(set(mixed(grid(40, 2).coords).tolist())) == 1600


@pytest.mark.parametrize(("side", "dims"), [(16, 2), (8, 3), (4, 4)])
def test_steps_of_the_hilbert_curve_lead_to_neighbours(side: int, dims: int) -> None:
    coords = grid(side, dims).coords
    walk = coords[np.argsort(hilbert(coords))]
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()


def test_the_z_curve_interleaves_bits() -> None:
    coords = np.array([[0b10, 0b01], [0, 0], [0b11, 0b11]])
    assert z_order(coords).tolist() == [0b1001, 0, 0b1111]


@pytest.mark.parametrize("rule", ["hilbert", "z-order", "k-d"])
@pytest.mark.parametrize("workers", [3, 8])
def test_rules_that_keep_neighbours_together_level_cells(rule: str, workers: int) -> None:
    chunks = grid(24, 2)
    placed = place(chunks, rule, workers)
    load = np.bincount(placed.home, chunks.cells, workers)
    assert load.max() <= 1.05 * load.mean() + 1
    apart = [np.ptp(chunks.coords[placed.home == k], axis=0).sum() for k in range(workers)]
    assert max(apart) < 46  # the whole grid has 46; round-robin reaches it


def test_unknown_rules_and_no_workers_are_refused() -> None:
    with pytest.raises(EverfreshError) as caught:
        place(grid(2, 2), "randomly", 2)
    assert caught.value.code == Code.NOT_FOUND
    assert "round-robin" in str(caught.value)
    with pytest.raises(EverfreshError):
        place(grid(2, 2), "hash", 0)
