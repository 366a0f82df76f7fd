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
from everfresh.expr.nodes import Const, Expr
from everfresh.sql import calls, lambdas, nested, refusals
from everfresh.sql.datatypes import sql_type
from everfresh.sql.logical.row_calls import GroupingCall
from everfresh.sql.parameters import value_of
from everfresh.sql.queries import subqueries, unnesting, windows
from everfresh.sql.queries.aggregates import AGGREGATES, aggregate_name, bind_aggregate
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source
from everfresh.types import BOOLEAN, DOUBLE, SqlType, fold


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
    windows: bool = False  # whether window functions may be called here
    over: bool = False  # inside of a window function
    lists: bool = False  # whether UNNEST may be called here
    named: Mapping[str, Any] = field(default_factory=dict)  # lower-case name -> tree of the WINDOW clause
    open: frozenset[str] = frozenset()  # aliases that are being expanded
    parameters: Mapping[str, Expr] = field(default_factory=dict)  # of the lambdas around, by lower-case name

    @property
    def source(self) -> Source:
        """The text that is bound."""
        return self.scope.source

    def bind(self, node: Any) -> Expr:
        """The typed expression of a tree."""
        if not isinstance(node, exp.Expr):
            raise EverfreshError(Code.SYNTAX, "an operand is missing")
        rule = _RULES.get(type(node))
        if rule is None and type(node) in refusals.VOLATILE_NODES:
            time = refusals.time_of(self.source, refusals.VOLATILE_NODES[type(node)])
            if time is not None:
                return time
        if rule is None:
            raise refusals.refuse(self.source, node)
        try:
            return rule(self, node)
        except EverfreshError as error:
            raise (error if error.place else error.at(self.source.place(node))) from None

    def condition(self, node: Any) -> Expr:
        """A tree as a condition: numbers and texts are cast to BOOLEAN, as DuckDB does."""
        return self.converted(self.bind(node), BOOLEAN, node)

    def fitting(self, node: Any, to: SqlType) -> Expr:
        """A tree as a value for a column of type `to`."""
        return self.converted(self.bind(node), to, node)

    def converted(self, expr: Expr, to: SqlType, node: Any) -> Expr:
        """An expression implicitly cast; `node` is where it comes from."""
        try:
            return build.implicit(expr, to)
        except EverfreshError as error:
            raise (error if error.place else error.at(self.source.place(node))) from None


Rule = Callable[[Binder, Any], Expr]


# -- names and literals ----------------------------------------------------------------------------------


def _column(binder: Binder, node: Any) -> Expr:
    if isinstance(node.this, exp.Star):
        raise binder.source.unsupported("'*' inside an expression", node)
    if "bound" in node.meta:  # made by the expansion of a star
        bound: Expr = node.meta["bound"]
        return bound
    if binder.parameters:
        named = _parameter_of(binder, node)
        if named is not None:
            return named
    found = _named(binder, node) if not node.args.get("db") else None
    if found is None and node.table:
        found = nested.field_of_column(binder, node)
    if found is None:
        raise binder.scope.missing(node, list(binder.aliases))
    return found


def _parameter_of(binder: Binder, node: Any) -> Expr | None:
    """A parameter of a lambda, or a field of one, which hide columns."""
    parts = list(node.parts)
    if len(parts) > 1 and binder.scope.resolve(node) is not None:
        return None
    found = binder.parameters.get(fold(parts[0].name))
    for part in parts[1:]:
        found = None if found is None else nested.field(found, part.name)
    return found


def _identifier(binder: Binder, node: Any) -> Expr:
    """A name in the body of a lambda, where sqlglot takes each for a parameter."""
    found = lambdas.parameter(binder, node)
    if found is not None:
        return found
    column = exp.Column(this=node.copy())
    column.meta.update(node.meta)
    return _column(binder, column)


def _named(binder: Binder, node: Any) -> Expr | None:
    """What a name means: a column of FROM, else an alias of SELECT, else the same in the query around."""
    scope = binder.scope
    found = scope.resolve(node)
    if found is not None:
        if scope.lateral:
            shown = node.sql("duckdb")[:60]
            raise binder.source.unsupported(f"LATERAL (the use of '{shown}' beside it in FROM)", node)
        return found[1]
    key = fold(node.name)
    if not node.table and key in binder.aliases:
        if key in binder.open:
            raise binder.source.error(Code.NOT_FOUND, f"alias '{node.name}' is defined by itself", node)
        return replace(binder, open=binder.open | {key}).bind(binder.aliases[key])
    outer = None if scope.outer is None else _named(scope.outer, node)
    return None if outer is None else subqueries.no_aggregate_inside(binder, node, outer)


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
        if subqueries.quantifier(node) is not None:
            return subqueries.compared(binder, node, op)
        if op in ("=", "<>") and (subqueries.row(node.this) or subqueries.row(node.expression)):
            equal = subqueries.equal_rows(binder, node.this, node.expression)
            return equal if op == "=" else build.call("not", equal)
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


def _not(binder: Binder, node: Any) -> Expr:
    inner = unwrap(node.this)
    query = subqueries.in_query(inner) if isinstance(inner, exp.In) else None
    if query is not None:
        return subqueries.quantified(binder, inner.this, "<>", True, query)
    return build.call("not", binder.condition(node.this))


