"""What arithmetic over several relations can come to: whether taking it apart may hide an overflow.

`SUM(a.x * b.y)` over a join is `SUM(a.x) * SUM(b.y)` of each group (`polynomial`), and no map ever sees the
product of two rows. In SQL that product has a type, and a row whose product is outside it is an error. So an
engine that takes values apart has to know that none of them leaves its type. It does by intervals: of each
column the least and the greatest value that was ever seen (`Reach`), and of each operation over them what
these come to. Most views need not even that: their types are wide enough for anything.

`Guards.hides` names a value that may leave its type, as far as the columns seen so far tell. A batch that
changes such a view is checked against the query itself, which is dear, and exact.

Invariant: if there is none, no operation over several relations overflows on any row that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from everfresh.algebra import Kind
from everfresh.calculus import Bind, Each, Query, Rel, Value, inputs, outputs
from everfresh.compiler.viewlet.map_registry import products
from everfresh.expr import Call, Case, Cast, Const, Expr, Var, variables
from everfresh.program import MapDef, Program, View, component

Interval = tuple[int, int]
Known = Callable[[str], Interval | None]
Together = Callable[[frozenset[str]], bool]
"""Whether one relation has all of some variables."""

_DIGITS = 3
"""Bits of a bound that count: columns that grow slowly are looked at again a few times only."""
_MANY = 1 << 48
"""Rows of a relation of which nothing is known."""
_ZERO_ONE = ("truth", "not_null01")


# -- what was seen -------------------------------------------------------------------------------------------


@dataclass
class Reach:
    """How far the columns of tables reach: of each the least and the greatest physical value of all rows that
    were seen, rounded away from zero, and how many rows there were at most."""

    columns: dict[tuple[str, int], Interval] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def column(self, table: str, place: int) -> Interval | None:
        """The interval of a column; None if nothing was seen of it."""
        return self.columns.get((table, place))

    def size(self, table: str) -> int:
        """How many rows a table has, at most."""
        return self.rows.get(table, 0)

    def copy(self) -> Reach:
        """The same, to go back to."""
        return Reach(dict(self.columns), dict(self.rows))

    def see(self, table: str, column: int, least: int, most: int) -> bool:
        """Values of a column; whether they reach further than all before.

        >>> reach = Reach()
        >>> reach.see("t", 0, 1, 100), reach.see("t", 0, 0, 111), reach.columns
        (True, False, {('t', 0): (0, 112)})
        """
        low, high = self.columns.get((table, column), (0, 0))
        if low <= least and most <= high and (table, column) in self.columns:
            return False
        self.columns[table, column] = min(low, -_rounded(-least)), max(high, _rounded(most))
        return True

    def add(self, table: str, rows: int) -> bool:
        """Rows that come, or that are there; whether the bound of their number grows."""
        had = self.rows.get(table, 0)
        if rows <= had:
            return False
        self.rows[table] = _rounded(2 * rows)
        return True


def _rounded(number: int) -> int:
    """A number at least as large, with few digits that count; 0 for those below."""
    shift = max(number.bit_length() - _DIGITS, 0)
    return max(-(-number >> shift) << shift, 0)


# -- one expression ------------------------------------------------------------------------------------------


def fits(expr: Expr, together: Together, known: Known = lambda _: None) -> bool:
    """Whether no operation of an expression over variables that are not together can leave its type.

    >>> from everfresh.expr import build
    >>> from everfresh.types import BIGINT, INTEGER
    >>> x, y = (Var(n, INTEGER, False) for n in "xy")
    >>> product = build.call("*", x, y)
    >>> wide = build.call("*", build.cast(x, BIGINT), build.cast(y, BIGINT))
    >>> apart = lambda names: len(names) < 2
    >>> fits(wide, apart), fits(product, apart), fits(product, apart, lambda _: (0, 1000))
    (True, False, True)
    """
    found: list[bool] = []
    _interval(expr, together, known, found)
    return all(found)


def _interval(expr: Expr, together: Together, known: Known, found: list[bool]) -> Interval:
    """What an exact expression can come to; whether operations that `fits` is about fit goes to `found`."""
    if not expr.type.is_exact:
        for child in expr.children:
            if isinstance(child, Expr):
                _interval(child, together, known, found)
        return 0, 1
    least, most = expr.type.bounds
    exact = _arithmetic(expr, together, known, found)
    if exact is None:
        return least, most
    if not together(frozenset(v.name for v in variables(expr))):
        found.append(least <= exact[0] and exact[1] <= most)
    return max(exact[0], least), min(exact[1], most)


def _arithmetic(expr: Expr, together: Together, known: Known, found: list[bool]) -> Interval | None:
    """The interval of an expression, not yet cut to its type; None if no more is known than its type."""

    def of(e: Expr) -> Interval:
        return _interval(e, together, known, found)

    match expr:
        case Const(value):
            return (int(value), int(value)) if value is not None else (0, 0)
        case Var(name):
            return known(name)
        case Call("+", (a, b)) if a.type.scale == b.type.scale == expr.type.scale:
            (al, ah), (bl, bh) = of(a), of(b)
            return al + bl, ah + bh
        case Call("-", (a, b)) if a.type.scale == b.type.scale == expr.type.scale:
            (al, ah), (bl, bh) = of(a), of(b)
            return al - bh, ah - bl
        case Call("*", (a, b)) if a.type.scale + b.type.scale == expr.type.scale:
            ends = [x * y for x in of(a) for y in of(b)]
            return min(ends), max(ends)
        case Call("neg", (a,)):
            low, high = of(a)
            return -high, -low
        case Call("if_null_zero", (a,)):
            low, high = of(a)
            return min(low, 0), max(high, 0)
        case Cast(arg, to) if arg.type.is_exact and to.scale >= arg.type.scale:
            unit = 10 ** (to.scale - arg.type.scale)
            low, high = of(arg)
            return low * unit, high * unit
        case Case(arms, default):
            for condition, _ in arms:
                of(condition)
            ends = [end for e in (*(value for _, value in arms), default) for end in of(e)]
            return min(ends), max(ends)
    for child in expr.children:
        if isinstance(child, Expr):
            of(child)
    return (0, 1) if isinstance(expr, Call) and expr.op in _ZERO_ONE else None


def _any(_: frozenset[str]) -> bool:
    return True


def _range(expr: Expr, known: Known) -> Interval:
    """What an exact expression can come to."""
    return _interval(expr, _any, known, [])


# -- a program -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watched:
    """A value over several relations that its types alone do not keep in bounds, and the product it is in."""

    expr: Expr
    factors: tuple[Query, ...]


def watched(program: Program[Any]) -> tuple[Watched, ...]:
    """The values of a program that may leave their types, whatever maps they are taken apart to."""
    return tuple(
        Watched(expr, factors)
        for m in (*program.maps, *program.shared)
        if isinstance(m.definition, Query)
        for factors in _terms(m)
        for value in factors
        if isinstance(value, Value)
        for expr in value.items
        if not fits(expr, _together(factors))
    )


def _terms(m: MapDef[Any]) -> list[tuple[Query, ...]]:
    """The products that a map sums, each as its factors."""
    return [tuple(getattr(product, "factors", (product,))) for product in products(m.definition)]


def _together(factors: tuple[Query, ...]) -> Together:
    """Of a product: what bindings make of the variables of one relation counts as its."""
    held = [{v.name for v in f.vars} for f in factors if isinstance(f, Rel)]
    for f in factors:
        if isinstance(f, Bind | Each):
            used = {v.name for v in inputs(f)}
            for names in held:
                if used <= names:
                    names.update(v.name for v in outputs(f))
    return lambda names: any(names <= own for own in held) or not names


class Bounds:
    """What the columns of a program's relations come to, by how far its tables reach; `views` has those that
    it reads."""

    def __init__(self, program: Program[Any], reach: Reach, views: Mapping[str, Guarded]) -> None:
        self._maps = {m.name: m for m in (*program.maps, *program.shared)}
        self._relations = {r.name: r for r in program.relations}
        self._reach, self._views = reach, views

    def hides(self, watch: Watched) -> bool:
        """Whether a value may leave its type on a row that was seen."""
        return not fits(watch.expr, _together(watch.factors), self._known(watch.factors))

    def _known(self, factors: tuple[Query, ...]) -> Known:
        """The intervals of the variables of a product."""
        atoms = [f for f in factors if isinstance(f, Rel)]
        bound = {f.var.name: f.expr for f in factors if isinstance(f, Bind)}

        def known(name: str) -> Interval | None:
            places = (
                (a.name, i) for a in atoms for i, v in zip(a.places, a.vars, strict=True) if v.name == name
            )
            found = [i for i in (self._column(*place) for place in places) if i is not None]
            if found:  # a variable of several relations is in the intervals of all
                return max(low for low, _ in found), min(high for _, high in found)
            return _range(bound[name], known) if name in bound else None

        return known

    def _column(self, relation: str, place: int) -> Interval | None:
        found = self._relations.get(relation)
        if isinstance(found, View):
            return self._output(found, place)
        if found is not None:
            return None
        other = self._views.get(relation)
        if other is not None:
            return Bounds(other.program, self._reach, self._views)._output(other.view, place)
        return self._reach.column(relation, place)

    def _output(self, view: View, place: int) -> Interval | None:
        """A column that is read off a map."""
        m = self._maps.get(view.map)
        expr = view.outputs[place]
        if m is None or not isinstance(m.definition, Query) or not expr.type.is_exact:
            return None
        return _range(expr, self._entry(m))

    def _entry(self, m: MapDef[Any]) -> Known:
        """The intervals of a map's keys and components."""
        terms = _terms(m)
        components = {component(i): i for i, kind in enumerate(m.kinds, 1) if kind != Kind.FLOAT}

        def known(name: str) -> Interval | None:
            if name == component(0):
                return 0, sum(map(self._rows, terms))
            if name not in components:
                return _hull([self._known(term)(name) for term in terms])
            sums = [self._total(term, components[name] - 1) for term in terms]
            return sum(low for low, _ in sums), sum(high for _, high in sums)

        return known

    def _total(self, term: tuple[Query, ...], index: int) -> Interval:
        """What a component comes to over all rows of a product."""
        value = next(f for f in term if isinstance(f, Value))
        low, high = _range(value.items[index], self._known(term))
        rows = self._rows(term)
        return min(low, 0) * rows, max(high, 0) * rows

    def _rows(self, term: tuple[Query, ...]) -> int:
        """How many rows a product has at most."""
        rows = 1
        for f in term:
            if isinstance(f, Rel):
                rows *= self._size(f.name)
        return rows

    def _size(self, relation: str) -> int:
        found = self._relations.get(relation)
        if found is not None:
            return sum(map(self._rows, _terms(self._maps[found.maps[0]]))) + 1
        other = self._views.get(relation)
        if other is None:
            return self._reach.size(relation)
        m = other.program.map(other.view.map)
        if not isinstance(m.definition, Query):
            return _MANY
        return sum(map(Bounds(other.program, self._reach, self._views)._rows, _terms(m))) + 1


