"""Functions that are made of others, or chosen by what their arguments are.

Each is given `call`, which applies a function of the table, and gives None where the table's own function is
meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import is_null_literal
from everfresh.expr.library.dates import part_name
from everfresh.expr.library.regex import groups_in
from everfresh.expr.library.times.texts import is_zoned, parts_of
from everfresh.expr.nodes import Call, Case, Const, Expr
from everfresh.types import BIGINT, STRUCT, TIMESTAMP, TIMESTAMPTZ, VARCHAR

Caller = Callable[..., Expr]
Maker = Callable[[Caller, Sequence[Expr]], Expr | None]


def _texts(arg: Expr) -> list[str] | None:
    """The constant texts that an argument is, one or a list of them; None if it is something else."""
    parts = arg.args if isinstance(arg, Call) and arg.op == "list_value" else (arg,)
    found = [part.value for part in parts if isinstance(part, Const) and isinstance(part.value, str)]
    return found if len(found) == len(parts) and found else None


def _text(value: str) -> Const:
    return Const(value, VARCHAR)


def _strftime(call: Caller, args: Sequence[Expr]) -> Expr | None:
    """The format is a constant and may come first."""
    if len(args) != 2:
        return None
    first, second = args
    if first.type.name not in ("DATE", "TIMESTAMP", "TIMESTAMPTZ") and second.type.name in (
        "DATE", "TIMESTAMP", "TIMESTAMPTZ",
    ):  # fmt: skip
        first, second = second, first
    if is_null_literal(first) or is_null_literal(second):
        return Const(None, VARCHAR)
    pattern = _texts(second)
    if pattern is None or len(pattern) > 1:
        raise EverfreshError(
            Code.UNSUPPORTED, "strftime with a format that is not a constant is not supported"
        )
    parts_of(pattern[0])
    if first.type == TIMESTAMPTZ:
        whole = pattern[0].replace("%%", "%%\0").replace("%Z", "UTC").replace("%%\0", "%%")
        return call("strftime", call("timezone", _text("UTC"), first), _text(whole))
    return None if second is args[1] else call("strftime", first, second)


def _strptime(name: str) -> Maker:
    def make(call: Caller, args: Sequence[Expr]) -> Expr | None:
        if len(args) != 2:
            return None
        if any(is_null_literal(arg) for arg in args):
            return Const(None, TIMESTAMP)
        patterns = _texts(args[1])
        if patterns is None:
            raise EverfreshError(
                Code.UNSUPPORTED, f"{name} with a format that is not a constant is not supported"
            )
        zoned = max(is_zoned(pattern) for pattern in patterns)
        return call(f"{name}_zoned" if zoned else f"{name}_plain", args[0], *map(_text, patterns))

    return make


def _date_part(call: Caller, args: Sequence[Expr]) -> Expr | None:
    """Several parts at once are a struct of them."""
    if len(args) == 2 and isinstance(args[0], Const) and str(args[0].value).lower() == "julian":
        return call("julian", args[1])
    if len(args) != 2 or not isinstance(args[0], Call) or args[0].op != "list_value":
        return None
    names = _texts(args[0])
    if names is None:
        raise EverfreshError(Code.UNSUPPORTED, "the parts of date_part must be constants")
    fields = [(part_name(name) if name != "julian" else name, args[1]) for name in names]
    parts = [(name, call(name, when)) for name, when in fields]
    return _unless_null(args[1], _packed(parts))


def _packed(parts: list[tuple[str, Expr]]) -> Expr:
    made = STRUCT([(name, value.type) for name, value in parts])
    return Call("struct_pack", (Const(None, made), *(value for _, value in parts)))


def _unless_null(arg: Expr, made: Expr) -> Expr:
    return Case(((Call("is_null", (arg,)), Const(None, made.type)),), made) if arg.nullable else made


def _regexp_extract(call: Caller, args: Sequence[Expr]) -> Expr | None:
    """With names for the groups it is a struct of them."""
    names = _texts(args[2]) if len(args) in (3, 4) and args[2].type.name == "LIST" else None
    if names is None:
        return None
    pattern = _texts(args[1])
    if pattern is not None and groups_in(pattern[0]) < len(names):
        raise EverfreshError(
            Code.VALUE, f"'{pattern[0]}' has {groups_in(pattern[0])} groups for {len(names)} names"
        )
    whole = [
        (name, call("regexp_extract", args[0], args[1], Const(i, BIGINT), *args[3:]))
        for i, name in enumerate(names, 1)
    ]
    return _unless_null(args[0], _packed(whole))


def _contains(call: Caller, args: Sequence[Expr]) -> Expr | None:
    """CONTAINS of a list or a map."""
    held = args[0].type.name if len(args) == 2 else ""
    if held == "LIST":
        return call("list_contains", *args)
    return call("map_contains", *args) if held == "MAP" else None


def _map_contains_value(call: Caller, args: Sequence[Expr]) -> Expr | None:
    if len(args) != 2:
        return None
    return call("list_contains", call("map_values", args[0]), args[1])


def _map_contains_entry(call: Caller, args: Sequence[Expr]) -> Expr | None:
    if len(args) != 3:
        return None
    entries = call("map_entries", args[0])
    return call("list_contains", entries, _packed([("key", args[1]), ("value", args[2])]))


def _push_front(call: Caller, args: Sequence[Expr]) -> Expr | None:
    return call("list_prepend", *reversed(args)) if len(args) == 2 else None


def _zoned_timestamp(call: Caller, args: Sequence[Expr]) -> Expr | None:
    return call("timezone", args[6], call("make_timestamp", *args[:6])) if len(args) == 7 else None


def _finite(name: str) -> Maker:
    def make(call: Caller, args: Sequence[Expr]) -> Expr | None:
        times = len(args) == 1 and args[0].type.name in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
        return call(f"is_time_{name}", *args) if times else None

    return make


def _labels(made: Callable[[Caller, tuple[str, ...]], Expr]) -> Maker:
    """A function of the type of an ENUM, whatever the value is."""

    def make(call: Caller, args: Sequence[Expr]) -> Expr:
        if len(args) != 1 or args[0].type.name != "ENUM":
            raise EverfreshError(Code.TYPE, "this takes one ENUM", hint="as in enum_range(NULL::level)")
        return made(call, args[0].type.names)

    return make


MORE: dict[str, Maker] = {
    "enum_first": _labels(lambda call, labels: _text(labels[0])),
    "enum_last": _labels(lambda call, labels: _text(labels[-1])),
    "enum_range": _labels(lambda call, labels: call("list_value", *map(_text, labels))),
    "strftime": _strftime,
    "strptime": _strptime("strptime"),
    "try_strptime": _strptime("try_strptime"),
    "date_part": _date_part,
    "regexp_extract": _regexp_extract,
    "contains": _contains,
    "map_contains_value": _map_contains_value,
    "map_contains_entry": _map_contains_entry,
    "list_push_front": _push_front,
    "make_timestamptz": _zoned_timestamp,
    "isfinite": _finite("finite"),
    "isinf": _finite("infinite"),
}
