"""The composition root: what a user holds after `everfresh.connect`.

A `Database` owns the order of things: it parses and binds statements against the engine's catalog, turns
data into batches, runs one change at a time, and tells listeners. Engines keep the state; this module is the
only one that knows all of them.
"""

from __future__ import annotations

import html
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta import Delta
from everfresh.delta.given import KINDS, is_rows
from everfresh.epochs import Domain, Objects
from everfresh.epochs.follower import Bell
from everfresh.epochs.lazy import Lazy
from everfresh.epochs.queue import Queue, Waiting, chosen
from everfresh.errors import Code, EverfreshError
from everfresh.objects import ObjectMethods, domains_of
from everfresh.options import Options
from everfresh.program import Batch, Engine, Part, Progress
from everfresh.relations import Names, QueryView, Result, Table, View, database_html
from everfresh.sources import Stream, StreamMethods
from everfresh.sql.parameters import Parameters
from everfresh.state import is_url, told
from everfresh.statements import Statements, Transaction, explained, part_of
from everfresh.types import TableSchema, fold, is_unicode

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
        return connected(path, engine, spark, read_only, options, domains_of(options))


def connected(
    path: str | Path | None,
    engine: str,
    spark: SparkSession | None,
    read_only: bool,
    options: Options,
    domains: Sequence[Domain],
) -> Database:
    """A database with these domains beside tables."""
    if engine == "local":
        if spark is not None:
            raise EverfreshError(
                Code.ARGUMENT, "the local engine does not use a Spark session", hint="leave engine out"
            )
        from everfresh.local.engine import LocalEngine

        local = LocalEngine(path, options, read_only=read_only, domains=domains)
        return Database(local, read_only=read_only)
    if engine == "spark":
        from everfresh.spark.engine import SparkEngine

        runtime = SparkEngine(path, options, session=spark, read_only=read_only, domains=domains)
        return Database(runtime, read_only=read_only)
    raise EverfreshError(Code.ARGUMENT, f"there is no engine '{engine}'", hint="engines are: spark, local")


