"""The calls by which queries are made: their names, defaults, and what each kind of signal has."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from signal_cases import events, table

import everfresh as ef
from everfresh import signals as s
from everfresh.errors import Code
from everfresh.signals.domain.signals import DOMAIN
from everfresh.testing.engine.suite_base import refused

GRID = s.reading("a", time="t", key="k").as_uniform(2)
STREAM = s.reading("a", time="t", key="k", end="e", overlap=True)


def test_where_a_reading_begins() -> None:
    """A database and rows at hand take the same words, with the same defaults."""
    wanted = {
        "time": None, "key": None, "value": None, "end": None, "duration": None, "where": None, "lateness": 0,
        "late": "refuse", "deletes": "revise", "order": "table", "idle": None, "nan": "keep", "retain": None,
        "overlap": False,
    }  # fmt: skip
    of = [inspect.signature(each).parameters for each in (ef.connect(engine="local").signal, s.reading)]
    for name, default in wanted.items():
        assert (of[0][name].default, of[0][name].kind) == (default, inspect.Parameter.KEYWORD_ONLY)
        assert name == "time" or of[1][name].default == default


def test_modules_are_reached_from_the_package() -> None:
    assert ef.signals.first_order is s.first_order
    assert ef.kv.Client.__module__ == "everfresh.kv.client"
    assert all(getattr(ef.kv, name) for name in ef.kv.__all__)


@pytest.mark.parametrize("window", ["10 s", dt.timedelta(seconds=10), 10_000])
def test_a_window_of_a_policy_is_a_span_of_time(window: Any) -> None:
    rows = pa.table({"t": pa.array([0, 10_000, 21_000], pa.timestamp("ms")), "value": [0.0, 1.0, 3.0]})
    q = s.reading("a", time="t", unit="ms").sample("5 s", interpolate=s.first_order(window=window))
    assert [t.second for t in q.run(rows)["t"].to_pylist()] == [0, 5, 10]
    assert s.parse(str(q)) == q.node
    back = s.reading("a", time="t", unit="ms").sample("20 s").resample("5 s", interpolate=s.last(window))
    assert back.run(rows).num_rows == 1


def test_windows_that_are_none() -> None:
    with refused(Code.SIG_PERIOD, "window -1 is negative"):
        s.first_order(-1)
    with refused(Code.SIG_PERIOD, "window '5 us' is not a whole number of ticks"):
        s.reading("a", time="t", unit="ms").sample(10, interpolate=s.last("5 us"))
    with refused(Code.ARGUMENT, "is no policy"):
        GRID.resample(3, interpolate=s.first_order)


def test_resampled_by_its_own_policy_or_by_none() -> None:
    rows = pa.table({"t": [0, 10, 30], "value": [0.0, 1.0, 3.0]})
    q = s.reading("a", time="t").sample(10, interpolate=s.first_order())
    assert q.resample(5).run(rows)["value"].to_pylist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert q.resample(5, interpolate=None).run(rows)["t"].to_pylist() == [0, 10, 20, 30]
    assert q.sample(15).run(rows)["t"].to_pylist() == [0, 30]
    assert q.sample(15, interpolate=s.last()).run(rows)["value"].to_pylist() == [0, 1, 3]


@pytest.mark.filterwarnings("error")
def test_quotients() -> None:
    values = np.array([1.0, -3.0, 0.0, np.nan, np.inf])
    by = np.array([3.0, 0.1, 0.0, 1.0, np.inf])
    one, two = (pa.table({"t": range(0, 10, 2), "value": each}) for each in (values, by))
    a, b = (s.reading(name, time="t").as_uniform(2) for name in "ab")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((a / b).run({"a": one, "b": two})["value"], values / by)
        np.testing.assert_array_equal((a / 3).run(one)["value"], values / 3)
        np.testing.assert_array_equal((a / 0).run(one)["value"], values / 0.0)
        np.testing.assert_array_equal((-a).run(one)["value"], -values)
        np.testing.assert_array_equal((a / 2j * (b / 2j)).run({"a": one, "b": two})["value"].chunk(0).storage
            .flatten().to_numpy()[:4], (values / 2j * (by / 2j)).view(float)[:4])  # fmt: skip
    assert s.parse(str(a / 3)) == (a / 3).node


@given(rows=events(intervals=True))
def test_sessions_of_a_stream(rows: Any) -> None:
    """Events may end before those that began before them."""
    longer = [(k, a, b + (a * 7) % 90, v) for k, a, b, v in rows]
    found = STREAM.session(4).run(table(longer))
    wanted = []
    for key in {row[0] for row in longer}:
        open_: list[int] = []
        for _, a, b, _ in sorted((row for row in longer if row[0] == key), key=lambda row: row[1]):
            if open_ and a - open_[1] <= 4:
                open_ = [open_[0], max(open_[1], b), open_[2] + 1]
            else:
                wanted += [(key, *open_[:2], float(open_[2]))] if open_ else []
                open_ = [a, b, 1]
        wanted += [(key, *open_[:2], float(open_[2]))] if open_ else []
    mine = zip(*(found[name].to_pylist() for name in ("k", "t", "end", "count")), strict=True)
    assert sorted(map(str, mine)) == sorted(map(str, wanted))


def test_a_signal_is_a_stream_too() -> None:
    rows = pa.table({"t": [0, 2, 6], "k": [1, 1, 1], "value": [1.0, 2.0, 4.0]})
    grid = s.reading("a", time="t", key="k").as_uniform(2)
    assert grid.to_signal() is grid
    assert grid.until_next(10).run(rows)["end"].to_pylist() == [2, 6, 16]
    assert grid.session(1).run(rows)["count"].to_pylist() == [2, 1]
    found = grid.lifetime(duration=5).aggregate("sum").run(rows)
    assert list(zip(*(found[name].to_pylist() for name in ("t", "end", "value")), strict=True)) == [
        (0, 2, 1.0), (2, 5, 3.0), (5, 6, 2.0), (6, 7, 6.0), (7, 11, 4.0)
    ]  # fmt: skip
    assert grid.lifetime(shift=4) == grid.shift(4)
    covered = grid.anti_join(grid.where("value > 1.5")).run(rows)
    assert covered["t"].to_pylist() == [0]
    stream = s.reading("a", time="t", key="k", overlap=True)
    assert stream.asof_left(grid.where("value < 3")).run(rows)["value_right"].to_pylist() == [1, 2, 2]


def test_a_reference_by_its_name() -> None:
    db = ef.connect(engine="local")
    db.sql("CREATE TABLE readings (id BIGINT, t BIGINT, value DOUBLE)")
    db.sql("CREATE TABLE rooms (id BIGINT PRIMARY KEY, gain DOUBLE, name VARCHAR, size INT)")
    db.apply(readings=[(1, 0, 2.0), (2, 0, 3.0)], rooms=[(1, 10.0, "a", 5)])
    joined = db.signal("readings", time="t", key="id").join("rooms", on="id")
    joined.select(value="gain * value + size").create_view("v")
    assert db.view("v").to_pylist() == [{"id": 1, "t": 0, "value": 25.0}]
    same = db.signal("readings", time="t", key="id").join("rooms", kind="left")
    same.create_view("w")
    assert len(db.view("w")) == 2
    with refused(Code.ARGUMENT, "join(on='x')", "('id',)"):
        db.signal("readings", time="t", key="id").join(db.reference("rooms", key="id", value="gain"), on="x")
    with refused(Code.NOT_FOUND, "nowhere"):
        db.signal("readings", time="t", key="id").join("nowhere")


def test_verify_by_bits_or_nearly() -> None:
    db = ef.connect(engine="local")
    db.sql("CREATE TABLE readings (t BIGINT, value DOUBLE)")
    db.signal("readings", time="t").as_uniform(2).create_view("v")
    db.apply(readings=[(0, 2.0), (2, 3.0)])
    assert db.view("v").verify(bits=True).num_rows == db.view("v").verify(bits=False).num_rows == 0
    view = db._domain(DOMAIN).view("v")
    for moved, differ in ((1e-13, 0), (1.0, 2)):
        rows = view.rows
        view.parts = (rows.set_column(1, "value", pa.array([2.0 + moved, 3.0])),)
        assert db.view("v").verify().num_rows == 2
        assert db.view("v").verify(bits=False).num_rows == differ


@pytest.mark.filterwarnings("error")
def test_values_that_are_infinite_are_values() -> None:
    """They pass by every operation without a word."""
    value = [1.0, np.inf, -np.inf, 1e308, 1e308, np.nan, 0.0, np.inf, 3.0, 4.0]
    rows = pa.table({"t": range(0, 20, 2), "k": [1] * 10, "value": value})
    for made in (
        GRID - GRID.shift(2), GRID / GRID, GRID * 1e300, GRID.scale(0.0, np.inf),
        GRID.sum(3, 1), GRID.power(3, 1),
        GRID.filter_fir([1.0, -1.0], tail=True),
        GRID.filter_iir([1.0], [1.0, -2.0]), GRID.correlate([1.0, 1j]),
        GRID.window(4, 2).taper("hann").fft().ifft().unwindow("sum", normalize=True),
        GRID.window(4, 2).autocorrelate().reduce(_first), GRID.select(value="value * value"),
        GRID.resample(1, interpolate=s.second_order()), GRID.resample_poly(2, 1, [1.0, -1.0]),
        GRID.window(4, 1).fft(bins=[0, 1], method="sliding").reduce(_first), GRID.where("value > 1"),
    ):  # fmt: skip
        assert made.run(rows).num_rows > 0


def _first(windows: Any) -> Any:
    return np.abs(windows[:, 0]) * 1e308


def test_numbers_of_numpy() -> None:
    """SciPy gives coefficients as arrays, NumPy sizes and periods: a query has plain numbers."""
    from scipy import signal

    n, rows = np.int64, pa.table({"t": range(0, 40, 2), "k": [1] * 20, "value": np.arange(20.0) ** 1.5})
    b, a = signal.butter(3, 0.2)
    x, grid = rows["value"].to_numpy(), s.reading("a", time="t", key="k").as_uniform(n(2))
    np.testing.assert_allclose(grid.filter_iir(b, a).run(rows)["value"], signal.lfilter(b, a, x), atol=1e-12)
    made = [
        grid.filter_iir(b, a),
        grid.filter_sos(signal.butter(4, 0.2, output="sos")),
        grid.filter_fir(b),
        grid.correlate(np.array([1j, 2], np.complex64)),
        grid.scale(np.float32(2), n(1)) + n(3),
        grid * np.float64(2),
        grid.shift(n(2)),
        grid.sum(n(4), n(2)),
        grid.resample(n(4)),
        grid.downsample(n(2), n(1)),
        grid.upsample(n(2)),
        grid.resample_poly(n(2), n(1), b),
        grid.window(n(4), n(2)).multiply(np.ones(4)).fft(bins=np.arange(2)),
        grid.window(n(4), n(2)).unwindow("sum", size=n(4)),
        grid.sample(n(2), interpolate=s.last(n(9))),
        grid.sample(4, interpolate=s.constant(np.float64(1.5), n(9))),
        grid.until_next(n(3)),
        grid.session(n(3)),
        grid.aggregate(s.Aggregate(np.float64(1), _product, name="product"), n(2), n(1)),
    ]
    for q in made:
        assert "np." not in str(q)
        assert s.parse(str(q), {"_product": _product}) == q.node
    spectrum = grid.window(4, 4).multiply([1j, 1, 1, 1]).ifft().map(np.abs)
    assert spectrum.run(rows)["value"].to_pylist()[0] == np.abs(np.fft.ifft(x[:4] * [1j, 1, 1, 1])).tolist()
    for wrong in (
        lambda: grid.window(4.5, 2),
        lambda: grid.sum("4", 2),
        lambda: grid.filter_fir(3.0),
        lambda: grid.filter_fir("ab"),
        lambda: grid.filter_fir([]),
        lambda: grid.filter_iir([1j], [1.0]),
        lambda: grid.filter_iir(b),
        lambda: grid.scale("x"),
        lambda: grid.filter_sos([[1, 2, 3]]),
        lambda: grid.downsample(1.5),
        lambda: grid.window(4, 2).fft(bins=[0.5]),
        lambda: s.constant(1j),
        lambda: grid.filter(_product, forward=1.5),
    ):
        with refused(Code.ARGUMENT):
            wrong()


def _product(state: float, x: float) -> float:
    return state * x
