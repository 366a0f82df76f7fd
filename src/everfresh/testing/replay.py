"""Runs a history on a database and judges it after every batch.

After each batch: every table and view equals DuckDB's answer, and old rows + `changes()` = new rows. At the
end: `verify()` finds nothing, and the reference evaluator (`everfresh.calculus.evaluate`) over the mirrored
tables agrees, for a view that the calculus defines. Half of the views are created while the tables are empty,
the others over what is there half-way.

An error is agreed on if both sides name the same cause; a history ends there, and a batch that was refused
has changed nothing. A view that DuckDB does not bind is left out, and counted.

Overflow has one meaning, but who computes what is free: a view computes an expression over one table also for
rows that a join leaves out, DuckDB one for rows that a condition leaves out. So if only one side refuses a
batch for that, everfresh's own SELECT decides: it must give what the view has, if the batch was taken. So
with scalar subqueries of several rows, where DuckDB may ask for values that nobody reads; if everfresh alone
refuses, views that are re-evaluated over the same rows must be refused, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.database import Database, connect
from everfresh.delta.bags import EPOCH, expand, net, weigh
from everfresh.delta.changes import Delta
from everfresh.errors import Code, EverfreshError
from everfresh.local.batch.recompute import recompute, relation
from everfresh.relations import Result
from everfresh.sql.logical.subqueries import SEVERAL
from everfresh.testing.histories import Change, History, net_of
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import TableSchema, quoted, to_arrow

DEVIATION = "dev"
"""The column whose values are deviations or variances: near zero they are compared absolutely."""
_SHIFT = 1e3  # a relative tolerance of 1e-9 of values moved by this is an absolute one of 1e-6

OURS, THEIRS = "refused by everfresh only", "refused by DuckDB only"
_CAUSES = {
    "Out of Range Error": Code.OVERFLOW,
    "Overflow": Code.OVERFLOW,
    "division by zero": Code.DIVISION_BY_ZERO,
    "Conversion Error": Code.VALUE,
    "More than one row": Code.VALUE,
}
"""What DuckDB says, and the code that everfresh has for it."""
_FREE = ("Out of Range Error", "Overflow", "More than one row")
"""Of which it is free who asks."""


class Difference(AssertionError):
    """A history that does not give what it should, with where it first showed."""


class _Agreed(Exception):
    """Both sides refuse a batch or a view for the same reason."""


@dataclass
class Report:
    """What a run was."""

    views: int = 0
    """Views that were compared."""
    refused: int = 0
    """Views that DuckDB does not have."""
    comparisons: int = 0
    rows: int = 0
    """Rows that views had when they were compared."""
    agreed: str = ""
    """The error that both sides ended with; or who alone refused a number that is too large."""
    reevaluated: Counter[str] = field(default_factory=Counter)
    """Views that are not maintained incrementally, by the reason."""

    def add(self, other: Report) -> None:
        """Count another run in."""
        self.views += other.views
        self.refused += other.refused
        self.comparisons += other.comparisons
        self.rows += other.rows
        self.reevaluated += other.reevaluated


def run_history(
    db: Database,
    oracle: DuckOracle,
    history: History,
    batch_size: int | None = 7,
    *,
    by_key: bool = False,
    reopen: Callable[[], Database] | None = None,
    check_state: Callable[[Database], None] | None = None,
    strategy: Callable[[str], str] | None = None,
) -> Report:
    """Feed the changes in batches of `batch_size` (0: all at once, None: as they were made) and compare
    after each.

    With `by_key`, rows of tables with a primary key are deleted by it and changed by `updates`. `reopen`, if
    given, closes the database and opens it again after every third batch. `check_state`, if given, is called
    after every batch, and raises if what the database keeps beside its views is wrong. `strategy`, if given,
    says for each view how to maintain it; a view for which that way is not available is maintained as
    everfresh chooses. The tables are dropped in the end.
    """
    runner = _Runner(db, oracle, history, by_key, reopen, check_state, strategy)
    try:
        runner.run(list(history.cut(batch_size)))
    except _Agreed as cause:
        runner.report.agreed = str(cause)
    finally:
        runner.clean()
    return runner.report


class _Runner:
    def __init__(
        self,
        db: Database,
        oracle: DuckOracle,
        history: History,
        by_key: bool,
        reopen: Callable[[], Database] | None,
        check_state: Callable[[Database], None] | None,
        strategy: Callable[[str], str] | None = None,
    ) -> None:
        self.db = db
        self.oracle = oracle
        self.schemas = {schema.name: schema for schema in history.schemas}
        half = (len(history.views) + 1) // 2  # a view reads views before it
        self.early = history.views[:half]
        self.late = history.views[half:]
        self.by_key = by_key
        self.reopen = reopen
        self.check_state = check_state
        self.strategy = strategy
        self.report = Report()
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
        import duckdb

        for name, query in views:
            try:
                self.oracle.create_view(name, query)
            except duckdb.Error:
                self.report.refused += 1
                continue
            self.queries[name] = query
            try:
                self.create_view(name, query)
            except EverfreshError as error:
                self.both_refuse(error, f"creating {name}, {query},")
            self.report.views += 1
            compiled = self.db.catalog.views[name].compiled
            if compiled.reevaluated:
                self.report.reevaluated[compiled.program.triggers[0].statements[0].reason] += 1
            self.rows[name] = self.check(name, "when it was created")

    def create_view(self, name: str, query: str) -> None:
        strategy = "auto" if self.strategy is None else self.strategy(name)
        try:
            self.db.sql(f"CREATE MATERIALIZED VIEW {quoted(name)} WITH (strategy = '{strategy}') AS {query}")
        except EverfreshError as error:
            if strategy == "auto" or error.code != Code.UNSUPPORTED:
                raise
            self.db.sql(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}")

    def both_refuse(self, error: EverfreshError, what: str) -> None:
        """Raise `_Agreed` if DuckDB refuses a view for the same reason, else `Difference`."""
        import duckdb

        for query in self.queries.values():
            try:
                self.oracle.query(query)
            except duckdb.Error as theirs:
                if any(text in str(theirs) and error.code == code for text, code in _CAUSES.items()):
                    raise _Agreed(error.code) from error
        if error.code == Code.OVERFLOW or (error.message == SEVERAL and self.several()):
            raise _Agreed(OURS) from error
        raise Difference(f"{what} is refused by everfresh only: {error}") from error

    def several(self) -> bool:
        """Whether views that are re-evaluated, over the rows as DuckDB has them, ask for several rows of a
        scalar subquery."""
        with connect(engine="local") as db:
            for schema in self.schemas.values():
                db.sql(schema.ddl)
            db.apply({name: [*counts.elements()] for name, counts in self.oracle.rows.items()})
            try:
                for name, query in self.queries.items():
                    db.sql(
                        f"CREATE MATERIALIZED VIEW {quoted(name)} WITH (strategy = 're-evaluate') AS {query}"
                    )
            except EverfreshError as error:
                return error.message == SEVERAL
        return False

    def step(self, number: int, batch: tuple[Change, ...]) -> None:
        before = self.db.epoch
        given = {}
        for table in dict.fromkeys(change.table for change in batch):
            changes = [change for change in batch if change.table == table]
            given[table] = as_delta(self.schemas[table], changes, self.by_key)
            rows = [[c.row for c in changes if c.weight == weight] for weight in (1, -1)]
            self.oracle.apply(table, inserts=rows[0], deletes=rows[1])
        try:
            epoch = self.db.apply(given)
        except EverfreshError as error:
            self.unchanged(before, number)
            self.both_refuse(error, f"batch {number}")
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
        if self.check_state is not None:
            try:
                self.check_state(self.db)
            except AssertionError as problem:
                raise Difference(f"the state after batch {number}: {problem}") from problem

    def check(self, name: str, when: str) -> pa.Table:
        import duckdb

        actual = self.db.view(name).to_arrow()
        what = f"view {name}, {self.queries[name]}, {when},"
        try:
            expected = self.oracle.query(self.queries[name])
        except duckdb.Error as error:
            if not any(t in str(error) and t in _FREE for t in _CAUSES):
                raise Difference(f"{what} is refused by DuckDB only: {error}") from error
            self.selected(name, actual, f"{what} of which DuckDB says {error},")
            raise _Agreed(THEIRS) from error
        self.same(_shifted(expected), _shifted(actual), what)
        self.report.comparisons += 1
        self.report.rows += actual.num_rows
        return actual

    def selected(self, name: str, actual: pa.Table, what: str) -> None:
        """A batch was taken that DuckDB refuses: SELECT and `verify` say that it can be."""
        try:
            found = self.db.sql(self.queries[name])
            wrong = self.db.view(name).verify().num_rows
        except EverfreshError as error:
            raise Difference(f"{what} is refused by SELECT, too: {error}") from error
        assert isinstance(found, Result)
        self.same(_shifted(found.to_arrow()), _shifted(actual), f"SELECT and {what}")
        if wrong:
            raise Difference(f"verify() of {what} finds {wrong} rows")

    def unchanged(self, epoch: int, number: int) -> None:
        """A batch that was refused has left everything as it was."""
        if self.db.epoch != epoch:
            raise Difference(f"batch {number} is refused, and committed epoch {self.db.epoch}")
        for name, rows in self.rows.items():
            self.same(rows, self.db.view(name).to_arrow(), f"{name} after the refused batch {number}")

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
            derived = bool(compiled.program.relations or compiled.view.sides)
            if compiled.reevaluated or derived or not set(compiled.bases) <= set(gmrs):
                continue
            expected = expand(recompute(compiled, {t: gmrs[t] for t in compiled.bases}))
            self.same(expected, self.rows[name], f"the reference evaluator and {name}, {query}, in the end,")

    def same(self, expected: pa.Table, actual: pa.Table, what: str, tolerance: float = 1e-9) -> None:
        try:
            assert_same(expected, actual, what, tolerance)
        except AssertionError as error:
            raise Difference(str(error)) from None

    def clean(self) -> None:
        self.oracle.drop_views()
        for name in self.schemas:
            self.db.sql(f"DROP TABLE IF EXISTS {quoted(name)} CASCADE")
            if name in self.oracle.tables:
                self.oracle.drop(name)


def _shifted(rows: pa.Table) -> pa.Table:
    """The rows with their deviations moved away from zero."""
    if DEVIATION not in rows.column_names:
        return rows
    place = rows.column_names.index(DEVIATION)
    return rows.set_column(place, DEVIATION, pc.add(rows.column(DEVIATION), _SHIFT))


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
