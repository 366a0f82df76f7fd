"""Plans read back from their text: `parse_plan(str(plan), schemas) == plan`.

Types are those of the tables, whose columns the parser is given; every other type follows from them. A
subquery stands between a node and its inputs, under a label that the node's expressions mention.

>>> from everfresh.types import INTEGER, Column
>>> text = '''Filter x > 1
...   Scan t (x)'''
>>> print(parse_plan(text, {"t": (Column("x", INTEGER),)}))
Filter x > 1
  Scan t (x)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from everfresh.expr.names import Made
from everfresh.expr.nodes import Expr, Var
from everfresh.expr.text import parse_expr
from everfresh.expr.tokens import TokenStream, lines_of
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import RANKS, aggregate_type
from everfresh.types import BIGINT, Column, SqlType

E = TypeVar("E", bound=Expr)
Block = tuple[str, list["Block"]]
OPERATORS = (
    "Single", "Scan", "Filter", "Project", "Aggregate", "Join", "Union", "Intersect", "Except", "Window",
    "Distinct", "Sort", "Limit",
)  # fmt: skip
"""The words that a plan's text begins with."""
_LABEL = re.compile(r"((?:scalar|exists|any|all)#\d+):")
_VALUES = ("lag", "lead", "first_value", "last_value", "nth_value")


def parse_plan(text: str, schemas: Mapping[str, Sequence[Column]]) -> p.Plan:
    """The plan written in `text`, over tables with these columns."""
    (block,) = _blocks(lines_of(text))
    return _Parser(schemas).plan(block, {})


def _blocks(lines: Sequence[str]) -> list[Block]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("  ") and found:
            found[-1][1].append(line[2:])
        else:
            found.append((line, []))
    return [(line, _blocks(below)) for line, below in found]


@dataclass(frozen=True, slots=True)
class _Parser:
    schemas: Mapping[str, Sequence[Column]]

    def plan(self, block: Block, outer: Mapping[str, Var]) -> p.Plan:
        """The plan of a block, inside of plans with the variables `outer`."""
        line, below = block
        known, inputs = dict(outer), []
        for b in below:
            if not _LABEL.match(b[0]):  # the right side of a join may mention the left one's variables
                inputs.append(self.plan(b, known if line.startswith("Join ") else outer))
                known.update({v.name: v for v in inputs[-1].variables})
        node = _Node(TokenStream(line), known)
        for label, inside in ((b[0], b[1]) for b in below if _LABEL.match(b[0])):
            shown, question = label.split(":", 1)
            name = Made(shown)
            node.answers[name] = node.asked(name.split("#")[0], question, self.plan(inside[0], known))
            node.known[name] = Var(name, node.answers[name].type, node.answers[name].nullable)
        made = self.made(node, tuple(inputs))
        node.stream.end()
        return made

    def made(self, node: _Node, inputs: tuple[p.Plan, ...]) -> p.Plan:
        stream = node.stream
        match stream.name():
            case "Single":
                return p.Single()
            case "Scan":
                return self.scan(stream)
            case "Filter":
                return p.Filter(inputs[0], node.expr())
            case "Project":
                return p.Project(inputs[0], node.items(node.expr))
            case "Aggregate":
                grouped = not stream.accept("all")
                keys: tuple[p.Named, ...] = ()
                if grouped:
                    stream.expect("by", "[")
                    keys = tuple(stream.listed(lambda: node.item(node.expr), "]"))
                calls = node.items(node.aggregate) if stream.accept(":") else ()
                return p.Aggregate(inputs[0], keys, calls, grouped)
            case "Join":
                kind = stream.name()
                return p.Join(kind, inputs[0], inputs[1], node.expr() if stream.accept("on") else None)
            case "Union" | "Intersect" | "Except" as op:
                return p.SetOperation(op.lower(), stream.accept("all"), inputs[0], inputs[1])
            case "Window":
                return p.Window(inputs[0], node.items(node.window))
            case "Unnest":
                return p.Unnest(inputs[0], node.items(node.expr))
            case "Distinct":
                return p.Distinct(inputs[0])
            case "Sort":
                return p.Sort(inputs[0], node.order())
            case "Limit":
                count = None if stream.accept("ALL") else stream.integer()
                stream.expect("OFFSET")
                return p.Limit(inputs[0], count, stream.integer())
        raise ValueError(f"not a line of a plan: {stream.text!r}")

    def scan(self, stream: TokenStream) -> p.Plan:
        table = stream.name()
        alias = stream.name() if stream.accept("AS") else table
        stream.expect("(")
        names = stream.listed(stream.name, ")")
        columns = zip(names, self.schemas[table], strict=True)
        return p.Scan(table, alias, tuple(Var(n, c.type, c.nullable) for n, c in columns))


