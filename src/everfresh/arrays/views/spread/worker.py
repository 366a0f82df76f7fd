"""What a worker does for a view: it joins what it was told to, and takes what was found for its chunks.

Invariant: what the workers of a plan find, added up, is the change of the groups; `Taken` says of it what
came and went, and which groups have to be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import Array
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.model import Ints
from everfresh.arrays.plan.pairs import BACKWARD, FORWARD
from everfresh.arrays.views.cells import Block, Blocks, changed
from everfresh.arrays.views.definition import Definition
from everfresh.arrays.views.groups import isin_columns, placed, shown
from everfresh.arrays.views.joins import Source, changes, own, paired
from everfresh.arrays.views.slots import Changes, combined
from everfresh.arrays.views.spread.meeting import AGAIN, CHANGED, start_of
from everfresh.arrays.views.spread.planning import Plan
from everfresh.arrays.views.spread.stored import groups_of, table_of
from everfresh.arrays.views.tuples import Boxes, Tuples, laid
from everfresh.errors import Code, EverfreshError
from everfresh.types import no_rows

Both = tuple[pa.Table, pa.Table]
Get = Callable[[int], Both]
"""Of an object the cells that came (or, of a chunk, that are there) and those that went."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one worker joins: ordered pairs of objects, left and right; and which kinds of them are all that
    match of the objects that they are of, by twice whether the left is a change and whether the right is."""

    mode: str
    array: Ints
    """The array of each object, by position, as a number; and whether it is a change, and its chunk."""
    delta: Ints
    number: Ints
    left: Ints
    right: Ints
    whole: Ints
    teams: bool
    after: tuple[int, ...] = ()
    """Arrays whose chunks are already as the batch leaves them, as numbers."""

    @staticmethod
    def of(plan: Plan, worker: int, after: tuple[int, ...] = ()) -> Share:
        """A worker's share of a plan."""
        meeting, objects = plan.meeting, plan.meeting.objects
        left, right = ordered(plan)
        here = np.concatenate([plan.worker] * 2)[_both_ways(plan)] == worker
        left_here, right_here = left[here], right[here]
        whole = np.ones(4, np.int64)
        if not meeting.teams:
            mine = np.zeros((2, len(objects)), np.bool_)
            kind, kind_here = (
                2 * objects.delta[a] + objects.delta[b] for a, b in ((left, right), (left_here, right_here))
            )
            for k in range(4):
                some = kind_here == k
                mine[:] = False
                mine[0, left_here[some]] = mine[1, right_here[some]] = True
                of_kind = kind == k
                whole[k] = int((mine[0, left[of_kind]] & mine[1, right[of_kind]]).sum() == some.sum())
        columns = objects.array, objects.delta, objects.number, left_here, right_here, whole
        return Share(meeting.mode, *columns, meeting.teams, after)

    @property
    def needed(self) -> Ints:
        """The objects that are joined."""
        return np.unique(np.concatenate([self.left, self.right]))


def _both_ways(plan: Plan) -> Any:
    ways = plan.meeting.ways
    return np.concatenate([(ways & FORWARD) > 0, (ways & BACKWARD) > 0])


def ordered(plan: Plan) -> tuple[Ints, Ints]:
    """The pairs of a plan with their directions: left and right objects."""
    first, second = plan.meeting.first, plan.meeting.second
    some = _both_ways(plan)
    return np.concatenate([first, second])[some], np.concatenate([second, first])[some]


def joined(
    of: Definition, arrays: Sequence[int], share: Share, get: Get, keys: Ints | None = None
) -> Changes | None:
    """What a worker's joins come to; `arrays` are the numbers of the sources' arrays, `keys` the groups that
    are wanted, if not all are."""
    found = list(_teams(of, arrays, share, get, keys) if share.teams else _pairs(of, share, get, keys))
    change = combined(found)
    if change is None or keys is None:
        return change
    keep = np.isin(change.keys, keys)
    if not keep.any():
        return None
    return Changes(change.keys[keep], {n: c[keep] for n, c in change.columns.items()})


def _signed(is_delta: int) -> tuple[tuple[int, int], ...]:
    """Which part of an object counts how often."""
    return ((1, 0), (-1, 1)) if is_delta else ((1, 0),)


def _pairs(of: Definition, share: Share, get: Get, keys: Ints | None) -> Iterator[Changes]:
    """The pairs, by whether their sides are changes: `dA B + A dB + dA dB` over what was, minus the last term
    over what is, and without it where that is one side's alone."""
    kind = 2 * share.delta[share.left] + share.delta[share.right]
    for k in range(4):
        some = kind == k
        if not some.any():
            continue
        sign = 1
        if k == 3:
            sides_after = {
                int(share.array[side[some][0]]) in share.after for side in (share.left, share.right)
            }
            sign = 0 if len(sides_after) > 1 else -1 if True in sides_after else 1
            if not sign:
                continue
        sides = [np.unique(side[some], return_inverse=True) for side in (share.left, share.right)]
        held = [[get(int(position)) for position in positions] for positions, _ in sides]
        for left_weight, left_part in _signed(k >> 1):
            for right_weight, right_part in _signed(k & 1):
                left, left_at = _side(of, 0, [both[left_part] for both in held[0]], keys)
                right, right_at = _side(of, 1, [both[right_part] for both in held[1]], keys)
                pairs = left_at[sides[0][1].reshape(-1)], right_at[sides[1][1].reshape(-1)]
                live = (pairs[0] >= 0) & (pairs[1] >= 0)
                pairs = pairs[0][live], pairs[1][live]
                weight = sign * left_weight * right_weight
                yield from paired(of, left, right, pairs, weight, bool(share.whole[k]))


