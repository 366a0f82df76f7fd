"""Baseline, and the three stages of the paper: joins, view chunks, array chunks (sections 4.1, 4.3 to 4.5).

Invariant: the same seed gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everfresh.arrays.plan.catalog import Ints
from everfresh.arrays.upkeep.plans import Costs, Floats, messages, replicas
from everfresh.arrays.upkeep.update import Update


def baseline(of: Update) -> Ints:
    """Section 4.1: a delta goes to where its partners are kept."""
    to_first = (of.delta[of.first] == 0) & (of.delta[of.second] == 1)
    return np.where(to_first, of.home[of.first], of.home[of.second]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Joins:
    """What Algorithm 1 decides: the worker of each pair; network and joins of each worker, as it counts
    them; and what the last pair would have cost at each worker."""

    worker: Ints
    network: Floats
    cpu: Floats
    trace: Floats


def differential(
    of: Update,
    costs: Costs,
    *,
    seed: int = 0,
    small: float = 0.0,
    literal: bool = False,
    order: Ints | None = None,
) -> Joins:
    """Algorithm 1, in random order unless one is given."""
    from everfresh.arrays.upkeep.kernels import assign

    count = len(of.first)
    sequence = (
        np.random.default_rng(seed).permutation(count) if order is None else np.asarray(order, np.int64)
    )
    begins = np.searchsorted(of.pair, np.arange(count + 1)).astype(np.int64)
    masks = np.left_shift(1, of.home).astype(np.int64)
    partial = np.zeros(len(of.view_home), np.int64)
    network, cpu, trace = (np.zeros(of.workers) for _ in range(3))
    worker = np.zeros(count, np.int64)
    times = np.array([costs.t_ntwk, costs.t_cpu, small])
    columns = [np.array(c) for c in (of.first, of.second, of.size, of.home)]
    triples = [np.array(c) for c in (of.view, of.side, of.view_home)]
    assign.joins.native(
        sequence.astype(np.int64), *columns, begins, *triples, masks, partial, network, cpu, times, literal,
        worker, trace,
    )  # fmt: skip
    return Joins(worker, network, cpu, trace)


@dataclass(frozen=True, eq=False)
class Results:
    """What was found for view chunks: by view chunk, where it is, its cells, what merging it takes."""

    view: Ints
    source: Ints
    cells: Ints
    work: Ints


def found(of: Update, worker: Ints) -> Results:
    """The results of a plan of joins, one message for each worker and view chunk."""
    source, view, cells = messages(of, worker)
    return Results(view, source, cells, cells)


def view_chunks(
    results: Results,
    view_home: Ints,
    view_size: Ints,
    network: Floats,
    cpu: Floats,
    costs: Costs,
    *,
    seed: int = 0,
    small: float = 0.0,
) -> tuple[Ints, Floats]:
    """Algorithm 2: where view chunks are kept; and the last one's costs at each worker."""
    from everfresh.arrays.upkeep.kernels import assign

    order = np.argsort(results.view, kind="stable")
    view = results.view[order]
    begins = np.searchsorted(view, np.arange(len(view_home) + 1)).astype(np.int64)
    sequence = np.random.default_rng(seed).permutation(np.unique(view)).astype(np.int64)
    chosen, trace = np.array(view_home, np.int64), np.zeros(len(network))
    assign.views.native(
        sequence, begins, results.source[order], results.cells[order], results.work[order],
        np.array(view_home, np.int64), np.array(view_size, np.int64), network.copy(), cpu.copy(),
        np.array([costs.t_ntwk, costs.t_cpu, small]), chosen, trace,
    )  # fmt: skip
    return chosen, trace


@dataclass(frozen=True, eq=False)
class Scores:
    """How much chunks have to do with view chunks: pairs and their scores."""

    chunk: Ints
    view: Ints
    score: Floats

    @staticmethod
    def of(update: Update) -> Scores:
        """Those of one batch: the size of a chunk for each triple that names both."""
        ends = [update.first[update.pair], update.second[update.pair]]
        same = ends[0] == ends[1]
        objects = np.concatenate([ends[0], ends[1][~same]])
        views = np.concatenate([update.view, update.view[~same]])
        return Scores(update.chunk[objects], views, update.size[objects].astype(np.float64)).added()

    def added(self) -> Scores:
        """Each pair once."""
        if not len(self.chunk):
            return self
        bound = int(self.view.max()) + 1
        codes, inverse = np.unique(self.chunk * bound + self.view, return_inverse=True)
        return Scores(
            codes // bound, codes % bound, np.bincount(inverse, self.score, len(codes)).astype(np.float64)
        )

    @staticmethod
    def window(batches: Sequence[Scores], decay: float = 0.5) -> Scores:
        """Those of a window of batches, the current one first, each weighing `decay` times the one after."""
        return Scores(
            np.concatenate([b.chunk for b in batches]),
            np.concatenate([b.view for b in batches]),
            np.concatenate([b.score * decay**k for k, b in enumerate(batches)]),
        ).added()


def array_chunks(
    scores: Scores, size: Ints, masks: Ints, home: Ints, view_home: Ints, room: Floats, new: Ints
) -> dict[int, int]:
    """Algorithm 3: the chunks that are kept elsewhere from now on. `size`, `masks` (which workers have all of
    the chunk's objects, as bits), `home` and `new` (1: has no old content) are by chunk."""
    from everfresh.arrays.upkeep.kernels import assign

    order = np.lexsort((scores.view, scores.chunk, -scores.score))
    chunk, view = scores.chunk[order], scores.view[order]
    many = (masks & (masks - 1)) != 0
    keep = many[chunk] | (new[chunk] == 1)
    chosen, best = np.full(len(size), -1, np.int64), np.full(len(size), -1, np.int64)
    assign.chunks.native(
        chunk[keep], view[keep], np.array(size), np.array(masks), np.array(view_home), room, chosen, best
    )
    lost = np.flatnonzero((chosen < 0) & (new == 1) & (best >= 0))
    chosen[lost] = view_home[best[lost]]
    moved = np.flatnonzero((chosen >= 0) & (chosen != home))
    return dict(zip(moved.tolist(), chosen[moved].tolist(), strict=True))


def chunk_masks(of: Update, worker: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """By chunk: the workers that have its old content while the batch is joined (its delta's, where it has
    none), the size of both, and whether it is new."""
    masks = replicas(of, worker).astype(np.int64)
    found = np.zeros(count, np.int64)
    size, new = np.zeros(count, np.int64), np.zeros(count, np.int64)
    is_delta = of.delta == 1
    np.add.at(size, of.chunk, of.size)
    new[of.chunk[is_delta]] = 1
    new[of.chunk[~is_delta]] = 0
    found[of.chunk[is_delta]] = masks[is_delta]
    found[of.chunk[~is_delta]] = masks[~is_delta]
    return found, size, new
