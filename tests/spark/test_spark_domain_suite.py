"""The suite of domains on Spark, on a session that runs its tasks here: in folders and in an object store."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from counters import Counters, Create, Grow
from fake_spark import FakeSession, install
from test_array_domain import ArraySuite
from test_array_view_domain import ArrayViewSuite
from test_chain_of_domains import ChainSuite
from test_crossmatch_domain import CrossmatchViewSuite
from test_domains import CounterSuite, MatrixSuite, TableSuite
from test_fed_arrays import FedArraySuite
from test_signal_domain import SignalSuite

import everfresh as ef
from everfresh.database import connected
from everfresh.epochs import Domain, Published
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.oracle import assert_rows


class OnSpark:
    """How a suite connects; in a process that is killed there is no fixture."""

    session: Any = None
    batches = 4
    kills = 2
    strikes = 6
    strikes_at_ends = 3
    points = ("before-commit", "after-commit", "before-manifest", "after-manifest")

    @pytest.fixture(autouse=True)
    def _session(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        type(self).session = install(monkeypatch)
        yield
        type(self).session = None

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(workers=2, durable=False, snapshots="now").with_(**changes)

    def troubled(self) -> AbstractContextManager[object]:
        session: FakeSession = self.session
        return session.trouble()

    def domains(self, options: ef.Options) -> tuple[Domain, ...]:
        return ef.database.domains_of(options)

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        session: FakeSession = self.session or install(pytest.MonkeyPatch())
        options = kwargs.get("options") or self.options()
        read_only = kwargs.get("read_only", False)
        return connected(path, "spark", session, read_only, options, self.domains(options))  # type: ignore[arg-type]


class TestCounters(OnSpark, CounterSuite):
    def domains(self, options: ef.Options) -> tuple[Domain, ...]:
        return (Counters(options.history),)


class TestViewsOverCounters(OnSpark, CounterSuite):
    """SQL views that read a counter, a table beside it, and one another; a counter that reads one of them."""

    def domains(self, options: ef.Options) -> tuple[Domain, ...]:
        return (Counters(options.history),)

    def make(self, db: ef.Database) -> None:
        super().make(db)
        db.sql("CREATE TABLE beside (n BIGINT PRIMARY KEY, g BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW over AS SELECT n, COUNT(*) AS c FROM told GROUP BY n")
        db.sql(
            "CREATE MATERIALIZED VIEW joined AS "
            "SELECT g, SUM(over.n) AS s FROM over JOIN beside ON over.n = beside.n GROUP BY g"
        )
        db._define("counter", Create("behind", ("over",)))

    def names(self, db: ef.Database) -> list[str]:
        return [*super().names(db), "over", "joined"]

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        told, at = Grow(rng.randrange(3)), db._engine.read("told").column("n")[0].as_py()
        rows = {row["n"] for row in db.table("beside").to_arrow().to_pylist()}
        fresh = {at, at + 1, at + 2} - rows
        own = {"told": told, "beside": [(n, n % 2) for n in sorted(fresh)]}
        return {**super().change(db, rng), **{n: own[n] for n in own if rng.random() < 0.8}}

    def check(self, db: ef.Database) -> None:
        read = db._engine.read
        told = read("told").column("n")[0].as_py()
        assert read("over").to_pylist() == [{"n": told, "c": 1}]
        known = [row["g"] for row in read("beside").to_pylist() if row["n"] == told]
        assert [(r["g"], int(r["s"])) for r in read("joined").to_pylist()] == [(g, told) for g in known]

    def test_what_reads_goes_with_it(self) -> None:
        with self.connect() as db:
            self.make(db)
            with refused(ef.Code.DEPENDENCY, "over"):
                db._drop("told")
            db.sql("CREATE MATERIALIZED VIEW deep AS SELECT n FROM behind")
            db.apply(told=Grow(2))
            assert db._engine.read("deep").to_pylist() == db._engine.read("behind").to_pylist() != [{"n": 0}]
            db._drop("told", cascade=True)
            assert not {"over", "deep"} & set(db.views)
            assert not any(schema.follows for schema in db.catalog.tables.values())


class TestMatrices(OnSpark, MatrixSuite):
    def options(self, **changes: Any) -> ef.Options:
        return super().options(**{"snapshots": "background", **changes})


class TestArrayViews(OnSpark, ArrayViewSuite):
    """Their groups and cells are with the workers, operators behind them, and views of views."""

    batches = 3
    kills = 1
    strikes = 4


class TestFedArrays(OnSpark, FedArraySuite):
    """Tables, SQL views, arrays and their views in one epoch."""

    over = False
    batches = 2
    kills = 1
    strikes = 2


class TestCrossmatchViews(OnSpark, CrossmatchViewSuite):
    """Their points and pairs are with the driver."""

    batches = 3
    kills = 1
    strikes = 4


class TestSignals(OnSpark, SignalSuite):
    """Their state is with the driver."""


class TestChain(OnSpark, ChainSuite):
    """Views of three domains over one another: several jobs, one epoch."""

    def domains(self, options: ef.Options) -> tuple[Domain, ...]:
        return ChainSuite.domains(self, options)


class TestTables(OnSpark, TableSuite):
    def check(self, db: ef.Database) -> None:
        """There is no SQL here: by hand."""
        groups: dict[str, list[int]] = {}
        for row in db.table("t").to_pylist():
            groups.setdefault(row["g"], []).append(row["x"])
        assert_rows(db.view("v"), *((g, sum(xs), len(xs)) for g, xs in groups.items()))
        counted = Counter(len(xs) for xs in groups.values())
        assert_rows(db.view("over"), *counted.items())


class TestArrays(OnSpark, ArraySuite):
    """Chunks with the workers, their catalog with the driver."""


class InObjectStore:
    """The folder of a database is a place in an object store: one for each path."""

    test_killed = None  # what is in memory goes with its process

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        pytest.importorskip("obstore")
        place = f"memory://{uuid.uuid5(uuid.NAMESPACE_URL, str(path)).hex}" if path is not None else None
        return super().connect(place, **kwargs)  # type: ignore[misc,no-any-return]


class TestCountersInAStore(InObjectStore, TestCounters):
    pass


class TestMatricesInAStore(InObjectStore, TestMatrices):
    pass


class TestTablesInAStore(InObjectStore, TestTables):
    pass


class TestArraysInAStore(InObjectStore, TestArrays):
    pass


class Seen(Counters):
    """Keeps what it is told of what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, pa.Table]] = []

    def make(self, name: str, own: Any, inputs: Mapping[str, Published]) -> Any:
        self.seen += [(read, change.table) for read, change in inputs.items()]
        return super().make(name, own, inputs)


