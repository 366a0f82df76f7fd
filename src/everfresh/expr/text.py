"""Expressions as text, and back: `parse(to_text(e), vars) == e` for every expression.

The text is infix SQL in which every type can be read off: a constant whose type is not the one its digits
suggest has it behind `::`, and casts are `CAST(x AS T)`. `parse_expr` reads from a `TokenStream` and stops
behind the expression, so that other languages can contain expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import integer_type
from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.functions import FUNCTIONS
from everfresh.expr.library.readers import read
from everfresh.expr.library.render import date_text, decimal_text, timestamp_text
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var
from everfresh.expr.tokens import TokenStream, quote_name
from everfresh.types import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTERVAL,
    MAX_DIGITS,
    NULL,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    read_type,
)

# function: (symbol, precedence); larger binds tighter
_INFIX = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "=": ("=", 4),
    "<>": ("<>", 4),
    "<": ("<", 4),
    "<=": ("<=", 4),
    ">": (">", 4),
    ">=": (">=", 4),
    "is_distinct": ("IS DISTINCT FROM", 4),
    "is_not_distinct": ("IS NOT DISTINCT FROM", 4),
    "like": ("LIKE", 4),
    "ilike": ("ILIKE", 4),
    "||": ("||", 5),
    "+": ("+", 6),
    "-": ("-", 6),
    "*": ("*", 7),
    "/": ("/", 7),
    "//": ("//", 7),
    "%": ("%", 7),
}
_NOT, _TEST, _UNARY, _ATOM = 3, 4, 8, 9
KEYWORDS = frozenset(
    {
        "AND",
        "OR",
        "NOT",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "LIKE",
        "ILIKE",
        "IN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "AS",
        "DISTINCT",
        "FROM",
        "DATE",
        "TIMESTAMP",
        "INTERVAL",
    }
)

# -- printing ------------------------------------------------------------------------------------------------


def to_text(expr: Expr) -> str:
    """The expression as text.

    >>> from everfresh.types import INTEGER
    >>> print(to_text(Call("+", (Var("a", INTEGER), Const(1, INTEGER)))))
    a + 1
    """
    return _text(expr)[0]


def _text(expr: Expr) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    match expr:
        case Var():
            return quote_name(expr.name, KEYWORDS), _ATOM
        case Const():
            return constant_text(expr), _ATOM
        case Cast():
            return f"CAST({to_text(expr.arg)} AS {expr.to})", _ATOM
        case Case():
            arms = " ".join(f"WHEN {to_text(c)} THEN {to_text(v)}" for c, v in expr.arms)
            return f"CASE {arms} ELSE {to_text(expr.default)} END", _ATOM
        case Call():
            return _call_text(expr)
        case _:
            raise AssertionError(f"not an expression: {type(expr).__name__}")


def _inside(expr: Expr, least: int) -> str:
    text, binding = _text(expr)
    return text if binding >= least else f"({text})"


def _call_text(expr: Call) -> tuple[str, int]:
    op, args = expr.op, expr.args
    if op in ("and", "or") and len(args) > 1:
        symbol, binding = _INFIX[op]
        return f" {symbol} ".join(_inside(arg, binding + 1) for arg in args), binding
    if op in _INFIX and len(args) == 2:
        symbol, binding = _INFIX[op]
        # comparisons do not chain, so their left side is parenthesised too
        left = _inside(args[0], binding + (1 if binding == _TEST else 0))
        return f"{left} {symbol} {_inside(args[1], binding + 1)}", binding
    if op == "neg":
        bare = isinstance(args[0], Const)  # -(5) negates 5, -5 is a constant
        return f"-({to_text(args[0])})" if bare else f"-{_inside(args[0], _ATOM)}", _UNARY
    if op == "is_null":
        return f"{_inside(args[0], _TEST + 1)} IS NULL", _TEST
    if op == "not":
        inner = args[0]
        if isinstance(inner, Call) and inner.op == "is_null":
            return f"{_inside(inner.args[0], _TEST + 1)} IS NOT NULL", _TEST
        return f"NOT {_inside(inner, _NOT)}", _NOT
    if op == "in":
        return f"{_inside(args[0], _TEST + 1)} IN ({', '.join(map(to_text, args[1:]))})", _TEST
    return f"{op}({', '.join(map(to_text, args))})", _ATOM


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def constant_text(expr: Const) -> str:
    """A constant with as much of its type as is needed to read it back."""
    value, type_ = expr.value, expr.of
    if value is None:
        return "NULL" if type_ == NULL else f"NULL::{type_}"
    if type_.is_integer:
        return str(value) if integer_type(value) == type_ else f"{value}::{type_}"
    match type_.name:
        case "BOOLEAN":
            return "TRUE" if value else "FALSE"
        case "DECIMAL":
            text = decimal_text(value, type_.scale)
            return text if number(text.lstrip("-")).of == type_ and type_.scale else f"{text}::{type_}"
        case "DOUBLE" | "REAL":
            return _float_text(value) + ("" if type_ == DOUBLE else f"::{type_}")
        case "DATE":
            return f"DATE {_quoted(date_text(value))}"
        case "TIMESTAMP":
            return f"TIMESTAMP {_quoted(timestamp_text(value))}"
        case "INTERVAL":
            return f"INTERVAL ({value[0]}, {value[1]}, {value[2]})"
        case _ if type_ != VARCHAR:  # a physical value as it is held
            held = _quoted(value.encode("unicode_escape").decode()) if type_.is_text else str(value)
            return f"HELD({held} AS {type_})"
        case _:
            return _quoted(value)


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        return f"'{value!r}'::DOUBLE"
    text = repr(value)
    return text if "e" in text else f"{text}e0"


# -- parsing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Makers:
    """How a parser makes nodes: exactly as written (the default), or with implicit casts (`build.MAKERS`)."""

    call: Callable[[str, Sequence[Expr]], Expr]
    cast: Callable[[Expr, SqlType], Expr]  # CAST(x AS T)
    typed: Callable[[Expr, SqlType], Expr]  # x::T
    case: Callable[[Sequence[tuple[Expr, Expr]], Expr | None], Expr]


def _exact_call(op: str, args: Sequence[Expr]) -> Expr:
    if op not in FUNCTIONS:
        raise EverfreshError(Code.NOT_FOUND, f"there is no function '{op}'")
    return Call(op, tuple(args))


def _exact_typed(expr: Expr, to: SqlType) -> Expr:
    # `7::BIGINT` is how a constant of another type is written; CAST(x AS T) is a node.
    return Const(cast_value(expr.value, expr.of, to), to) if isinstance(expr, Const) else Cast(expr, to)


def _exact_case(arms: Sequence[tuple[Expr, Expr]], default: Expr | None) -> Expr:
    return Case(tuple(arms), Const(None, arms[0][1].type) if default is None else default)


EXACT = Makers(_exact_call, Cast, _exact_typed, _exact_case)


def number(text: str) -> Const:
    """A numeric literal as written: digits an integer, a point a DECIMAL of just these digits, an exponent a
    DOUBLE.

    >>> print(number("1.50").of, number("7").of, number("1e3").of)
    DECIMAL(3,2) INTEGER DOUBLE
    """
    if "e" not in text.lower():
        whole, point, fraction = text.partition(".")
        digits, scale = len(whole) + len(fraction), len(fraction)
        if not point and integer_type(int(text)) != DOUBLE:
            return Const(int(text), integer_type(int(text)))
        if point and digits <= MAX_DIGITS:
            return Const(int(whole + fraction), DECIMAL(max(1, digits), scale))
    return Const(float(text), DOUBLE)


def parse(text: str, types: Mapping[str, Var], makers: Makers = EXACT) -> Expr:
    """The expression written in `text`; `types` says which variables there are."""
    stream = TokenStream(text)
    expr = parse_expr(stream, types, makers)
    stream.end()
    return expr


def parse_expr(stream: TokenStream, types: Mapping[str, Var], makers: Makers = EXACT) -> Expr:
    """The expression at the position of `stream`, which moves behind it."""
    return _Parser(stream, types, makers).expression(0)


def parse_type_at(stream: TokenStream) -> SqlType:
    """The type at the position of `stream`, which moves behind it."""
    return read_type(stream)


def declaration(var: Var) -> str:
    """A variable with its type, `?` behind it if it may be NULL; `parse_declaration` reads it.

    >>> declaration(Var("p", DECIMAL(15, 2)))
    'p DECIMAL(15,2)?'
    """
    return f"{quote_name(var.name)} {var.type}{'?' if var.nullable else ''}"


def parse_declaration(stream: TokenStream) -> Var:
    """The variable declared at the position of `stream`."""
    name = stream.name()
    type_ = parse_type_at(stream)
    return Var(name, type_, stream.accept("?"))


_SYMBOLS = {symbol: (op, binding) for op, (symbol, binding) in _INFIX.items() if " " not in symbol}


@dataclass(frozen=True, slots=True)
class _Parser:
    """Precedence climbing: `expression(least)` reads operators that bind at least so tightly."""

    stream: TokenStream
    types: Mapping[str, Var]
    makers: Makers

    def expression(self, least: int) -> Expr:
        left = self.prefix()
        while True:
            after = self.infix(left, least)
            if after is None:
                return left
            left = after

    def infix(self, left: Expr, least: int) -> Expr | None:
        token = self.stream.peek()
        known = token.text.upper() if token.kind in ("symbol", "name") else ""
        op, binding = _SYMBOLS.get(known, ("", -1))
        if op in ("and", "or") and binding >= least:
            args = [left]
            while self.stream.accept(op):
                args.append(self.expression(binding + 1))
            return self.makers.call(op, args)
        if binding >= least and op:
            self.stream.next()
            return self.makers.call(op, [left, self.expression(binding + 1)])
        return self.test(left) if least <= _TEST else None

    def test(self, left: Expr) -> Expr | None:
        """IS [NOT] NULL, IS [NOT] DISTINCT FROM, [NOT] IN, NOT LIKE."""
        stream, call = self.stream, self.makers.call
        if stream.accept("IS"):
            negative = stream.accept("NOT")
            if stream.accept("DISTINCT"):
                stream.expect("FROM")
                op = "is_not_distinct" if negative else "is_distinct"
                return call(op, [left, self.expression(_TEST + 1)])
            stream.expect("NULL")
            null = call("is_null", [left])
            return call("not", [null]) if negative else null
        if stream.accept("IN"):
            return call("in", [left, *self.arguments()])
        if stream.accept("NOT", "IN"):
            return call("not", [call("in", [left, *self.arguments()])])
        for op in ("like", "ilike"):
            if stream.accept("NOT", op):
                return call("not", [call(op, [left, self.expression(_TEST + 1)])])
        return None

    def arguments(self) -> list[Expr]:
        self.stream.expect("(")
        if self.stream.accept(")"):
            return []
        args = [self.expression(0)]
        while self.stream.accept(","):
            args.append(self.expression(0))
        self.stream.expect(")")
        return args

    def prefix(self) -> Expr:
        stream = self.stream
        if stream.accept("NOT"):
            return self.makers.call("not", [self.expression(_NOT)])
        if stream.at("-") and stream.peek(1).kind == "number":
            stream.next()
            return self.typed(self.negative(number(stream.next().text)))
        if stream.accept("-"):
            return self.makers.call("neg", [self.expression(_UNARY)])
        return self.typed(self.atom())

    def negative(self, constant: Const) -> Const:
        type_ = constant.of
        return Const(-constant.value, integer_type(-constant.value) if type_.is_integer else type_)

    def typed(self, expr: Expr) -> Expr:
        while self.stream.accept("::"):
            expr = self.makers.typed(expr, parse_type_at(self.stream))
        return expr

    def atom(self) -> Expr:
        stream = self.stream
        token = stream.peek()
        if token.kind == "number":
            return number(stream.next().text)
        if token.kind == "string":
            return Const(stream.next().text, VARCHAR)
        if stream.accept("("):
            inner = self.expression(0)
            stream.expect(")")
            return inner
        if token.kind in ("quoted", "made"):
            return self.variable(stream.next().text)
        if token.kind == "name":
            return self.named()
        raise stream.error("an expression is expected")

    def named(self) -> Expr:
        stream = self.stream
        for word, constant in (
            ("TRUE", Const(True, BOOLEAN)),
            ("FALSE", Const(False, BOOLEAN)),
            ("NULL", Const(None, NULL)),
        ):
            if stream.accept(word):
                return constant
        if stream.at("CAST", "("):
            return self.cast()
        if stream.at("HELD", "("):
            return self.held()
        if stream.accept("CASE"):
            return self.case()
        for word, type_ in (("DATE", DATE), ("TIMESTAMP", TIMESTAMP)):
            if stream.at(word) and stream.peek(1).kind == "string":
                stream.next()
                return Const(read(stream.next().text, type_), type_)
        if stream.at("INTERVAL"):
            return self.interval()
        name = stream.peek()
        if stream.peek(1).matches("("):
            stream.next()
            return self.makers.call(name.text, self.arguments())
        if name.text.upper() in KEYWORDS:
            raise stream.error("an expression is expected")
        return self.variable(stream.next().text)

    def variable(self, name: str) -> Expr:
        found = self.types.get(name)
        if found is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no variable '{name}'",
                hint="variables are: " + ", ".join(self.types),
            )
        return found

    def interval(self) -> Expr:
        stream = self.stream
        stream.expect("INTERVAL")
        if stream.peek().kind == "string":
            return Const(read(stream.next().text, INTERVAL), INTERVAL)
        stream.expect("(")
        parts: list[Any] = [stream.integer()]
        for _ in range(2):
            stream.expect(",")
            parts.append(stream.integer())
        stream.expect(")")
        return Const(tuple(parts), INTERVAL)

    def held(self) -> Expr:
        stream = self.stream
        stream.expect("HELD", "(")
        text = stream.string() if stream.peek().kind == "string" else None
        value = stream.integer() if text is None else text.encode().decode("unicode_escape")
        stream.expect("AS")
        to = parse_type_at(self.stream)
        stream.expect(")")
        return Const(value, to)

    def cast(self) -> Expr:
        stream = self.stream
        stream.expect("CAST", "(")
        inner = self.expression(0)
        stream.expect("AS")
        to = parse_type_at(self.stream)
        stream.expect(")")
        return self.makers.cast(inner, to)

    def case(self) -> Expr:
        stream = self.stream
        arms: list[tuple[Expr, Expr]] = []
        while stream.accept("WHEN"):
            condition = self.expression(0)
            stream.expect("THEN")
            arms.append((condition, self.expression(0)))
        default = self.expression(0) if stream.accept("ELSE") else None
        stream.expect("END")
        return self.makers.case(arms, default)
