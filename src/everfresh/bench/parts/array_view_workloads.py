"""Batches of a survey on catalogs alone, over all chunks that there will be: what `array-views` plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

    def home(self, placement: str, workers: int) -> Any:
        """Where chunks are kept at first, and will be when they come."""
        import numpy as np

        from everfresh.arrays.plan.place import hilbert, mixed

        if placement == "round-robin":
            return np.arange(len(self.coords)) % workers
        if placement == "hash":
            return (mixed(self.coords) % np.uint64(workers)).astype(np.int64)
        order = np.argsort(hilbert(self.coords[:, 1:]), kind="stable")  # ranges of the sky
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
        from everfresh.datasets import ptf

        cells = self.base.copy()

        def chunks(some: Any, count: Any) -> Chunks:
            return Chunks.of(
                self.lo[some], self.hi[some], cells=count[some], start=ptf.START, length=ptf.LENGTH
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


def survey(order: str, nights: int, batches: int = BATCHES, per_batch: int = FORTNIGHT) -> Survey:
    """Consecutive fortnights (`real`), one of them again and again with fresh cells (`correlated`), or three
    in turn (`periodic`)."""
    import numpy as np

    from everfresh.datasets import ptf

    turns = {
        "real": range(batches),
        "correlated": [0] * batches,
        "periodic": [(0, 1, 2, 2, 1, 0, 0, 1, 2, 2)[k % 10] for k in range(batches)],
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
    return Survey(coords, lo, hi, counts[0], [by_turn[k] for k in turns])
