"""The composition root: what a user holds after `everfresh.connect`.

A `Database` owns the order of things: it parses and binds statements against the engine's catalog, turns
data into batches, runs one change at a time, and tells listeners. Engines keep the state; this module is the
only one that knows all of them.
"""

from __future__ import annotations

import html
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh import sql as s
from everfresh.compiler import Catalog, explain
from everfresh.delta import Delta, SparkRows, read_local, read_rows
from everfresh.delta.feeds import is_feed, named
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate
from everfresh.matrices import LinearView, Matrices, MatrixMethods
from everfresh.options import Options
from everfresh.program import Batch, Engine, OnConflict, Part, Progress, Stale
from everfresh.program.queue import Queue, Waiting
from everfresh.program.waiting import shown
from everfresh.relations import Explanation, Names, Result, Table, View, database_html
from everfresh.sources import Stream, StreamMethods
from everfresh.state import is_url, told
from everfresh.types import Column, TableSchema, is_unicode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = ":memory:"
"""A path that is none, as elsewhere."""
_log = logging.getLogger("everfresh")


def connect(
    path: str | Path | None = None,
    engine: str = "spark",
    spark: SparkSession | None = None,
    read_only: bool = False,
    options: Options | None = None,
) -> Database:
    """Open a database, or make one.

    `path` is its folder, or a place in an object store (`s3://bucket/shop`; Spark only); without one, or with
    ":memory:", nothing outlives the connection. `engine` is "spark" (on `spark`, or on a session of its own)
    or "local" (in this process, no JVM). One process writes a folder at a time; with `read_only` any number
    read it.

    >>> import everfresh as ef
    >>> db = ef.connect(engine="local")
    >>> db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v DECIMAL(9,2))")
    1
    >>> db.close()
    """
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise EverfreshError(
            Code.ARGUMENT,
            f"options are an everfresh.Options, not a {type(options).__name__}",
            hint="connect(path, options=everfresh.Options(history=5))",
        )
    if path == MEMORY:
        path = None
    if read_only and path is None:
        raise EverfreshError(
            Code.ARGUMENT,
            "a database without a path cannot be opened for reading",
            hint="give the path of an existing database",
        )
    if engine == "local" and is_url(path):
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"'{path}' is not a local path",
            hint="give a folder of a local file system, or connect with engine='spark'",
        )
    with told(f"{path if path is not None else 'the database'} cannot be opened"):
        return _connected(path, engine, spark, read_only, options)


def _connected(
    path: str | Path | None, engine: str, spark: SparkSession | None, read_only: bool, options: Options
) -> Database:
    if engine == "local":
        if spark is not None:
            raise EverfreshError(
                Code.ARGUMENT, "the local engine does not use a Spark session", hint="leave engine out"
            )
        from everfresh.local.engine import LocalEngine

        matrices = Matrices()
        local = LocalEngine(path, options, read_only=read_only, domains=(matrices,))
        return Database(local, read_only=read_only, matrices=matrices)
    if engine == "spark":
        from everfresh.spark.engine import SparkEngine

        matrices = Matrices()
        runtime = SparkEngine(path, options, session=spark, read_only=read_only, domains=(matrices,))
        return Database(runtime, read_only=read_only, matrices=matrices)
    raise EverfreshError(Code.ARGUMENT, f"there is no engine '{engine}'", hint="engines are: spark, local")


