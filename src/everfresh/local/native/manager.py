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
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from everfresh.local.codec import Codec
from everfresh.local.keeping import Item
from everfresh.local.native.adding import Job
from everfresh.local.native.chaining import chained
from everfresh.local.native.generate import Generated, Generator, TooLong, generate
from everfresh.local.native.runner import Function, Runner
from everfresh.local.native.scalars import Unsupported
from everfresh.local.wiring import Group, Prepared, Unit, Wiring

SMALL = 2048
"""Changes of up to so many rows run by row."""
LIGHT = 1 << 16
"""Larger ones too, while the maps that are applied have at most so many entries: they stay in the cache (see
`Form.light`)."""
ENOUGH = 5_000
"""Rows of a relation after which compiling in the background pays: a database that is filled and closed never
waits for a compiler."""
BATCH = 32
"""What a batch costs beside its rows, in rows."""
_OFTEN = 16
_MOST = 2048
"""Entries that a row may look at to find those in a range."""
_log = logging.getLogger("everfresh")


@dataclass
class Form:
    """One compiled form: the statements that it covers, those that it applies, its text, and, once it is
    ready, how to run it."""

    covered: frozenset[int]
    applied: frozenset[int]
    made: Generated
    chain: tuple[Unit, ...] = ()
    """The relations that are stepped with each row."""
    function: Function | None = None
    asked: bool = False
    failed: bool = False
    bad: int = 0
    """How many times the interpreter had to run them after all: after some it is left in charge."""
    _runner: Runner | None = None

    def light(self) -> bool:
        """Whether it is good for many rows: the maps that it applies to are small, and it does not keep up
        an ordered index for the steps of relations alone, of which one step will do for all rows."""
        if self.made.places.bands and not self.made.sought:
            return False
        stores = {id(job.prepared.store): job.prepared.store for job in self.made.jobs if job.apply}
        return sum(len(store.pool) for store in stores.values()) <= LIGHT

    @property
    def runner(self) -> Runner | None:
        """How to run it, once it is compiled. Slices are made here, in the thread that changes the maps."""
        if self.function is None or self.bad >= _OFTEN:
            return None
        if self._runner is None:
            self._runner = Runner(self.made, self.function)
        return self._runner


