"""How statements run, interpreted or compiled, and in which form: `pays` and `chosen` decide it, for the
statements of a wiring (`Native`) as for those of blocks on workers, which have the first form alone.

They are planned when their relation has changed often enough. A statement without a native form stays with
the interpreter. There are two forms:

- *whole*: all statements are evaluated against the state before the change, what they make is emitted. It is
  always right, and the faster one for large changes: maps are then changed batch-wise.
- *by row*: statements are applied row by row, which is right because the delta of one row is exact, as
  long as everything that they read of this relation follows it row by row: not if one reads the relation's
  own table, or a map that the relation changes and that is not applied. Maps that a unit is read off stay
  pending: their statements are emitted here too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar
from weakref import WeakValueDictionary

from everfresh.local.batch.linked_programs import ALIKE, EACH_TIME, Group, LinkedRelation, Prepared, Wiring
from everfresh.local.native.code import GeneratedCode
from everfresh.local.native.codegen import each
from everfresh.local.native.codegen.adding import AddedStatement
from everfresh.local.native.codegen.chaining import chained
from everfresh.local.native.codegen.generate import Generated, Generator, Known, TooLong, generate
from everfresh.local.native.codegen.scalars import Unsupported
from everfresh.local.native.runtime.runner import CompiledCall, Function
from everfresh.local.native.templates import Template
from everfresh.local.store.codec import Codec

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
MANY = 8
"""Views of one template from which one call runs all of them."""
PLANS = 2
"""Groups that are planned for one change at most, and one more for each 32 that there are: a plan takes some
2 ms, and no batch waits for a thousand."""
_OFTEN = 16
_MOST = 2048
"""Entries that a row may look at to find those in a range."""
BACKGROUND, OFF = "background", "off"
"""How statements are compiled, if not `now`."""
K = TypeVar("K")


@dataclass
class Form:
    """One compiled form: the statements that it covers, those that it applies, its text, and, once it is
    ready, how to run it."""

    covered: frozenset[int]
    applied: frozenset[int]
    made: Generated
    chain: tuple[LinkedRelation, ...] = ()
    """The relations that are stepped with each row."""
    bad: int = 0
    """How many times the interpreter had to run them after all: after some it is left in charge."""
    code: GeneratedCode = field(init=False)
    """What is compiled of its text, which forms of views of one shape share."""
    _runner: CompiledCall | None = None
    _joins: bool | None = None

    def __post_init__(self) -> None:
        names = sorted({job.prepared.view for job in self.made.jobs})
        places = self.made.places
        self.code = GeneratedCode(self.made.text, names, ordered=bool(places.bands or places.followed))

    @property
    def function(self) -> Function | None:
        """What runs it, once that is compiled."""
        return self.code.function

    def joins(self, statements: int, under: Collection[str]) -> bool:
        """Whether it can run together with others of its text: it is ready, and all that the statements of
        its views make goes to maps at once, of which no relation (`under`) is read off."""
        if self._joins is None:
            whole = len(self.covered) == statements and not self.chain and each.is_whole(self.made)
            self._joins = whole and not any(j.prepared.store.target.name in under for j in self.made.jobs)
        return self._joins and self.runner is not None

    def light(self) -> bool:
        """Whether it is good for many rows: the maps that it applies to are small, and it does not keep up
        an ordered index for the steps of relations alone, of which one step will do for all rows."""
        if self.made.places.bands and not self.made.sought:
            return False
        stores = {id(job.prepared.store): job.prepared.store for job in self.made.jobs if job.apply}
        return sum(len(store.pool) for store in stores.values()) <= LIGHT

    @property
    def runner(self) -> CompiledCall | None:
        """How to run it, once it is compiled. Slices are made here, in the thread that changes the maps."""
        function = self.code.function
        if function is None or self.bad >= _OFTEN:
            return None
        if self._runner is None:
            self._runner = CompiledCall(self.made, function)
        return self._runner


@dataclass
class Gathered:
    """Groups of statements on one relation: those that run by template, by its text, and the others."""

    left: Sequence[Group]
    templates: dict[str, Template] = field(default_factory=dict)


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


class _Alive:
    """Who waits for code: the statements of a database, however often they are linked anew."""


class Native:
    """The compiled statements of a wiring. `how` is `now` or `background`."""

    def __init__(self, wiring: Wiring, how: str, before: Native | None = None) -> None:
        self._wiring, self._how = wiring, how
        self.planned: dict[Key, Planned] = {}
        self.small: int = SMALL if before is None else before.small
        self._work: dict[Key, int] = {}
        """Rows that came so far for a relation without a plan, and what batches cost beside them."""
        self._codes: WeakValueDictionary[str, GeneratedCode] = WeakValueDictionary()
        """By text."""
        self._each: dict[str, GeneratedCode] = {}
        """What runs all views of a template, by their text."""
        self._gathered: dict[int, Gathered] = {}
        self._alike_work: dict[Hashable, int] = {}
        self._alive: _Alive = _Alive() if before is None else before._alive
        """What is there for as long as somebody waits for code."""
        self._plans = 0
        """How many groups were planned for the change that is being worked on."""
        self._most = PLANS
        if before is not None:
            self._take_over(before)

    def _take_over(self, before: Native) -> None:
        """What was planned for views that are run as before, and what was asked for."""
        self._each = before._each
        self._work = {key: work for key, work in before._work.items() if self._wiring.kept.issuperset(key[2])}
        for key, planned in before.planned.items():
            if self._wiring.kept.issuperset(key[2]):
                self.planned[key] = planned
                for form in planned.forms:
                    self._codes.setdefault(form.made.text, form.code)

    def of(self, group: Group, codec: Codec, unit: int, rows: int, alone: bool = True) -> tuple[Form, ...]:
        """The forms that are ready in which a group of statements runs for a change of some rows. Unless it
        is `alone`, others run beside it: nothing may be applied."""
        key = unit, group.base, group.views
        found = self.planned.get(key)
        if found is None:
            work = self._work[key] = self._work.get(key, 0) + rows + BATCH
            if self._how != "now" and not self._pays(group, unit, rows, work):
                return ()
            found = self.planned[key] = self._plan(group, codec, unit)
        return chosen(found, rows, self._alive, self._how, self.small, alone)

    def _pays(self, group: Group, unit: int, rows: int, work: int) -> bool:
        """Whether so much work has come that code is worth having: for a group, or for all that look like it,
        which will share it. Not too many are planned at a time."""
        shape = _shape(group, unit)
        shared = self._alike_work[shape] = self._alike_work.get(shape, 0) + rows + BATCH
        return (work >= ENOUGH or shared >= MANY * ENOUGH) and self._plans < self._most

    def _plan(self, group: Group, codec: Codec, unit: int) -> Planned:
        self._plans += 1
        planned = plan(self._wiring, group.base, group.statements, codec, unit)
        for form in planned.forms:
            form.code = self._codes.setdefault(form.made.text, form.code)
            form.made = replace(form.made, text=form.code.text)  # one string for all
        return planned

    def ahead(self, views: Set[str]) -> None:
        """Views were made: plan what runs on the changes of tables, if there are many that look alike, and
        have the code of those compiled that are of one text."""
        wiring = self._wiring
        if self._how != BACKGROUND:
            return
        for base in dict.fromkeys(b for view in views for b in wiring.catalog.views[view].compiled.bases):
            if base not in wiring.tables:
                continue
            alike: dict[Hashable, list[Group]] = {}
            for group in wiring.together(wiring.statements(base)):
                alike.setdefault(_shape(group, -1), []).append(group)
            for some in alike.values():
                if len(some) >= ALIKE and any(not views.isdisjoint(group.views) for group in some):
                    self._plan_ahead(some, wiring.tables[base].codec)

    def _plan_ahead(self, groups: Sequence[Group], codec: Codec) -> None:
        """Plan some of those that have no plan; ask for the code of the text that many have."""
        planned: dict[str, list[Form]] = {}
        left = PLANS * EACH_TIME
        for group in groups:
            key = -1, group.base, group.views
            found = self.planned.get(key)
            if found is None and left:
                left -= 1
                found = self.planned[key] = self._plan(group, codec, -1)
            if found is not None and found.by_row is not None:
                planned.setdefault(found.by_row.code.text, []).append(found.by_row)
        for text, forms in planned.items():
            if len(forms) >= MANY:
                forms[0].code.ask(self._alive, self._how)
                if each.is_whole(forms[0].made) and not forms[0].chain:
                    self._all_of(text, forms[0]).ask(self._alive, self._how)

    def _all_of(self, text: str, form: Form) -> GeneratedCode:
        """What runs all views of a template."""
        code = self._each.get(text)
        if code is None:
            code = self._each[text] = GeneratedCode(each.each(form.made), form.code.names, entry="run_each")
        return code

    # -- views of one template ---------------------------------------------------------------------

    def alike(self, groups: Sequence[Group], unit: int, rows: int) -> tuple[list[Template], Sequence[Group]]:
        """For a change of some rows, which nothing else runs on at the same time: the views that one call
        runs together, and the groups that are left to run one by one."""
        self._plans, self._most = 0, PLANS + len(groups) // 32
        if len(groups) < MANY:
            return [], groups
        found = self._gathered.get(id(groups))
        if found is None:
            found = self._gathered[id(groups)] = Gathered(groups)
        if found.left:
            self._gather(found, unit)
        templates = [
            t for t in found.templates.values() if rows <= self.small or (self.small > 0 and t.light())
        ]
        if len(templates) == len(found.templates):
            return templates, found.left
        apart = [group for t in found.templates.values() if t not in templates for group, _ in t.members]
        return templates, [*found.left, *apart]

    def covers(self, groups: Sequence[Group], unit: int, rows: int) -> bool:
        """Whether all of them run by template for a change of some rows: that is not worth sharing out."""
        return not self.alike(groups, unit, rows)[1]

    def _gather(self, found: Gathered, unit: int) -> None:
        """Let views that are ready join those of their template."""
        ready: dict[str, list[tuple[Group, Form]]] = {}
        for group in found.left:
            planned = self.planned.get((unit, group.base, group.views))
            form = None if planned is None else planned.by_row
            if form is not None and form.joins(len(group.statements), self._wiring.under):
                ready.setdefault(form.code.text, []).append((group, form))
        for text, members in ready.items():
            known = found.templates.get(text)
            if known is None and len(members) < MANY:
                continue
            code = self._all_of(text, members[0][1])
            if not code.asked:
                code.ask(self._alive, self._how)
            if code.function is not None:
                before = () if known is None else known.members
                found.templates[text] = Template([*before, *members], code.function)
                joined = {id(group) for group, _ in members}
                found.left = [group for group in found.left if id(group) not in joined]

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
                    planned = self.planned[number, group.base, group.views] = self._plan(group, codec, number)
                    for form in planned.forms:
                        if form.code.function is None:
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


def pays(work: MutableMapping[K, int], key: K, rows: int, how: str) -> bool:
    """Whether enough has come for some statements, with these rows, that they are to be compiled. `work` is
    what came for each: its rows, and what batches cost beside them."""
    if how != BACKGROUND:
        return how != OFF
    done = work.get(key, 0)
    if done < ENOUGH:
        done = work[key] = done + rows + BATCH
    return done >= ENOUGH


def chosen(
    planned: Planned, rows: int, owner: object, how: str, small: int = SMALL, alone: bool = True
) -> tuple[Form, ...]:
    """How planned statements run for a change of some rows: row by row, in their whole form, or, if there is
    nothing here, interpreted. What is wanted is compiled; until it is there, what is there is taken."""
    by_row = planned.by_row if alone else None
    if by_row is not None and by_row.made.ranged and (rows > small or _many(by_row.made)):
        by_row = None
    first, second = planned.whole, () if by_row is None else (by_row,)
    if not first or (by_row is not None and (rows <= small or (small > 0 and by_row.light()))):
        first, second = second, first
    for form in first:
        if not form.code.asked:
            ask(form, owner, how)
    return _ready(first) or _ready(second)


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
    form.code.compile_now()


def ask(form: Form, owner: object, how: str) -> None:
    """Have a form compiled: see `GeneratedCode.ask`."""
    form.code.ask(owner, how)


def _shape(group: Group, unit: int) -> Hashable:
    """What groups that may share their code have in common."""
    stores = ((s.store.codec.words, s.store.layout, len(s.terms)) for s in group.statements)
    return unit, group.base, *stores


# -- planning --------------------------------------------------------------------------------------


def plan(wiring: Wiring, base: str, statements: Sequence[Prepared], codec: Codec, unit: int) -> Planned:
    """The native forms of the statements on a relation."""
    reasons: dict[int, str] = {}
    known: Known = {}
    alone: dict[bool, list[int]] = {True: [], False: []}
    for i, statement in enumerate(statements):
        for apply, able in alone.items():
            try:
                generate(wiring, [AddedStatement(statement, apply)], codec, unit, known=known)
                able.append(i)
            except Unsupported as error:
                reasons[i] = str(error)
    whole = _whole(wiring, statements, alone[False], codec, unit, known)
    by_row, unstepped = _by_row(wiring, base, statements, alone[True], codec, unit, known)
    planned = Planned(whole, by_row, {}, unstepped)
    left = set(reasons).difference(*(form.covered for form in planned.forms))
    return replace(planned, reasons={statements[i].store.target.name: reasons[i] for i in sorted(left)})


def _whole(
    wiring: Wiring,
    statements: Sequence[Prepared],
    able: Sequence[int],
    codec: Codec,
    unit: int,
    known: Known,
) -> tuple[Form, ...]:
    """The statements in one function, or, since none sees what another makes, in as few as it takes."""
    if not able:
        return ()
    try:
        made, _ = generate(
            wiring, [AddedStatement(statements[i], False) for i in able], codec, unit, known=known
        )
    except TooLong:
        half = len(able) // 2
        parts = (able[:half], able[half:])
        return tuple(form for some in parts for form in _whole(wiring, statements, some, codec, unit, known))
    return (Form(frozenset(able), frozenset(), made),)


def _by_row(
    wiring: Wiring,
    base: str,
    statements: Sequence[Prepared],
    able: Sequence[int],
    codec: Codec,
    unit: int,
    known: Known,
) -> tuple[Form | None, Mapping[str, str]]:
    """Row by row, with the relations that a table's change reaches stepped where that can be."""
    if unit < 0 and base in wiring.tables:
        found = chained(wiring, base, statements, able, codec, known)
        if found is None or not (found.applied or found.chain):
            return None, {}
        return Form(found.covered, found.applied, found.made, found.chain), found.reasons
    names = [s.store.target.name for s in statements]
    missed = {name for i, name in enumerate(names) if i not in able}
    applied = frozenset(i for i in able if names[i] not in wiring.under and names[i] not in missed)
    if not applied:
        return None, {}
    jobs = [AddedStatement(statements[i], i in applied) for i in able]
    try:
        made, generator = generate(wiring, jobs, codec, unit, known=known)
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
