"""Changes of a view's groups: the pairs that a batch makes and ends, folded group by group.

The rule is that of products: a change of source k is joined with the sources before it as they are after the
batch, and with those behind it as they were before. So each pair that comes or goes is counted once, with the
product of signs that the document on array views has for its three terms, and no term is left out.

Pairs of two sources whose values are of one side are folded by the compiled loop and never made; others are
made, chunk pair by chunk pair.

Invariant: the sum of `changes` over the sources is the difference of the join after and before the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.arrays.cells import Array
from everfresh.arrays.evaluate import extended
from everfresh.arrays.join import Cells, Pairs, counted, folded, matched
from everfresh.arrays.model import Ints
from everfresh.arrays.views.definition import Argument, Definition
from everfresh.arrays.views.slots import ROWS, Changes, Columns, combined, went_and_came
from everfresh.arrays.views.tuples import Boxes, Tuples, near, truth, tuples_of, vector_of
from everfresh.expr.column import Vector
from everfresh.expr.nodes import Expr
from everfresh.sql.logical.plan import Scan

_SAFE = float(1 << 62)
_CROWDED = 4
_PAIRS = 1 << 22
"""About so many pairs are held at once when a view is made."""
_TRIED = 1 << 26
"""About so many pairs of cells, matching or not, are looked at together where chunks are known in pairs."""


class Source:
    """A source as of one epoch: the array, and the boxes of its chunks."""

    def __init__(self, array: Array, boxes: Boxes) -> None:
        self.array, self.boxes = array, boxes


def changes(
    of: Definition, k: int, rows: Tuples, weight: int, around: Sequence[Source | None]
) -> Iterator[Changes]:
    """What tuples of source k that come (or go, with a weight below 0) do to the groups; `around` has the
    other sources."""
    rows = rows.filtered(own(of, k)).compact()
    if not len(rows):
        return
    if len(of.sources) == 2 and foldable(of):
        other = around[1 - k]
        assert other is not None
        found = _partner(of, k, rows, 1 - k, other)
        if found is not None:
            some, pairs = found
            sides = (rows, some) if k == 0 else (some, rows)
            change = _folded(of, *sides, pairs, weight)
            if change is not None:
                yield change
                return
        else:
            return
    tuples, places = _pairs(of, k, rows, around)
    yield from _grouped(of, tuples, places, weight)


def paired(
    of: Definition, left: Tuples, right: Tuples, pairs: Pairs, weight: int, whole: bool
) -> Iterator[Changes]:
    """What known pairs of chunks of two sources come to; `whole` says that no other of these chunks match."""
    if not len(pairs[0]):
        return
    if foldable(of):
        if not whole and _crowded(left.cells, right.cells, pairs):
            for lefts, rights in _blocks_of(pairs):
                every = (
                    np.repeat(np.arange(len(lefts)), len(rights)),
                    np.tile(np.arange(len(rights)), len(lefts)),
                )
                yield from paired(of, left.chunks(lefts), right.chunks(rights), every, weight, True)
            return
        change = _folded(of, left, right, pairs, weight, whole)
        if change is not None:
            yield change
            return
    hop = of.hops[0]
    image = left.image(hop.mapping)
    sizes = np.diff(left.starts)[pairs[0]] * np.diff(right.starts)[pairs[1]]
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _TRIED, "right")))
        some = pairs[0][begin:end], pairs[1][begin:end]
        yield from _grouped(of, [left, right], list(matched(image, right.cells, hop.shape, some)), weight)
        begin = end


def _blocks_of(pairs: Pairs) -> Iterator[Pairs]:
    """Pairs of chunks as left ones with the same partners, and these: together each pair once."""
    order = np.lexsort(pairs[::-1])
    left, right = pairs[0][order], pairs[1][order]
    chunks, begins = np.unique(left, return_index=True)
    same: dict[bytes, list[int]] = {}
    for chunk, some in zip(chunks.tolist(), np.split(right, begins[1:]), strict=True):
        same.setdefault(some.tobytes(), []).append(chunk)
    for partners, lefts in same.items():
        yield np.array(lefts, np.int64), np.frombuffer(partners, right.dtype)


def fresh(of: Definition, arrays: Sequence[Array]) -> Iterator[Changes]:
    """The groups of whole arrays."""
    tuples = [
        tuples_of(array, scan).filtered(own(of, k))
        for k, (array, scan) in enumerate(zip(arrays, of.scans, strict=True))
    ]
    if not all(map(len, tuples)):
        return
    if len(tuples) == 2 and foldable(of):
        change = _folded(of, tuples[0], tuples[1], None, 1)
        if change is not None:
            yield change
            return
    for begin, end in _blocks(of, tuples):
        places = [np.arange(begin, end)]
        for k, hop in enumerate(of.hops):
            left = np.unique(places[-1])
            cells = Cells.of(hop.mapping.cells(tuples[k].coords[:, left]))
            i, j = matched(cells, Cells.of(tuples[k + 1].coords), hop.shape)
            at, right = extended(places[-1], left[i], j)
            places = [*(known[at] for known in places), right]
        yield from _grouped(of, tuples, places, 1)


def _blocks(of: Definition, tuples: Sequence[Tuples]) -> Iterator[tuple[int, int]]:
    """Ranges of the first source's tuples with about so many pairs with the second as are held at once."""
    if not of.hops:
        yield 0, len(tuples[0])
        return
    hop = of.hops[0]
    ends = np.cumsum(counted(tuples[0].image(hop.mapping), tuples[1].cells, hop.shape))
    begin = 0
    while begin < len(ends):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _PAIRS, "right")))
        yield begin, end
        begin = end


