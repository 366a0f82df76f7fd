"""The maps of a program while it is derived: which there are, what each holds, and which equal which.

Equal maps are one (section 3.1.1): maps with the same keys and the same product share their count and their
components. So are maps that another view keeps already and offers: they are taken as they are, if they have
all components that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from everfresh.algebra import Kind
from everfresh.calculus import (
    Neg,
    Plus,
    Prod,
    Query,
    Sum,
    Value,
    outputs,
    product,
    rename,
    union,
)
from everfresh.compiler.lowering.lower import Relation
from everfresh.compiler.viewlet.canonical import Canonical, canonical
from everfresh.compiler.viewlet.decisions import Decisions
from everfresh.expr import Expr, Made, Var, substitute, variables
from everfresh.program import Intervals, MapDef, View

Key = tuple[str, tuple[str, ...], str]


def products(definition: Query) -> list[Query]:
    """The products that a definition sums, each by itself."""
    terms = definition.terms if isinstance(definition, Plus) else (definition,)
    return [t.body if isinstance(t, Sum) else t for t in terms]


def terms(expr: Query) -> Iterator[Query]:
    """The products that a statement adds up, without signs and groups."""
    match expr:
        case Plus(parts):
            for part in parts:
                yield from terms(part)
        case Neg(body) | Sum(_, body):
            yield from terms(body)
        case _:
            yield expr


def over(target: MapDef[Query], keys: Sequence[Var]) -> tuple[Query, ...]:
    """The factors that define a map, over a reader's keys, all other variables new."""
    body = target.definition.body if isinstance(target.definition, Sum) else target.definition
    by = {v.name: key for v, key in zip(target.keys, keys, strict=True)}
    for node in body.walk():
        if isinstance(node, Var) and node.name not in by:
            by[node.name] = Var(f"{target.name}.{node.name}", node.of, node.null)
    renamed = rename(body, by)
    return renamed.factors if isinstance(renamed, Prod) else (renamed,)


@dataclass
class MapDraft:
    """A map while its components are collected; `products` are its terms without their values."""

    name: str
    keys: tuple[Var, ...]
    products: tuple[Query, ...]
    kinds: list[Kind]
    values: list[tuple[Expr, ...]]
    """One row of values per component: what each product contributes to it."""

    def definition(self) -> Query:
        """What the map holds."""
        terms = []
        for i, body in enumerate(self.products):
            value = [Value(tuple(row[i] for row in self.values))] if self.values else []
            terms.append(Sum(self.keys, product(body, *value)))
        return union(*terms)

    def component(self, kind: Kind, values: tuple[Expr, ...]) -> int:
        """The index of a component, from 1; new ones are added."""
        for i, (k, row) in enumerate(zip(self.kinds, self.values, strict=True), 1):
            if (k, row) == (kind, values):
                return i
        self.kinds.append(kind)
        self.values.append(values)
        return len(self.kinds)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the transform decides (section 3.6)."""

    merge: bool = True
    """Whether maps that differ in their values alone are one."""
    whole: bool = True
    """Whether components become maps; if not, their atoms do (first-order maintenance)."""
    project: bool = True
    """Whether atoms are projected into maps of their own; if not, tables are read as they are."""
    keyed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Tables whose rows may be read in place of a map that has as many entries, with the places of their
    primary keys."""
    decisions: Decisions = frozenset()
    """What is decided by cost about single maps."""
    static: frozenset[str] = frozenset()
    """Relations that never change."""
    views: frozenset[str] = frozenset()
    """Relations that are views themselves: they change after the tables that they read."""
    offered: tuple[MapDef[Query], ...] = ()
    """Maps over bases alone that other views keep, the first of equals preferred."""
    exact: bool = False
    """Whether values stay whole that may leave their types: nobody will check them."""


class Outgrown(Exception):
    """A program that takes more work than it may."""


Spend = Callable[[int], None]
"""Told the factors of each product that is derived; raises `Outgrown` if they are too many."""


HIGHER_ORDER = Choices()


