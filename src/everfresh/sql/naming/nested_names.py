"""The names of columns that are made of lists, structs and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.sql.naming.keywords import quote

if TYPE_CHECKING:
    from everfresh.sql.naming.column_names import Printer


def _list(p: Printer, node: Any) -> str:
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
    return f"({p.show(node.this)}).{quote(node.expression.name)}"


def _arrow(sign: str) -> Callable[[Printer, Any], str]:
    """`x -> y`, or the function under the name it was written with."""

    def rule(p: Printer, node: Any) -> str:
        if "start" in node.meta:
            return p.call(node, node.this, node.expression)
        return f"({p.show(node.this)} {sign} {p.show(node.expression)})"

    return rule


def _zone(p: Printer, node: Any) -> str:
    return f"timezone({p.show(node.args['zone'])}, {p.show(node.this)})"


def _sorted(p: Printer, node: Any) -> str:
    """LIST_SORT, of whose words sqlglot keeps what they mean."""
    words = [("asc", "DESC", False), ("nulls_first", "NULLS FIRST", True)]
    more = "".join(f", '{w}'" for key, w, said in words if _says(node.args.get(key)) is said)
    return f"{p.function(node)}({p.show(node.this)}{more})"


def _says(node: Any) -> bool | None:
    return bool(node.this) if isinstance(node, exp.Boolean) else None


def _series(p: Printer, node: Any) -> str:
    shown = [p.show(node.args[key]) for key in ("start", "end", "step") if node.args.get(key) is not None]
    return f"{quote(p.function(node))}({', '.join(shown)})"


RULES: dict[type[Any], Callable[[Printer, Any], str]] = {
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
}
