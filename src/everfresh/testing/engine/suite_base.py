"""What the subjects of the suite share: how to connect, a fresh database, and how a refusal is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from everfresh.database import Database
from everfresh.errors import EverfreshError
from everfresh.options import Options
from everfresh.relations import Result
from everfresh.testing.oracle import assert_same

ITEMS = "CREATE TABLE items (id BIGINT PRIMARY KEY, name VARCHAR, qty INTEGER, price DECIMAL(9,2))"
TOTALS = """CREATE MATERIALIZED VIEW totals AS
    SELECT name, COUNT(*) AS n, SUM(qty) AS q, AVG(price) AS p FROM items GROUP BY name"""
CHEAP = "CREATE MATERIALIZED VIEW cheap AS SELECT id, price * 2 AS twice FROM items WHERE price < 5"
ROWS = [(1, "ink", 2, "4.50"), (2, "ink", 3, "5.50"), (3, "pen", None, "1.25"), (4, None, 7, None)]


class SuiteBase:
    """A subclass says how to connect; slow engines set the numbers lower."""

    single_changes = 3
    """Random histories that are fed one change at a time."""

    histories = 8
    """Random histories for each other way to cut them into batches."""

    history_size = 60
    """Single changes in a random history."""

    history_views = 6
    """Views in a random history."""

    passing_tables = True
    """Whether tables can be without rows of their own (`retain = false`)."""

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> Database:
        """A database of the engine under test; `kwargs` are those of `everfresh.connect`."""
        raise NotImplementedError

    def options(self, **changes: Any) -> Options:
        """The options of the engine under test, with some changed."""
        return Options().with_(**changes)

    @pytest.fixture
    def db(self) -> Iterator[Database]:
        """An empty database that nothing else uses."""
        with self.connect() as db:
            yield db

    @pytest.fixture
    def shop(self, db: Database) -> Database:
        """A database with the table `items` of four rows, and the views `totals` and `cheap`. Epoch 4."""
        return fill_shop(db)


def fill_shop(db: Database) -> Database:
    """Four epochs: a table, two views, a batch."""
    db.sql(f"{ITEMS}; {TOTALS}; {CHEAP}")
    db.apply(items=ROWS)
    return db


@contextmanager
def refused(code: str, *texts: str) -> Iterator[None]:
    """Expect an `EverfreshError` of this code whose text holds all `texts`, regardless of case."""
    with pytest.raises(EverfreshError) as caught:
        yield
    error = caught.value
    assert error.code == code, f"code is {error.code!r}, expected {code!r}: {error}"
    for text in texts:
        assert text.lower() in str(error).lower(), f"{text!r} is not in: {error}"


def answer(db: Database, text: str) -> list[dict[str, Any]]:
    """The rows that a statement gives."""
    found = db.sql(text)
    assert isinstance(found, Result)
    return found.to_pylist()


State = tuple[int, dict[str, pa.Table]]


def state_of(db: Database) -> State:
    """The epoch and the rows of every table and view."""
    relations: dict[str, Any] = {**db.tables, **db.views}
    return db.epoch, {name: relation.to_arrow() for name, relation in relations.items()}


def assert_state(db: Database, expected: State) -> None:
    """Fail unless the database is exactly as it was."""
    epoch, relations = state_of(db)
    assert epoch == expected[0]
    assert set(relations) == set(expected[1])
    for name, rows in expected[1].items():
        assert_same(rows, relations[name], f"'{name}'", tolerance=0)
