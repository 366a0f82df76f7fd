"""What every pass leaves: instructions that read what has been made, and made where they read it."""

from __future__ import annotations

from collections.abc import Iterable

from everfresh.distributed.plan.ir import (
    Add,
    Eval,
    Instruction,
    Keep,
    PlacedChange,
    Send,
    Step,
    Temp,
    mode_of,
    uses_of,
)
from everfresh.distributed.plan.located import NotWellFormed, moves
from everfresh.distributed.plan.tags import Dist, Local, Random, Replicated


def check(instructions: Iterable[Instruction], given: Iterable[Temp]) -> None:
    """Raise `NotWellFormed`, naming the instruction, unless the sequence is in single transformer form."""
    made = {t.name: t for t in given}
    for instruction in instructions:
        for temp in uses_of(instruction):
            if made.get(temp.name) != temp:
                raise NotWellFormed(f"{temp.name} is read before it is made, or is another: {instruction}")
        _CHECKS[type(instruction)](instruction)  # type: ignore[operator]
        target = getattr(instruction, "target", None)
        if target is not None:
            if target.name in made:
                raise NotWellFormed(f"{target.name} is made twice")
            if isinstance(target.tag, Dist) and not set(target.tag.columns) <= {
                c.name for c in target.columns
            }:
                raise NotWellFormed(f"{target.name} is partitioned by what it does not have")
            made[target.name] = target


def _eval(i: Eval) -> None:
    if moves(i.expr):
        raise NotWellFormed(f"a transformer inside of {i.target.name}")
    if any(mode_of(t.tag) != i.mode for t in i.uses):
        raise NotWellFormed(f"{i.target.name} reads what is elsewhere")


def _keep(i: Keep) -> None:
    if not isinstance(i.source.tag, Replicated) or not isinstance(i.target.tag, Dist):
        raise NotWellFormed(f"{i.target.name} cannot be kept of {i.source.tag}")


def _send(i: Send) -> None:
    if i.source.tag == i.target.tag or isinstance(i.target.tag, Random):
        raise NotWellFormed(f"{i.target.name} is sent from {i.source.tag} to {i.target.tag}")


def _anything(i: Add | PlacedChange) -> None:
    if isinstance(i.source.tag, Random):
        raise NotWellFormed(f"{i.source.name} is added where it is not known to belong")


def _change(i: PlacedChange) -> None:
    _anything(i)
    if isinstance(i.source.tag, Local):
        raise NotWellFormed(f"{i.table} is not on the driver")


def _step(i: Step) -> None:
    for name, temp in i.adds:
        if mode_of(temp.tag) != i.mode or isinstance(temp.tag, Random):
            raise NotWellFormed(f"what is pending for {name} is at {temp.tag}")


_CHECKS = {Eval: _eval, Keep: _keep, Send: _send, Add: _anything, PlacedChange: _change, Step: _step}
