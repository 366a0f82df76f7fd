"""Products that change only where a threshold is crossed (6.3 of the notes on SQL: Q11, Q22, VWAP).

    ΔD(v) * M[a, k](...) * [f(a) > g(v)] * rest

where D has one row at most, and nothing else reads v. The change of D is minus its old row and plus its new
one: entries on the same side of both thresholds add nothing, so that only those between the old and the new
one have to be read. An engine that keeps the entries of M in the order of f(a) finds them at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from everfresh.calculus import Cond, MapRef, Query, Rel, inputs, outputs
from everfresh.compiler.rows import atom_vars
from everfresh.expr import Call, Expr, variables
from everfresh.program import Program, View

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Crossing:
    """A change, the atom whose entries are compared with it, and `value op limit`, true for those that
    count: `value` is over the atom's variables, `limit` over the change's. `rest` is all other factors."""

    change: Rel
    atom: Rel | MapRef
    value: Expr
    op: str
    limit: Expr
    rest: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Which derived relations of a program have one row at most, and which are read off the entries of one
    map, so that these can be kept in the order of a column."""

    single: Collection[str]
    plain: Collection[str]

    @staticmethod
    def of(program: Program[Query]) -> Ordered:
        """Those of a program."""
        views = [r for r in program.relations if isinstance(r, View)]
        single = frozenset(r.name for r in views if not program.map(r.map).keys)
        return Ordered.among(views, single)

    @staticmethod
    def among(views: Sequence[View], single: Collection[str]) -> Ordered:
        """Of these views, given which have one row at most."""
        plain = frozenset(r.name for r in views if not r.sides and not r.always and r.name not in single)
        return Ordered(single, plain)


def crossing(factors: Sequence[Query], group: Collection[str], ordered: Ordered) -> Crossing | None:
    """A product, summed to the variables `group`, as one that changes where a threshold is crossed."""
    changes = [n for f in factors for n in f.walk() if isinstance(n, Rel) and n.delta]
    if len(changes) != 1 or changes[0].name not in ordered.single:
        return None
    change = changes[0]
    if not any(f is change for f in factors):
        return None
    bound = {v.name for v in change.vars}
    users = [f for f in factors if f is not change and bound & _names(f)]
    if len(bound) != len(change.vars) or bound & set(group) or len(users) != 1:
        return None
    condition = users[0]
    if not isinstance(condition, Cond) or (sides := _sides(condition.condition, bound)) is None:
        return None
    value, op, limit = sides
    read = {v.name for v in variables(value)}
    for atom in factors:
        if isinstance(atom, MapRef) or (isinstance(atom, Rel) and atom.name in ordered.plain):
            held = [v.name for v in atom_vars(atom)]
            if read <= set(held) and len(set(held)) == len(held):
                rest = tuple(f for f in factors if f is not change and f is not atom and f is not condition)
                return Crossing(change, atom, value, op, limit, rest)
    return None


def _names(factor: Query) -> set[str]:
    own = atom_vars(factor) if isinstance(factor, Rel | MapRef) else outputs(factor)
    return {v.name for v in (*own, *inputs(factor))}


def _sides(condition: Expr, bound: set[str]) -> tuple[Expr, str, Expr] | None:
    """`value op limit`, with the variables of the change on the right alone."""
    if not isinstance(condition, Call) or condition.op not in _MIRRORED:
        return None
    left, right = condition.args
    if left.type != right.type or left.type.name == "INTERVAL":
        return None
    for value, op, limit in ((left, condition.op, right), (right, _MIRRORED[condition.op], left)):
        of_value, of_limit = ({v.name for v in variables(e)} for e in (value, limit))
        if of_value and not of_value & bound and of_limit and of_limit <= bound:
            return value, op, limit
    return None
