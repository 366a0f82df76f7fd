"""Statements of SQL, run on a database: each becomes a query, a batch or a change of what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh import sql as s
from everfresh.arrays.script import about_arrays, pieces
from everfresh.compiler import explain
from everfresh.delta import read_rows
from everfresh.delta.writing import write_file
from everfresh.errors import Code, EverfreshError
from everfresh.following import Following
from everfresh.program import Batch, Engine, Stale
from everfresh.progress import shown
from everfresh.relations import Explanation, Result
from everfresh.sql.constraints import filled
from everfresh.sql.parameters import Parameters
from everfresh.statements.beside import Scope
from everfresh.statements.changes import RowChanges, part_of
from everfresh.statements.prepared import Prepared
from everfresh.types import Column, TableSchema, fold

if TYPE_CHECKING:
    from everfresh.database import Database


class Statements:
    """Runs the statements of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.following = Following(db)
        self._changes = RowChanges(db)
        self._prepared = Prepared(self)

    @property
    def epoch(self) -> int:
        """The last committed epoch."""
        return self._db._open().epoch

    def script(
        self, text: str, dialect: str, given: Parameters | None = None, caller: FrameType | None = None
    ) -> Result | int | None:
        """Run one statement or a script; what its last statement gives. Its queries may read the variables of
        `caller`."""
        plain = s.read_plain(text, dialect) if given is None and self._db._mine() is None else None
        if plain is not None:
            with self._db._lock:
                self._db._open()
                statement = s.bind_plain(plain, _Readable(self._db._engine))
                if statement is not None:
                    return self.run(statement)
        engine = self._db._engine
        with closing(Scope(self._db._registered, caller, engine.given, engine.given_files)) as beside:
            return self._all(text, dialect, given, beside)

    def _all(self, text: str, dialect: str, given: Parameters | None, beside: Scope) -> Result | int | None:
        if not about_arrays(text):
            return self._sql(text, dialect, given, beside)
        if given is not None:
            raise EverfreshError(Code.UNSUPPORTED, "parameters in a statement about arrays are not supported")
        from everfresh.raw.verbs import run

        result: Result | int | None = None
        for piece, of_arrays in pieces(text):
            result = run(self._db, piece) if of_arrays else self._sql(piece, dialect, None, beside)
        return result

    def _sql(self, text: str, dialect: str, given: Parameters | None, beside: Scope) -> Result | int | None:
        db, parsed = self._db, s.split(text, dialect, given, beside)
        if len(parsed) == 1 and parsed[0].verb == "BACKUP":  # nobody waits for it
            return self.run(s.bind(parsed[0], _Readable(db._engine)))
        free = db._engine.concurrent and not db._read_only and db._mine() is None
        prepared = s.about_prepared(parsed[0]) if len(parsed) == 1 else None
        if prepared is not None:
            return self._prepared.run(prepared, dialect)
        if len(parsed) == 1 and parsed[0].asks and free:
            return self.ask(parsed[0])
        with db._lock:
            db._open()
            readable = _Readable(db._engine)
            results = list(self._each(parsed, readable))
        return results[-1] if results else None

    def _each(self, parsed: Sequence[s.Parsed], readable: _Readable) -> Iterator[Result | int | None]:
        """Run statements; what each gives. A transaction that they begin ends with them, whatever happens."""
        db = self._db
        before = db._transaction
        try:
            for statement in parsed:
                word = s.transaction_word(statement)
                if word is not None:
                    yield self._turn(word, statement)
                    continue
                if db._transaction is not None and db._transaction.failed:
                    raise EverfreshError(
                        Code.INTERRUPTED,
                        "a statement of this transaction was refused",
                        place=statement.source.start,
                        hint="ROLLBACK, and begin again",
                    )
                prepared = s.about_prepared(statement)
                if prepared is not None:
                    yield self._prepared.run(prepared, statement.source.dialect)
                    continue
                if statement.source.beside is not None:
                    statement.source.beside.again()
                yield self.run(s.bind(statement, readable))
        except BaseException:
            if before is not None and before is db._transaction:
                before.failed = True
            elif db._transaction is not None:
                db._end()
            raise

    def _turn(self, word: str, statement: s.Parsed) -> int:
        """BEGIN, COMMIT or ROLLBACK."""
        db = self._db
        if word == "begin":
            if db._transaction is not None:
                raise statement.source.error(Code.EXISTS, "a transaction has begun already")
            db._begin()
            return db._engine.epoch
        if db._transaction is None:
            raise statement.source.error(Code.NOT_FOUND, f"there is no transaction to {word}")
        if word == "rollback" or db._transaction.failed:
            failed = db._transaction.failed and word == "commit"
            db._end()
            if failed:
                raise statement.source.error(
                    Code.INTERRUPTED, "the transaction was refused and is rolled back"
                )
            return db._engine.epoch
        return db._end(commit=True)

    def ask(self, parsed: s.Parsed) -> Result | int | None:
        """One statement that changes nothing, as of the last committed epoch."""
        while True:
            catalog = self._db.catalog
            statement = s.bind(parsed, _Readable(self._db._engine, catalog))
            if isinstance(statement, s.Show | s.Explain):
                return self._describe(statement)
            if not isinstance(statement, s.Select):
                with self._db._lock:  # a change behind a WITH
                    self._db._open()
                    return self.run(s.bind(parsed, _Readable(self._db._engine)))
            try:
                return Result(self._db._open().select(statement.plan, catalog))
            except Stale:  # something was created, altered or dropped in between
                continue

    def run(self, statement: s.Statement) -> Result | int | None:
        """Run a bound statement."""
        match statement:
            case s.Select(plan):
                return Result((self._db._transaction or self._db._open()).select(plan))
            case s.Show() | s.Explain():
                return self._describe(statement)
            case s.Insert() | s.Update() | s.Delete() | s.Merge():
                return self._changes.run(statement)
            case s.Backup(path=path):
                return self._db.backup(path)
            case s.Copy():
                return self._copy(statement)
            case s.CopyTo():
                return self._copy_to(statement)
            case s.Checkpoint():
                return self._checkpoint(statement)
            case _:
                return self._ddl(statement)

    def _checkpoint(self, statement: s.Checkpoint) -> int:
        engine = self._db._writable()
        if self._db._transaction is not None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "CHECKPOINT in a transaction is not supported",
                place=statement.place,
                hint="put it behind COMMIT",
            )
        if engine.folder is not None:
            engine.snapshot()
        return engine.epoch

    def _ddl(self, statement: s.Statement) -> int:
        engine = self._db._writable()
        if self._db._transaction is not None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "CREATE, ALTER and DROP in a transaction are not supported",
                place=statement.place,
                hint="each is an epoch of its own: put them before BEGIN",
            )
        if isinstance(statement, s.Drop) and statement.kind not in ("table", "view", "plain view"):
            known = engine.objects.find(statement.name) is not None
            return self._db._drop(statement.name, statement.cascade) if known else engine.epoch
        if isinstance(statement, s.CreateTable) and statement.schema.follows:
            raise EverfreshError(
                Code.UNSUPPORTED,
                "a table is made to follow an object by the view that reads it",
                place=statement.place,
                hint="leave the option out",
            )
        if isinstance(statement, s.Redeclare) and statement.refused is not None:
            self._look(statement)
        if isinstance(statement, s.Rename):
            self._check_streams(statement)
        with shown(self._db._progress) as told:
            epoch = self.following.execute(engine, statement, told)
        self._db._bell.ring()
        if isinstance(statement, s.Rename) and statement.name in self._db._listeners:
            self._db._listeners[statement.to] = self._db._listeners.pop(statement.name)
        for view in [name for name in self._db._listeners if not self._db._knows(name)]:
            del self._db._listeners[view]
        return epoch

    def _look(self, statement: s.Redeclare) -> None:
        """Raise if a table has rows that it may not have when it is declared anew."""
        rows = self._db._engine.select(statement.refused)
        found = Result(rows).to_arrow().to_pylist()
        if found:
            raise EverfreshError(
                Code.VALUE,
                statement.why,
                place=statement.place,
                hint=f"change it first; one such row is {found[0]!r}",
            )

    def _check_streams(self, statement: s.Rename) -> None:
        """Raise if a stream is at work on what gets another name."""
        name = fold(statement.name)
        feeding = [n for n, one in self._db._streams.items() if one.active and fold(one.table) == name]
        if feeding:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"the stream '{feeding[0]}' brings rows into '{statement.name}'",
                place=statement.place,
                hint="stop it first, and start it again with the new name",
            )

    def _copy(self, statement: s.Copy) -> int:
        engine = self._db._writable()
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
            rows = self._db._engine.read_input(statement.path, schema, what, "insert")
        else:
            rows = filled(schema, read_rows(statement.path, schema, what=what, kind=statement.format))
        return self._db._commit(Batch((part_of(schema, "insert", rows, what),)))

    def _copy_to(self, statement: s.CopyTo) -> Result:
        """Write the rows of a query to a file; how many they are."""
        rows = Result((self._db._transaction or self._db._open()).select(statement.plan)).to_arrow()
        options = statement.options
        given = next((options[name] for name in ("delimiter", "delim", "sep") if name in options), None)
        write_file(
            rows, statement.path, statement.format, header=options.get("header", True), delimiter=given
        )
        return Result(pa.table({"Count": pa.array([rows.num_rows], pa.int64())}))

    def _analyzed(self, statement: s.Explain, catalog: Any) -> str:
        """What a view has cost, or what a query costs that is answered now."""
        if statement.view is not None:
            if statement.view not in catalog.views:
                raise EverfreshError(
                    Code.UNSUPPORTED,
                    f"EXPLAIN ANALYZE of '{statement.view}' is not supported",
                    place=statement.place,
                    hint="it is of materialized views of SQL, and of queries: EXPLAIN ANALYZE SELECT ...",
                )
            text: str = self._db._engine.analyzed(statement.view)
            return text
        assert isinstance(statement.statement, s.Select)
        plan = statement.statement.plan
        since = perf_counter()
        rows = Result((self._db._transaction or self._db._open()).select(plan)).to_arrow()
        spent = perf_counter() - since
        return f"{rows.num_rows} rows, {rows.nbytes} bytes in {spent * 1000:.3f} ms\n\n{plan}"

    def _describe(self, statement: s.Show | s.Explain) -> Result:
        catalog = self._db.catalog
        if isinstance(statement, s.Explain):
            if statement.analyze:
                return Explanation(self._analyzed(statement, catalog))
            if statement.view is None:
                return Explanation(str(getattr(statement.statement, "plan", "")))
            plain = catalog.queries.get(statement.view)
            if plain is not None:
                return Explanation(f"Its query stands for it where it is read:\n{plain.plan}")
            return Explanation(self._db.explain(statement.view))
        if statement.kind == "describe":
            found = _Readable(self._db._engine, catalog).relation(statement.name or "")
            columns: tuple[Column, ...] = found[1] if found is not None else ()
            name = catalog.resolve(statement.name or "") or ""
            return Result(
                pa.table(
                    {
                        "column_name": [c.name for c in columns],
                        "column_type": [str(c.type) for c in columns],
                        "null": ["YES" if c.nullable else "NO" for c in columns],
                        "comment": pa.array(
                            [catalog.comments.get((name, c.name)) for c in columns], pa.string()
                        ),
                    }
                )
            )
        tables = [name for name, schema in catalog.tables.items() if not schema.follows]
        names = tables if statement.kind == "tables" else [*catalog.views, *catalog.queries]
        return Result(pa.table({"name": pa.array(names, pa.string())}))