def _side(of: Definition, s: int, tables: list[pa.Table], keys: Ints | None) -> tuple[Tuples, Ints]:
    """The tuples of a source that count, and which chunk of them each table is; -1 if none is left of it."""
    rows = laid(tables, of.sources[s], of.scans[s]).filtered(own(of, s))
    if keys is not None and s == start_of(of):
        rows = _wanted(of, s, rows, keys)
    there = np.diff(rows.starts) > 0
    return rows.compact(), np.where(there, np.cumsum(there) - 1, -1)


def _wanted(of: Definition, s: int, rows: Tuples, keys: Ints) -> Tuples:
    """The tuples of a source that groups of these keys may have."""
    dims = [(v, d) for v, (source, d) in enumerate(of.keys) if source == s]
    if not dims or not len(rows):
        return rows
    coords = of.numbering.coords(keys)[[v for v, _ in dims]]
    keep = isin_columns(rows.coords[[d for _, d in dims]], coords)
    starts = np.concatenate(([0], np.cumsum(keep)))[rows.starts]
    return Tuples(rows.table.filter(pa.array(keep)), rows.ndim, starts, rows.scan)


def _teams(
    of: Definition, arrays: Sequence[int], share: Share, get: Get, keys: Ints | None
) -> Iterator[Changes]:
    """Changed chunks of each source with what they reach: those before as they are, those behind as they
    were."""
    roots, members = np.unique(share.left), np.unique(share.right)
    seeds = range(len(of.sources)) if share.mode == CHANGED else [start_of(of) if share.mode == AGAIN else 0]
    for k in seeds:
        some = roots[share.array[roots] == arrays[k]]
        if not len(some):
            continue
        around = [
            None if j == k else _source(of, j, arrays[j], share, members, get, j < k)
            for j in range(len(of.sources))
        ]
        held = [get(int(position)) for position in some]
        for weight, part in _signed(int(share.delta[some[0]])):
            rows, _ = _side(of, k, [both[part] for both in held], keys)
            yield from changes(of, k, rows, weight, around)


def _source(of: Definition, j: int, array: int, share: Share, members: Ints, get: Get, after: bool) -> Source:
    """A source as a worker has it: before the batch, or after it."""
    schema = of.sources[j]
    chunks: dict[int, Chunk] = {}
    its = members[share.array[members] == array]
    for position in its[share.delta[its] == 0].tolist():
        chunks[int(share.number[position])] = Chunk(get(position)[0], schema.ndim)
    if share.mode == CHANGED and after != (array in share.after):
        empty = Chunk(no_rows(schema.arrow), schema.ndim)
        for position in its[share.delta[its] == 1].tolist():
            number = int(share.number[position])
            came, went = get(position) if after else get(position)[::-1]
            new = chunks.get(number, empty).changed(schema, came, went)
            chunks[number] = new
            if not len(new):
                del chunks[number]
    mapping = of.hops[j].mapping if j < len(of.hops) else None
    held = Array(schema, dict(sorted(chunks.items())))
    return Source(held, Boxes.of(held, mapping))


# -- view chunks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Taken:
    """What a change did to chunks of a view: the cells of groups, and those that are shown, that came and
    went; and the keys of groups that have to be found again."""

    groups: Both
    shown: Both
    dirty: Ints


def taken(of: Definition, chunks: Mapping[int, pa.Table], change: Changes, again: bool) -> Taken:
    """Take a change into chunks of groups, those that it touches; or groups that were found again."""
    blocks = {n: _block(of, table) for n, table in chunks.items()}
    if again:
        before = _at(blocks, change, of.numbering.volume)
        after = _at(placed(blocks, change, of.numbering.volume), change, of.numbering.volume)
        dirty = np.empty(0, np.int64)
    else:
        step = changed(blocks, change, of.numbering.volume)
        before, after, dirty = step.before, step.after, step.dirty
    return Taken((table_of(of, after), table_of(of, before)), (shown(of, after), shown(of, before)), dirty)


def _block(of: Definition, table: pa.Table) -> Block:
    found = groups_of(of, table)
    return Block(found.keys, found.columns)


def _at(blocks: Blocks, change: Changes, volume: int) -> Changes:
    """The groups of a change's keys as they are in blocks."""
    parts = []
    for number in np.unique(change.keys // volume).tolist():
        if number not in blocks:
            raise EverfreshError(Code.DAMAGED, "a group that is to be found again is not there")
        block = blocks[number]
        keep = np.isin(block.keys, change.keys)
        parts.append(Changes(block.keys[keep], {n: c[keep] for n, c in block.columns.items()}))
    found = combined_blocks(parts)
    if len(found) != len(change):
        raise EverfreshError(Code.DAMAGED, "a group that is to be found again is not there")
    return found


def combined_blocks(parts: Sequence[Changes]) -> Changes:
    """Groups of several chunks, by ascending keys, as one."""
    columns = {n: np.concatenate([p.columns[n] for p in parts]) for n in parts[0].columns}
    return Changes(np.concatenate([p.keys for p in parts]), columns)
