"""What has to meet when a view is made, follows a batch, or finds groups again: chunks, by metadata alone.

Objects are chunks as they were and changes of chunks, each of one array of the database whatever its role.
Two sources make pairs of objects; one source, or three and more, make *teams*: a changed chunk with all that
a chain can reach from it, which are the pairs of that chunk with each, joined at one place.

    MADE      old chunks with old chunks, each (left, right) once
    CHANGED   changes with what was there, and changes with changes: three terms, whose signs multiply
    AGAIN     chunks that hold some groups with what they reach

Invariant: no objects with matching cells are left apart, and each triple names every view chunk that a pair
may give something to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from everfresh.arrays.execute.catalog import Catalog
from everfresh.arrays.execute.joining import JoinSpec
from everfresh.arrays.model import Ints
from everfresh.arrays.plan.catalog import Chunks
from everfresh.arrays.plan.pairs import BACKWARD, FORWARD
from everfresh.arrays.views.definition import Definition

MADE, CHANGED, AGAIN = "made", "changed", "again"
NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Objects:
    """Old chunks of some arrays, then changes of them; in columns."""

    arrays: tuple[str, ...]
    array: Ints
    """Which array each is of."""
    number: Ints
    delta: Ints
    home: Ints
    cells: Ints
    bytes: Ints
    old: Ints
    """Of each change the chunk that it changes; -1 if that is new, and for chunks."""

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Objects that meet: pairs with the directions that are joined, and triples (pair, view chunk, the object
    whose cells it receives)."""

    mode: str
    objects: Objects
    first: Ints
    second: Ints
    ways: Ints
    pair: Ints
    view: Ints
    """The view chunk of each triple, by its number."""
    side: Ints
    teams: bool
    """Whether all pairs of a first object have to be joined at one place."""

    @cached_property
    def views(self) -> Ints:
        """The view chunks that may receive something."""
        return np.unique(self.view)


class _Sides:
    """The objects of a view's sources, and their boxes by array."""

    def __init__(
        self, of: Definition, names: Sequence[str], old: Mapping[str, Catalog], new: Mapping[str, Catalog]
    ) -> None:
        self.of, self.names = of, tuple(names)
        self.arrays = tuple(dict.fromkeys(names))
        self.catalogs = [old[name] for name in self.arrays]
        self.deltas = [new.get(name, Catalog.empty(old[name].schema)) for name in self.arrays]
        every = [*self.catalogs, *self.deltas]
        self.starts = np.cumsum([0, *map(len, every)])
        count = len(self.arrays)
        self.objects = Objects(
            self.arrays,
            np.concatenate([NONE, *(np.full(len(c), k % count) for k, c in enumerate(every))]),
            np.concatenate([NONE, *(c.number for c in every)]),
            np.concatenate([NONE, *(np.full(len(c), int(k >= count)) for k, c in enumerate(every))]),
            np.concatenate([NONE, *(c.home for c in every)]),
            np.concatenate([NONE, *(c.cells for c in every)]),
            np.concatenate([NONE, *(c.bytes for c in every)]),
            self._old(),
        )
        self._chunks: dict[tuple[int, bool], Chunks] = {}

    def _old(self) -> Ints:
        found = [np.full(int(self.starts[len(self.arrays)]), -1, np.int64)]
        for begin, catalog, delta in zip(self.starts, self.catalogs, self.deltas, strict=False):
            at = catalog.places(delta.number)
            found.append(np.where(at >= 0, at + begin, -1))
        return np.concatenate(found)

    def some(self, k: int, delta: bool) -> tuple[Chunks, int]:
        """The old chunks of source k, or its changes; and the position of the first."""
        at = self.arrays.index(self.names[k])
        if (at, delta) not in self._chunks:
            self._chunks[at, delta] = (self.deltas if delta else self.catalogs)[at].chunks()
        return self._chunks[at, delta], int(self.starts[at + len(self.arrays) * delta])

    def boxes(self, k: int, positions: Ints) -> tuple[Ints, Ints]:
        """The tight boxes of objects of source k, a row for each dimension."""
        at = self.arrays.index(self.names[k])
        both = self.catalogs[at], self.deltas[at]
        begins = self.starts[at], self.starts[at + len(self.arrays)]
        is_delta = self.objects.delta[positions] == 1
        found = []
        for side in ("lo", "hi"):
            rows = np.empty((self.of.sources[k].ndim, len(positions)), np.int64)
            for one, begin, some in zip(both, begins, (~is_delta, is_delta), strict=True):
                rows[:, some] = getattr(one, side)[:, positions[some] - begin]
            found.append(rows)
        return found[0], found[1]

    def hop(self, k: int, left_new: bool, right_new: bool) -> tuple[Ints, Ints]:
        """Positions of objects of source k and k + 1 that may match."""
        (left, at), (right, to) = self.some(k, left_new), self.some(k + 1, right_new)
        hop = self.of.hops[k]
        spec = JoinSpec(self.of.sources[k], self.of.sources[k + 1], hop.mapping, hop.shape)
        p, q = spec.chunk_pairs(left, right)
        return p + at, q + to


