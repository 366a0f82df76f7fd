"""The names of columns that are made of lists, structs and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.sql.naming.keywords import quote
from everfresh.types import SqlType

if TYPE_CHECKING:
    from everfresh.sql.naming.column_names import Printer


def _list(p: Printer, node: Any) -> str:
    if node.expressions and isinstance(node.expressions[0], exp.Comprehension):
        return _comprehension(p, node)
    return f"list_value({', '.join(p.show(part) for part in node.expressions)})"


def _struct(p: Printer, node: Any) -> str:
    parts = (
        (part.alias, part.this) if isinstance(part, exp.Alias) else (part.this.name, part.expression)
        for part in node.expressions
    )
    return f"struct_pack({', '.join(f'{quote(name)} := {p.show(value)}' for name, value in parts)})"


def _map(p: Printer, node: Any) -> str:
    entries = node.this.expressions if isinstance(node.this, exp.Struct) else []
    keys = ", ".join(p.show(entry.this) for entry in entries)
    values = ", ".join(p.show(entry.expression) for entry in entries)
    return f'"map"(list_value({keys}), list_value({values}))'


def _bracket(p: Printer, node: Any) -> str:
    return f"{p.show(node.this)}[{', '.join(p.show(part) for part in node.expressions)}]"


def _slice(p: Printer, node: Any) -> str:
    return f"{p.show(node.this)}:{p.show(node.expression)}"


def _dot(p: Printer, node: Any) -> str:
    held = p.show(node.this)
    plain = isinstance(node.this, exp.Identifier)  # a parameter of a lambda
    return f"{held if plain else f'({held})'}.{quote(node.expression.name)}"


def _arrow(sign: str) -> Callable[[Printer, Any], str]:
    """`x -> y`, or the function under the name it was written with."""

    def rule(p: Printer, node: Any) -> str:
        if "start" in node.meta:
            return p.call(node, node.this, node.expression)
        return f"({p.show(node.this)} {sign} {p.show(node.expression)})"

    return rule


def _lambda(p: Printer, node: Any) -> str:
    names = ", ".join(quote(part.name) for part in node.expressions)
    return f"(lambda {names}: {p.show(node.this)})"


def _comprehension(p: Printer, node: Any) -> str:
    """A list comprehension is a list transformed, and with a condition kept in part and transformed again."""
    made, position = node.expressions[0], node.expressions[0].args.get("position")
    names = ", ".join(quote(part.name) for part in (made.expression, position) if part is not None)
    shown, result, condition = p.show(made.args["iterator"]), p.show(made.this), made.args.get("condition")
    if condition is None:
        return f"list_apply({shown}, (lambda {names}: {result}))"
    both = f'struct_pack("filter" := {p.show(condition)}, result := {result})'
    kept, taken = (f"(lambda elem: struct_extract(elem, '{name}'))" for name in ("filter", "result"))
    return f"list_apply(list_filter(list_apply({shown}, (lambda {names}: {both})), {kept}), {taken})"


def _zone(p: Printer, node: Any) -> str:
    return f"timezone({p.show(node.args['zone'])}, {p.show(node.this)})"


def _sorted(p: Printer, node: Any) -> str:
    """LIST_SORT, of whose words sqlglot keeps what they mean."""
    words = [("asc", "DESC", False), ("nulls_first", "NULLS FIRST", True)]
    more = "".join(f", '{w}'" for key, w, said in words if _says(node.args.get(key)) is said)
    return f"{p.function(node)}({p.show(node.this)}{more})"


def type_text(type_: SqlType) -> str:
    """A type as DuckDB's TYPEOF writes it."""
    match type_.name:
        case "REAL":
            return "FLOAT"
        case "NULL":
            return '"NULL"'
        case "LIST":
            return f"{type_text(type_.inner[0])}[]"
        case "STRUCT":
            fields = zip(type_.names, type_.inner, strict=True)
            return f"STRUCT({', '.join(f'{quote(n)} {type_text(t)}' for n, t in fields)})"
        case "MAP":
            return f"MAP({', '.join(map(type_text, type_.inner))})"
    return str(type_)


def _says(node: Any) -> bool | None:
    return bool(node.this) if isinstance(node, exp.Boolean) else None


def _series(p: Printer, node: Any) -> str:
    start = node.args.get("start")
    added = isinstance(start, exp.Literal) and "start" not in start.meta  # of a call with one argument
    keys = ("end", "step") if added else ("start", "end", "step")
    shown = [p.show(node.args[key]) for key in keys if node.args.get(key) is not None]
    return f"{quote(p.function(node))}({', '.join(shown)})"


RULES: dict[type[Any], Callable[[Printer, Any], str]] = {
    exp.Lambda: _lambda,
    exp.JSONKeyValue: lambda p, n: f"{p.show(n.this)}, {p.show(n.expression)}",
    exp.JSONObject: lambda p, n: f"json_object({', '.join(p.show(part) for part in n.expressions)})",
    exp.Identifier: lambda p, n: quote(n.name),
    exp.ArrayOverlaps: _arrow("&&"),
    exp.ArrayContainsAll: _arrow("@>"),
    exp.ArrayContainedBy: _arrow("<@"),
    exp.Array: _list,
    exp.Struct: _struct,
    exp.ToMap: _map,
    exp.Bracket: _bracket,
    exp.Slice: _slice,
    exp.Dot: _dot,
    exp.JSONExtract: _arrow("->"),
    exp.JSONExtractScalar: _arrow("->>"),
    exp.AtTimeZone: _zone,
    exp.ArraySort: _sorted,
    exp.GenerateSeries: _series,
    exp.Explode: lambda p, n: f"unnest({p.show(n.this)})",
}
