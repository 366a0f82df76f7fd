"""The catalog: which tables and views there are, and what a DDL statement does to them.

A catalog is immutable: executing a statement gives a new one and an `Effect` that tells an engine which
state to make, drop or rebuild. A database is reopened by executing the texts in `ddl` in order; texts about
objects that are gone are left out. What was decided when a view was compiled is kept with its text
(`entries`), so that it gets the same maps for ever, also those it shares with a view that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from everfresh.calculus import Query
from everfresh.compiler.altering import altered, holds, reads
from everfresh.compiler.choice.estimate import Statistics, TableStats
from everfresh.compiler.compile import CompiledView, Setting, compile_view
from everfresh.compiler.ddl_log import Record, entry_of, record_of, upkeep_of
from everfresh.compiler.effect import Effect, ViewDef
from everfresh.compiler.listing import parse_listing, shown_over
from everfresh.compiler.lowering.lower import RULES
from everfresh.compiler.named_types import named
from everfresh.compiler.plain_views import PlainView, going
from everfresh.compiler.plain_views import readers as readers_of
from everfresh.compiler.redeclaring import commented, redeclared, renamed
from everfresh.compiler.sharing import cut, handed_on, joined, offers, readers, upkeep
from everfresh.delta.bags import EPOCH, WEIGHT
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Made, stored
from everfresh.program import Program, Progress
from everfresh.sql import (
    AddColumn,
    Comment,
    CreateQuery,
    CreateTable,
    CreateType,
    CreateView,
    Drop,
    DropColumn,
    DropType,
    Nothing,
    Redeclare,
    Rename,
    parse_and_bind,
)
from everfresh.sql.constraints import using
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.plan import scans
from everfresh.types import Column, SqlType, TableSchema, fold

_REPEATS, _REPEATS_IN_KEY = 10.0, 4.0


@dataclass(frozen=True)
class Catalog:
    """Tables and views by name. Names are found whatever their case, and kept as written."""

    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    views: Mapping[str, ViewDef] = field(default_factory=dict)
    ddl: tuple[tuple[str, str], ...] = ()
    joins: bool = False
    """Whether the engine maintains joins incrementally, and shares maps between views."""
    share: bool = True
    """Whether views may share maps, if the engine does that at all."""
    intervals: bool = True
    """Whether it keeps maps in order, and reads off them where a condition on a running sum holds, and which
    value is the next."""
    rows: bool = False
    """Whether statements read the rows of a table where a map would have an entry for each of them."""
    wide: int | None = None
    """From how many columns on a program has only the columns of a table that it reads; None: it has all."""
    queries: Mapping[str, PlainView] = field(default_factory=dict)
    """Plain views, which are part of what reads them."""
    comments: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What is said of tables, views (with the column '') and their columns."""
    types: Mapping[str, SqlType] = field(default_factory=dict)
    """Types with names of their own, by lower-case name."""

    # -- look-up, as the SQL binder asks -----------------------------------------------------------

    def resolve(self, name: str) -> str | None:
        """The name as it was written when the object was created."""
        if name in self.tables or name in self.views or name in self.queries:
            return name
        lowered = fold(name)
        return next((n for n in self.names() if fold(n) == lowered), None)

    def other(self, name: str) -> tuple[str, str] | None:
        """Nothing: the objects of other domains are the database's to know."""
        return None

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """`("table" | "view", columns)`, or None."""
        found = self.resolve(name)
        if found is None:
            return None
        if found in self.queries:
            return "plain view", self.queries[found].columns
        return (
            ("table", self.tables[found].columns)
            if found in self.tables
            else ("view", self.views[found].columns)
        )

    @cached_property
    def plain(self) -> Mapping[str, p.Plan]:
        """The queries of plain views, by name."""
        return {name: query.plan for name, query in self.queries.items()}

    def table(self, name: str) -> TableSchema | None:
        """The schema of a table, or None."""
        found = self.resolve(name)
        return self.tables.get(found) if found is not None else None

    def names(self) -> list[str]:
        """All names."""
        return [*self.tables, *self.views, *self.queries]

    def expect_table(self, name: str) -> TableSchema:
        """The schema of a table, or an error that lists what there is."""
        schema = self.table(name)
        if schema is None:
            found = self.resolve(name)
            message = f"'{name}' is a view, not a table" if found else f"there is no table '{name}'"
            raise EverfreshError(
                Code.NOT_FOUND, message, hint="tables are: " + (", ".join(self.tables) or "none yet")
            )
        return schema

    def expect_view(self, name: str) -> ViewDef:
        """A view, or an error that lists what there is."""
        found = self.resolve(name)
        if found in self.queries:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"'{found}' is a view that is not materialized: it has a query, and no rows of its own",
                hint="read it with SELECT, or CREATE MATERIALIZED VIEW",
            )
        if found is None or found not in self.views:
            message = f"'{name}' is a table, not a view" if found else f"there is no view '{name}'"
            raise EverfreshError(
                Code.NOT_FOUND, message, hint="views are: " + (", ".join(self.views) or "none yet")
            )
        return self.views[found]

    def views_on(self, name: str) -> tuple[ViewDef, ...]:
        """The views that read a table or view directly, in the order in which they were created."""
        return tuple(v for v in self.views.values() if name in v.compiled.bases)

    def affected_by(self, names: Iterable[str]) -> tuple[ViewDef, ...]:
        """The views that a change of these tables may change, each after the views it reads."""
        reached = set(names)
        found = []
        for view in self.views.values():  # a view is created after what it reads
            if reached.intersection(view.compiled.bases):
                reached.add(view.name)
                found.append(view)
        return tuple(found)

    def statistics(self, sizes: Mapping[str, int]) -> Statistics:
        """What is known for the cost model: primary keys, and how many rows tables have."""
        tables = {n: _table_stats(schema, sizes.get(n)) for n, schema in self.tables.items()}
        return Statistics(tables, unknown=frozenset(n for n in tables if n not in sizes))

    @property
    def static(self) -> frozenset[str]:
        """Static tables, and the views that read nothing else: they do not change while they are read."""
        found = {name for name, schema in self.tables.items() if schema.static}
        for view in self.views.values():
            if found.issuperset(view.compiled.bases):
                found.add(view.name)
        return frozenset(found)

    @property
    def passing(self) -> frozenset[str]:
        """The tables whose rows are not kept."""
        return frozenset(name for name, schema in self.tables.items() if not schema.retained)

    @property
    def schemas(self) -> dict[str, tuple[Column, ...]]:
        """The columns of all tables and views."""
        tables = {name: schema.columns for name, schema in self.tables.items()}
        return tables | {name: view.columns for name, view in self.views.items()}

    @property
    def compiled(self) -> dict[str, CompiledView]:
        """The programs of all views."""
        return {name: view.compiled for name, view in self.views.items()}

    def sharing(self, view: str) -> dict[str, tuple[str, ...]]:
        """The maps of a view's program that others have too, and the views that have them, the owner
        first."""
        program, views = self.views[view].compiled.program, self.compiled
        found = {m.name: readers(views, m.name) for m in (*program.maps, *program.shared)}
        return {name: having for name, having in found.items() if len(having) > 1}

    # -- statements --------------------------------------------------------------------------------

    def execute(
        self,
        statement: Any,
        sizes: Mapping[str, int] | None = None,
        record: Record | None = None,
        progress: Progress | None = None,
    ) -> tuple[Catalog, Effect]:
        """The catalog after a DDL statement, and what an engine has to do for it.

        `sizes` are the rows of the tables, by which a new view's strategy is chosen, unless `record` says
        what was chosen before.
        """
        match statement:
            case CreateTable():
                return self._create_table(statement)
            case CreateView():
                return self._create_view(statement, sizes or {}, record, progress)
            case CreateQuery():
                return self._create_query(statement)
            case Drop():
                return self._drop(statement)
            case AddColumn():
                return self._add_column(statement)
            case DropColumn():
                return self._drop_column(statement)
            case Rename():
                return self._rename(statement)
            case Redeclare():
                return self._redeclare(statement)
            case Comment():
                told = (statement.name, statement.column, statement.comment)
                return commented(self, statement, entry_of(statement)), Effect(
                    entry_of(statement), comment=told
                )
            case CreateType() | DropType():
                return named(self, statement)
            case Nothing():
                return self, Effect(entry_of(statement))
        raise TypeError(f"{type(statement).__name__} is not a DDL statement")

    def replay(self, entry: str) -> tuple[Catalog, Effect]:
        """`execute` for one statement as commit records keep it."""
        dialect, record, text = record_of(entry)
        (statement,) = parse_and_bind(text, self, dialect)
        return self.execute(statement, None, record)

    def _taken(self, name: str, kind: str, *, replace: bool, skip: bool) -> str | None:
        """The existing object called `name`, if the statement may replace or skip it; raises otherwise."""
        found = self.resolve(name)
        if found is None or skip:
            return found
        known: Mapping[str, Mapping[str, Any]] = {
            "TABLE": self.tables, "MATERIALIZED VIEW": self.views, "VIEW": self.queries,
        }  # fmt: skip
        is_kind = found in known[kind]
        if replace and is_kind:
            return found
        what = "table" if found in self.tables else "view"
        hint = f"drop it first, or use CREATE OR REPLACE {kind}"
        raise EverfreshError(
            Code.EXISTS,
            f"there is already a {what} '{found}'",
            hint=hint if is_kind else "choose another name",
        )

    def _create_table(self, s: CreateTable) -> tuple[Catalog, Effect]:
        if not s.schema.retained:
            _check_passing(s.schema)
        found = self._taken(s.schema.name, "TABLE", replace=s.or_replace, skip=s.if_not_exists)
        if found is not None and not s.or_replace:
            return self, Effect(entry_of(s))
        drop: tuple[str, ...] = ()
        base = self
        if found is not None:
            self._no_dependents(found)
            drop, base = (found,), self._without(found)
        new = replace(
            base,
            tables={**base.tables, s.schema.name: s.schema},
            ddl=(*base.ddl, (s.schema.name, entry_of(s))),
        )
        return new, Effect(entry_of(s), drop_tables=drop, create_table=s.schema)

    def _create_view(
        self, s: CreateView, sizes: Mapping[str, int], record: Record | None, progress: Progress | None
    ) -> tuple[Catalog, Effect]:
        found = self._taken(s.name, "MATERIALIZED VIEW", replace=s.or_replace, skip=s.if_not_exists)
        if found is not None and not s.or_replace:
            return self, Effect(entry_of(s))
        options = dict(s.options)
        strategy = str(options.pop("strategy", "auto")).lower()
        if options:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the view option '{next(iter(options))}' is not supported",
                hint="options of a view are: strategy",
            )
        if found is not None:
            self._no_dependents(found)
            if any(scan.table == found for scan in scans(s.plan)):
                raise EverfreshError(
                    Code.DEPENDENCY,
                    f"the view '{found}' cannot read itself",
                    hint="create it under another name, or write its query in full",
                )
        base = self._without(found) if found is not None else self
        if record is None:  # a view of a folder that is opened was taken when it was created
            _refuse_reserved(s.columns)
            known = {n: rows for n, rows in sizes.items() if rows}
            compiled, record = base._compiled(s, strategy, known, progress)
        else:
            compiled = base._recompiled(s, strategy, record)
        view = ViewDef(s.name, s.text, compiled, s.through)
        entry = entry_of(s, record)
        new = replace(base, views={**base.views, s.name: view}, ddl=(*base.ddl, (s.name, entry)))
        return new, Effect(entry, drop_views=(found,) if found is not None else (), create_view=view)

    def _create_query(self, s: CreateQuery) -> tuple[Catalog, Effect]:
        found = self._taken(s.name, "VIEW", replace=s.or_replace, skip=s.if_not_exists)
        if found is not None and not s.or_replace:
            return self, Effect(entry_of(s))
        base = self
        if found is not None:
            if found in s.through:
                raise EverfreshError(Code.DEPENDENCY, f"the view '{found}' cannot read itself")
            self._no_dependents(found)
            base = self._without(found)
        view, entry = PlainView.of(s), entry_of(s)
        new = replace(base, queries={**base.queries, s.name: view}, ddl=(*base.ddl, (s.name, entry)))
        gone = (found,) if found is not None else ()
        return new, Effect(entry, drop_queries=gone, create_query=view)

    def _compiled(
        self, s: CreateView, strategy: str, sizes: Mapping[str, int], progress: Progress | None
    ) -> tuple[CompiledView, Record]:
        """A new view, and what was decided for it."""
        views = self.compiled
        known = {m.name for v in views.values() for m in v.program.maps}
        prefix, number = s.name, 1
        while prefix in known or any(name.startswith(f"{prefix}#") for name in known):
            number += 1
            prefix = Made(f"{s.name}~{number}")
        offered = tuple(m for v in views.values() for m in offers(v)) if self.joins and self.share else ()
        compiled = compile_view(
            s.name,
            s.plan,
            strategy,
            self.views,
            self.joins,
            self.statistics(sizes),
            Setting(
                prefix,
                self.static if self.joins else frozenset(),
                offered,
                None,
                self._keyed(self.rows),
                self.passing,
                self.intervals,
                self.wide,
                partial(progress, f"compiling {s.name}") if progress is not None else None,
            ),
        )
        shared = tuple(m.name for m in compiled.program.shared)
        kept = upkeep(shared, [v.program for v in views.values()])
        record = Record(
            prefix if isinstance(prefix, Made) else "",
            compiled.decisions,
            tuple(map(stored, shared)),
            kept.to_text(shown_over(kept, self.schemas)),
            rules=RULES,
            rows=self.rows,
        )
        return compiled, record

    def _keyed(self, rows: bool) -> dict[str, frozenset[int]]:
        """The tables whose rows statements read in place of maps, if they do, by their primary keys."""
        if not rows:
            return {}
        return {
            name: frozenset(schema.names.index(column) for column in schema.key)
            for name, schema in self.tables.items()
            if schema.key
        }

    def _recompiled(self, s: CreateView, strategy: str, record: Record) -> CompiledView:
        """A view as it was decided before. Maps that it shared with a view that is gone are its own."""
        kept: Program[Any] = parse_listing(upkeep_of(record, self.views), self.schemas)
        by_name = {text: m for m in kept.maps for text in (str(m.name), stored(m.name))}
        setting = Setting(
            record.prefix,
            self.static if self.joins else frozenset(),
            tuple(by_name[text] for text in record.shared),
            record.decisions,
            self._keyed(record.rows),
            intervals=self.intervals,
            wide=self.wide,
            rules=record.rules,
        )
        compiled = compile_view(s.name, s.plan, strategy, self.views, self.joins, None, setting)
        there = {m.name for v in self.compiled.values() for m in v.program.maps}
        gone = cut(kept, {m.name for m in kept.maps} - there)
        return replace(compiled, program=joined(compiled.program, gone)) if gone.maps else compiled

    def _drop(self, s: Drop) -> tuple[Catalog, Effect]:
        found = self.resolve(s.name)
        if found is None and s.if_exists:
            return self, Effect(entry_of(s))
        if s.kind == "plain view" and found is not None and found in self.queries:
            name = found
        else:
            name = (self.expect_table(s.name) if s.kind == "table" else self.expect_view(s.name)).name
        dependents = going(self, name)
        if dependents and not s.cascade:
            self._no_dependents(name)
        new = self
        for gone in (*dependents, name):
            new = new._without(gone)
        every = (*dependents, name)
        return new, Effect(
            entry_of(s),
            drop_tables=(name,) if name in self.tables else (),
            drop_views=tuple(n for n in self.views if n in every),
            drop_queries=tuple(n for n in self.queries if n in every),
            cascade=s.cascade,
        )

    def _no_dependents(self, name: str) -> None:
        dependents = readers_of(self, name)
        if dependents:
            kind = "TABLE" if name in self.tables else "VIEW" if name in self.queries else "MATERIALIZED VIEW"
            raise EverfreshError(
                Code.DEPENDENCY,
                f"'{name}' is read by {', '.join(dependents)}",
                hint=f"drop them first, or DROP {kind} {name} CASCADE",
            )

    def _without(self, name: str) -> Catalog:
        """Without a table or view that no other view reads; maps that others share are handed on."""
        views = dict(self.views)
        if name in views:
            left = handed_on(self.compiled, name)
            views = {n: replace(views[n], compiled=compiled) for n, compiled in left.items()}
        return replace(
            self,
            tables={n: t for n, t in self.tables.items() if n != name},
            views=views,
            queries={n: q for n, q in self.queries.items() if n != name},
            comments={what: text for what, text in self.comments.items() if what[0] != name},
            ddl=tuple((n, text) for n, text in self.ddl if n != name),
        )

    def _add_column(self, s: AddColumn) -> tuple[Catalog, Effect]:
        old = self.expect_table(s.table)
        if any(fold(c.name) == fold(s.column.name) for c in old.columns):
            if s.if_not_exists:
                return self, Effect(entry_of(s))
            raise EverfreshError(Code.EXISTS, f"table '{old.name}' already has a column '{s.column.name}'")
        if not s.column.nullable and (s.default is None or s.default.value is None):
            raise EverfreshError(
                Code.NULL,
                f"the new column '{s.column.name}' is NOT NULL and has no default",
                hint="give a DEFAULT, or leave NOT NULL out",
            )
        defaults = ((s.column.name, s.default_text),) if s.default_text else ()
        new = replace(old, columns=(*old.columns, s.column), defaults=(*old.defaults, *defaults))
        return self._altered(entry_of(s), old, new, s.default)

    def _drop_column(self, s: DropColumn) -> tuple[Catalog, Effect]:
        old = self.expect_table(s.table)
        name = next((c.name for c in old.columns if fold(c.name) == fold(s.column)), None)
        if name is None and s.if_exists:
            return self, Effect(entry_of(s))
        if name is None:
            old.column(s.column)  # raises, listing the columns
            raise AssertionError("unreachable")
        if name in old.key:
            raise EverfreshError(
                Code.DEPENDENCY, f"column '{name}' is part of the primary key of '{old.name}'"
            )
        users = [one for one in using(old, name) if one != f"the generated column '{name}'"]
        if users:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"column '{name}' of '{old.name}' is used by {users[0]}",
                hint="drop that first: ALTER TABLE ... DROP CONSTRAINT name, or DROP COLUMN",
            )
        if len(old.columns) == 1 or old.given == (name,):
            raise EverfreshError(
                Code.UNSUPPORTED, f"'{name}' is the only column of '{old.name}'", hint="drop the table"
            )
        position = old.names.index(name)
        on = self.views_on(old.name)
        direct = [v.name for v in on if reads(v.compiled.plan, old.name, position)]
        direct += [q.name for q in self.queries.values() if reads(q.plan, old.name, position)]
        if direct:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"column '{name}' of '{old.name}' is read by {', '.join(direct)}",
                hint="drop these views first",
            )
        for view, m in ((v, m) for v in on for m in v.compiled.program.maps):
            if isinstance(m.definition, Query) and holds(m.definition, old.name, position):
                raise EverfreshError(
                    Code.DEPENDENCY,
                    f"column '{name}' of '{old.name}' is in a map that '{view.name}' shared with a view"
                    " that is gone",
                    hint=f"drop '{view.name}' and create it again",
                )
        new = replace(
            old,
            columns=tuple(c for c in old.columns if c.name != name),
            defaults=tuple(pair for pair in old.defaults if pair[0] != name),
            generated=tuple(pair for pair in old.generated if pair[0] != name),
        )
        comments = {what: text for what, text in self.comments.items() if what != (old.name, name)}
        return replace(self, comments=comments)._altered(entry_of(s), old, new, None)

    def _rename(self, s: Rename) -> tuple[Catalog, Effect]:
        entry = entry_of(s)
        catalog, name = renamed(self, s, entry)
        if name == s.to:
            return self, Effect(entry)
        if name in self.tables:
            return catalog, Effect(entry, redeclare=(self.tables[name], catalog.tables[s.to]))
        return catalog, Effect(entry, rename=(name, s.to))

    def _redeclare(self, s: Redeclare) -> tuple[Catalog, Effect]:
        catalog, old = redeclared(self, s, entry_of(s))
        if [c.nullable for c in old.columns] != [c.nullable for c in s.schema.columns]:
            return self._altered(entry_of(s), old, s.schema, None)  # rows have a place for each NULL
        return catalog, Effect(entry_of(s), redeclare=(old, s.schema))

    def _altered(
        self, text: str, old: TableSchema, new: TableSchema, default: Const | None
    ) -> tuple[Catalog, Effect]:
        """Views over the table keep their columns: only the relation atoms in their programs change."""
        views = {
            name: replace(view, compiled=altered(view.compiled, old, new))
            if old.name in view.compiled.bases
            else view
            for name, view in self.views.items()
        }
        tables = {**self.tables, new.name: new}
        queries = {name: query.altered(old, new) for name, query in self.queries.items()}
        catalog = replace(
            self, tables=tables, views=views, queries=queries, ddl=(*self.ddl, (new.name, text))
        )
        return catalog, Effect(text, alter_table=(old, new, default))


