"""Ad hoc queries at the edges: errors, their laziness, wide and odd values, memory, row order."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Const, Var, build
from everfresh.local.adhoc import execute
from everfresh.sql.logical import plan as p
from everfresh.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGEINT,
    INTERVAL,
    REAL,
    VARCHAR,
    SqlType,
    to_arrow,
)

NAN, INF = float("nan"), float("inf")


def scan(name: str, *columns: tuple[str, SqlType]) -> p.Scan:
    return p.Scan(name, name, tuple(Var(n, t, True) for n, t in columns))


def table(**columns: tuple[SqlType, list[Any]]) -> tuple[p.Scan, dict[str, pa.Table]]:
    """A table of one test, and the scan of it."""
    made = pa.table({n: pa.array(values, to_arrow(t)) for n, (t, values) in columns.items()})
    return scan("t", *((n, t) for n, (t, _) in columns.items())), {"t": made}


def rows(plan: p.Plan, tables: dict[str, pa.Table], chunk: int = 3) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in execute(plan, tables.__getitem__, chunk=chunk).to_pylist()]


def aggregate(fn: str, plan: p.Scan, arg: str, **more: Any) -> p.Aggregate:
    var = next(v for v in plan.vars if v.name == arg)
    return p.Aggregate(plan, (), (("v", p.AggregateCall(fn, (var,), **more)),), False)


def over(fn: str, plan: p.Scan, arg: str, order: str, frame: Any = None) -> p.Project:
    by_name = {v.name: v for v in plan.vars}
    of = p.AggregateCall(fn, (by_name[arg],)).type
    call = p.WindowCall(fn, (by_name[arg],), (), ((by_name[order], True, False),), frame, of)
    return p.Project(p.Window(plan, (("v", call),)), ((order, by_name[order]), ("v", Var("v", of))))


# -- scalar subqueries --------------------------------------------------------------------------------------


def test_several_rows_of_a_scalar_subquery_are_an_error() -> None:
    t, tables = table(a=(BIGINT, [1, 2]))
    inner = p.Scan("t", "t", (Var("b", BIGINT),))
    plan = p.Project(t, (("v", p.ScalarSubquery(inner)),))
    with pytest.raises(EverfreshError, match="more than one row") as caught:
        execute(plan, tables.__getitem__)
    assert caught.value.code == Code.VALUE


def test_no_row_asks_a_correlated_subquery() -> None:
    t, tables = table(a=(BIGINT, [1, 2]))
    a, b = Var("a", BIGINT), Var("b", BIGINT)
    inner = p.Filter(p.Scan("t", "t", (b,)), build.call("<", b, a))
    kept = p.Filter(t, build.call(">", a, Const(5, BIGINT)))
    assert rows(p.Project(kept, (("v", p.ScalarSubquery(inner)),)), tables) == []


def test_the_query_asks_a_subquery_that_is_not_correlated() -> None:
    t, tables = table(a=(BIGINT, [1, 2]))
    inner = p.Scan("t", "t", (Var("b", BIGINT),))
    kept = p.Filter(t, build.call(">", Var("a", BIGINT), Const(5, BIGINT)))
    with pytest.raises(EverfreshError, match="more than one row"):
        rows(p.Project(kept, (("v", p.ScalarSubquery(inner)),)), tables)


def test_only_rows_that_pass_the_other_conditions_ask() -> None:
    t, tables = table(a=(BIGINT, [1, 1, 2]))
    a, b = Var("a", BIGINT), Var("b", BIGINT)
    inner = p.Filter(p.Scan("t", "t", (b,)), build.call("=", a, b))
    asked = build.call("=", p.ScalarSubquery(inner), a)
    assert rows(p.Filter(t, build.conjunction([asked, build.call("=", a, Const(2, BIGINT))])), tables) == [
        (2,)
    ]
    with pytest.raises(EverfreshError, match="more than one row"):
        rows(p.Filter(t, asked), tables)


# -- errors do not come from reordering ---------------------------------------------------------------------


def test_a_condition_is_not_asked_on_rows_that_others_drop() -> None:
    t, tables = table(a=(BIGINT, [0, 1, 2]))
    a, b = Var("a", BIGINT), Var("b", BIGINT)
    quotient = build.call("=", build.call("//", Const(4, BIGINT), a), b)
    both = p.Join("inner", t, p.Scan("t", "t", (b,)), build.call("<>", a, Const(0, BIGINT)))
    assert rows(p.Filter(both, quotient), tables) == [(2, 2)]
    left = p.Join(
        "left", t, p.Scan("t", "t", (b,)), build.conjunction([build.call(">", a, Const(0, BIGINT)), quotient])
    )
    assert sorted(rows(left, tables), key=str) == [(0, None), (1, None), (2, 2)]


def test_a_condition_that_raises_raises() -> None:
    t, tables = table(a=(BIGINT, [0, 1]))
    a = Var("a", BIGINT)
    with pytest.raises(EverfreshError) as caught:
        rows(p.Filter(t, build.call("=", build.call("//", Const(4, BIGINT), a), a)), tables)
    assert caught.value.code == Code.DIVISION_BY_ZERO


# -- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "values"),
    [(HUGEINT, [Decimal(10**37 * 9), Decimal(10**37 * 9)]), (DECIMAL(38, 2), [Decimal("9e35")] * 2)],
)
def test_a_sum_outside_its_type_is_an_error(type_: SqlType, values: list[Any]) -> None:
    t, tables = table(a=(type_, values), k=(BIGINT, [1, 2]))
    big = {"t": pa.concat_tables([tables["t"]] * 2)}
    for plan in (aggregate("sum", t, "a"), over("sum", t, "a", "k")):
        with pytest.raises(EverfreshError) as caught:
            rows(plan, big)
        assert caught.value.code == Code.OVERFLOW


def test_sums_of_large_integers_are_exact() -> None:
    most = 2**63 - 1
    t, tables = table(a=(BIGINT, [most, most, -5]), k=(BIGINT, [1, 2, 3]))
    assert rows(aggregate("sum", t, "a"), tables) == [(2 * most - 5,)]
    assert rows(over("sum", t, "a", "k"), tables) == [(1, most), (2, 2 * most), (3, 2 * most - 5)]
    last_two = ("rows", -1, 0)
    assert rows(over("sum", t, "a", "k", last_two), tables) == [(1, most), (2, 2 * most), (3, most - 5)]


@pytest.mark.parametrize(
    ("values", "total"),
    [([1e17, 1.0, -1e17], 1.0), ([INF, 1.0], INF), ([INF, -INF], NAN), ([NAN, 1.0], NAN),
     ([1e308, 1e308], INF), ([1e308, 1e308, -1e308], 1e308), ([1e300, 1e100, 1.0, -1e300], 1e100)],
)  # fmt: skip
def test_sums_of_doubles(values: list[float], total: float) -> None:
    t, tables = table(x=(DOUBLE, values), k=(BIGINT, list(range(len(values)))))
    found = rows(aggregate("sum", t, "x"), tables)[0][0], rows(over("sum", t, "x", "k"), tables)[-1][1]
    np.testing.assert_equal(found, (total, total))


def test_a_value_that_leaves_the_frame_leaves_no_trace() -> None:
    t, tables = table(x=(DOUBLE, [1e300, NAN, 0.1, 0.2]), k=(BIGINT, [1, 2, 3, 4]))
    np.testing.assert_equal(
        rows(over("sum", t, "x", "k", ("rows", 0, 0)), tables), [(1, 1e300), (2, NAN), (3, 0.1), (4, 0.2)]
    )


@pytest.mark.parametrize(("fn", "wanted"), [("var_pop", 2 / 3), ("var_samp", 1.0), ("stddev_samp", 1.0)])
@pytest.mark.parametrize(
    ("type_", "base"), [(DOUBLE, 1e9), (BIGINT, 2**62), (DECIMAL(30, 0), 10**28), (REAL, 16.0)]
)
def test_variance_of_large_values(fn: str, wanted: float, type_: SqlType, base: Any) -> None:
    exact = Decimal if type_.name == "DECIMAL" else type(base)
    t, tables = table(x=(type_, [exact(base + i) for i in (0, 1, 2)]), k=(BIGINT, [1, 2, 3]))
    assert rows(aggregate(fn, t, "x"), tables)[0][0] == pytest.approx(wanted)
    assert rows(over(fn, t, "x", "k"), tables)[-1][1] == pytest.approx(wanted)


def test_variance_with_infinity_is_nan() -> None:
    t, tables = table(x=(DOUBLE, [1.0, INF]), k=(BIGINT, [1, 2]))
    np.testing.assert_equal(rows(aggregate("var_pop", t, "x"), tables), [(NAN,)])
    np.testing.assert_equal(rows(over("var_pop", t, "x", "k"), tables), [(1, 0.0), (2, NAN)])


# -- identity and order -------------------------------------------------------------------------------------


def test_nan_is_one_value_and_the_largest() -> None:
    t, tables = table(x=(DOUBLE, [NAN, 1.0, None, NAN, INF, -0.0, 0.0, -INF]))
    x = t.vars[0]
    distinct = p.Distinct(t)
    ascending = p.Sort(distinct, ((x, True, False),))
    np.testing.assert_equal(rows(ascending, tables), [(-INF,), (0.0,), (1.0,), (INF,), (NAN,), (None,)])
    descending = p.Sort(distinct, ((x, False, True),))
    np.testing.assert_equal(rows(descending, tables), [(None,), (NAN,), (INF,), (1.0,), (0.0,), (-INF,)])
    np.testing.assert_equal(rows(aggregate("max", t, "x"), tables), [(NAN,)])
    joined = p.Join("inner", t, p.Scan("t", "t", (Var("y", DOUBLE),)), build.call("=", x, Var("y", DOUBLE)))
    assert len(rows(joined, tables)) == 4 + 4 + 1 + 1 + 1


def test_thirty_days_are_a_month() -> None:
    month, days = pa.MonthDayNano((1, 0, 0)), pa.MonthDayNano((0, 30, 0))
    t, tables = table(i=(INTERVAL, [month, days, None]))
    assert len(rows(p.Distinct(t), tables)) == 2
    i, j = t.vars[0], Var("j", INTERVAL)
    assert len(rows(p.Join("inner", t, p.Scan("t", "t", (j,)), build.call("=", i, j)), tables)) == 4
    assert rows(p.Sort(t, ((i, True, True),)), tables)[0] == (None,)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (VARCHAR, ["Z", "a", "ab", "z", "ä", "€", "😀"]), (BOOLEAN, [False, True]), (REAL, [-1.5, 0.0, 2.5]),
        (DATE, [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
        (HUGEINT, [Decimal(-(10**30)), Decimal(0), Decimal(10**30)]), (BIGINT, [-(2**63), -1, 0, 2**63 - 1]),
    ],
)  # fmt: skip
def test_order_of_each_type(type_: SqlType, values: list[Any]) -> None:
    t, tables = table(a=(type_, [values[-1], None, *values[:-1]]), k=(BIGINT, list(range(len(values) + 1))))
    a = t.vars[0]
    only = p.Project(t, (("v", a),))
    v = Var("v", type_)
    assert rows(p.Sort(only, ((v, True, False),)), tables) == [*((x,) for x in values), (None,)]
    assert rows(p.Sort(only, ((v, False, False),)), tables) == [*((x,) for x in reversed(values)), (None,)]
    assert rows(aggregate("min", t, "a"), tables) + rows(aggregate("max", t, "a"), tables) == [
        (values[0],), (values[-1],)
    ]  # fmt: skip
    assert rows(over("min", t, "a", "k"), tables)[-1][1] == values[0]


def test_a_plain_query_keeps_the_order_of_rows() -> None:
    t, tables = table(a=(BIGINT, list(range(2000))), b=(BIGINT, [i % 7 for i in range(2000)]))
    kept = p.Filter(t, build.call("=", t.vars[1], Const(3, BIGINT)))
    assert [a for a, _ in rows(kept, tables)] == list(range(3, 2000, 7))
    assert rows(p.Limit(p.Sort(t, ((t.vars[1], True, False),)), 3, 1), tables) == [(7, 0), (14, 0), (21, 0)]


# -- size ---------------------------------------------------------------------------------------------------


def test_a_large_product_is_looked_at_in_chunks() -> None:
    """All pairs of 3,000 rows with themselves would take 144 MB at once."""
    t, tables = table(a=(BIGINT, list(range(3_000))))
    a, b = t.vars[0], Var("b", BIGINT)
    close = build.conjunction(
        [build.call("<", a, b), build.call("<", build.call("-", b, a), Const(2, BIGINT))]
    )
    pairs = p.Join("inner", t, p.Scan("t", "t", (b,)), close)
    one = p.Aggregate(pairs, (), (("n", p.AggregateCall("count")),), False)
    tracemalloc.start()
    assert rows(one, tables, chunk=1 << 16) == [(2_999,)]
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_no_columns() -> None:
    t, tables = table(a=(BIGINT, [1, 2]))
    asked = p.ExistsSubquery(p.Filter(p.Single(), build.call("=", t.vars[0], Const(1, BIGINT))))
    assert rows(p.Project(t, (("v", asked),)), tables) == [(True,), (False,)]
