"""Families: the views of a store that share programs, by template, and what numbers they have.

"Many views" in docs/design/key-value.md. A family is a view group; views of it that are the same view have
one number. Invariant: numbers and versions only grow, as long as the family has a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from everfresh.compiler import Catalog
from everfresh.errors import Code, EverfreshError
from everfresh.kv.definitions import Definition, base_tables, new_birth
from everfresh.kv.runtime.core_program import base_catalog, one_view
from everfresh.kv.runtime.on_engine import MakeEngine
from everfresh.kv.runtime.shared_flow import Numbered, SharedFlow, group_keys, schema_of
from everfresh.kv.sharing.cells import Mode
from everfresh.kv.sharing.template import NotShared, Shared, Template, shared
from everfresh.kv.store import Store, StoredTable

_Place = tuple[Template, str, str, int, str]
"""What views of a family have in common: template, layout, strategy, batch, mode."""


@dataclass
class _Family:
    name: str
    template: Template
    born: int
    numbers: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)
    """The number and the first version of each different view."""
    next: int = 0
    version: int = 0


class Families:
    """The families of a store."""

    def __init__(self, store: Store, known: Iterable[Definition], engine: MakeEngine | None = None) -> None:
        self._store, self._engine = store, engine
        self._by_place: dict[_Place, _Family] = {}
        self._shared: dict[str, Shared] = {}
        catalog = None
        for definition in known:
            if definition.shares:
                catalog = catalog or base_catalog(base_tables(store))
                self._take(definition, catalog)

    def _view(self, name: str, text: str, catalog: Catalog) -> Shared:
        try:
            view = shared(one_view(text, catalog).plan)
            group_keys(view.template)
        except NotShared as error:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"view '{name}' cannot share a program with others: {error}",
                hint="make it with create_view, without a layout",
            ) from error
        return view

    def _take(self, definition: Definition, catalog: Catalog) -> None:
        view = self._shared[definition.name] = self._view(definition.name, definition.text, catalog)
        place = (
            view.template,
            definition.layout,
            definition.strategy,
            definition.batch,
            definition.mode,
        )
        family = self._by_place.setdefault(place, _Family(definition.group, view.template, definition.born))
        if not definition.dropped:
            family.numbers[view.ranges] = definition.number, definition.since
        family.next = max(family.next, definition.number + 1)
        family.version = max(family.version, definition.since)

    def placed(
        self, texts: Sequence[str], strategy: str, batch: int, mode: Mode, is_new: Callable[[str], None]
    ) -> list[Definition]:
        """Definitions for views, with their groups and numbers; makes the tables of new groups."""
        catalog = base_catalog(base_tables(self._store))
        views: dict[str, tuple[str, str, Shared]] = {}
        for text in texts:
            statement = one_view(text, catalog)
            is_new(statement.name)
            if statement.name in views:
                raise EverfreshError(Code.EXISTS, f"there are two views '{statement.name}'")
            layout = str(statement.options.get("layout", "own"))
            if layout not in ("own", "shared"):
                raise EverfreshError(
                    Code.ARGUMENT, f"there is no layout '{layout}'", hint="layouts are: own, shared"
                )
            views[statement.name] = text, layout, self._view(statement.name, text, catalog)
        made, begun = [], dict[str, int]()
        for name, (text, layout, view) in views.items():
            place = (view.template, layout, strategy, batch, mode)
            family = self._by_place.get(place)
            if family is None:
                family = self._by_place[place] = _Family(f"{name}_rows", view.template, new_birth())
                is_new(family.name)
                schema = schema_of(family.name, view.template, "shared" if layout == "shared" else "own")
                self._store.create_table(StoredTable(schema, logged=False))
            version = begun.setdefault(family.name, family.version + 1)
            if view.ranges not in family.numbers:
                family.numbers[view.ranges] = family.next, version
                family.next += 1
            number, since = family.numbers[view.ranges]
            family.version = version
            self._shared[name] = view
            made.append(
                Definition(
                    name,
                    text,
                    (),
                    family.name,
                    strategy,
                    batch,
                    number,
                    since,
                    layout,
                    mode,
                    born=family.born,
                )
            )
        return made

    def flow(self, of: Sequence[Definition]) -> SharedFlow:
        """The dataflow of a family."""
        numbers = {d.number: Numbered(d.number, self._shared[d.name].ranges, d.since) for d in of}
        first = of[0]
        return SharedFlow(
            first.group,
            base_tables(self._store),
            self._shared[first.name].template,
            list(numbers.values()),
            layout="shared" if first.layout == "shared" else "own",
            mode=first.mode,
            version=max(d.since for d in of),
            engine=self._engine,
        )

    def drop(self, definition: Definition) -> None:
        """Nobody has this number any more."""
        for family in self._by_place.values():
            if family.name == definition.group:
                family.numbers = {r: n for r, n in family.numbers.items() if n[0] != definition.number}

    def forget(self, group: str) -> None:
        """A family has no views any more."""
        self._by_place = {place: of for place, of in self._by_place.items() if of.name != group}
