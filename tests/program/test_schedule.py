"""The schedule of a batch: what it says of programs, as text and back, and that no step comes too late.

Catches: a unit or a statement that is left out, or comes in another order; a round that misses a relation
which its change reaches through others; names that text does not bring back; engines that read two schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from everfresh.compiler import Catalog
from everfresh.distributed.plan.programs import Programs
from everfresh.errors import EverfreshError
from everfresh.expr import Made, Var
from everfresh.local.state import LocalState
from everfresh.program import (
    MapDef,
    Program,
    Schedule,
    Side,
    Statement,
    Trigger,
    View,
    parse_schedule,
    scheduled,
)
from everfresh.sql import parse_and_bind
from everfresh.types import BIGINT, Column
from everfresh.workloads import WORKLOADS

DDL = (
    "CREATE TABLE l (ok BIGINT, qty BIGINT)",
    "CREATE TABLE o (ck BIGINT, ok BIGINT)",
    "CREATE MATERIALIZED VIEW large AS SELECT o.ck, SUM(l.qty) AS q FROM o JOIN l ON o.ok = l.ok "
    "WHERE o.ok IN (SELECT ok FROM l GROUP BY ok HAVING SUM(qty) > 100) GROUP BY o.ck",
    "CREATE MATERIALIZED VIEW ranked AS SELECT ck, RANK() OVER (ORDER BY q) AS r FROM large",
    "CREATE MATERIALIZED VIEW anew WITH (strategy = 're-evaluate') AS SELECT MAX(q) AS m FROM large",
    "CREATE MATERIALIZED VIEW last AS SELECT r.ck FROM ranked AS r JOIN anew ON r.r < anew.m",
)
GOLDEN = """\
VIEW large
  UNIT large$0 FROM large#0
  UNIT large$1 FROM large#1
  UNIT large FROM large
  ON l: large#0, large
  ON o: large, large#3
  ON large$0: large#1
  ON large$1: large
VIEW ranked
  UNIT ranked$0 FROM ranked#0
  UNIT ranked FROM ranked
  ON large: ranked#0
  ON ranked$0: ranked
VIEW last
  ON anew: last, last#2
  ON ranked: last, last#1"""


def catalog(*texts: str) -> Catalog:
    made = Catalog(joins=True)
    for text in texts:
        for statement in parse_and_bind(text, made):
            made, _ = made.execute(statement)
    return made


@cache
def workload(name: str) -> Catalog:
    source = WORKLOADS[name]
    return catalog(*source.tables.values(), *(q.ddl for q in source.queries))


def test_the_schedule_in_words() -> None:
    schedule = Programs(catalog(*DDL)).schedule
    assert schedule.to_text() == GOLDEN
    assert [unit.name for unit in schedule.units if unit.is_view] == ["large", "ranked"]


def test_a_round_has_what_its_change_reaches() -> None:
    schedule = Programs(catalog(*DDL)).schedule
    units = {base: [unit.name for unit in schedule.round(base).steps] for base in ("l", "o", "large", "anew")}
    ranked = [Made("ranked$0"), "ranked"]
    assert units == {
        "l": [Made("large$0"), Made("large$1"), "large", *ranked],
        "o": ["large", *ranked],
        "large": ranked,
        "anew": [],
    }
    assert [run.view for run in schedule.round("anew").runs] == ["last", "last"]
    assert {run.view for run in schedule.on("large")} == {"ranked"}  # the other is computed anew
    assert {run.view for run in schedule.on(Made("large$0"), "large")} == {"large"}
    assert schedule.round("nobody").runs == schedule.round("nobody").steps == ()


def test_text_of_other_programs_is_refused() -> None:
    made = catalog(*DDL)
    text = Programs(made).schedule.to_text()
    with pytest.raises(EverfreshError, match="the statements of 'large' on 'o' are others"):
        parse_schedule(text.replace("ON o: large, large#3", "ON o: large"), made.compiled)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["condensed", "finance"])
def test_nothing_is_pending_for_a_step_that_is_over(name: str) -> None:
    made = workload(name)
    schedule = Programs(made).schedule
    assert parse_schedule(schedule.to_text(), made.compiled) == schedule  # type: ignore[arg-type]
    for unit in schedule.units:
        over = {name for u in schedule.units if u.number <= unit.number for name in u.maps}
        for run in schedule.on(unit.name, unit.scope):
            assert run.statement.target not in over