def _hull(intervals: list[Interval | None]) -> Interval | None:
    known = [i for i in intervals if i is not None]
    if not known or len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


# -- all views -----------------------------------------------------------------------------------------------


class Guarded(Protocol):
    """What is asked of a compiled view."""

    @property
    def program(self) -> Program[Any]:
        """Its program."""

    @property
    def view(self) -> View:
        """How its rows are read."""

    @property
    def watched(self) -> tuple[Watched, ...]:
        """The values of its program to watch."""


class Guards:
    """The values of all views that their types do not keep in bounds, and the columns that say if they stay
    there."""

    def __init__(self, views: Mapping[str, Guarded]) -> None:
        self._views = views
        self.watched: dict[str, tuple[Watched, ...]] = {n: v.watched for n, v in views.items() if v.watched}
        asked = _Asked()
        for name in self.watched:
            self.hides(name, asked)
        self.columns: dict[str, tuple[int, ...]] = {
            table: tuple(sorted(places)) for table, places in asked.places.items()
        }
        """Of each table the places of the columns whose reach is asked for."""

    def hides(self, view: str, reach: Reach) -> Watched | None:
        """A value of a view that may leave its type, by what was seen."""
        bounds = Bounds(self._views[view].program, reach, self._views)
        # All of them: what is asked of the reach does not depend on it.
        found = [w for w in self.watched[view] if bounds.hides(w)]
        return found[0] if found else None


class _Asked(Reach):
    """Reach of which only is known what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, set[int]] = {}

    def column(self, table: str, place: int) -> Interval | None:
        self.places.setdefault(table, set()).add(place)
        return None

    def size(self, table: str) -> int:
        self.places.setdefault(table, set())
        return 0
