"""Which relations are stepped inside the row-by-row form of a table's statements.

All relations that a table's change reaches are tried; those that cannot be stepped are left out, and with
them what depends on their being stepped, until what is left is in order:

- every statement on a stepped relation has a native form, and so has the relation's row;
- its maps are changed by this call alone, and no relation outside is read off them;
- what it changes has no statement on the table that is left to the interpreter, which sees no row by itself;
- no statement of the call reads the table, or a map that the call, or a statement left out, changes behind
  its back;
- a relation left out changes after all that are stepped and that it is tied to: there it is read, and reads
  them, as a relation that follows.

What the call makes for maps of relations left out is emitted; `steps` goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everfresh.local.batch.linked_programs import LinkedRelation, Prepared, Wiring
from everfresh.local.native.codegen.adding import AddedStatement
from everfresh.local.native.codegen.generate import Generated, Generator, Known, generate
from everfresh.local.native.codegen.scalars import Unsupported
from everfresh.local.relations.intervals import IntervalReader
from everfresh.local.relations.view_reader import ViewReader
from everfresh.local.store.codec import Codec


@dataclass(frozen=True)
class Chained:
    """Statements that run row by row: those on the table that are covered, those that are applied, the
    relations that are stepped, the text; and why relations are not."""

    covered: frozenset[int]
    applied: frozenset[int]
    chain: tuple[LinkedRelation, ...]
    made: Generated
    reasons: Mapping[str, str]


def chained(
    wiring: Wiring,
    base: str,
    statements: Sequence[Prepared],
    able: Sequence[int],
    codec: Codec,
    known: Known | None = None,
) -> Chained | None:
    """The form of a table's statements, of which some are `able` to run row by row, with as many relations
    stepped as can be; None if not even one statement is applied, or if they are not in step."""
    reached = _reached(wiring, statements)
    on = {unit.number: wiring.statements(unit.name, None if unit.is_view else unit.view) for unit in reached}
    reasons: dict[str, str] = {}
    chain = [unit for unit in reached if _steppable(unit, reasons)]
    while True:
        plan = _Plan(wiring, statements, able, chain, on)
        wrong = plan.untied(reached, reasons)
        if not wrong:
            wrong = plan.unable(base, codec, reasons, known)
        if not wrong:
            break
        chain = [unit for unit in chain if unit not in wrong]
    if plan.made is None:
        return None
    return Chained(frozenset(able), plan.applied, tuple(chain), plan.made, reasons)


def _reached(wiring: Wiring, statements: Sequence[Prepared]) -> list[LinkedRelation]:
    """The relations that a change reaches, in order."""
    targets = {s.store.target.name for s in statements}
    found = []
    for unit in wiring.units:
        if targets.intersection(unit.maps):
            found.append(unit)
            some = wiring.statements(unit.name, None if unit.is_view else unit.view)
            targets |= {s.store.target.name for s in some}
    return found


def _steppable(unit: LinkedRelation, reasons: dict[str, str]) -> bool:
    if unit.is_view:
        reasons[unit.name] = "a view that others read"
    elif not isinstance(unit.reader, ViewReader | IntervalReader):
        reasons[unit.name] = "recomputed"
    else:
        return True
    return False


class _Plan:
    """Some relations that might be stepped."""

    def __init__(
        self,
        wiring: Wiring,
        statements: Sequence[Prepared],
        able: Sequence[int],
        chain: Sequence[LinkedRelation],
        on: Mapping[int, list[Prepared]],
    ) -> None:
        self._wiring, self._chain, self._on = wiring, chain, on
        self._stepped = {name for unit in chain for name in unit.maps}
        own = [s for i, s in enumerate(statements) if i in able]
        missed = {s.store.target.name for i, s in enumerate(statements) if i not in able}
        self._missed = missed
        self.targets = {s.store.target.name for s in statements}
        self.applied = frozenset(i for i in able if self._applies(statements[i], missed))
        self.jobs = [AddedStatement(s, self._applies(s, missed)) for s in own]
        for stage, unit in enumerate(chain, 1):
            self.targets |= {s.store.target.name for s in on[unit.number]}
            self.jobs += [AddedStatement(s, self._applies(s, missed), stage) for s in on[unit.number]]
        self.made: Generated | None = None

    def _applies(self, statement: Prepared, missed: set[str]) -> bool:
        name = statement.store.target.name
        return name not in missed and (name not in self._wiring.under or name in self._stepped)

    def untied(self, reached: Sequence[LinkedRelation], reasons: dict[str, str]) -> list[LinkedRelation]:
        """Relations that are tied to one that is left out in a way that needs both."""
        left = [unit for unit in reached if unit not in self._chain]
        wrong = []
        for unit in self._chain:
            maps = set(unit.maps)
            others = [u for u in self._chain if u is not unit and maps.intersection(u.maps)]
            made = {s.store.target.name for s in self._on[unit.number]}
            if maps & self._missed or others or any(maps.intersection(u.maps) for u in left):
                reasons[unit.name] = "its maps change elsewhere, or are read by others"
                wrong.append(unit)
            elif made & self._missed:
                reasons[unit.name] = "what it changes is changed by a statement without a native form"
                wrong.append(unit)
            elif any(self._needs(unit, other) for other in left):
                reasons[unit.name] = "tied to a relation that is not stepped"
                wrong.append(unit)
        return wrong

    def _needs(self, unit: LinkedRelation, other: LinkedRelation) -> bool:
        changed = {s.store.target.name for s in self._on[other.number]}
        if changed.intersection(unit.maps):
            return True
        if other.number > unit.number:
            return False
        return _reads(self._on[unit.number], other.name) or _reads(self._on[other.number], unit.name)

    def unable(
        self, base: str, codec: Codec, reasons: dict[str, str], known: Known | None = None
    ) -> list[LinkedRelation]:
        """Generate it; relations that have no native form, or are out of step, one at a time."""
        for stage, unit in reversed(list(enumerate(self._chain, 1))):
            jobs = [AddedStatement(j.prepared, j.apply, j.stage) for j in self.jobs if j.stage in (0, stage)]
            alone = [AddedStatement(j.prepared, j.apply, min(j.stage, 1)) for j in jobs]
            try:
                generate(self._wiring, alone, codec, -1, [unit])
            except Unsupported as error:
                reasons[unit.name] = str(error)
                return [unit]
        if not any(job.apply for job in self.jobs):
            return list(self._chain)
        try:
            made, generator = generate(self._wiring, self.jobs, codec, -1, self._chain, known)
        except Unsupported as error:
            return self._last(str(error), reasons)
        if not self._in_step(generator, base):
            return self._last("out of step", reasons)
        self.made = made
        return []

    def _last(self, why: str, reasons: dict[str, str]) -> list[LinkedRelation]:
        for unit in self._chain[-1:]:
            reasons[unit.name] = why
        return list(self._chain[-1:])

    def _in_step(self, made: Generator, base: str) -> bool:
        """Whether all that is read follows the table row by row."""
        applied = {job.prepared.store.target.name for job in self.jobs if job.apply}
        return (
            base not in made.tables
            and base not in made.relations
            and not made.reads & (self.targets - applied)
        )


def _reads(statements: Sequence[Prepared], name: str) -> bool:
    """Whether statements read a relation."""
    from everfresh.calculus import Rel

    return any(
        isinstance(node, Rel) and not node.delta and node.name == name
        for statement in statements
        for term in statement.terms
        for step in term.steps
        for node in step.factor.walk()
    )
