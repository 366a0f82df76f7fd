"""What goes by another name, and tables that are declared anew over the rows that they have.

A view is kept as the text that made it, which names what it reads. So nothing goes by another name while a
view is written with the one it has; a column that no view uses may. Statements are replayed in their order,
each against the names of its time: what is kept is not written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from everfresh.compiler.altering import reads
from everfresh.compiler.plain_views import readers
from everfresh.errors import Code, EverfreshError
from everfresh.sql import Comment, Redeclare, Rename
from everfresh.types import TableSchema

if TYPE_CHECKING:
    from everfresh.compiler.catalog import Catalog

T = TypeVar("T")


def renamed(catalog: Catalog, s: Rename, entry: str) -> tuple[Catalog, str]:
    """The catalog in which a table or view goes by another name; the one it had."""
    name = catalog.resolve(s.name)
    if name is None:
        raise EverfreshError(Code.NOT_FOUND, f"there is no table or view '{s.name}'")
    taken = catalog.resolve(s.to)
    if taken is not None and taken != name:
        raise EverfreshError(
            Code.EXISTS, f"there is already a table or view '{taken}'", hint="choose another name"
        )
    written = readers(catalog, name)
    if written:
        raise EverfreshError(
            Code.DEPENDENCY,
            f"'{name}' is read by {', '.join(written)}",
            hint="drop these views first, and create them again with the new name",
        )
    views, tables = _moved(catalog.views, name, s.to), _moved(catalog.tables, name, s.to)
    queries = _moved(catalog.queries, name, s.to)
    if s.to in views:
        view = views[s.to]
        compiled = replace(view.compiled, view=replace(view.compiled.view, name=s.to))
        views[s.to] = replace(view, name=s.to, compiled=compiled)
    if s.to in tables:
        tables[s.to] = replace(tables[s.to], name=s.to)
    if s.to in queries:
        queries[s.to] = replace(queries[s.to], name=s.to)
    ddl = tuple((s.to if n == name else n, text) for n, text in catalog.ddl)
    comments = {(s.to if n == name else n, c): text for (n, c), text in catalog.comments.items()}
    new = replace(catalog, tables=tables, views=views, queries=queries, comments=comments)
    return replace(new, ddl=(*ddl, (s.to, entry))), name


def _moved(known: Mapping[str, T], name: str, to: str) -> dict[str, T]:
    return {to if n == name else n: value for n, value in known.items()}


def redeclared(catalog: Catalog, s: Redeclare, entry: str) -> tuple[Catalog, TableSchema]:
    """The catalog in which a table is declared anew; what it was."""
    old, new = catalog.expect_table(s.table), s.schema
    _check_views(catalog, old, new)
    called = dict(zip(old.names, new.names, strict=True))
    comments = {
        (n, called.get(c, c) if n == old.name else c): text for (n, c), text in catalog.comments.items()
    }
    made = replace(catalog, tables={**catalog.tables, old.name: new}, comments=comments)
    return replace(made, ddl=(*catalog.ddl, (old.name, entry))), old


def commented(catalog: Catalog, s: Comment, entry: str) -> Catalog:
    """The catalog with what is said of a table, a view, or a column."""
    comments = {what: text for what, text in catalog.comments.items() if what != (s.name, s.column)}
    if s.comment is not None:
        comments[s.name, s.column] = s.comment
    return replace(catalog, comments=comments, ddl=(*catalog.ddl, (s.name, entry)))


def _check_views(catalog: Catalog, old: TableSchema, new: TableSchema) -> None:
    """Views know columns by their places, and which of them are never NULL."""
    for place, (was, now) in enumerate(zip(old.columns, new.columns, strict=True)):
        if was == now or (now.name == was.name and not now.nullable):
            continue
        views: list[Any] = [v for v in catalog.views.values() if old.name in v.compiled.bases]
        using = [v.name for v in views if was.name == now.name or reads(v.compiled.plan, old.name, place)]
        using += [
            q.name
            for q in catalog.queries.values()
            if old.name in q.reads and (was.name == now.name or reads(q.plan, old.name, place))
        ]
        if using:
            what = f"column '{was.name}' of '{old.name}' is read by {', '.join(using)}"
            raise EverfreshError(Code.DEPENDENCY, what, hint="drop these views first")
