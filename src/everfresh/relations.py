"""What a user reads: tables, views and query results, all offered as Arrow, pandas, Polars, Spark, and to
look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.delta import render, render_html
from everfresh.delta.sound import unreadable
from everfresh.errors import Code, EverfreshError
from everfresh.types import Column

if TYPE_CHECKING:
    import pandas
    import polars
    from pyspark.sql import DataFrame

    from everfresh.database import Database


class Readable:
    """Rows that can be read in every form."""

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame. DECIMAL stays Decimal, DATE stays date."""
        return _as_python(self.to_arrow(), pa.Table.to_pandas)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise EverfreshError(
                Code.ENVIRONMENT, "Polars is not installed", hint="pip install 'everfresh[polars]'"
            ) from None
        return polars.from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as a list of dicts."""
        rows: list[dict[str, Any]] = _as_python(self.to_arrow(), pa.Table.to_pylist)
        return rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        return render(self.to_arrow())

    def _repr_html_(self) -> str:
        return render_html(self.to_arrow())


def _as_python(table: pa.Table, convert: Callable[[pa.Table], Any]) -> Any:
    """The rows as Python has them; an error if it has them not."""
    try:
        return convert(table)
    except (ValueError, OverflowError) as problem:
        raise unreadable(table) or problem from problem


class Result(Readable):
    """The result of a SELECT."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._table = rows if isinstance(rows, pa.Table) else None

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        if self._table is None:
            self._table = self._rows.fetch()
        return self._table

    def to_spark(self) -> DataFrame:
        """The result as a Spark DataFrame, on the Spark engine."""
        if isinstance(self._rows, pa.Table):
            raise EverfreshError(
                Code.UNSUPPORTED,
                "the local engine has no Spark session",
                hint="use to_arrow() and spark.createDataFrame(table)",
            )
        return self._rows.frame


class _Named(Readable):
    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.name = name

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return self._read(None)

    def _read(self, at: int | None) -> pa.Table:
        with self._db._reading() as engine:
            self._check(engine.catalog)
            return engine.read(self.name, at)

    def to_spark(self) -> DataFrame:
        """The rows as a Spark DataFrame that reads the partitioned state where it is."""
        with self._db._lock:
            engine = self._db._open()
            self._check(engine.catalog)
            return engine.to_spark(self.name)

    def _check(self, catalog: Any) -> None:
        raise NotImplementedError


class Table(_Named):
    """A base table."""

    def _check(self, catalog: Any) -> None:
        catalog.expect_table(self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, with their types."""
        return self._db.catalog.expect_table(self.name).columns

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key; empty if there is none."""
        return self._db.catalog.expect_table(self.name).key


class View(_Named):
    """A materialized view: always equal to its query over the base tables."""

    def _check(self, catalog: Any) -> None:
        catalog.expect_view(self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, with their types."""
        return self._db.catalog.expect_view(self.name).columns

    def to_arrow(self, at: int | None = None) -> pa.Table:
        """The rows as a pyarrow Table, now or as of the epoch `at`."""
        return self._read(at)

    def to_spark(self, at: int | None = None) -> DataFrame:
        """The rows as a Spark DataFrame that reads the partitioned state where it is."""
        with self._db._lock:
            engine = self._db._open()
            self._check(engine.catalog)
            return engine.to_spark(self.name, at)

    def changes(self, since: int | None = None) -> pa.Table:
        """The view's own change of each epoch after `since`: its columns, `_weight` and `_epoch`.

        Without `since`, as far back as `options.history` keeps.
        """
        with self._db._reading() as engine:
            self._check(engine.catalog)
            return engine.changes(self.name, since)

    def on_change(self, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        """Call `fn(changes)` after each batch that changes the view; returns a function that ends it."""
        with self._db._lock:
            self._check(self._db._open().catalog)
        return self._db._listen(self.name, fn)

    def explain(self, format: str = "text", distributed: bool = False) -> str:
        """The maintenance program, and why each choice was made: as "text", "json" or "dot"; or
        (`distributed`) where its maps are on a cluster, and what runs where."""
        return self._db.explain(self.name, format, distributed)

    def verify(self) -> pa.Table:
        """Recompute the view from its base tables; returns the rows that differ, with `_weight`: none when
        it is right.

        A positive weight marks a row that should be there and is not, a negative one a row that should not
        be there.
        """
        with self._db._lock:
            engine = self._db._open()
            self._check(engine.catalog)
            return engine.verify(self.name)
