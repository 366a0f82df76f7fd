"""Signal views in a database: the suite of domains, and views beside their twins under random events."""

from __future__ import annotations

import datetime as dt
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from signal_cases import VALUES, grouped, near

import everfresh as ef
from everfresh import signals as s
from everfresh.local.store.codec import Codec
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused


def spread(windows: Any) -> Any:
    return windows.max(axis=1) - windows.min(axis=1)


class SignalSuite(DomainSuite):
    """Views of a table and of a SQL view, with late, deleted and changed events."""

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        db.sql(
            "CREATE TABLE r (k INT, t BIGINT, value DOUBLE, note VARCHAR, PRIMARY KEY (k, t));"
            "CREATE MATERIALIZED VIEW high AS SELECT t, MAX(value) AS top FROM r GROUP BY t"
        )
        db.apply(r=[(k, 5 * t, float(k * t % 7), None) for k in range(3) for t in range(8)])
        read = db.signal("r", time="t", key="k", late="revise")
        smooth = read.sample(5, interpolate=s.first_order(window=20))
        smooth.filter_fir([0.5, 0.25, 0.25]).create_view("smooth")
        smooth.window(4, 2, missing="zero").reduce(spread).create_view('spread of "r"/4')
        db.signal("smooth").window(4, 3).taper("hann").fft().create_view("spectra")
        left = db.signal("r", time="t", key="k", late="drop", lateness=10)
        left.sample(5).sum(3, 1, missing="zero").create_view("sums")
        top = db.signal("high", time="t", value="top", late="revise")
        top.sample(10, interpolate=s.last(window=30, causal=True)).filter_iir([1.0], [1.0, -0.5]).create_view(
            "top"
        )

    def remake(self, db: ef.Database, name: str) -> None:
        db.signal("r", time="t", key="k").create_view(name)

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        rows = {(row["k"], row["t"]): row["value"] for row in db.table("r").to_pylist()}
        last = max((t for _, t in rows), default=0)
        free = [
            (k, t)
            for k in range(5)
            for t in range(max(0, last - 30), last + 40)
            if (k, t) not in rows and (t > last or rng.random() < 0.05)
        ]
        new = rng.sample(free, 1 + rng.randrange(12))
        gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(3)))
        kept = sorted(set(rows) - set(gone))
        other = rng.sample(kept, min(len(kept), rng.randrange(3)))
        column, value = rng.choice([("value", rng.random()), ("note", "y")])
        delta = ef.Delta(
            inserts=[(k, t, rng.choice([0.5, rng.random(), float(t)]), "x") for k, t in new],
            deletes=[{"k": k, "t": t} for k, t in gone],
            updates=[{"k": k, "t": t, column: value} for k, t in other],
        )
        return {"r": delta}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        right = [(9, 1000, 1.0, None)]
        return [
            {"r": [*right, (9, None, 1.0, None)]},
            {"r": right, "smooth": right},
            {"r": right, "nothing": right},
        ]


class TestSignals(SignalSuite):
    """On the local engine."""


TWINS = {
    "sampled": lambda q: q.sample(3, 1, s.first_order(window=12)),
    "filtered": lambda q: q.sample(2, 0, s.second_order(30)).filter_fir([1.0, -2.0, 0.5], missing="skip"),
    "recursive": lambda q: q.sample(4, 1, s.zero_order(20)).filter_iir([1.0, 0.5], [1.0, -0.5]),
    "windows": lambda q: q.sample(2).window(4, 2, missing="zero").taper("hann"),
    "added": lambda q: q.sample(3, 0, s.last(20)).window(4, 3).overlap_add(),
    "sums": lambda q: q.sample(2, 1).sum(5, 3, missing="zero"),
    "first": lambda q: q.sample(2, 1).window(5, 3, missing="zero", align="first").overlap_add(),
    "bins": lambda q: q.sample(2, 0, s.last(9)).window(8, 1).fft(bins=[1], method="sliding"),
    "joined": lambda q: q.sample(3, 0, s.last(20)) + q.sample(3, 0, s.first_order(9)),
}


