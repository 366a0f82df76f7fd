"""TRY_CAST: a cast that gives NULL for what cannot be read and for what does not fit.

`try_cast(x, t)` has the type of `t`, a NULL of that type which nobody looks at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everfresh.errors import EverfreshError
from everfresh.expr.library.casts import cast_value, castable
from everfresh.expr.library.signature import Function, Rule, Signature, never_fails
from everfresh.expr.nodes import Expr
from everfresh.types import SqlType


def _result(types: Sequence[SqlType]) -> SqlType | None:
    return types[1] if len(types) == 2 and castable(types[0], types[1]) else None


def _as_they_are(args: Sequence[Expr]) -> list[SqlType] | None:
    types = [arg.type for arg in args]
    return types if _result(types) is not None else None


def _try_cast(types: Signature, value: Any, _: None) -> Any:
    try:
        return None if value is None else cast_value(value, *types.args)
    except EverfreshError:
        return None


def _may_be_null(args: tuple[Expr, ...]) -> bool:
    return True


_TYPING = Rule(_result, _as_they_are)
ROWS = (Function("try_cast", _TYPING, _try_cast, strict=False, null=_may_be_null, fails=never_fails),)
