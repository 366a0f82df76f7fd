"""What a row of the function table is made of.

A `Function` has one typing rule and one or two implementations. Invariant: the type of a call follows from
the types of its arguments alone, and the scalar and the vectorised implementation give the same value for
every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from everfresh.errors import Code, EverfreshError
from everfresh.expr.nodes import Expr
from everfresh.types import SqlType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of one call: what an implementation may look at besides the values."""

    args: tuple[SqlType, ...]
    result: SqlType


class Typing(Protocol):
    """A typing rule; both methods give None if the arguments do not fit."""

    def result(self, types: Sequence[SqlType]) -> SqlType | None:
        """The type of a call whose arguments have exactly these types."""
        ...

    def coerce(self, args: Sequence[Expr]) -> list[SqlType] | None:
        """The types to which these arguments are implicitly cast."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A typing rule given by two functions."""

    result: Callable[[Sequence[SqlType]], SqlType | None]
    coerce: Callable[[Sequence[Expr]], list[SqlType] | None]


_VERBS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "divide",
    "%": "divide",
    "=": "compare",
    "<>": "compare",
    "<": "compare",
    "<=": "compare",
    ">": "compare",
    ">=": "compare",
    "is_distinct": "compare",
    "is_not_distinct": "compare",
    "neg": "negate",
}


def _any_nullable(args: tuple[Expr, ...]) -> bool:
    return any(arg.nullable for arg in args)


def never_null(args: tuple[Expr, ...]) -> bool:
    """The `null` rule of functions that always have a value."""
    return False


def may_fail(args: tuple[Expr, ...]) -> bool:
    """The `fails` rule of functions that have no value for some arguments."""
    return True


def never_fails(args: tuple[Expr, ...]) -> bool:
    """The `fails` rule of functions that have a value, or NULL, for all arguments."""
    return False


def fails_unless_float(args: tuple[Expr, ...]) -> bool:
    """The `fails` rule of arithmetic: IEEE numbers have a value for everything, exact ones have limits."""
    return not all(arg.type.is_float for arg in args)


@dataclass(frozen=True, slots=True)
class Function:
    """One row of `FUNCTIONS`.

    `scalar(signature, *values)` computes with physical values; if `strict`, a NULL argument gives NULL and
    `scalar` never sees it. `lazy` functions (and, or, coalesce) are evaluated by the evaluators themselves,
    since later arguments must only be evaluated where they decide.

    `texts(*rest)`, for a function of strings whose other arguments are constant, gives the function of a list
    of first arguments, or None.

    `vector(signature, *arrays)` is the fast twin of a strict function on arrays without NULLs;
    `columns(signature, *vectors)` that of a function that looks at NULLs or at dictionaries. Both may give
    None: then the scalar one runs.

    `null(args)` says whether a call can be NULL, `fails(args)` whether it can raise where its arguments do
    not.
    """

    name: str
    typing: Typing
    scalar: Callable[..., Any]
    strict: bool = True
    lazy: bool = False
    vector: Callable[..., Any] | None = None
    columns: Callable[..., Any] | None = None
    null: Callable[[tuple[Expr, ...]], bool] = _any_nullable
    fails: Callable[[tuple[Expr, ...]], bool] = may_fail
    texts: Callable[..., Callable[[list[str]], list[Any]] | None] | None = None

    def result(self, types: Sequence[SqlType]) -> SqlType:
        """The type of a call whose arguments have exactly these types; raises Code.TYPE if none fits."""
        found = self.typing.result(types)
        if found is None:
            raise self.misfit(types)
        return found

    def coerce(self, args: Sequence[Expr]) -> list[SqlType]:
        """The types to which these arguments are implicitly cast; raises Code.TYPE if there are none."""
        found = self.typing.coerce(args)
        if found is None:
            raise self.misfit([arg.type for arg in args])
        return found

    def nullable(self, args: tuple[Expr, ...]) -> bool:
        """Whether a call with these arguments can be NULL."""
        return self.null(args)

    def misfit(self, types: Sequence[SqlType]) -> EverfreshError:
        """The error that says that the function does not take these types."""
        hint = "cast one of them explicitly" if types else None
        if self.name in _VERBS:
            what = " and ".join(map(str, types))
            return EverfreshError(Code.TYPE, f"cannot {_VERBS[self.name]} {what}", hint=hint)
        what = ", ".join(map(str, types))
        return EverfreshError(Code.TYPE, f"{self.name} does not take ({what})", hint=hint)


def overflow(what: str, type_: SqlType) -> EverfreshError:
    """The error of a result outside its type."""
    return EverfreshError(Code.OVERFLOW, f"{what} is outside {type_}", hint="cast an operand to a wider type")


def check(value: int, type_: SqlType, what: Callable[[], str]) -> int:
    """`value` if it is inside the exact type; otherwise raises, describing the computation by `what`."""
    low, high = type_.bounds
    if low <= value <= high:
        return value
    raise overflow(what(), type_)
