"""Whether an expression has a value, or is NULL, on every row.

What is total may be asked of rows that a join would drop, and be left out where it is not needed; what is not
must raise on the rows that SQL evaluates it on, and on no others. Functions say it of themselves
(`Function.fails`), casts by their types.
"""

from __future__ import annotations

from everfresh.expr.library.functions import FUNCTIONS
from everfresh.expr.nodes import Call, Cast, Expr
from everfresh.types import SqlType


def total(expr: Expr) -> bool:
    """Whether an expression raises on no row.

    >>> from everfresh.expr import Var, build
    >>> from everfresh.types import DOUBLE, INTEGER
    >>> i, x = Var("i", INTEGER), Var("x", DOUBLE)
    >>> [total(build.call("=", some, i)) for some in (i, build.call("+", i, i), build.call("+", i, x))]
    [True, False, True]
    """
    return not any(fails(node) for node in expr.walk() if isinstance(node, Expr))


def fails(node: Expr) -> bool:
    """Whether a node may raise where what it is made of does not."""
    if isinstance(node, Call):
        return FUNCTIONS[node.op].fails(node.args)
    if isinstance(node, Cast):
        return not (lossless(node.arg.type, node.to) or _to_double(node))
    return False


def lossless(source: SqlType, to: SqlType) -> bool:
    """Whether every value of `source` is one of `to`, and can be taken back."""
    if source.is_exact and to.is_exact:
        digits = 10 ** max(0, to.scale - source.scale)
        low, high = source.bounds
        least, most = to.bounds
        return to.scale >= source.scale and least <= low * digits and high * digits <= most
    return (source.name, to.name) == ("REAL", "DOUBLE")


def _to_double(cast: Cast) -> bool:
    return cast.to.name == "DOUBLE" and cast.arg.type.is_numeric
