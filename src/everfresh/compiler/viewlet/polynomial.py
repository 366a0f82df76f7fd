"""Values as polynomials over the parts of a product (sections 3.1.3 and 3.2.2).

When a product falls into parts that are materialized each by itself, an aggregate's value falls with it:
`price * rate` over two parts is the product of one component of each. A sum becomes several monomials, `a -
b` for instance `a * 1 - 1 * b`. Only exact numbers are taken apart; what does not factor stays whole, and the
columns that it reads stay keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from everfresh.errors import EverfreshError
from everfresh.expr import Call, Case, Cast, Const, Expr, build, variables
from everfresh.types import BIGINT, DECIMAL, INT64_DIGITS

NARROW = ("TINYINT", "SMALLINT", "INTEGER")
"""Types of which two values have their product in a BIGINT."""

Part = Hashable
PartOf = Callable[[str], Part]


@dataclass(frozen=True, slots=True)
class Monomial:
    """`coefficient` times one expression per part."""

    coefficient: int
    factors: tuple[tuple[Part, Expr], ...]

    def __mul__(self, other: Monomial) -> Monomial:
        merged = dict(self.factors)
        for part, expr in other.factors:
            merged[part] = _times(merged[part], expr) if part in merged else expr
        return Monomial(self.coefficient * other.coefficient, tuple(merged.items()))

    def times(self, number: int) -> Monomial:
        """The monomial with another coefficient."""
        return Monomial(self.coefficient * number, self.factors)


def _times(a: Expr, b: Expr) -> Expr:
    """Two factors of one part, which may not have stood side by side: their product is none of SQL's, and has
    a type with room for it."""
    if a.type.name in NARROW and b.type.name in NARROW:
        a, b = build.cast(a, BIGINT), build.cast(b, BIGINT)
    elif a.type.name == b.type.name == "DECIMAL" and max(a.type.precision, b.type.precision) <= INT64_DIGITS:
        a = build.cast(a, DECIMAL(INT64_DIGITS + 1, a.type.scale))
    return build.call("*", a, b)


class Whole(Exception):
    """An expression over several parts that does not factor."""


def polynomial(expr: Expr, part_of: PartOf) -> list[Monomial] | None:
    """`expr` as a sum of monomials over parts; None if it does not factor."""
    try:
        return _poly(expr, part_of)
    except (Whole, EverfreshError):
        return None


def _poly(expr: Expr, part_of: PartOf) -> list[Monomial]:
    parts = {part_of(v.name) for v in variables(expr)}
    if not parts:
        if isinstance(expr, Const) and isinstance(expr.value, int):
            return [Monomial(int(expr.value), ())] if expr.value else []
        return [Monomial(1, ((None, expr),))]
    if len(parts) == 1:
        return [Monomial(1, ((parts.pop(), expr),))]
    match expr:
        case Call("*", args) if expr.type.is_exact and _scales(args) == expr.type.scale:
            return _product([_poly(a, part_of) for a in args])
        case Call("+" | "-" as op, (a, b)) if expr.type.is_exact and a.type.scale == b.type.scale:
            sign = 1 if op == "+" else -1
            return [*_poly(a, part_of), *(m.times(sign) for m in _poly(b, part_of))]
        case Call("neg", (a,)) if expr.type.is_exact:
            return [m.times(-1) for m in _poly(a, part_of)]
        case Cast(arg, to) if to.is_exact and arg.type.is_exact and to.scale >= arg.type.scale:
            return [m.times(10 ** (to.scale - arg.type.scale)) for m in _poly(arg, part_of)]
        case Case(((condition, value),), default) if expr.type.is_exact and not expr.nullable:
            return _choice(condition, value, default, part_of)
        case Call("truth", (Call("and", conditions),)):
            return _product([_poly(build.call("truth", c), part_of) for c in conditions])
        case Call("if_null_zero", (arg,)) if arg.type.is_exact:
            return _zeroed(arg, part_of)
        case Call("not_null01", (arg,)):
            return _present(arg, part_of)
    raise Whole


def _scales(args: Sequence[Expr]) -> int:
    if not all(a.type.is_exact for a in args):
        return -1
    return sum(a.type.scale for a in args)


def _product(polynomials: Sequence[list[Monomial]]) -> list[Monomial]:
    result = [Monomial(1, ())]
    for monomials in polynomials:
        result = [a * b for a in result for b in monomials]
    return result


def _choice(condition: Expr, value: Expr, default: Expr, part_of: PartOf) -> list[Monomial]:
    """CASE WHEN c THEN x ELSE y = [c] x + y - [c] y."""
    chosen = _poly(build.call("truth", condition), part_of)
    otherwise = _poly(default, part_of)
    return [
        *_product([chosen, _poly(value, part_of)]),
        *otherwise,
        *(m.times(-1) for m in _product([chosen, otherwise])),
    ]


def _zeroed(arg: Expr, part_of: PartOf) -> list[Monomial]:
    """0 where `arg` is NULL: each operand zero, or absent, where it is NULL."""

    def zero(e: Expr) -> list[Monomial]:
        return _poly(build.call("if_null_zero", e) if e.nullable else e, part_of)

    match arg:
        case Call("*", args) if _scales(args) == arg.type.scale:
            return _product([zero(a) for a in args])
        case Call("+" | "-" as op, (a, b)) if a.type.scale == b.type.scale:
            sign = 1 if op == "+" else -1
            return [
                *_product([zero(a), _present(b, part_of)]),
                *(m.times(sign) for m in _product([_present(a, part_of), zero(b)])),
            ]
        case Cast(inner, to) if inner.type.is_exact and to.scale >= inner.type.scale:
            return [m.times(10 ** (to.scale - inner.type.scale)) for m in zero(inner)]
        case Case(((condition, value),), Const(None)):
            return _product([_poly(build.call("truth", condition), part_of), zero(value)])
    raise Whole


def _present(arg: Expr, part_of: PartOf) -> list[Monomial]:
    """1 where `arg` is not NULL."""
    if not arg.nullable:
        return [Monomial(1, ())]
    if len({part_of(v.name) for v in variables(arg)}) <= 1:
        return _poly(build.call("not_null01", arg), part_of)
    match arg:
        case Call("+" | "-" | "*" | "neg", args):
            return _product([_present(a, part_of) for a in args])
        case Cast(inner, _):
            return _present(inner, part_of)
        case Case(((condition, value),), Const(None)):
            return _product([_poly(build.call("truth", condition), part_of), _present(value, part_of)])
    raise Whole
