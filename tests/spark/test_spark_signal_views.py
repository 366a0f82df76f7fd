"""Signal views on Spark, their groups with the workers, beside those of one process: the same bits at every
epoch, for any number of workers, whatever comes and goes.

On a session that runs its tasks here; `test_spark_signals.py` has what only Spark itself shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from fake_spark import FakeSession, install
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh import signals as s
from everfresh.database import connected
from everfresh.local.store.codec import Codec
from everfresh.signals.domain.functions import _REGISTERED
from everfresh.testing.engine.suite_base import refused


def spread(windows: Any) -> Any:
    return windows.max(axis=1) - windows.min(axis=1)


TWO = "two"
QUERIES: Mapping[str, Callable[[ef.Database, Mapping[str, Any]], Any]] = {
    "filtered": lambda db, how: read(db, how).sample(3, 1, s.first_order(12)).filter_fir([0.5, 0.25, 1.0]),
    "spectra": lambda db, how: read(db, how).sample(2).window(4, 2, missing="zero").taper("hann").fft(),
    "recursive": lambda db, how: read(db, how).sample(4, 1, s.zero_order(20)).filter_iir([1.0], [1.0, -0.5]),
    "added": lambda db, how: read(db, how).sample(3, 0, s.last(20)).window(4, 3).map(np.abs).overlap_add(),
    "sums": lambda db, how: read(db, how).sample(2, 1).sum(5, 3, missing="zero"),
    "first": lambda db, how: read(db, how).sample(2, 1, s.last(6)).sum(4, 3, missing="zero", align="first"),
    "bins": lambda db, how: (
        read(db, how).sample(2, 0, s.last(9)).window(8, 1).fft(bins=[1], method="sliding")
    ),
    "latest": lambda db, how: read(db, how).sample(2).asof_left(other(db, how).sample(3)),
    "sessions": lambda db, how: read(db, how).session(6),
    "texts": lambda db, how: read(db, how, key=("room", "k")).sample(5).window(2, 1).reduce(spread),
    "one": lambda db, how: db.signal("high", time="t", value="top", **how).sample(
        4, 0, s.last(30, causal=True)
    ),
    TWO: lambda db, how: (
        read(db, how).sample(3, 0, s.last(20)) + other(db, how).sample(3, 0, s.first_order(9))
    ),
    "two keys": lambda db, how: read(db, how).sample(5).plus(read(db, how, key="j").sample(5)),
}


def on_spark(path: str | None, session: Any, options: ef.Options) -> ef.Database:
    return connected(path, "spark", session, False, options, ef.database.domains_of(options))


def read(db: ef.Database, how: Mapping[str, Any], key: Any = "k") -> Any:
    return db.signal("a", time="t", key=key, **how)


def other(db: ef.Database, how: Mapping[str, Any]) -> Any:
    return db.signal("b", time="t", key="k", **how)


def prepare(db: ef.Database) -> None:
    db.sql(
        "CREATE TABLE a (id BIGINT PRIMARY KEY, k INT, j INT, room VARCHAR, t BIGINT, value DOUBLE, "
        "note VARCHAR);"
        "CREATE TABLE b (k BIGINT, t BIGINT, value DOUBLE);"  # no key: rows belong to workers by all columns
        "CREATE MATERIALIZED VIEW high AS SELECT t, MAX(value) AS top FROM a GROUP BY t"
    )


def contents(db: ef.Database, name: str, at: int | None = None) -> list[str]:
    """The rows to the last bit, in no order."""
    return sorted(map(repr, db.view(name).to_arrow(at=at).to_pylist()))


def same(dbs: list[ef.Database], names: list[str], at: int | None = None) -> None:
    first, *others = dbs
    for name in names:
        expected = contents(first, name, at)
        for db in others:
            assert contents(db, name, at) == expected, name
            if at is None:
                assert db.view(name).watermarks == first.view(name).watermarks
                late = [None if d.view(name).late is None else len(d.view(name).late) for d in (first, db)]
                assert late[0] == late[1]


def outcome(change: Callable[..., Any], *given: Any) -> str:
    try:
        change(*given)
    except ef.EverfreshError as error:
        return str(error.code)
    return "done"


@st.composite
def batches(draw: Any, rows: dict[int, tuple[Any, ...]], points: set[Any], number: int) -> dict[str, Any]:
    """Events of both tables; now and then some go or change, and some are late."""
    origin = draw(st.integers(0, 12)) + 9 * number
    new = {}
    for _ in range(draw(st.integers(0, 10))):
        k, t = draw(st.integers(0, 4)), origin + draw(st.integers(0, 20))
        if (k, t) not in points:
            points.add((k, t))
            new[len(points) + 1000 * number] = (
                k,
                k + 10,
                f"room {k % 2}",
                t,
                draw(st.sampled_from([0.5, 2.0, -7.25])),
            )
    gone = draw(st.lists(st.sampled_from(sorted(rows)), unique=True, max_size=2)) if rows else []
    rest = sorted(set(rows) - set(gone))
    noted = draw(st.lists(st.sampled_from(rest), unique=True, max_size=1)) if rest else []
    beside = []
    for k, t in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 25)), max_size=8)):
        if ("b", k, origin + t) not in points:
            points.add(("b", k, origin + t))
            beside.append((k, origin + t, 0.5 * k))
    for id in gone:
        points.discard((rows[id][0], rows[id][3]))
        del rows[id]
    rows.update(new)
    column, value = draw(st.sampled_from([("note", "seen"), ("value", 9.0)]))
    a = ef.Delta(
        inserts=[(id, *row, None) for id, row in new.items()],
        deletes=[{"id": id} for id in gone],
        updates=[{"id": id, column: value} for id in noted],
    )
    return {"a": a, "b": beside} if beside else {"a": a}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_same_bits_as_in_one_process(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers, cuts, late, deleted and changed events, time that passes, views made at any moment, reopened
    with a snapshot or the log alone."""
    workers = data.draw(st.sampled_from([1, 2, 3]))
    how = data.draw(st.sampled_from([{"late": "revise"}, {"late": "drop", "lateness": 4}]))
    session = install(monkeypatch)
    options = ef.Options(workers=workers, durable=False, snapshots="now", snapshot_epochs=4)
    with ExitStack() as stack:
        path = stack.enter_context(TemporaryDirectory())
        local = stack.enter_context(ef.connect(engine="local"))
        spark = on_spark(f"{path}/db", session, options)
        stack.callback(lambda: spark.close())
        for db in (local, spark):
            prepare(db)
        made: list[str] = []
        rows: dict[int, tuple[Any, ...]] = {}
        points: set[Any] = set()
        for number in range(data.draw(st.integers(2, 4))):
            name = data.draw(st.sampled_from(sorted(QUERIES)))
            if name not in made:
                for db in (local, spark):
                    QUERIES[name](db, how).create_view(name)
                made.append(name)
            batch = data.draw(batches(rows, points, number))
            results = [outcome(db.apply, batch) for db in (local, spark)]
            assert results[0] == results[1] == "done"
            if data.draw(st.booleans()):
                table, time = data.draw(st.sampled_from(["a", "b"])), data.draw(st.integers(0, 60))
                told = [outcome(db.advance, table, time) for db in (local, spark)]
                assert told[0] == told[1]
            same([local, spark], made)
            if data.draw(st.booleans()):
                spark.close()
                session.forget()
                spark = on_spark(f"{path}/db", session, options)
        for name in made:
            assert spark.view(name).verify().num_rows == 0, name


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.fixture
def db(session: FakeSession) -> Any:
    options = ef.Options(workers=3, durable=False)
    with on_spark(None, session, options) as found:
        prepare(found)
        yield found