@given(data=st.data())
def test_views_are_their_twins_whatever_comes_and_goes(data: Any) -> None:
    """Late, deleted, changed and re-inserted events, time that passes, reopened in the middle, views made at
    any moment: rows and watermarks alone say what a view is, in the same bits as one run over the rows."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/db"
        options = ef.Options(durable=False, snapshot_epochs=3)
        db = ef.connect(path, engine="local", options=options)
        db.sql("CREATE TABLE a (k BIGINT, t BIGINT, value DOUBLE, PRIMARY KEY (k, t))")
        rows: dict[tuple[int, int], float] = {}
        made: dict[str, Any] = {}
        for _ in range(data.draw(st.integers(2, 5))):
            name = data.draw(st.sampled_from(sorted(TWINS)))
            if name not in made:
                lateness = data.draw(st.sampled_from([0, 0, 7]))
                read = db.signal("a", time="t", key="k", late="revise", lateness=lateness)
                made[name] = TWINS[name](read)
                made[name].create_view(name)
            times = st.tuples(st.integers(-3, 3), st.integers(-20, 60))
            gone = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True, max_size=4)) if rows else []
            new = data.draw(st.dictionaries(times, VALUES, max_size=12))
            new = {key: value for key, value in new.items() if key not in rows or key in gone}
            for key in gone:
                del rows[key]
            rows.update(new)
            db.apply(
                a=ef.Delta(
                    inserts=[(*k, v) for k, v in new.items()], deletes=[{"k": k, "t": t} for k, t in gone]
                )
            )
            if data.draw(st.booleans()):
                db.advance("a", data.draw(st.one_of(st.integers(-30, 90), st.none())))
            if data.draw(st.booleans()):
                db.close()
                db = ef.connect(path, engine="local", options=options)
            events = [(k, t, t + 1, v) for (k, t), v in sorted(rows.items())]
            for view, query in made.items():
                found = db.view(view)
                near(grouped(found.to_arrow()), query, {"a": events}, found.watermarks, range(-3, 4))
                assert found.verify().num_rows == 0, view
        db.close()


def test_a_revision_decodes_the_rows_of_its_groups_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the types of keys are, NULL among them; the rows of other groups are not looked at."""
    decoded = []

    def decode(codec: Any, words: Any, names: Any = None) -> Any:
        decoded.append(words.shape[1] if names is None else 0)
        return plain(codec, words, names)

    plain = Codec.decode
    monkeypatch.setattr(Codec, "decode", decode)
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, room VARCHAR, k HUGEINT, t BIGINT, value DOUBLE)")
        rows = [(i, None if i % 5 == 4 else f"room {i % 5}", i % 7, i, float(i % 11)) for i in range(3000)]
        db.apply(a=rows)
        for name, key in (("v", "room"), ("w", ("k", "room")), ("x", "k")):
            db.signal("a", time="t", key=key, late="revise").sample(2).sum(3, 1).create_view(name)
        for id in (0, 4):
            decoded.clear()
            db.apply(a=ef.Delta(deletes=[{"id": id}]))
            assert max(decoded) <= 700
            for name in ("v", "w", "x"):
                assert db.view(name).verify().num_rows == 0


