"""Queries as text, in the notation of the thesis, and back: `parse(to_text(q), schema) == q`.

    Sum_[c](orders(k, c, p) * [p > 10] * (m := p * 2) * ⟨p, m⟩)

Variables get their types from the relations and maps that bind them, so a parser is given those. A printer
that is given them marks the variables of an atom that differ: `x?` may be NULL where the column is not (it is
shared with one that may), `x!` may not. Where a bound variable has another type than its expression, and for
every lift, the type is written behind the variable's name (`?` marks it nullable). A product of one factor,
which simplification removes, is written with a leading `1`, and a sum of one term with a leading `0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from everfresh.calculus.nodes import (
    ONE,
    ZERO,
    Bind,
    Cond,
    Each,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
)
from everfresh.expr.names import Made
from everfresh.expr.nodes import Expr, Var
from everfresh.expr.text import declaration, parse_expr, parse_type_at
from everfresh.expr.text import to_text as expr_text
from everfresh.expr.tokens import NAMES, TokenStream, quote_name
from everfresh.types import NULL, Column, SqlType, quoted

_WORDS = frozenset({"SUM_", "EXISTS"})
_SUM, _PRODUCT, _FACTOR = 0, 1, 2


class Marked(Protocol):
    """The variables of an atom as text, where only some columns are read with their places."""

    def __call__(self, name: str, vars_: Sequence[Var], places: Sequence[int] | None = None, /) -> str:
        """Of the atom of a relation or map with this name."""


def to_text(
    query: Query,
    relations: Mapping[str, Sequence[Column]] | None = None,
    maps: Mapping[str, Sequence[Var]] | None = None,
) -> str:
    """The query as text; over these relations and maps, where given, exactly."""
    columns: dict[str, Sequence[Column | Var]] = {**(relations or {}), **(maps or {})}

    def marked(name: str, vars_: Sequence[Var], places: Sequence[int] | None = None) -> str:
        at = [""] * len(vars_) if places is None else [f"{place}: " for place in places]
        known = columns.get(name)
        if known is None:
            marks = [""] * len(vars_)
        else:
            types = known if places is None else [known[place] for place in places]
            marks = [
                "" if v.nullable == c.nullable else "?" if v.nullable else "!"
                for v, c in zip(vars_, types, strict=True)
            ]
        shown = (place + quote_name(v.name) + mark for place, v, mark in zip(at, vars_, marks, strict=True))
        return ", ".join(shown)

    return _text(query, _SUM, marked)


def _name(name: str) -> str:
    if name.startswith("Δ"):  # which without quotes says that it is a change
        return f"#{quoted(name)}" if isinstance(name, Made) else quoted(name)
    return quote_name(name, _WORDS)


def _names(vars_: Sequence[Var]) -> str:
    return ", ".join(quote_name(v.name) for v in vars_)


def _components(components: Sequence[int]) -> str:
    return ", ".join("_" if c < 0 else str(c) for c in components)


def _text(query: Query, place: int, marked: Marked) -> str:
    match query:
        case Rel(name, vars_, delta, columns):
            return f"{'Δ' if delta else ''}{_name(name)}({marked(name, vars_, columns)})"
        case MapRef(name, keys, components):
            return f"{_name(name)}[{marked(name, keys)}]({_components(components)})"
        case Cond(condition):
            return f"[{condition}]"
        case Value(items):
            return f"⟨{', '.join(map(expr_text, items))}⟩"
        case Bind(var, expr):
            same = var.type == expr.type and var.nullable == expr.nullable
            return f"({quote_name(var.name) if same else declaration(var)} := {expr})"
        case Each(vars_, lists):
            return f"Each_[{', '.join(map(declaration, vars_))}]({', '.join(map(expr_text, lists))})"
        case Lift(var, body, closed):
            return f"({declaration(var)} {':=!' if closed else ':=:'} {_text(body, _SUM, marked)})"
        case Exists(body):
            return f"Exists({_text(body, _SUM, marked)})"
        case Sum(group, body):
            return f"Sum_[{_names(group)}]({_text(body, _SUM, marked)})"
        case Neg(body):
            return _wrap(f"-{_text(body, _FACTOR, marked)}", place > _SUM)
        case Prod(factors):
            if not factors:
                return "1"
            shown = (ONE, *factors) if len(factors) < 2 or factors[0] == ONE else factors
            return _wrap(" * ".join(_text(f, _FACTOR, marked) for f in shown), place > _PRODUCT)
        case Plus(terms):
            if not terms:
                return "0"
            shown = (ZERO, *terms) if len(terms) < 2 or terms[0] == ZERO else terms
            return _wrap(" + ".join(_text(t, _PRODUCT, marked) for t in shown), place > _SUM)
    raise TypeError(f"{type(query).__name__} has no text")


def _wrap(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def parse(
    text: str, relations: Mapping[str, Sequence[Column]], maps: Mapping[str, Sequence[Var]] | None = None
) -> Query:
    """The query written in `text`, over these relations (by their columns) and maps (by their keys)."""
    parser = _Parser(TokenStream(text), relations, maps or {})
    query = parser.sum()
    parser.stream.end()
    return query


@dataclass
class _Parser:
    stream: TokenStream
    relations: Mapping[str, Sequence[Column]]
    maps: Mapping[str, Sequence[Var]]
    known: dict[str, Var] = field(default_factory=dict)

    def sum(self) -> Query:
        terms = [self.product()]
        while self.stream.accept("+"):
            terms.append(self.product())
        if len(terms) > 1 and terms[0] == ZERO:
            return Plus(tuple(terms[1:]))
        return terms[0] if len(terms) == 1 else Plus(tuple(terms))

    def product(self) -> Query:
        if self.stream.accept("-"):
            return Neg(self.factor())
        factors = [self.factor()]
        while self.stream.accept("*"):
            factors.append(self.factor())
        if len(factors) > 1 and factors[0] == ONE:
            return Prod(tuple(factors[1:]))
        return factors[0] if len(factors) == 1 else Prod(tuple(factors))

    def factor(self) -> Query:
        stream = self.stream
        if stream.accept("0"):
            return ZERO
        if stream.peek().kind == "number" and stream.peek().text in ("0", "1"):
            return ZERO if stream.next().text == "0" else ONE
        if stream.accept("["):
            condition = self.expr()
            stream.expect("]")
            return Cond(condition)
        if stream.accept("⟨"):
            return Value(tuple(self.stream.listed(self.expr, "⟩")))
        if stream.at("Sum_", "["):
            return self.aggregate()
        if stream.at("Each_", "["):
            return self.each()
        if stream.peek().kind == "name" and stream.accept("Exists", "("):
            body = self.sum()
            stream.expect(")")
            return Exists(body)
        if stream.at("("):
            return self.bracket()
        return self.atom()

    def expr(self) -> Expr:
        return parse_expr(self.stream, self.known)

    def variables(self, end: str) -> list[str]:
        return self.stream.listed(self.stream.name, end)

    def aggregate(self) -> Query:
        self.stream.expect("Sum_", "[")
        names = self.variables("]")
        self.stream.expect("(")
        body = self.sum()
        self.stream.expect(")")
        return Sum(tuple(self.known[name] for name in names), body)

    def each(self) -> Query:
        def one() -> Var:
            name = self.stream.name()
            of, nullable = self.declared() or (NULL, True)
            return Var(name, of, nullable)

        self.stream.expect("Each_", "[")
        found = self.stream.listed(one, "]")
        self.stream.expect("(")
        lists = self.stream.listed(self.expr, ")")
        return Each(tuple(self.declare(var) for var in found), tuple(lists))

    def atom(self) -> Query:
        token = self.stream.peek()
        name = self.stream.name()
        delta = self.stream.text.startswith("Δ", token.start)
        if delta:
            name = type(name)(name[1:]) if len(name) > 1 else self.stream.name()
        if self.stream.accept("("):
            places: list[int] = []
            vars_ = self.bind(self.relations[name], ")", places)
            return Rel(name, vars_, delta, tuple(places) or None)
        self.stream.expect("[")
        keys = self.bind(self.maps[name], "]")
        self.stream.expect("(")
        return MapRef(name, keys, tuple(self.stream.listed(self.component, ")")))

    def component(self) -> int:
        return -1 if self.stream.accept("_") else self.stream.integer()

    def bind(
        self, types: Sequence[Column | Var], end: str, places: list[int] | None = None
    ) -> tuple[Var, ...]:
        """The variables of an atom; the places of its columns, where they are written, go to `places`."""

        def one() -> tuple[str, bool | None]:
            if places is not None and self.stream.peek().kind == "number":
                places.append(self.stream.integer())
                self.stream.expect(":")
            return self.marked()

        named = self.stream.listed(one, end)
        if places:
            types = [types[place] for place in places]
        vars_ = tuple(
            Var(n, c.type, c.nullable if mark is None else mark)
            for (n, mark), c in zip(named, types, strict=True)
        )
        for var in vars_:
            self.known.setdefault(var.name, var)
        return vars_

    def marked(self) -> tuple[str, bool | None]:
        name = self.stream.name()
        return name, True if self.stream.accept("?") else False if self.stream.accept("!") else None

    def bracket(self) -> Query:
        """A binding, a lift, or a query in parentheses."""
        stream = self.stream
        start = stream.position
        stream.expect("(")
        if stream.peek().kind in NAMES:
            name = stream.name()
            declared = self.declared() if not stream.at(":=") and stream.peek().kind == "name" else None
            if stream.accept(":="):
                query = self.assignment(name, declared)
                stream.expect(")")
                return query
        stream.position = start
        stream.expect("(")
        query = self.sum()
        stream.expect(")")
        return query

    def declared(self) -> tuple[SqlType, bool] | None:
        type_ = parse_type_at(self.stream)
        return type_, self.stream.accept("?")

    def assignment(self, name: str, declared: tuple[SqlType, bool] | None) -> Query:
        stream = self.stream
        lifted = stream.accept(":") or stream.at("!")
        if lifted:
            closed = stream.accept("!")
            body = self.sum()
            assert declared is not None
            return Lift(self.declare(Var(name, *declared)), body, closed)
        expr = self.expr()
        return Bind(self.declare(Var(name, *(declared or (expr.type, expr.nullable)))), expr)

    def declare(self, var: Var) -> Var:
        self.known.setdefault(var.name, var)
        return var