def own(of: Definition, k: int) -> list[Expr]:
    """The conditions on source k alone; those on none are the first's."""
    return [c for c in of.where if of.sources_of(c) <= {k} and (k == 0 or of.sources_of(c))]


def _across(of: Definition) -> list[Expr]:
    return [c for c in of.where if len(of.sources_of(c)) > 1]


# -- tuples and their partners ---------------------------------------------------------------------------


def _partner(of: Definition, k: int, rows: Tuples, at: int, source: Source) -> tuple[Tuples, Pairs] | None:
    """The tuples of a neighbouring source that may match these of source k, and the pairs of chunks (left,
    right); None if there are none."""
    hop = of.hops[min(k, at)]
    lo, hi = rows.boxes()
    boxes = source.boxes
    if at > k:
        if hop.mapping.keeps_order:
            lo, hi = hop.mapping.image(lo, hi)
        else:
            images, first = hop.mapping.cells(rows.coords), rows.starts[:-1]
            lo, hi = np.minimum.reduceat(images, first, axis=1), np.maximum.reduceat(images, first, axis=1)
        mine, theirs = near(lo, hi, boxes.lo, boxes.hi, hop.shape)
    else:
        theirs, mine = near(boxes.image_lo, boxes.image_hi, lo, hi, hop.shape)
    if not len(mine):
        return None
    used, theirs = np.unique(theirs, return_inverse=True)
    some = tuples_of(source.array, of.scans[at], boxes.ids[used].tolist())
    kept = some.filtered(own(of, at))
    if len(kept) < len(some):  # chunks may be empty now
        there = np.diff(kept.starts) > 0
        place = np.cumsum(there) - 1
        live = there[theirs]
        mine, theirs = mine[live], place[theirs[live]]
        kept = kept.compact()
        if not len(mine):
            return None
    return kept, ((mine, theirs) if at > k else (theirs, mine))


