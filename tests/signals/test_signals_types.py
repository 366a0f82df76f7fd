"""Payload types that users define: hours on a clock with a weight, whose arithmetic is that of no number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

import everfresh as ef
from everfresh import signals as s
from everfresh.testing.engine.suite_base import refused

Value = tuple[float, float]


def plus(a: Any, b: Any) -> Any:
    return (a[0] + b[0]) % 12.0, np.maximum(a[1], b[1])


def minus(a: Any, b: Any) -> Any:
    return (a[0] - b[0]) % 12.0, np.minimum(a[1], b[1])


def times(a: Any, b: Any) -> Any:
    return (a[0] * b[0]) % 12.0, a[1] * b[1]


def scale(by: float, a: Any) -> Any:
    return (by * a[0]) % 12.0, a[1]


CLOCK = s.PayloadType("clock", (0.0, -1.0), plus, minus, times, scale)
READ = s.reading("a", time="t", key="k", value=("h", "w"), type=CLOCK)
GRID = READ.as_uniform(1)
ROWS = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(-5, 20)),
    st.tuples(st.integers(0, 11), st.integers(0, 5)),
    max_size=30,
)


def table(rows: dict[tuple[int, int], Value]) -> pa.Table:
    listed = sorted(((k, t, float(h), float(w)) for (k, t), (h, w) in rows.items()), key=lambda row: row[1])
    columns = zip(*listed, strict=True) if listed else ((), (), (), ())
    types = (pa.int64(), pa.int64(), pa.float64(), pa.float64())
    return pa.table({n: pa.array(c, t) for n, c, t in zip(("k", "t", "h", "w"), columns, types, strict=True)})


def by_hand(rows: dict[tuple[int, int], Value], name: str) -> dict[tuple[int, int], Value]:
    taps = (1.0, 2.0, 3.0)
    found: dict[tuple[int, int], Value] = {}
    for (k, t), value in rows.items():
        if name == "fir":
            total: Any = CLOCK.zero
            for i in (2, 1, 0):
                total = plus(total, scale(taps[i], rows[k, t - i]) if (k, t - i) in rows else CLOCK.zero)
            found[k, t] = total
        elif name == "sum" and all((k, t - i) in rows for i in range(3)):
            total = CLOCK.zero
            for i in (2, 1, 0):
                total = plus(total, rows[k, t - i])
            found[k, t] = total
        elif name == "twice":
            found[k, t] = plus(value, scale(2.0, value))
        elif name == "lag" and (k, t - 1) in rows:
            found[k, t] = minus(times(value, rows[k, t - 1]), value)
    if name in ("line", "parabola", "user"):
        for k in {k for k, _ in rows}:
            between(found, k, {t: value for (g, t), value in sorted(rows.items()) if g == k}, name)
    if name in ("iir", "sos", "forgetful"):
        for k in {k for k, _ in rows}:
            filtered(found, k, {t: value for (g, t), value in sorted(rows.items()) if g == k}, name)
    return found


def between(found: dict[tuple[int, int], Value], k: int, values: dict[int, Value], name: str) -> None:
    """Beats are even; references are at most 6 ticks apart, three of them at most 6 as well."""
    at = list(values)
    for r, value in values.items():
        if r % 2 == 0:
            found[k, r] = value
    for i, (r, s_) in enumerate(itertools.pairwise(at)):
        for t in range(r + 1, s_):
            if t % 2 or s_ - r > 6:
                continue
            v, w = values[r], values[s_]
            if name == "parabola" and i > 0 and s_ - at[i - 1] <= 6:
                q = at[i - 1]
                parts = (
                    (float((t - r) * (t - s_)) / float((r - q) * (s_ - q)), values[q]),
                    (-float((t - q) * (t - s_)) / float((r - q) * (s_ - r)), v),
                    (float((t - q) * (t - r)) / float((s_ - q) * (s_ - r)), w),
                )
                one, two, three = (scale(by, x) for by, x in parts)
                found[k, t] = plus(plus(one, two), three)
            elif name == "user":
                found[k, t] = plus(v, w)
            else:
                found[k, t] = plus(v, scale((t - r) / (s_ - r), minus(w, v)))


def filtered(found: dict[tuple[int, int], Value], k: int, values: dict[int, Value], name: str) -> None:
    sections = [SECTION, SECTION] if name == "sos" else [SECTION]
    state: list[list[Any]] = [[CLOCK.zero] * 3 for _ in sections]
    last = min(values)
    for t in range(min(values), max(values) + 1):
        if t not in values and name == "forgetful":
            state = [[CLOCK.zero] * 3 for _ in sections]
            continue
        x: Any = values.get(t, CLOCK.zero)
        for z, (b0, b1, b2, _, a1, a2) in zip(state, sections, strict=True):
            y = plus(scale(b0, x), z[0])
            z[0] = minus(plus(scale(b1, x), z[1]), scale(a1, y))
            z[1] = minus(plus(scale(b2, x), z[2]), scale(a2, y))
            x = y
        last = t
        if t in values:
            found[k, last] = x


SECTION = (1.0, 0.5, 0.25, 1.0, -0.5, 2.0)
QUERIES = {
    "line": READ.sample(2, interpolate=s.first_order(6)),
    "parabola": READ.sample(2, interpolate=s.second_order(6)),
    "user": READ.sample(2, interpolate=s.user(lambda v, r, w, u, t: plus(v, w), window=6)),
    "iir": GRID.filter_iir(SECTION[:3], SECTION[3:]),
    "forgetful": GRID.filter_iir(SECTION[:3], SECTION[3:], missing="skip"),
    "sos": GRID.filter_sos([SECTION, SECTION]),
    "fir": GRID.filter_fir([1.0, 2.0, 3.0]),
    "sum": GRID.sum(3, 1),
    "twice": GRID + 2.0 * GRID,
    "lag": GRID * GRID.shift(1) - GRID,
}


@given(rows=ROWS, name=st.sampled_from(sorted(QUERIES)), cuts=st.lists(st.integers(0, 30), max_size=2))
def test_operations_use_the_arithmetic_of_the_type(rows: Any, name: str, cuts: list[int]) -> None:
    given, query = table(rows), QUERIES[name]
    found = query.run(given)
    mine = {(k, t): (h, w) for k, t, h, w in zip(*found.to_pydict().values(), strict=True)}
    wanted = {key: tuple(map(float, value)) for key, value in by_hand(rows, name).items()}
    assert mine.keys() == wanted.keys()
    for key, value in mine.items():
        turned = np.abs(np.array(value) - wanted[key])  # 12 and nearly 12 are as good as 0
        assert max(min(turned[0], 12.0 - turned[0]), turned[1]) < 1e-9
    pipeline = s.Pipeline(query.node, {"a": given.schema})
    parts = []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(given)], strict=True):
        parts.append(pipeline.step({"a": given.slice(start, stop - start)}))
        pipeline.commit()
    parts.append(pipeline.step(advance={"a": None}))
    order = [("k", "ascending"), ("t", "ascending")]
    assert pa.concat_tables(parts).sort_by(order).equals(found.sort_by(order))


def test_they_are_kept_in_views_and_as_text(tmp_path: Any) -> None:
    query = str(GRID + GRID)
    functions = {f.__name__: f for f in (plus, minus, times, scale)}
    assert s.parse(query, functions) == (GRID + GRID).node
    for _ in range(2):
        with ef.connect(tmp_path / "db", engine="local") as db:
            if not db.tables:
                db.sql("CREATE TABLE a (k BIGINT, t BIGINT, h DOUBLE, w DOUBLE)")
                read = db.signal("a", time="t", key="k", value=("h", "w"), type=CLOCK)
                read.sample(2, interpolate=s.last(8)).sum(2, 1).create_view("v")
            at = 10 * db.epoch
            db.apply(a=[(1, at, 11.0, 1.0), (1, at + 2, 3.0, 4.0)])
            assert {"k": 1, "t": at + 2, "h": 2.0, "w": 4.0} in db.view("v").to_pylist()
            assert db.view("v").verify().num_rows == 0


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: READ.sample(2, interpolate=s.constant(0.0, 4)), "constant()"),
        (lambda: GRID.filter(lambda x, y: x[-1], 1), "filter()"),
        (lambda: GRID.mean(2, 1), "mean()"),
        (lambda: GRID + 1.0, "a sum with a number"),
        (
            lambda: GRID + s.reading("a", time="t", key="k", value=("h", "w")).as_uniform(1),
            "'clock' and 'numbers'",
        ),
        (lambda: s.reading("a", time="t", key="k", value="h", type=CLOCK).as_uniform(1), "has 2 numbers"),
        (lambda: GRID.window(2, 1), "2 components"),
    ],
)
def test_what_needs_numbers_is_refused(make: Any, what: str) -> None:
    with refused(ef.Code.SIG_TYPE, what):
        make().run(table({}))


def test_a_long_pause_is_a_power_of_the_step() -> None:
    """Of numbers in disguise: as SciPy has it; more beats are missing than are made one by one."""
    pair = s.PayloadType(
        "pair", (0.0, 0.0),
        plus=lambda a, b: (a[0] + b[0], a[1] + b[1]), minus=lambda a, b: (a[0] - b[0], a[1] - b[1]),
        times=lambda a, b: (a[0] * b[0], a[1] * b[1]), scale=lambda x, a: (x * a[0], x * a[1]),
    )  # fmt: skip
    b, a = [1.0, 0.3], [1.0, -0.99999, 0.0]
    rows = pa.table(
        {"t": [0, 5, 6, 9000, 9001], "h": [1.0, 2.0, -1.0, 0.5, 0.25], "w": [0.0, 1.0, 3.0, 2.0, 1.0]}
    )
    grid = s.reading("a", time="t", value=("h", "w"), type=pair).as_uniform(1)
    found = grid.filter_iir(b, a).run(rows)
    for name in ("h", "w"):
        line = np.zeros(9002)
        line[rows["t"].to_numpy()] = rows[name].to_numpy()
        wanted = signal.lfilter(b, a, line)[rows["t"].to_numpy()]
        np.testing.assert_allclose(found[name].to_numpy(), wanted, rtol=1e-9)


def test_what_a_function_gives_is_checked() -> None:
    wrong = s.PayloadType("wrong", (0.0, 0.0), lambda a, b: a[0], minus, times, scale)
    grid = s.reading("a", time="t", key="k", value=("h", "w"), type=wrong).as_uniform(1)
    with refused(ef.Code.SIG_SIZE, "plus of the payload type 'wrong'"):
        (grid + grid).run(table({(1, 1): (1.0, 1.0), (1, 2): (1.0, 1.0), (1, 3): (1.0, 1.0)}))
