"""One epoch over the objects of all domains beside tables: stepped in order, final together or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from everfresh.epochs.domain import Making, Published, Stepping, entries_of, entry, sections_of
from everfresh.epochs.objects import Objects


class EpochSteps:
    """What one epoch does to the domains that it concerns.

    `published` are the changes of this epoch by name, those of tables and SQL views first; what the objects
    publish is added to it. Steppings begin when they are needed, and end in the opposite order.
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

    def run(self, changes: Mapping[str, Any], published: Mapping[str, Published]) -> dict[str, Published]:
        """Step every object that has a change of its own, or reads what has changed; what they publish."""
        if not changes and not published:
            return {}
        known, made = dict(published), self.published
        for one in self._objects.order:
            inputs = {name: known[name] for name in one.reads if name in known}
            if inputs or one.name in changes:
                change = self._of(one.domain).step(one.name, changes.get(one.name), inputs)
                if change is not None:
                    known[one.name] = made[one.name] = change
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
