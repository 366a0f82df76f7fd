"""The tables of TPC-DS with batches of changes of the facts, and DuckDB beside them.

Of every fact table two rows in a hundred are held back. A batch deletes rows that are there and inserts as
many that are not, so that tables keep their size however many batches there are. Both sides are given the
same batches, and what a view holds is compared with what DuckDB answers.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.bench.parts.fill_views import create_table, tpcds_everything
from everfresh.bench.parts.make_views import KEYS
from everfresh.datasets import Batch
from everfresh.datasets.cache import plain
from everfresh.datasets.tpcds import ENVIRONMENT

FACTS = (
    "store_sales", "store_returns", "catalog_sales", "catalog_returns", "web_sales", "web_returns",
    "inventory",
)  # fmt: skip
_HELD = 0.02
_LIMIT = re.compile(r"\bLIMIT\s+(\d+)\s*$", re.IGNORECASE)


class Data:
    """The tables at a scale factor, the texts of the queries, and which rows of the facts are there."""

    def __init__(self, sf: float, folder: Path | str | None = None) -> None:
        self._home, index = tpcds_everything(sf, folder, ENVIRONMENT)
        self.columns: dict[str, list[tuple[str, str]]] = {
            name: [(column, kind) for column, kind in columns]
            for name, columns in index["tables"].items()
            if name in KEYS
        }
        self.texts = {int(number): query["text"] for number, query in index["queries"].items()}
        self._random = np.random.default_rng(1)
        self._there: dict[str, list[int]] = {}
        self._gone: dict[str, list[int]] = {}
        for name in FACTS:
            order = self._random.permutation(self.tables[name].num_rows)
            held = min(len(order) // 2, math.ceil(len(order) * _HELD))
            self._there[name], self._gone[name] = order[held:].tolist(), order[:held].tolist()

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """All rows that there may be."""
        return {name: plain(pq.read_table(self._home / f"{name}.parquet")) for name in self.columns}

    def ddl(self, name: str) -> str:
        """The CREATE TABLE statement of a table."""
        return create_table(name, self.columns[name])

    def rows(self, name: str) -> pa.Table:
        """The rows of a table that are there."""
        table = self.tables[name]
        return table.take(pa.array(sorted(self._there[name]))) if name in FACTS else table

    def batch(self, names: Iterable[str], share: float) -> dict[str, Batch]:
        """The next changes of some fact tables, in percent of their rows."""
        found = {}
        for name in names:
            there, gone = self._there[name], self._gone[name]
            count = min(max(1, round(len(there) * share / 200)), len(gone), len(there))
            come = _taken(gone, count, self._random)
            go = _taken(there, count, self._random)
            there += come
            gone += go
            table = self.tables[name]
            found[name] = Batch(table.take(pa.array(come)), table.take(pa.array(go)))
        return found


def _taken(numbers: list[int], count: int, random: np.random.Generator) -> list[int]:
    """So many of the numbers, taken out of them."""
    found = []
    for _ in range(count):
        at = int(random.integers(len(numbers)))
        numbers[at], numbers[-1] = numbers[-1], numbers[at]
        found.append(numbers.pop())
    return found


class Mirror:
    """The same tables in DuckDB, on one thread."""

    def __init__(self, data: Data) -> None:
        import duckdb

        self._con = duckdb.connect()
        self._con.execute("SET threads = 1")
        self._con.execute("SET TimeZone = 'UTC'")
        for name in data.columns:
            self._con.execute(data.ddl(name))
            self._insert(name, data.rows(name))

    def apply(self, batch: Mapping[str, Batch]) -> None:
        """Apply a batch."""
        for name, changes in batch.items():
            self._con.register("changed", changes.deletes)
            same = " AND ".join(f"{name}.{key} = changed.{key}" for key in KEYS[name])
            self._con.execute(f"DELETE FROM {name} USING changed WHERE {same}")
            self._con.unregister("changed")
            self._insert(name, changes.inserts)

    def _insert(self, name: str, rows: pa.Table) -> None:
        self._con.register("changed", rows)
        self._con.execute(f"INSERT INTO {name} SELECT * FROM changed")
        self._con.unregister("changed")

    def answer(self, text: str) -> pa.Table:
        """What DuckDB answers."""
        return self._con.sql(text).to_arrow_table()

    def settled(self, text: str) -> str:
        """The query with ties at a LIMIT broken as everfresh breaks them: by all columns, ascending."""
        limit = _LIMIT.search(text)
        if limit is None:
            return text
        places = range(1, len(self._con.sql(text).columns) + 1)
        order = ", ".join(f"{place} ASC NULLS LAST" for place in places)
        before = text[: limit.start()].rstrip()
        return f"{before}{',' if _ordered(before) else ' ORDER BY'} {order} LIMIT {limit[1]}"

    def close(self) -> None:
        """Let go of it."""
        self._con.close()


def _ordered(text: str) -> bool:
    """Whether a query ends in an ORDER BY of its own.

    >>> _ordered("SELECT a FROM t ORDER BY a"), _ordered("SELECT a FROM (SELECT a FROM t ORDER BY a) s")
    (True, False)
    """
    outside, inner = "", re.sub("'[^']*'", "''", text)
    while outside != inner:
        outside, inner = inner, re.sub(r"\([^()]*\)", "", inner)
    return re.search(r"\bORDER\s+BY\b", outside, re.IGNORECASE) is not None


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, in any order; floats may differ in their last digits.

    >>> same_rows(pa.table({"a": [1, 2], "b": [0.1 + 0.2, None]}), pa.table({"a": [2, 1], "b": [None, 0.3]}))
    True
    >>> same_rows(pa.table({"a": [1, 1]}), pa.table({"a": [1, 2]}))
    False
    """
    if one.num_columns != other.num_columns or one.num_rows != other.num_rows:
        return False
    ours, theirs = _by_exact(one), _by_exact(other)
    if Counter({k: len(v) for k, v in ours.items()}) != Counter({k: len(v) for k, v in theirs.items()}):
        return False
    return all(
        _near(a, b)
        for exact, some in ours.items()
        for a, b in zip(sorted(some), sorted(theirs[exact]), strict=True)
    )


def _by_exact(table: pa.Table) -> dict[Any, list[tuple[float, ...]]]:
    """The floats of each row, by the rest of it."""
    found: dict[Any, list[tuple[float, ...]]] = defaultdict(list)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        exact = tuple("float" if isinstance(v, float) else v for v in row)
        found[exact].append(tuple(v for v in row if isinstance(v, float)))
    return found


def _near(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or a == b or (a != a and b != b)
        for a, b in zip(one, other, strict=True)
    )
