"""Scalar expressions: five immutable nodes, typed on construction.

An expression computes with *physical* values (see `everfresh.types`). All implicit conversions have been made
explicit as `Cast` nodes before an expression is built (`everfresh.expr.build` does it), so the type of a
`Call` follows from the types of its arguments alone, and the scalar evaluator, the vectorised one and
generated code need no rules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everfresh.rewrite import Node, node, remembered
from everfresh.types import SqlType

if TYPE_CHECKING:
    from everfresh.expr.library.signature import Signature


class Expr(Node):
    """A scalar expression; `type` is its SQL type, `nullable` whether it can be NULL."""

    @property
    def type(self) -> SqlType:
        """The SQL type of the value."""
        raise NotImplementedError

    @property
    def nullable(self) -> bool:
        """Whether the value can be NULL."""
        raise NotImplementedError

    def __str__(self) -> str:
        from everfresh.expr.text import to_text

        return to_text(self)


@node
class Var(Expr):
    """A variable: a column of a relation, or a value bound by the calculus."""

    name: str
    of: SqlType
    null: bool = True

    @property
    def type(self) -> SqlType:
        """The type the variable was declared with."""
        return self.of

    @property
    def nullable(self) -> bool:
        """Whether the variable may be NULL."""
        return self.null


@node
class Const(Expr):
    """A constant, as a physical value; None is NULL."""

    value: Any
    of: SqlType

    def _values(self) -> tuple[Any, ...]:
        # 1, 1.0 and True are equal in Python, and NaN is not equal to itself: compare by class and by text
        # for floats.
        key = repr(self.value) if isinstance(self.value, float) else self.value
        return (type(self.value).__name__, key, self.of)

    @property
    def children(self) -> tuple[Node, ...]:
        """A constant has no children."""
        return ()

    @property
    def type(self) -> SqlType:
        """The type of the constant."""
        return self.of

    @property
    def nullable(self) -> bool:
        """Whether it is NULL."""
        return self.value is None


@node
class Call(Expr):
    """A function of the table (`everfresh.expr.library`) applied to arguments of the types it takes."""

    op: str
    args: tuple[Expr, ...]

    def check(self) -> None:
        """Compute the result type; raises if the arguments do not fit the function."""
        from everfresh.expr.library.functions import FUNCTIONS, Signature

        function = FUNCTIONS[self.op]
        types = tuple(a.type for a in self.args)
        object.__setattr__(self, "_signature", Signature(types, function.result(types)))
        object.__setattr__(self, "_nullable", function.nullable(self.args))

    @property
    def type(self) -> SqlType:
        """The type that the function gives for these argument types."""
        return self.signature.result

    @property
    def signature(self) -> Signature:
        """The types of the arguments and of the result."""
        return self._signature  # type: ignore[attr-defined,no-any-return]

    @property
    def nullable(self) -> bool:
        """Whether the function can give NULL for these arguments."""
        return self._nullable  # type: ignore[attr-defined,no-any-return]


@node
class Cast(Expr):
    """`arg` converted to another type by SQL's rules; raises at run time if a value does not fit."""

    arg: Expr
    to: SqlType

    @property
    def type(self) -> SqlType:
        """The target type."""
        return self.to

    @property
    def nullable(self) -> bool:
        """As the argument."""
        return self.arg.nullable


@node
class Case(Expr):
    """`CASE WHEN c1 THEN e1 ... ELSE default END`; arms are evaluated only on the rows that reach them."""

    arms: tuple[tuple[Expr, Expr], ...]
    default: Expr

    @property
    def type(self) -> SqlType:
        """The common type of all arms."""
        return self.default.type

    @property
    def nullable(self) -> bool:
        """Whether any arm can be NULL."""
        return self.default.nullable or any(value.nullable for _, value in self.arms)


@remembered
def variables(expr: Expr) -> tuple[Var, ...]:
    """The variables of an expression, each once, in order of appearance."""
    return tuple(dict.fromkeys(n for n in expr.walk() if isinstance(n, Var)))


def substitute(expr: Expr, by: dict[str, Expr]) -> Expr:
    """`expr` with variables replaced by name."""
    if isinstance(expr, Var):
        return by.get(expr.name, expr)
    return expr.map_children(lambda child: substitute(child, by))
