"""The program IR: maps, triggers, statements; generic over the expression.

A program says which maps are kept and what to do when a base changes. `M[keys] += expr` adds to a map,
`M[keys] := expr` replaces it. All right-hand sides of a trigger are evaluated against the state before it;
then all are applied. SQL views put calculus queries in it, matrix views linear algebra: this module never
looks inside an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from everfresh.algebra import Kind
from everfresh.expr.nodes import Expr, Var
from everfresh.expr.tokens import quote_name
from everfresh.types import Column

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class MapDef(Generic[E]):
    """A materialized map: `name[keys]` holds a count and one value of each kind; `definition` says what
    it equals."""

    name: str
    keys: tuple[Var, ...]
    kinds: tuple[Kind, ...]
    definition: E


@dataclass(frozen=True, slots=True)
class Statement(Generic[E]):
    """`target[keys] += expr` (or `:=`), run when the trigger's base changes."""

    target: str
    op: str
    expr: E
    strategy: str = "incremental"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trigger(Generic[E]):
    """What to run when `base` changes."""

    base: str
    statements: tuple[Statement[E], ...]


@dataclass(frozen=True, slots=True)
class Program(Generic[E]):
    """Maps, and a trigger per base they depend on."""

    maps: tuple[MapDef[E], ...]
    triggers: tuple[Trigger[E], ...]

    def map(self, name: str) -> MapDef[E]:
        """The map called `name`."""
        return next(m for m in self.maps if m.name == name)

    def trigger(self, base: str) -> Trigger[E] | None:
        """The trigger of `base`, if the program reads it."""
        return next((t for t in self.triggers if t.base == base), None)

    def to_text(self, show: Callable[[E], str] = str) -> str:
        """The program in the notation of the thesis; `parse_program` reads it back."""
        lines = []
        for m in self.maps:
            keys = ", ".join(f"{quote_name(v.name)} {v.type}{'?' if v.nullable else ''}" for v in m.keys)
            kinds = ", ".join(k.name for k in m.kinds)
            lines.append(f"MAP {quote_name(m.name)}[{keys}] ({kinds}) =\n  {show(m.definition)}")
        for t in self.triggers:
            lines.append(f"ON CHANGE {quote_name(t.base)}")
            for s in t.statements:
                keys = ", ".join(quote_name(v.name) for v in self.map(s.target).keys)
                note = f"   -- {s.strategy}: {s.reason}" if s.reason else f"   -- {s.strategy}"
                lines.append(f"  {quote_name(s.target)}[{keys}] {s.op}{note}\n    {show(s.expr)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class View:
    """How a view's rows are read off its map.

    `outputs` are expressions over the map's keys and its components, which are the variables `#0` (the
    count), `#1`, ... An entry is one row, or (`bag`) as many equal rows as its count says; `having` filters;
    `always` keeps one row over no data (an aggregate without GROUP BY).
    """

    name: str
    map: str
    columns: tuple[Column, ...]
    outputs: tuple[Expr, ...]
    bag: bool = False
    having: Expr | None = None
    always: bool = False


def component(index: int, *, unscaled: bool = False) -> str:
    """The name of the variable that stands for a component in a view's outputs.

    A sum of decimals is read as a DECIMAL (`#2`), or (`unscaled`) as the integer it is held as (`#2u`).
    """
    return f"#{index}u" if unscaled else f"#{index}"


def component_index(name: str) -> int:
    """The component that a variable of a view's outputs stands for."""
    return int(name[1:].removesuffix("u"))
