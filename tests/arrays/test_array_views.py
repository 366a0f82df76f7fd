"""Views of arrays: equal to the query from scratch after every batch, whatever the shape, the aggregate, the
dimensions and the operators behind."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import mapping_functions  # noqa: F401 - a mapping is found in what was imported
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.evaluate import value_of
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.views.definition import define
from everfresh.arrays.views.groups import no_change
from everfresh.arrays.views.pipeline import Pipeline, compile_view
from everfresh.arrays.views.stages import Joined
from everfresh.delta.bags import difference, net, weigh
from everfresh.errors import Code, EverfreshError

SHAPES = ["L1(1)", "LINF(1)", "LINF(1) WITHOUT CENTER", "RING(1, 2)", "HAMMING(1)", "L2(2)", "L0"]
AGGREGATES = [
    "COUNT(*) AS n",
    "COUNT(*) AS n, SUM(y.v) AS s, AVG(y.u) AS m",
    "MIN(y.u) AS least, MAX(y.v) AS most, COUNT(y.u) AS n",
    "SUM(x.v * y.v) AS s, MIN(x.v - y.v) AS d",
    "SUM(x.u) AS s, MAX(y.t) AS word, MIN(x.t) AS own, COUNT(*) FILTER (WHERE y.v > 1) AS big",
    "SUM(y.d) AS s, SUM(y.w) AS wide, AVG(y.d) AS m, MAX(y.b) AS flag, MIN(y.r) AS real",
    "SUM(y.v) / COUNT(*) AS ratio",
]
ATTRIBUTES = "v: INT, u: DOUBLE, t: VARCHAR, d: DECIMAL(9,2), w: DECIMAL(30,0), b: BOOLEAN, r: REAL"


def array(name: str, ndim: int, chunk: int = 2, size: int = 6) -> Array:
    box = "; ".join(f"{d}={-1 - k},{size - 2 - k},{chunk + k}" for k, d in enumerate("ijk"[:ndim]))
    statement = parse(f"CREATE ARRAY {name} <{ATTRIBUTES}> [{box}]")
    assert isinstance(statement, aql.CreateArray)
    return Array(statement.schema)


def cells(rng: random.Random, schema: ArraySchema, count: int) -> list[tuple[Any, ...]]:
    def one() -> tuple[Any, ...]:
        at = [rng.randrange(d.lo, d.hi + 1) for d in schema.dimensions]
        u = rng.choice([None, 0.1, -2.5, 1e17, float("nan"), float("inf"), float("-inf"), 3.25])
        word = rng.choice(["b", "", None, "ä", "a'b"])
        wide = rng.choice([None, 10**29, -(10**29) + 1, 7])
        flag, real = rng.choice([None, True, False]), rng.choice([None, 0.5, -1.25])
        return (*at, rng.choice([None, 1, 2, -3]), u, word, rng.choice([None, 1.25, -0.5]), wide, flag, real)

    return [one() for _ in range(count)]


def as_rows(some: list[tuple[Any, ...]], schema: ArraySchema) -> pa.Table:
    from everfresh.arrays.cells import read_cells

    return read_cells(some, schema) if some else schema.arrow.empty_table()


def expected(view: Pipeline, arrays: Mapping[str, Array]) -> pa.Table:
    """The view by the language's own evaluation, dimensions first."""
    operand = view.statement.operand
    if isinstance(operand, aql.Query):
        joins = [join for join in (operand.join, *operand.more) if join is not None]
        aliases = [operand.left.alias, *(join.right.alias for join in joins)]
        definition = view.stages[-1].definition  # type: ignore[attr-defined]
        listed = ", ".join(
            f"{aliases[s]}.{definition.sources[s].dimension_names[d]} AS k{k}"
            for k, (s, d) in enumerate(definition.keys)
        )
        text = str(operand).replace(f"SELECT {operand.items}", f"SELECT {listed}, {operand.items}", 1)
        box = "; ".join(f"k{k}={d.lo},{d.hi},{d.chunk}" for k, d in enumerate(view.schema.dimensions))
        text = text.replace(" FROM", f" INTO t [{box}] FROM", 1)
        operand = parse(text)  # type: ignore[assignment]
    found = value_of(operand, arrays).table
    return found.rename_columns(list(view.schema.names)).cast(view.schema.arrow)


