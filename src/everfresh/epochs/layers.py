"""In which order objects of other domains and SQL views are stepped, where views read objects.

A SQL view reads an object through a table that *follows* it: one of the same name in the catalog, which
gets the changes that the object publishes and is nobody else's to change. Objects and views are stepped in
layers. In layer 0 are objects that read no table and no SQL view; behind it tables change and all SQL views
with them. In layer 1 are objects that read tables, or views that are done by then; behind it those views
change once more that follow objects of layer 1; and so on. An object is stepped once, when all that it reads
is done.

Invariant: an object's layer is later than that of every object which a SQL view that it reads follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from everfresh.delta.bags import net, weigh
from everfresh.epochs.domain import Object, Published
from everfresh.types import TableSchema


@dataclass(frozen=True)
class Layers:
    """The layers of all objects by name, and the objects that tables follow which some view reads."""

    objects: Mapping[str, int]
    views: Mapping[str, int]
    followed: frozenset[str]

    def of(self, name: str) -> int:
        """The layer of an object."""
        return self.objects[name]

    @property
    def count(self) -> int:
        """How many layers there are."""
        return 1 + max(self.objects.values(), default=0)


def layers(catalog: Any, order: Sequence[Object]) -> Layers:
    """The layers of objects, given each after what it reads, and of the SQL views of a catalog."""
    by_name = {one.name: one for one in order}
    objects: dict[str, int] = {}
    relations: dict[str, int] = {}

    def of_object(one: Object) -> int:
        if one.name not in objects:
            reached = [
                of_object(by_name[name]) if name in by_name else of_relation(name) + 1 for name in one.reads
            ]
            objects[one.name] = max(reached, default=0)
        return objects[one.name]

    def of_relation(name: str) -> int:
        """The layer behind which a table or view is done."""
        if name not in relations:
            view = catalog.views.get(name)
            if view is not None:
                relations[name] = max(map(of_relation, view.compiled.bases), default=0)
            else:
                followed = name in by_name and follows(catalog, name)
                relations[name] = of_object(by_name[name]) if followed else 0
        return relations[name]

    for one in order:
        of_object(one)
    views = {name: of_relation(name) for name in catalog.views}
    read = {base for view in catalog.views.values() for base in view.compiled.bases}
    return Layers(objects, views, frozenset(n for n in by_name if n in read and follows(catalog, n)))


def follows(catalog: Any, name: str) -> bool:
    """Whether a table of this name follows an object."""
    table: TableSchema | None = catalog.tables.get(name)
    return table is not None and table.follows


def rows_that_came(change: Published, now: Callable[[], pa.Table], then: Callable[[], pa.Table]) -> pa.Table:
    """The change of an object as one of the table that follows it: as it was published, or where that is
    right but for rounding, what the object is now against what the table has."""
    if getattr(change, "exact", True):
        return net(change.table)
    before = then()
    after = now().select(before.column_names).cast(before.schema)
    return net(pa.concat_tables([weigh(after), weigh(before, -1)]))


def views_over(catalog: Any, order: Iterable[Object], names: Iterable[str]) -> tuple[str, ...]:
    """The SQL views that read one of these objects, tables and views, directly or through others of any kind,
    each after what it reads; those among the names are not."""
    reached, found = set(names), dict.fromkeys(names)
    size = -1
    while size != len(reached):
        size = len(reached)
        for view in catalog.views.values():
            if reached.intersection(view.compiled.bases):
                reached.add(view.name)
        for one in order:
            if reached.intersection(one.reads):
                reached.add(one.name)
    return tuple(name for name in catalog.views if name in reached and name not in found)
