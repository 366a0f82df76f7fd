"""Which keys of a map determine the others: bound, they leave one entry at most.

A table has one row for each primary key, so the columns of that key determine all others of its atom; a
variable that is bound is determined by what it is computed from, and equal variables determine each other. A
map over `orders` with the keys `o_orderkey, o_custkey` has one entry at most for an `o_orderkey`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everfresh.calculus import Bind, Cond, Query, Rel, inputs
from everfresh.expr import Call, Var
from everfresh.local.interpret.join_order import Keyed, products

_Rule = tuple[frozenset[str], frozenset[str]]


def determining(definition: Query, keys: Sequence[Var], keyed: Keyed) -> tuple[int, ...]:
    """The places of the fewest of a map's keys that determine all of them, by the primary key of one table;
    none if there are no such."""
    terms = [factors for _, factors in products(definition)]
    if len(terms) != 1:  # what holds in each of several terms need not hold in their sum
        return ()
    names = [v.name for v in keys]
    tables = [rule for f in terms[0] if isinstance(f, Rel) and not f.delta for rule in _of_table(f, keyed)]
    rules = [*tables, *(rule for factor in terms[0] for rule in _of_scalar(factor))]
    for by, _ in sorted(tables, key=lambda rule: len(rule[0])):
        if by < set(names) and set(names) <= _closure(by, rules):
            return tuple(sorted(names.index(name) for name in by))
    return ()


def _of_table(atom: Rel, keyed: Keyed) -> Iterable[_Rule]:
    key = keyed(atom)
    if key:
        yield frozenset(atom.vars[i].name for i in key), frozenset(v.name for v in atom.vars)


def _of_scalar(factor: Query) -> Iterable[_Rule]:
    match factor:
        case Bind(var):
            yield frozenset(v.name for v in inputs(factor)), frozenset((var.name,))
        case Cond(Call("=", (Var() as a, Var() as b))):
            yield frozenset((a.name,)), frozenset((b.name,))
            yield frozenset((b.name,)), frozenset((a.name,))


def _closure(names: frozenset[str], rules: Sequence[_Rule]) -> frozenset[str]:
    known, before = names, frozenset[str]()
    while known != before:
        before = known
        known = known.union(*(found for by, found in rules if by <= known))
    return known