class Database(MatrixMethods, StreamMethods):
    """Tables, views over them, and the one way to change both. Made by `everfresh.connect`."""

    def __init__(self, engine: Engine, *, read_only: bool = False, matrices: Matrices | None = None) -> None:
        self._engine = engine
        self._matrices = matrices or Matrices()
        self._read_only = read_only
        self._lock = threading.RLock()
        """Held by whoever changes something; readers need it only where the engine cannot do without."""
        self._queue = Queue(self._commit_all)
        self._read: Callable[..., Any] = getattr(engine, "read_input", read_local)
        """Rows of any kind as the engine takes them."""
        self._closed = False
        self._forked_from: int | None = None
        """The process that opened the database, in a child that was forked from it."""
        self._listeners: dict[str, list[Callable[[pa.Table], Any]]] = {}
        self._progress: Progress | None = None
        self._streams: dict[str, Stream] = {}
        _opened.add(self)

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the streams, and release the folder and everything held for it. Closing twice is harmless."""
        if self._forked_from is not None:
            return  # nothing of it is this process's
        self._stop_streams()
        with self._lock:
            self._closed = True
            self._engine.close()  # again, if the first time was interrupted

    def __repr__(self) -> str:
        if self._closed:
            return "<everfresh database, closed>"
        catalog = self._engine.catalog
        counts = f"{len(catalog.tables)} tables, {len(catalog.views)} views"
        return f"<everfresh database on the {self._engine.name} engine: {counts}, epoch {self._engine.epoch}>"

    def _repr_html_(self) -> str:
        if self._closed:
            return f"<p>{html.escape(repr(self)[1:-1])}</p>"
        return database_html(repr(self)[1:-1], [*self.tables.values(), *self.views.values()])

    def _open(self) -> Engine:
        """The engine, at the last epoch it can see; raises if the database was closed."""
        if self._forked_from is not None:
            raise EverfreshError(
                Code.CLOSED,
                f"the database was opened by process {self._forked_from}, and this is a fork of it",
                hint="connect in each process: read_only=True while another writes; or start processes with "
                "multiprocessing's 'spawn'",
            )
        if self._closed:
            raise EverfreshError(
                Code.CLOSED, "the database is closed", hint="open it again with everfresh.connect(path)"
            )
        self._engine.refresh()
        return self._engine

    def _writable(self) -> Engine:
        engine = self._open()
        if self._read_only:
            raise EverfreshError(
                Code.READ_ONLY,
                "the database is open for reading only",
                hint="connect without read_only=True to change it",
            )
        return engine

    # -- what there is -----------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Engine]:
        """The engine, for calls that read: beside a running batch, if the engine can."""
        if self._engine.concurrent and not self._read_only:
            yield self._open()
            return
        with self._lock:
            yield self._open()

    @property
    def epoch(self) -> int:
        """The number of the last committed change."""
        with self._reading() as engine:
            return engine.epoch

    @property
    def catalog(self) -> Catalog:
        """The schemas and compiled views as of now."""
        with self._reading() as engine:
            catalog: Catalog = engine.catalog
            return catalog

    @property
    def tables(self) -> Mapping[str, Table]:
        """All base tables by name."""
        return Names({name: Table(self, name) for name in self.catalog.tables})

    @property
    def views(self) -> Mapping[str, View]:
        """All views by name."""
        return Names({name: View(self, name) for name in self.catalog.views})

    def view(self, name: str) -> View:
        """The view called `name`."""
        catalog = self.catalog  # as of now: a reader catches up
        if name in self._matrices.views:
            return LinearView(self, name)
        return View(self, catalog.expect_view(name).name)

    def table(self, name: str) -> Table:
        """The base table called `name`."""
        return Table(self, self.catalog.expect_table(name).name)

    def statistics(self) -> dict[str, Any]:
        """Sizes of tables and views, and what the engine knows about its state."""
        with self._lock:
            return self._open().statistics()

    def on_progress(self, fn: Progress | None) -> None:
        """Call `fn(what, done, total)` while something long runs, such as compiling a view or its first load.
        Without one a terminal shows a line for what takes longer than two seconds."""
        self._progress = fn

    # -- change ------------------------------------------------------------------------------------

    def apply(
        self, batch: Mapping[str, Any] | None = None, /, *, key: str | None = None, **tables: Any
    ) -> int:
        """Apply one atomic batch; returns the epoch it committed.

        Each table gets rows to insert, or an `everfresh.Delta` with inserts, deletes and updates; each matrix
        an update such as `everfresh.linalg.LowRank(U, V)`, or a list of them. The batch
        is applied whole or, with an `EverfreshError`, not at all. A `key` that was committed before returns
        its epoch and changes nothing, so a batch can be sent again.
        """
        if batch is not None and not isinstance(batch, Mapping):
            raise EverfreshError(
                Code.ARGUMENT,
                "a batch is a mapping of table names to rows",
                hint='db.apply({"orders": rows}), or db.apply(orders=rows)',
            )
        if key is not None and not (isinstance(key, str) and is_unicode(key)):
            raise EverfreshError(
                Code.ARGUMENT, "a batch key is a string of Unicode", hint='db.apply(batch, key="load-17")'
            )
        given = {**batch, **tables} if batch else tables
        engine = self._engine
        if not engine.concurrent or self._matrices.takes_some(given):
            with self._lock:
                return self._apply(given, key)
        if self._closed or self._read_only:
            self._writable()
        before = engine.committed(key) if key is not None else None
        if before is not None:
            return before
        catalog = engine.catalog  # rows are read beside other batches, and queue with them
        parts: list[Part] = []
        for name, rows in given.items():
            parts += self._parts(catalog.expect_table(name), rows)
        return self._queue.commit(Batch(tuple(parts), key), catalog, self._lock)

    def _apply(self, given: Mapping[str, Any], key: str | None) -> int:
        """A batch by itself, with the lock held."""
        engine = self._writable()
        before = engine.committed(key) if key is not None else None
        if before is not None:
            return before
        parts = [
            part
            for name, rows in given.items()
            if not self._matrices.takes(name, rows)
            for part in self._parts(engine.catalog.expect_table(name), rows)
        ]
        updates = {name: change for name, change in given.items() if self._matrices.takes(name, change)}
        return self._commit(self._with_matrices(Batch(tuple(parts), key), updates))

    def _parts(self, schema: TableSchema, rows: Any) -> list[Part]:
        if isinstance(rows, pa.Table):
            return [self._part_of(schema, "insert", rows)]
        return [self._part_of(schema, op, data) for op, data in Delta.of(rows).parts()]

    def _part_of(self, schema: TableSchema, op: Any, data: Any) -> Part:
        what = f"table '{schema.name}', {op}s"
        return _part(schema, op, self._read(data, schema, what, op), what)

    def _commit(self, batch: Batch) -> int:
        for name in {part.table for part in batch.parts}:
            self._check_static(name)
        applied = self._engine.apply(batch)
        self._tell(applied.epoch)
        return applied.epoch

    def _commit_all(self, group: Sequence[Waiting]) -> None:
        """Commit what has queued, with the lock held; each is told what came of it."""
        engine = self._writable()
        catalog = engine.catalog
        ready: list[Waiting] = []
        for waiting in group:
            try:
                waiting.check(catalog)
                for part in waiting.batch.parts:
                    if catalog.tables[part.table].static:
                        self._check_static(part.table)
            except EverfreshError as error:
                waiting.result = error
            else:
                ready.append(waiting)
        while ready:
            now, later = self._chosen(ready)
            results = engine.apply_all([waiting.batch for waiting in now]) if now else ()
            for waiting, result in zip(now, results, strict=True):
                waiting.result = result if isinstance(result, Exception) else result.epoch
            if self._listeners:
                for waiting in now:
                    if isinstance(waiting.result, int):
                        self._tell(waiting.result)
            ready = later

    def _chosen(self, ready: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
        """What to apply now, and what to look at again after it: batches with the key of one before them. One
        whose key was committed has its result."""
        now: list[Waiting] = []
        later: list[Waiting] = []
        keys: set[str] = set()
        for waiting in ready:
            key = waiting.batch.key
            if key is not None:
                waiting.result = self._engine.committed(key)
                if waiting.result is not None:
                    continue
                if key in keys:
                    later.append(waiting)
                    continue
                keys.add(key)
            now.append(waiting)
        return now, later

    def _check_static(self, name: str) -> None:
        catalog = self._engine.catalog
        readers = catalog.views_on(name) if catalog.tables[name].static else ()
        if readers:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"static table '{name}' is read by {', '.join(v.name for v in readers)} and cannot change",
                hint="drop these views, change it and create them again, or create the table without STATIC",
            )

    # -- listeners ---------------------------------------------------------------------------------

    def _listen(self, view: str, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        with self._lock:
            self._listeners.setdefault(view, []).append(fn)

        def stop() -> None:
            with self._lock:
                if fn in self._listeners.get(view, []):
                    self._listeners[view].remove(fn)

        return stop

    def _tell(self, epoch: int) -> None:
        """Hand each listener the change of its view. The batch is committed: a listener that fails is
        logged, not raised."""
        for view, listeners in list(self._listeners.items()):
            if not listeners or view not in self._engine.catalog.views:
                continue
            change = self._engine.changes(view, epoch - 1)
            if not change.num_rows:
                continue
            for fn in list(listeners):
                try:
                    fn(change)
                except Exception:
                    _log.exception("a listener of view '%s' failed on epoch %d", view, epoch)

    # -- SQL ---------------------------------------------------------------------------------------

    def sql(self, text: str, dialect: str = "duckdb") -> Result | int | None:
        """Run one statement or a script; returns what its last statement gives.

        A SELECT gives a `Result`, which reads like a view; a change gives its epoch. A script stops at its
        first error; what came before it stays done.
        """
        parsed = s.split(text, dialect)
        if len(parsed) == 1 and parsed[0].asks and self._engine.concurrent and not self._read_only:
            return self._ask(parsed[0])
        result: Result | int | None = None
        with self._lock:
            current = _Current(self._open(), self._matrices)
            for statement in parsed:
                result = self._run(s.bind(statement, current))
        return result

    def _ask(self, parsed: s.Parsed) -> Result | int | None:
        """One statement that changes nothing, as of the last committed epoch."""
        while True:
            catalog = self.catalog
            statement = s.bind(parsed, catalog)
            if isinstance(statement, s.Show | s.Explain):
                return self._describe(statement)
            if not isinstance(statement, s.Select):
                with self._lock:  # a change behind a WITH
                    return self._run(s.bind(parsed, _Current(self._open(), self._matrices)))
            try:
                return Result(self._open().select(statement.plan, catalog))
            except Stale:  # something was created, altered or dropped in between
                continue

    def _run(self, statement: s.Statement) -> Result | int | None:
        match statement:
            case s.Select(plan):
                return Result(self._open().select(plan))
            case s.Show() | s.Explain():
                return self._describe(statement)
            case s.Insert():
                return self._insert(statement)
            case s.Delete(table, where):
                rows, _ = self._writable().matching(table, where)
                return self._commit(Batch((Part(table, "delete", rows, f"DELETE FROM {table}"),)))
            case s.Update(table, assignments, where):
                return self._update(table, assignments, where)
            case s.Copy():
                return self._copy(statement)
            case _:
                return self._ddl(statement)

    def _ddl(self, statement: s.Statement) -> int:
        engine = self._writable()
        if isinstance(statement, s.Drop) and statement.kind in ("matrix", "matrix view"):
            known = self._matrices.kind_of(statement.name) is not None
            return self._drop_matrix(statement.name, statement.cascade) if known else engine.epoch
        self._matrices.check_statement(statement)
        with shown(self._progress) as told:
            epoch = engine.execute(statement, told)
        for view in [name for name in self._listeners if name not in engine.catalog.views]:
            del self._listeners[view]
        return epoch

    def _insert(self, statement: s.Insert) -> int:
        engine = self._writable()
        schema = engine.catalog.tables[statement.table]
        what = f"INSERT INTO {schema.name}"
        if statement.plan is not None:
            rows = engine.select(statement.plan)
            rows = self._read(_renamed(rows, statement.columns), schema, what, "insert")
        else:
            rows = _constants(statement, schema, what)
        conflict = statement.conflict
        if conflict is None:
            return self._commit(Batch((Part(schema.name, "insert", rows, what),)))
        action = OnConflict(conflict.assignments if conflict.action == "update" else (), conflict.where)
        return self._commit(Batch((Part(schema.name, "upsert", rows, what, action),)))

    def _update(self, table: str, assignments: Any, where: Any) -> int:
        engine = self._writable()
        schema = engine.catalog.tables[table]
        old, new = engine.matching(table, where, assignments)
        what = f"UPDATE {table}"
        if isinstance(new, pa.Table):
            new = read_rows(new, schema, what=what)
        return self._commit(Batch((Part(table, "delete", old, what), Part(table, "insert", new, what))))

    def _copy(self, statement: s.Copy) -> int:
        engine = self._writable()
        schema = engine.catalog.tables[statement.table]
        unknown = set(statement.options) - {"header", "format"}
        if unknown:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"COPY has no option '{sorted(unknown)[0]}'",
                place=statement.place,
                hint="a CSV file has a header line and commas",
            )
        if statement.options.get("header") is False:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "a CSV file without a header line is not supported",
                place=statement.place,
                hint="add a first line with the column names",
            )
        what = f"COPY {schema.name}"
        if statement.format is None:
            rows = self._read(statement.path, schema, what, "insert")
        else:
            rows = read_rows(statement.path, schema, what=what, kind=statement.format)
        return self._commit(Batch((_part(schema, "insert", rows, what),)))

    def _describe(self, statement: s.Show | s.Explain) -> Result:
        catalog = self.catalog
        if isinstance(statement, s.Explain):
            text = (
                self.explain(statement.view)
                if statement.view is not None
                else str(getattr(statement.statement, "plan", ""))
            )
            return Explanation(text)
        if statement.kind == "describe":
            found = catalog.relation(statement.name or "")
            columns: tuple[Column, ...] = found[1] if found is not None else ()
            return Result(
                pa.table(
                    {
                        "column_name": [c.name for c in columns],
                        "column_type": [str(c.type) for c in columns],
                        "null": ["YES" if c.nullable else "NO" for c in columns],
                    }
                )
            )
        names = list(catalog.tables if statement.kind == "tables" else catalog.views)
        return Result(pa.table({"name": pa.array(names, pa.string())}))

    def explain(self, view: str, format: str = "text", distributed: bool = False) -> str:
        """How a view is maintained, and why: as "text", "json" or "dot"; or (`distributed`) where its maps
        are on a cluster, and what runs where."""
        with self._reading() as engine:
            catalog = engine.catalog
            definition = catalog.expect_view(view)
            if distributed:
                return _distributed(engine, definition.name)
            known, sizes = getattr(engine, "explain", None), getattr(engine, "entries", None)
            return explain(
                definition.compiled,
                definition.text,
                format,
                known(definition.name) if known is not None else None,
                catalog.sharing(definition.name),
                catalog.passing,
                sizes(definition.name) if sizes is not None else None,
                {
                    name: [schema.names.index(c) for c in schema.key]
                    for name, schema in catalog.tables.items()
                    if schema.key
                },
            )


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child has the handles of its parent, and none of the threads that hold their locks."""
    for db in list(_opened):
        db._forked_from, db._closed = db._forked_from or os.getppid(), True
        db._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def _distributed(engine: Engine, view: str) -> str:
    """How a view is distributed, as the engine has placed its maps, or would by the sizes of its tables."""
    from everfresh.distributed import best, explained

    catalog, where = getattr(engine, "programs", engine.catalog), getattr(engine, "placement", None)
    if where is None:
        tables = engine.statistics()["tables"]
        sizes = {name: known["rows"] for name, known in tables.items() if isinstance(known.get("rows"), int)}
        where = best(catalog, sizes)
    return explained(catalog, where, view)


