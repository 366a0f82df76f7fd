"""All objects of a database by name, whatever their domain.

A name stands for one object. Names are found whatever their case and kept as written, as in SQL. Objects are
stepped in an order in which each comes after what it reads; where SQL views come among them, `layers` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from everfresh.epochs.domain import Domain, Object
from everfresh.epochs.layers import Layers, follows, layers
from everfresh.errors import Code, EverfreshError
from everfresh.types import fold


class Objects:
    """The objects of the domains beside tables, and who reads what."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.domains: Mapping[str, Domain] = {domain.name: domain for domain in domains}
        self._seen: tuple[int, ...] | None = None
        self._order: tuple[Object, ...] = ()
        self._read: frozenset[str] = frozenset()
        self._layers: tuple[Any, Any, Layers] | None = None

    def __iter__(self) -> Iterator[Object]:
        return (found for domain in self.domains.values() for found in domain.objects.values())

    @contextmanager
    def still(self) -> Iterator[None]:
        """A block in which nobody changes an object, and what is there is committed."""
        with ExitStack() as held:
            for domain in self.domains.values():
                held.enter_context(domain.still())
            yield

    def forsake(self) -> None:
        """An exception that nobody foresaw has ended a change in this thread."""
        for domain in self.domains.values():
            domain.forsake()

    def find(self, name: str) -> Object | None:
        """The object of this name, whatever its case; one that is spelt the same first."""
        lowered, other = fold(name), None
        for domain in self.domains.values():
            if name in domain.objects:
                return domain.objects[name]
            for known, found in domain.objects.items():
                if other is None and fold(known) == lowered:
                    other = found
        return other

    def domain_of(self, name: str) -> Domain | None:
        """The domain of an object."""
        found = self.find(name)
        return self.domains[found.domain] if found is not None else None

    @property
    def order(self) -> tuple[Object, ...]:
        """All objects, each after those that it reads."""
        seen = tuple(id(domain.objects) for domain in self.domains.values())
        if seen != self._seen:
            self._order = _sorted({found.name: found for found in self})
            self._read = frozenset(name for found in self._order for name in found.reads)
            self._seen = seen
        return self._order

    @property
    def read(self) -> frozenset[str]:
        """The names that objects of these domains read."""
        return self._read if self.order else frozenset()

    def layers(self, catalog: Any) -> Layers:
        """In which layers objects and the SQL views of a catalog are stepped."""
        order, known = self.order, self._layers
        if known is None or known[0] is not catalog or known[1] is not order:
            known = self._layers = catalog, order, layers(catalog, order)
        return known[2]

    def readers(self, name: str) -> tuple[Object, ...]:
        """The objects that read one, directly or not, each after those that it reads."""
        found: dict[str, Object] = {}
        for one in self.order:
            if name in one.reads or any(other in found for other in one.reads):
                found[one.name] = one
        return tuple(found.values())

    def check_free(self, name: str) -> None:
        """Raise if an object has the name."""
        found = self.find(name)
        if found is not None:
            raise EverfreshError(
                Code.EXISTS,
                f"there is already {article(found.kind)} '{found.name}'",
                hint="drop it first, or choose another name",
            )

    def beside(self, effect: Any, catalog: Any, *, cascade: bool) -> dict[str, list[Any]]:
        """What the effect of a DDL statement of SQL on a catalog does to the other domains; raises if a name
        is taken, or what goes is read. Tables that follow an object have its name, and nothing to do with it
        here."""
        if not self._any():
            return {}
        gone = [name for name in effect.gone if not follows(catalog, name)]
        made, table = effect.made, effect.create_table
        if made is not None and made not in gone and not (table is not None and table.follows):
            self.check_free(made)
        return self.dropped_with(gone, cascade=cascade)

    def _any(self) -> bool:
        return any(domain.objects for domain in self.domains.values())

    def dropped_with(self, names: Sequence[str], *, cascade: bool) -> dict[str, list[Any]]:
        """The statements, by domain, that drop what reads these names, readers first; raises if something
        does and `cascade` does not ask for that."""
        gone: dict[str, Object] = {one.name: one for name in names for one in self.readers(name)}
        if gone and not cascade:
            readers = [one.name for one in gone.values() if not set(one.reads).isdisjoint(names)]
            raise EverfreshError(
                Code.DEPENDENCY,
                f"{_quoted(names)} is read by {', '.join(readers)}",
                hint="drop them first, or with CASCADE",
            )
        statements: dict[str, list[Any]] = {}
        for one in reversed([one for one in self.order if one.name in gone]):
            known = statements.setdefault(one.domain, [])
            known += [drop for drop in self.domains[one.domain].dropping(one.name) if drop not in known]
        return statements


def article(kind: str) -> str:
    """A kind of object with its article.

    >>> article("array"), article("matrix")
    ('an array', 'a matrix')
    """
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _sorted(objects: Mapping[str, Object]) -> tuple[Object, ...]:
    found: dict[str, Object] = {}

    def visit(one: Object) -> None:
        if one.name not in found:
            for name in one.reads:
                if name in objects:
                    visit(objects[name])
            found[one.name] = one

    for one in objects.values():
        visit(one)
    return tuple(found.values())
