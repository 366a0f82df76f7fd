"""An order book: bids and asks of a few brokers at about a thousand prices, and streams of orders over it.

The schema is that of the financial workload of the thesis (4.3.1), with exact types. The middle price walks
at random, asks are above it and bids below, in steps of ten: about a thousand prices over a range in which
orders of one broker are often more than 1,000 apart. Invariant: the same arguments give the same batches;
a deleted order is in the book, and is of an earlier batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everfresh.datasets.batch import Batch
from everfresh.errors import Code, EverfreshError

_COLUMNS = ("t", "id", "broker_id", "volume", "price")

TABLES: dict[str, str] = {
    side: f"CREATE TABLE {side} (\n"
    + "".join(f"    {column} BIGINT NOT NULL,\n" for column in _COLUMNS)
    + "    PRIMARY KEY (id)\n)"
    for side in ("bids", "asks")
}
"""The CREATE TABLE statement of each side of the book."""

BROKERS = 10
LEVELS = 1000
STEP = 10
SCHEMA = pa.schema([pa.field(column, pa.int64(), nullable=False) for column in _COLUMNS])


def orders(rows: int, seed: int = 1) -> dict[str, pa.Table]:
    """`rows` orders of each side, in the order of their time."""
    random = np.random.default_rng(seed)
    span = LEVELS * 0.3  # the walk turns back at both ends of the middle third
    walk = np.mod(span / 2 + np.cumsum(random.normal(0, 0.5, rows)), 2 * span)
    middle = (LEVELS - span) / 2 + span - np.abs(walk - span)
    return {
        side: _side(middle, sign, first, random)
        for first, (side, sign) in enumerate((("bids", -1), ("asks", 1)))
    }


def _side(middle: npt.NDArray[np.float64], sign: int, first: int, random: np.random.Generator) -> pa.Table:
    """The orders of one side: times and ids of the two sides interleave."""
    rows = len(middle)
    number = np.arange(rows, dtype=np.int64) * 2 + first
    away = random.gamma(2.0, LEVELS / 12, rows)  # most orders are near the best price, some far from it
    level = np.clip(np.rint(middle + sign * away), 1, LEVELS).astype(np.int64)
    columns = {
        "t": number // 4,  # several orders at one time
        "id": number,
        "broker_id": random.integers(0, BROKERS, rows),
        "volume": random.integers(1, 1000, rows),
        "price": level * STEP,
    }
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}).cast(SCHEMA)


def stream(live: int, batches: int, size: int, seed: int = 1) -> Iterator[dict[str, Batch]]:
    """`batches` batches of `size` changes of both sides: orders come until `live` of each side are there,
    then as many go as come, old ones and new ones alike."""
    if live < 1 or batches < 1 or size < 2:
        raise EverfreshError(
            Code.ARGUMENT,
            "a stream needs a book of at least one order, a batch, and two changes in each",
            place="live, batches, size",
        )
    random = np.random.default_rng(seed)
    data = orders(batches * size, seed)
    there: dict[str, npt.NDArray[np.int64]] = {side: np.empty(0, np.int64) for side in data}
    came = dict.fromkeys(data, 0)
    for _ in range(batches):
        batch: dict[str, Batch] = {}
        for side, share in (("bids", size - size // 2), ("asks", size // 2)):
            book = there[side]
            room = max(live - len(book), 0)
            go = 0 if share <= room else min((share - room + 1) // 2, len(book))
            come = np.arange(came[side], came[side] + share - go)
            chosen = random.choice(len(book), go, replace=False)
            batch[side] = Batch(data[side].take(come), data[side].take(book[chosen]))
            there[side] = np.concatenate([np.delete(book, chosen), come])
            came[side] += len(come)
        yield batch
