"""Change feeds: rows with a column `_change_type`, in every form, have the net effect of their history."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from everfresh import Code, Delta
from everfresh.database import Database
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import assert_rows

TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x INTEGER NOT NULL)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g"
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("g", pa.string()),
        ("x", pa.int32()),
        ("_change_type", pa.string()),
        ("_commit_version", pa.int64()),
        ("_commit_timestamp", pa.timestamp("us", "UTC")),
    ]
)
Row = tuple[str | None, int]


def feed(*changes: tuple[Any, ...]) -> pa.Table:
    """Changes `(k, g, x, _change_type, _commit_version)` as Arrow."""
    columns = list(zip(*changes, strict=True)) if changes else [()] * 5
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip([*columns, [None] * len(changes)], SCHEMA, strict=True)],
        schema=SCHEMA,
    )


FEED = feed(
    (1, "a", 1, "insert", 7),
    (2, "a", 2, "insert", 7),
    (1, "a", 1, "update_preimage", 8),
    (1, "b", 1, "update_postimage", 8),
    (2, "a", 2, "delete", 9),
    (3, None, 3, "insert", 9),
)
"""A history of three versions: rows 1 and 3 are left."""


def _polars(table: pa.Table) -> Any:
    import polars

    return polars.from_arrow(table)


def _written(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return path


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "Arrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "Polars": lambda table, _: _polars(table),
    "dicts": lambda table, _: table.to_pylist(),
    "columns": lambda table, _: table.to_pydict(),
    "Parquet": lambda table, folder: _written(folder / "feed.parquet", table),
    "CSV": lambda table, folder: _written(folder / "feed.csv", table),
}


class History:
    """A random history of a keyed table as a feed, and the rows after it."""

    def __init__(self, seed: int, keys: int = 6) -> None:
        self.rows: dict[int, Row] = {}
        self._rng = Random(seed)
        self._keys = keys
        self._version = 0

    def _row(self) -> Row:
        return self._rng.choice(["a", "b", None]), self._rng.randint(-3, 3)

    def changes(self, count: int, preimages: bool = True) -> list[tuple[Any, ...]]:
        """`count` further changes, in another order than they happened; without preimages deletes have only
        the key."""
        found: list[tuple[Any, ...]] = []
        for _ in range(count):
            self._version += 1
            key = self._rng.randrange(self._keys)
            old = self.rows.get(key)
            if old is None:
                self.rows[key] = self._row()
                found.append((key, *self.rows[key], "insert", self._version))
            elif self._rng.random() < 0.3:
                del self.rows[key]
                found.append((key, *(old if preimages else (None, None)), "delete", self._version))
            else:
                # Sometimes the update gives the row another key.
                to = self._rng.randrange(self._keys) if preimages and self._rng.random() < 0.2 else key
                if to in self.rows and to != key:
                    to = key
                del self.rows[key]
                self.rows[to] = self._row()
                if preimages:
                    found.append((key, *old, "update_preimage", self._version))
                found.append((to, *self.rows[to], "update_postimage", self._version))
        self._rng.shuffle(found)
        return found


class FeedSuite(SuiteBase):
    """What a feed does."""

    feed_batches = 12
    """Batches of a random history."""

    feed_forms: Sequence[str] = tuple(FORMS)
    """The forms in which a feed is given."""

    @pytest.fixture
    def feeds(self, db: Database) -> Database:
        """A table with a primary key and a view of it."""
        db.sql(f"{TABLE}; {VIEW}")
        return db

    def test_a_feed_in_every_form(self, feeds: Database, tmp_path: Path) -> None:
        for kind in self.feed_forms:
            feeds.apply(t=FORMS[kind](FEED, tmp_path))
            assert_rows(feeds.table("t"), (1, "b", 1), (3, None, 3))
            assert_rows(feeds.view("v"), ("b", 1, 1), (None, 1, 3))
            feeds.apply(t=feed((1, None, None, "delete", 1), (3, None, 3, "delete", 1)))
            assert len(feeds.table("t")) == 0, kind
        path = _written(tmp_path / "copied.csv", FEED)
        feeds.sql(f"COPY t FROM '{path}'")
        assert_rows(feeds.table("t"), (1, "b", 1), (3, None, 3))

    @pytest.mark.parametrize("preimages", [True, False])
    def test_random_histories(self, feeds: Database, preimages: bool) -> None:
        history = History(17)
        for number in range(self.feed_batches):
            feeds.apply(t=feed(*history.changes(1 + number % 7, preimages)))
            assert_rows(feeds.table("t"), *((k, g, x) for k, (g, x) in history.rows.items()))
        assert feeds.view("v").verify().num_rows == 0

    def test_a_feed_of_a_bag(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE b (g VARCHAR, x INTEGER); CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS x FROM b"
        )
        db.apply(
            b=[
                {"g": "a", "x": 1, "_change_type": "insert"},
                {"g": "a", "x": 1, "_change_type": "insert"},
                {"g": "a", "x": 1, "_change_type": "update_preimage"},
                {"g": "a", "x": 5, "_change_type": "update_postimage"},
            ]
        )
        assert_rows(db.table("b"), ("a", 1), ("a", 5))
        db.apply(b=[{"g": "a", "x": 1, "_change_type": "delete"}])
        assert_rows(db.view("s"), (5,))
        epoch = db.epoch
        with refused(Code.ARGUMENT, "update_preimage", "no primary key"):
            db.apply(b=[{"g": "a", "x": 6, "_change_type": "update_postimage"}])
        with refused(Code.MISSING_ROW):
            db.apply(b=[{"g": "z", "x": 6, "_change_type": "delete"}])
        assert db.epoch == epoch

    def test_a_feed_beside_other_changes(self, feeds: Database) -> None:
        feeds.sql("CREATE TABLE u (k BIGINT PRIMARY KEY)")
        feeds.apply({"t": FEED, "u": [(1,)]})
        feeds.apply(t=Delta(deletes=[(1,)]), u=[{"k": 1, "_change_type": "delete"}])
        assert_rows(feeds.table("t"), (3, None, 3))
        assert len(feeds.table("u")) == 0

    def test_feeds_that_are_refused(self, feeds: Database) -> None:
        feeds.apply(t=FEED)
        epoch = feeds.epoch
        bad: list[tuple[str, Any, tuple[str, ...]]] = [
            (Code.VALUE, feed((5, "a", 1, "insert", 1), (6, "a", 1, "upsert", 1)), ("upsert", "row 1")),
            (Code.NULL, feed((5, "a", 1, None, 1)), ("_change_type", "row 0")),
            (Code.NULL, feed((5, "a", 1, "insert", None)), ("_commit_version",)),
            (Code.NULL, feed((5, "a", None, "insert", 1)), ("'x'", "row 0")),
            (Code.DUPLICATE_KEY, feed((1, "a", 1, "insert", 1)), ("k=1", "changes")),
            (Code.MISSING_ROW, feed((9, None, None, "delete", 1)), ("k=9",)),
            (Code.MISSING_ROW, feed((1, "b", 7, "delete", 1)), ("x = 7",)),
            (
                Code.MISSING_ROW,
                feed((1, "z", 1, "update_preimage", 1), (1, "b", 2, "update_postimage", 1)),
                (),
            ),
            (
                Code.DUPLICATE_KEY,
                feed((1, "y", 1, "update_postimage", 1), (1, "z", 2, "update_postimage", 1)),
                ("twice", "_commit_version"),
            ),
            (Code.ARGUMENT, [{"k": 1, "g": "c", "_change_type": "update_postimage"}], ("'x'",)),
            (
                Code.ARGUMENT,
                [
                    {"k": 1, "g": "c", "_change_type": "update_postimage"},
                    {"k": 5, "g": "c", "x": 1, "_change_type": "insert"},
                ],
                ("row 0", "'x'"),
            ),
            (Code.ARGUMENT, Delta(deletes=[{"k": 1, "_change_type": "delete"}]), ("_change_type",)),
            (Code.NOT_FOUND, [{"k": 5, "x": 1, "_commit_version": 4}], ("_commit_version",)),
        ]
        for code, rows, texts in bad:
            with refused(code, *texts):
                feeds.apply(t=rows)
        assert feeds.epoch == epoch
        assert_rows(feeds.table("t"), (1, "b", 1), (3, None, 3))

    def test_a_table_with_a_column_of_that_name(self, db: Database) -> None:
        db.sql("CREATE TABLE c (k BIGINT PRIMARY KEY, _change_type VARCHAR)")
        db.apply(c=[{"k": 1, "_change_type": "delete"}, {"k": 2, "_change_type": "anything"}])
        assert_rows(db.table("c"), (1, "delete"), (2, "anything"))
        db.sql("CREATE TABLE d (k BIGINT PRIMARY KEY, _commit_version BIGINT)")
        db.apply(d=[{"k": 1, "_commit_version": 5, "_change_type": "insert"}])
        db.apply(d=[{"k": 1, "_commit_version": 6, "_change_type": "update_postimage"}])
        assert_rows(db.table("d"), (1, 6))