def run(
    text: str, arrays: dict[str, Array], rng: random.Random, batches: int = 4, most: int = 12
) -> Pipeline:
    """Random batches; after each the view is what the query gives, and its change is the difference."""
    statement = parse(text)
    assert isinstance(statement, aql.CreateView)
    assert parse(str(statement)) == statement
    view = compile_view(statement, {n: a.schema for n, a in arrays.items()})
    bags: dict[str, list[tuple[Any, ...]]] = {name: [] for name in arrays}
    for name, some in arrays.items():
        new = cells(rng, some.schema, rng.randrange(most))
        bags[name] += new
        arrays[name] = some.changed(as_rows(new, some.schema))
    states = view.start(arrays)
    for _ in range(batches):
        changes = {}
        for name, some in list(arrays.items()):
            if rng.random() < 0.2:
                continue
            gone = rng.sample(bags[name], min(len(bags[name]), rng.randrange(most)))
            new = cells(rng, some.schema, rng.randrange(most)) + (gone[:1] if rng.random() < 0.3 else [])
            for cell in gone:
                bags[name].remove(cell)
            bags[name] += new
            came, went = as_rows(new, some.schema), as_rows(gone, some.schema)
            arrays[name] = some.changed(came, went)
            changes[name] = net(pa.concat_tables([weigh(came), weigh(went, -1)]))
        before = view.value(states).table
        states, found = view.step(states, arrays, changes)
        change = no_change(view.schema) if found is None else found.table
        shown = view.value(states)
        wrong = difference(expected(view, arrays), shown.table)
        assert wrong.num_rows == 0, f"{text}\n{wrong.to_pylist()}"
        moved = net(pa.concat_tables([weigh(before), change]))
        assert net(pa.concat_tables([moved, weigh(shown.table, -1)])).num_rows == 0, text
        for number, chunk in shown.chunks.items():
            assert (shown.schema.chunk_ids(chunk.coords) == number).all()
        assert sum(map(len, shown.chunks.values())) == len(shown.table)
    return view


@settings(max_examples=60)
@given(
    st.integers(1, 3),
    st.sampled_from(SHAPES),
    st.sampled_from(AGGREGATES),
    st.booleans(),
    st.sampled_from(["", "WHERE x.v > 0", "WHERE x.v >= y.v", "WHERE y.u < 100 AND x.v IS NOT NULL"]),
    st.integers(0, 1 << 30),
)
def test_joins(ndim: int, shape: str, items: str, is_self: bool, where: str, seed: int) -> None:
    on = " AND ".join(f"(x.{d} = y.{d})" for d in "ijk"[:ndim])
    group = ", ".join(f"x.{d}" for d in "ijk"[:ndim])
    right = "a" if is_self else "b"
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM a AS x SIMILARITY JOIN {right} AS y "
        f"ON {on} WITH SHAPE {shape} {where} GROUP BY {group}"
    )
    arrays = {"a": array("a", ndim)}
    if not is_self:
        arrays["b"] = array("b", ndim, 3)
    run(text, arrays, random.Random(seed))


@settings(max_examples=25)
@given(
    st.sampled_from(AGGREGATES),
    st.sampled_from(["x.i", "y.j", "x.i, y.i", "y.j, x.j"]),
    st.integers(0, 1 << 30),
)
def test_other_groups_mappings_and_chunks(items: str, group: str, seed: int) -> None:
    on = "y.i = 2*x.j - 1 AND y.j = x.i"
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM a AS x SIMILARITY JOIN b AS y "
        f"ON {on} WITH SHAPE [-1:0, 0:2] GROUP BY {group}"
    )
    run(text, {"a": array("a", 2), "b": array("b", 2, 3)}, random.Random(seed))


