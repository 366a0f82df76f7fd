"""Which statements of a wiring run compiled: planned when their relation first changes, compiled now or behind.

A statement without a native form stays with the interpreter. Maps that a unit is read off stay pending: their
statements are emitted. The others are applied row by row, which is right because the delta of one row is
exact, as long as everything that the statements read of this relation follows it row by row: not if one reads
the relation's own table, or a map that the relation changes and that is not applied. Then all are emitted,
against the state before.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from everfresh.local.codec import Codec
from everfresh.local.native.generate import Generated, Generator, Job, generate
from everfresh.local.native.runner import Runner
from everfresh.local.native.scalars import Unsupported
from everfresh.local.wiring import Prepared, Wiring

_OFTEN = 16
_log = logging.getLogger("everfresh")


@dataclass
class Planned:
    """The compiled form of a relation's statements: which it covers, its text, and once it is ready, how to
    run it."""

    covered: frozenset[int] = frozenset()
    applied: frozenset[int] = frozenset()
    reasons: dict[int, str] = field(default_factory=dict)
    made: Generated | None = None
    runner: Runner | None = None
    failed: bool = False
    bad: int = 0
    """How many times the interpreter had to run them after all."""

    def gave_up(self) -> None:
        """The interpreter had to run them: after some times it is left in charge."""
        self.bad += 1
        if self.bad >= _OFTEN:
            self.runner = None


class Native:
    """The compiled statements of a wiring. `how` is `now`, `background` or `off`."""

    def __init__(self, wiring: Wiring, how: str) -> None:
        self._wiring, self._how = wiring, how
        self.planned: dict[tuple[int, str, str, int], Planned] = {}
        """By the number of the unit, -1 for a table or a re-evaluated view, the relation, the view of the first
        statement, and how many there are: threads share them out."""

    def of(self, statements: Sequence[Prepared], codec: Codec, unit: int) -> Planned:
        """The plan for the statements on one relation, of which there is at least one."""
        key = unit, statements[0].base, statements[0].view, len(statements)
        found = self.planned.get(key)
        if found is None:
            found = self.planned[key] = plan(self._wiring, key[1], statements, codec, unit)
            if found.made is not None:
                if self._how == "now":
                    compile_now(found)
                else:
                    _behind().put(found)
        return found


def compile_now(planned: Planned) -> None:
    """Compile, or load what was compiled before; a failure is logged and leaves the interpreter in charge."""
    from everfresh.local.native.build import build

    assert planned.made is not None
    try:
        planned.runner = Runner(planned.made, build(planned.made.text))
    except Exception:
        planned.failed = True
        names = sorted({job.prepared.view for job in planned.made.jobs})
        _log.exception("triggers of %s could not be compiled: the interpreter runs them", ", ".join(names))


# -- background ------------------------------------------------------------------------------------

_queue: queue.Queue[Planned] | None = None


def _behind() -> queue.Queue[Planned]:
    """The queue of the thread that compiles, one function at a time."""
    global _queue
    if _queue is None:
        _queue = queue.Queue()
        threading.Thread(target=_work, args=(_queue,), name="everfresh-compile", daemon=True).start()
    return _queue


def _work(todo: queue.Queue[Planned]) -> None:
    while True:
        compile_now(todo.get())


# -- planning --------------------------------------------------------------------------------------


def plan(wiring: Wiring, base: str, statements: Sequence[Prepared], codec: Codec, unit: int) -> Planned:
    """Which statements have a native form, which of these are applied, and their text."""
    reasons: dict[int, str] = {}
    able: list[int] = []
    for i, statement in enumerate(statements):
        try:
            generate(wiring, [Job(statement, True)], codec, unit)
            able.append(i)
        except Unsupported as error:
            reasons[i] = str(error)
    names = [s.store.target.name for s in statements]
    missed = {names[i] for i in reasons}
    applied = [i for i in able if names[i] not in wiring.under and names[i] not in missed]
    while able:
        jobs = [Job(statements[i], i in applied) for i in able]
        try:
            made, generator = generate(wiring, jobs, codec, unit)
        except Unsupported:  # what needs one row at a time, where none is applied
            able, reasons = _alone(wiring, statements, able, codec, unit, reasons)
            applied = []
            continue
        if applied and not _in_step(generator, base, unit, {*names}, {names[i] for i in applied}):
            applied = []
            continue
        return Planned(frozenset(able), frozenset(applied), reasons, made)
    return Planned(reasons=reasons)


def _alone(
    wiring: Wiring, statements: Sequence[Prepared], able: list[int], codec: Codec, unit: int, reasons: dict[int, str]
) -> tuple[list[int], dict[int, str]]:
    """The statements that can be emitted."""
    left = []
    for i in able:
        try:
            generate(wiring, [Job(statements[i], False)], codec, unit)
            left.append(i)
        except Unsupported as error:
            reasons[i] = str(error)
    return left, reasons


def _in_step(made: Generator, base: str, unit: int, targets: set[str], applied: set[str]) -> bool:
    """Whether all that is read of the relation follows it row by row."""
    if unit >= 0:
        return base not in made.relations and not made.reads & targets
    return base not in made.tables and base not in made.relations and not made.reads & (targets - applied)