def meeting(
    mode: str,
    of: Definition,
    names: Sequence[str],
    old: Mapping[str, Catalog],
    new: Mapping[str, Catalog] | None = None,
    keys: Ints | None = None,
) -> Meeting:
    """What has to meet: `names` are the arrays of the sources, `old` and `new` catalogs of them and of their
    changes, `keys` the groups that are to be found again."""
    sides = _Sides(of, names, old, new or {})
    if len(of.sources) == 2:
        left, right = _pairs(mode, sides, keys)
        return _of_pairs(mode, sides, left, right)
    return _of_teams(mode, sides, keys)


# -- two sources -----------------------------------------------------------------------------------------


def _pairs(mode: str, sides: _Sides, keys: Ints | None) -> tuple[Ints, Ints]:
    """Ordered pairs of objects, left and right."""
    if mode == CHANGED:
        terms = [sides.hop(0, *new) for new in ((True, False), (False, True), (True, True))]
    else:
        terms = [sides.hop(0, False, False)]
    left, right = (np.concatenate([NONE, *(term[k] for term in terms)]) for k in (0, 1))
    if keys is not None:
        start = start_of(sides.of)
        keep = np.isin((left, right)[start], holding(sides.of, sides, start, keys))
        left, right = left[keep], right[keep]
    return left, right


