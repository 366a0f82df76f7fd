"""The catalog: which tables and views there are, and what a DDL statement does to them.

A catalog is immutable: executing a statement gives a new one and an `Effect` that tells an engine which
state to make, drop or rebuild. A database is reopened by executing the texts in `ddl` in order; texts about
objects that are gone are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from everfresh.compiler.compile import CompiledView, compile_view, scans
from everfresh.compiler.estimate import Statistics, TableStats
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Var
from everfresh.sql import AddColumn, CreateTable, CreateView, Drop, DropColumn, Statement, parse_and_bind
from everfresh.sql import plan as p
from everfresh.types import Column, TableSchema

_REPEATS, _REPEATS_IN_KEY = 10.0, 4.0


@dataclass(frozen=True, slots=True)
class ViewDef:
    """A view in the catalog: its text as the user wrote it, and its compiled form."""

    name: str
    text: str
    compiled: CompiledView
    sizes: Mapping[str, int] = field(default_factory=dict)
    """How many rows the tables had when the view was compiled, if they had any."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view."""
        return self.compiled.view.columns


@dataclass(frozen=True, slots=True)
class Effect:
    """What an engine has to do for a DDL statement: drop, then alter, then create."""

    text: str
    drop_tables: tuple[str, ...] = ()
    drop_views: tuple[str, ...] = ()
    create_table: TableSchema | None = None
    create_view: ViewDef | None = None
    alter_table: tuple[TableSchema, TableSchema, Const | None] | None = None

    @property
    def nothing(self) -> bool:
        """Whether the statement changes nothing (IF [NOT] EXISTS)."""
        return self == Effect(self.text)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables and views by name. Names are found whatever their case, and kept as written."""

    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    views: Mapping[str, ViewDef] = field(default_factory=dict)
    ddl: tuple[tuple[str, str], ...] = ()
    joins: bool = False
    """Whether the engine maintains joins incrementally."""

    # -- look-up, as the SQL binder asks -----------------------------------------------------------

    def resolve(self, name: str) -> str | None:
        """The name as it was written when the object was created."""
        lowered = name.lower()
        return next((n for n in (*self.tables, *self.views) if n.lower() == lowered), None)

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """`("table" | "view", columns)`, or None."""
        found = self.resolve(name)
        if found is None:
            return None
        return (
            ("table", self.tables[found].columns)
            if found in self.tables
            else ("view", self.views[found].columns)
        )

    def table(self, name: str) -> TableSchema | None:
        """The schema of a table, or None."""
        found = self.resolve(name)
        return self.tables.get(found) if found is not None else None

    def names(self) -> list[str]:
        """All names."""
        return [*self.tables, *self.views]

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
        """What is known for the cost model: primary keys, and how many rows tables had when a view was
        created. Both are kept with the view, so that it is compiled to the same maps for ever."""
        return Statistics({n: _table_stats(schema, sizes.get(n)) for n, schema in self.tables.items()})

    # -- statements --------------------------------------------------------------------------------

    def execute(self, statement: Any, sizes: Mapping[str, int] | None = None) -> tuple[Catalog, Effect]:
        """The catalog after a DDL statement, and what an engine has to do for it.

        `sizes` are the rows of the tables, by which a new view's strategy is chosen.
        """
        match statement:
            case CreateTable():
                return self._create_table(statement)
            case CreateView():
                return self._create_view(statement, sizes or {})
            case Drop():
                return self._drop(statement)
            case AddColumn():
                return self._add_column(statement)
            case DropColumn():
                return self._drop_column(statement)
        raise TypeError(f"{type(statement).__name__} is not a DDL statement")

    def replay(self, entry: str) -> tuple[Catalog, Effect]:
        """`execute` for one statement as commit records keep it."""
        head, text = entry.split("|", 1)
        dialect, *known = head.split(" ")
        (statement,) = parse_and_bind(text, self, dialect)
        return self.execute(statement, dict(zip(known[::2], map(int, known[1::2]), strict=True)))

    def _taken(self, name: str, kind: str, *, replace: bool, skip: bool) -> str | None:
        """The existing object called `name`, if the statement may replace or skip it; raises otherwise."""
        found = self.resolve(name)
        if found is None or skip:
            return found
        is_kind = found in (self.tables if kind == "table" else self.views)
        if replace and is_kind:
            return found
        what = "table" if found in self.tables else "view"
        hint = f"drop it first, or use CREATE OR REPLACE {'MATERIALIZED VIEW' if kind == 'view' else 'TABLE'}"
        raise EverfreshError(
            Code.EXISTS,
            f"there is already a {what} '{found}'",
            hint=hint if is_kind else "choose another name",
        )

    def _create_table(self, s: CreateTable) -> tuple[Catalog, Effect]:
        if s.options:
            option = next(iter(s.options))
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the table option '{option}' is not supported",
                hint="every table keeps its rows",
            )
        found = self._taken(s.schema.name, "table", replace=s.or_replace, skip=s.if_not_exists)
        if found is not None and not s.or_replace:
            return self, Effect(_entry(s))
        drop: tuple[str, ...] = ()
        base = self
        if found is not None:
            self._no_dependents(found)
            drop, base = (found,), self._without(found)
        new = replace(
            base, tables={**base.tables, s.schema.name: s.schema}, ddl=(*base.ddl, (s.schema.name, _entry(s)))
        )
        return new, Effect(_entry(s), drop_tables=drop, create_table=s.schema)

    def _create_view(self, s: CreateView, sizes: Mapping[str, int]) -> tuple[Catalog, Effect]:
        found = self._taken(s.name, "view", replace=s.or_replace, skip=s.if_not_exists)
        if found is not None and not s.or_replace:
            return self, Effect(_entry(s))
        read = {scan.table for scan in scans(s.plan)}
        sizes = {name: rows for name, rows in sizes.items() if name in read and rows and " " not in name}
        options = dict(s.options)
        strategy = str(options.pop("strategy", "auto"))
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
        known = self.statistics(sizes)
        compiled = compile_view(s.name, s.plan, strategy, self.views, self.joins, known)
        view = ViewDef(s.name, s.text, compiled, sizes)
        entry = _entry(s, sizes)
        base = self._without(found) if found is not None else self
        new = replace(base, views={**base.views, s.name: view}, ddl=(*base.ddl, (s.name, entry)))
        return new, Effect(entry, drop_views=(found,) if found is not None else (), create_view=view)

    def _drop(self, s: Drop) -> tuple[Catalog, Effect]:
        found = self.resolve(s.name)
        if found is None and s.if_exists:
            return self, Effect(_entry(s))
        kind, name = (
            ("view", self.expect_view(s.name).name)
            if s.kind == "view"
            else ("table", self.expect_table(s.name).name)
        )
        dependents = tuple(v.name for v in self.affected_by((name,)) if v.name != name)
        if dependents and not s.cascade:
            self._no_dependents(name)
        new = self
        for gone in (*dependents, name):
            new = new._without(gone)
        if kind == "view":
            return new, Effect(_entry(s), drop_views=(*dependents, name))
        return new, Effect(_entry(s), drop_tables=(name,), drop_views=dependents)

    def _no_dependents(self, name: str) -> None:
        dependents = [v.name for v in self.views_on(name)]
        if dependents:
            kind = "TABLE" if name in self.tables else "MATERIALIZED VIEW"
            raise EverfreshError(
                Code.DEPENDENCY,
                f"'{name}' is read by {', '.join(dependents)}",
                hint=f"drop them first, or DROP {kind} {name} CASCADE",
            )

    def _without(self, name: str) -> Catalog:
        return replace(
            self,
            tables={n: t for n, t in self.tables.items() if n != name},
            views={n: v for n, v in self.views.items() if n != name},
            ddl=tuple((n, text) for n, text in self.ddl if n != name),
        )

    def _add_column(self, s: AddColumn) -> tuple[Catalog, Effect]:
        old = self.expect_table(s.table)
        if any(c.name.lower() == s.column.name.lower() for c in old.columns):
            if s.if_not_exists:
                return self, Effect(_entry(s))
            raise EverfreshError(Code.EXISTS, f"table '{old.name}' already has a column '{s.column.name}'")
        if not s.column.nullable and (s.default is None or s.default.value is None):
            raise EverfreshError(
                Code.NULL,
                f"the new column '{s.column.name}' is NOT NULL and has no default",
                hint="give a DEFAULT, or leave NOT NULL out",
            )
        new = replace(old, columns=(*old.columns, s.column))
        return self._altered(_entry(s), old, new, s.default)

    def _drop_column(self, s: DropColumn) -> tuple[Catalog, Effect]:
        old = self.expect_table(s.table)
        name = next((c.name for c in old.columns if c.name.lower() == s.column.lower()), None)
        if name is None and s.if_exists:
            return self, Effect(_entry(s))
        if name is None:
            old.column(s.column)  # raises, listing the columns
            raise AssertionError("unreachable")
        if name in old.key:
            raise EverfreshError(
                Code.DEPENDENCY, f"column '{name}' is part of the primary key of '{old.name}'"
            )
        if len(old.columns) == 1:
            raise EverfreshError(
                Code.UNSUPPORTED, f"'{name}' is the only column of '{old.name}'", hint="drop the table"
            )
        position = old.names.index(name)
        readers = [v.name for v in self.views_on(old.name) if _reads(v.compiled.plan, old.name, position)]
        if readers:
            raise EverfreshError(
                Code.DEPENDENCY,
                f"column '{name}' of '{old.name}' is read by {', '.join(readers)}",
                hint="drop these views first",
            )
        new = replace(old, columns=tuple(c for c in old.columns if c.name != name))
        return self._altered(_entry(s), old, new, None)

    def _altered(
        self, text: str, old: TableSchema, new: TableSchema, default: Const | None
    ) -> tuple[Catalog, Effect]:
        """Views over the table keep their columns: only the relation atoms in their programs change."""
        views = dict(self.views)
        for view in self.views_on(old.name):
            plan = _rescan(view.compiled.plan, old, new)
            views[view.name] = replace(
                view,
                compiled=compile_view(
                    view.name,
                    plan,
                    view.compiled.strategy,
                    self.views,
                    self.joins,
                    self.statistics(view.sizes),
                ),
            )
        tables = {**self.tables, new.name: new}
        catalog = replace(self, tables=tables, views=views, ddl=(*self.ddl, (new.name, text)))
        return catalog, Effect(text, alter_table=(old, new, default))


def _table_stats(schema: TableSchema, size: int | None) -> TableStats:
    """What is likely of a table: a column that is no key repeats, and larger tables change more often."""
    rows = TableStats().rows if size is None else float(size)
    repeats = {name: 1.0 if len(schema.key) == 1 else _REPEATS_IN_KEY for name in schema.key}
    distinct = tuple(rows / repeats.get(name, _REPEATS) for name in schema.names)
    keys = (frozenset(schema.names.index(name) for name in schema.key),) if schema.key else ()
    return TableStats(rows, distinct, keys, rate=1.0 if size is None else rows)


def _entry(s: Statement, sizes: Mapping[str, int] | None = None) -> str:
    """A statement as it is kept: `dialect|text`; a table by its schema, replacing what it replaced; a view
    with the sizes it was compiled for, `dialect table rows ...|text`."""
    if isinstance(s, CreateTable):
        return "duckdb|" + s.schema.ddl.replace(
            "CREATE ", "CREATE OR REPLACE " if s.or_replace else "CREATE ", 1
        )
    known = "".join(f" {name} {rows}" for name, rows in (sizes or {}).items())
    return f"{s.dialect}{known}|{s.text}"


def _rescan(plan: p.Plan, old: TableSchema, new: TableSchema) -> p.Plan:
    """A plan whose scans of a table follow a change of its columns; the other variables stay as they are."""
    taken = {n.name for n in plan.walk() if isinstance(n, Var)}

    def scan(node: p.Scan) -> p.Scan:
        known = dict(zip(old.names, node.vars, strict=True))
        vars_ = []
        for column in new.columns:
            var = known.get(column.name)
            if var is None:
                name, i = column.name, 1
                while name in taken:
                    name, i = f"{column.name}_{i}", i + 1
                taken.add(name)
                var = Var(name, column.type, column.nullable)
            vars_.append(var)
        return replace(node, vars=tuple(vars_))

    def visit(node: Any) -> Any:
        if isinstance(node, p.Scan):
            return scan(node) if node.table == old.name else node
        return node.map_children(visit)

    return visit(plan)  # type: ignore[no-any-return]


def _reads(plan: p.Plan, table: str, position: int) -> bool:
    """Whether something in a plan reads the column at `position` of a table."""
    wanted = {s.vars[position].name for s in plan.walk() if isinstance(s, p.Scan) and s.table == table}
    return any(v.name in wanted for v in _outside_scans(plan))


def _outside_scans(node: Any) -> Iterator[Var]:
    if isinstance(node, Var):
        yield node
    elif not isinstance(node, p.Scan):
        for child in node.children:
            yield from _outside_scans(child)
