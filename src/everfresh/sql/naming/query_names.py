"""Queries and window functions inside of an output column's name, printed as DuckDB 2 prints them.

`SELECT (SELECT max(b) FROM s)` is called `(SELECT max(b) FROM s)`: the whole query in DuckDB's own spelling,
`x IN (query)` as `(x = ANY(query))`, `x > ALL (query)` as `(NOT (x <= ANY(query)))`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.sql.naming.keywords import quote
from everfresh.types import fold

if TYPE_CHECKING:
    from everfresh.sql.naming.column_names import Printer

Rule = Callable[["Printer", Any], str]

_OPERATIONS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


# -- expressions -----------------------------------------------------------------------------------------


def _comparison(kind: type[Any]) -> Rule:
    def rule(p: Printer, node: Any) -> str:
        op, right = _OPERATIONS[kind], node.expression
        if not isinstance(right, (exp.Any, exp.All)) or not isinstance(right.this, (exp.Query, exp.Values)):
            return f"({p.show(node.this)} {op} {p.show(right)})"
        if isinstance(right, exp.Any):
            return f"({p.show(node.this)} {op} ANY({query_text(p, right.this)}))"
        return f"(NOT ({p.show(node.this)} {_OPPOSITE[op]} ANY({query_text(p, right.this)})))"

    return rule


def _in(p: Printer, node: Any) -> str:
    query = node.args.get("query")
    if query is None and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        query = node.expressions[0]
    if query is not None:
        return f"({p.show(node.this)} = ANY({query_text(p, query)}))"
    if query is None and p.source.in_brackets(node):
        listed = ", ".join(p.show(e) for e in node.expressions)
        return f"contains(list_value({listed}), {p.show(node.this)})"
    if node.args.get("field") is not None:
        return f"contains({p.show(node.args['field'])}, {p.show(node.this)})"
    return f"({p.show(node.this)} IN ({', '.join(p.show(e) for e in node.expressions)}))"


def _window(p: Printer, node: Any) -> str:
    call, where = node.this, ""
    if isinstance(call, exp.Filter):
        where = f" FILTER (WHERE {p.show(call.expression.this)})"
        call = call.this
    counted = isinstance(call, exp.Count) and (call.this is None or isinstance(call.this, exp.Star))
    shown = "count()" if counted else p.show(call)
    partition, order, frame = _window_parts(node)
    parts = [f"PARTITION BY {', '.join(p.show(e) for e in partition)}"] if partition else []
    if order is not None:
        parts.append(f"ORDER BY {_sort_keys(p, order)}")
    if frame is not None:
        start, end = (_bound(p, frame, which) for which in ("start", "end"))
        kind = str(frame.args.get("kind"))
        if (start, end) == ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING"):
            kind = "ROWS"
        if (kind, start, end) != ("RANGE", "UNBOUNDED PRECEDING", "CURRENT ROW"):
            parts.append(f"{kind} BETWEEN {start} AND {end}")
    return f"{shown}{where} OVER ({' '.join(parts)})"


def _window_parts(node: Any) -> tuple[list[Any], Any, Any]:
    """PARTITION BY, ORDER BY and the frame of a window, with those of the named window it builds on."""
    partition, order = list(node.args.get("partition_by") or []), node.args.get("order")
    frame, base = node.args.get("spec"), node.args.get("alias")
    select = node.find_ancestor(exp.Select)
    if base is None or select is None:
        return partition, order, frame
    others = (w for w in select.args.get("windows") or [] if w is not node)
    named = next((w for w in others if fold(w.name) == fold(base.name)), None)
    if named is None:
        return partition, order, frame
    below = _window_parts(named)
    return partition or below[0], order if order is not None else below[1], frame or below[2]


def _bound(p: Printer, frame: Any, which: str) -> str:
    value = frame.args.get(which)
    if value is None or value == "CURRENT ROW":
        return "CURRENT ROW"
    return f"{value if isinstance(value, str) else p.show(value)} {frame.args.get(f'{which}_side')}"


def _sort_keys(p: Printer, order: Any) -> str:
    return ", ".join(_sort_key(p, e) for e in order.expressions)


def _sort_key(p: Printer, ordered: Any) -> str:
    """What is written of ASC, DESC and NULLS: sqlglot keeps only their meaning."""
    if isinstance(ordered.this, exp.Var) and ordered.this.name.upper() == "ALL":
        return "COLUMNS(*)"
    shown = p.show(ordered.this)
    i = p.after(ordered.this)
    words = [t.text.upper() for t in p.source.tokens[i : i + 3]] if i is not None else []
    if words[:1] in (["ASC"], ["DESC"]):
        shown += f" {words.pop(0)}"
    if words[:1] == ["NULLS"]:
        shown += f" NULLS {words[1]}"
    return shown


# -- queries ---------------------------------------------------------------------------------------------


def query_text(p: Printer, tree: Any) -> str:
    """A query without parentheses around it."""
    while isinstance(tree, exp.Subquery) and not any(v for k, v in tree.args.items() if k != "this" and v):
        tree = tree.this
    if isinstance(tree, exp.Select):
        text = _select(p, tree)
    elif isinstance(tree, exp.Values):
        text = f"SELECT * FROM {_values(p, tree)} AS valueslist"
    elif isinstance(tree, exp.SetOperation):
        every = "" if tree.args.get("distinct") else " ALL"
        left, right = (query_text(p, side) for side in (tree.this, tree.expression))
        text = f"({left}) {type(tree).__name__.upper()}{every} ({right})"
    else:
        return str(tree.sql("duckdb"))
    clause = tree.args.get("with_")
    if clause is not None:
        parts = (f"{_aliased('', c.args['alias'])} AS ({query_text(p, c.this)})" for c in clause.expressions)
        text = f"WITH {', '.join(parts)} {text}"
    order, limit, offset = (tree.args.get(k) for k in ("order", "limit", "offset"))
    text += f" ORDER BY {_sort_keys(p, order)}" if order is not None else ""
    text += f" LIMIT {p.show(limit.expression)}" if isinstance(limit, exp.Limit) else ""
    return text + (f" OFFSET {p.show(offset.expression)}" if offset is not None else "")


def _select(p: Printer, tree: Any) -> str:
    distinct = "DISTINCT " if tree.args.get("distinct") is not None else ""
    parts = [f"SELECT {distinct}{', '.join(_item(p, e) for e in tree.expressions)}"]
    source = tree.args.get("from_")
    if source is not None:
        parts.append(f"FROM {_from(p, source.this, tree.args.get('joins') or [])}")
    if tree.args.get("where") is not None:
        parts.append(f"WHERE {p.show(tree.args['where'].this)}")
    group = tree.args.get("group")
    if group is not None:
        shown = dict.fromkeys(p.show(e) for e in group.expressions)  # DuckDB keeps equal ones once
        keys = "ALL" if group.args.get("all") else ", ".join(shown)
        parts.append(f"GROUP BY {keys}")
    for key in ("having", "qualify"):
        if tree.args.get(key) is not None:
            parts.append(f"{key.upper()} {p.show(tree.args[key].this)}")
    return " ".join(parts)


def _item(p: Printer, node: Any) -> str:
    if isinstance(node, exp.Alias):
        return f"{p.show(node.this)} AS {quote(node.alias)}"
    return p.show(node)


def _from(p: Printer, first: Any, joins: list[Any]) -> str:
    done, text = [], _factor(p, first)
    for join in joins:
        words = [join.args.get("method"), join.args.get("side"), join.args.get("kind")]
        on, using = join.args.get("on"), join.args.get("using")
        if not any(words) and on is None and not using:
            done.append(text)
            text = _factor(p, join.this)
            continue
        kind = str(join.args.get("side") or join.args.get("kind") or "INNER").upper()
        kind = f"NATURAL {kind}" if join.args.get("method") == "NATURAL" else kind
        how = f" ON ({p.show(on)})" if on is not None else ""
        how = f" USING ({', '.join(quote(u.name) for u in using)})" if using else how
        text = f"({text} {kind} JOIN {_factor(p, join.this)}{how})"
    return " , ".join([*done, text])


def _factor(p: Printer, node: Any) -> str:
    alias = node.args.get("alias")
    if isinstance(node, exp.Values):
        text = f"(SELECT * FROM {_values(p, node)} AS valueslist)" if alias else _values(p, node)
    elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        text = _from(p, node.this, node.this.args.get("joins") or [])
    elif isinstance(node, exp.Subquery):
        text = f"({query_text(p, node.this)})"
    elif isinstance(node, exp.Unnest):
        text = f"unnest({', '.join(p.show(e) for e in node.expressions)})"
    elif isinstance(node.this, exp.GenerateSeries):
        text = p.show(node.this)
    else:
        text = quote(node.name)
    return _aliased(f"{text} AS ", alias) if alias is not None else text


def _aliased(before: str, alias: Any) -> str:
    columns = [quote(c.name) for c in alias.args.get("columns") or []]
    return f"{before}{quote(alias.name)}" + (f"({', '.join(columns)})" if columns else "")


def _values(p: Printer, node: Any) -> str:
    rows = (r.expressions if isinstance(r, exp.Tuple) else [r] for r in node.expressions)
    return f"(VALUES {', '.join('(' + ', '.join(p.show(e) for e in row) + ')' for row in rows)})"


def _star(p: Printer, node: Any) -> str:
    excluded = [quote(e.name) for e in node.args.get("except_") or []]
    return f"* EXCLUDE ({', '.join(excluded)})" if excluded else "*"


RULES: dict[type[Any], Rule] = {
    **{kind: _comparison(kind) for kind in _OPERATIONS},
    exp.In: _in,
    exp.Window: _window,
    exp.Subquery: lambda p, n: f"({query_text(p, n)})",
    exp.Exists: lambda p, n: f"EXISTS({query_text(p, n.this)})",
    exp.Tuple: lambda p, n: f'"row"({", ".join(p.show(e) for e in n.expressions)})',
    exp.Star: _star,
}
