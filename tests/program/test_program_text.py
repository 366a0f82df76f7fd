"""Programs as text and back, for any names; the IR's look-ups.

The expressions here are plain strings: a program never looks inside one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.algebra import Kind
from everfresh.expr import Var
from everfresh.program import MapDef, Program, Statement, Trigger, component, component_index, parse_program
from everfresh.types import BIGINT, DECIMAL, DOUBLE, VARCHAR

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
        st.sampled_from(["incremental", "recompute"]), st.sampled_from(["", "why: because", 'of "it\'s"']),
    )  # fmt: skip
    trigger = st.builds(Trigger, NAMES, st.lists(statement, max_size=3).map(tuple))
    return Program(tuple(maps), tuple(draw(st.lists(trigger, max_size=3, unique_by=lambda t: t.base))))


@settings(max_examples=max(60, settings().max_examples))
@given(programs())
def test_round_trip(program: Program[str]) -> None:
    assert parse_program(program.to_text(), lambda text, _maps: text) == program


def test_an_expression_is_read_with_the_keys_of_the_maps_before_it() -> None:
    x = Var("x", BIGINT, False)
    program = Program(
        (MapDef("a", (x,), (), "A"), MapDef("b", (), (Kind.WIDE,), "B")),
        (Trigger("R", (Statement("a", "+=", "S"),)),),
    )
    seen: list[tuple[str, dict[str, Any]]] = []
    parse_program(program.to_text(), lambda text, maps: seen.append((text, dict(maps))))
    assert seen == [("A", {}), ("B", {"a": (x,)}), ("S", {"a": (x,), "b": ()})]


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


@pytest.mark.parametrize("line", ["MAPS x", "  v[] +=   -- lost", "anything"])
def test_what_is_no_program_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of a program"):
        parse_program(line, lambda text, _maps: text)


def test_look_ups() -> None:
    program = Program((MapDef("a", (), (), 1), MapDef("b", (), (), 2)), (Trigger("R", ()),))
    assert program.map("b").definition == 2
    assert program.trigger("R") == Trigger("R", ())
    assert program.trigger("S") is None
    with pytest.raises(StopIteration):
        program.map("c")


def test_components_have_names() -> None:
    assert [component(0), component(3), component(12, unscaled=True)] == ["#0", "#3", "#12u"]
    for i in (0, 7, 12):
        assert component_index(component(i)) == component_index(component(i, unscaled=True)) == i
