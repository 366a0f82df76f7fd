"""The schedule of a batch: which statements run, and which relations are stepped, in which order.

The programs of a catalog's views (`everfresh.program.ir`) are one program. A *unit* is a relation whose
change statements read: a derived relation of a program, or a view that another view reads or that is read off
several maps. Units are stepped in one order for all batches: views as they were created, the derived
relations of a program before its view.

A batch changes its tables one after the other. What follows from one change, of a table or of a view that was
computed anew, is a *round*:

1. all statements on it are evaluated, on the state before the round;
2. the table changes, and what was made is added to its maps, but to those *under* a unit it stays pending;
3. each unit that the round reaches takes its step, in order, unless nothing has come to its maps: its rows at
   the touched keys are taken, what is pending is added, they are taken again. The difference is its change;
   the statements on that are evaluated, and what they make is added, or pending, as in 2.

So a statement on the change of a unit reads the units before that one as they are after the round, and itself
and those behind as they were before it: a batch of many changes needs no products of changes.

    VIEW q
      UNIT q$0 FROM q#0
      ON lineitem: q#0, q
      ON q$0: q, q#2

Nothing here depends on data, and nothing has a number that two places would have to agree on: a unit is known
by the view of its program and its name, a statement by its view, the relation whose change it is on, and its
index in that trigger. Expressions are not looked at.

Invariant: nothing becomes pending for a unit whose step is over, whatever has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from everfresh.expr.tokens import TokenStream, lines_of, quote_name
from everfresh.program.ir import Intervals, Partitions, Program, Statement, View

E = TypeVar("E")
Relation = View | Partitions[E] | Intervals


class Programmed(Protocol[E]):
    """A view as the schedule sees it: its program, the tables and views that it reads, how it is read."""

    @property
    def program(self) -> Program[E]:
        """Maps, relations and triggers."""

    @property
    def view(self) -> View:
        """How its rows are read off its maps."""

    @property
    def bases(self) -> tuple[str, ...]:
        """The tables and views that it reads."""

    @property
    def reevaluated(self) -> bool:
        """Whether it is computed anew after each batch: then its program has no part in a round."""


@dataclass(frozen=True, slots=True)
class Unit(Generic[E]):
    """A relation that is stepped: of a view's program, or (`is_view`) the view itself."""

    view: str
    name: str
    number: int
    """Where it comes in the order of steps."""
    maps: tuple[str, ...]
    is_view: bool
    relation: Relation[E]

    @property
    def scope(self) -> str | None:
        """The program whose statements are on its change; None for a view, on which all may be."""
        return None if self.is_view else self.view


@dataclass(frozen=True, slots=True)
class Run(Generic[E]):
    """A statement of a view's program, by the relation whose change it is on."""

    view: str
    base: str
    index: int
    statement: Statement[E]


@dataclass(frozen=True, slots=True)
class Round(Generic[E]):
    """What may follow from the change of a table, or of a view that was computed anew."""

    base: str
    runs: tuple[Run[E], ...]
    """The statements on it."""
    steps: tuple[Unit[E], ...]
    """The units that its change may reach, in order."""


