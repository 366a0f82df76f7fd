"""Lists as relations of FROM: `UNNEST(list)`, `RANGE(...)` and `GENERATE_SERIES(...)`.

They have one column, or two WITH ORDINALITY. The list may use the relations to the left: then the rows of
these are taken apart, and nothing is joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Const, Expr
from everfresh.sql.context import Context
from everfresh.sql.logical.plan import Filter, Join, Plan, Single, Unnest
from everfresh.sql.logical.subqueries import lateral
from everfresh.sql.queries.clauses import Query
from everfresh.types import BIGINT, BOOLEAN, coding

if TYPE_CHECKING:
    from everfresh.sql.expressions import Binder


def is_list_relation(node: Any) -> bool:
    """Whether a relation of FROM is made of a list."""
    of = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    return isinstance(of, exp.Unnest | exp.GenerateSeries)


def name_of(node: Any) -> str:
    """What the function is called."""
    of = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    if isinstance(of, exp.Unnest):
        return "unnest"
    return "range" if of.args.get("is_end_exclusive") else "generate_series"


def list_relation(node: Any, context: Context, binder: Binder) -> tuple[Query, str]:
    """The rows of a list, and what the relation is called without an alias."""
    of = node.this if isinstance(node, exp.Lateral) else node
    if isinstance(of, exp.Unnest):
        if len(of.expressions) != 1:
            raise context.source.error(
                Code.TYPE,
                f"UNNEST in FROM takes one list, not {len(of.expressions)} arguments",
                node,
                hint="SELECT UNNEST(a), UNNEST(b) has lists side by side",
            )
        values = binder.bind(of.expressions[0])
        if values.type.name != "LIST":
            raise context.source.error(
                Code.TYPE, f"UNNEST in FROM takes a list, not a {values.type}", of.expressions[0]
            )
    else:
        values = binder.bind(of.this if isinstance(of, exp.Table) else of)
    fresh, name = context.names.fresh, name_of(node)
    items, names = [(fresh(name), values)], [name]
    if of.args.get("offset") or node.args.get("ordinality"):
        length = build.call("list_length", values)
        items.append((fresh("ordinality"), build.call("generate_series", Const(1, BIGINT), length)))
        names.append("ordinality")
    return Query(Unnest(Single(), tuple(items)), tuple(names)), name


def listed_columns(node: Any) -> list[str]:
    """The column names of an alias; sqlglot takes the last one of WITH ORDINALITY for the name of that."""
    alias = node.args.get("alias")
    listed = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    offset = (node.this if isinstance(node, exp.Lateral) else node).args.get("offset")
    return [*listed, offset.name] if isinstance(offset, exp.Identifier) else listed


def paired(kind: str, left: Plan, right: Plan, condition: Expr | None) -> Plan:
    """A join; with the lists of each row on the left, its rows taken apart."""
    join = Join(kind, left, right, condition)
    if not (isinstance(right, Unnest) and isinstance(right.input, Single) and lateral(join)):
        return join
    always = condition is None or condition == Const(True, BOOLEAN)
    if kind == "inner":
        plan = Unnest(left, right.items)
        return plan if condition is None or always else Filter(plan, condition)
    if kind != "left" or not always:
        return join
    (name, values), *rest = right.items
    some = build.call(">", build.call("list_length", values), Const(0, BIGINT))
    nothing = Const(coding.from_elements([None], values.type), values.type)
    return Unnest(left, ((name, build.case([(some, values)], nothing)), *rest))
