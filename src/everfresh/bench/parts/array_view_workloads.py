"""Batches of a survey, or of places, on catalogs alone, over all chunks that there will be: what is planned.

Orders: `real` are consecutive fortnights; `random` 1 % of the cells of every chunk, so that nearly all chunks
change; `correlated` one fortnight (or region) again and again with fresh cells, `periodic` three in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everfresh.arrays.plan import Reach
    from everfresh.arrays.upkeep import Update

NIGHTS, FORTNIGHT, BATCHES = 180, 14, 10


@dataclass(frozen=True, eq=False)
class Survey:
    """All chunks that there will be: their places and boxes; the cells at first, and those of each batch."""

    coords: Any
    lo: Any
    hi: Any
    base: Any
    batches: Sequence[Any]
    start: tuple[int, ...]
    length: tuple[int, ...]

    def home(self, placement: str, workers: int) -> Any:
        """Where chunks are kept at first, and will be when they come."""
        import numpy as np

        from everfresh.arrays.plan.place import hilbert, mixed

        if placement == "round-robin":
            return np.arange(len(self.coords)) % workers
        if placement == "hash":
            return (mixed(self.coords) % np.uint64(workers)).astype(np.int64)
        order = np.argsort(hilbert(self.coords[:, -2:]), kind="stable")  # ranges of the sky
        cells = self.base[order]
        middle = np.cumsum(cells) - cells / 2
        found = np.empty(len(self.coords), np.int64)
        found[order] = np.minimum(workers * middle / max(1, cells.sum()), workers - 1).astype(np.int64)
        return found

    def updates(self, reach: Reach, workers: int) -> Iterator[tuple[Update, Any]]:
        """The batches as updates, chunks kept anywhere, and the cells that there are after each."""
        import numpy as np

        from everfresh.arrays.plan import Chunks
        from everfresh.arrays.upkeep import update

        cells = self.base.copy()

        def chunks(some: Any, count: Any) -> Chunks:
            return Chunks.of(
                self.lo[some], self.hi[some], cells=count[some], start=self.start, length=self.length
            )

        for new in self.batches:
            old, delta = np.flatnonzero(cells), np.flatnonzero(new)
            homes = np.zeros(len(cells), np.int64)
            found = update(
                chunks(old, cells), chunks(delta, new), reach, workers, chunk=(old, delta), view_home=homes,
                view_size=cells,
            )  # fmt: skip
            cells = cells + new
            yield found, cells


PERIOD = (0, 1, 2, 2, 1, 0, 0, 1, 2, 2)


def survey(order: str, nights: int, batches: int = BATCHES, per_batch: int = FORTNIGHT) -> Survey:
    """PTF-like nights: those that there are, then batches in an order."""
    import numpy as np

    from everfresh.datasets import ptf

    turns = {
        "real": range(batches),
        "random": (),
        "correlated": [0] * batches,
        "periodic": [PERIOD[k % 10] for k in range(batches)],
    }[order]
    base = ptf.chunks(nights)
    some = {k: ptf.chunks(per_batch, first=nights + k * per_batch) for k in set(turns)}
    parts = [base, *some.values()]
    coords, inverse = np.unique(np.concatenate([p.coords for p in parts]), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    lo, hi = np.full(coords.shape, 1 << 40), np.full(coords.shape, -1)
    np.minimum.at(lo, inverse, np.concatenate([p.lo for p in parts]))
    np.maximum.at(hi, inverse, np.concatenate([p.hi for p in parts]))
    counts, at = [], 0
    for p in parts:
        cells = np.zeros(len(coords), np.int64)
        cells[inverse[at : at + len(p)]] = p.cells
        counts.append(cells)
        at += len(p)
    by_turn = dict(zip(some, counts[1:], strict=True))
    listed = [by_turn[k] for k in turns] if turns else _random(counts[0], batches)
    return Survey(coords, lo, hi, counts[0], listed, ptf.START, ptf.LENGTH)


def _random(cells: Any, batches: int, share: float = 0.01) -> list[Any]:
    """As many cells of each chunk as fall on it, if each comes with this share."""
    import numpy as np

    return [np.random.default_rng((7, k)).binomial(cells, share) for k in range(batches)]


def places(order: str, batches: int = BATCHES, copies: int = 9) -> Survey:
    """GEO: places of the world. What comes `correlated` or in periods is of a region, a thirtieth of the
    world's width, as many cells as there are."""
    import numpy as np

    from everfresh.datasets import geo

    found = geo.cells(copies)
    cells = np.stack([found[name] for name in geo.DIMENSIONS], axis=1)
    length = np.array(geo.LONGER)
    coords, inverse = np.unique((cells - 1) // length, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    lo, hi = np.full(coords.shape, 1 << 40), np.full(coords.shape, -1)
    np.minimum.at(lo, inverse, cells)
    np.maximum.at(hi, inverse, cells)
    count = np.bincount(inverse, minlength=len(coords))
    if order == "random":
        listed = _random(count, batches)
    else:
        width = int(coords[:, 0].max()) // 30
        west = [width * k for k in (14, 15, 8)]  # Europe, then its east, then America
        regions = [np.where((coords[:, 0] >= w) & (coords[:, 0] < w + width), count, 0) for w in west]
        listed = [regions[PERIOD[k % 10] if order == "periodic" else 0] for k in range(batches)]
    return Survey(coords, lo, hi, count, listed, geo.START, geo.LONGER)


def smaller(data: Survey, chunks: int, spread: int = 1) -> Survey:
    """The same with batches of so many chunks, every `spread`-th of those that it has."""
    import numpy as np

    batches = []
    for batch in data.batches:
        some = np.zeros_like(batch)
        kept = np.flatnonzero(batch)[::spread][:chunks]
        some[kept] = batch[kept]
        batches.append(some)
    return replace(data, batches=batches)