@dataclass
class Transform:
    """The maps of one view while they are found; `view` is what their names begin with."""

    view: str
    derived: dict[str, Relation]
    keys: dict[str, int]
    """Of each relation that is read off a map: how many keys it has, if they are its first columns."""
    choices: Choices = HIGHER_ORDER
    spend: Spend = lambda factors: None
    unshared: frozenset[str] = frozenset()
    maps: dict[str, MapDraft] = field(default_factory=dict)
    shared: dict[Key, tuple[str, dict[str, str]]] = field(default_factory=dict)
    offered: dict[str, MapDef[Query]] = field(default_factory=dict)
    taken: dict[str, MapDraft] = field(default_factory=dict)
    """The offered maps that are read."""

    @property
    def always(self) -> dict[str, int]:
        """Of each relation that is looked up, and not joined: how many of its first columns are its keys."""
        return {
            n: self.keys[n]
            for n, r in self.derived.items()
            if isinstance(r, Intervals) or (isinstance(r, View) and r.always)
        }

    def add(self, m: MapDef[Query]) -> None:
        """A map that the view needs."""
        new = self.maps[m.name] = _parted(m)
        if len(new.products) == 1 and m.name not in self.unshared:
            form = _formed(new.products[0])
            alone = None if self.choices.merge or len(new.values) != 1 else new.values[0][0]
            self.shared.setdefault(_key(form, m.keys, alone), (m.name, _inverse(form)))

    def offer(self, m: MapDef[Query]) -> None:
        """A map that another view keeps."""
        if self.choices.merge and m.name not in self.unshared:
            key, theirs = _known(m)
            if self.shared.setdefault(key, (m.name, theirs))[0] == m.name:
                self.offered[m.name] = m

    @property
    def outgrown(self) -> frozenset[str]:
        """Offered maps that lack a component."""
        return frozenset(n for n, m in self.taken.items() if len(m.kinds) > len(self.offered[n].kinds))

    def part(
        self, body: Query, keys: tuple[Var, ...], value: Expr | None = None
    ) -> tuple[MapDraft, dict[str, Var]]:
        """The map that holds a component, and how the component's variables are called in it; for `value`
        alone if maps are not merged."""
        form = _formed(body)
        key = _key(form, keys, value)
        if key not in self.shared:
            name: str = Made(f"{self.view}#{len(self.maps)}")
            while name in self.maps:
                name = Made(f"{name}x")
            self.maps[name] = MapDraft(name, keys, (body,), [], [])
            self.shared[key] = name, _inverse(form)
        name, theirs = self.shared[key]
        if name in self.offered and name not in self.taken:
            self.taken[name] = _parted(self.offered[name])
        found = self.taken[name] if name in self.offered else self.maps[name]
        held = {v.name: v for v in found.products[0].walk() if isinstance(v, Var)}
        return found, {ours: held[theirs[c]] for ours, c in form.names.items()}


def _parted(m: MapDef[Query]) -> MapDraft:
    """A map, its products and values apart."""
    bodies, values = [], []
    for term in products(m.definition):
        factors = term.factors if isinstance(term, Prod) else (term,)
        bodies.append(product(*(f for f in factors if not isinstance(f, Value))))
        values.append(next((f.items for f in factors if isinstance(f, Value)), ()))
    rows = [tuple(v[i] for v in values) for i in range(len(m.kinds))]
    return MapDraft(m.name, m.keys, tuple(bodies), list(m.kinds), rows)


@lru_cache(maxsize=4096)  # offers are the same for all programs of a search
def _known(m: MapDef[Query]) -> tuple[Key, dict[str, str]]:
    """What an offered map is found by, and how its variables are called in its canonical form."""
    form = _formed(_parted(m).products[0])
    return _key(form, m.keys, None), _inverse(form)


def _formed(body: Query) -> Canonical:
    """The canonical form of a product, with a name for each of its variables."""
    return canonical(Sum(outputs(body), body))


def _key(form: Canonical, keys: tuple[Var, ...], value: Expr | None) -> Key:
    """What equal maps have in common: the product, the keys, and the value where maps are not merged."""
    by: dict[str, Expr] = {}
    if value is not None:
        by = {v.name: Var(form.names[v.name], v.type, v.nullable) for v in variables(value)}
    named = tuple(sorted(form.names[v.name] for v in keys))
    return form.key, named, "" if value is None else str(substitute(value, by))


def _inverse(form: Canonical) -> dict[str, str]:
    return {c: name for name, c in form.names.items()}
