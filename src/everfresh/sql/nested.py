"""Lists, structs and maps in SQL: `[1, 2]`, `{'a': 1}`, `MAP {'k': 1}`, `l[1]`, `l[1:2]`, `s.a`, `s['a']`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.library.structs import field_of
from everfresh.expr.nodes import Call, Const, Expr
from everfresh.types import BIGINT, STRUCT, VARCHAR, SqlType, fold

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder

_END = (1 << 31) - 1  # a list has fewer values


def _array(binder: Binder, node: Any) -> Expr:
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Comprehension):
        from everfresh.sql import lambdas

        return lambdas.comprehension(binder, node.expressions[0])
    return build.call("list_value", *(binder.bind(part) for part in node.expressions))


def _struct(binder: Binder, node: Any) -> Expr:
    parts = []
    for part in node.expressions:
        if not isinstance(part, exp.PropertyEQ | exp.Alias):
            raise binder.source.unsupported(
                "a struct with a field without a name", node, hint="as in {'a': 1}"
            )
        name = part.alias if isinstance(part, exp.Alias) else part.this.name
        value = part.this if isinstance(part, exp.Alias) else part.expression
        parts.append((name, binder.bind(value)))
    return packed(parts)


def packed(parts: list[tuple[str, Expr]]) -> Expr:
    """A struct of named values."""
    type_ = STRUCT([(name, value.type) for name, value in parts])
    return Call("struct_pack", (Const(None, type_), *(value for _, value in parts)))


def _map(binder: Binder, node: Any) -> Expr:
    """MAP {'k': 1}: a list of keys and a list of values."""
    inside = node.this
    if isinstance(inside, exp.Bracket):  # sqlglot reads MAP {...}[k] as a MAP of {...}[k]
        of = inside.copy()
        of.set("this", exp.ToMap(this=inside.this.copy()))
        return _bracket(binder, of)
    if not isinstance(inside, exp.Struct):
        raise binder.source.unsupported("this form of MAP", node, hint="as in MAP {'k': 1}")
    keys, values = [], []
    for part in inside.expressions:
        key = part.this
        keys.append(build.literal(key.name) if isinstance(key, exp.Identifier) else binder.bind(key))
        values.append(binder.bind(part.expression))
    return build.call("map", build.call("list_value", *keys), build.call("list_value", *values))


def _map_of_lists(binder: Binder, node: Any) -> Expr:
    found = [binder.bind(node.args[key]) for key in ("keys", "values") if node.args.get(key) is not None]
    if not found:
        found = [build.call("list_value")] * 2
    return build.call("map", *found)


def _bracket(binder: Binder, node: Any) -> Expr:
    if binder.source.dialect != "duckdb":
        raise binder.source.unsupported(
            "a place in a list, in another dialect than DuckDB's", node, hint="use list_extract(l, 1)"
        )
    held = binder.bind(node.this)
    if len(node.expressions) != 1:
        raise binder.source.unsupported("several places in brackets", node)
    (place,) = node.expressions
    if isinstance(place, exp.Slice):
        return _part(binder, held, place)
    if held.type.name == "STRUCT":
        at = binder.bind(place)
        if isinstance(at, Const) and isinstance(at.value, str):
            return field(held, at.value)
        raise binder.source.error(Code.TYPE, "a field of a struct is named by a constant text", node)
    if held.type.name == "MAP":
        return build.call("map_extract_value", held, binder.bind(place))
    if held.type.name == "JSON":
        return build.call("json_extract", held, binder.bind(place))
    return build.call("list_extract", held, binder.bind(place))


def _part(binder: Binder, held: Expr, place: Any) -> Expr:
    ends = [place.this, place.expression]
    if place.args.get("step") is not None:
        raise binder.source.unsupported("a slice with a step", place)
    begin, end = (
        Const(missing, BIGINT) if part is None else binder.bind(part)
        for part, missing in zip(ends, (1, _END), strict=True)
    )
    if held.type == VARCHAR:
        raise binder.source.unsupported("a slice of a text", place, hint="use SUBSTRING")
    return build.call("list_slice", held, begin, end)


def _dot(binder: Binder, node: Any) -> Expr:
    if not isinstance(node.expression, exp.Identifier):
        raise binder.source.unsupported(f"'{node.sql('duckdb')[:40]}'", node)
    if isinstance(node.this, exp.Identifier):  # in a lambda: a column of a table comes before a parameter
        column = exp.Column(this=node.expression.copy(), table=node.this.copy())
        if binder.scope.resolve(column) is not None:
            return binder.bind(column)
    return field(binder.bind(node.this), node.expression.name)


def _struct_extract(binder: Binder, node: Any) -> Expr:
    held, at = binder.bind(node.this), binder.bind(node.expression)
    if isinstance(at, Const) and isinstance(at.value, str):
        return field(held, at.value)
    raise binder.source.unsupported("a field of a struct that is not a constant name", node)


def field(held: Expr, name: str) -> Expr:
    """A field of a struct."""
    type_ = held.type
    if type_.name != "STRUCT":
        raise EverfreshError(Code.TYPE, f"'{name}' is asked of a {type_}, which has no fields")
    at = field_of(type_, name)
    if at is None:
        raise EverfreshError(
            Code.NOT_FOUND, f"there is no field '{name}'", hint="fields are: " + ", ".join(type_.names)
        )
    only = SqlType("STRUCT", inner=(type_.inner[at],), names=(type_.names[at],))
    return Call("struct_extract", (held, Const(None, only)))


def field_of_column(binder: Binder, node: Any) -> Expr | None:
    """`s.a` and `t.s.a`, where `s` is a column that is a struct."""
    parts = list(node.parts)
    if len(parts) < 2:
        return None
    names = ("this", "table", "db", "catalog")
    inside = exp.Column(**dict(zip(names, parts[-2::-1], strict=False)))
    inside.meta.update(node.meta)
    try:
        held = binder.bind(inside)
    except EverfreshError as error:
        if error.code != Code.NOT_FOUND:
            raise
        return None
    return field(held, parts[-1].name)


def _sorted_list(binder: Binder, node: Any) -> Expr:
    """LIST_SORT: sqlglot keeps of its words what they mean, if they are constants."""
    up, first = node.args.get("asc"), node.args.get("nulls_first")
    args = [binder.bind(node.this)]
    if isinstance(up, exp.Boolean | None) and isinstance(first, exp.Boolean | None):
        args.append(build.literal("DESC" if up is not None and not up.this else "ASC"))
        args.append(build.literal("NULLS FIRST" if first is not None and first.this else "NULLS LAST"))
        return build.call("list_sort", *args)
    raise binder.source.unsupported("LIST_SORT by what is not a constant", node)


def _series(binder: Binder, node: Any) -> Expr:
    """RANGE and GENERATE_SERIES as a list."""
    name = "range" if node.args.get("is_end_exclusive") else "generate_series"
    parts = (node.args.get(key) for key in ("start", "end", "step"))
    return build.call(name, *(binder.bind(part) for part in parts if part is not None))


def _json(name: str) -> Callable[[Binder, Any], Expr]:
    def rule(binder: Binder, node: Any) -> Expr:
        return build.call(name, binder.bind(node.this), binder.bind(node.expression))

    return rule


def _json_type(binder: Binder, node: Any) -> Expr:
    args = [binder.bind(node.this)]
    if node.expression is not None:
        args.append(binder.bind(node.expression))
    return build.call("json_type", *args)


def _at_zone(binder: Binder, node: Any) -> Expr:
    return build.call("timezone", binder.bind(node.args["zone"]), binder.bind(node.this))


def _fields(binder: Binder, node: Any) -> list[tuple[str, Expr]]:
    """The fields that a call gives behind its first argument."""
    found = []
    for part in node.expressions[1:]:
        if not isinstance(part, exp.PropertyEQ):
            raise binder.source.error(
                Code.TYPE, "a field has a name", node, hint="as in struct_insert(s, a := 1)"
            )
        found.append((part.this.name, binder.bind(part.expression)))
    return found


def _first(binder: Binder, node: Any) -> Expr:
    if not node.expressions:
        raise binder.source.error(Code.TYPE, f"{node.name.lower()} takes a struct", node)
    return binder.bind(node.expressions[0])


def _parts_of(held: Expr) -> list[tuple[str, Expr]]:
    if held.type.name != "STRUCT":
        raise EverfreshError(Code.TYPE, f"this takes a struct, not {held.type}")
    return [(name, field(held, name)) for name in held.type.names]


def _insert(binder: Binder, node: Any) -> Expr:
    return packed([*_parts_of(_first(binder, node)), *_fields(binder, node)])


def _update(binder: Binder, node: Any) -> Expr:
    """The fields of a struct, some with other values; new ones come last."""
    given = {fold(name): (name, value) for name, value in _fields(binder, node)}
    kept = [
        (name, given.pop(fold(name))[1] if fold(name) in given else value)
        for name, value in _parts_of(_first(binder, node))
    ]
    return packed([*kept, *given.values()])


def _struct_concat(binder: Binder, node: Any) -> Expr:
    _first(binder, node)
    return packed([part for held in node.expressions for part in _parts_of(binder.bind(held))])


def _extract_at(binder: Binder, node: Any) -> Expr:
    held, at = [*(binder.bind(part) for part in node.expressions), None, None][:2]
    if held is None or not isinstance(at, Const) or not at.type.is_integer or at.value is None:
        raise binder.source.unsupported("STRUCT_EXTRACT_AT without a struct and a constant place", node)
    parts = _parts_of(held)
    if not 1 <= at.value <= len(parts):
        raise binder.source.error(Code.VALUE, f"the struct has {len(parts)} fields, none at {at.value}", node)
    found: Expr = parts[at.value - 1][1]
    return found


STRUCTS: dict[str, Callable[[Binder, Any], Expr]] = {
    "struct_insert": _insert,
    "struct_update": _update,
    "struct_concat": _struct_concat,
    "struct_extract_at": _extract_at,
}
"""Functions of structs that take names."""

RULES: dict[type[Any], Callable[[Binder, Any], Expr]] = {
    exp.Array: _array,
    exp.Struct: _struct,
    exp.ToMap: _map,
    exp.Map: _map_of_lists,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    exp.StructExtract: _struct_extract,
    exp.ArraySort: _sorted_list,
    exp.GenerateSeries: _series,
    exp.JSONExtract: _json("json_extract"),
    exp.JSONExtractScalar: _json("json_extract_string"),
    exp.JSONType: _json_type,
    exp.AtTimeZone: _at_zone,
}
