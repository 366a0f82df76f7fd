"""The viewlet transform (sections 2.3 and 3.1): maps, and the maps that make their deltas cheap.

For each relation the delta of a map's definition is a sum of products. In each, what does not change falls
into connected components (joined through variables that the change does not bind); a component becomes a map
of its own, keyed by the variables that the rest of the product reads, and the delta reads that map. A derived
relation that stands alone is read as it is; one whose keys are bound is looked up first. The value of the
product falls apart with it (`polynomial`): each component map holds the factors of the values that belong
to it, as components of its own.

Invariant: a statement reads changes, maps and derived relations, never a base; the degree of a component's
definition is lower than that of the map whose statement reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from everfresh.calculus import (
    DELTA,
    QUERY,
    STATEMENT,
    Neg,
    Plus,
    Query,
    Sum,
    check,
    delta,
    maps_read,
    relations,
    union,
)
from everfresh.compiler.choice.strategy import strategy_of
from everfresh.compiler.lowering.lower import Relation
from everfresh.compiler.passes import simplify
from everfresh.compiler.passes.expand import expand
from everfresh.compiler.viewlet.crossing import Ordered
from everfresh.compiler.viewlet.map_registry import HIGHER_ORDER, Choices, MapDraft, Spend, Transform
from everfresh.compiler.viewlet.statements import term_over_maps
from everfresh.expr import Var
from everfresh.program import Intervals, MapDef, Program, Statement, Trigger, View


def transform(
    view: str,
    roots: Sequence[MapDef[Query]],
    derived: Sequence[Relation] = (),
    choices: Choices = HIGHER_ORDER,
    spend: Spend = lambda factors: None,
) -> Program[Query]:
    """The program that maintains `roots` and all maps they need, with a trigger per relation; names of
    maps begin with `view`. `spend` is told how much work it takes."""
    by_name = {r.name: r for r in derived}
    by_map = {m.name: m for m in roots}
    keys = {}
    for r in derived:
        if isinstance(r, View):
            held = [v.name for v in by_map[r.map].keys]
            if [e.name for e in r.outputs[: len(held)] if isinstance(e, Var)] == held:
                keys[r.name] = len(held)
        elif isinstance(r, Intervals):
            keys[r.name] = 0
    choices = replace(choices, static=_static(choices.static, by_map, derived))
    unshared: frozenset[str] = frozenset()
    while True:
        work = Transform(view, by_name, keys, choices, spend, unshared)
        for m in roots:
            work.add(m)
        for m in choices.offered:
            work.offer(m)
        statements = _statements(work)
        wrong = work.outgrown | _read_too_early(statements, derived, choices.views)
        if not wrong - unshared:
            break
        unshared |= wrong
    order = {name: i for i, name in enumerate(by_name)}
    bases = sorted(statements, key=lambda name: order.get(name, -1))
    triggers = tuple(Trigger(base, tuple(statements[base])) for base in bases)
    maps = tuple(
        MapDef(m.name, m.keys, tuple(m.kinds), check(m.definition(), QUERY)) for m in work.maps.values()
    )
    shared = tuple(work.offered[name] for name in work.taken)
    read = dict.fromkeys(name for m in maps for name in relations(m.definition))
    static = tuple(name for name in read if name in choices.static and name not in by_name)
    return Program(maps, triggers, tuple(derived), shared, static)


def _static(
    given: frozenset[str], roots: dict[str, MapDef[Query]], derived: Sequence[Relation]
) -> frozenset[str]:
    """All relations that never change: those given, and those derived from nothing else."""
    for r in derived:
        if all(given.issuperset(relations(roots[name].definition)) for name in r.maps):
            given |= {r.name}
    return given


def _read_too_early(
    statements: dict[str, list[Statement[Query]]], derived: Sequence[Relation], views: frozenset[str]
) -> frozenset[str]:
    """Maps under a derived relation that a statement on an earlier one, or on a view, reads: they are still
    pending then."""
    last = {name: i for i, r in enumerate(derived) for name in r.maps}
    found = set()
    earlier = [*((-1, name) for name in views), *((i, r.name) for i, r in enumerate(derived))]
    for i, relation in earlier:
        for statement in statements.get(relation, ()):
            found |= {name for name in maps_read(statement.expr) if last.get(name, -1) > i}
    return frozenset(found)


def _statements(work: Transform) -> dict[str, list[Statement[Query]]]:
    """The statements of all maps, until none finds a further map or component."""
    done: dict[str, tuple[int, dict[str, Statement[Query]]]] = {}
    while True:
        todo = [m for m in work.maps.values() if m.name not in done or done[m.name][0] != len(m.kinds)]
        if not todo:
            break
        for m in todo:
            names_ = dict.fromkeys(name for body in m.products for name in relations(body))
            bases = [name for name in names_ if name not in work.choices.static]
            done[m.name] = len(m.kinds), {base: _statement(work, m, base) for base in bases}
    found: dict[str, list[Statement[Query]]] = {}
    for name in work.maps:
        for base, statement in done[name][1].items():
            found.setdefault(base, []).append(statement)
    return found


def _statement(work: Transform, target: MapDraft, base: str) -> Statement[Query]:
    terms = []
    for i, body in enumerate(target.products):
        for term in _changes(body, base):
            terms += term_over_maps(work, term, target, i)
    expr = check(union(*(_grouped(target.keys, t) for t in terms)), STATEMENT)
    keyless = {name for name, keys in work.keys.items() if not keys}
    ordered = Ordered.among([r for r in work.derived.values() if isinstance(r, View)], keyless)
    return Statement(target.name, "+=", expr, *strategy_of(expr, base, ordered))


@lru_cache(maxsize=4096)  # the programs of a search have most maps in common
def _changes(body: Query, base: str) -> tuple[Query, ...]:
    """The products that the change of a product by a relation is the sum of."""
    change = expand(simplify(check(delta(body, {base}), DELTA)))
    return change.terms if isinstance(change, Plus) else (change,)


def _grouped(keys: tuple[Var, ...], term: Query) -> Query:
    return Neg(Sum(keys, term.body)) if isinstance(term, Neg) else Sum(keys, term)