@settings(max_examples=12)
@given(st.integers(0, 1 << 30))
def test_mappings_that_are_functions(seed: int) -> None:
    text = (
        "CREATE ARRAY VIEW w [i=-2,7,3] AS SELECT COUNT(*) AS n, MAX(y.v) AS m FROM a AS x SIMILARITY JOIN b "
        "AS y ON 'mapping_functions:scattered/1/1' WITH SHAPE [-1:1] GROUP BY x.i"
    )
    run(text, {"a": array("a", 1), "b": array("b", 1)}, random.Random(seed))


@settings(max_examples=20)
@given(
    st.sampled_from(
        ["COUNT(*) AS n", "SUM(z.v) AS s, COUNT(*) AS n", "MIN(x.v + y.v - z.v) AS d", "MAX(y.u) AS m"]
    ),
    st.sampled_from([("a", "a", "a"), ("a", "b", "a"), ("a", "b", "c")]),
    st.sampled_from(["", "WHERE x.v < z.v", "WHERE y.v > 0"]),
    st.integers(0, 1 << 30),
)
def test_chains(items: str, names: tuple[str, str, str], where: str, seed: int) -> None:
    x, y, z = names
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM {x} AS x SIMILARITY JOIN {y} AS y ON (y.i = x.i) WITH "
        f"SHAPE L1(1) SIMILARITY JOIN {z} AS z ON (z.i = y.i) WITH SHAPE [0:1] {where} GROUP BY x.i"
    )
    run(text, {n: array(n, 1, k + 2) for k, n in enumerate(sorted(set(names)))}, random.Random(seed))


