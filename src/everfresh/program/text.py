"""Programs as text: `Program.to_text` prints, `parse_program` reads the same text back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from everfresh.algebra import Kind
from everfresh.expr.nodes import Var
from everfresh.expr.tokens import TokenStream
from everfresh.program.ir import MapDef, Program, Statement, Trigger
from everfresh.types import parse_type

E = TypeVar("E")

# A line ends at a newline that is in no string and in no quoted name.
_LINE = re.compile(r"""(?:[^'"\n]|'[^']*'|"[^"]*")+""")
_NOTE = re.compile(r"   -- ([^:]+)(?:: (.*))?$", re.DOTALL)


def parse_program(text: str, parse: Callable[[str, Mapping[str, tuple[Var, ...]]], E]) -> Program[E]:
    """The program that `to_text` printed; `parse` reads an expression, given the keys of the maps before
    it."""
    maps: list[MapDef[E]] = []
    shared: list[MapDef[E]] = []
    static: list[str] = []
    triggers: list[Trigger[E]] = []
    lines = iter(_LINE.findall(text))

    def expression() -> E:
        return parse(next(lines).strip(), {m.name: m.keys for m in (*maps, *shared)})

    for line in lines:
        stream = TokenStream(line)
        if line.startswith(("MAP ", "SHARED MAP ")):
            into = shared if stream.accept("SHARED") else maps
            stream.expect("MAP")
            name, keys = stream.name(), _keys(stream)
            stream.expect("(")
            kinds = [Kind[kind] for kind in _listed(stream, stream.name, ")")]
            into.append(MapDef(name, keys, tuple(kinds), expression()))
        elif line.startswith("STATIC "):
            stream.expect("STATIC")
            static.append(stream.name())
        elif line.startswith("ON CHANGE "):
            stream.expect("ON", "CHANGE")
            triggers.append(Trigger(stream.name(), ()))
        elif line.startswith("  ") and triggers and (note := _NOTE.search(line)):
            target = stream.name()
            op = line[: note.start()].rsplit(" ", 1)[1]
            statement = Statement(target, op, expression(), note[1], note[2] or "")
            last = triggers.pop()
            triggers.append(Trigger(last.base, (*last.statements, statement)))
        else:
            raise ValueError(f"not a line of a program: {line!r}")
    return Program(tuple(maps), tuple(triggers), (), tuple(shared), tuple(static))


def _listed(stream: TokenStream, item: Callable[[], E], end: str) -> list[E]:
    found: list[E] = []
    while not stream.accept(end):
        if found:
            stream.expect(",")
        found.append(item())
    return found


def _keys(stream: TokenStream) -> tuple[Var, ...]:
    def key() -> Var:
        name, type_ = stream.name(), stream.name()
        if stream.accept("("):
            precision = stream.integer()
            stream.expect(",")
            type_ = f"{type_}({precision},{stream.integer()})"
            stream.expect(")")
        return Var(name, parse_type(type_), stream.accept("?"))

    stream.expect("[")
    return tuple(_listed(stream, key, "]"))
