"""Binding scalar expressions: parse tree in, typed `Expr` out.

One table, `_RULES`, says how each class of the parse tree is bound; `everfresh.sql.calls` holds the rows
for functions and operators. A class without a row is refused by name. Invariant: every error has the place
of the innermost expression that causes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.nodes import Expr
from everfresh.sql import calls, refusals
from everfresh.sql.datatypes import sql_type
from everfresh.sql.plan import AggregateCall
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source
from everfresh.types import BOOLEAN, DOUBLE, INTEGER, NULL, REAL, SqlType


@dataclass(frozen=True)
class Binder:
    """Binds the expressions of one clause."""

    scope: Scope
    clause: str  # for messages: "WHERE", "SELECT", ...
    aliases: Mapping[str, Any] = field(
        default_factory=dict
    )  # lower-case alias -> tree, used where no column fits
    aggregates: bool = False  # whether aggregate functions may be called here
    within: str = ""  # the aggregate whose arguments are being bound
    open: frozenset[str] = frozenset()  # aliases that are being expanded

    @property
    def source(self) -> Source:
        """The text that is bound."""
        return self.scope.source

    def bind(self, node: Any) -> Expr:
        """The typed expression of a tree."""
        if not isinstance(node, exp.Expr):
            raise EverfreshError(Code.SYNTAX, "an operand is missing")
        rule = _RULES.get(type(node))
        if rule is None:
            raise refusals.refuse(self.source, node)
        try:
            return rule(self, node)
        except EverfreshError as error:
            raise (error if error.place else error.at(self.source.place(node))) from None

    def condition(self, node: Any) -> Expr:
        """A tree as a condition: numbers and texts are cast to BOOLEAN, as DuckDB does."""
        return self._to(self.bind(node), BOOLEAN, node)

    def fitting(self, node: Any, to: SqlType) -> Expr:
        """A tree as a value for a column of type `to`."""
        return self._to(self.bind(node), to, node)

    def _to(self, expr: Expr, to: SqlType, node: Any) -> Expr:
        try:
            return build.implicit(expr, to)
        except EverfreshError as error:
            raise (error if error.place else error.at(self.source.place(node))) from None


Rule = Callable[[Binder, Any], Expr]


# -- names and literals ----------------------------------------------------------------------------------


def _column(binder: Binder, node: Any) -> Expr:
    if isinstance(node.this, exp.Star):
        raise binder.source.unsupported("'*' inside an expression", node)
    found = binder.scope.resolve(node)
    if found is not None:
        return found[1]
    key = node.name.lower()
    if key in binder.open:
        raise binder.source.error(Code.NOT_FOUND, f"alias '{node.name}' is defined by itself", node)
    if key in binder.aliases:
        return replace(binder, open=binder.open | {key}).bind(binder.aliases[key])
    raise binder.scope.missing(node, list(binder.aliases))


def _literal(binder: Binder, node: Any) -> Expr:
    return build.literal(node.this) if node.is_string else _number(binder, node)


def _number(binder: Binder, node: Any, sign: int = 1) -> Expr:
    text = binder.source.number(node).replace("_", "")
    if not _NUMBER.fullmatch(text):
        text = node.this
    if text.isdecimal():
        value = build.literal(sign * int(text))
        if value.type == DOUBLE:
            raise binder.source.unsupported("an integer outside HUGEINT", node, hint="write it as 1e40")
        return value
    if not _NUMBER.fullmatch(text):
        raise binder.source.error(Code.SYNTAX, f"'{text[:40]}' is not a number", node)
    found = build.number(text)
    return found if sign > 0 else build.call("neg", found)


_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def _negative(binder: Binder, node: Any) -> Expr:
    inner = unwrap(node.this)
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return _number(binder, inner, -1)
    return build.call("neg", binder.bind(inner))


def unwrap(node: Any) -> Any:
    """A tree without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


# -- logic -----------------------------------------------------------------------------------------------


def _connective(join: Callable[[list[Expr]], Expr]) -> Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        return join([binder.condition(part) for part in operands(node)])

    return rule


def operands(node: Any) -> list[Any]:
    """The operands of a chain of ANDs or of ORs, in order; parentheses do not break a chain."""
    kind, found, pending = type(node), [], [node]
    while pending:
        part = unwrap(pending.pop())
        if isinstance(part, kind):
            pending += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _comparison(op: str) -> Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        for side in (node.this, node.expression):
            if isinstance(side, _ORDER):
                raise binder.source.unsupported(
                    "a chain of comparisons", node, hint="use AND, or parentheses"
                )
        return build.call(op, binder.bind(node.this), binder.bind(node.expression))

    return rule


_ORDER = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _is(binder: Binder, node: Any) -> Expr:
    value = node.expression
    if isinstance(value, exp.Null):
        return build.call("is_null", binder.bind(node.this))
    if isinstance(value, exp.Boolean):
        test = build.is_true if value.this else build.is_false
        return test(binder.condition(node.this))
    raise refusals.refuse(binder.source, node)


def _in(binder: Binder, node: Any) -> Expr:
    items = node.expressions
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not items:
        what = "IN with a subquery" if node.args.get("query") else "IN with anything but a list"
        raise binder.source.unsupported(what, node)
    return build.in_list(binder.bind(node.this), [binder.bind(item) for item in items])


def _between(binder: Binder, node: Any) -> Expr:
    if node.args.get("symmetric"):
        raise binder.source.unsupported("BETWEEN SYMMETRIC", node)
    return build.between(*(binder.bind(node.args[k]) for k in ("this", "low", "high")))


