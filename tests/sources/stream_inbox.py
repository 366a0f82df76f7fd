"""A folder that gets the files of a random history, for tests of streams."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import everfresh as ef
from everfresh.testing.engine.suite_feeds import History, feed
from everfresh.testing.oracle import assert_rows

FLAT = """
CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x INTEGER NOT NULL);
CREATE TABLE u (x BIGINT);
CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g;
"""
"""Three epochs."""

JOIN = "CREATE MATERIALIZED VIEW w AS SELECT g, COUNT(*) AS n FROM t JOIN u ON t.x = u.x GROUP BY g;"


class Inbox:
    """A folder that gets the files of a history, one after the other."""

    def __init__(self, folder: Path, seed: int = 5) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.history = History(seed)
        self.count = 0

    def put(self, text: str | None = None, suffix: str | None = None) -> Path:
        """The next file: some changes of the history, or this text."""
        suffix = "csv" if text is not None else suffix or ("csv" if self.count % 2 else "parquet")
        path = self.folder / f"{self.count:03d}.{suffix}"
        hidden = path.with_name(f".{path.name}")
        if text is not None:
            hidden.write_text(text)
        else:
            rows = feed(*self.history.changes(4)).drop_columns(["_commit_timestamp"])
            if suffix == "csv":
                pa.csv.write_csv(rows, hidden)
            else:
                pa.parquet.write_table(rows, hidden)
        os.utime(hidden, (1000 + self.count, 1000 + self.count))
        hidden.rename(path)
        self.count += 1
        return path

    def check(self, db: ef.Database) -> None:
        """The table has the rows of the history, and the view is right."""
        assert_rows(db.table("t"), *((k, g, x) for k, (g, x) in self.history.rows.items()))
        for view in db.views.values():
            assert view.verify().num_rows == 0, view.name
