"""Programs that fill their maps by triggers, over tables of which some never change afterwards.

An engine may fill a view by giving its program all rows of its tables as changes. Then static tables have
triggers too, but those run once, before all others, while the other tables are empty. So what is kept for
changes of static tables alone can go: a map that no other trigger reads, and that holds nothing as long as a
table is empty, is never read while there is something in it.

    r JOIN s:  ON r: v += r * S    ON s: v += s * R    S and R: what the other reads
    s static:  ON r: v += r * S    ON s: S += s
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from everfresh.calculus import MapRef, Plus, Query, Rel, relations, union
from everfresh.compiler.choice.strategy import strategy_of
from everfresh.compiler.compile import CompiledView
from everfresh.compiler.viewlet.crossing import Ordered
from everfresh.compiler.viewlet.map_registry import products
from everfresh.program import Program, Statement, Trigger


def fixed_relations(program: Program[Any], static: Collection[str]) -> frozenset[str]:
    """The static tables, and the relations of a program that are derived from nothing else."""
    found = set(static)
    for relation in program.relations:
        if all(found.issuperset(relations(program.map(name).definition)) for name in relation.maps):
            found.add(relation.name)
    return frozenset(found)


def filled_once(compiled: CompiledView, static: Collection[str]) -> CompiledView:
    """A view compiled as if all tables changed, without what changes of static tables alone need."""
    program: Program[Any] = compiled.program
    fixed = fixed_relations(program, static)
    read = dict.fromkeys(name for m in program.maps for name in relations(m.definition))
    named = tuple(name for name in read if name in static)
    if not named:
        return compiled
    moving = [s for t in program.triggers if t.base not in fixed for s in t.statements]
    needed = {*compiled.view.maps, *program.empty, *(name for r in program.relations for name in r.maps)}
    known = fixed | {r.name for r in program.relations}
    gone = {m.name for m in program.maps if m.name not in needed and _waits(m.definition, known)}
    while wanted := gone & {name for s in moving if s.target not in gone for name in _maps(s.expr)}:
        gone -= wanted
    ordered = Ordered.of(program)

    def left(statement: Statement[Any], base: str) -> Statement[Any] | None:
        """What is left of a statement without the terms that read maps that are gone."""
        expr = statement.expr
        terms = expr.terms if isinstance(expr, Plus) else (expr,)
        kept = [term for term in terms if not gone & _maps(term)]
        if statement.target in gone or not kept:
            return None
        expr = expr if len(kept) == len(terms) else union(*kept)
        strategy, reason = strategy_of(expr, base, ordered)
        why = f"when the view is filled, {reason}" if base in fixed else reason
        return replace(statement, expr=expr, strategy=strategy, reason=why)

    triggers = [(t.base, [s for one in t.statements if (s := left(one, t.base))]) for t in program.triggers]
    while (
        more := {n for _, some in triggers for s in some if s.target in needed for n in _maps(s.expr)}
        - needed
    ):
        needed |= more
    kept = [(base, tuple(s for s in some if s.target in needed)) for base, some in triggers]
    program = replace(
        program,
        maps=tuple(m for m in program.maps if m.name in needed),
        triggers=tuple(Trigger(base, some) for base, some in kept if some),
        static=named,
    )
    return replace(compiled, program=program)


def _waits(definition: Query, known: Collection[str]) -> bool:
    """Whether a map holds nothing as long as some table that changes is empty."""
    return all(
        any(isinstance(n, Rel) and n.name not in known for n in term.walk()) for term in products(definition)
    )


def _maps(query: Query) -> set[str]:
    return {n.name for n in query.walk() if isinstance(n, MapRef)}
