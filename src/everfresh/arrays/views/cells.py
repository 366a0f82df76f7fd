"""The cells of a view, chunk by chunk, and how a change of groups makes the next ones.

A cell is known by one number: its chunk's, times the cells of a chunk, plus its place in the chunk,
row-major. Chunks never change; the next value of a view shares those that nothing came to.

Invariant: keys ascend in a chunk, a group has at least one pair, and no chunk is empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everfresh.arrays.model import ArraySchema, Ints
from everfresh.arrays.views.slots import ROWS, Changes, Columns, added, combined, greatest, least, plus
from everfresh.errors import Code, EverfreshError

_MOST = 1 << 62
_CANCELLED = 2.0**-40
"""A sum so much smaller than what went has lost digits even in two words."""


@dataclass(frozen=True)
class Numbering:
    """Cells of an array as numbers."""

    schema: ArraySchema

    def __post_init__(self) -> None:
        total = self.volume
        for size in self.schema.grid:
            total *= size
        if total >= _MOST:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the cells of view '{self.schema.name}' do not fit one 64-bit key",
                hint="give the view narrower dimensions, or shorter chunks",
            )

    @property
    def volume(self) -> int:
        """The cells of a chunk."""
        return math.prod(int(c) for c in self.schema.lengths)

    def keys(self, coords: Ints) -> Ints:
        """The numbers of cells.

        >>> from everfresh.arrays.model import Dimension
        >>> numbers = Numbering(ArraySchema("a", (Dimension("i", 1, 4, 2), Dimension("j", 1, 4, 2))))
        >>> cells = np.array([[1, 2, 4], [1, 2, 3]])
        >>> numbers.keys(cells).tolist(), bool((numbers.coords(numbers.keys(cells)) == cells).all())
        ([0, 3, 14], True)
        """
        schema = self.schema
        places = schema.chunk_places(coords)
        inside = coords - schema.lo[:, None] - places * schema.lengths[:, None]
        offsets = inside[0]
        for k in range(1, schema.ndim):
            offsets = offsets * schema.lengths[k] + inside[k]
        return np.asarray(schema._strides @ places * self.volume + offsets, np.int64)

    def coords(self, keys: Ints) -> Ints:
        """The inverse of `keys`."""
        schema = self.schema
        chunks, offsets = np.divmod(keys, self.volume)
        found = np.empty((schema.ndim, len(keys)), np.int64)
        for k in range(schema.ndim - 1, -1, -1):
            offsets, inside = np.divmod(offsets, schema.lengths[k])
            places = chunks // schema._strides[k] % schema.grid[k]
            found[k] = schema.lo[k] + places * schema.lengths[k] + inside
        return found


@dataclass(frozen=True, eq=False)
class Block:
    """The cells of one chunk of a view."""

    keys: Ints
    columns: Columns
    made: dict[str, Any] = field(default_factory=dict)
    """What is shown of it, once it was asked for."""

    def __len__(self) -> int:
        return len(self.keys)


Blocks = Mapping[int, Block]


@dataclass(frozen=True, eq=False)
class Step:
    """What a change of groups did: the blocks after it, the keys that it touched, what was kept of those that
    were there before, and of those that are there now, and which extremes have to be found again."""

    blocks: Blocks
    before: Changes
    after: Changes
    dirty: Ints


def changed(blocks: Blocks, change: Changes, volume: int) -> Step:
    """The blocks after a change."""
    chunks = change.keys // volume
    touched = np.unique(chunks)
    old = [blocks[int(c)] for c in touched if int(c) in blocks]
    names = [name for name in change.columns if not name.startswith(("neg", "b"))]
    known = np.concatenate([b.keys for b in old]) if old else np.empty(0, np.int64)
    fresh = change.keys
    if len(known):  # both ascend
        at = np.minimum(np.searchsorted(known, change.keys), len(known) - 1)
        fresh = change.keys[known[at] != change.keys]
    keys = known if not len(fresh) else np.sort(np.concatenate([known, fresh]), kind="stable")
    was, now = np.searchsorted(keys, known), np.searchsorted(keys, change.keys)
    columns: Columns = {}
    for name in names:
        delta = change.columns[name]
        kept = np.concatenate([b.columns[name] for b in old]) if old else delta[:0]
        kind = np.dtype(object) if "O" in (kept.dtype.kind, delta.dtype.kind) else delta.dtype
        columns[name] = np.full(len(keys), None if kind.hasobject and name[0] in "lh" else 0, kind)
        columns[name][was] = kept
    existed = columns[ROWS][now] > 0
    before = Changes(change.keys[existed], {n: c[now[existed]] for n, c in columns.items()})
    _merge(columns, change, now, existed)
    rows = columns[ROWS]
    if (rows < 0).any():
        raise EverfreshError(Code.DAMAGED, "a cell of an array view would hold less than no pairs")
    dirty = _dirty(columns, change, now)
    keep = rows > 0
    alive = keep[now]
    after = Changes(change.keys[alive], {n: c[now[alive]] for n, c in columns.items()})
    if not keep.all():
        keys, columns = keys[keep], {n: c[keep] for n, c in columns.items()}
    return Step(replaced(blocks, touched, keys, columns, volume), before, after, dirty)


def replaced(blocks: Blocks, touched: Ints, keys: Ints, columns: Columns, volume: int) -> Blocks:
    """The blocks with those that were touched made of these cells."""
    found = dict(blocks)
    if not len(blocks):
        touched = np.unique(keys // volume)
    begins, ends = np.searchsorted(keys, touched * volume), np.searchsorted(keys, (touched + 1) * volume)
    for chunk, a, b in zip(touched.tolist(), begins.tolist(), ends.tolist(), strict=True):
        if a == b:
            found.pop(chunk, None)
        else:
            found[chunk] = Block(keys[a:b].copy(), {n: c[a:b].copy() for n, c in columns.items()})
    return found


def _merge(columns: Columns, change: Changes, now: Ints, existed: Any) -> None:
    for name in columns:
        delta = change.columns[name]
        if name[0] == "e":
            other = f"s{name[1:]}"
            total = added(columns[other][now], columns[name][now], change.columns[other], delta)
            columns[other][now], columns[name][now] = total
        elif name[0] == "s" and f"e{name[1:]}" in columns:
            continue
        elif name.startswith(("lo", "hi")):
            some = existed & (columns[f"n{name[2:]}"][now] > 0)
            best = (least if name.startswith("lo") else greatest)(columns[name][now], delta)
            columns[name][now] = np.where(some, best, delta)
        elif name[0] != "n":
            total_rows = plus(columns[name][now], delta)
            if total_rows.dtype.kind == "O" and columns[name].dtype.kind != "O":
                columns[name] = columns[name].astype(object)
            columns[name][now] = total_rows
    for name in columns:  # how many values there are, after their extremes have asked how many there were
        if name[0] == "n":
            columns[name][now] += change.columns[name]


def _dirty(columns: Columns, change: Changes, now: Ints) -> Ints:
    """The groups of which something went that may have been an extreme, was no number, or was nearly all."""
    found = np.zeros(len(now), np.bool_)
    for name, went in change.columns.items():
        if not name.startswith("neg"):
            continue
        k = name[3:]
        some = (went > 0) & (columns[f"n{k}"][now] > 0)
        if f"e{k}" in columns:
            s, big = np.abs(columns[f"s{k}"][now]), change.columns[f"big{k}"]
            with np.errstate(invalid="ignore"):
                found |= some & (~np.isfinite(s) | (s < big * _CANCELLED))
        for end, wins in (("lo", least), ("hi", greatest)):
            if f"{end}{k}" in columns and some.any():
                kept, gone = columns[f"{end}{k}"][now], change.columns[f"b{end}{k}"]
                best = wins(kept, gone)
                with np.errstate(invalid="ignore"):
                    found |= some & (np.asarray(best == gone, np.bool_) | np.asarray(gone != gone, np.bool_))
    return change.keys[found]


__all__ = ["Block", "Blocks", "Changes", "Numbering", "Step", "changed", "combined", "replaced"]
