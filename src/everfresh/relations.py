"""What a user reads: tables, views and query results, all offered as Arrow, pandas, Polars, Spark, as rows of
Python, and to look at.

Python's rows have `int` where SQL has HUGEINT, which is what `SUM` of integers gives; Arrow has no such type
and holds it as decimals.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pyarrow as pa

from everfresh.delta import render, render_html
from everfresh.delta.pythonic import python_values, without_extensions
from everfresh.delta.sound import unreadable
from everfresh.epochs.follower import Follower
from everfresh.errors import Code, EverfreshError
from everfresh.types import HUGEINT, Column, fold, quoted, to_arrow

if TYPE_CHECKING:
    import pandas
    import polars
    from pyspark.sql import DataFrame

    from everfresh.database import Database


N = TypeVar("N", bound="Named")
_HUGEINT = to_arrow(HUGEINT)


class Readable:
    """Rows that can be read in every form."""

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame. DECIMAL stays Decimal, DATE stays date; HUGEINT is int64 where the
        values fit, else Python's int."""
        table, large, nested = self.to_arrow(), {}, {}
        for i, field in enumerate(table.schema):
            if field.type == _HUGEINT:
                try:
                    table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
                except pa.ArrowInvalid:
                    large[i] = python_values(table.column(i))
            elif pa.types.is_nested(field.type):
                nested[i] = _as_python(table, partial(_column_values, i))
                table = table.set_column(i, field.name, pa.nulls(table.num_rows))
        frame = _as_python(table, pa.Table.to_pandas)
        for i, values in (large | nested).items():
            frame.isetitem(i, _objects(values))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise EverfreshError(
                Code.ENVIRONMENT, "Polars is not installed", hint="pip install 'everfresh[polars]'"
            ) from None
        return polars.from_arrow(without_extensions(self.to_arrow()))

    df = to_pandas
    pl = to_polars

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as a list of dicts."""
        table = self.to_arrow()
        return [dict(zip(table.column_names, row, strict=True)) for row in _rows(table)]

    # -- rows of Python ----------------------------------------------------------------------------

    _next: Iterator[tuple[Any, ...]] | None = None
    """The rows that `fetchone` has yet to give."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as a list of tuples."""
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None after the last; then it begins anew."""
        if self._next is None:
            self._next = iter(self)
        row = next(self._next, None)
        if row is None:
            self._next = None
        return row

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return _rows(self.to_arrow())

    @overload
    def __getitem__(self, which: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, which: slice | str) -> list[Any]: ...
    def __getitem__(self, which: int | slice | str) -> Any:
        table = self.to_arrow()
        if isinstance(which, str):
            if which not in table.column_names:
                raise KeyError(which)
            return [value for (value,) in _rows(table.select([table.column_names.index(which)]))]
        if isinstance(which, slice):
            return list(_rows(table.take(list(range(table.num_rows))[which])))
        at = which + table.num_rows if which < 0 else which
        if not 0 <= at < table.num_rows:
            raise IndexError(f"row {which} of {table.num_rows}")
        return next(_rows(table.slice(at, 1)))

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    # -- to look at --------------------------------------------------------------------------------

    def head(self, rows: int = 5) -> Result:
        """The first rows, as a result of its own."""
        return Result(self.to_arrow().slice(0, max(rows, 0)))

    def show(self, rows: int = 20) -> None:
        """Print the first rows as a table."""
        print(render(self.to_arrow(), limit=rows))

    def __repr__(self) -> str:
        return render(self.to_arrow())

    def _repr_html_(self) -> str:
        return render_html(self.to_arrow())


def _column_values(place: int, table: pa.Table) -> list[Any]:
    return python_values(table.column(place))


def _objects(values: list[Any]) -> Any:
    """An array of Python's values: pandas itself would make columns of lists."""
    found = np.empty(len(values), object)
    for i, value in enumerate(values):
        found[i] = value
    return found