def _pairs(
    of: Definition, k: int, rows: Tuples, around: Sequence[Source | None]
) -> tuple[list[Tuples], list[Ints]]:
    """The rows of the chain in which tuples of source k stand: tuples of each source, and places in them."""
    tuples: list[Tuples] = [rows] * len(of.sources)
    places: dict[int, Ints] = {k: np.arange(len(rows))}
    for step in (1, -1):
        at = k
        while 0 <= at + step < len(of.sources):
            other = around[at + step]
            assert other is not None
            here = tuples[at]
            used = np.unique(places[at])
            if len(used) < len(here) and at != k:
                here, places[at] = _some(here, used), np.searchsorted(used, places[at])
                tuples[at] = here
            found = _partner(of, at, here, at + step, other) if len(here) else None
            hop = of.hops[min(at, at + step)]
            if found is None:
                empty = np.empty(0, np.int64)
                return tuples, [empty] * len(of.sources)
            there, pairs = found
            left, right = (here, there) if step > 0 else (there, here)
            i, j = matched(left.image(hop.mapping), right.cells, hop.shape, pairs)
            mine, theirs = (i, j) if step > 0 else (j, i)
            at_rows, next_rows = extended(places[at], mine, theirs)
            places = {n: known[at_rows] for n, known in places.items()}
            at += step
            tuples[at], places[at] = there, next_rows
    return tuples, [places[n] for n in range(len(of.sources))]


def _some(rows: Tuples, used: Ints) -> Tuples:
    """Some of the tuples; chunks that none is left of are left out."""
    starts = np.unique(np.searchsorted(used, rows.starts))
    return Tuples(rows.table.take(used), rows.ndim, starts, rows.scan)


# -- groups ----------------------------------------------------------------------------------------------


def foldable(of: Definition) -> bool:
    """Whether groups are cells of the first source, and every value and condition is of one source."""
    return (
        all(source == 0 for source, _ in of.keys)
        and not _across(of)
        and all(
            len(of.sources_of(e)) <= 1
            for a in of.arguments
            for e in ((a.expr,) if a.filter is None else (a.expr, a.filter))
        )
        and all(
            a.filter is None or of.sources_of(a.expr) | of.sources_of(a.filter) in (_FIRST, _SECOND)
            for a in of.arguments
        )
        and all(physical_kind(a) in "if" for a in of.arguments)
    )


_FIRST, _SECOND = frozenset({0}), frozenset({1})


def physical_kind(argument: Argument) -> str:
    """Doubles, whole numbers of 64 bits, or objects."""
    kind = argument.type
    if kind.is_wide or kind.is_text or kind.name == "INTERVAL":
        return "O"
    return "f" if kind.name in ("DOUBLE", "REAL") else "i"