def _of_pairs(mode: str, sides: _Sides, left: Ints, right: Ints) -> Meeting:
    objects = sides.objects
    is_delta = objects.delta.astype(np.bool_)
    turn = (is_delta[right] & ~is_delta[left]) | ((is_delta[right] == is_delta[left]) & (right > left))
    first, second = np.where(turn, right, left), np.where(turn, left, right)
    codes = (first * max(1, len(objects)) + second) * 2 + turn
    order = np.argsort(codes, kind="stable")
    left, right, codes = left[order], right[order], codes[order]
    keys, pair = np.unique(codes >> 1, return_inverse=True)
    ways = np.zeros(len(keys), np.int64)
    np.bitwise_or.at(ways, pair, np.where(codes & 1, BACKWARD, FORWARD))
    count = max(1, len(objects))
    at, view = _receiving(sides, {0: left, 1: right})
    mostly_left = 2 * sum(s == 0 for s, _ in sides.of.keys) >= len(sides.of.keys)
    side = (left if mostly_left else right)[at]
    return Meeting(mode, objects, keys // count, keys % count, ways, pair[at], view, side, False)


def _receiving(sides: _Sides, of_source: Mapping[int, Ints]) -> tuple[Ints, Ints]:
    """The view chunks that rows of objects, one of each source that the view's dimensions are of, may give
    something to: the row and the view chunk."""
    schema = sides.of.schema
    rows = np.arange(len(next(iter(of_source.values()))))
    chunk = np.zeros(len(rows), np.int64)
    boxes = {k: sides.boxes(k, positions) for k, positions in of_source.items()}
    for d, (source, dimension) in enumerate(sides.of.keys):
        lo, hi = (box[dimension] for box in boxes[source])
        start, length = int(schema.lo[d]), int(schema.lengths[d])
        begin, end = (lo - start) // length, (hi - start) // length
        counts = (end - begin + 1)[rows]
        place = begin[rows]
        if (counts > 1).any():
            inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            rows, chunk = np.repeat(rows, counts), np.repeat(chunk, counts)
            place = np.repeat(place, counts) + inside
        chunk = chunk + place * int(schema._strides[d])
    return rows, chunk


# -- one source, and chains ------------------------------------------------------------------------------


def _of_teams(mode: str, sides: _Sides, keys: Ints | None) -> Meeting:
    """The chunks that a chain reaches from each that has changed, in both directions."""
    of, objects = sides.of, sides.objects
    if mode == CHANGED:
        seeds = [(k, sides.some(k, True)) for k in range(len(of.sources))]
    else:
        k = start_of(of) if keys is not None else 0
        seeds = [(k, sides.some(k, False))]
    firsts, seconds, triples = [NONE], [NONE], [(NONE, NONE)]
    for k, (chunks, begin) in seeds:
        roots = begin + np.arange(len(chunks))
        if keys is not None:
            roots = holding(of, sides, k, keys)
        old = objects.old[roots]  # who gets a change gets what it changes
        reached = {k: (np.concatenate([roots, roots[old >= 0]]), np.concatenate([roots, old[old >= 0]]))}
        for step in (1, -1):
            at = k
            while 0 <= at + step < len(of.sources):
                reached[at + step] = _next(sides, mode, reached[at], at, step)
                at += step
        for root, other in reached.values():
            firsts.append(root)
            seconds.append(other)
        triples.append(_team_views(sides, reached))
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    count = max(1, len(objects))
    codes = np.unique(first * count + second)
    first, second = codes // count, codes % count
    root, view = (np.concatenate([part[k] for part in triples]) for k in (0, 1))
    pair = np.searchsorted(codes, root * count + root)  # a chunk is in its own team
    ways = np.full(len(first), FORWARD)
    return Meeting(mode, objects, first, second, ways, pair, view, root, True)


def _next(sides: _Sides, mode: str, reached: tuple[Ints, Ints], at: int, step: int) -> tuple[Ints, Ints]:
    """Whom the members of teams at one source reach at the next: (root, member), each once."""
    left = min(at, at + step)
    news = (False, True) if mode == CHANGED else (False,)
    hops = [sides.hop(left, one, other) for one in news for other in news]
    p, q = (np.concatenate([hop[k] for hop in hops]) for k in (0, 1))
    here, there = (p, q) if step > 0 else (q, p)
    order = np.argsort(here, kind="stable")
    here, there = here[order], there[order]
    root, member = reached
    begin, end = np.searchsorted(here, member), np.searchsorted(here, member, "right")
    counts = end - begin
    inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    found = there[np.repeat(begin, counts) + inside]
    count = max(1, len(sides.objects))
    roots = np.repeat(root, counts)
    old = sides.objects.old[found]
    codes = np.unique(np.concatenate([roots * count + found, roots[old >= 0] * count + old[old >= 0]]))
    return codes // count, codes % count


def _team_views(sides: _Sides, reached: Mapping[int, tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The view chunks of each team, by its root: those of the boxes around its members at each source."""
    needed = sorted({source for source, _ in sides.of.keys})
    if len(needed) == 1:
        root, member = reached[needed[0]]
        at, view = _receiving(sides, {needed[0]: member})
        codes = np.unique(np.stack([root[at], view], axis=1), axis=0)
        return codes[:, 0], codes[:, 1]
    roots, members = reached[needed[0]]
    rows = {needed[0]: members}
    for source in needed[1:]:  # members of one team, each with each
        other_root, other = reached[source]
        order = np.argsort(other_root, kind="stable")
        other_root, other = other_root[order], other[order]
        begin, end = np.searchsorted(other_root, roots), np.searchsorted(other_root, roots, "right")
        counts = end - begin
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = {k: np.repeat(some, counts) for k, some in rows.items()}
        rows[source] = other[np.repeat(begin, counts) + inside]
        roots = np.repeat(roots, counts)
    at, view = _receiving(sides, rows)
    codes = np.unique(np.stack([roots[at], view], axis=1), axis=0).reshape(-1, 2)
    return codes[:, 0], codes[:, 1]


# -- groups that are found again -------------------------------------------------------------------------


def start_of(of: Definition) -> int:
    """The source that most dimensions of a view are of: where groups are looked for."""
    return max(range(len(of.sources)), key=lambda k: (sum(s == k for s, _ in of.keys), -k))


def holding(of: Definition, sides: _Sides, start: int, keys: Ints) -> Ints:
    """The old chunks of a source that may hold cells of these groups."""
    chunks, begin = sides.some(start, False)
    coords = of.numbering.coords(keys)
    dims = [(v, d) for v, (s, d) in enumerate(of.keys) if s == start]
    if not dims or not len(chunks):
        return begin + np.arange(len(chunks))
    schema = of.sources[start]
    wanted = np.stack([(coords[v] - schema.lo[d]) // schema.lengths[d] for v, d in dims], axis=1)
    there = chunks.coords[:, [d for _, d in dims]]
    both = np.concatenate([np.unique(wanted, axis=0), there])
    count = len(both) - len(there)
    _, codes = np.unique(both, axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    return begin + np.flatnonzero(np.isin(codes[count:], codes[:count]))
