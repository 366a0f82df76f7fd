"""The viewlet transform for flat queries (sections 2.3 and 3.1): a view, and the maps that make its deltas
cheap.

For each base relation the delta of a map's definition is a sum of products. In each, what does not change
falls into connected components (joined through variables that the change does not bind); a component becomes
a map of its own, keyed by the variables that the rest of the product reads, and the delta reads that map.
Its own delta has one relation less, so the transform ends; equal components share a map.

Invariant: a statement reads changes and maps, never a base relation; the degree of a map's definition is
lower than that of the map whose statement reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from everfresh.calculus import (
    DELTA,
    QUERY,
    STATEMENT,
    Bind,
    Cond,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    Value,
    check,
    delta,
    inputs,
    outputs,
    product,
    relations,
    union,
)
from everfresh.compiler.passes import simplify
from everfresh.compiler.passes.expand import expand
from everfresh.expr import Var
from everfresh.expr.tokens import quote_name
from everfresh.program import MapDef, Program, Statement, Trigger


def degree(query: Query) -> int:
    """How many base relations a flat query joins at most."""
    match query:
        case Rel(_, _, is_delta):
            return 0 if is_delta else 1
        case Prod(factors):
            return sum(degree(f) for f in factors)
        case Plus(terms):
            return max((degree(t) for t in terms), default=0)
        case Neg(body) | Sum(_, body):
            return degree(body)
        case _:
            return 0


@dataclass
class _Maps:
    """The maps of one view, by what they hold."""

    view: str
    by_definition: dict[Query, MapDef[Query]] = field(default_factory=dict)
    pending: list[MapDef[Query]] = field(default_factory=list)

    def name_of(self, keys: tuple[Var, ...], definition: Query) -> str:
        if definition not in self.by_definition:
            new = MapDef(f"{self.view}#{len(self.by_definition)}", keys, (), definition)
            self.by_definition[definition] = new
            self.pending.append(new)
        return self.by_definition[definition].name


def transform(target: MapDef[Query], bases: Sequence[str]) -> Program[Query]:
    """The program that maintains `target` and all maps it needs, with a trigger per base."""
    maps = _Maps(target.name, {target.definition: target}, [target])
    statements: dict[str, list[Statement[Query]]] = {base: [] for base in bases}
    while maps.pending:
        current = maps.pending.pop(0)
        for base in relations(current.definition):
            change = expand(simplify(check(delta(current.definition, {base}), DELTA)))
            expr = check(simplify(_over_maps(change, current, maps)), STATEMENT)
            reads = list(dict.fromkeys(n.name for n in expr.walk() if isinstance(n, MapRef)))
            reason = (
                "reads only the change of " + quote_name(base)
                if not reads
                else "joins the change with " + ", ".join(reads)
            )
            statements[base].append(Statement(current.name, "+=", expr, "incremental", reason))
    triggers = tuple(Trigger(base, tuple(of_base)) for base, of_base in statements.items())
    return Program(tuple(maps.by_definition.values()), triggers)


def _over_maps(change: Query, target: MapDef[Query], maps: _Maps) -> Query:
    group = target.keys
    body = change.body if isinstance(change, Sum) else change
    terms = body.terms if isinstance(body, Plus) else (body,)
    return union(*(Sum(group, _term(term, group, target, maps)) for term in terms))


def _term(term: Query, group: tuple[Var, ...], target: MapDef[Query], maps: _Maps) -> Query:
    if isinstance(term, Neg):
        return Neg(_term(term.body, group, target, maps))
    factors = term.factors if isinstance(term, Prod) else (term,)
    if not all(isinstance(f, Rel | Cond | Bind | Value) for f in factors):
        raise SpecError(f"not a flat product: {term}")
    changes = [f for f in factors if isinstance(f, Rel) and f.delta]
    bound = {v.name for f in changes for v in f.vars}
    rest = [f for f in factors if not isinstance(f, Rel)]
    read = []
    for component in _components([f for f in factors if isinstance(f, Rel) and not f.delta], bound):
        inside = {v.name for atom in component for v in atom.vars}
        local = [f for f in rest if isinstance(f, Cond) and {v.name for v in inputs(f)} <= inside]
        rest = [f for f in rest if f not in local]
        outside = bound | {v.name for v in group} | {v.name for f in rest for v in inputs(f)}
        keys = tuple(v for v in _variables(component) if v.name in outside)
        definition = check(simplify(Sum(keys, product(*component, *local))), QUERY)
        if degree(definition) >= degree(target.definition):
            raise SpecError(f"the delta of {target.definition} has not become simpler: {definition}")
        read.append(MapRef(maps.name_of(keys, definition), keys, (0,)))
    values = [f for f in rest if isinstance(f, Value)]
    scalars = [f for f in rest if isinstance(f, Cond | Bind)]
    return product(*changes, *read, *_ordered(scalars, _variables([*changes, *read])), *values)


def _components(atoms: list[Rel], bound: set[str]) -> Iterator[list[Rel]]:
    """Atoms joined, directly or through others, by variables that are not bound already."""
    left = list(atoms)
    while left:
        component, open_ = [left.pop(0)], True
        while open_:
            names = {v.name for atom in component for v in atom.vars} - bound
            joined = [atom for atom in left if names & {v.name for v in atom.vars}]
            open_ = bool(joined)
            component += joined
            left = [atom for atom in left if atom not in joined]
        yield sorted(component, key=atoms.index)


def _variables(factors: Iterable[Query]) -> tuple[Var, ...]:
    return tuple({v.name: v for f in factors for v in outputs(f)}.values())


def _ordered(scalars: Sequence[Query], known: Iterable[Var]) -> list[Query]:
    """Conditions and bindings, each after the variables it reads are bound."""
    names = {v.name for v in known}
    done: list[Query] = []
    left = list(scalars)
    while left:
        ready = next(f for f in left if {v.name for v in inputs(f)} <= names)
        left.remove(ready)
        done.append(ready)
        names |= {v.name for v in outputs(ready)}
    return done
