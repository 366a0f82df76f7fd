"""Programs as text and back, for any names; the IR's look-ups.

The expressions here are plain strings: a program never looks inside one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Kind
from everfresh.expr import Const, Made, Var, build
from everfresh.program import (
    MapDef,
    Partitions,
    Program,
    Side,
    Statement,
    Trigger,
    View,
    component,
    component_index,
    parse_program,
    side_component,
)
from everfresh.types import BIGINT, DECIMAL, DOUBLE, HUGEINT, VARCHAR, Column

NAMES = st.sampled_from(
    [
        "v",
        "o id",
        'quo"te',
        "M[x]",
        "ON CHANGE",
        "MAP",
        "größe",
        "a\nb",
        "it's",
        "",
        "--",
        " : ",
        "1st",
        "x.y",
        "#0",
        "#1.x",
        "v#1",
        Made("v#1"),
        Made("o id#1"),
        Made("Δ$0"),
    ]
)
KEYS = st.lists(
    st.builds(
        Var, NAMES, st.sampled_from([BIGINT, VARCHAR, DOUBLE, DECIMAL(15, 2), DECIMAL(38, 0)]), st.booleans()
    ),
    max_size=3,
    unique_by=lambda v: v.name,
)
EXPRESSIONS = st.sampled_from(
    ["0", "R(x, y) * [x > 1]", "[s = 'two\nlines']", "[s = 'it''s']", '"a\nMAP b"(x)']
)


PLANS = st.sampled_from(["Limit 3 OFFSET 0\n  Scan m (x)", "Sort 'two\n  lines'\n  Scan m (x)\n    deep"])
COMPONENTS = [
    Var(component(0), BIGINT, False),
    Var(component(1), DECIMAL(38, 2), False),
    Var(component(1, unscaled=True), HUGEINT, False),
    Var(side_component(1, "x"), VARCHAR),
    Var(side_component(2, 0), BIGINT, False),
]


@st.composite
def relations(draw: Any, maps: list[MapDef[str]], name: str) -> View | Partitions[str]:
    m = draw(st.sampled_from(maps))
    if draw(st.booleans()):
        columns = draw(KEYS.map(lambda keys: tuple(Column(v.name, v.type, v.nullable) for v in keys)))
        return Partitions(name, m.name, columns, draw(PLANS), draw(st.integers(0, len(m.keys))))
    other = draw(st.sampled_from(maps)).name
    first = Side(other, "first", order=((True, False), (False, True), (True, True), (False, False)))
    places = Side(other, "disc", fraction=0.3), Side(other, "high", fraction=1e-05)
    sides = draw(
        st.sampled_from([(), (Side(other, "min"),), (Side(other, "max"), Side(other)), (first,), places])
    )
    known = [*m.keys, *COMPONENTS[: 3 + len(sides)]]
    numbers = [v for v in known if v.type != VARCHAR]
    scalar = st.sampled_from([*known, Const("it's\n", VARCHAR), Const(7, BIGINT)])
    outputs = draw(st.lists(scalar, max_size=3))
    columns = [
        Column(draw(st.one_of(NAMES, st.just(e.name) if isinstance(e, Var) else NAMES)), e.type, e.nullable)
        for e in outputs
    ]
    condition = st.sampled_from(numbers).map(lambda v: build.call(">", v, Const(1, BIGINT)))
    return View(
        name, m.name, tuple(columns), tuple(outputs), draw(st.booleans()),
        draw(st.one_of(st.none(), condition)), draw(st.booleans()), sides,
        draw(st.sampled_from([None, COMPONENTS[0]])),
    )  # fmt: skip


@st.composite
def programs(draw: Any) -> Program[str]:
    maps = draw(
        st.lists(
            st.builds(
                MapDef,
                NAMES,
                KEYS.map(tuple),
                st.lists(st.sampled_from(Kind), max_size=3).map(tuple),
                EXPRESSIONS,
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda m: m.name,
        )
    )
    statement = st.builds(
        Statement, st.sampled_from([m.name for m in maps]), st.sampled_from(["+=", ":="]), EXPRESSIONS,
        st.sampled_from(["incremental", "recompute"]),
        st.sampled_from(["", "why: because", 'of "it\'s"', "it's\n'"]),
    )  # fmt: skip
    trigger = st.builds(Trigger, NAMES, st.lists(statement, max_size=3).map(tuple))
    triggers = draw(st.lists(trigger, max_size=3, unique_by=lambda t: t.base))
    derived = [draw(relations(maps, Made(f"r${i}"))) for i in range(draw(st.integers(0, 3)))]
    return Program(tuple(maps), tuple(triggers), tuple(derived))


@settings(max_examples=max(60, settings().max_examples))
@given(programs())
def test_round_trip(program: Program[str]) -> None:
    text = program.to_text()
    again = parse_program(text, lambda text, _maps, _relations: text)
    assert again == program
    assert again.to_text() == text


def test_an_expression_is_read_with_all_maps_and_relations() -> None:
    x = Var("x", BIGINT, False)
    program = Program(
        (MapDef("a", (x,), (), "A"), MapDef("b", (), (Kind.WIDE,), "B")),
        (Trigger("R", (Statement("a", "+=", "S"),)),),
        (View("r", "b", (Column("c", BIGINT, False),), (x,)),),
    )
    seen: list[tuple[str, Any, Any]] = []
    text = program.to_text().replace("c = x", "c = 1")  # x is a key of a, not of b
    parse_program(text, lambda text, maps, relations: seen.append((text, maps, relations)))
    known = {"a": (x,), "b": ()}, {"r": (Column("c", BIGINT, False),)}
    assert seen == [("A", *known), ("B", *known), ("S", *known)]


def test_golden() -> None:
    x, y = Var("x", BIGINT, False), Var("y y", DECIMAL(15, 2))
    program = Program(
        (MapDef("v", (x, y), (Kind.COUNT, Kind.FLOAT), "D"),),
        (
            Trigger(
                "R",
                (Statement("v", "+=", "E", "incremental", "because"), Statement("v", ":=", "F", "recompute")),
            ),
            Trigger("S", ()),
        ),
    )
    assert program.to_text(str.lower) == (
        'MAP v[x BIGINT, "y y" DECIMAL(15,2)?] (COUNT, FLOAT) =\n'
        "  d\n"
        "ON CHANGE R\n"
        '  v[x, "y y"] +=   -- incremental: because\n'
        "    e\n"
        '  v[x, "y y"] :=   -- recompute\n'
        "    f\n"
        "ON CHANGE S"
    )


def test_golden_relations() -> None:
    g, n = Var("g", VARCHAR), Var("n", BIGINT, False)
    extreme = Var(side_component(1, "x"), BIGINT)
    count, total = Var(component(0), BIGINT, False), Var(component(1), HUGEINT, False)
    large = build.call(">", total, Const(100, HUGEINT))
    column, value = Column("g", VARCHAR), Column("v", HUGEINT, False)
    program = Program(
        (MapDef("m", (g,), (Kind.WIDE,), "D"), MapDef("s", (g, n), (), "E")),
        (),
        (
            View("lift", "m", (column,), (g,), having=large),
            View("every", "m", (column, value), (g, total), always=True),
            View("times", "m", (Column("k", VARCHAR),), (g,), weight=count),
            View(
                "sides",
                "m",
                (Column("x", BIGINT),),
                (extreme,),
                True,
                sides=(Side("s", "min"),),
            ),
            Partitions("top", "s", (column,), "Limit 1\n  Scan", 1),
        ),
    )
    assert (
        program.to_text()
        == """\