@dataclass
class Planned:
    """The forms of a relation's statements, and why some have none."""

    whole: tuple[Form, ...] = ()
    """One function; several where it would be too long."""
    by_row: Form | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Maps with statements that are interpreted, and why."""
    unstepped: Mapping[str, str] = field(default_factory=dict)
    """Relations that the change reaches and that are not stepped with it row by row, and why."""

    @property
    def forms(self) -> tuple[Form, ...]:
        """All of them."""
        return self.whole if self.by_row is None else (*self.whole, self.by_row)


Key = tuple[int, str, tuple[str, ...]]
"""The number of a unit, -1 for a table or a re-evaluated view; the relation; the views whose statements on it
are planned together."""


class Native:
    """The compiled statements of a wiring. `how` is `now` or `background`."""

    def __init__(self, wiring: Wiring, how: str, before: Native | None = None) -> None:
        self._wiring, self._how = wiring, how
        self.planned: dict[Key, Planned] = {}
        self.small: int = SMALL if before is None else before.small
        self._work: dict[Key, int] = {}
        """Rows that came so far for a relation without a plan, and what batches cost beside them."""
        if before is not None:
            self._take_over(before)

    def _take_over(self, before: Native) -> None:
        """What was planned for views that are run as before."""
        self._work = {key: work for key, work in before._work.items() if self._wiring.kept.issuperset(key[2])}
        for key, planned in before.planned.items():
            if self._wiring.kept.issuperset(key[2]):
                self.planned[key] = planned
                for form in planned.forms:
                    if form.function is None and not form.failed:
                        form.asked = False  # who asked is gone, and what it asked for may be too

    def of(self, group: Group, codec: Codec, unit: int, rows: int, alone: bool = True) -> tuple[Form, ...]:
        """The forms that are ready in which a group of statements runs for a change of some rows. Unless it
        is `alone`, others run beside it: nothing may be applied."""
        key = unit, group.base, group.views
        found = self.planned.get(key)
        if found is None:
            work = self._work[key] = self._work.get(key, 0) + rows + BATCH
            if self._how != "now" and work < ENOUGH:
                return ()
            found = self.planned[key] = plan(self._wiring, group.base, group.statements, codec, unit)
        by_row = found.by_row if alone else None
        if by_row is not None and by_row.made.ranged and (rows > self.small or _many(by_row.made)):
            by_row = None
        first, second = found.whole, () if by_row is None else (by_row,)
        if not first or (by_row is not None and (rows <= self.small or (self.small > 0 and by_row.light()))):
            first, second = second, first
        for form in first:
            if not form.asked:
                ask(form, self, self._how)
        return _ready(first) or _ready(second)

    def everything(self) -> None:
        """Plan and compile all statements, in all forms, whether their relation changes or not."""
        wiring = self._wiring
        relations = [(wiring.statements(name), rows.codec, -1) for name, rows in wiring.tables.items()]
        for unit in wiring.units:
            some = wiring.statements(unit.name, None if unit.is_view else unit.view)
            relations.append((some, unit.reader.codec, unit.number))
        for statements, codec, number in relations:
            if statements:
                for group in wiring.together(statements):
                    planned = plan(wiring, group.base, group.statements, codec, number)
                    self.planned[number, group.base, group.views] = planned
                    for form in planned.forms:
                        form.asked = True
                        compile_now(form)

    def source(self) -> dict[str, str]:
        """The generated texts, by the relation whose change they run on, the views, and the form."""
        found: dict[str, str] = {}
        for (_, base, views), planned in self.planned.items():
            for form in planned.forms:
                name = "by row" if form is planned.by_row else "whole"
                part = f" {planned.whole.index(form) + 1}" if name == "whole" and planned.whole[1:] else ""
                found[f"{base}, {' and '.join(views)}, {name}{part}"] = form.made.text
        return found


def _ready(forms: Iterable[Form]) -> tuple[Form, ...]:
    return tuple(form for form in forms if form.runner is not None)


def _many(made: Generated) -> bool:
    """Whether a row looks at so many entries to find those in a range that an ordered index is better."""
    for store, names in made.ranged:
        groups = len(store.slice(names)) if names else 1
        if len(store.pool) > _MOST * groups:
            return True
    return False


def compile_now(form: Form) -> None:
    """Compile, or load what was compiled before; a failure is logged and leaves the interpreter in charge."""
    from everfresh.local.native.build import build

    try:
        form.function = build(form.made.text)
    except Exception:
        _failed(form)


def _failed(form: Form) -> None:
    form.failed = True
    names = sorted({job.prepared.view for job in form.made.jobs})
    _log.exception("triggers of %s could not be compiled: the interpreter runs them", ", ".join(names))


def ask(form: Form, owner: object, how: str) -> None:
    """Have a form compiled: `now`, or behind what goes on, as long as its owner is there. What this process
    has loaded already is had at once."""
    from everfresh.local import behind
    from everfresh.local.native import build

    form.asked = True
    text = form.made.text
    if how == "now" or build.is_loaded(text):
        compile_now(form)
        return
    ordered = bool(form.made.places.bands or form.made.places.followed)

    def load(here: bool) -> bool:
        if ordered:
            build.index_calls()
        compile_now(form)
        return True

    try:
        item = Item("", build.write(text), build.ORDERED if ordered else "")
    except OSError:
        _failed(form)
    else:
        behind.ask(item, load, weakref.ref(owner))


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
    whole = _whole(wiring, statements, alone[False], codec, unit)
    by_row, unstepped = _by_row(wiring, base, statements, alone[True], codec, unit)
    planned = Planned(whole, by_row, {}, unstepped)
    left = set(reasons).difference(*(form.covered for form in planned.forms))
    return replace(planned, reasons={statements[i].store.target.name: reasons[i] for i in sorted(left)})


def _whole(
    wiring: Wiring, statements: Sequence[Prepared], able: Sequence[int], codec: Codec, unit: int
) -> tuple[Form, ...]:
    """The statements in one function, or, since none sees what another makes, in as few as it takes."""
    if not able:
        return ()
    try:
        made, _ = generate(wiring, [Job(statements[i], False) for i in able], codec, unit)
    except TooLong:
        half = len(able) // 2
        parts = (able[:half], able[half:])
        return tuple(form for some in parts for form in _whole(wiring, statements, some, codec, unit))
    return (Form(frozenset(able), frozenset(), made),)


def _by_row(
    wiring: Wiring, base: str, statements: Sequence[Prepared], able: Sequence[int], codec: Codec, unit: int
) -> tuple[Form | None, Mapping[str, str]]:
    """Row by row, with the relations that a table's change reaches stepped where that can be."""
    if unit < 0 and base in wiring.tables:
        found = chained(wiring, base, statements, able, codec)
        if found is None or not (found.applied or found.chain):
            return None, {}
        return Form(found.covered, found.applied, found.made, found.chain), found.reasons
    names = [s.store.target.name for s in statements]
    missed = {name for i, name in enumerate(names) if i not in able}
    applied = frozenset(i for i in able if names[i] not in wiring.under and names[i] not in missed)
    if not applied:
        return None, {}
    jobs = [Job(statements[i], i in applied) for i in able]
    try:
        made, generator = generate(wiring, jobs, codec, unit)
    except TooLong:
        return None, {}
    if not _in_step(generator, base, unit, {*names}, {names[i] for i in applied}):
        return None, {}
    return Form(frozenset(able), applied, made), {}


def _in_step(made: Generator, base: str, unit: int, targets: set[str], applied: set[str]) -> bool:
    """Whether all that is read of the relation follows it row by row."""
    if unit >= 0:
        return base not in made.relations and not made.reads & targets
    return base not in made.tables and base not in made.relations and not made.reads & (targets - applied)
