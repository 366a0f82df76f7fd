"""Where pieces are kept after a query (Algorithm 3, `004`): beside the pieces that they are joined with.

A join brings pieces to other workers than their own; a copy that is there already costs nothing to keep. Each
piece stays at one worker: of those that have it and room for it the one with the most pieces that it was
joined with, recent queries counting more. Pieces are placed in the order of how many copies they have, so
that those with a choice choose last.

What the document leaves open is settled so: of workers with as many such pieces the one counts to which more
of those that are not placed yet could come; a piece that is larger than every budget is placed last, as it
will lie in parts wherever it is; where no worker that has a piece has room, it goes to the one
with most room, which is a transfer; where none has room for all of it, its cells are kept in parts, cut
along the longest side of its box, at the workers that have it first and then where most room is. A piece
whose parts fit nowhere is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everfresh.raw.boxes import Box


@dataclass(frozen=True, slots=True)
class Joined:
    """The pairs of pieces that a query joined, and the box that it asked for."""

    query: int
    pairs: tuple[tuple[int, int], ...]
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A piece to be placed: its cells, its bytes, and the workers that have a copy, its own first. `head` are
    the bytes that each part takes beside those of its cells."""

    piece: int
    cells: int
    bytes: int
    copies: tuple[int, ...]
    head: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """So many cells of a piece at a worker, the next along the longest side of its box."""

    worker: int
    cells: int


Placed = Mapping[int, tuple[Part, ...]]
PASSES = 4
"""How often pieces may change their place once all have one."""
WINDOW = 16
"""Queries whose pairs count: older ones have less than a ten-thousandth of the newest one's weight."""


def place(
    items: Sequence[Item], joined: Sequence[Joined], budgets: Sequence[int]
) -> dict[int, tuple[Part, ...]]:
    """The parts of each piece that is kept.

    >>> items = [Item(1, 2, 2, (0,)), Item(2, 1, 1, (1, 0))]
    >>> place(items, [Joined(1, ((1, 2),))], [3, 3])
    {1: (Part(worker=0, cells=2),), 2: (Part(worker=0, cells=1),)}
    """
    mates = affinity(joined)
    room = list(budgets)
    home: dict[int, int] = {}
    placed: dict[int, tuple[Part, ...]] = {}
    largest = max(budgets, default=0)
    copies = {item.piece: item.copies for item in items}
    for item in sorted(items, key=lambda one: (one.bytes > largest, len(one.copies), one.piece)):
        found = _best(item, mates.get(item.piece, {}), home, copies, room)
        if found is not None:
            home[item.piece] = found
            parts: tuple[Part, ...] = (Part(found, item.cells),)
            room[found] -= item.bytes
        else:
            parts = _spread(item, room)
            for part in parts:
                room[part.worker] -= share(item, part.cells)
        if parts:
            placed[item.piece] = parts
    known = {item.piece: item for item in items if item.piece in home}
    for _ in range(PASSES):
        if not _moved(known, mates, home, room):
            break
    return {n: (Part(home[n], known[n].cells),) if n in home else parts for n, parts in placed.items()}


def _moved(
    items: Mapping[int, Item],
    mates: Mapping[int, Mapping[int, float]],
    home: dict[int, int],
    room: list[int],
) -> bool:
    """Let pieces go to another worker that has a copy, if more of what they are joined with is there now that
    all are placed; whether one did."""
    found = False
    for piece, item in items.items():
        if len(item.copies) < 2 or piece not in mates:
            continue
        here = dict.fromkeys(item.copies, 0.0)
        for mate, weight in mates[piece].items():
            if home.get(mate) in here:
                here[home[mate]] += weight
        best = max(here, key=lambda worker: here[worker])
        before = home[piece]
        if here[best] > here.get(before, 0.0) and room[best] >= item.bytes:
            room[before] += item.bytes
            room[best] -= item.bytes
            home[piece] = best
            found = True
    return found


def share(item: Item, cells: int) -> int:
    """The bytes of some cells of a piece, never fewer than they take."""
    return item.head - (-max(0, item.bytes - item.head) * cells // max(1, item.cells))


def affinity(joined: Iterable[Joined]) -> dict[int, dict[int, float]]:
    """For each piece those that it was joined with, and how much each counts."""
    some = sorted(joined, key=lambda one: one.query)[-WINDOW:]
    found: dict[int, dict[int, float]] = {}
    for one in some:
        weight = 2.0 ** (one.query - some[-1].query)
        for a, b in one.pairs:
            if a != b:
                for x, y in ((a, b), (b, a)):
                    mates = found.setdefault(x, {})
                    mates[y] = mates.get(y, 0.0) + weight
    return found


def _best(
    item: Item,
    mates: Mapping[int, float],
    home: Mapping[int, int],
    copies: Mapping[int, tuple[int, ...]],
    room: Sequence[int],
) -> int | None:
    """The worker that keeps all of a piece; None where none has room."""
    open_ = [worker for worker in item.copies if room[worker] >= item.bytes]
    if not open_:
        most = max(range(len(room)), key=lambda worker: (room[worker], -worker))
        return most if room[most] >= item.bytes else None
    here, perhaps = dict.fromkeys(open_, 0.0), dict.fromkeys(open_, 0.0)
    for mate, weight in mates.items():
        if mate in home:
            if home[mate] in here:
                here[home[mate]] += weight
            continue
        for worker in copies.get(mate, ()):
            if worker in perhaps:
                perhaps[worker] += weight
    return max(open_, key=lambda worker: (here[worker], perhaps[worker], -item.copies.index(worker)))


def _spread(item: Item, room: Sequence[int]) -> tuple[Part, ...]:
    """Parts of a piece that no worker has room for."""
    if item.bytes > sum(room):
        return ()
    others = sorted(set(range(len(room))) - set(item.copies), key=lambda worker: (-room[worker], worker))
    left, parts = item.cells, []
    for worker in (*item.copies, *others):
        cells = min(left, (room[worker] - item.head) * item.cells // max(1, item.bytes - item.head))
        if cells > 0:
            parts.append(Part(worker, cells))
            left -= cells
    return tuple(parts) if not left else ()
