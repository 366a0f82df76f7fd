"""Programs as text: `Program.to_text` prints, `parse_program` reads the same text back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from everfresh.algebra import Kind
from everfresh.expr.nodes import Var
from everfresh.program.ir import MapDef, Program, Statement, Trigger

E = TypeVar("E")

_MAP = re.compile(r"^MAP (\S+)\[(.*)\] \((.*)\) =$")
_ON = re.compile(r"^ON CHANGE (\S+)$")
_STATEMENT = re.compile(r"^  (\S+)\[.*\] (\+=|:=)   -- ([^:]+)(?:: (.*))?$")


def parse_program(text: str, parse: Callable[[str], E], keys: Callable[[E], tuple[Var, ...]]) -> Program[E]:
    """The program that `to_text` printed; `parse` reads an expression, `keys` gives a definition's output variables."""
    maps: list[MapDef[E]] = []
    triggers: list[Trigger[E]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if found := _MAP.match(line):
            definition = parse(next(lines).strip())
            kinds = tuple(Kind[name] for name in found[3].split(", ") if name)
            maps.append(MapDef(found[1], keys(definition), kinds, definition))
        elif found := _ON.match(line):
            triggers.append(Trigger(found[1], ()))
        elif found := _STATEMENT.match(line):
            statement = Statement(found[1], found[2], parse(next(lines).strip()), found[3], found[4] or "")
            last = triggers.pop()
            triggers.append(Trigger(last.base, (*last.statements, statement)))
        else:
            raise ValueError(f"not a line of a program: {line!r}")
    return Program(tuple(maps), tuple(triggers))
