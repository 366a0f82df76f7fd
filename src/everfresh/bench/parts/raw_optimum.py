"""What an optimal policy of the cache would read, for `raw`: one that knows all queries to come.

Where queries cut pieces does not depend on what is in memory, so which pieces each query meets, and which of
them have cells of it, is known once all queries have run; they are told as pieces of the last catalog. What
may be in memory after a query is what was there before and the pieces with cells of the query, within the
budget; a file is not read where all pieces of it that the query meets are there. With every piece divisible
and every file read in part where part of it is missing this is a linear program: no policy reads less than
its solution. With whole pieces and files it is a mixed-integer program, whose solution a policy could have
read; where that takes too long its best solution so far is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from everfresh.bench.parts.raw_workloads import Workload
    from everfresh.raw.catalog import Catalog, Piece
    from everfresh.raw.cells import CellReader


Pieces = dict[str, frozenset[int]]
"""By their files."""


@dataclass(frozen=True)
class Trace:
    """What each query needs in memory so as not to read a file, and what may stay after it; the bytes of
    pieces and of files."""

    needed: tuple[Pieces, ...]
    gained: tuple[frozenset[int], ...]
    pieces: dict[int, int]
    files: dict[str, int]


def trace(workload: Workload, reader: CellReader, catalog: Catalog, min_cells: int) -> Trace:
    """Run the queries with memory for everything."""
    from everfresh.bench.parts.raw_workloads import asked
    from everfresh.raw.cache.asking import CacheOptions
    from everfresh.raw.cache.coordinator import Coordinator

    workers = 1 + max(file.owner for file in catalog.files.values())
    cache = Coordinator(CacheOptions(workers, 1 << 50, min_cells=min_cells))
    cache.put("a", reader, catalog)
    met, used = [], []
    for query, box in enumerate(workload.boxes, 1):
        met.append(cache.catalogs["a"].meeting([box]))
        asked(cache, workload, box, False)
        known = cache.catalogs["a"].pieces
        now = {number for use in cache.state.uses if use.query == query for number in use.pieces}
        used.append([known[number] for number in sorted(now)])
    last = cache.catalogs["a"]
    leaves: dict[str, list[Piece]] = {}
    for piece in last.pieces.values():
        leaves.setdefault(piece.file, []).append(piece)

    def inside(some: Sequence[Piece]) -> Pieces:
        found: dict[str, set[int]] = {}
        for piece in some:
            mine = {leaf.number for leaf in leaves[piece.file] if leaf.box.met(piece.box) == leaf.box}
            found.setdefault(piece.file, set()).update(mine)
        return {path: frozenset(numbers) for path, numbers in found.items()}

    return Trace(
        tuple(inside(some) for some in met),
        tuple(frozenset(n for numbers in inside(some).values() for n in numbers) for some in used),
        {number: piece.cells * reader.width for number, piece in last.pieces.items()},
        {path: file.found.size for path, file in last.files.items()},
    )


def least_read(told: Trace, budget: int, first: int, whole: bool = False, seconds: float = 60.0) -> float:
    """The bytes that must be read from query `first` on, counted from 1; a solution with whole pieces and
    files if that is asked for.

    >>> one, two = {"a": frozenset({1})}, {"b": frozenset({2})}
    >>> gained = frozenset({1}), frozenset({2}), frozenset({1}), frozenset({2})
    >>> some = Trace((one, two, one, two), gained, {1: 5, 2: 5}, {"a": 100, "b": 50})
    >>> least_read(some, 5, 3, whole=True), least_read(some, 10, 3)
    (50.0, 0.0)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    number = _Numbers()
    rows: list[tuple[Sequence[int], Sequence[float], float]] = []
    steps = len(told.needed)
    spans = _spans(told)
    for piece, (begin, end) in spans.items():  # kept after query t only if it was there, or t asked for it
        for t in range(begin + 1, end):
            if piece not in told.gained[t]:
                rows.append((number.of((piece, t), (piece, t - 1)), (1.0, -1.0), 0.0))
    for t in range(steps):
        here = [piece for piece, (begin, end) in spans.items() if begin <= t < end]
        rows.append((number.of(*((p, t) for p in here)), [told.pieces[p] for p in here], float(budget)))
    total, saved = 0.0, {}
    for t in range(first - 1, steps):
        for path, some in told.needed[t].items():
            total += told.files[path]
            if all(spans.get(p, (t, t))[0] < t for p in some):
                (hit,) = number.of((path, t))
                saved[hit] = float(told.files[path])
                rows += [((hit, *number.of((p, t - 1))), (1.0, -1.0), 0.0) for p in some]
    if not saved:
        return total
    columns = len(number.known)
    matrix = csr_array(
        (
            np.concatenate([np.asarray(values, np.float64) for _, values, _ in rows]),
            np.concatenate([np.asarray(places, np.int64) for places, _, _ in rows]),
            np.cumsum([0, *(len(places) for places, _, _ in rows)]),
        ),
        (len(rows), columns),
    )
    gain = np.zeros(columns)
    gain[list(saved)] = list(saved.values())
    limits = LinearConstraint(matrix, ub=np.array([limit for _, _, limit in rows]))
    found: Any = milp(
        -gain, integrality=np.full(columns, int(whole)), bounds=Bounds(0, 1), constraints=limits,
        options={"time_limit": seconds},
    )  # fmt: skip
    return total if found.x is None else float(total + found.fun)


class _Numbers:
    """The variables of a program, by what they stand for."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def of(self, *what: Any) -> tuple[int, ...]:
        return tuple(self.known.setdefault(each, len(self.known)) for each in what)


def _spans(told: Trace) -> dict[int, tuple[int, int]]:
    """For each piece the first query after which it may stay, and the last that needs it."""
    found: dict[int, tuple[int, int]] = {}
    for t, (mine, gained) in enumerate(zip(told.needed, told.gained, strict=True)):
        for piece in {number for some in mine.values() for number in some}:
            if piece in found:
                found[piece] = (found[piece][0], t)
        found.update((piece, (t, t)) for piece in gained if piece not in found)
    return found