@dataclass(frozen=True, slots=True)
class _Node:
    """The text of one node, the variables that its expressions may mention, and its subqueries by label."""

    stream: TokenStream
    known: dict[str, Var]
    answers: dict[str, p.Subquery] = field(default_factory=dict)

    def expr(self) -> Expr:
        return self._filled(parse_expr(self.stream, self.known))

    def _filled(self, expr: Expr) -> Expr:
        """The expression with its subqueries in place of their labels."""
        if isinstance(expr, Var):
            return self.answers.get(expr.name, expr)
        return expr.map_children(self._filled)

    def asked(self, kind: str, question: str, plan: p.Plan) -> p.Subquery:
        if kind in ("scalar", "exists"):
            return p.ScalarSubquery(plan) if kind == "scalar" else p.ExistsSubquery(plan)
        *words, op, _ = question.split(" ")
        inner = _Node(TokenStream(" ".join(words)), self.known, self.answers)
        several = len(plan.variables) > 1
        if several:
            inner.stream.expect("(")
            args = inner.stream.listed(inner.expr, ")")
        else:
            args = [inner.expr()]
        inner.stream.end()
        return p.QuantifiedSubquery(tuple(args), op, kind == "all", plan)

    def item(self, value: Callable[[], E]) -> tuple[str, E]:
        name = self.stream.name()
        if self.stream.accept("="):
            return name, value()
        return name, self.known[name]  # type: ignore[return-value]  # only an expression is left out

    def items(self, value: Callable[[], E]) -> tuple[tuple[str, E], ...]:
        found = [self.item(value)]
        while self.stream.accept(","):
            found.append(self.item(value))
        return tuple(found)

    def arguments(self) -> tuple[tuple[Expr, ...], tuple[tuple[Expr, bool, bool], ...]]:
        """What stands in the parentheses of a call, and its ORDER BY."""
        stream = self.stream
        if stream.accept("*", ")") or stream.accept(")"):
            return (), ()
        args = [self.expr()]
        while stream.accept(","):
            args.append(self.expr())
        order = self.order() if stream.accept("ORDER", "BY") else ()
        stream.expect(")")
        return tuple(args), order

    def aggregate(self) -> p.AggregateCall:
        stream = self.stream
        fn = stream.name()
        stream.expect("(")
        distinct = stream.accept("DISTINCT")
        args, order = self.arguments()
        where = None
        if stream.accept("FILTER", "(", "WHERE"):
            where = self.expr()
            stream.expect(")")
        return p.AggregateCall(fn, args, distinct, where, order)

    def window(self) -> p.WindowCall:
        stream = self.stream
        fn = stream.name()
        stream.expect("(")
        args, _ = self.arguments()
        stream.expect("OVER", "(")
        partition: list[Expr] = []
        if stream.accept("PARTITION", "BY"):
            partition.append(self.expr())
            while stream.accept(","):
                partition.append(self.expr())
        order = self.order() if stream.accept("ORDER", "BY") else ()
        frame = None if stream.at(")") else self.frame()
        stream.expect(")")
        return p.WindowCall(fn, args, tuple(partition), order, frame, _window_type(fn, args))

    def frame(self) -> tuple[str, int | None, int | None]:
        kind = self.stream.name().lower()
        start = self.bound()
        self.stream.expect(".", ".")
        return kind, start, self.bound()

    def bound(self) -> int | None:
        if self.stream.accept("unbounded"):
            return None
        self.stream.accept("+")
        return self.stream.integer()

    def order(self) -> tuple[tuple[Expr, bool, bool], ...]:
        found: list[tuple[Expr, bool, bool]] = []
        while not found or self.stream.accept(","):
            expr = self.expr()
            ascending = self.stream.accept("ASC")
            if not ascending:
                self.stream.expect("DESC")
            self.stream.expect("NULLS")
            first = self.stream.accept("FIRST")
            if not first:
                self.stream.expect("LAST")
            found.append((expr, ascending, first))
        return tuple(found)


def _window_type(fn: str, args: Sequence[Expr]) -> SqlType:
    if fn in RANKS or fn == "ntile":
        return RANKS.get(fn, BIGINT)
    return args[0].type if fn in _VALUES else aggregate_type(fn, [a.type for a in args])
