"""What each stage of the compiler may contain: one table, checked between stages.

| stage | iterations | nested products | changes | stored matrices |
|---|---|---|---|---|
| source: as written | yes | yes | no | inputs and earlier statements |
| flat: after `flatten` | no | no | no | the same |
| trigger: what runs on an update | no | yes | factors `uA`, `vA` and the names assigned above | yes |

In a trigger, `name := expr` with a name that is no map is a factor or another thin value, evaluated in
order against the state before the update; then all `map += expr` are applied at once; then `map := expr`
re-evaluates, in order, against the state after. A violation is a compiler bug and raises `SpecError`, never
a user's mistake.
"""

from __future__ import annotations

from collections.abc import Collection

from everfresh.linalg.compiler.flatten import Flat, is_atom
from everfresh.linalg.lang.nodes import (
    ITERATIVE,
    Add,
    Constant,
    Expr,
    Eye,
    Inverse,
    MatMul,
    Scale,
    Stack,
    Zeros,
)
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.trees import distinct, names
from everfresh.program.ir import Program, Trigger


class SpecError(AssertionError):
    """A program that its stage does not allow."""


def check_expanded(source: Source) -> Source:
    """A source without iterative nodes."""
    for name, expr in source.statements:
        if any(isinstance(node, ITERATIVE) for node in distinct(expr)):
            raise SpecError(f"an iteration is left in {name} := {expr}")
    return source


def check_flat(flat: Flat) -> Flat:
    """A flat program: its statements are flat, and read what is above them."""
    known = {m.name for m in flat.inputs}
    for name, expr in flat.statements:
        if not _is_flat(expr):
            raise SpecError(f"{name} := {expr} is not flat")
        if missing := names(expr) - known:
            raise SpecError(f"{name} reads {', '.join(sorted(missing))}, which is not there yet")
        known.add(name)
    if absent := set(flat.outputs) - known:
        raise SpecError(f"no statement gives {', '.join(sorted(absent))}")
    return flat


def _is_flat(expr: Expr) -> bool:
    match expr:
        case Inverse(body):
            return is_atom(body)
        case Stack(parts):
            return all(is_atom(p) for p in parts)
        case Add(terms):
            return all(_is_term(t) for t in terms)
        case _:
            return _is_term(expr)


def _is_term(expr: Expr) -> bool:
    match expr:
        case Scale(_, body):
            return not isinstance(body, Scale) and _is_term(body)
        case MatMul(left, right):
            return is_atom(left) and is_atom(right)
        case _:
            return is_atom(expr) or isinstance(expr, (Eye, Zeros, Constant))


def check_trigger(program: Program[Expr], trigger: Trigger[Expr], factors: Collection[str]) -> Trigger[Expr]:
    """A trigger: names are assigned before they are read; factors, then updates, then re-evaluation."""
    maps = {m.name for m in program.maps}
    known, phase = maps | set(factors), 0
    for statement in trigger.statements:
        redo = statement.strategy == "reevaluate"
        step = 2 if redo else 1 if statement.op == "+=" else 0
        if step < phase:
            raise SpecError(f"{statement.target} {statement.op} {statement.expr} comes too late")
        phase = step
        if missing := names(statement.expr) - known:
            raise SpecError(f"{statement.target} reads {', '.join(sorted(missing))}, which is not there")
        if statement.op == "+=" and statement.target not in maps:
            raise SpecError(f"{statement.target} is updated and not stored")
        known.add(statement.target)
    return trigger
