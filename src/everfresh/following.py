"""SQL views over the objects of other domains: the tables through which they read them.

A view that reads an array, or a matrix, reads a table of the same name that *follows* it
(`everfresh.epochs.layers`): it is made and filled before the first such view, gets the changes that the
object publishes in the epoch in which it does, and is dropped behind the last view. Nobody else sees it.

Each of these steps is an epoch of its own, and harmless where the next one never comes: a table that follows
an object and that no view reads gets no changes, and is made anew before one reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh import sql as s
from everfresh.epochs.layers import follows, views_over
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch, Engine, Part, Progress
from everfresh.sql.logical.plan import scans
from everfresh.types import TableSchema, quoted

if TYPE_CHECKING:
    from everfresh.database import Database


class Following:
    """Keeps the tables of one database that follow objects. The lock is held by whoever calls."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def execute(self, engine: Engine, statement: Any, progress: Progress | None = None) -> int:
        """Run a DDL statement of SQL, with what it needs of objects before and leaves of them behind."""
        if isinstance(statement, s.CreateTable):
            engine.objects.check_free(statement.schema.name)
        elif isinstance(statement, s.CreateQuery):
            engine.objects.check_free(statement.name)
        elif isinstance(statement, s.CreateView):
            engine.objects.check_free(statement.name)
            self._make(engine, statement)
        elif isinstance(statement, s.Drop) and statement.cascade:
            found = engine.catalog.resolve(statement.name)
            if found is not None:
                self.drop_views(engine, [found], within=True)
        try:
            engine.execute(statement, progress)
        except EverfreshError:
            self.forget(engine)
            raise
        self.forget(engine)
        return engine.epoch

    def drop_views(self, engine: Engine, names: Sequence[str], *, within: bool = False) -> None:
        """Drop the SQL views that read one of these, through objects of other domains too; those that come
        behind objects only, if `within` says that the others are dropped by themselves."""
        catalog, order = engine.catalog, engine.objects.order
        views = views_over(catalog, order, names)
        direct = {view.name for name in names for view in catalog.affected_by((name,))} if within else set()
        for name in reversed(views):
            if name not in direct and name in engine.catalog.views:
                engine.execute(_statement(f"DROP MATERIALIZED VIEW {quoted(name)} CASCADE", engine))
        self.forget(engine)

    def readers(self, engine: Engine, name: str) -> tuple[str, ...]:
        """The SQL views that read an object, directly or not."""
        return views_over(engine.catalog, engine.objects.order, [name])

    def forget(self, engine: Engine) -> None:
        """Drop the tables that follow an object and that no view reads."""
        for name, schema in list(engine.catalog.tables.items()):
            if schema.follows and not engine.catalog.views_on(name):
                engine.execute(_statement(f"DROP TABLE {quoted(name)}", engine))

    def _make(self, engine: Engine, statement: s.CreateView) -> None:
        """Make and fill what a new view will read of objects."""
        catalog, objects = engine.catalog, engine.objects
        if statement.if_not_exists and catalog.resolve(statement.name) is not None:
            return
        named = dict.fromkeys(scan.table for scan in scans(statement.plan))
        wanted = [found for name in named if (found := objects.find(name)) is not None]
        fresh = [one for one in wanted if not (follows(catalog, one.name) and catalog.views_on(one.name))]
        if not fresh:
            return
        self.forget(engine)
        catalog = engine.catalog
        made, silent = [], []
        for one in fresh:
            if not one.publishes:
                folder = engine.folder
                root = folder.root if folder is not None else None
                telling = objects.domains[one.domain].publishing(one.name, root)
                if telling is None:
                    raise EverfreshError(
                        Code.UNSUPPORTED,
                        f"{one.kind} '{one.name}' does not tell what changes in it, so no view can follow it",
                        place=statement.place,
                        hint="load it into a table or an array, or read it with SELECT",
                    )
                silent.append(Batch(statements={one.domain: (telling,)}))
            columns = objects.domains[one.domain].columns(one.name)
            if not columns:
                raise EverfreshError(
                    Code.UNSUPPORTED,
                    f"'{one.name}' has no columns that SQL could read",
                    place=statement.place,
                )
            made.append(_statement(TableSchema(one.name, columns, follows=True).ddl, engine))
            catalog, _ = catalog.execute(made[-1])
        catalog.execute(statement, {})  # what is wrong with the view is said before anything is done
        for batch in silent:
            self._db._commit(batch)
        for one, create in zip(fresh, made, strict=True):
            engine.execute(create)
            rows: pa.Table = objects.domains[one.domain].read(one.name)
            schema = engine.catalog.tables[one.name]
            rows = rows.select(schema.names).cast(schema.arrow)
            if rows.num_rows:
                self._db._commit(Batch((Part(one.name, "insert", rows, f"{one.kind} '{one.name}'"),)))


def _statement(text: str, engine: Engine) -> Any:
    (statement,) = s.parse_and_bind(text, engine.catalog, "duckdb")
    return statement
