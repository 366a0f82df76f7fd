"""Which statements of a wiring run compiled, in which form: planned when their relation first changes.

A statement without a native form stays with the interpreter. There are two forms:

- *whole*: all statements are evaluated against the state before the change, what they make is emitted. It is
  always right, and the faster one for large changes: maps are then changed batch-wise.
- *by row*: statements are applied row by row, which is right because the delta of one row is exact, as
  long as everything that they read of this relation follows it row by row: not if one reads the relation's
  own table, or a map that the relation changes and that is not applied. Maps that a unit is read off stay
  pending: their statements are emitted here too.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from everfresh.local.codec import Codec
from everfresh.local.native.generate import Generated, Generator, Job, generate
from everfresh.local.native.runner import Function, Runner
from everfresh.local.native.scalars import Unsupported
from everfresh.local.wiring import Prepared, Wiring

SMALL = 64
"""Changes of up to so many rows run by row."""
_OFTEN = 16
_BATCH = 32
_ENOUGH = 5_000
"""Work after which compiling pays: a database that is filled and closed never waits for a compiler."""
_log = logging.getLogger("everfresh")


@dataclass
class Form:
    """One compiled form: the statements that it covers, those that it applies, its text, and, once it is
    ready, how to run it."""

    covered: frozenset[int]
    applied: frozenset[int]
    made: Generated
    function: Function | None = None
    runner: Runner | None = None
    asked: bool = False
    failed: bool = False
    bad: int = 0
    """How many times the interpreter had to run them after all."""

    def ready(self) -> bool:
        """Whether it can run. A runner makes slices of tables and maps, so it is made here, by the thread that
        changes these, and not where the function is compiled."""
        if self.runner is None and self.function is not None and self.bad < _OFTEN:
            self.runner = Runner(self.made, self.function)
        return self.runner is not None

    def gave_up(self) -> None:
        """The interpreter had to run them: after some times it is left in charge."""
        self.bad += 1
        if self.bad >= _OFTEN:
            self.runner = None


@dataclass
class Planned:
    """The forms of a relation's statements, and why some have none."""

    whole: Form | None = None
    by_row: Form | None = None
    reasons: dict[int, str] = field(default_factory=dict)


class Native:
    """The compiled statements of a wiring. `how` is `now` or `background`."""

    def __init__(self, wiring: Wiring, how: str) -> None:
        self._wiring, self._how = wiring, how
        self.planned: dict[tuple[int, str, str, int], Planned] = {}
        """By the number of the unit, -1 for a table or a re-evaluated view, the relation, the view of the first
        statement, and how many there are: threads share them out."""
        self.small = SMALL
        self._work: dict[object, int] = {}
        """Rows that came so far for a relation without a plan, and what batches cost beside their rows."""

    def of(self, statements: Sequence[Prepared], codec: Codec, unit: int, rows: int) -> Form | None:
        """The form in which the statements on a relation, at least one, run for a change of some rows; None if
        none is ready."""
        key = unit, statements[0].base, statements[0].view, len(statements)
        found = self.planned.get(key)
        if found is None:
            work = self._work[key] = self._work.get(key, 0) + rows + _BATCH
            if self._how != "now" and work < _ENOUGH:
                return None
            found = self.planned[key] = plan(self._wiring, key[1], statements, codec, unit)
        first, second = (found.by_row, found.whole) if rows <= self.small else (found.whole, found.by_row)
        first = first or second
        if first is None:
            return None
        if not first.asked:
            first.asked = True
            if self._how == "now":
                compile_now(first)
            else:
                _behind().put(first)
        if not first.ready() and second is not None and second.ready():
            return second
        return first if first.ready() else None


def compile_now(form: Form) -> None:
    """Compile, or load what was compiled before; a failure is logged and leaves the interpreter in charge."""
    from everfresh.local.native.build import build

    try:
        form.function = build(form.made.text)
    except Exception:
        form.failed = True
        names = sorted({job.prepared.view for job in form.made.jobs})
        _log.exception("triggers of %s could not be compiled: the interpreter runs them", ", ".join(names))


# -- background ------------------------------------------------------------------------------------

_queue: queue.Queue[Form] | None = None


def _behind() -> queue.Queue[Form]:
    """The queue of the thread that compiles, one function at a time."""
    global _queue
    if _queue is None:
        _queue = queue.Queue()
        threading.Thread(target=_work, args=(_queue,), name="everfresh-compile", daemon=True).start()
    return _queue


def _work(todo: queue.Queue[Form]) -> None:
    while True:
        compile_now(todo.get())
        todo.task_done()


# -- planning --------------------------------------------------------------------------------------


def plan(wiring: Wiring, base: str, statements: Sequence[Prepared], codec: Codec, unit: int) -> Planned:
    """The native forms of the statements on a relation."""
    reasons: dict[int, str] = {}
    alone: dict[bool, list[int]] = {True: [], False: []}
    for i, statement in enumerate(statements):
        for apply, able in alone.items():
            try:
                generate(wiring, [Job(statement, apply)], codec, unit)
                able.append(i)
            except Unsupported as error:
                reasons[i] = str(error)
    whole = None
    if alone[False]:
        made, _ = generate(wiring, [Job(statements[i], False) for i in alone[False]], codec, unit)
        whole = Form(frozenset(alone[False]), frozenset(), made)
    return Planned(whole, _by_row(wiring, base, statements, alone[True], codec, unit), reasons)


def _by_row(
    wiring: Wiring, base: str, statements: Sequence[Prepared], able: Sequence[int], codec: Codec, unit: int
) -> Form | None:
    names = [s.store.target.name for s in statements]
    missed = {name for i, name in enumerate(names) if i not in able}
    applied = frozenset(i for i in able if names[i] not in wiring.under and names[i] not in missed)
    if not applied:
        return None
    jobs = [Job(statements[i], i in applied) for i in able]
    made, generator = generate(wiring, jobs, codec, unit)
    if not _in_step(generator, base, unit, {*names}, {names[i] for i in applied}):
        return None
    return Form(frozenset(able), applied, made)


def _in_step(made: Generator, base: str, unit: int, targets: set[str], applied: set[str]) -> bool:
    """Whether all that is read of the relation follows it row by row."""
    if unit >= 0:
        return base not in made.relations and not made.reads & targets
    return base not in made.tables and base not in made.relations and not made.reads & (targets - applied)
