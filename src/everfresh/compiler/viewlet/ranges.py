"""Conditions of a product that are ranges of a value of one atom ("Ranges of a value", docs/design/sql.md).

    ΔR(b, y) * M[b, x](...) * [x < y]            x - y < c         lo <= x AND x <= hi       x < lo OR x > hi

An engine that keeps the entries of M in the order of b and x finds those that qualify without looking at the
others; where nothing after the atom reads x, it takes the sum over them from prefix sums.

A condition `x <> y` leaves all entries of a b but those of one x. By itself it is a range only where no b is
given: among the entries that agree with a row, an order would spare next to nothing, and costs an index.

Invariant: for every entry and every row for which all parts of a `Range` can be computed, the range holds
exactly where all of its `conditions` are true. An addition or subtraction that mixes the value with bound
variables is solved for the value; `guards` are what the condition would compute, to be tried at the least and
at the greatest value: if neither raises, no value between does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from everfresh.calculus import Cond
from everfresh.expr import Call, Cast, Expr, Made, Var, build, variables
from everfresh.types import BIGINT, DECIMAL, HUGEINT, SqlType

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
VALUE = Made("$value")
"""The variable that stands for the value in a guard."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`value op limit`; the limit is given in units of which `shift` are one of the value's, 1 unless the
    condition compares in a type with more digits behind the point."""

    op: str
    limit: Expr
    shift: int = 1
    guard: Expr | None = None


Alternatives = tuple[tuple[Comparison, ...], ...]


@dataclass(frozen=True, slots=True)
class Range:
    """What the entries of an atom must satisfy: of each of `clauses`, all comparisons of one alternative.
    `value` is over the atom's variables, limits are over variables that are bound before it."""

    value: Expr
    clauses: tuple[Alternatives, ...]
    conditions: tuple[Cond, ...]

    @property
    def limits(self) -> tuple[Var, ...]:
        """The variables that must be bound."""
        exprs = [e for c in self.comparisons for e in (c.limit, c.guard) if e is not None]
        return tuple(dict.fromkeys(v for e in exprs for v in variables(e) if v.name != VALUE))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All of them."""
        return tuple(c for clause in self.clauses for alternative in clause for c in alternative)


def range_of(held: Sequence[Var], bound: Collection[str], conditions: Sequence[Cond]) -> Range | None:
    """The range that conditions set for an atom with the variables `held`; None if they set none.

    >>> x, y = Var("x", BIGINT, False), Var("y", BIGINT, False)
    >>> found = range_of([x], ["y"], [Cond(build.call("<", build.call("-", y, x), build.literal(5)))])
    >>> [(str(found.value), c.op, str(c.limit)) for c in found.comparisons]
    [('x', '>', 'y - 5::BIGINT')]
    >>> range_of([x], ["y"], [Cond(build.call("<>", x, y))]) is None
    False
    >>> b = Var("b", BIGINT, False)
    >>> range_of([b, x], ["b", "y"], [Cond(build.call("<>", x, y))]) is None
    True
    """
    names = [v.name for v in held]
    if len(set(names)) < len(names):
        return None
    own = set(names) - set(bound)
    known = set(bound)
    by_value: dict[Expr, list[tuple[Cond, Alternatives]]] = {}
    for condition in conditions:
        found = _clause(condition.condition, own, set(names), known)
        if found is not None:
            by_value.setdefault(found[0], []).append((condition, found[1]))
    if not by_value:
        return None
    value, chosen = max(by_value.items(), key=lambda item: len(item[1]))
    if own < set(names) and all(_excludes(condition.condition) for condition, _ in chosen):
        return None
    return Range(value, tuple(c for _, c in chosen), tuple(c for c, _ in chosen))


def _excludes(expr: Expr) -> bool:
    """Whether a condition leaves out one value and nothing else."""
    return isinstance(expr, Call) and expr.op == "<>"


def _clause(expr: Expr, own: set[str], held: set[str], bound: set[str]) -> tuple[Expr, Alternatives] | None:
    """A condition as alternatives over one value."""
    if not isinstance(expr, Call):
        return None
    if expr.op == "or":
        parts = [_clause(e, own, held, bound) for e in expr.args]
        if any(p is None or p[0] != parts[0][0] for p in parts):  # type: ignore[index]
            return None
        return parts[0][0], tuple(a for p in parts for a in p[1])  # type: ignore[index]
    if expr.op == "and":
        parts = [_clause(e, own, held, bound) for e in expr.args]
        if any(p is None or p[0] != parts[0][0] or len(p[1]) > 1 for p in parts):  # type: ignore[index]
            return None
        return parts[0][0], (tuple(c for p in parts for c in p[1][0]),)  # type: ignore[index]
    if expr.op not in MIRRORED:
        return None
    left, right = expr.args
    for value, op, limit in ((left, expr.op, right), (right, MIRRORED[expr.op], left)):
        found = _solved(value, op, limit, own, held, bound)
        if found is not None:
            solved, comparison = found
            if comparison.op != "<>":
                return solved, ((comparison,),)
            less, more = (Comparison(o, *_tail(comparison)) for o in "<>")
            return solved, ((less,), (more,))
    return None


def _tail(comparison: Comparison) -> tuple[Expr, int, Expr | None]:
    return comparison.limit, comparison.shift, comparison.guard


def _solved(
    value: Expr, op: str, limit: Expr, own: set[str], held: set[str], bound: set[str]
) -> tuple[Expr, Comparison] | None:
    """`value op limit` with all variables of the atom on the left alone."""
    if value.type != limit.type or value.type.name == "INTERVAL" or not _names(limit) <= bound:
        return None
    if _belongs(value, own, held):
        inner, shift = unscaled(value)
        return inner, Comparison(op, limit, shift)
    if not (isinstance(value, Call) and value.op in ("+", "-")) or (type_ := _exact(value, limit)) is None:
        return None
    a, b = value.args
    for mine, other, at in ((a, b, 0), (b, a, 1)):
        if _belongs(mine, own, held) and _names(other) <= bound:
            guard = Call(
                value.op, tuple(Var(VALUE, e.type, False) if i == at else e for i, e in enumerate((a, b)))
            )
            negative = value.op == "-" and at == 1
            new = build.call(
                "-" if value.op == "+" or negative else "+", *((other, limit) if negative else (limit, other))
            )
            solved = Comparison(MIRRORED[op] if negative else op, build.cast(new, type_), 1, guard)
            return build.cast(mine, type_), solved
    return None


def _exact(value: Expr, limit: Expr) -> SqlType | None:
    """A type in which the terms of a sum or difference are compared exactly."""
    types = [value.type, limit.type, *(e.type for e in value.args)]  # type: ignore[attr-defined]
    if not all(t.is_exact and t.scale == value.type.scale for t in types):
        return None
    wide = any(t.is_wide for t in types)
    if all(t.is_integer for t in types):
        return HUGEINT if wide else BIGINT
    return DECIMAL(38 if wide else 18, value.type.scale)


def unscaled(value: Expr) -> tuple[Expr, int]:
    """A value without a cast that only adds digits: the value, and how many units of the cast's it is.

    >>> unscaled(Cast(Var("x", BIGINT, False), DECIMAL(38, 4)))
    (Var(name='x', of=SqlType(name='BIGINT', precision=0, scale=0, inner=(), names=()), null=False), 10000)
    """
    if not isinstance(value, Cast) or not value.to.is_exact or not value.arg.type.is_exact:
        return value, 1
    inner, to = value.arg.type, value.to
    factor = 10 ** (to.scale - inner.scale) if to.scale >= inner.scale else 0
    low, high = to.bounds
    if not factor or inner.bounds[0] * factor < low or inner.bounds[1] * factor > high:
        return value, 1
    return value.arg, factor


def _belongs(expr: Expr, own: set[str], held: set[str]) -> bool:
    used = _names(expr)
    return bool(used & own) and used <= held


def _names(expr: Expr) -> set[str]:
    return {v.name for v in variables(expr)}