def _like(op: str) -> Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        return _matches(binder, op, node)

    return rule


def _matches(binder: Binder, op: str, node: Any, *escape: Any) -> Expr:
    args = [binder.bind(part) for part in (node.this, node.expression, *escape)]
    found = build.call(op, *args)
    return build.call("not", found) if node.args.get("negate") else found


def _escape(binder: Binder, node: Any) -> Expr:
    op = {exp.Like: "like", exp.ILike: "ilike"}.get(type(node.this))
    if op is None:
        raise refusals.refuse(binder.source, node)
    return _matches(binder, op, node.this, node.expression)


def _case(binder: Binder, node: Any) -> Expr:
    arms = []
    for arm in node.args["ifs"]:
        if node.this is None:
            test = binder.condition(arm.this)
        else:
            test = build.call("=", binder.bind(node.this), binder.bind(arm.this))
        arms.append((test, binder.bind(arm.args["true"])))
    default = node.args.get("default")
    return build.case(arms, None if default is None else binder.bind(default))


def _if(binder: Binder, node: Any) -> Expr:
    default = node.args.get("false")
    arm = (binder.condition(node.this), binder.bind(node.args["true"]))
    return build.case([arm], None if default is None else binder.bind(default))


def _cast(binder: Binder, node: Any) -> Expr:
    if node.args.get("safe"):
        raise binder.source.unsupported("TRY_CAST", node)
    if node.args.get("format") or node.args.get("default"):
        raise binder.source.unsupported("CAST with FORMAT or DEFAULT", node)
    return build.cast(binder.bind(node.this), sql_type(node.args["to"], binder.source))


# -- aggregates ------------------------------------------------------------------------------------------

_WIDENED = {BOOLEAN: INTEGER, NULL: INTEGER, REAL: DOUBLE}  # what sum and avg add up instead


def _aggregate(fn: str) -> Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        return bind_aggregate(binder, node, fn)

    return rule


def bind_aggregate(binder: Binder, node: Any, fn: str, where: Any = None) -> Expr:
    """A call of an aggregate function, with its FILTER if there is one."""
    source = binder.source
    if binder.within:
        raise source.error(Code.TYPE, f"aggregate {fn} cannot stand inside {binder.within}", node)
    if not binder.aggregates:
        raise source.error(
            Code.TYPE,
            f"{binder.clause} cannot contain the aggregate {fn}",
            node,
            hint="use HAVING" if binder.clause == "WHERE" else None,
        )
    trees = list(node.expressions) if isinstance(node, exp.Anonymous) else [node.this, *node.expressions]
    trees = [t for t in trees if t is not None]
    if any(isinstance(t, exp.Distinct) for t in trees):
        raise source.unsupported(f"{fn.upper()}(DISTINCT ...)", node)
    if any(isinstance(t, exp.Order) for t in trees):
        raise source.unsupported("ORDER BY inside an aggregate", node)
    if fn == "count" and len(trees) == 1 and isinstance(trees[0], exp.Star):
        if any(trees[0].args.values()):
            raise source.unsupported("EXCLUDE, REPLACE or RENAME in COUNT(*)", node)
        trees = []
    inside = replace(binder, within=f"the aggregate {fn}")
    args = [inside.bind(tree) for tree in trees]
    if fn != "count":
        args = [build.cast(a, _WIDENED[a.type]) if a.type in _allowed(fn) else a for a in args]
    condition = None if where is None else replace(binder, within="FILTER").condition(where)
    return AggregateCall(fn, tuple(args), filter=condition)


def _allowed(fn: str) -> list[SqlType]:
    """The types that `fn` takes by widening: avg takes no BOOLEAN."""
    return [t for t in _WIDENED if fn == "sum" or t != BOOLEAN]


def _filter(binder: Binder, node: Any) -> Expr:
    fn = AGGREGATES.get(type(node.this)) or _named_aggregate(node.this)
    if fn is None:
        raise refusals.refuse(binder.source, node.this)
    try:
        return bind_aggregate(binder, node.this, fn, node.expression.this)
    except EverfreshError as error:
        raise (error if error.place else error.at(binder.source.place(node.this))) from None


def _anonymous(binder: Binder, node: Any) -> Expr:
    fn = _named_aggregate(node)
    return bind_aggregate(binder, node, fn) if fn else calls.by_name(binder, node)


def _named_aggregate(node: Any) -> str | None:
    named = isinstance(node, exp.Anonymous) and isinstance(node.this, str)
    return {"mean": "avg"}.get(node.this.lower()) if named else None


def is_aggregate(node: Any) -> bool:
    """Whether a tree is a call of an aggregate function that the language has."""
    return type(node) in AGGREGATES or _named_aggregate(node) is not None


AGGREGATES: dict[type[Any], str] = {exp.Sum: "sum", exp.Count: "count", exp.Avg: "avg"}

_RULES: dict[type[Any], Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.RawString: lambda b, n: build.literal(n.this),  # noqa: ARG005
    exp.Boolean: lambda b, n: build.literal(bool(n.this)),  # noqa: ARG005
    exp.Null: lambda b, n: build.literal(None),  # noqa: ARG005
    exp.Paren: lambda b, n: b.bind(unwrap(n)),
    exp.Neg: _negative,
    exp.And: _connective(build.conjunction),
    exp.Or: _connective(build.disjunction),
    exp.Not: lambda b, n: build.call("not", b.condition(n.this)),
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Filter: _filter,
    exp.Anonymous: _anonymous,
    **{kind: _aggregate(fn) for kind, fn in AGGREGATES.items()},
    **calls.RULES,
}