def test_an_epoch_is_one_job_of_two_stages_however_long_the_pipelines(db: Any, session: FakeSession) -> None:
    """Beside that of the tables; one more if groups are computed anew."""

    def spent(change: Callable[[], Any]) -> tuple[int, int]:
        before = session.jobs, session.stages
        change()
        return session.jobs - before[0], session.stages - before[1]

    batch = [(i, i % 7, i, "x", i, 1.0, None) for i in range(100)]
    alone = spent(lambda: db.apply(a=batch))
    less = spent(lambda: db.apply(a=ef.Delta(deletes=[{"id": 90}])))
    grid = db.signal("a", time="t", key="k").sample(7, interpolate=s.first_order(40))
    long = grid.window(8, 4).fft().map(np.abs).ifft().overlap_add().filter_fir([0.5, 0.5]).sum(4, 2)
    assert spent(lambda: long.create_view("long")) == (1, 2)
    assert spent(lambda: grid.create_view("short")) == (1, 2)
    assert spent(lambda: db.advance("a", 101)) == (1, 2)
    more = [(i, i % 7, i, "x", i, 1.0, None) for i in range(101, 200)]
    assert spent(lambda: db.apply(a=more)) == (alone[0] + 1, alone[1] + 2)
    assert spent(lambda: db.apply(a=ef.Delta(deletes=[{"id": 150}]))) == (less[0] + 2, less[1] + 4)
    assert spent(lambda: db.view("long").to_arrow()) == (1, 1)
    assert len(db.view("long")) == db.statistics()["signal"]["long"]["rows"] > 0
    groups = [db._domain("signal").reached[name].sizes["groups"] for name in ("long", "short")]
    assert groups == [7, 7]
    assert "partitioned by key over 3 workers" in db.view("long").explain()