MAP m[g VARCHAR?] (WIDE) =
  D
RELATION lift(g VARCHAR?)   -- incremental: at the keys that are touched
  FROM m(#1 HUGEINT)
  WHERE #1 > 100::HUGEINT
RELATION every(g VARCHAR?, v HUGEINT)   -- incremental: looked up only
  FROM m(#1 HUGEINT)
  v = #1
  EVERY KEY
RELATION times(k VARCHAR?)   -- incremental: at the keys that are touched
  FROM m(#0 BIGINT)
  k = g
  TIMES #0
MAP s[g VARCHAR?, n BIGINT] () =
  E
RELATION sides(x BIGINT?)   -- incremental: at the keys that are touched
  FROM m(), MIN s(#1.x BIGINT?)
  x = #1.x
  BAG
RELATION top(g VARCHAR?)   -- partition recompute: where g is touched
  PARTITIONS OF s BY [g]
    Limit 1
      Scan"""
    )


def test_a_relation_needs_its_map() -> None:
    program: Program[str] = Program((), (), (View("r", "m", (), ()),))
    with pytest.raises(ValueError, match="relation r is read off a map that is not in the program"):
        program.to_text()


@pytest.mark.parametrize("line", ["MAPS x", "  v[] +=   -- lost", "anything", "ON CHANGE t\n  v[] +="])
def test_what_is_no_program_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of a program"):
        parse_program(line, lambda text, _maps, _relations: text)


def test_look_ups() -> None:
    program = Program((MapDef("a", (), (), 1), MapDef("b", (), (), 2)), (Trigger("R", ()),))
    assert program.map("b").definition == 2
    assert program.trigger("R") == Trigger("R", ())
    assert program.trigger("S") is None
    with pytest.raises(StopIteration):
        program.map("c")


def test_components_have_names() -> None:
    assert [component(0), component(3), component(12, unscaled=True)] == [
        Made("#0"),
        Made("#3"),
        Made("#12u"),
    ]
    for i in (0, 7, 12):
        assert component_index(component(i)) == component_index(component(i, unscaled=True)) == i
