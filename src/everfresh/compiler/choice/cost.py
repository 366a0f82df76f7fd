"""The cost model of section 3.6.4: what a program does per change, in entries visited and written.

A statement is charged for one change tuple, factor by factor in its order: an atom whose variables are bound
is looked up through a slice, others are scanned; of a change that may fail conditions on it alone, the rest
is charged as often as it passes; a threshold that moves reads the entries that it passes. The cost of a
program is the rate-weighted cost of all its statements, plus reading the view at its rate, plus a little for
memory. A derived relation changes as often as statements write the map that it is read off, twice per entry:
the old row and the new.

Only programs of calculus queries have a cost: what a plan costs that is re-evaluated is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from everfresh.calculus import (
    Bind,
    Cond,
    Each,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    inputs,
    maps_read,
)
from everfresh.compiler.choice.estimate import Estimate, Statistics, StoredAtom, TableStats, values_of
from everfresh.compiler.lowering.products import atom_vars
from everfresh.compiler.viewlet.crossing import Ordered, crossing
from everfresh.compiler.viewlet.map_registry import over
from everfresh.expr import Var
from everfresh.program import Intervals, MapDef, Program, Statement, View

_VALUES = 10.0
"""A constant that a change is compared with is one of so many at most: conditions are rarely on keys."""
_PASSED = 1.0
"""Entries that a threshold passes when it moves."""


@dataclass(frozen=True, slots=True)
class Work:
    """What evaluating a query from some tuples takes, and the tuples that come out."""

    cost: float
    out: Estimate


@dataclass
class Model:
    """The estimates of one program."""

    program: Program[Query]
    statistics: Statistics
    _sizes: dict[str, StoredAtom] = field(default_factory=dict)
    _tables: dict[str, TableStats] = field(default_factory=dict)
    _works: dict[Query, Work] = field(default_factory=dict)

    # -- what is stored ------------------------------------------------------------------------------------

    def size(self, name: str) -> StoredAtom:
        """A map: its entries, and the values of its keys."""
        if name not in self._sizes:
            target = self.program.map(name)
            keys = [v.name for v in target.keys]
            body = self.walk(target.definition, Estimate(), {}).out
            rows, full = body.groups(keys), body.all.groups(keys)
            distinct = {key: min(max(full, 1.0), body.distinct.get(key, 1.0)) for key in keys}
            self._sizes[name] = StoredAtom(rows, distinct, (frozenset(keys),), rows / full if full else 1.0)
        return self._sizes[name]

    def table(self, name: str) -> TableStats:
        """A base relation, or one that is read off a map."""
        if name not in self._tables:
            derived = next((r for r in self.program.relations if r.name == name), None)
            self._tables[name] = self.statistics.table(name) if derived is None else self._derived(derived)
        return self._tables[name]

    def _derived(self, relation: object) -> TableStats:
        assert hasattr(relation, "map")
        size, keys = self.size(relation.map), self.program.map(relation.map).keys
        if isinstance(relation, Intervals):
            return TableStats(1.0)
        if not isinstance(relation, View):
            return TableStats(size.rows)
        names = [e.name if isinstance(e, Var) else "" for e in relation.outputs]
        distinct = tuple(size.distinct.get(name, size.rows) for name in names)
        found = frozenset(names.index(v.name) for v in keys if v.name in names)
        return TableStats(size.rows, distinct, (found,) if len(found) == len(keys) else ())

    def _atom(self, rel: Rel) -> StoredAtom:
        table = self.table(rel.name)
        distinct: dict[str, float] = {}
        for column, var in zip(rel.places, rel.vars, strict=True):
            distinct[var.name] = min(table.values(column), distinct.get(var.name, table.rows))
        keys = tuple(names for key in table.keys if (names := rel.names(key)) is not None)
        if rel.delta:
            domain = {name: min(values, _VALUES) for name, values in distinct.items()}
            return StoredAtom(1.0, dict.fromkeys(distinct, 1.0), keys, domain=domain)
        return StoredAtom(table.rows, distinct, keys)

    @cached_property
    def _ordered(self) -> Ordered:
        return Ordered.of(self.program)

    # -- evaluation ----------------------------------------------------------------------------------------

    def walk(self, query: Query, before: Estimate, inlined: Mapping[str, MapDef[Query]]) -> Work:
        """Evaluate `query` once for each of the tuples `before`; maps in `inlined` are read as the product
        that defines them, from single atoms."""
        match query:
            case Rel():
                return _looked_up(self._atom(query), before)
            case MapRef(name, keys) if name in inlined:
                return self._inlined(over(inlined[name], keys), before)
            case MapRef(name, keys):
                size = self.size(name)
                own = (v.name for v in self.program.map(name).keys)
                by = dict(zip(own, (v.name for v in keys), strict=True))
                distinct = {by[key]: values for key, values in size.distinct.items()}
                keys_ = (frozenset(by.values()),)
                return _looked_up(StoredAtom(size.rows, distinct, keys_, size.share), before)
            case Cond(condition):
                return Work(0.0, before.where(condition))
            case Bind(var, expr):
                return Work(0.0, before.bound(var.name, values_of(expr, before)))
            case Each(vars_, lists):
                return Work(0.0, before.spread([v.name for v in vars_], lists))
            case Value():
                return Work(0.0, before)
            case Prod(factors):
                cost, now = 0.0, before
                for factor in factors:
                    work = self.walk(factor, now, inlined)
                    cost, now = cost + work.cost, work.out
                return Work(cost, now)
            case Plus(terms):
                return _together([self.walk(term, before, inlined) for term in terms], before)
            case Neg(body):
                return self.walk(body, before, inlined)
            case Sum(group, body):
                inner = self._crossing(group, body, before, inlined) or self.walk(body, before, inlined)
                names = {v.name for v in group} | set(before.distinct)
                out = inner.out.projected(inner.out.groups(names), names)
                return Work(inner.cost + inner.out.expected, out)
            case Exists(body):
                return self.walk(body, before, inlined)
            case Lift(var, body, closed):
                inner = self.walk(body, before, inlined)
                rows = max(inner.out.rows, before.rows) if closed else inner.out.rows
                return Work(inner.cost, replace(inner.out, rows=rows).bound(var.name, max(1.0, rows)))
        raise TypeError(f"{type(query).__name__} has no cost")

    def _crossing(
        self, group: Sequence[Var], body: Query, before: Estimate, inlined: Mapping[str, MapDef[Query]]
    ) -> Work | None:
        """A product that changes where a threshold is crossed: only the entries that it passes are read."""
        factors = body.factors if isinstance(body, Prod) else (body,)
        found = crossing(factors, {v.name for v in group}, self._ordered)
        if found is None:
            return None
        work = self.walk(found.change, before, inlined)
        keys = {v.name: 1.0 for v in atom_vars(found.atom)}
        passed = replace(work.out, rows=work.out.rows * _PASSED, distinct={**work.out.distinct, **keys})
        rest = self.walk(Prod((found.atom, *found.rest)), passed, inlined)
        return Work(work.cost + rest.cost, rest.out)

    def _inlined(self, factors: Sequence[Query], before: Estimate) -> Work:
        """A product whose atoms are joined in the cheapest next order, conditions as soon as they can be."""
        atoms = [self._atom(f) for f in factors if isinstance(f, Rel)]
        scalars = [f for f in factors if not isinstance(f, Rel)]
        cost, now = 0.0, before
        while atoms or scalars:
            ready = next((f for f in scalars if {v.name for v in inputs(f)} <= set(now.distinct)), None)
            if ready is not None:
                scalars.remove(ready)
                now = self.walk(ready, now, {}).out
                continue
            following = min(atoms, key=now.matches)
            atoms.remove(following)
            work = _looked_up(following, now)
            cost, now = cost + work.cost, work.out
        return Work(cost, now)

    def statement(
        self, statement: Statement[Query], inlined: Mapping[str, MapDef[Query]] | None = None
    ) -> Work:
        """One statement for one change tuple: what it visits and what it writes."""
        if inlined is None and statement.expr in self._works:
            return self._works[statement.expr]
        work = self.walk(statement.expr, Estimate(), inlined or {})
        found = Work(work.cost + work.out.expected, work.out)
        if inlined is None:
            self._works[statement.expr] = found
        return found

    # -- the program ---------------------------------------------------------------------------------------

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """How often each relation with a trigger changes, derived ones included."""
        derived = {r.name for r in self.program.relations}
        rates = {t.base: self.table(t.base).rate for t in self.program.triggers if t.base not in derived}
        for relation in self.program.relations:
            maps = relation.maps
            written = (
                rates[t.base] * self.statement(s).out.expected
                for t in self.program.triggers
                if t.base in rates
                for s in t.statements
                if s.target in maps
            )
            rates[relation.name] = 2 * sum(written)
        return rates

    @property
    def total(self) -> float:
        """The cost of the program; the first map is the view's."""
        changes = sum(self.rates[base] * self.statement(s).cost for base, s in self.statements())
        bases = {r.name for r in self.program.relations}
        reads = self.statistics.reads
        if reads is None:
            reads = sum(rate for base, rate in self.rates.items() if base not in bases)
        kept = sum(self.size(m.name).rows for m in self.program.maps)
        return changes + reads * self.size(self.program.maps[0].name).rows + self.statistics.memory * kept

    def statements(self) -> Iterable[tuple[str, Statement[Query]]]:
        """All statements, each with the relation whose change runs it."""
        return ((t.base, s) for t in self.program.triggers for s in t.statements)

    def maintain(self, name: str) -> float:
        """What it costs to keep the map `name` up to date."""
        return sum(
            self.rates[base] * self.statement(s).cost for base, s in self.statements() if s.target == name
        )

    def save(self, name: str) -> float:
        """The join work that statements are spared by reading the map `name`."""
        inlined = {name: self.program.map(name)}
        total = 0.0
        for base, s in self.statements():
            if name in maps_read(s.expr):
                total += self.rates[base] * (self.statement(s, inlined).cost - self.statement(s).cost)
        return total


def cost(program: Program[Query], statistics: Statistics) -> float:
    """The cost of a program under these statistics."""
    return Model(program, statistics).total


def choose(candidates: Iterable[Program[Query]], statistics: Statistics) -> Program[Query]:
    """The cheapest program; the first of equals."""
    return min(candidates, key=lambda program: cost(program, statistics))


def _looked_up(atom: StoredAtom, before: Estimate) -> Work:
    return Work(before.expected * max(1.0, before.matches(atom)), before.joined(atom))


def _together(works: Sequence[Work], before: Estimate) -> Work:
    if not works:
        return Work(0.0, replace(before, rows=0.0))
    distinct: dict[str, float] = {}
    for work in works:
        for name, values in work.out.distinct.items():
            distinct[name] = distinct.get(name, 0.0) + values
    distinct |= before.distinct
    rows = sum(work.out.expected for work in works) / before.chance if before.chance else 0.0
    return Work(sum(work.cost for work in works), replace(before, rows=rows, distinct=distinct))