@dataclass(frozen=True)
class Schedule(Generic[E]):
    """The units of a catalog's programs in the order of their steps, and their statements, view by view."""

    units: tuple[Unit[E], ...]
    runs: tuple[Run[E], ...]

    @cached_property
    def under(self) -> frozenset[str]:
        """The maps that units are read off."""
        return frozenset(name for unit in self.units for name in unit.maps)

    @cached_property
    def _of(self) -> dict[str, tuple[Unit[E], ...]]:
        found: dict[str, list[Unit[E]]] = {}
        for unit in self.units:
            found.setdefault(unit.view, []).append(unit)
        return {view: tuple(units) for view, units in found.items()}

    @cached_property
    def _units(self) -> dict[tuple[str | None, str], Unit[E]]:
        return {(unit.scope, unit.name): unit for unit in self.units}

    @cached_property
    def _on(self) -> dict[tuple[str | None, str], tuple[Run[E], ...]]:
        found: dict[tuple[str | None, str], list[Run[E]]] = {}
        for run in self.runs:
            own = run.view if (run.view, run.base) in self._units else None
            found.setdefault((own, run.base), []).append(run)
        return {key: tuple(runs) for key, runs in found.items()}

    @cached_property
    def _rounds(self) -> dict[str, Round[E]]:
        return {}

    def unit(self, view: str, name: str) -> Unit[E] | None:
        """The unit that a name stands for in a view's program; None for a table or a re-evaluated view."""
        return self._units.get((view, name)) or self._units.get((None, name))

    def of(self, view: str) -> tuple[Unit[E], ...]:
        """The units of a view: its derived relations, and itself if it is one."""
        return self._of.get(view, ())

    def on(self, base: str, view: str | None = None) -> tuple[Run[E], ...]:
        """The statements on the change of a table or view; or, given `view`, of a derived relation of it."""
        return self._on.get((view, base), ())

    def round(self, base: str) -> Round[E]:
        """What may follow from the change of a table or of a view that was computed anew."""
        found = self._rounds.get(base)
        if found is None:
            found = self._rounds[base] = Round(base, self.on(base), tuple(self._reached(base)))
        return found

    def _reached(self, base: str) -> Iterator[Unit[E]]:
        targets = {run.statement.target for run in self.on(base)}
        for unit in self.units:
            if not targets.isdisjoint(unit.maps):
                yield unit
                targets |= {run.statement.target for run in self.on(unit.name, unit.scope)}

    def to_text(self) -> str:
        """The schedule in the notation above; `parse_schedule` reads it back."""
        return "\n".join(_lines(self))


def scheduled(views: Mapping[str, Programmed[E]]) -> Schedule[E]:
    """The schedule of the programs of these views, each of which comes after the views that it reads."""
    read = {base for view in views.values() for base in view.bases}
    units: list[Unit[E]] = []
    runs: list[Run[E]] = []
    for name, view in views.items():
        if view.reevaluated:
            continue
        for relation in view.program.relations:
            units.append(Unit(name, relation.name, len(units), relation.maps, False, relation))
        if name in read or view.view.sides:
            units.append(Unit(name, name, len(units), view.view.maps, True, view.view))
        for trigger in view.program.triggers:
            runs += [Run(name, trigger.base, i, s) for i, s in enumerate(trigger.statements)]
    return Schedule(tuple(units), tuple(runs))


# -- text --------------------------------------------------------------------------------------------


def _lines(schedule: Schedule[E]) -> Iterator[str]:
    for view in _views(schedule):
        yield f"VIEW {quote_name(view)}"
        for unit in schedule.of(view):
            yield f"  UNIT {quote_name(unit.name)} FROM {_names(unit.maps)}"
        own = [run for run in schedule.runs if run.view == view]
        for base in dict.fromkeys(run.base for run in own):
            targets = [run.statement.target for run in own if run.base == base]
            yield f"  ON {quote_name(base)}: {_names(targets)}"


def _views(schedule: Schedule[E]) -> Iterator[str]:
    """The views that have units or statements, in the order in which both have them."""
    left = dict.fromkeys(run.view for run in schedule.runs)
    for view in dict.fromkeys(unit.view for unit in schedule.units):
        while view in left:
            first = next(iter(left))
            del left[first]
            if first != view:
                yield first
        yield view
    yield from left


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


def parse_schedule(text: str, views: Mapping[str, Programmed[E]]) -> Schedule[E]:
    """The schedule written in `text`, of the programs of these views."""
    units: list[Unit[E]] = []
    runs: list[Run[E]] = []
    view = ""
    for line in lines_of(text):
        stream = TokenStream(line)
        word, name = stream.next().text, stream.name()
        if word == "VIEW":
            view = name
            continue
        stream.expect("FROM" if word == "UNIT" else ":")
        names = [stream.name()]
        while stream.accept(","):
            names.append(stream.name())
        stream.end()
        program = views[view].program
        if word == "UNIT":
            inner = next((r for r in program.relations if r.name == name), None)
            relation = views[view].view if inner is None else inner
            units.append(Unit(view, name, len(units), tuple(names), inner is None, relation))
        else:
            trigger = program.trigger(name)
            statements = trigger.statements if trigger is not None else ()
            if [s.target for s in statements] != names:
                raise stream.error(f"the statements of '{view}' on '{name}' are others")
            runs += [Run(view, name, i, s) for i, s in enumerate(statements)]
    return Schedule(tuple(units), tuple(runs))
