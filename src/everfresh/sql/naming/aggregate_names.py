"""Names of columns that are aggregates with an order, or that sqlglot knows by another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.sql.naming.keywords import quote

if TYPE_CHECKING:
    from everfresh.sql.naming.column_names import Printer


def _ordered(p: Printer, node: Any) -> str:
    """One part of an ORDER BY."""
    down, first = (node.args.get(key) for key in ("desc", "nulls_first"))
    return f"{p.show(node.this)}{' DESC' if down else ''}{' NULLS FIRST' if first else ''}"


def _order(p: Printer, node: Any) -> str:
    keys = ", ".join(p.show(key) for key in node.expressions)
    return f"{p.show(node.this)} ORDER BY {keys}"


def _joined(p: Printer, node: Any) -> str:
    """STRING_AGG and its like: the order comes behind the separator."""
    value, separator = node.this, node.args.get("separator")
    order = f" ORDER BY {', '.join(map(p.show, value.expressions))}" if isinstance(value, exp.Order) else ""
    value = value.this if isinstance(value, exp.Order) else value
    inside = p.show(value) + ("" if separator is None else f", {p.show(separator)}")
    return f"{quote(p.function(node))}({inside}{order})"


def _within(p: Printer, node: Any) -> str:
    name = "quantile_cont" if isinstance(node.this, exp.PercentileCont) else "quantile_disc"
    return f"{name}({p.show(node.this.this)}{_order(p, node.expression)})"


RULES: dict[type[Any], Callable[[Printer, Any], str]] = {
    exp.Order: _order,
    exp.Ordered: _ordered,
    exp.GroupConcat: _joined,
    exp.WithinGroup: _within,
    exp.IgnoreNulls: lambda p, n: p.show(n.this),
    exp.ArgMin: lambda p, n: p.call(n, n.this, n.expression, n.args.get("count")),
    exp.ArgMax: lambda p, n: p.call(n, n.this, n.expression, n.args.get("count")),
}
