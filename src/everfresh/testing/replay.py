"""Runs a history on a database and judges it after every batch.

After each batch: every table and view equals DuckDB's answer, and old rows + `changes()` = new rows. At the
end: `verify()` finds nothing, and the reference evaluator (`everfresh.calculus.evaluate`) over the mirrored
tables agrees. Half of the views are created while the tables are empty, the others over what is there
half-way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from everfresh.database import Database
from everfresh.delta.bags import EPOCH, expand, net, weigh
from everfresh.delta.changes import Delta
from everfresh.local.recompute import recompute, relation
from everfresh.testing.histories import Change, History, net_of
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import TableSchema, to_arrow


class Difference(AssertionError):
    """A history that does not give what it should, with where it first showed."""


def run_history(
    db: Database,
    oracle: DuckOracle,
    history: History,
    batch_size: int | None = 7,
    *,
    by_key: bool = False,
    reopen: Callable[[], Database] | None = None,
) -> None:
    """Feed the changes in batches of `batch_size` (0: all at once, None: as they were made) and compare
    after each.

    With `by_key`, rows of tables with a primary key are deleted by it and changed by `updates`. `reopen`, if
    given, closes the database and opens it again after every third batch. The tables are dropped in the end.
    """
    runner = _Runner(db, oracle, history, by_key, reopen)
    try:
        runner.run(list(history.cut(batch_size)))
    finally:
        runner.clean()


class _Runner:
    def __init__(
        self,
        db: Database,
        oracle: DuckOracle,
        history: History,
        by_key: bool,
        reopen: Callable[[], Database] | None,
    ) -> None:
        self.db = db
        self.oracle = oracle
        self.schemas = {schema.name: schema for schema in history.schemas}
        self.early = history.views[::2]
        self.late = history.views[1::2]
        self.by_key = by_key
        self.reopen = reopen
        self.queries: dict[str, str] = {}
        self.rows: dict[str, pa.Table] = {}

    def run(self, batches: list[tuple[Change, ...]]) -> None:
        for schema in self.schemas.values():
            self.db.sql(schema.ddl)
            self.oracle.create(schema)
        self.create(self.early)
        half = (len(batches) + 1) // 2
        for number, batch in enumerate(batches):
            self.step(number, batch)
            if number + 1 == half:
                self.create(self.late)
            if self.reopen is not None and number % 3 == 2:
                self.db = self.reopen()
                for name in self.queries:
                    self.check(name, f"opened again after batch {number}")
        if not batches:
            self.create(self.late)
        self.finish()

    def create(self, views: tuple[tuple[str, str], ...]) -> None:
        for name, query in views:
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.queries[name] = query
            self.rows[name] = self.check(name, "when it was created")

    def step(self, number: int, batch: tuple[Change, ...]) -> None:
        before = self.db.epoch
        given = {}
        for table in dict.fromkeys(change.table for change in batch):
            changes = [change for change in batch if change.table == table]
            given[table] = as_delta(self.schemas[table], changes, self.by_key)
            rows = [[c.row for c in changes if c.weight == weight] for weight in (1, -1)]
            self.oracle.apply(table, inserts=rows[0], deletes=rows[1])
        epoch = self.db.apply(given)
        if epoch != before + 1:
            raise Difference(f"batch {number} committed epoch {epoch} after {before}")
        for name in self.schemas:
            self.same(
                self.oracle.table(name), self.db.table(name).to_arrow(), f"table {name} after batch {number}"
            )
        for name in self.queries:
            new = self.check(name, f"after batch {number}")
            change = self.db.view(name).changes(since=before).drop_columns([EPOCH])
            old = weigh(self.rows[name])
            sum_ = expand(net(pa.concat_tables([old, change.cast(old.schema)])))
            self.same(
                new,
                sum_,
                f"old rows + changes() of {name}, {self.queries[name]}, batch {number}",
                tolerance=0,
            )
            self.rows[name] = new

    def check(self, name: str, when: str) -> pa.Table:
        actual = self.db.view(name).to_arrow()
        self.same(
            self.oracle.query(self.queries[name]), actual, f"view {name}, {self.queries[name]}, {when},"
        )
        return actual

    def finish(self) -> None:
        gmrs = {}
        for name, schema in self.schemas.items():
            counts = self.oracle.rows[name]
            distinct = [
                pa.array([row[i] for row in counts], to_arrow(c.type)) for i, c in enumerate(schema.columns)
            ]
            gmrs[name] = relation(
                schema, pa.Table.from_arrays(distinct, schema=schema.arrow), list(counts.values())
            )
        for name, query in self.queries.items():
            found = self.db.view(name).verify()
            if found.num_rows:
                raise Difference(f"verify() of {name}, {query}, finds {found.to_pylist()}")
            compiled = self.db.catalog.views[name].compiled
            expected = expand(recompute(compiled, {t: gmrs[t] for t in compiled.bases}))
            self.same(expected, self.rows[name], f"the reference evaluator and {name}, {query}, in the end,")

    def same(self, expected: pa.Table, actual: pa.Table, what: str, tolerance: float = 1e-9) -> None:
        try:
            assert_same(expected, actual, what, tolerance)
        except AssertionError as error:
            raise Difference(str(error)) from None

    def clean(self) -> None:
        for name in self.schemas:
            self.db.sql(f"DROP TABLE IF EXISTS {name} CASCADE")
            if name in self.oracle.tables:
                self.oracle.drop(name)


def as_delta(schema: TableSchema, changes: list[Change], by_key: bool = False) -> Delta:
    """A batch's changes of one table as a user would write them: one by one, or net by primary key."""
    if not by_key or not schema.key:
        return Delta(
            inserts=[c.row for c in changes if c.weight > 0], deletes=[c.row for c in changes if c.weight < 0]
        )
    at = [schema.names.index(name) for name in schema.key]
    weights = net_of(changes).get(schema.name, Counter())
    old = {tuple(row[i] for i in at): row for row, n in weights.items() if n < 0}
    new = {tuple(row[i] for i in at): row for row, n in weights.items() if n > 0}
    updates: list[dict[str, Any]] = [
        dict(zip(schema.names, row, strict=True)) for key, row in new.items() if key in old
    ]
    return Delta(
        inserts=[row for key, row in new.items() if key not in old],
        deletes=[dict(zip(schema.key, key, strict=True)) for key in old if key not in new],
        updates=updates or None,
    )
