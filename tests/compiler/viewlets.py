"""A small viewlet transform for flat aggregates that takes decisions: what the search is tried on."""

from __future__ import annotations

from everfresh.calculus import (
    Bind,
    Cond,
    MapRef,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    delta,
    inputs,
    outputs,
    product,
    relations,
    union,
)
from everfresh.compiler.passes import simplify
from everfresh.compiler.passes.expand import expand
from everfresh.compiler.viewlet.canonical import canonical
from everfresh.compiler.viewlet.decisions import Decision, DecisionKind, Decisions
from everfresh.compiler.viewlet.join_graph import components
from everfresh.compiler.viewlet.map_registry import Spend
from everfresh.expr import Var
from everfresh.program import MapDef, Program, Statement, Trigger


class Viewlets:
    """`build(decisions)` for the view `Sum_[keys](product)`; counts how often it was asked."""

    def __init__(self, definition: Sum) -> None:
        self.definition = definition
        self.built = 0

    def __call__(
        self, decisions: Decisions = frozenset(), spend: Spend = lambda factors: None
    ) -> Program[Query]:
        self.built += 1
        self.decisions = decisions
        view = MapDef("Q", self.definition.group, (), self.definition)
        self.maps = {canonical(view.definition).key: view}
        self.pending = [view]
        bases = relations(self.definition)
        statements: dict[str, list[Statement[Query]]] = {base: [] for base in bases}
        while self.pending:
            current = self.pending.pop(0)
            for base in relations(current.definition):
                spend(1)
                change = expand(simplify(delta(current.definition, {base})))
                body = change.body if isinstance(change, Sum) else change
                terms = body.terms if isinstance(body, Plus) else (body,)
                expr = union(*(Sum(current.keys, self.term(t, current.keys)) for t in terms))
                statements[base].append(Statement(current.name, "+=", expr))
        triggers = tuple(Trigger(base, tuple(found)) for base, found in statements.items())
        return Program(tuple(self.maps.values()), triggers)

    def term(self, term: Query, group: tuple[Var, ...]) -> Query:
        factors = term.factors if isinstance(term, Prod) else (term,)
        changes = [f for f in factors if isinstance(f, Rel) and f.delta]
        atoms = [f for f in factors if isinstance(f, Rel) and not f.delta]
        rest = [f for f in factors if not isinstance(f, Rel)]
        bound = {v.name for f in changes for v in f.vars}
        read: list[MapRef] = []
        for part in components(atoms, bound):
            whole, left = self.component(part, rest, bound, group)
            if len(part) > 1 and Decision(DecisionKind.APART, canonical(whole).key) in self.decisions:
                for atom in part:
                    others = {v.name for other in part if other is not atom for v in other.vars}
                    single, rest = self.component([atom], rest, bound | others, group)
                    read.append(self.map(single))
            else:
                rest = left
                read.append(self.map(whole))
        return product(*changes, *connected(read, bound), *rest)

    def component(
        self, part: list[Rel], rest: list[Query], bound: set[str], group: tuple[Var, ...]
    ) -> tuple[Query, list[Query]]:
        inside = {v.name: v for atom in part for v in atom.vars}
        local = [f for f in rest if isinstance(f, Cond) and {v.name for v in inputs(f)} <= set(inside)]
        rest = [f for f in rest if f not in local]
        outside = bound | {v.name for v in group} | {v.name for f in rest for v in inputs(f)}
        keys = tuple(v for name, v in inside.items() if name in outside)
        return Sum(keys, product(*part, *local)), rest

    def map(self, definition: Query) -> MapRef:
        form = canonical(definition)
        if form.key not in self.maps:
            new = MapDef(f"M{len(self.maps)}", form.group, (), definition)
            self.maps[form.key] = new
            self.pending.append(new)
        assert set(form.group) == set(outputs(definition))
        return MapRef(self.maps[form.key].name, form.group)


def connected(read: list[MapRef], bound: set[str]) -> list[MapRef]:
    """Each after one that binds its variables, where there is one."""
    bound, left, done = set(bound), list(read), []
    while left:
        following = max(left, key=lambda r: len({v.name for v in r.keys} & bound) / max(1, len(r.keys)))
        left.remove(following)
        done.append(following)
        bound |= {v.name for v in following.keys}
    return done


def composites(program: Program[Query]) -> dict[Decision, str]:
    """The maps that could be split: all but the view's that join two or more relations."""
    found: dict[Decision, str] = {}
    for target in program.maps[1:]:
        body = target.definition.body if isinstance(target.definition, Sum) else target.definition
        factors = body.factors if isinstance(body, Prod) else (body,)
        flat = all(isinstance(f, Rel | Cond | Bind | Value) for f in factors)
        if flat and sum(isinstance(f, Rel) for f in factors) > 1:
            found[Decision(DecisionKind.APART, canonical(target.definition).key)] = target.name
    return found
