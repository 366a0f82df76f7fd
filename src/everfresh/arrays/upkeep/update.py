"""A batch as the planner sees it: objects that have to meet, and the view chunks that receive.

Section 4.2 of the paper: triples (p, q, v), p a delta chunk, q an old chunk or a delta chunk, v the view
chunk of the cells that are grouped. Objects are old chunks and delta chunks; the delta of a chunk is an
object of its own, which lands where its chunk is kept. With a group by the left cells, the direction in which
p is left feeds the view chunk at p's place, the other that at q's.

Invariant: pairs are unordered and each is there once; a triple names the object whose cells its view chunk
receives. A delta without a partner is in no pair: it is an irrelevant update, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.arrays.plan.catalog import Chunks, Ints, frozen
from everfresh.arrays.plan.pairs import Reach, ordered_pairs
from everfresh.errors import Code, EverfreshError


@dataclass(frozen=True, eq=False)
class Update:
    """A batch: objects, pairs of objects, and triples; all columns of integers."""

    workers: int
    chunk: Ints
    """The chunk that each object is, or is a delta of."""
    delta: Ints
    """1 for deltas."""
    size: Ints
    home: Ints
    first: Ints
    second: Ints
    pair: Ints
    """The pair of each triple, ascending."""
    view: Ints
    """The view chunk of each triple."""
    side: Ints
    """The object whose cells the view chunk of a triple receives."""
    view_home: Ints
    view_size: Ints
    irrelevant: int = 0

    @staticmethod
    def of(
        workers: int,
        *,
        size: Any,
        home: Any,
        pairs: Any,
        triples: Any,
        view_home: Any,
        chunk: Any = None,
        delta: Any = None,
        view_size: Any = None,
        irrelevant: int = 0,
    ) -> Update:
        """A batch of pairs (p, q) and of triples (pair, view chunk, side), checked."""
        sizes, homes, views = frozen(size), frozen(home), frozen(view_home)
        two, three = np.asarray(pairs, np.int64).reshape(-1, 2), np.asarray(triples, np.int64).reshape(-1, 3)
        three = three[np.argsort(three[:, 0], kind="stable")]
        objects = len(sizes)
        found = Update(
            workers=workers,
            chunk=frozen(np.arange(objects) if chunk is None else chunk),
            delta=frozen(np.ones(objects) if delta is None else delta),
            size=sizes,
            home=homes,
            first=frozen(two[:, 0]),
            second=frozen(two[:, 1]),
            pair=frozen(three[:, 0]),
            view=frozen(three[:, 1]),
            side=frozen(three[:, 2]),
            view_home=views,
            view_size=frozen(np.zeros(len(views)) if view_size is None else view_size),
            irrelevant=irrelevant,
        )
        found._check()
        return found

    def _check(self) -> None:
        ranges = (
            (self.first, len(self.size), "pairs"), (self.second, len(self.size), "pairs"),
            (self.pair, len(self.first), "triples"), (self.view, len(self.view_home), "triples"),
            (self.side, len(self.size), "triples"), (self.home, self.workers, "home"),
            (self.view_home, self.workers, "view_home"),
        )  # fmt: skip
        for column, bound, place in ranges:
            if len(column) and not 0 <= column.min() <= column.max() < bound:
                raise EverfreshError(Code.ARGUMENT, "an update names what is not there", place=place)
        if not 1 <= self.workers <= 62:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{self.workers} workers",
                place="workers",
                hint="a plan of maintenance is for 1 to 62",
            )

    @property
    def work(self) -> Ints:
        """The sizes of both objects of each pair: what a join takes."""
        return self.size[self.first] + self.size[self.second]

    def moved(self, home: Ints, view_home: Ints) -> Update:
        """The same batch where chunks, by their numbers, and view chunks are kept elsewhere."""
        from dataclasses import replace

        return replace(self, home=frozen(home[self.chunk]), view_home=frozen(view_home))


def update(
    old: Chunks,
    delta: Chunks,
    reach: Reach,
    workers: int,
    *,
    chunk: tuple[Any, Any],
    view_home: Any,
    view_size: Any,
) -> Update:
    """The update of a self-join grouped by its left cells, the view chunked as the array.

    `chunk` numbers the old chunks and those that the deltas belong to; view chunks have the same numbers,
    and `view_home`, `view_size` a value for each.

    >>> row = Chunks.of([[1], [4]], [[2], [4]], cells=[2, 1], start=[1], length=[2])
    >>> new = Chunks.of([[3]], [[3]], cells=[1], start=[1], length=[2])
    >>> found = update(row, new, Reach.box([-1], [1]), 1, chunk=([0, 1], [1]), view_home=[0, 0],
    ...                view_size=[2, 1])
    >>> list(zip(found.first.tolist(), found.second.tolist())), found.view.tolist(), found.side.tolist()
    ([(2, 0), (2, 1), (2, 2)], [1, 0, 1, 1, 1], [2, 0, 2, 1, 2])
    """
    chunks = np.concatenate([np.asarray(chunk[0], np.int64), np.asarray(chunk[1], np.int64)])
    count, n = len(old), len(old) + len(delta)
    back = Reach(
        tuple(
            (tuple(None if b is None else -b for b in hi), tuple(None if a is None else -a for a in lo))
            for lo, hi in reach.boxes
        ),
        None if reach.offsets is None else frozenset(tuple(-x for x in o) for o in reach.offsets),
    )
    codes: list[Ints] = []
    for left_is_delta, some in ((True, reach), (False, back)):
        p, q = ordered_pairs(delta, old, some)
        codes.append(((p + count) * n + q) * 2 + (0 if left_is_delta else 1))
    p, q = ordered_pairs(delta, delta, reach)
    turned = p < q  # a pair of deltas stands with the greater first
    codes.append(((np.maximum(p, q) + count) * n + np.minimum(p, q) + count) * 2 + turned)
    code = np.unique(np.concatenate(codes))
    keys, pair = np.unique(code >> 1, return_inverse=True)
    first, second = keys // n, keys % n
    side = np.where(code & 1 == 0, first[pair], second[pair])
    home = np.concatenate([old.home, delta.home])
    size = np.concatenate([old.cells, delta.cells])
    met = np.zeros(n, np.bool_)
    met[first] = met[second] = True
    return Update.of(
        workers,
        size=size,
        home=home,
        chunk=chunks,
        delta=np.arange(n) >= count,
        pairs=np.stack([first, second], axis=1),
        triples=np.stack([pair, chunks[side], side], axis=1),
        view_home=view_home,
        view_size=view_size,
        irrelevant=int((~met[count:]).sum()),
    )
