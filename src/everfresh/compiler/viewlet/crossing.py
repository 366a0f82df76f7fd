"""Products that change only where a threshold is crossed ("Thresholds", docs/design/sql.md: Q11, Q22, VWAP).

    ΔD(v) * M[a, k](...) * [f(a) > g(v)] * rest

where D has one row at most, and nothing else reads v. The change of D is minus its old row and plus its new
one: entries on the same side of both thresholds add nothing, so that only those between the old and the new
one have to be read. An engine that keeps the entries of M in the order of f(a) finds them at once. The
conditions may be several, if they are over the same f(a): a range, of which both ends move.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from everfresh.calculus import Cond, MapRef, Query, Rel, inputs, outputs
from everfresh.compiler.lowering.products import atom_vars
from everfresh.compiler.viewlet.ranges import Range, range_of
from everfresh.program import Intervals, Program, View


@dataclass(frozen=True, slots=True)
class Crossing:
    """A change, the atom whose entries are compared with it, and the range of those that count: its limits
    are over the change's variables. `rest` is all other factors."""

    change: Rel
    atom: Rel | MapRef
    range: Range
    rest: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Which derived relations of a program have one row at most (intervals: a few), and which are read off
    the entries of one map, so that these can be kept in the order of a column."""

    single: Collection[str]
    plain: Collection[str]

    @staticmethod
    def of(program: Program[Query]) -> Ordered:
        """Those of a program."""
        views = [r for r in program.relations if isinstance(r, View)]
        single = {r.name for r in views if not program.map(r.map).keys}
        single |= {r.name for r in program.relations if isinstance(r, Intervals)}
        return Ordered.among(views, single)

    @staticmethod
    def among(views: Sequence[View], single: Collection[str]) -> Ordered:
        """Of these views, given which have one row at most."""
        plain = frozenset(r.name for r in views if not r.sides and not r.always and r.name not in single)
        return Ordered(single, plain)


def crossing(factors: Sequence[Query], group: Collection[str], ordered: Ordered) -> Crossing | None:
    """A product, summed to the variables `group`, as one that changes where a threshold is crossed."""
    if not ordered.single:
        return None
    changes = [n for f in factors for n in f.walk() if isinstance(n, Rel) and n.delta]
    if len(changes) != 1 or changes[0].name not in ordered.single:
        return None
    change = changes[0]
    if not any(f is change for f in factors):
        return None
    bound = {v.name for v in change.vars}
    users = [f for f in factors if f is not change and bound & _names(f)]
    if len(bound) != len(change.vars) or bound & set(group):
        return None
    conditions = [f for f in users if isinstance(f, Cond)]
    if not users or len(conditions) < len(users):
        return None
    for atom in factors:
        if isinstance(atom, MapRef) or (isinstance(atom, Rel) and atom.name in ordered.plain):
            found = range_of(atom_vars(atom), bound, conditions)
            if found is not None and len(found.conditions) == len(conditions):
                gone = {id(change), id(atom), *map(id, conditions)}
                return Crossing(change, atom, found, tuple(f for f in factors if id(f) not in gone))
    return None


def _names(factor: Query) -> set[str]:
    own = atom_vars(factor) if isinstance(factor, Rel | MapRef) else outputs(factor)
    return {v.name for v in (*own, *inputs(factor))}