class Database(StreamMethods, ObjectMethods):
    """Tables, views over them, and the one way to change both. Made by `everfresh.connect`."""

    def __init__(self, engine: Engine, *, read_only: bool = False) -> None:
        self._engine = engine
        self._read_only = read_only
        self._lock = threading.RLock()
        """Held by whoever changes something; readers need it only where the engine cannot do without."""
        self._queue = Queue(self._commit_all)
        self._closed = False
        self._forked_from: int | None = None
        """The process that opened the database, in a child that was forked from it."""
        self._listeners: dict[str, list[Callable[[pa.Table], Any]]] = {}
        self._bell = Bell()
        self._progress: Progress | None = None
        self._streams: dict[str, Stream] = {}
        self._registered: dict[str, tuple[str, Any]] = {}
        """Rows that were registered, and their names as they were given, by the names without case."""
        self._transaction: Transaction | None = None
        """What has been done since BEGIN; whoever began it holds the lock."""
        self._statements = Statements(self)
        for domain in engine.objects.domains.values():
            domain.over(engine.read)
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
            if self._transaction is not None:
                self._end()
            if not self._closed:
                for domain in self._engine.objects.domains.values():
                    domain.release()
            self._closed = True
            self._bell.ring()
            self._engine.close()  # again, if the first time was interrupted

    def __repr__(self) -> str:
        if self._closed:
            return "<everfresh database, closed>"
        catalog = self._engine.catalog
        tables = sum(not schema.follows for schema in catalog.tables.values())
        counts = f"{tables} tables, {len(catalog.views)} views"
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

    def _current(self) -> None:
        """Raise if the database was closed; a handle that may be behind is brought up to date."""
        if self._closed:
            self._open()
        if self._engine.behind:
            with self._lock:
                self._open()

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
        known = self.catalog.tables
        return Names({name: Table(self, name) for name, schema in known.items() if not schema.follows})

    @property
    def views(self) -> Mapping[str, View]:
        """All materialized views by name."""
        return Names({name: View(self, name) for name in self.catalog.views})

    def view(self, name: str) -> View:
        """The view called `name`."""
        catalog = self.catalog  # as of now: a reader catches up
        found = self._engine.objects.find(name)
        if found is not None and found.kind.endswith("view"):
            held: View = self._domain(found.domain).hold(self, found.name)
            return held
        known = catalog.resolve(name)
        if known is not None and known in catalog.queries:
            return QueryView(self, known)  # type: ignore[return-value]
        return View(self, catalog.expect_view(name).name)

    def table(self, name: str) -> Table:
        """The base table called `name`."""
        schema = self.catalog.expect_table(name)
        if schema.follows:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"'{name}' is no table",
                hint="tables are: " + (", ".join(self.tables) or "none yet"),
            )
        return Table(self, schema.name)

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
        if self._closed or self._read_only:
            self._writable()
        engine = self._engine
        if not engine.concurrent or self._mine() is not None:
            with self._lock:
                catalog = self._writable().catalog
                before = engine.committed(key) if key is not None else None
                return before if before is not None else self._commit(self._batch(given, key, catalog))
        before = engine.committed(key) if key is not None else None
        if before is not None:
            return before
        catalog = engine.catalog  # rows are read beside other batches, and queue with them
        return self._queue.commit(self._batch(given, key, catalog), catalog, self._lock)

    def _batch(self, given: Mapping[str, Any], key: str | None, catalog: Catalog) -> Batch:
        """What a user gives, as a batch: rows of tables, and changes of other objects as their domains have
        prepared them."""
        parts: list[Part] = []
        changes: dict[str, Any] = {}
        for name, some in given.items():
            domain = self._changed(name, some, catalog)
            if domain is None:
                parts += self._parts(catalog.expect_table(name), some)
            else:
                changes[name] = domain.prepare(name, some)
        return Batch(tuple(parts), key, changes)

    def _changed(self, name: str, given: Any, catalog: Catalog) -> Domain | None:
        """The domain of what a user changes; None for a table."""
        if name in catalog.tables and not catalog.tables[name].follows:
            return None
        objects: Objects = self._engine.objects
        found = objects.domain_of(name)
        if found is None and catalog.resolve(name) is None:
            found = next((domain for domain in objects.domains.values() if domain.takes(given)), None)
        return found

    def _parts(self, schema: TableSchema, rows: Any) -> list[Part]:
        if isinstance(rows, pa.Table):
            return [self._part_of(schema, "insert", rows)]
        return [self._part_of(schema, op, data) for op, data in Delta.of(rows).parts()]

    def _part_of(self, schema: TableSchema, op: Any, data: Any) -> Part:
        what = f"table '{schema.name}', {op}s"
        return part_of(schema, op, self._engine.read_input(data, schema, what, op), what)

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """A block whose `sql` and `apply` are one epoch, committed at its end, or nothing if it raises.

        It belongs to its thread; other threads read meanwhile what was committed before, and wait to change
        something. `CREATE`, `ALTER` and `DROP` are refused in it.

        >>> import everfresh as ef
        >>> db = ef.connect(engine="local")
        >>> _ = db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        >>> with db.transaction():
        ...     _ = db.apply(t=[(1, 10)])
        ...     _ = db.sql("UPDATE t SET v = v + 1")
        >>> db.epoch, db.table("t").fetchall()
        (2, [(1, 11)])
        >>> db.close()
        """
        with self._lock:
            if self._transaction is not None:
                raise EverfreshError(Code.EXISTS, "a transaction has begun already")
            self._begin()
            try:
                yield self
            except BaseException:
                self._end()
                raise
            self._end(commit=True)

    def _begin(self) -> None:
        """Begin a transaction of this thread."""
        self._lock.acquire()
        try:
            self._transaction = Transaction(self)
        except BaseException:
            self._lock.release()
            raise

    def _end(self, *, commit: bool = False) -> int:
        """End the transaction of this thread; the epoch."""
        ended, self._transaction = self._transaction, None
        try:
            batch = ended.batch() if commit and ended is not None else Batch()
            return self._commit(batch) if batch.parts else self._engine.epoch
        finally:
            self._lock.release()

    def _mine(self) -> Transaction | None:
        """The transaction that this thread has begun."""
        known = self._transaction
        return known if known is not None and known.thread == threading.get_ident() else None

    def _commit(self, batch: Batch) -> int:
        """A batch by itself, with the lock held."""
        if self._transaction is not None:
            return self._transaction.add(batch)
        mine = Waiting(batch, self._engine.catalog)
        self._commit_all([mine])
        if isinstance(mine.result, Exception):
            raise mine.result
        assert mine.result is not None
        return mine.result

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
            now, later = chosen(ready, engine.committed)
            results = engine.apply_all([waiting.batch for waiting in now]) if now else ()
            for waiting, result in zip(now, results, strict=True):
                waiting.result = result if isinstance(result, Exception) else result.epoch
            if self._listeners:
                for waiting in now:
                    if isinstance(waiting.result, int):
                        self._tell(waiting.result)
            ready = later
        self._bell.ring()

    def _check_static(self, name: str) -> None:
        catalog = self._engine.catalog
        readers = catalog.views_on(name) if catalog.tables[name].static else ()
        if readers:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"static table '{name}' is read by {', '.join(v.name for v in readers)} and cannot change",
                hint="drop these views, change it and create them again, or create the table without STATIC",
            )

    # -- objects of other domains ------------------------------------------------------------------

    def _domain(self, name: str) -> Any:
        """A domain by its name."""
        domain = self._engine.objects.domains[name]
        return domain.domain if isinstance(domain, Lazy) else domain

    def _define(self, domain: str, *statements: Any) -> int:
        """Make or drop objects of a domain, in an epoch of its own; the lock is held."""
        return self._commit(Batch(statements={domain: statements}))

    def _check_free(self, name: str) -> None:
        """Raise if something has the name."""
        engine = self._writable()
        engine.objects.check_free(name)
        found = engine.catalog.relation(name)
        if found is not None:
            raise EverfreshError(
                Code.EXISTS, f"there is already a {found[0]} '{name}'", hint="choose another name"
            )

    def _drop(self, name: str, cascade: bool = False) -> int:
        """Drop an object of another domain than tables; with `cascade`, first what reads it."""
        with self._lock:
            objects: Objects = self._writable().objects
            found = objects.find(name)
            if found is None:
                known = ", ".join(one.name for one in objects) or "none yet"
                raise EverfreshError(Code.NOT_FOUND, f"there is no '{name}'", hint=f"there are: {known}")
            following, engine = self._statements.following, self._engine
            views = following.readers(engine, found.name)
            if views and not cascade:
                raise EverfreshError(
                    Code.DEPENDENCY,
                    f"'{found.name}' is read by {', '.join(views)}",
                    hint="drop them first, or with CASCADE",
                )
            following.drop_views(engine, [found.name])
            statements = objects.dropped_with([found.name], cascade=cascade)
            statements.setdefault(found.domain, []).extend(objects.domains[found.domain].dropping(found.name))
            return self._commit(Batch(statements=statements))

    # -- listeners ---------------------------------------------------------------------------------

    def _listen(self, view: str, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        with self._lock:
            self._listeners.setdefault(view, []).append(fn)

        def stop() -> None:
            with self._lock:
                if fn in self._listeners.get(view, []):
                    self._listeners[view].remove(fn)

        return stop

    def _knows(self, view: str) -> bool:
        """Whether there is such a view."""
        return view in self._engine.catalog.views or self._engine.objects.find(view) is not None

    def _tell(self, epoch: int) -> None:
        """Hand each listener the change of its view. The batch is committed: a listener that fails is
        logged, not raised."""
        for view, listeners in list(self._listeners.items()):
            if not listeners or not self._knows(view):
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

    def sql(
        self, text: str, parameters: Parameters | None = None, dialect: str = "duckdb"
    ) -> Result | int | None:
        """Run one statement or a script; returns what its last statement gives.

        A SELECT gives a `Result`, which reads like a view; a change gives its epoch. A script stops at its
        first error; what came before it stays done. `parameters` are values for `?` and `$1` in one
        statement, or by name for `$name`: `db.sql("SELECT * FROM t WHERE k = ?", [7])`. A name in FROM that
        is no table and no view may be a variable of the caller with rows, such as a DataFrame.
        """
        caller = sys._getframe(1) if self._engine.options.replacement_scans else None
        return self._statements.script(text, dialect, parameters, caller)

    def register(self, name: str, rows: Any) -> None:
        """Let statements of this connection read rows by a name: `FROM name`, as if they were a table.

        `rows` are what a variable may be that a query names: a pyarrow Table, a pandas, Polars or Spark
        DataFrame, whatever has `__arrow_c_stream__`, a list of dicts or a dict of columns. They are looked at
        by each statement anew; nothing of them is stored.
        """
        if not isinstance(name, str) or not name or not is_unicode(name):
            raise EverfreshError(Code.ARGUMENT, "a name is a text", hint='db.register("new", rows)')
        if not is_rows(rows):
            what = f"a {type(rows).__name__} has no columns with names"
            raise EverfreshError(Code.ARGUMENT, what, place=f"'{name}'", hint=KINDS)
        with self._reading() as engine:
            known = engine.catalog.relation(name)
            if known is not None or engine.objects.find(name) is not None:
                raise EverfreshError(
                    Code.EXISTS, f"'{name}' is a {known[0] if known else 'name'} of the database already"
                )
        self._registered[fold(name)] = name, rows

    def unregister(self, name: str) -> None:
        """Forget what was registered by a name; nothing happens if nothing was."""
        self._registered.pop(fold(name), None)

    def backup(self, folder: str | Path) -> int:
        """Copy the database to a new folder, as it is at its last committed epoch; returns that epoch.

        Others go on changing it meanwhile; a database without a path waits until it is written. The copy is a
        database of its own, whole, or not there: what is called `folder` with `.unfinished` behind it was
        interrupted, and goes when the backup is made again. `BACKUP TO 'folder'` does the same.
        """
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise EverfreshError(Code.ARGUMENT, "a backup needs a folder", hint='db.backup("shop-monday.ef")')
        with self._reading() as engine:
            pass  # the last epoch is known; nothing is held while files are copied
        return engine.backup(folder)

    def explain(self, view: str, format: str = "text", distributed: bool = False) -> str:
        """How a view is maintained, and why: as "text", "json" or "dot"; or (`distributed`) where its maps
        are on a cluster, and what runs where."""
        with self._reading() as engine:
            found = engine.objects.find(view)
            if found is not None:
                text: str = self._domain(found.domain).explain(found.name, format)
                return text
            return explained(engine, engine.catalog, view, format, distributed)


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child has the handles of its parent, and none of the threads that hold their locks."""
    for db in list(_opened):
        db._forked_from, db._closed = db._forked_from or os.getppid(), True
        db._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
