"""One epoch over the objects of all domains beside tables: stepped in order, final together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from everfresh.epochs.domain import Making, Published, Stepping, entries_of, entry, sections_of
from everfresh.epochs.objects import Objects

Tables = Callable[[Mapping[str, Published]], Mapping[str, Published]]
"""Steps tables and SQL views by the changes of objects that some of them follow; what has changed."""


class EpochSteps:
    """What one epoch does to the domains that it concerns.

    `published` are the changes of the objects in this epoch, by name. Steppings begin when they are needed,
    and end in the opposite order.
    """

    def __init__(self, objects: Objects, making: Making) -> None:
        self._objects, self._making = objects, making
        self._begun: dict[str, Stepping] = {}
        self.published: dict[str, Published] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        """What was not committed is taken back."""
        self.rollback()

    def _of(self, domain: str) -> Stepping:
        if domain not in self._begun:
            self._begun[domain] = self._objects.domains[domain].begin(self._making)
        return self._begun[domain]

    def execute(self, statements: Mapping[str, Sequence[Any]]) -> None:
        """Run statements of domains, by the domain's name."""
        for domain, listed in statements.items():
            for statement in listed:
                self._of(domain).execute(statement)

    def run(self, changes: Mapping[str, Any], tables: Tables, catalog: Any) -> dict[str, Published]:
        """Step every object that has a change of its own, or reads what has changed, in layers, and behind
        each of them the tables and SQL views that follow its objects; what the objects publish.

        `tables` steps tables and SQL views by the changes of objects that they follow, and gives their own;
        it is called once for the first layer, and for others where there is something.
        """
        layers = self._objects.layers(catalog)
        known: dict[str, Published] = {}
        made = self.published
        for number in range(layers.count):
            for one in self._objects.order:
                if layers.of(one.name) != number:
                    continue
                inputs = {name: known[name] for name in one.reads if name in known}
                if inputs or one.name in changes:
                    change = self._of(one.domain).step(one.name, changes.get(one.name), inputs)
                    if change is not None:
                        known[one.name] = made[one.name] = change
            followed = {n: made[n] for n in layers.followed if n in made and layers.of(n) == number}
            if followed or number == 0:
                known.update((n, change) for n, change in tables(followed).items() if n not in made)
        return made

    def again(self, ddl: Sequence[str], sections: Mapping[str, Any]) -> None:
        """Do what the record of an epoch tells of these domains."""
        for domain in self._objects.domains:
            own, listed = sections_of(domain, sections), entries_of(domain, ddl)
            if own or listed:
                self.published.update(self._of(domain).again(listed, own))

    @property
    def ddl(self) -> tuple[str, ...]:
        """The statements of the epoch, as the log has them."""
        return tuple(entry(name, text) for name, some in self._begun.items() for text in some.told().ddl)

    def sections(self) -> dict[str, Any]:
        """The sections of the commit record."""
        found: dict[str, Any] = {}
        for some in self._begun.values():
            found.update(some.told().sections)
        return found

    def commit(self) -> None:
        """The epoch is committed."""
        while self._begun:
            self._begun.popitem()[1].commit()

    def rollback(self) -> None:
        """Take everything back."""
        while self._begun:
            self._begun.popitem()[1].rollback()