def _in(binder: Binder, node: Any) -> Expr:
    query = subqueries.in_query(node)
    if query is not None:
        return subqueries.quantified(binder, node.this, "=", False, query)
    items = node.expressions
    field = node.args.get("field")
    held = binder.bind(field) if field is not None else None
    if held is not None and held.type.name == "LIST":
        return build.call("list_contains", held, binder.bind(node.this))
    if node.args.get("unnest") or field is not None or not items:
        raise binder.source.unsupported("IN with anything but a list or a query", node)
    if binder.source.in_brackets(node):
        held = build.call("list_value", *(binder.bind(item) for item in items))
        return build.call("list_contains", held, binder.bind(node.this))
    if subqueries.row(node.this):
        return subqueries.rows_in(binder, node)
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
    if node.args.get("format") or node.args.get("default"):
        raise binder.source.unsupported("CAST with FORMAT or DEFAULT", node)
    value, to = binder.bind(node.this), sql_type(node.args["to"], binder.source)
    return build.call("try_cast", value, Const(None, to)) if node.args.get("safe") else build.cast(value, to)


# -- aggregates and windows -------------------------------------------------------------------------------


def _aggregate(fn: str) -> Rule:
    def rule(binder: Binder, node: Any) -> Expr:
        return bind_aggregate(binder, node, fn)

    return rule


def _filter(binder: Binder, node: Any) -> Expr:
    fn = aggregate_name(node.this)
    if fn is None:
        raise refusals.refuse(binder.source, node.this)
    try:
        return bind_aggregate(binder, node.this, fn, node.expression.this)
    except EverfreshError as error:
        raise (error if error.place else error.at(binder.source.place(node.this))) from None


def _ignore_nulls(binder: Binder, node: Any) -> Expr:
    fn = aggregate_name(node)
    if fn is None:
        raise refusals.refuse(binder.source, node)
    return bind_aggregate(binder, node, fn)


def _grouping(binder: Binder, node: Any) -> Expr:
    if not binder.aggregates or binder.within:
        where = f"inside {binder.within}" if binder.within else f"in {binder.clause}"
        hint = None if binder.aggregates else "it stands in a query with GROUP BY"
        raise binder.source.error(Code.TYPE, f"GROUPING cannot stand {where}", node, hint=hint)
    return GroupingCall(tuple(binder.bind(part) for part in node.expressions))


def _within_group(binder: Binder, node: Any) -> Expr:
    """PERCENTILE_CONT(f) WITHIN GROUP (ORDER BY x), which is QUANTILE_CONT(x, f)."""
    of, order = node.this, node.expression.expressions
    if not isinstance(of, exp.PercentileCont | exp.PercentileDisc) or len(order) != 1:
        raise refusals.refuse(binder.source, node)
    if order[0].args.get("desc"):
        raise binder.source.unsupported(
            "WITHIN GROUP in descending order", node, hint="take 1 - the fraction"
        )
    call = type(of)(this=order[0].this, expression=of.this)
    return bind_aggregate(binder, call, AGGREGATES[type(of)])


def _parameter(binder: Binder, node: Any) -> Expr:
    name = str(node.this) if node.this is not None else ""
    if binder.source.given is None or not name:
        raise refusals.refuse(binder.source, node)
    return value_of(binder.source.given, name)


def _anonymous(binder: Binder, node: Any) -> Expr:
    fn = aggregate_name(node)
    return bind_aggregate(binder, node, fn) if fn else calls.by_name(binder, node)


def _needs_over(binder: Binder, node: Any) -> Expr:
    name = windows.ONLY_OVER[type(node)]
    raise binder.source.error(Code.TYPE, f"{name} needs OVER (...)", node)


_RULES: dict[type[Any], Rule] = {
    exp.Column: _column,
    exp.Identifier: _identifier,
    exp.Literal: _literal,
    exp.RawString: lambda b, n: build.literal(n.this),
    exp.Boolean: lambda b, n: build.literal(bool(n.this)),
    exp.Null: lambda b, n: build.literal(None),
    exp.Paren: lambda b, n: b.bind(unwrap(n)),
    exp.Neg: _negative,
    exp.And: _connective(build.conjunction),
    exp.Or: _connective(build.disjunction),
    exp.Not: _not,
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
    exp.IgnoreNulls: _ignore_nulls,
    exp.Anonymous: _anonymous,
    exp.Placeholder: _parameter,
    exp.WithinGroup: _within_group,
    exp.Grouping: _grouping,
    exp.GroupingId: _grouping,
    exp.Window: windows.bind_window,
    exp.Explode: unnesting.unnest_call,
    exp.Subquery: subqueries.scalar,
    exp.Exists: subqueries.exists,
    **{kind: _aggregate(fn) for kind, fn in AGGREGATES.items()},
    **dict.fromkeys(windows.ONLY_OVER, _needs_over),
    **calls.RULES,
    **nested.RULES,
    exp.Transform: lambdas.transform,
    exp.ArrayFilter: lambdas.keep,
}