def _refuse_reserved(columns: Iterable[Column]) -> None:
    """Refuse a view with a column that its changes have besides."""
    for column in columns:
        if fold(column.name) in (WEIGHT, EPOCH):
            raise EverfreshError(
                Code.EXISTS,
                f"a view cannot have a column '{column.name}': changes() has one of its own",
                hint=f"rename it in the view: AS {column.name.strip('_')}",
            )


def _check_passing(schema: TableSchema) -> None:
    """Refuse what cannot be had of a table whose rows are not kept."""
    if schema.key:
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"'{schema.name}' cannot have a PRIMARY KEY: its rows are not kept, so it cannot be checked",
            hint="leave PRIMARY KEY out, or leave out retain = false",
        )
    if schema.static:
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"the STATIC table '{schema.name}' must keep its rows: views are filled from them",
            hint="leave STATIC out, or leave out retain = false",
        )


def _table_stats(schema: TableSchema, size: int | None) -> TableStats:
    """What is likely of a table: a column that is no key repeats, and larger tables change more often."""
    rows = TableStats().rows if size is None else float(size)
    repeats = {name: 1.0 if len(schema.key) == 1 else _REPEATS_IN_KEY for name in schema.key}
    distinct = tuple(rows / repeats.get(name, _REPEATS) for name in schema.names)
    keys = (frozenset(schema.names.index(name) for name in schema.key),) if schema.key else ()
    return TableStats(rows, distinct, keys, rate=1.0 if size is None else rows)