def test_what_a_table_of_one_group_and_two_tables_give() -> None:
    """No key, several columns of keys, two tables, names that clash."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (t TIMESTAMP, x DOUBLE); CREATE TABLE b (t TIMESTAMP, x DOUBLE)")
        one, two = (db.signal(name, time="t", value="x").as_uniform("1 s") for name in "ab")
        (one + two).create_view("sum")
        start = dt.datetime(2026, 1, 1)
        times = [start + dt.timedelta(seconds=i) for i in range(4)]
        db.apply(a=[(t, 1.0) for t in times])
        assert len(db.view("sum")) == 0
        db.apply(b=[(t, 2.0) for t in times[:3]])
        assert db.view("sum").to_pylist() == [{"t": t, "x": 3.0} for t in times[:3]]
        db.advance("b", times[3])
        db.apply(b=ef.Delta(deletes=[(times[1], 2.0)]))
        assert [row["t"] for row in db.view("sum").to_pylist()] == [times[0], times[2]]
        assert db.view("sum").verify().num_rows == 0
        db.sql("CREATE TABLE c (room VARCHAR, n INT, t DATE, value DOUBLE)")
        q = db.signal("c", time="t", key=("room", "n")).sample(1, interpolate=s.last(window=3))
        q.create_view("days")
        day = dt.date(2026, 1, 1)
        db.apply(c=[("x", None, day, 1.0), (None, 2, day, 2.0), ("x", None, day + dt.timedelta(2), 4.0)])
        assert db.sql("SELECT room, n, COUNT(*) AS c FROM days GROUP BY room, n ORDER BY c").fetchall() == [
            (None, 2, 1),
            ("x", None, 3),
        ]
        with refused(ef.Code.ARGUMENT, "two columns 'T'"):
            db.signal("a", time="t", value="x").select(T="x").create_view("clash")


def test_late_deleted_and_changed_events_refused() -> None:
    """Each way of not taking them, with its sentence; what was refused left nothing."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t BIGINT, value DOUBLE, PRIMARY KEY (k, t))")
        read = db.signal("a", time="t", key="k", deletes="refuse", lateness=5)
        read.sample(1).create_view("strict")
        db.apply(a=[(1, 10, 1.0), (1, 20, 2.0)])
        with refused(ef.Code.SIG_LATE, "key 1", "at 12, before the watermark 15", "lateness=8"):
            db.apply(a=[(1, 30, 1.0), (1, 12, 3.0)])
        with refused(ef.Code.SIG_DELETE, "key 1", "at 10", "watermark is 15", "deletes='revise'"):
            db.sql("DELETE FROM a WHERE t = 10")
        with refused(ef.Code.SIG_DELETE, "at 10", "is deleted or changed"):
            db.sql("UPDATE a SET value = 9 WHERE t = 10")
        db.sql("UPDATE a SET value = 9 WHERE t = 20")  # it waits, and is no past yet
        assert db.view("strict").to_pylist() == [{"k": 1, "t": 10, "value": 1.0}]
        db.advance("a", 21)
        assert [row["value"] for row in db.view("strict").to_pylist()] == [1.0, 9.0]
        assert db.view("strict").verify().num_rows == 0
        assert db.table("a").to_pylist()[-1]["value"] == 9.0


