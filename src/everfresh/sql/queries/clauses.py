"""What all kinds of queries share: the result of binding one, ORDER BY, LIMIT, and the clauses nobody binds.

Invariant: the output names of a plan are distinct (a second `x` becomes `x_1`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import evaluate
from everfresh.expr.nodes import Var
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import Limit, Plan
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source
from everfresh.types import BIGINT, distinct_names

_CLAUSES = {  # argument of the tree: what it is called, and the word it starts with
    "with_": ("WITH (a common table expression)", "WITH"),
    "joins": ("a join", "JOIN"),
    "laterals": ("LATERAL", "LATERAL"),
    "windows": ("WINDOW", "WINDOW"),
    "qualify": ("QUALIFY", "QUALIFY"),
    "pivots": ("PIVOT", "PIVOT"),
    "sample": ("TABLESAMPLE (a sample)", "TABLESAMPLE"),
    "into": ("SELECT INTO", "INTO"),
    "locks": ("FOR UPDATE", "FOR"),
    "when": ("AT (a table at another time)", "AT"),
    "match": ("MATCH_RECOGNIZE", "MATCH_RECOGNIZE"),
    "connect": ("CONNECT BY", "CONNECT"),
    "only": ("ONLY", "ONLY"),
    "sort": ("SORT BY", "SORT"),
    "cluster": ("CLUSTER BY", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE"),
    "by_name": ("BY NAME", "BY"),
    "ordinality": ("WITH ORDINALITY", "WITH"),
}


@dataclass(frozen=True)
class Query:
    """A bound query: its plan, and the output names before repeated ones were made distinct."""

    plan: Plan
    names: tuple[str, ...]
    through: tuple[str, ...] = ()
    """Of a whole query, the plain views that it names."""

    @property
    def columns(self) -> tuple[tuple[str, Var], ...]:
        """The output names, made distinct, with their variables."""
        return tuple(zip(distinct_names(list(self.names)), self.plan.variables, strict=True))


def refuse_clauses(source: Source, node: Any, bound: set[str]) -> None:
    """Refuse a tree with any argument that is not in `bound`."""
    for key, value in node.args.items():
        if not value or key in bound:
            continue
        what, word = _CLAUSES.get(key, (key.strip("_").replace("_", " ").upper(), ""))
        part = value[0] if isinstance(value, list) else value
        raise source.unsupported(what, part if isinstance(part, exp.Expr) else node, keyword=word)


def position(source: Source, tree: Any, clause: str, count: int) -> int | None:
    """The index of the column that a whole number in GROUP BY or ORDER BY stands for."""
    inner = tree.this if isinstance(tree, exp.Neg) else tree
    if not isinstance(inner, exp.Literal) or inner.is_string or not inner.this.isdecimal():
        return None
    if inner is not tree or not 1 <= int(inner.this) <= count:
        raise source.error(
            Code.VALUE,
            f"{clause} {'-' if inner is not tree else ''}{inner.this[:20]} is out of range",
            tree,
            hint=f"the SELECT list has {count} columns",
        )
    return int(inner.this) - 1


def sort_items(source: Source, order: Any, count: int) -> Iterator[tuple[Any, bool, bool]]:
    """The entries of ORDER BY as `(tree or index, ascending, nulls first)`, ALL as one for each column."""
    for ordered in order.expressions if order is not None else []:
        if not isinstance(ordered, exp.Ordered):
            raise source.error(Code.SYNTAX, "ORDER BY cannot be read", order)
        how = not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))
        refuse_clauses(source, ordered, {"this", "desc", "nulls_first"})
        tree = ordered.this
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Var) and tree.name.upper() == "ALL":
            yield from ((i, *how) for i in range(count))
            continue
        if isinstance(tree, exp.Literal) and tree.is_string:
            raise source.error(Code.TYPE, "ORDER BY a constant has no effect", tree)
        i = position(source, tree, "ORDER BY", count)
        yield (tree if i is None else i, *how)


def limited(source: Source, node: Any, plan: Plan) -> Plan:
    """The plan with LIMIT and OFFSET of a query's tree."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    options = limit is not None and limit.args.get("limit_options")
    if options and (options.args.get("percent") or options.args.get("with_ties")):
        what = "LIMIT with PERCENT" if options.args.get("percent") else "WITH TIES"
        raise source.unsupported(what, limit, keyword="LIMIT")
    if limit is not None:
        refuse_clauses(source, limit, {"expression", "count", "direction", "limit_options"})
    tree = None if limit is None else limit.args.get("count") or limit.args.get("expression")
    count = None if tree is None else _constant(source, tree, "LIMIT")
    skipped = 0 if offset is None else _constant(source, offset.expression, "OFFSET") or 0
    return plan if count is None and not skipped else Limit(plan, count, skipped)


def _constant(source: Source, tree: Any, clause: str) -> int | None:
    """The value of LIMIT or OFFSET; None for NULL, which is no limit."""
    value = evaluate(Binder(Scope(source), clause).fitting(tree, BIGINT), {})
    if value is not None and value < 0:
        raise source.error(Code.VALUE, f"{clause} cannot be negative", tree)
    return None if value is None else int(value)