def explained(engine: Engine, catalog: Any, view: str, format: str, distributed: bool) -> str:
    """How a view is maintained, and why."""
    definition = catalog.expect_view(view)
    if distributed:
        return _distributed(engine, definition.name)
    return explain(
        definition.compiled,
        definition.text,
        format,
        engine.explain(definition.name),
        catalog.sharing(definition.name),
        catalog.passing,
        engine.entries(definition.name),
        {
            name: [schema.names.index(c) for c in schema.key]
            for name, schema in catalog.tables.items()
            if schema.key
        },
    )


def _distributed(engine: Engine, view: str) -> str:
    """How a view is distributed, as the engine has placed its maps, or would by the sizes of its tables."""
    from everfresh.distributed import best, explained

    catalog, where = engine.programs, engine.placement
    if where is None:
        tables = engine.statistics()["tables"]
        sizes = {name: known["rows"] for name, known in tables.items() if isinstance(known.get("rows"), int)}
        where = best(catalog, sizes)
    return explained(catalog, where, view)


class _Readable:
    """The catalog as the binder sees it, with the objects of other domains as relations that can be read:
    that of an epoch, or always the engine's current one, so that a script sees its own DDL."""

    def __init__(self, engine: Engine, catalog: Any = None) -> None:
        self._engine, self._catalog = engine, catalog

    def other(self, name: str) -> tuple[str, str] | None:
        found = self._engine.objects.find(name)
        return (found.kind, found.name) if found is not None else None

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        catalog = self._engine.catalog if self._catalog is None else self._catalog
        known: tuple[str, tuple[Column, ...]] | None = catalog.relation(name)
        schema = catalog.table(name)
        if known is not None and not (schema is not None and schema.follows):
            return known
        found = self._engine.objects.find(name)
        if found is None:
            return None
        return found.kind, self._engine.objects.domains[found.domain].columns(found.name)

    def table(self, name: str) -> TableSchema | None:
        found: TableSchema | None = self._engine.catalog.table(name)
        return None if found is not None and found.follows else found

    @property
    def plain(self) -> Mapping[str, Any]:
        known: Mapping[str, Any] = (self._engine.catalog if self._catalog is None else self._catalog).plain
        return known

    @property
    def types(self) -> Mapping[str, Any]:
        known: Mapping[str, Any] = (self._engine.catalog if self._catalog is None else self._catalog).types
        return known

    def resolve(self, name: str) -> str | None:
        found = self._engine.objects.find(name)
        known: str | None = self._engine.catalog.resolve(name)
        return found.name if known is None and found is not None else known

    def names(self) -> list[str]:
        names = [*self._engine.catalog.names(), *(found.name for found in self._engine.objects)]
        return list(dict.fromkeys(names))