def test_late_rows_that_are_left_out() -> None:
    """They stay in the table, are listed, are no difference, and may be deleted; a view over the view leaves
    them out as well."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t BIGINT, value DOUBLE)")
        read = db.signal("a", time="t", key="k", late="drop")
        read.sample(1).create_view("v")
        db.apply(a=[(1, 10, 1.0)])
        db.apply(a=[(1, 5, 2.0), (2, 5, 4.0), (2, 11, 3.0)])
        late = db.view("v").late  # type: ignore[attr-defined]
        assert late.to_pylist() == [{"k": 1, "t": 5, "value": 2.0}, {"k": 2, "t": 5, "value": 4.0}]
        assert "2 late rows are left out" in db.view("v").explain()
        db.signal("v").scale(2.0).create_view("twice")
        for name in ("v", "twice"):
            assert len(db.view(name)) == 2, name
            assert db.view(name).verify().num_rows == 0
        db.sql("DELETE FROM a WHERE t = 5 AND k = 1")
        assert len(db.view("v").late) == 1  # type: ignore[attr-defined]
        db.sql("DELETE FROM a WHERE t = 10")
        assert [row["k"] for row in db.view("v").to_pylist()] == [2]
        assert db.statistics()["signal"]["v"]["late"] == 1


def test_rows_behind_retain_go_without_a_trace() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (t BIGINT PRIMARY KEY, value DOUBLE)")
        grid = db.signal("a", time="t", late="revise", retain=40).as_uniform(1)
        grid.filter_fir([1.0, 1.0]).create_view("v")
        db.apply(a=[(t, float(t)) for t in range(0, 200, 2)])
        before = db.view("v").to_pylist()
        db.sql("DELETE FROM a WHERE t < 100")
        assert db.view("v").to_pylist() == before
        assert db.view("v").verify().num_rows == 0
        db.apply(a=[(191, 1000.0)])
        assert {row["t"]: row["value"] for row in db.view("v").to_pylist()}[192] == 1192.0
        assert db.view("v").to_pylist()[:50] == before[:50]
        assert db.view("v").verify().num_rows == 0
        with refused(ef.Code.SIG_DELETE, "at 111", "up to 98 are gone", "longer retain="):
            db.apply(a=[(111, 1.0)])
        with refused(ef.Code.SIG_PERIOD, "retain=40", "without end"):
            grid.filter_iir([1.0], [1.0, 0.5]).create_view("w")


def test_functions_are_found_again(tmp_path: Path) -> None:
    """By module and name, or registered; a lambda without a name is refused where it would be lost."""
    other = s.register("twice", lambda windows: windows * 2.0)
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE a (t BIGINT, value DOUBLE)")
        windows = db.signal("a", time="t").as_uniform(1).window(2, 2)
        with refused(ef.Code.UNSUPPORTED, "<lambda>", "register"):
            windows.map(lambda w: w + 1).create_view("v")
        windows.map(other).reduce(spread).create_view("v")
        db.apply(a=[(t, float(t)) for t in range(4)])
        epoch = db.epoch
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch == epoch
        db.apply(a=[(4, 1.0), (5, 3.0)])
        assert [row["value"] for row in db.view("v").to_pylist()] == [2.0, 2.0, 4.0]


def test_making_a_view_tells_how_far_it_is() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t BIGINT, value DOUBLE)")
        db.apply(a={"k": [0] * 250_000, "t": list(range(250_000)), "value": [1.0] * 250_000})
        heard: list[Any] = []
        db.on_progress(lambda *told: heard.append(told))
        db.signal("a", time="t", key="k").as_uniform(1).sum(10, 10).create_view("v")
        assert [(what, total) for what, _, total in heard] == [("signal view 'v'", 250_000)] * 3
        assert [done for _, done, _ in heard] == sorted({done for _, done, _ in heard})
        assert len(db.view("v")) == 25_000


class Axes:
    """What is drawn, as calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **how: self.calls.append((name, args, how))


