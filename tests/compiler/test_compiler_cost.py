"""Estimates, the cost of programs, and the search: against real sizes where they can be counted, and on
programs whose best form is known.

Catches: a join estimate that forgets keys or conditions, a group count above its atoms, a scan charged as a
lookup, rates that do not reach derived relations, a search that drops what pays or keeps what does not, or
that does not end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from viewlets import Viewlets, composites

import everfresh as ef
from everfresh import workloads
from everfresh.algebra import Gmr
from everfresh.calculus import Database, MapRef, Query, evaluate, parse
from everfresh.compiler import compile_view
from everfresh.compiler.choice.cost import Model, choose, cost
from everfresh.compiler.choice.estimate import Statistics, TableStats, selectivity
from everfresh.compiler.choice.search import all_held, search
from everfresh.compiler.viewlet.decisions import larger_than
from everfresh.compiler.viewlet.map_registry import Spend
from everfresh.datasets import tpch
from everfresh.expr import Const, Var, build
from everfresh.program import MapDef, Program, Statement, Trigger, View, component
from everfresh.sql.logical import plan as p
from everfresh.types import BIGINT, BOOLEAN, Column

sys.path.insert(0, str(Path(__file__).parent.parent / "sql"))

from sql_support import DictCatalog, bind_one

SCHEMA = {name: (Column("c0", BIGINT, False), Column("c1", BIGINT, False)) for name in "RSTUVW"}
SCHEMA["F"] = tuple(Column(f"c{i}", BIGINT, False) for i in range(5))
EVEN = Statistics({name: TableStats(10_000, (1_000, 1_000)) for name in "RSTUVW"}, reads=0.0)


def definition(text: str) -> Query:
    return parse(text, SCHEMA)


def only(text: str, keys: str = "") -> Program[Query]:
    """A program of one map."""
    vars_ = tuple(Var(name, BIGINT, False) for name in keys)
    return Program((MapDef("Q", vars_, (), definition(text)),), ())


def size(text: str, keys: str, statistics: Statistics) -> float:
    return Model(only(text, keys), statistics).size("Q").rows


# -- sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        ("Sum_[a, b](R(a, b))", "ab", 10_000),
        ("Sum_[a](R(a, b))", "a", 1_000),
        ("Sum_[](R(a, b))", "", 1),
        ("Sum_[a, c](R(a, b) * S(b, c))", "ac", 100_000),
        ("Sum_[b](R(a, b) * S(b, c))", "b", 1_000),
        ("Sum_[a, c](R(a, b) * S(c, d))", "ac", 1_000_000),
        ("Sum_[a](R(a, b) * [b = 3::BIGINT])", "a", 10),
        ("Sum_[a, b](R(a, b) * [a < b])", "ab", 10_000 / 3),
        ("Sum_[a, b](R(a, b) * (-S(a, b)))", "ab", 10_000),
        ("Sum_[a](R(a, b)) + Sum_[a](S(a, b))", "a", 2_000),
        ("0", "", 0),
    ],
)
def test_sizes(text: str, keys: str, expected: float) -> None:
    assert size(text, keys, EVEN) == pytest.approx(expected)


KEYED = Statistics(
    {"R": TableStats(6_000, (1_500, 6_000)), "S": TableStats(1_500, (1_500, 100), (frozenset({0}),))}
)


def test_a_foreign_key_joins_with_one_row() -> None:
    assert size("Sum_[a, b, c](R(b, a) * S(b, c))", "abc", KEYED) == pytest.approx(6_000)
    # all columns of the keyed relation have no more combinations than it has rows
    assert size("Sum_[b, c](R(b, a) * S(b, c))", "bc", KEYED) == pytest.approx(1_500)


def test_sizes_of_random_data_are_about_right() -> None:
    random = Random(3)
    tables = {
        name: Gmr(((random.randrange(40), random.randrange(60)), (1,)) for _ in range(300)) for name in "RST"
    }
    stats = Statistics(
        {
            name: TableStats(len(t), tuple(float(len({key[i] for key, _ in t.items()})) for i in (0, 1)))
            for name, t in tables.items()
        }
    )
    texts = {"Sum_[a, c](R(a, b) * S(c, b))": "ac", "Sum_[a](R(a, b) * S(a, c))": "a"}
    texts |= {"Sum_[a, b, c](R(a, b) * S(a, c) * [b < c])": "abc"}
    for text, keys in texts.items():
        real = len(evaluate(definition(text), Database(tables=tables)))
        assert size(text, keys, stats) == pytest.approx(real, rel=0.6), text


def test_selectivity() -> None:
    x, y = Var("x", BIGINT), Var("y", BIGINT)
    three = Const(3, BIGINT)
    distinct = {"x": 10.0, "y": 50.0}
    for expr, expected in [
        (build.call("=", x, three), 0.1),
        (build.call("=", x, y), 0.02),
        (build.call("in", x, three, Const(4, BIGINT)), 0.2),
        (build.call("and", build.call("=", x, three), build.call("=", y, three)), 0.002),
        (build.call("or", build.call("=", x, three), build.call("=", y, three)), 1 - 0.9 * 0.98),
        (build.call("not", build.call("=", x, three)), 0.9),
        (build.call("not", build.call("is_null", x)), 1.0),
        (Const(True, BOOLEAN), 1.0),
        (Const(None, BOOLEAN), 0.0),
    ]:
        assert selectivity(expr, distinct) == pytest.approx(expected), expr


# -- statements ----------------------------------------------------------------------------------------------


def charged(expr: str, stats: Statistics = EVEN) -> float:
    """The cost of a statement over two maps, `A[x, y]` and `B[y, z]`, of 10,000 entries."""
    x, y, z = (Var(name, BIGINT, False) for name in "xyz")
    maps = (
        MapDef("Q", (x,), (), definition("Sum_[x](R(x, y) * S(y, z))")),
        MapDef("A", (x, y), (), definition("Sum_[x, y](R(x, y))")),
        MapDef("B", (y, z), (), definition("Sum_[y, z](S(y, z))")),
    )
    query = parse(expr, SCHEMA, {m.name: m.keys for m in maps})
    statement = Statement("Q", "+=", query)
    program = Program(maps, (Trigger("R", (statement,)),))
    return Model(program, stats).statement(statement).cost


def test_statements_are_charged_for_what_they_visit() -> None:
    change = charged("Sum_[x](ΔR(x, y))")
    assert change == pytest.approx(3)  # one tuple read, one aggregated, one written
    lookup = charged("Sum_[x](ΔR(x, y) * A[x, y](0))")
    slice_ = charged("Sum_[x](ΔR(x, y) * B[y, z](0))")
    scan = charged("Sum_[x](ΔR(x, y) * B[u, z](0))")
    assert change < lookup < slice_ < scan
    assert slice_ == pytest.approx(3 + 10 + 9)  # ten entries of a slice, aggregated to one
    assert scan > 10_000
    # the order of the factors is the order of work
    assert charged("Sum_[x](ΔR(x, y) * B[y, z](0) * A[x, w](0))") < charged(
        "Sum_[x](A[x, w](0) * ΔR(x, y) * B[y, z](0))"
    )
    # nested aggregates are materialized for each tuple that reaches them
    assert charged("Sum_[x](ΔR(x, y) * Sum_[y](B[y, z](0)))") >= slice_
    assert charged("Sum_[x](ΔR(x, y) * (v BIGINT :=! Sum_[](B[y, z](0))) * [v > x])") > change + 10
    assert charged("Sum_[x](ΔR(x, y) * B[y, z](0)) + Sum_[x](ΔR(x, y) * B[y, z](0))") == pytest.approx(
        2 * slice_, rel=0.2
    )


def test_a_change_that_fails_its_own_condition_costs_no_lookups() -> None:
    free = charged("Sum_[x](ΔR(x, y) * B[y, z](0))")
    some = charged("Sum_[x](ΔR(x, y) * [x = 3::BIGINT] * B[y, z](0))")
    assert some == pytest.approx(1 + (free - 1) / 10)  # the change itself is read in any case
    # all that follows is there or is not: one group is written, by one change in ten
    assert charged("Sum_[](ΔR(x, y) * [x = 3::BIGINT] * B[y, z](0))") == pytest.approx(some)
    # a condition that reads something else is no chance of the change
    assert charged("Sum_[x](ΔR(x, y) * B[y, z](0) * [x = z])") > some


def test_a_condition_that_a_map_holds_makes_lookups_miss() -> None:
    x, y = (Var(name, BIGINT, False) for name in "xy")
    for text, found in (("Sum_[y](S(y, z))", 1.0), ("Sum_[y](S(y, z) * [z = 3::BIGINT])", 0.01)):
        maps = (
            MapDef("Q", (x,), (), definition("Sum_[x](R(x, y))")),
            MapDef("B", (y,), (), definition(text)),
        )
        expr = parse("Sum_[x](ΔR(x, y) * B[y](0))", SCHEMA, {"B": (y,)})
        statement = Statement("Q", "+=", expr)
        model = Model(Program(maps, (Trigger("R", (statement,)),)), EVEN)
        assert model.statement(statement).out.rows == pytest.approx(found)


def test_a_derived_relation_changes_as_often_as_its_map_is_written() -> None:
    x, y = (Var(name, BIGINT, False) for name in "xy")
    n = Var(component(0), BIGINT, False)
    columns = (Column("x", BIGINT, False), Column("n", BIGINT, False))
    maps = (
        MapDef("Q", (y,), (), parse("Sum_[y](D(x, y))", {"D": columns})),
        MapDef("M", (x,), (), definition("Sum_[x](R(x, y))")),
    )
    triggers = (
        Trigger("R", (Statement("M", "+=", definition("Sum_[x](ΔR(x, y))")),)),
        Trigger("D", (Statement("Q", "+=", parse("Sum_[y](ΔD(x, y))", {"D": columns})),)),
    )
    derived = View("D", "M", columns, (x, n))
    stats = Statistics({"R": TableStats(10_000, (100, 1_000), rate=3.0)}, reads=0.0)
    model = Model(Program(maps, triggers, (derived,)), stats)
    assert model.rates == {"R": 3.0, "D": 6.0}
    assert model.table("D") == TableStats(100, (100, 100), (frozenset({0}),))
    assert model.size("Q").rows == pytest.approx(100)


def test_a_threshold_that_moves_reads_what_it_passes() -> None:
    v, a = (Var(name, BIGINT, False) for name in "va")
    columns = (Column("v", BIGINT, False),)
    schema = {**SCHEMA, "D": columns}
    maps = (
        MapDef("Q", (), (), parse("Sum_[](D(v) * R(a, b) * [a > v])", schema)),
        MapDef("M", (), (), definition("Sum_[](S(x, y))")),
        MapDef("A", (a,), (), definition("Sum_[a](R(a, b))")),
    )
    costs = []
    for text in ("Sum_[](ΔD(v) * A[a](0) * [a > v])", "Sum_[](ΔD(v) * A[a](0) * [a * v > v])"):
        statement = Statement("Q", "+=", parse(text, schema, {"A": (a,)}))
        program = Program(maps, (Trigger("D", (statement,)),), (View("D", "M", columns, (v,)),))
        costs.append(Model(program, EVEN).statement(statement).cost)
    assert costs[0] == pytest.approx(4)  # the change, an entry, aggregated and written
    assert costs[1] > 1_000


# -- the search ----------------------------------------------------------------------------------------------

TRIANGLE = "Sum_[](R(a, b) * S(b, c) * T(c, a))"
CHAIN = "Sum_[](R(a, b) * S(b, c) * T(c, d))"


def test_a_triangle_keeps_no_two_paths() -> None:
    build = Viewlets(definition(TRIANGLE))  # type: ignore[arg-type]
    full = build()
    found = search(build, EVEN, keys=composites)
    assert len(composites(full)) == 3
    assert found.decisions == frozenset(composites(full))
    assert {m.name for m in found.program.maps} == {"Q", "M1", "M2", "M3"}
    assert found.cost < cost(full, EVEN)


def test_a_search_is_no_worse_than_either_of_its_ends() -> None:
    build = Viewlets(definition(CHAIN))  # type: ignore[arg-type]
    found = search(build, EVEN, keys=composites)
    apart = build(frozenset(composites(build())))
    assert found.cost <= min(cost(build(), EVEN), cost(apart, EVEN) / 0.9)
    assert found.program == build(found.decisions)


def rated(**rates: float) -> Statistics:
    return Statistics({n: TableStats(10_000, (1_000, 1_000), rate=r) for n, r in rates.items()}, reads=0.0)


def test_rates_decide() -> None:
    """`Sum_[a, c](R * S)` serves changes of T alone: worth it only if T changes much more often than R, S."""
    build = Viewlets(definition("Sum_[a](R(a, b) * S(b, c) * T(c, d))"))  # type: ignore[arg-type]
    often, rarely = rated(R=0.01, S=0.01, T=1.0), rated(R=1.0, S=1.0, T=0.01)
    two = next(k for k in composites(build()) if "'R'" in k.subject and "'S'" in k.subject)
    assert two not in search(build, often, keys=composites).decisions
    assert two in search(build, rarely, keys=composites).decisions
    assert choose([build(), build(frozenset({two}))], often) == build()
    assert choose([build(), build(frozenset({two}))], rarely) == build(frozenset({two}))


def star(arms: int) -> Viewlets:
    parts = " * ".join(f"{name}(k{i}, a{i})" for i, name in enumerate("RSTUV"[:arms]))
    keys = ", ".join(f"k{i}" for i in range(arms)) + ", x" * (5 - arms)
    outs = ", ".join(f"a{i}" for i in range(arms))
    return Viewlets(definition(f"Sum_[{outs}](F({keys}) * {parts})"))  # type: ignore[arg-type]


def test_a_star_is_thinned_out_to_the_most_maps_it_may_have() -> None:
    build = star(4)
    full = len(build().maps)
    assert full >= 20
    found = search(build, EVEN, keys=composites, maps=8)
    assert len(found.program.maps) <= 8


def test_without_effort_everything_is_split() -> None:
    build = star(4)
    found = search(build, EVEN, keys=composites, maps=8, effort=0)
    assert composites(found.program) == {}
    assert len(found.program.maps) <= 8
    assert build.built <= 5


def test_a_search_ends_with_its_effort() -> None:
    build = star(3)
    told: list[tuple[int, int]] = []
    found = search(
        build, EVEN, keys=composites, effort=40, told=lambda done, total: told.append((done, total))
    )
    assert build.built <= 4
    assert found.cost <= cost(build(), EVEN)
    assert told == sorted(told)
    assert {total for _, total in told} == {40}


# -- TPC-H ---------------------------------------------------------------------------------------------------

ROWS = {"region": 5, "nation": 25, "supplier": 100, "customer": 1_500, "part": 2_000, "partsupp": 8_000}
ROWS |= {"orders": 15_000, "lineitem": 60_000}
DISTINCT = {
    "s_nationkey": 25, "c_nationkey": 25, "n_regionkey": 5, "o_custkey": 1_000, "c_mktsegment": 5,
    "l_orderkey": 15_000, "l_suppkey": 100, "l_partkey": 2_000, "l_discount": 11, "o_orderdate": 2_400,
    "o_shippriority": 1, "l_shipdate": 2_500,
}  # fmt: skip
SCHEMAS = {name: bind_one(ddl, DictCatalog({}, {})).schema for name, ddl in tpch.TABLES.items()}
TEXTS = Path(workloads.__file__).parent / "queries" / "tpch"


def tpch_statistics() -> Statistics:
    tables = {}
    for name, schema in SCHEMAS.items():
        names = [c.name for c in schema.columns]
        rows = ROWS[name]
        distinct = tuple(float(DISTINCT.get(c, rows)) for c in names)
        keys = (frozenset(names.index(c) for c in schema.key or ()),) if schema.key else ()
        tables[name] = TableStats(rows, distinct, keys, rows / sum(ROWS.values()))
    return Statistics(tables, reads=0.0)


def compiled(query: str) -> Program[Query]:
    plan = bind_one((TEXTS / f"{query}.sql").read_text(), DictCatalog(SCHEMAS, {})).plan
    while isinstance(plan, p.Sort | p.Limit):
        plan = plan.input
    return compile_view(query, plan, joins=True).program  # type: ignore[return-value]


def test_q5_does_not_pair_customers_with_line_items_of_their_nation() -> None:
    program, stats = compiled("q05"), tpch_statistics()
    model = Model(program, stats)
    assert max(model.size(m.name).rows for m in program.maps) <= 60_000  # the rule for cyclic queries
    everything = Viewlets(program.maps[0].definition)  # type: ignore[arg-type]
    full = Model(everything(frozenset()), stats)
    assert max(full.size(m.name).rows for m in full.program.maps) > 1_000_000
    found = search(everything, stats, keys=composites)
    assert found.cost < full.total / 10


def test_q3_costs_a_few_entries_per_change() -> None:
    program, stats = compiled("q03"), tpch_statistics()
    assert cost(program, stats) < 20
    assert {m.name for m in program.maps} >= {
        n.name for t in program.triggers for s in t.statements for n in s.expr.walk() if isinstance(n, MapRef)
    }


@pytest.mark.parametrize(("tries", "decisions"), [(1, []), (2, [larger_than(4)]), (3, [larger_than(1)])])
def test_a_program_that_holds_all_joins_is_derived_with_limits(tries: int, decisions: list[str]) -> None:
    """Asked for by name, too: where it takes too much work, components of few relations are held."""
    plain: Any = object()
    asked: list[frozenset[str]] = []

    def build(split: frozenset[str], spend: Spend) -> Program[Query]:
        asked.append(split)
        while len(asked) < tries:
            spend(1)
        return plain

    assert all_held(build) == (plain, frozenset(decisions))
    assert len(asked) == tries


def test_outer_joins_by_name_of_the_strategy() -> None:
    """Seven FULL JOINs have more work in them than time: this ended with no program."""
    with ef.connect(engine="local") as db:
        for i in range(8):
            db.sql(f"CREATE TABLE f{i} (k BIGINT, x BIGINT)")
        joins = " ".join(f"FULL JOIN f{i} ON f{i - 1}.k = f{i}.k" for i in range(1, 8))
        columns = ", ".join(f"f{i}.x AS x{i}" for i in range(8))
        db.sql(
            f"CREATE MATERIALIZED VIEW v WITH (strategy = 'higher-order') AS SELECT {columns} FROM f0 {joins}"
        )
        db.apply({f"f{i}": [(1, i), (i, 2)] for i in range(8)})
        assert db.view("v").verify().num_rows == 0
