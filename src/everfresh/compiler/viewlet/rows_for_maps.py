"""Maps that are not held because their table's rows do as well.

A change of r that reads rows of B by k for one map, and a sum of B by k from another map, visits the rows in
any case: the sum is taken of them, and the map, which each change of B would have to write, is not there. So
with a map that has nearly as many entries as B has rows: reading it saves little. Whether a map is left out
is decided by cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from everfresh.calculus import Cond, MapRef, Prod, Query, Rel, Sum, Value, inputs, outputs, product
from everfresh.compiler.choice.cost import Model
from everfresh.compiler.choice.estimate import Statistics
from everfresh.compiler.lowering.products import names
from everfresh.compiler.viewlet.canonical import canonical
from everfresh.compiler.viewlet.decisions import Decision, DecisionKind, any_of, known_by
from everfresh.compiler.viewlet.map_registry import Choices, over, products, terms
from everfresh.compiler.viewlet.ranges import range_of
from everfresh.expr import Var
from everfresh.program import MapDef, Program, Trigger

_NEARLY = 0.8
"""The entries of a map for a row of its table from which on the rows do as well."""


def left_out(choices: Choices, atom: Rel, local: Iterable[Query], given: set[str]) -> bool:
    """Whether the map of an atom and these conditions, keyed by its variables in `given`, is left out."""
    if not any_of(DecisionKind.LEFT_OUT, choices.decisions):
        return False
    return _left_out([v for v in atom.vars if v.name in given], [atom, *local]) in choices.decisions


def _left_out(keys: Sequence[Var], factors: Sequence[Query]) -> Decision:
    return Decision(DecisionKind.LEFT_OUT, known_by(canonical(Sum(tuple(keys), product(*factors))).key))


def replaceable(
    program: Program[Query], keyed: Mapping[str, frozenset[int]], statistics: Statistics
) -> Iterator[Decision]:
    """The maps that could be left out: those with nearly as many entries as
    their table has rows, unless they are read in ranges or by the changes of derived relations, which are
    stepped with their tables row by row as long as they read maps; and those of which each trigger that reads
    one, by all of its keys, has another statement that reads the rows of its table by the same columns."""
    model = Model(program, statistics)
    derived = {r.name for r in program.relations}
    for held in program.maps:
        factors = over(held, held.keys)
        atoms = [f for f in factors if isinstance(f, Rel)]
        plain = len(products(held.definition)) == 1 and all(
            isinstance(f, Rel | Cond | Value) for f in factors
        )
        if not plain or len(atoms) != 1 or atoms[0].name not in keyed:
            continue
        atom = atoms[0]
        triggers = [t for t in program.triggers if any(True for _ in _reads(t, held.name))]
        if not triggers or any(t.base == atom.name for t in triggers):
            continue
        full = model.size(held.name).rows >= _NEARLY * model.table(atom.name).rows
        if full and any(t.base in derived or _by_range(t, held.name) for t in triggers):
            full = False
        if full or all(_anyway(t, held, atom) for t in triggers):
            yield _left_out(held.keys, [f for f in factors if not isinstance(f, Value)])


def _by_range(trigger: Trigger[Query], name: str) -> bool:
    """Whether a trigger reads a map in a range, which an ordered index of the map may have summed."""
    for factors, ref in _reads(trigger, name):
        conditions = [f for f in factors if isinstance(f, Cond)]
        before = names([f for f in factors if f is not ref])
        if range_of(ref.keys, before, conditions) is not None:
            return True
    return False


def _anyway(trigger: Trigger[Query], held: MapDef[Query], atom: Rel) -> bool:
    keys = {v.name for v in held.keys}
    places = [place for place, v in zip(atom.places, atom.vars, strict=True) if v.name in keys]
    asked = all(
        {v.name for v in ref.keys} <= _given(factors, ref) for factors, ref in _reads(trigger, held.name)
    )
    return asked and any(
        (given := f.names(places)) is not None and given <= _given(factors, f)
        for factors in _products(trigger)
        for f in factors
        if isinstance(f, Rel) and not f.delta and f.name == atom.name
    )


def _reads(trigger: Trigger[Query], name: str) -> Iterator[tuple[Sequence[Query], MapRef]]:
    """The products of a trigger that read a map, each with where it does."""
    for factors in _products(trigger):
        yield from ((factors, f) for f in factors if isinstance(f, MapRef) and f.name == name)


def _products(trigger: Trigger[Query]) -> Iterator[Sequence[Query]]:
    for statement in trigger.statements:
        for term in terms(statement.expr):
            yield term.factors if isinstance(term, Prod) else (term,)


def _given(factors: Iterable[Query], atom: Query) -> set[str]:
    """The variables that a product has from all but one of its factors."""
    return {v.name for f in factors if f is not atom for v in (*outputs(f), *inputs(f))}