def test_spectra_as_rows_and_pictures() -> None:
    """Frequencies are in cycles per second; a sine is where it should be."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t TIMESTAMP, value DOUBLE)")
        read = db.signal("a", time="t", key="k").as_uniform("10 ms")
        read.window(50, 50).fft().create_view("full")
        read.window(50, 50).fft().map(np.abs, size=26, half=True).create_view("half")
        read.create_view("line")
        start = dt.datetime(2026, 1, 1)
        times = [start + dt.timedelta(milliseconds=10 * i) for i in range(150)]
        sine = np.sin(2 * np.pi * 6 * 0.01 * np.arange(150))
        db.apply(a=[(k, t, float(k * x)) for k in (1, 2) for t, x in zip(times, sine, strict=True)])
        for name in ("full", "half"):
            view: Any = db.view(name)
            rows = [row for row in view.spectrum().to_pylist() if row["value"] > 1e-9]
            assert {abs(round(row["frequency"], 9)) for row in rows} == {6.0}
            assert {round(row["value"], 6) for row in rows} == {25.0, 50.0}
            assert len(rows) == 2 * len(view) // (1 if name == "full" else 2)
            axes = Axes()
            view.plot(where={"k": 1}, axes=axes)
            (_, (at, up, values), _), *_ = [call for call in axes.calls if call[0] == "pcolormesh"]
            assert (len(at), up.min()) == (len(view) // 2, 0.0)
            assert up[values.argmax(axis=0)].round(9).tolist() == [6.0] * len(at)
            with refused(ef.Code.ARGUMENT, "several", "where="):
                view.plot(axes=Axes())
        axes = Axes()
        line: Any = db.view("line")
        line.plot(axes=axes)
        assert [how["label"] for name, _, how in axes.calls if name == "plot"] == ["1", "2"]
        with refused(ef.Code.SIG_KIND, "spectrum", "window(size, hop).fft()"):
            line.spectrum()


def backfill(path: str) -> None:
    """What a process does that is killed: make a view of many rows, telling how far it is."""
    with ef.connect(path, engine="local") as db:
        db.on_progress(lambda what, done, total: print(done, flush=True))
        db.signal("a", time="t", key="k").as_uniform(1).sum(10, 1).create_view("v")
        print("made", flush=True)


@pytest.mark.parametrize("after", ["100000", "300000", "made"])
def test_killed_while_a_view_is_made(tmp_path: Path, after: str) -> None:
    """It is not there, or whole; and can be made."""
    path = tmp_path / "db"
    with ef.connect(path, engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t BIGINT, value DOUBLE)")
        db.apply(a={"k": [0] * 300_000, "t": list(range(300_000)), "value": [1.0] * 300_000})
    code = f"import sys; sys.path[:0] = {sys.path!r}\nimport {__name__} as m\nm.backfill({str(path)!r})"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with closing(child.stdout) as said:
        for line in said:
            if line.strip() == after:
                child.send_signal(signal.SIGKILL)
    child.wait()
    with ef.connect(path, engine="local") as db:
        found = [one.name for one in db._engine.objects]
        assert found == (["v"] if after == "made" else found)
        if not found:
            db.signal("a", time="t", key="k").as_uniform(1).sum(10, 1).create_view("v")
        assert len(db.view("v")) == 299_991
        assert db.view("v").verify().num_rows == 0


def test_mistakes() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k INT, t BIGINT, value DOUBLE, x VARCHAR)")
        read = db.signal("a", time="t", key="k")
        read.create_view("v")
        epoch = db.epoch
        wrong: list[tuple[Any, str, tuple[str, ...]]] = [
            (lambda: db.signal("b", time="t"), ef.Code.NOT_FOUND, ("no table or view 'b'",)),
            (lambda: db.signal("a"), ef.Code.ARGUMENT, ("time=",)),
            (lambda: db.signal("v", time="x"), ef.Code.ARGUMENT, ("goes on from the view",)),
            (lambda: read.create_view("a"), ef.Code.EXISTS, ("'a'",)),
            (lambda: read.create_view(""), ef.Code.ARGUMENT, ("no name",)),
            (lambda: s.reading("a", time="t").create_view("w"), ef.Code.ARGUMENT, ("db.signal",)),
            (lambda: db.signal("a", time="t", value="x").create_view("w"), ef.Code.SIG_TYPE, ("'x'",)),
            (lambda: db.signal("a", time="value").create_view("w"), ef.Code.SIG_TYPE, ("times",)),
            (lambda: db.advance("b", 3), ef.Code.NOT_FOUND, ("'b'", "create one first")),
            (lambda: db.advance("a", dt.datetime(2026, 1, 1)), ef.Code.ARGUMENT, ("int64",)),
            (lambda: db.apply(v=[(1, 1, 1.0)]), ef.Code.ARGUMENT, ("takes no rows", "change 'a'")),
            (lambda: db.view("v").explain("json"), ef.Code.ARGUMENT, ("as text",)),
            (lambda: db.sql("DROP TABLE a"), ef.Code.DEPENDENCY, ("read by v",)),
            (lambda: db.sql("DROP TABLE v"), ef.Code.NOT_FOUND, ("signal view",)),
            (lambda: db.apply(a=[(1, 5, 1.0, ""), (1, 5, 2.0, "")]), ef.Code.SIG_OVERLAP, ("[5, 6)",)),
        ]
        for call, code, said in wrong:
            with refused(code, *said):
                call()
        assert (db.epoch, len(db.table("a"))) == (epoch, 0)
        db.apply(a=[(1, 5, 1.0, "")])
        assert len(db.view("v")) == 1
        db.view("v").drop()  # type: ignore[attr-defined]
        db.sql("DROP TABLE a")
