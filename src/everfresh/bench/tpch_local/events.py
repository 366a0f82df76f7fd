"""The streams that a cell runs: single changes of tables in an order, cut into batches of any size.

- `in_turn`: every row comes, the tables in turn (thesis, 4.3.1), each in the order of its file.
- `churn`: TPC-H rows come at random, none before what it refers to; once enough orders are there, each
  further one makes one go, with its lineitems (4.4.2). All else comes in the first fifth.
- `book`: orders of both sides come in turn until the book is full, then each makes one of its side go.

Invariant: a stream is a function of its data and seed, and any prefix of it is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.datasets import Batch

Ints = NDArray[np.int64]
Batches = dict[str, Batch]


@dataclass(frozen=True)
class Events:
    """Changes of tables in their order: of which table, 1 or -1, and which of its rows."""

    tables: Mapping[str, pa.Table]
    which: NDArray[np.int8]
    sign: NDArray[np.int8]
    row: Ints

    def __len__(self) -> int:
        return len(self.which)

    def batch(self, low: int, high: int) -> Batches:
        """The changes from `low` to `high` as one batch."""
        which, sign, row = (a[low:high] for a in (self.which, self.sign, self.row))
        found = {}
        for number, (name, rows) in enumerate(self.tables.items()):
            mine = which == number
            if mine.any():
                come, go = row[mine & (sign > 0)], row[mine & (sign < 0)]
                found[name] = Batch(rows.take(come), rows.take(go))
        return found

    def batches(self, low: int, high: int, size: int) -> Iterator[tuple[int, Batches]]:
        """Batches of `size` from `low` to `high`, each with the place where it ends."""
        for start in range(low, high, size):
            end = min(start + size, high)
            yield end, self.batch(start, end)

    def only(self, names: Sequence[str]) -> Events:
        """The changes of some tables."""
        kept = [number for number, name in enumerate(self.tables) if name in names]
        number = np.full(len(self.tables), -1, np.int8)
        number[kept] = np.arange(len(kept))
        which = number[self.which]
        mine = which >= 0
        tables = {name: rows for name, rows in self.tables.items() if name in names}
        return Events(tables, which[mine], self.sign[mine], self.row[mine])


def in_turn(data: Mapping[str, pa.Table]) -> Events:
    """Every row comes, table by table in turn.

    >>> rows = {"a": pa.table({"x": [1]}), "b": pa.table({"x": [1, 2, 3]})}
    >>> in_turn(rows).which.tolist(), in_turn(rows).row.tolist()
    ([0, 1, 1, 1], [0, 0, 1, 2])
    """
    counts = [rows.num_rows for rows in data.values()]
    which = np.repeat(np.arange(len(counts), dtype=np.int8), counts)
    row = np.concatenate([np.arange(count) for count in counts])
    order = np.lexsort((which, row))
    return Events(data, which[order], np.ones(len(which), np.int8), row[order])


# -- TPC-H with deletes ----------------------------------------------------------------------------

_FIRST = 0.2
"""The part of the stream in which everything but orders and lineitems comes."""
LIVE_ORDERS = 30_000


def churn(data: Mapping[str, pa.Table], live: int | None = None, seed: int = 1) -> Events:
    """TPC-H as a stream of bounded size: at most `live` orders with their lineitems are there at once.

    Unless it is given, `live` is 30,000, or a fifth of all orders where that is less.
    """
    random = np.random.default_rng(seed)
    orders, lines = data["orders"].num_rows, data["lineitem"].num_rows
    live = live or min(LIVE_ORDERS, max(orders // 5, 1))
    times = _times(data, random)
    of_line = _places(data, "orders", "o_orderkey", "lineitem", "l_orderkey")
    times["lineitem"] = times["orders"][of_line]
    names = list(data)
    pieces = [
        (times[name], np.full(len(times[name]), rank), number, 1, np.arange(len(times[name])))
        for rank, (number, name) in enumerate(sorted(enumerate(names), key=lambda item: _RANK[item[1]]))
    ]
    gone, when = _goes(np.argsort(times["orders"], kind="stable"), live, random)
    order_of_line = np.argsort(of_line, kind="stable")
    starts = np.searchsorted(of_line[order_of_line], np.arange(orders + 1))
    count = starts[gone + 1] - starts[gone]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    lines_gone = order_of_line[np.repeat(starts[gone], count) + within]
    at = times["orders"][when]
    pieces.append(
        (np.repeat(at, count), np.full(len(lines_gone), 8), names.index("lineitem"), -1, lines_gone)
    )
    pieces.append((at, np.full(len(gone), 9), names.index("orders"), -1, gone))
    assert len(of_line) == lines
    time, rank, row = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1, 4))
    which, sign = (
        np.concatenate([np.full(len(piece[4]), piece[i], np.int8) for piece in pieces]) for i in (2, 3)
    )
    order = np.lexsort((row, rank, time))
    return Events(data, which[order], sign[order], row[order])


_RANK = {
    name: rank
    for rank, name in enumerate(
        ("region", "nation", "supplier", "part", "customer", "partsupp", "orders", "lineitem")
    )
}


def _times(data: Mapping[str, pa.Table], random: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """When each row comes, between 0 and 1; never before the rows it refers to, lineitems excepted."""
    times = {name: _FIRST * random.random(rows.num_rows) for name, rows in data.items()}
    times["region"][:] = 0.0
    times["nation"][:] = 0.0
    times["orders"] = random.random(data["orders"].num_rows)

    def after(name: str, parent: str, key: str, foreign: str) -> None:
        parents = times[parent][_places(data, parent, key, name, foreign)]
        times[name] = np.maximum(times[name], parents)

    after("partsupp", "part", "p_partkey", "ps_partkey")
    after("partsupp", "supplier", "s_suppkey", "ps_suppkey")
    after("orders", "customer", "c_custkey", "o_custkey")
    # A lineitem comes with its order: the order waits for what its lineitems refer to.
    of_line = _places(data, "orders", "o_orderkey", "lineitem", "l_orderkey")
    parts = times["part"][_places(data, "part", "p_partkey", "lineitem", "l_partkey")]
    suppliers = times["supplier"][_places(data, "supplier", "s_suppkey", "lineitem", "l_suppkey")]
    np.maximum.at(times["orders"], of_line, np.maximum(parts, suppliers))
    pairs = _pairs(data["partsupp"], "ps_partkey", "ps_suppkey")
    by_pair = np.argsort(pairs)
    wanted = _pairs(data["lineitem"], "l_partkey", "l_suppkey")
    found = by_pair[np.minimum(np.searchsorted(pairs[by_pair], wanted), len(pairs) - 1)]
    np.maximum.at(times["orders"], of_line, times["partsupp"][found])
    times["orders"] += 1e-9 * random.random(len(times["orders"]))  # those that waited for the same row differ
    return times


def _pairs(rows: pa.Table, first: str, second: str) -> Ints:
    pairs: Ints = (rows[first].to_numpy().astype(np.int64) << 32) + rows[second].to_numpy()
    return pairs


def _places(data: Mapping[str, pa.Table], parent: str, key: str, child: str, foreign: str) -> Ints:
    """For each row of `child`, the row of `parent` that it refers to."""
    keys, wanted = data[parent][key].to_numpy(), data[child][foreign].to_numpy()
    order = np.argsort(keys, kind="stable")
    places: Ints = order[np.searchsorted(keys[order], wanted)]
    return places


def _goes(come: Ints, live: int, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Which rows go, and with which coming row, if each after the first `live` makes a random one go."""
    there = come[:live].copy()
    later = come[live:]
    chosen = random.integers(0, len(there), len(later))
    gone = np.empty(len(later), np.int64)
    for i, (place, row) in enumerate(zip(chosen.tolist(), later.tolist(), strict=True)):
        gone[i] = there[place]
        there[place] = row
    return gone, later


# -- the order book --------------------------------------------------------------------------------


def book(data: Mapping[str, pa.Table], live: int, seed: int = 1) -> Events:
    """Orders of all sides in turn; a side of `live` orders loses one for each that comes."""
    random = np.random.default_rng(seed)
    which, sign, row, place = [], [], [], []
    for number, rows in enumerate(data.values()):
        come = np.arange(rows.num_rows)
        gone, when = _goes(come, live, random)
        which.append(np.full(len(come) + len(gone), number, np.int8))
        sign.append(np.repeat(np.array([1, -1], np.int8), [len(come), len(gone)]))
        row.append(np.concatenate([come, gone]))
        place.append(np.concatenate([4 * come, 4 * when + 2]) + number)
    order = np.argsort(np.concatenate(place), kind="stable")
    return Events(data, *(np.concatenate(a)[order] for a in (which, sign, row)))