def _as_python(table: pa.Table, convert: Callable[[pa.Table], Any]) -> Any:
    """The rows as Python has them; an error if it has them not."""
    try:
        return convert(table)
    except (ValueError, OverflowError) as problem:
        raise unreadable(table) or problem from problem


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    if not table.num_columns:
        return iter([()] * table.num_rows)
    columns: list[list[Any]] = _as_python(
        table, lambda rows: [python_values(column) for column in rows.columns]
    )
    return zip(*columns, strict=True)


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


class Explanation(Result):
    """How a view is maintained or a query is run: lines of text, shown as they are."""

    def __init__(self, text: str) -> None:
        super().__init__(pa.table({"explain": text.splitlines()}))
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class Names(dict[str, N]):
    """Tables or views by name, in whatever letter case, as SQL has it; it is shown by the names.

    >>> names = Names({"Orders": 1})
    >>> names["ORDERS"], "orders" in names, names.get("lines"), list(names)
    (1, True, None, ['Orders'])
    """

    def __missing__(self, name: object) -> N:
        for known, found in self.items():
            if isinstance(name, str) and fold(known) == fold(name):
                return found
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(isinstance(name, str) and fold(known) == fold(name) for known in self)

    def get(self, name: str, default: Any = None) -> Any:
        """What has the name, or else the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(chr(10).join(self))}</pre>"


class Named(Readable):
    """A table or a view, which has its rows when they are asked for."""

    kind = "relation"

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

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, with their types."""
        raise NotImplementedError

    @property
    def comment(self) -> str | None:
        """What COMMENT ON says of it."""
        found: str | None = self._db.catalog.comments.get((self.name, ""))
        return found

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} ({_some(self.columns)})>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{super()._repr_html_()}"


_SHOWN = 20
"""Columns that a table or view is described by at most."""


def _some(columns: Sequence[Column]) -> str:
    text = ", ".join(map(str, columns[:_SHOWN]))
    return text if len(columns) <= _SHOWN else f"{text}, ... {len(columns)} columns"


class Table(Named):
    """A base table."""

    kind = "table"

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


class View(Named):
    """A materialized view: always equal to its query over the base tables."""

    kind = "materialized view"

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

    def follow(self, since: int | None = None) -> Follower:
        """The view's changes from now on, or after the epoch `since`: `for change in view.follow()` waits for
        each, `async for` does so in a coroutine. `close()` ends it; its `epoch` is where to go on.

        >>> import everfresh as ef
        >>> db = ef.connect(engine="local")
        >>> _ = db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
        >>> _ = db.apply(t=[(1,)])
        >>> follower = db.view("v").follow(since=2)
        >>> next(follower).to_pylist()[-1]["_epoch"], follower.epoch
        (3, 3)
        >>> db.close()
        >>> list(follower)
        []
        """
        with self._db._reading() as engine:
            self._check(engine.catalog)
        return Follower(self.changes, lambda: self._db.epoch, self._db._bell, since)

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


class QueryView(Named):
    """A view that is not materialized: its query is answered whenever its rows are asked for."""

    kind = "view"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, with their types."""
        found = self._db.catalog.relation(self.name)
        return found[1] if found is not None else ()

    def _result(self) -> Result:
        found = self._db.sql(f"SELECT * FROM {quoted(self.name)}")
        assert isinstance(found, Result)
        return found

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return self._result().to_arrow()

    def to_spark(self) -> DataFrame:
        """The rows as a Spark DataFrame."""
        return self._result().to_spark()


def database_html(what: str, named: Sequence[Named], most: int = 100) -> str:
    """A database as HTML: what it is, and the columns of its first tables and views."""
    rows = "".join(
        f"<tr><td>{html.escape(one.kind)}</td><td>{html.escape(one.name)}</td>"
        f'<td style="text-align: left">{html.escape(_some(one.columns))}</td></tr>'
        for one in named[:most]
    )
    more = f"<small>{most} of {len(named)} shown</small>" if len(named) > most else ""
    return f"<p>{html.escape(what)}</p><table><tbody>{rows}</tbody></table>{more}"