def physical(vector: Vector) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values to aggregate, and which are not NULL."""
    values = vector.values if vector.dictionary is None else vector.dictionary[vector.values]
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype == np.float32:
        values = values.astype(np.float64)
    valid = np.ones(len(values), np.bool_) if vector.valid is None else vector.valid
    return np.ascontiguousarray(values), np.ascontiguousarray(valid)


def _argument(rows: Tuples, argument: Argument) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values, valid = physical(rows.vector(argument.expr))
    if argument.filter is not None:
        valid = valid & truth(rows.vector(argument.filter))
    return values, valid


def _folded(
    of: Definition, left: Tuples, right: Tuples, pairs: Pairs | None, weight: int, whole: bool = True
) -> Changes | None:
    """Groups by the compiled loop; None where sums might leave 64 bits, or values are no numbers. `whole`:
    no chunks match that are no pair."""
    hop = of.hops[0]
    cells, others = left.image(hop.mapping), right.cells
    if pairs is not None and whole and _crowded(cells, others, pairs):
        pairs = None
    if pairs is None:
        cells, others = Cells.of(cells.coords), Cells.of(others.coords)
    counts = counted(cells, others, hop.shape, pairs)
    some = np.flatnonzero(counts)
    columns: Columns = {ROWS: counts[some] * weight}
    for k, argument in enumerate(of.arguments):
        of_right = of.sources_of(argument.expr) == _SECOND or (
            argument.filter is not None and of.sources_of(argument.filter) == _SECOND
        )
        values, valid = _argument(right if of_right else left, argument)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return None
        if values.dtype.kind == "i" and argument.summed and len(values):
            greatest = float(np.abs(values.astype(float)).max()) * float(counts.max(initial=0))
            if greatest * abs(weight) >= _SAFE:
                return None
        if of_right:
            found = folded(cells, others, hop.shape, values, valid, pairs)
            n, s, least, most = (part[some] for part in (found.count, found.sum, found.min, found.max))
        else:
            values, valid = values[some], valid[some]
            n, least, most = counts[some] * valid, values, values
            with np.errstate(invalid="ignore", over="ignore"):
                s = np.where(valid, values * counts[some], 0)
        columns |= _contribution(argument, str(k), weight, (n, s), (least, most))
    return combined([Changes(_keys(of, [left, right], [some, some]), columns)])


def _crowded(left: Cells, right: Cells, pairs: Pairs) -> bool:
    """Whether chunks stand in so many pairs that going over all cells at once is less work: where a shape is
    open in a dimension, a chunk meets all chunks along it."""
    sizes = np.diff(left.starts)[pairs[0]].sum() + np.diff(right.starts)[pairs[1]].sum()
    return int(sizes) > _CROWDED * (len(left) + len(right))


def _contribution(
    argument: Argument,
    name: str,
    weight: int,
    sums: tuple[NDArray[Any], NDArray[Any]],
    ends: tuple[NDArray[Any], NDArray[Any]],
) -> Columns:
    n, s = sums
    columns: Columns = {f"n{name}": n * weight, f"neg{name}": n * (weight < 0)}
    if argument.summed:
        columns[f"s{name}"] = np.where(n > 0, s * weight, 0 if s.dtype.kind != "f" else 0.0)
        if s.dtype.kind == "O":
            columns[f"s{name}"] = columns[f"s{name}"].astype(object)
        if s.dtype.kind == "f":
            columns[f"e{name}"] = np.zeros(len(n))
            with np.errstate(over="ignore"):
                columns[f"big{name}"] = np.abs(columns[f"s{name}"])
    if argument.ordered:
        least = went_and_came(weight, name, ends[0], n > 0)
        most = went_and_came(weight, name, ends[1], n > 0)
        columns |= {f"lo{name}": least[f"lo{name}"], f"blo{name}": least[f"blo{name}"]}
        columns |= {f"hi{name}": most[f"hi{name}"], f"bhi{name}": most[f"bhi{name}"]}
    return columns


def _keys(of: Definition, tuples: Sequence[Tuples], places: Sequence[Ints]) -> Ints:
    coords = np.stack([tuples[s].coords[d][places[s]] for s, d in of.keys])
    return of.numbering.keys(coords)


def _grouped(
    of: Definition, tuples: Sequence[Tuples], places: Sequence[Ints], weight: int
) -> Iterator[Changes]:
    """Groups of rows of the chain."""
    rows = list(places)
    for condition in _across(of):
        keep = truth(_vector(of, tuples, rows, condition))
        rows = [some[keep] for some in rows]
    if not len(rows[0]):
        return
    columns: Columns = {ROWS: np.full(len(rows[0]), weight, np.int64)}
    for k, argument in enumerate(of.arguments):
        values, valid = physical(_vector(of, tuples, rows, argument.expr))
        if argument.filter is not None:
            valid = valid & truth(_vector(of, tuples, rows, argument.filter))
        if values.dtype.kind == "i" and argument.summed and abs(weight) > 1:
            values = values.astype(object)
        columns |= _contribution(argument, str(k), weight, (valid.astype(np.int64), values), (values, values))
    change = combined([Changes(_keys(of, tuples, rows), columns)])
    assert change is not None
    yield change


def _vector(of: Definition, tuples: Sequence[Tuples], rows: Sequence[Ints], expr: Expr) -> Vector:
    """The values of an expression over rows of the chain."""
    sources = sorted(of.sources_of(expr))
    if len(sources) <= 1:
        at = sources[0] if sources else 0
        return tuples[at].vector(expr).take(rows[at])
    columns = [c for at in sources for c in tuples[at].table.take(rows[at]).columns]
    scan = Scan("pairs", "pairs", tuple(v for at in sources for v in of.scans[at].vars))
    return vector_of(expr, scan, pa.Table.from_arrays(columns, [f"{k}" for k in range(len(columns))]))