def told_of(engine: str, session: Any, whole_bytes: int) -> list[dict[str, Counter[Any]]]:
    """What tables and a view over them publish in some batches."""
    domain, found = Seen(), []
    options = ef.Options(workers=1 if engine == "local" else 3, durable=False, whole_bytes=whole_bytes)
    with connected(None, engine, session, False, options, (domain,)) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DECIMAL(9,2))")
        db.sql("CREATE TABLE u (g VARCHAR, y DOUBLE)")
        db.sql(VIEW)
        with db._lock:
            db._define("counter", Create("c", ("t", "u", "v")))
        for batch in BATCHES:
            domain.seen.clear()
            db.apply(batch)
            told: dict[str, Counter[Any]] = {name: Counter() for name, table in domain.seen if table.num_rows}
            for name, table in domain.seen:
                for *row, weight in zip(*table.to_pydict().values(), strict=True):
                    told[name][tuple(row)] += weight
            found.append(told)
    return found


VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT t.g, k, SUM(y) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g, k
"""
BATCHES: list[dict[str, Any]] = [
    {"t": [(k, f"g{k % 3}", k) for k in range(9)], "u": [("g0", 1.5), ("g0", 1.5), ("g1", None)]},
    {"t": ef.Delta(deletes=[{"k": 4}, {"k": 5}], updates=[(1, "g2", 7)])},
    {"u": ef.Delta(deletes=[("g0", 1.5)], inserts=[("g2", 0.5), ("g2", 0.5)])},
    {"t": ef.Delta(inserts=[(20, None, None)], deletes=[(0, "g0", 0)])},
    {"t": ef.Delta(inserts=[(20, None, 3)], deletes=[(20, None, None)]), "u": [(None, 2.0)]},
]


@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
def test_tables_publish_what_they_do_on_the_local_engine(
    monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    on_spark = told_of("spark", install(monkeypatch), whole_bytes)
    assert on_spark == told_of("local", None, whole_bytes)
    assert [sorted(told) for told in on_spark][:2] == [["t", "u", "v"], ["t", "v"]]