class _Current:
    """The catalog as the binder sees it: always the engine's current one, so that a script sees its own
    DDL."""

    def __init__(self, engine: Engine, matrices: Matrices) -> None:
        self._engine, self._matrices = engine, matrices

    def other(self, name: str) -> tuple[str, str] | None:
        return self._matrices.kind_of(name)

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        return self._engine.catalog.relation(name)  # type: ignore[no-any-return]

    def table(self, name: str) -> TableSchema | None:
        return self._engine.catalog.table(name)  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        return self._engine.catalog.names()  # type: ignore[no-any-return]

    def resolve(self, name: str) -> str | None:
        return self._engine.catalog.resolve(name)  # type: ignore[no-any-return]


def _names(rows: Any) -> list[str]:
    return [name for name, _ in rows.names] if isinstance(rows, SparkRows) else list(rows.column_names)


def _part(schema: TableSchema, op: Any, rows: Any, what: str) -> Part:
    """Rows as they were read, with their operation: a delete may be by the key, and the rows of a change feed
    say themselves what it is."""
    if isinstance(rows, pa.Table) and rows.num_columns == len(schema.columns):
        return Part(schema.name, op, rows, what)  # exactly the table's columns: neither of them
    if op == "delete" and set(_names(rows)) != set(schema.names):
        return Part(schema.name, "delete_key", rows, what)
    if op == "insert" and is_feed(_names(rows), schema):
        return Part(schema.name, "change", rows, named(what))
    return Part(schema.name, op, rows, what)


def _renamed(rows: Any, names: tuple[str, ...]) -> Any:
    return rows.rename_columns(list(names)) if isinstance(rows, pa.Table) else rows.frame.toDF(*names)


def _constants(statement: s.Insert, schema: TableSchema, what: str) -> pa.Table:
    """The rows of VALUES as an Arrow table; columns that are not named are NULL."""
    arrays: dict[str, pa.Array] = {}
    for index, name in enumerate(statement.columns):
        column = schema.column(name)
        values = []
        for row, exprs in enumerate(statement.rows or []):
            try:
                values.append(evaluate(exprs[index], {}))
            except EverfreshError as error:
                raise error.at(f"{what}, row {row}, column {name}") from error
        arrays[name] = Vector.from_pylist(values, column.type).to_arrow()
    rows = read_rows(pa.table(arrays), schema, what=what)
    assert isinstance(rows, pa.Table)
    return rows
