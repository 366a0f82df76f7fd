"""What a batch has done to tables and maps, or one block of it on a worker's part: all of it is made final,
or all is taken back.

Everything that asks how it was before asks what is noted here: readers of the epoch before (`before`), the
change of a view (`published`), the segment that a worker writes (`touched`), and `rollback`.

Invariant: what is done and what is noted agree whenever somebody else may look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from everfresh.local.interpret.atoms import TableRows
from everfresh.local.relations.alike import Alike
from everfresh.local.relations.publishing import Change
from everfresh.local.relations.view_reader import RowSet
from everfresh.local.store.entries import Before, EntryStore, merged
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Touched
from everfresh.local.store.table import Net

Visited = dict[tuple[str, str, int], int]
"""Entries visited by (view, relation of the trigger, statement); -1 stands for a relation's own step."""


class Journal:
    """The changes of a batch, or of a block."""

    __slots__ = (
        "alike",
        "changes",
        "compiled",
        "done",
        "handed",
        "interpreted",
        "nets",
        "touched",
        "visited",
    )

    def __init__(self, visited: Visited | None = None) -> None:
        self.done: list[tuple[Any, Any]] = []
        """Tables and maps with what was done to them, as their `commit` and `rollback` take it."""
        self.touched: dict[str, list[Touched]] = {}
        """The changes of maps."""
        self.alike: list[Alike] = []
        """The changes of maps of many views, made by one call each."""
        self.nets: dict[str, list[Net]] = {}
        """The changes of tables."""
        self.changes: dict[str, list[RowSet]] = {}
        """The changes of views that are units."""
        self.visited: Visited = {} if visited is None else visited
        self.handed: dict[tuple[int, str], pa.Table] = {}
        """Of maps that a block has changed, by round and name, the entries before: later blocks read them."""
        self.compiled = self.interpreted = 0
        """How many statements of blocks ran as compiled code, and how many did not."""

    def did(self, store: Any, what: Any) -> None:
        """Note a change that is no batch's own: it goes with the others."""
        self.done.append((store, what))

    def of_map(self, store: EntryStore, touched: Touched) -> None:
        """Note the change of a map."""
        self.touched.setdefault(store.target.name, []).append(touched)
        self.done.append((store, touched))

    def of_maps(self, alike: Alike) -> None:
        """Note the changes of maps of many views."""
        alike.tell(self.touched, self.alike)
        self.alike.append(alike)
        self.done.append((alike, alike))

    def of_table(self, table: TableRows, net: Net, what: Any) -> None:
        """Note the change of a table."""
        self.done.append((table, what))
        self.nets.setdefault(table.table.schema.name, []).append(net)

    def then(self, later: Journal) -> Journal:
        """What was done here, and later: as one."""
        for name, touched in later.touched.items():
            self.touched.setdefault(name, []).extend(touched)
        self.alike += later.alike
        for name, nets in later.nets.items():
            self.nets.setdefault(name, []).extend(nets)
        for view, rows in later.changes.items():
            self.changes.setdefault(view, []).extend(rows)
        for key, visited in later.visited.items():
            self.visited[key] = self.visited.get(key, 0) + visited
        self.handed.update(later.handed)
        self.compiled += later.compiled
        self.interpreted += later.interpreted
        self.done += later.done
        return self

    def rollback(self) -> None:
        """Take everything back."""
        for store, what in reversed(self.done):
            store.rollback(what)

    def commit(self) -> None:
        """Make everything final."""
        for store, what in self.done:
            store.commit(what)

    def published(self, store: MapStore, under: Collection[str]) -> Change | None:
        """The change of a view's rows, if there may be one; `under` are the maps that units are read off."""
        touched = self.touched.get(store.target.name)
        if touched is not None and store.target.name not in under:
            return store.change(merged(touched))
        rows = self.changes.get(store.view.name)
        if rows is None:
            return None
        return store.change_of(rows)


def before(journals: Iterable[Journal], maps: Iterable[str]) -> Before:
    """What journals hold of some maps, each as one change: over it, the maps are read as they were before."""
    found: dict[str, list[Touched]] = {name: [] for name in maps}
    for journal in journals:
        if not journal.alike:
            for name, touched in found.items():
                touched += journal.touched.get(name, ())
            continue
        for store, what in journal.done:
            if isinstance(what, Alike):
                for name, touched in found.items():
                    if (one := what.of(name)) is not None:
                        touched.append(one)
            elif isinstance(what, Touched) and store.target.name in found:
                found[store.target.name].append(what)
    return {name: merged(touched) for name, touched in found.items() if touched}