@settings(max_examples=20)
@given(
    st.sampled_from(
        [
            "COUNT(*) AS n",
            "SUM(z.v) AS s, AVG(z.v) AS m, COUNT(y.v) + 1 AS n",
            "MIN(z.t) AS d, MAX(y.u) AS m, SUM(z.w) AS w",
            "SUM(y.v * z.v) AS p, SUM(z.d) AS s, COUNT(*) FILTER (WHERE z.v > 1) AS k",
        ]
    ),
    st.sampled_from([("a", "a", "a"), ("a", "b", "a"), ("a", "b", "c")]),
    st.sampled_from(["", "WHERE x.v > 0", "WHERE y.v >= z.v", "WHERE y.v > 0 AND x.v IS NOT NULL"]),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_chains_by_auxiliary_views(
    items: str, names: tuple[str, str, str], where: str, longer: bool, seed: int
) -> None:
    x, y, z = names
    more = "SIMILARITY JOIN a AS q ON (q.i = z.i) WITH SHAPE [-1:0] " if longer else ""
    text = (
        f"CREATE ARRAY VIEW w AS SELECT {items} FROM {x} AS x SIMILARITY JOIN {y} AS y ON (y.i = x.i) WITH "
        f"SHAPE L1(1) SIMILARITY JOIN {z} AS z ON (z.i = y.i) WITH SHAPE [0:1] {more}{where} GROUP BY x.i"
    )
    arrays = {n: array(n, 1, k + 2) for k, n in enumerate(sorted({*names, "a"}))}
    view = run(text, arrays, random.Random(seed), 3)
    deeper = longer and "y." not in items and ">=" not in where  # nothing of y beside what is behind it
    assert sum(isinstance(s, Joined) and s.auxiliary for s in view.stages) == 1 + deeper


COUNTS = (
    "(SELECT x.i, x.j, COUNT(*) AS n, SUM(y.v) AS s FROM a x SIMILARITY JOIN a y ON (x.i=y.i AND x.j=y.j) "
    "WITH SHAPE L1(1) GROUP BY x.i, x.j)"
)
OPERATORS = [
    f"FILTER({COUNTS}, n > 1)",
    f"PROJECT({COUNTS}, s)",
    f"SUBARRAY({COUNTS}, 0, -1, 3, 2)",
    f"REGRID({COUNTS}, 2, 3, MAX(n) AS most, COUNT(*) AS c)",
    f"APPLY({COUNTS}, AVG(n) AS smooth, LINF(1))",
    "APPLY(a, SUM(v) AS s, COUNT(*) AS n, [0:1, -2:0])",
    "APPLY(a, MIN(v) AS s, LINF(1) WITHOUT CENTER)",
    "REGRID(FILTER(a, v > 0), 3, 2, SUM(v) AS s, MIN(t) AS t)",
    "FILTER(BETWEEN(PROJECT(a, v, t), 0, 0, 3, 3), t IS NOT NULL)",
    "REGRID(APPLY(a, MAX(v) AS m, L1(1)), 2, 2, SUM(m) AS s)",
]


def test_figure_1_of_the_paper() -> None:
    """Six cells in six chunks; their join with L1(1) has eight cells, two of them of neighbours. A batch of
    seven cells, two of them in new chunks, impacts eleven cells of the view, in all eight chunks."""
    old = [(1, 2, 2, 5), (1, 3, 6, 3), (1, 6, 1, 1), (3, 1, 1, 1), (6, 5, 1, 1), (5, 7, 1, 1)]
    new = [(2, 1), (2, 3), (1, 5), (4, 2), (5, 6), (4, 4), (5, 4)]
    near = "FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1)"
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <r: INT, s: INT> [i=1,6,2; j=1,8,2]")
        db.sql(f"CREATE ARRAY VIEW v AS SELECT COUNT(*) AS cnt {near} GROUP BY x.i, x.j")
        db.apply(a=old)
        pairs = db.sql(f"SELECT x.i, x.j, y.i, y.j {near}").fetchall()
        assert len(pairs) == 8
        assert {pair for pair in pairs if pair[:2] != pair[2:]} == {(1, 2, 1, 3), (1, 3, 1, 2)}
        epoch = db.apply(a=[(i, j, 1, 1) for i, j in new])
        changes = db.view("v").changes(epoch - 1).to_pylist()
        impacted = {(row["i"], row["j"]) for row in changes}
        assert impacted == {*new, (1, 3), (1, 6), (3, 1), (5, 7)}
        assert len(impacted) == 11
        assert len({((i - 1) // 2, (j - 1) // 2) for i, j in impacted}) == 8
        assert db.view("v").verify().num_rows == 0


@pytest.mark.parametrize("operand", OPERATORS)
def test_operators(operand: str) -> None:
    for seed in range(3):
        run(f"CREATE ARRAY VIEW w AS {operand}", {"a": array("a", 2)}, random.Random(seed), 3)


def test_sources_that_are_computed_and_groups_of_one_array() -> None:
    for text in (
        "SELECT SUM(y.m) AS s FROM (FILTER(a, v > 0)) AS x SIMILARITY JOIN (REGRID(a, 1, 2, MAX(v) AS m)) "
        "AS y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) GROUP BY x.i, x.j",
        "SELECT SUM(v) AS s, COUNT(*) AS n, MIN(u) AS least FROM a GROUP BY j",
    ):
        run(f"CREATE ARRAY VIEW w AS {text}", {"a": array("a", 2)}, random.Random(5), 6)


def test_blocks_of_a_query_begin_where_those_of_its_view_do() -> None:
    """However little of an array the other one can be reached from."""
    query = """SELECT x.i, COUNT(*) AS n FROM a AS x SIMILARITY JOIN b AS y ON (y.i = x.i) WITH SHAPE L1(1)
               GROUP BY x.i"""
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT> [i=1,29,13]; CREATE ARRAY b <v: INT> [i=5,17,13]")
        db.apply(a=[(i, i) for i in range(1, 30)], b=[(i, i) for i in range(5, 18)])
        db.sql(
            f"CREATE ARRAY VIEW near AS {query}; CREATE ARRAY VIEW r AS REGRID(({query}), 2, COUNT(*) AS n)"
        )
        rows = db.view("r").to_pylist()
        for text in (f"REGRID(({query}), 2, COUNT(*) AS n)", "REGRID(near, 2, COUNT(*) AS n)"):
            assert db.sql(text).to_pylist() == rows


def test_having_and_chunks_of_its_own() -> None:
    join = "FROM a x SIMILARITY JOIN a y ON (x.i=y.i AND x.j=y.j) WITH SHAPE LINF(1) GROUP BY x.i, x.j"
    box = "[i=-3,9,5; j=-2,3,1]"
    for text in (
        f"SELECT COUNT(*) AS n {join}",
        f"FILTER((SELECT x.i, x.j, COUNT(*) AS n {join}), n > 2)",
        f"SELECT COUNT(*) AS n, SUM(y.v) AS s {join} HAVING COUNT(*) > 2",
    ):
        view = run(f"CREATE ARRAY VIEW w {box} AS {text}", {"a": array("a", 2)}, random.Random(1))
        assert view.schema.box_text == box


def test_a_step_looks_at_the_chunks_around_the_change() -> None:
    """What is done grows with the batch, not with the array: chunks far away stay the same objects."""
    rng = np.random.default_rng(0)
    a = Array(parse("CREATE ARRAY a <v: INT> [i=0,9999,10; j=0,9999,10]").schema)  # type: ignore[attr-defined]
    where = rng.integers(0, 10_000, (2, 20_000))
    a = a.changed((tuple(where), np.ones(20_000, np.int64)))
    statement = parse(
        "CREATE ARRAY VIEW w AS SELECT COUNT(*) AS n FROM a x SIMILARITY JOIN a y ON (x.i=y.i AND x.j=y.j) "
        "WITH SHAPE LINF(2) GROUP BY x.i, x.j"
    )
    assert isinstance(statement, aql.CreateView)
    view = compile_view(statement, {"a": a.schema})
    states = view.start({"a": a})
    new = as_rows([(5, 5, 1), (15, 5, 1)], a.schema)
    after, _ = view.step(states, {"a": a.changed(new)}, {"a": weigh(new)})
    old, now = states[-1].blocks, after[-1].blocks
    changed = [n for n in now if n not in old or now[n] is not old[n]]
    assert 1 <= len(changed) <= 12


NEAR = "a x SIMILARITY JOIN a y ON (x.i=y.i AND x.j=y.j) WITH SHAPE L1(1)"
WRONG: list[tuple[str, str, str]] = [
    (f"SELECT COUNT(*) AS n FROM {NEAR}", Code.UNSUPPORTED, "GROUP BY"),
    (f"SELECT COUNT(DISTINCT y.v) AS n FROM {NEAR} GROUP BY x.i", Code.UNSUPPORTED, "count"),
    (f"SELECT COUNT(*) AS n FROM {NEAR} GROUP BY x.v", Code.UNSUPPORTED, "groups by"),
    (f"SELECT COUNT(*) AS n FROM {NEAR.replace('a y', 'a x')} GROUP BY x.i", Code.EXISTS, "same name"),
    ("SELECT COUNT(*) AS n FROM a x JOIN a y ON x.i=y.i GROUP BY x.i", Code.UNSUPPORTED, "equality"),
    (f"SELECT COUNT(*) AS n FROM {NEAR.replace('a y', 'nope y')} GROUP BY x.i", Code.NOT_FOUND, "nope"),
    (f"SELECT COUNT(*) AS n FROM {NEAR.replace('L1(1)', '[1:2]')} GROUP BY x.i", Code.ARGUMENT, "dimension"),
    ("a", Code.UNSUPPORTED, "repeats"),
    ("FILTER(a, v > (SELECT AVG(v) FROM a))", Code.UNSUPPORTED, "subquery"),
    ("FILTER(a, now() > TIMESTAMP '2020-01-01')", Code.UNSUPPORTED, "no fixed value"),
    ("REGRID(a, 2, 2, SUM(v) + (SELECT MAX(v) FROM a) AS s)", Code.UNSUPPORTED, "subquery"),
    ("REGRID(a, 2, 2, ROW_NUMBER() OVER () AS s)", Code.UNSUPPORTED, "window"),
    ("APPLY(a, (SELECT MAX(v) FROM a) AS s, L1(1))", Code.UNSUPPORTED, "subquery"),
    (
        f"SELECT COUNT(*) AS n FROM {NEAR} WHERE y.v > (SELECT AVG(v) FROM y) GROUP BY x.i",
        Code.UNSUPPORTED,
        "subq",
    ),
    (
        f"SELECT COUNT(*) AS n FROM {NEAR} GROUP BY x.i HAVING COUNT(*) > (SELECT 1)",
        Code.UNSUPPORTED,
        "subquery",
    ),
    (f"SELECT SUM((SELECT MAX(v) FROM y)) AS n FROM {NEAR} GROUP BY x.i", Code.UNSUPPORTED, "subquery"),
    (
        f"SELECT COUNT(*) AS n FROM {NEAR} WHERE x.v < EXTRACT(year FROM current_date) GROUP BY x.i",
        Code.UNSUPPORTED,
        "no fixed value",
    ),
]


@pytest.mark.parametrize(("text", "code", "said"), WRONG)
def test_what_is_no_view_is_refused(text: str, code: str, said: str) -> None:
    statement = parse(f"CREATE ARRAY VIEW w AS {text}")
    assert isinstance(statement, aql.CreateView)
    with pytest.raises(EverfreshError) as error:
        compile_view(statement, {"a": array("a", 2).schema})
    assert error.value.code == code
    assert said in str(error.value)


def test_views_too_large_for_their_keys_are_refused() -> None:
    a = parse("CREATE ARRAY a <v: INT> [i=0,4000000000,1000; j=0,4000000000,1000]")
    query = parse(f"SELECT COUNT(*) AS n FROM {NEAR} GROUP BY x.i, x.j")
    assert isinstance(query, aql.Query)
    assert isinstance(a, aql.CreateArray)
    with pytest.raises(EverfreshError, match="64-bit key"):
        define("w", query, [a.schema, a.schema])


def test_pictures() -> None:
    from everfresh.arrays.evaluate import create
    from everfresh.arrays.views.picture import drawn, svg_of

    a = create(
        "CREATE ARRAY a <n: INT, t: VARCHAR> [k=1,2,1; i=1,4,2; j=1,4,2]",
        [(1, 1, 1, 3, "x"), (2, 1, 1, 4, "")],
    )
    places, values, boxes = drawn(a)
    assert places.T.tolist() == [[1, 1]]
    assert values.tolist() == [7]  # cells over each other are added up
    assert boxes == [(1, 2, 1, 2)]
    assert svg_of(a, "n").startswith("<svg")
    with pytest.raises(EverfreshError, match="no attribute that has numbers"):
        svg_of(a, "t")
    assert "<rect" not in svg_of(a.changed(deletes=[(1, 1, 1, 3, "x"), (2, 1, 1, 4, "")]))


def test_sums_leave_64_bits_and_come_back() -> None:
    """Whole numbers become Python's where they have to, and doubles leave nothing behind."""
    a = parse("CREATE ARRAY a <v: BIGINT, u: DOUBLE> [i=0,9,3]")
    text = (
        "CREATE ARRAY VIEW w AS SELECT SUM(y.v) AS s, SUM(y.u) AS t, COUNT(*) AS n, AVG(y.v) AS m FROM a AS "
        "x SIMILARITY JOIN a AS y ON y.i = x.i WITH SHAPE [-1:1] GROUP BY x.i"
    )
    statement = parse(text)
    assert isinstance(a, aql.CreateArray)
    assert isinstance(statement, aql.CreateView)
    now = Array(a.schema).changed([(5, 1, 0.1)])
    view = compile_view(statement, {"a": a.schema})
    states = view.start({"a": now})
    first = view.value(states).table
    big = [(i, (1 << 63) - 1, 1e300) for i in (4, 5, 6) for _ in range(3)]
    for came, went in ((big, []), ([], big)):
        plus, minus = as_rows(came, a.schema), as_rows(went, a.schema)
        now = now.changed(plus, minus)
        change = net(pa.concat_tables([weigh(plus), weigh(minus, -1)]))
        states, _ = view.step(states, {"a": now}, {"a": change})
        assert difference(expected(view, {"a": now}), view.value(states).table).num_rows == 0
        if came:
            total = {row["i"]: row["s"] for row in view.value(states).table.to_pylist()}
            assert total[5] == 4 * (9 * ((1 << 63) - 1) + 1)
    assert view.value(states).table.equals(first)
