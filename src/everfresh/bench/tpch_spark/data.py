"""The files of a run: TPC-H tables without the rows that are held back, and these as batches.

A batch has the same share of every table that changes: an order comes with its lineitems. In each round and
for each share there are two batches, `come` and `next`. *Inserts* are the rows of `come`; *inserts with
deletes* are the rows of `next`, while those of `come` go; `next` goes before the round after it, so every
round starts from the same tables. Invariant: no row is in two files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.datasets import tpch
from everfresh.datasets.cache import plain

_ROW_GROUP = 1 << 18
INSERTS, MIXED = "inserts", "inserts with deletes"


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a run are."""

    folder: Path
    shares: tuple[float, ...]
    rounds: int

    def base(self, table: str) -> Path:
        """The rows of a table that are loaded."""
        return self.folder / "base" / f"{table}.parquet"

    def piece(self, table: str, share: float, turn: int, which: str) -> Path:
        """The rows of a table in one batch."""
        return self.folder / f"{share:g}-{turn}-{which}" / f"{table}.parquet"

    def pieces(self, table: str) -> list[Path]:
        """The rows of a table in all batches, a file each."""
        found = (self.piece(table, *which) for which in _batches(self.shares, self.rounds))
        return [file for file in found if file.exists()]

    def loaded(self, tables: list[str]) -> dict[str, str]:
        """What a database is loaded with."""
        return {table: str(self.base(table)) for table in tables}

    def inserts(self, tables: list[str], share: float, turn: int, which: str = "come") -> dict[str, str]:
        """A batch that inserts."""
        return {t: str(file) for t in tables if (file := self.piece(t, share, turn, which)).exists()}

    def kinds(self, tables: list[str], share: float, turn: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """The two batches of a round, by kind."""
        import everfresh as ef

        come, after = (self.inserts(tables, share, turn, which) for which in ("come", "next"))
        yield INSERTS, come
        yield MIXED, {t: ef.Delta(inserts=after[t], deletes=come[t]) for t in come}

    def undo(self, tables: list[str], share: float, turn: int) -> dict[str, Any]:
        """What brings the tables back to where the round began."""
        import everfresh as ef

        return {t: ef.Delta(deletes=file) for t, file in self.inserts(tables, share, turn, "next").items()}

    def after(self, table: str) -> list[str]:
        """The files of a table after the largest batch that inserts."""
        last = self.piece(table, max(self.shares), 0, "come")
        return [str(self.base(table)), *([str(last)] if last.exists() else [])]

    def rows(self, batch: dict[str, Any]) -> int:
        """How many rows a batch has."""
        files = [f for b in batch.values() for f in ([b] if isinstance(b, str) else [b.inserts, b.deletes])]
        return sum(pq.read_metadata(f).num_rows for f in files if f is not None)


def prepared(folder: Path, sf: float, shares: tuple[float, ...], rounds: int) -> Files:
    """The files, written unless they are there."""
    files = Files(folder / f"tpch-{sf:g}-{rounds}-{'-'.join(f'{s:g}' for s in shares)}", shares, rounds)
    done = files.folder / "done"
    if not done.exists():
        generated = tpch.generate(sf)
        orders = None
        for table in tpch.TABLES:
            rows = plain(pq.read_table(generated[table]))
            if table == "lineitem":
                assert orders is not None
                keys = rows["l_orderkey"].to_numpy()
                marks = orders[1][np.searchsorted(orders[0], keys)]
            else:
                marks = _marks(rows.num_rows, table, shares, rounds)
            if table == "orders":
                found = rows["o_orderkey"].to_numpy()
                order = np.argsort(found)
                orders = found[order], marks[order]
            _write(files, table, rows, marks)
        done.touch()
    return files


def _batches(shares: tuple[float, ...], rounds: int) -> Iterator[tuple[float, int, str]]:
    return ((s, r, which) for s in shares for r in range(rounds) for which in ("come", "next"))


def _marks(rows: int, table: str, shares: tuple[float, ...], rounds: int) -> Any:
    """For each row the number of its batch, or 0 for those that are loaded."""
    marks = np.zeros(rows, np.int32)
    if table in tpch.FIXED:
        return marks
    order, start, both = np.random.default_rng(rows).permutation(rows), 0, True
    for number, (share, _, which) in enumerate(_batches(shares, rounds), 1):
        count = max(1, round(rows * share / 100))
        if which == "come":  # a table with very few rows keeps half of them, and is in some batches only
            both = start + 2 * count <= rows // 2
        if not both:
            continue
        marks[order[start : start + count]] = number
        start += count
    return marks


def _write(files: Files, table: str, rows: pa.Table, marks: Any) -> None:
    for number, path in [(0, files.base(table))] + [
        (n, files.piece(table, *which)) for n, which in enumerate(_batches(files.shares, files.rounds), 1)
    ]:
        index = np.flatnonzero(marks == number)
        if len(index):
            path.parent.mkdir(parents=True, exist_ok=True)
            # as Spark writes them: decimals as integers
            pq.write_table(
                rows.take(pa.array(index)), path, row_group_size=_ROW_GROUP, store_decimal_as_integer=True
            )
