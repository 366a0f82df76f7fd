"""Values that maps take apart, checked as a whole where they may leave their types (`compiler.overflow`), on
Spark.

How far columns reach is found by a query for the rows that are there, once in a session, and then told by the
tasks that change them. A batch after which a value of a view can leave its type is checked before it is
committed, by the view's own query over the tables as they are then.

Invariant: that of the local engine's twin, `local.unsplit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from everfresh.compiler import Catalog
from everfresh.compiler.overflow import Guards, Interval, Reach
from everfresh.local.batch.overflow import extremes
from everfresh.local.store.table import Net, Table
from everfresh.types import TableSchema, to_physical

Look = Callable[[TableSchema, Sequence[int]], tuple[int, list[Interval]]]
"""How many rows a table has, and the extremes of some of its columns."""
Reached = dict[str, tuple[int, dict[int, Interval]]]
"""Of tables how many rows came and went, and the extremes of their exact columns, by place."""


class UnsplitOnSpark:
    """The checks of all views of a session."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._guards = Guards({})
        self._reach = Reach()
        self._counts: dict[str, int] = {}
        self._known: dict[str, tuple[str, TableSchema, tuple[int, ...]]] = {}

    def ready(self, catalog: Catalog, ids: Mapping[str, str], views: Collection[str], look: Look) -> None:
        """Before these views change: see how far the columns reach that their values are made of."""
        if self._catalog is not catalog:
            self._catalog = catalog
            self._guards = Guards({name: view.compiled for name, view in catalog.views.items()})
        if not self._guards.watched.keys() & set(views):
            return
        for name, places in self._guards.columns.items():
            known = ids[name], catalog.tables[name], places
            if self._known.get(name) != known:
                rows, found = look(catalog.tables[name], places)
                self._forget((name,))
                self._counts[name] = 0
                self._note(name, rows, dict(zip(places, found, strict=True)))
                self._known[name] = known

    def asked(self, views: Collection[str], came: Sequence[Reached]) -> list[str]:
        """Those of some views whose values may leave their types now that these rows came."""
        for rows_of in came:
            for name, (rows, columns) in rows_of.items():
                if name in self._known:
                    self._note(name, rows, {i: columns[i] for i in self._known[name][2] if i in columns})
        found = [v for v in views if v in self._guards.watched and self._guards.hides(v, self._reach)]
        if found:  # the rows that reached so far may be refused, or have gone
            self._forget(tuple(self._known))
        return found

    def _note(self, name: str, rows: int, columns: Mapping[int, Interval]) -> None:
        self._counts[name] += rows
        self._reach.add(name, self._counts[name])
        for place, (least, most) in columns.items():
            self._reach.see(name, place, least, most)

    def _forget(self, names: Collection[str]) -> None:
        """Tables that are looked at anew when they are asked for."""
        for name in names:
            self._known.pop(name, None)
            self._reach.rows.pop(name, None)
            for key in [key for key in self._reach.columns if key[0] == name]:
                del self._reach.columns[key]


def reached(tables: Mapping[str, Table], nets: Mapping[str, Net]) -> dict[str, Any]:
    """How far the rows of changes reach, for the header of a control row."""
    return {
        name: [
            net.rows,
            [
                [i, *extremes(tables[name].codec, column, net.words)]
                for i, column in enumerate(tables[name].schema.columns)
                if column.type.is_exact
            ],
        ]
        for name, net in nets.items()
        if len(net)
    }


def reach_of(header: Mapping[str, Any]) -> Reached:
    """What `reached` has put into a header."""
    return {
        name: (rows, {i: (least, most) for i, least, most in columns})
        for name, (rows, columns) in header.get("reach", {}).items()
    }


def looked(row: Sequence[Any], schema: TableSchema, places: Sequence[int]) -> tuple[int, list[Interval]]:
    """The answer to `look_sql`."""
    found = []
    for at, place in enumerate(places):
        type_ = schema.columns[place].type
        least, most = row[1 + 2 * at], row[2 + 2 * at]
        found.append((0, 0) if least is None else (to_physical(least, type_), to_physical(most, type_)))
    return int(row[0]), found


def look_sql(schema: TableSchema, places: Sequence[int]) -> list[str]:
    """What to select from a table to know how far its columns reach."""
    names = [schema.names[place].replace("`", "``") for place in places]
    return ["count(1)", *(f"{fn}(`{name}`)" for name in names for fn in ("min", "max"))]
