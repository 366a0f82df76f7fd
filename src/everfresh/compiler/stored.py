"""Maps and triggers as JSON, exactly: `from_json(to_json(program)) == program`.

The text of a program leaves to its reader what is known from schemas; here every variable has its type, as a
joined one may be nullable where the column is not. Equal nodes are written once, each after those it is made
of: `["Cond", ["@", 3]]` is a condition on node 3. Lists that start with `@` are nodes by their number, with
`T` types, with `()` tuples; everything else is a value of JSON.

>>> from everfresh.calculus import Rel
>>> from everfresh.expr import Var
>>> from everfresh.program import MapDef, Program
>>> from everfresh.types import BIGINT
>>> x = Var("x", BIGINT, False)
>>> program = Program((MapDef("M", (x,), (), Rel("R", (x,))),), ())
>>> to_json(program)["nodes"]
[['Var', 'x', ['T', 'BIGINT'], False], ['Rel', 'R', ['()', ['@', 0]], False]]
>>> from_json(to_json(program)) == program
True
"""

from __future__ import annotations

from typing import Any

from everfresh.algebra import Kind
from everfresh.calculus import (
    Bind,
    Cond,
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
from everfresh.expr import Call, Case, Cast, Const, Var
from everfresh.program import MapDef, Program, Statement, Trigger
from everfresh.rewrite import Node
from everfresh.types import SqlType, parse_type

_QUERIES = (Bind, Cond, Exists, Lift, MapRef, Neg, Plus, Prod, Rel, Sum, Value)
_CLASSES: dict[str, type[Node]] = {c.__name__: c for c in (*_QUERIES, Call, Case, Cast, Const, Var)}


def to_json(program: Program[Query]) -> dict[str, Any]:
    """A program without derived relations as a value of JSON."""
    if program.relations:
        raise TypeError("a program with derived relations cannot be stored")
    numbers: dict[Node, int] = {}
    nodes: list[list[Any]] = []

    def shown(value: Any) -> Any:
        match value:
            case Node():
                if value not in numbers:
                    made = [type(value).__name__, *map(shown, value._fields())]
                    numbers[value] = len(nodes)
                    nodes.append(made)
                return ["@", numbers[value]]
            case SqlType():
                return ["T", str(value)]
            case tuple():
                return ["()", *map(shown, value)]
            case None | bool() | int() | float() | str():
                return value
        raise TypeError(f"{type(value).__name__} cannot be stored")

    def map_(m: MapDef[Query]) -> list[Any]:
        return [m.name, shown(m.keys), [kind.name for kind in m.kinds], shown(m.definition)]

    def statement(s: Statement[Query]) -> list[Any]:
        return [s.target, s.op, shown(s.expr), s.strategy, s.reason]

    return {
        "maps": [map_(m) for m in program.maps],
        "shared": [map_(m) for m in program.shared],
        "triggers": [[t.base, [statement(s) for s in t.statements]] for t in program.triggers],
        "static": list(program.static),
        "nodes": nodes,
    }


def from_json(stored: dict[str, Any]) -> Program[Query]:
    """The program that `to_json` wrote."""
    nodes: list[Node] = []

    def read(value: Any) -> Any:
        match value:
            case ["@", number]:
                return nodes[number]
            case ["T", text]:
                return parse_type(text)
            case ["()", *items]:
                return tuple(map(read, items))
        return value

    for name, *fields in stored["nodes"]:
        nodes.append(_CLASSES[name](*map(read, fields)))

    def map_(name: str, keys: Any, kinds: list[str], definition: Any) -> MapDef[Query]:
        return MapDef(name, read(keys), tuple(Kind[kind] for kind in kinds), read(definition))

    def statement(target: str, op: str, expr: Any, strategy: str, reason: str) -> Statement[Query]:
        return Statement(target, op, read(expr), strategy, reason)

    return Program(
        tuple(map_(*m) for m in stored["maps"]),
        tuple(Trigger(base, tuple(statement(*s) for s in some)) for base, some in stored["triggers"]),
        (),
        tuple(map_(*m) for m in stored["shared"]),
        tuple(stored["static"]),
    )