def test_both_engines_read_the_same() -> None:
    state = LocalState()
    for text in DDL:
        for statement in parse_and_bind(text, state.catalog):
            made, effect = state.catalog.execute(statement)
            state.execute(made, effect, 1)
    assert state.wiring.schedule == Programs(state.catalog).schedule
    for unit, linked in zip(state.wiring.schedule.units, state.wiring.units, strict=True):
        assert (unit.view, unit.name, unit.number) == (linked.view, linked.name, linked.number)
        statements = state.wiring.statements(unit.name, unit.scope)
        runs = state.wiring.schedule.on(unit.name, unit.scope)
        assert [(s.view, s.base, s.index) for s in statements] == [(r.view, r.base, r.index) for r in runs]
        assert [s.store.target.name for s in statements] == [r.statement.target for r in runs]


# -- any programs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Some:
    """A view as the schedule sees it."""

    program: Program[str]
    view: View
    bases: tuple[str, ...]
    reevaluated: bool = False


KEY = Var("k", BIGINT, False)
COLUMN = (Column("k", BIGINT, False),)
NAMES = ["v", "o id", 'quo"te', "VIEW", "ON", "a\nb", "x.y", "v$0", "v#1", "", "--", "é, b: c"]


@st.composite
def views(draw: st.DrawFn) -> dict[str, Some]:
    """Programs of views, some over others; each map is read or shown, each statement's target comes later."""
    found: dict[str, Some] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        bases = tuple(
            draw(st.lists(st.sampled_from(["R", "S", *found]), min_size=1, max_size=3, unique=True))
        )
        count = draw(st.integers(0, 3))
        maps = [Made(f"{name}#{i}") for i in range(count)]
        inner = [View(Made(f"{name}${i}"), maps[i], COLUMN, (KEY,)) for i in range(count)]
        targets = [*maps, name]

        def trigger(base: str, after: int, targets: list[str] = targets) -> Trigger[str]:
            some = draw(st.lists(st.sampled_from(targets[after:]), max_size=3))
            return Trigger(base, tuple(Statement(target, "+=", f"{base} to {target}") for target in some))

        triggers = [trigger(base, 0) for base in bases]
        triggers += [trigger(relation.name, i + 1) for i, relation in enumerate(inner)]
        sides = (Side(draw(st.sampled_from(maps))),) if maps and draw(st.booleans()) else ()
        program = Program(
            tuple(MapDef(target, (KEY,), (), "") for target in targets), tuple(triggers), tuple(inner)
        )
        view = View(name, name, COLUMN, (KEY,), sides=sides)
        found[name] = Some(program, view, bases, draw(st.integers(0, 5)) == 0)
    return found


def idle(*names: str) -> dict[str, Some]:
    """Views with a derived relation each, and no statement."""
    made = {}
    for name in names:
        inner = View(Made(f"{name}$0"), Made(f"{name}#0"), COLUMN, (KEY,))
        program = Program((MapDef(Made(f"{name}#0"), (KEY,), (), ""),), (Trigger("R", ()),), (inner,))
        made[name] = Some(program, View(name, Made(f"{name}#0"), COLUMN, (KEY,)), ("R",))
    return made


@given(views())
@example(idle("v", "w"))
@settings(deadline=None)
def test_text_brings_any_schedule_back(given_: dict[str, Some]) -> None:
    schedule = scheduled(given_)
    assert parse_schedule(schedule.to_text(), given_) == schedule


@given(views())
@settings(deadline=None)
def test_a_round_equals_what_is_reached_step_by_step(given_: dict[str, Some]) -> None:
    """The slow twin: all statements again and again, until no relation more has changed."""
    schedule: Schedule[str] = scheduled(given_)
    for base in ("R", "S", *given_):
        changed = {(None, base)}
        while True:
            maps = {
                run.statement.target
                for run in schedule.runs
                if {(run.view, run.base), (None, run.base)} & changed
            }
            more = changed | {(u.scope, u.name) for u in schedule.units if {*u.maps} & maps}
            if more == changed:
                break
            changed = more
        reached = {(u.scope, u.name) for u in schedule.round(base).steps}
        assert reached | {(None, base)} == changed
        numbers = [unit.number for unit in schedule.round(base).steps]
        assert numbers == sorted(numbers)
