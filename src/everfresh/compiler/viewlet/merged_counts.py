"""Maps of one table that differ in a condition: one map, which counts the rows that pass beside all of them.

`A[k] = Sum_[k](r(k, x) * [x > 1])` and `B[k] = Sum_[k](r(k, x))` have entries at the same keys, and each
change of r writes both. As a component of B, `⟨truth(x > 1)⟩`, A is not written by itself, and takes a word
of its entries. What remains is that a reader of A at some of its keys sees the entries of B that no row
passes, with weight zero. Where the conditions are on keys alone, A's readers ask them of B. Whether two maps
are one is decided by cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from everfresh.algebra import Kind
from everfresh.calculus import Cond, MapRef, Prod, Query, Rel, Sum, Value, product, rename
from everfresh.compiler.choice.strategy import strategy_of
from everfresh.compiler.viewlet.crossing import Ordered
from everfresh.compiler.viewlet.decisions import Decision, DecisionKind, any_of, known_by
from everfresh.expr import Const, Expr, Made, Var, build, told, variables
from everfresh.program import MapDef, Program, Statement, Trigger
from everfresh.types import BIGINT


@dataclass(frozen=True, slots=True)
class _Rows:
    """A map of the rows of one table: the places of its keys, and the conditions on the columns `@i`."""

    map: MapDef[Query]
    table: str
    places: tuple[int, ...]
    conditions: tuple[Cond, ...]

    @staticmethod
    def of(m: MapDef[Query]) -> _Rows | None:
        """A map as one of rows; None if it is not."""
        if not isinstance(m.definition, Sum):
            return None
        factors = _factors(m.definition)
        atoms = [f for f in factors if isinstance(f, Rel)]
        conditions = [f for f in factors if isinstance(f, Cond)]
        values = sum(isinstance(f, Value) for f in factors)
        if len(atoms) != 1 or 1 + len(conditions) + values != len(factors):
            return None
        at = _columns(atoms[0])
        if len(at) != len(atoms[0].vars) or not all(v.name in at for v in m.keys):
            return None
        by = {v.name: Var(f"@{at[v.name]}", v.type, v.nullable) for v in atoms[0].vars}
        renamed = [rename(f, by) for f in conditions]
        return _Rows(m, atoms[0].name, tuple(at[v.name] for v in m.keys), tuple(renamed))  # type: ignore[arg-type]

    def within(self, other: _Rows) -> bool:
        """Whether this counts the rows of another map, at the same keys, that pass more conditions."""
        return (
            not self.map.kinds
            and (self.table, sorted(self.places)) == (other.table, sorted(other.places))
            and set(other.conditions) < set(self.conditions)
        )

    def beside(self, other: _Rows) -> Decision:
        """The decision to keep this one as a component of another."""
        both = [sorted(map(str, one.conditions)) for one in (self, other)]
        return Decision(DecisionKind.COUNTED, known_by(f"{told(self.table)} {sorted(self.places)} {both}"))


def countable(program: Program[Query], roots: Collection[str]) -> Iterator[Decision]:
    """The maps, other than `roots`, that could be a component of another, by the decision."""
    return (part.beside(whole) for part, whole in _pairs(program, roots))


def counted_beside(
    program: Program[Query], chosen: Collection[Decision], roots: Collection[str]
) -> Program[Query]:
    """The program with the maps that are chosen to be a component of another."""
    if not any_of(DecisionKind.COUNTED, chosen):
        return program
    while True:
        pair = next(((a, b) for a, b in _pairs(program, roots) if a.beside(b) in chosen), None)
        if pair is None:
            return program
        program = _together(program, *pair)


def _pairs(program: Program[Query], roots: Collection[str]) -> Iterator[tuple[_Rows, _Rows]]:
    found = [rows for m in program.maps if m.name not in roots and (rows := _Rows.of(m)) is not None]
    return ((a, b) for a, b in itertools.permutations(found, 2) if a.within(b))


def _together(program: Program[Query], part: _Rows, whole: _Rows) -> Program[Query]:
    """The program with one map in place of two. Conditions on keys alone are left to the readers."""
    extra = [c.condition for c in part.conditions if c not in whole.conditions]
    keys = {f"@{i}" for i in whole.places}
    on_keys = all(v.name in keys for condition in extra for v in variables(condition))
    passes = None if on_keys else build.call("truth", build.conjunction(extra))
    held, place = whole.map, 0
    if passes is not None:
        place = len(held.kinds) + 1
        kinds = (*held.kinds, Kind.COUNT)
        held = replace(held, kinds=kinds, definition=_with_value(held.definition, passes, place - 1))

    def read(node: object) -> object:
        if isinstance(node, MapRef) and node.name == part.map.name:
            at = dict(zip(part.places, node.keys, strict=True))
            components = tuple(place if c == 0 else c for c in node.components)
            ref = MapRef(held.name, tuple(at[i] for i in whole.places), components)
            by = {f"@{i}": var for i, var in at.items()}
            return product(ref, *(rename(Cond(c), by) for c in extra if passes is None))
        if isinstance(node, Prod):
            return product(*(read(f) for f in node.factors))  # type: ignore[arg-type]
        return node.map_children(read) if isinstance(node, Query) else node

    ordered = Ordered.of(program)

    def rewritten(base: str, statement: Statement[Query]) -> Statement[Query]:
        if statement.target == held.name and passes is not None:
            return replace(statement, expr=_with_value(statement.expr, passes, place - 1))
        expr = read(statement.expr)
        if expr == statement.expr:
            return statement
        assert isinstance(expr, Query)
        return Statement(statement.target, statement.op, expr, *strategy_of(expr, base, ordered))

    triggers = tuple(
        Trigger(t.base, tuple(rewritten(t.base, s) for s in t.statements if s.target != part.map.name))
        for t in program.triggers
    )
    maps = tuple(held if m.name == held.name else m for m in program.maps if m.name != part.map.name)
    return replace(program, maps=maps, triggers=triggers)


def _with_value(query: Query, value: Expr, many: int) -> Query:
    """A sum over the rows of a table, or over their change, with a further value after `many` others, which
    are ones where it has none."""
    assert isinstance(query, Sum)
    (old,) = (f for f in _factors(query) if isinstance(f, Rel))
    atom = _reading(old, value)
    factors = [atom if f is old else f for f in _factors(query)]
    own = rename(Value((value,)), {f"@{place}": v for place, v in atom.at().items()})
    assert isinstance(own, Value)
    items = next((f.items for f in factors if isinstance(f, Value)), (Const(1, BIGINT),) * many)
    rest = [f for f in factors if not isinstance(f, Value)]
    return Sum(query.group, product(*rest, Value((*items, *own.items))))


def _reading(atom: Rel, value: Expr) -> Rel:
    """An atom that reads the columns of a value, too, if it does not read all."""
    known = atom.at()
    for var in variables(value):
        place = int(var.name[1:])
        known.setdefault(place, Var(Made(var.name), var.type, var.nullable))
    if len(known) == len(atom.vars):
        return atom
    places = sorted(known)
    return replace(atom, vars=tuple(known[place] for place in places), columns=tuple(places))


def _columns(atom: Rel) -> dict[str, int]:
    """The place of the column that each variable of an atom stands for."""
    return {v.name: place for place, v in zip(atom.places, atom.vars, strict=True)}


def _factors(query: Sum) -> tuple[Query, ...]:
    return query.body.factors if isinstance(query.body, Prod) else (query.body,)