def test_a_revision_decodes_the_rows_of_its_groups_alone(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker those that it has; NULL among keys."""
    decoded = []

    def decode(codec: Any, words: Any, names: Any = None) -> Any:
        decoded.append(words.shape[1] if names is None else 0)
        return plain(codec, words, names)

    plain = Codec.decode
    monkeypatch.setattr(Codec, "decode", decode)
    rooms = [None if i % 5 == 4 else f"room {i % 5}" for i in range(3000)]
    db.apply(a=[(i, i % 7, 0, rooms[i], i, float(i % 11), "") for i in range(3000)])
    for name, key in (("v", "room"), ("w", ("k", "room")), ("x", "k")):
        read(db, {"late": "revise"}, key).sample(2).sum(3, 1).create_view(name)
    for id in (0, 4):
        decoded.clear()
        db.apply(a=ef.Delta(deletes=[{"id": id}]))
        assert 0 < max(decoded) <= 300  # a worker has 1,000 rows, and a fifth of them are of a room
        for name in ("v", "w", "x"):
            assert db.view(name).verify().num_rows == 0


def test_sql_views_over_signal_views(db: Any) -> None:
    """Rows, arrays and complex numbers as SQL sees them; corrections; a signal view over a SQL view of one;
    the same as in one process, in each epoch."""
    with ef.connect(engine="local") as local:
        for each in (local, db):
            if each is local:
                prepare(local)
            grid = read(each, {"late": "revise"}).sample(2, 0, s.last(6))
            grid.sum(3, 1).create_view("sums")
            grid.window(4, 4).fft().create_view("bins")
            each.sql(
                "CREATE MATERIALIZED VIEW largest AS SELECT k, COUNT(*) AS n, MAX(value) AS m FROM sums "
                "GROUP BY k;"
                "CREATE MATERIALIZED VIEW power AS SELECT t, i, SUM(value_re * value_re) AS p FROM bins "
                "GROUP BY t, i;"
                "CREATE MATERIALIZED VIEW both AS SELECT s.k, s.t, b.note FROM sums s JOIN a b "
                "ON s.k = b.k AND s.t = b.t"
            )
            each.signal("power", time="t", key="i", value="p", late="revise").sample(8, 6).create_view(
                "again"
            )
        views = ["sums", "bins", "largest", "power", "both", "again"]
        inserts = [(i, 1 + i % 2, 0, "r", 2 * (i // 2), float(i), f"n{i}") for i in range(40)]
        changes = [
            ef.Delta(inserts=inserts[:14]), ef.Delta(inserts=inserts[14:], deletes=[{"id": 3}]),
            ef.Delta(updates=[{"id": 5, "value": -9.0}]), ef.Delta(deletes=[{"id": 38}, {"id": 39}]),
        ]  # fmt: skip
        for change in changes:
            for each in (local, db):
                each.apply(a=change)
            for name in views:
                assert contents(db, name) == contents(local, name), name
                assert len(contents(db, name)) > 0
        same([local, db], ["sums", "again"], at=local.epoch - 1)


def test_what_is_refused_changes_nothing(db: Any) -> None:
    """A worker's refusal is that of the epoch, with its sentence; the next batch is right."""
    db.apply(a=[(1, 1, 1, "x", 10, 1.0, None), (2, 2, 1, "y", 20, 1.0, None)])
    read(db, {"deletes": "refuse"}).sample(5).create_view("v")
    before, epoch = contents(db, "v"), db.epoch
    with refused(ef.Code.SIG_LATE, "starts at 3", "watermark 20"):
        db.apply(a=[(3, 3, 1, "x", 30, 1.0, None), (4, 4, 1, "x", 3, 1.0, None)])
    with refused(ef.Code.SIG_DELETE):
        db.apply(a=ef.Delta(inserts=[(3, 3, 1, "x", 30, 1.0, None)], deletes=[{"id": 1}]))
    with refused(ef.Code.NULL, "no time"):
        db.apply(a=[(3, 3, 1, "x", None, 1.0, None)])
    assert (contents(db, "v"), db.epoch) == (before, epoch)
    db.apply(a=[(3, 3, 1, "x", 30, 1.0, None)])
    assert db.view("v").verify().num_rows == 0
    assert len(db.view("v")) == 3


def test_functions_travel_with_jobs(db: Any, session: FakeSession) -> None:
    """A process that never heard of a function gets it with the role of the unit; the folder has its name."""
    from pyspark import cloudpickle

    s.register("twice", lambda windows: 2 * windows)
    try:
        read(db, {}).sample(1).window(2, 2).map(_REGISTERED["twice"]).create_view("v")
        domain = db._domain("signal")
        role = domain._role
        packed = cloudpickle.dumps(role)
    finally:
        del _REGISTERED["twice"]
    cloudpickle.loads(packed).make.known()
    assert _REGISTERED.pop("twice")(4) == 8
    assert {name for name, _ in role.make.functions} == {"twice"}


def test_a_view_is_filled_with_progress_and_read_as_a_dataframe(db: Any) -> None:
    """As SQL views are: the rows stay where they are."""
    rng = random.Random(5)
    db.apply(a=[(i, rng.randrange(9), 0, "x", i, rng.random(), None) for i in range(500)])
    told: list[tuple[str, int, int]] = []
    db.on_progress(lambda *some: told.append(some))
    read(db, {}).sample(2).window(2, 2).create_view("v")
    assert {what for what, _, _ in told} == {"signal view 'v'"}
    assert told[-1][1] == told[-1][2]
    frame = db.view("v").to_spark().toArrow()
    assert frame.column_names == ["k", "t", "i", "value"]
    assert sorted(map(repr, frame.to_pylist())) == sorted(map(repr, db._engine.read("v").to_pylist()))


def test_a_view_over_one_that_is_placed_otherwise_is_refused(db: Any) -> None:
    """Late rows of the one below lie with other workers."""
    read(db, {}).sample(5).create_view("v")
    both = db.signal("v").plus(read(db, {}, key="j").sample(5))
    with refused(ef.Code.UNSUPPORTED, "reads a table by two keys"):
        both.create_view("w")
