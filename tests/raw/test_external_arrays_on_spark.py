"""External arrays on Spark: answers equal those over the same cells loaded, wherever they are kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_spark import FakeSession, install
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_files import WRITERS, csv, parquet
from test_external_arrays import QUERIES, SHAPE, answer, loaded, questions, rows

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.raw.cache.eviction import POLICIES
from everfresh.raw.spark.files import HostFiles, memory_root, scratch_root
from everfresh.raw.verbs import domain_of

ARRAYS = [text for text in QUERIES if not text.startswith("SELECT") or "SIMILARITY" in text]
"""What needs no SQL of Spark's own."""
of_arrays = questions.map(lambda asked: (ARRAYS[QUERIES.index(asked[0]) % len(ARRAYS)], asked[1]))


def connect(session: Any, workers: int = 2, path: Any = None) -> ef.Database:
    return ef.connect(path, engine="spark", spark=session, options=ef.Options(workers=workers, durable=False))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def place(db: ef.Database) -> str:
    return str(domain_of(db).cache.about()["place"])  # type: ignore[attr-defined]


def laid_down(db: ef.Database) -> list[int]:
    """The bytes of the files that each worker keeps."""
    folders = [HostFiles(place(db), worker).memory for worker in range(db.cache.options.workers)]
    return [sum(file.stat().st_size for file in folder.glob("*")) for folder in folders]


def files(folder: Path, random: np.random.Generator, counts: list[tuple[int, str]]) -> list[pa.Table]:
    some = [rows(random, count) for count, _ in counts]
    for k, ((_, writer), table) in enumerate(zip(counts, some, strict=True)):
        WRITERS[writer](folder / f"{k}", table)
    return some


@settings(deadline=None, max_examples=12)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 200), st.sampled_from(sorted(WRITERS))), min_size=1, max_size=4),
    st.lists(of_arrays, min_size=1, max_size=6),
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(["dynamic", "static"]),
    st.sampled_from([0, 1500, 4000, 10**6]),
    st.integers(1, 3),
    st.sampled_from([0, 5, 1000]),
    st.booleans(),
)
def test_answers_equal_those_over_loaded_cells(
    seed: int,
    counts: list[tuple[int, str]],
    asked: list[tuple[str, dict[str, int]]],
    policy: str,
    placement: str,
    budget: int,
    workers: int,
    min_cells: int,
    troubled: bool,
) -> None:
    random = np.random.default_rng(seed)
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        ef.connect(engine="local") as here,
        connect(fake := install(patch), workers) as db,
    ):
        some = files(Path(folder), random, counts)
        db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{folder}' (i = x, j = y)")
        for each in (db, here):
            each.sql(f"CREATE ARRAY b <v: INT> {SHAPE}")
            each.apply(b=loaded(some))
        db.cache.configure(budget=budget, policy=policy, placement=placement, min_cells=min_cells)
        for text, numbers in asked:
            expected = answer(here, text.format(a="b", b="b", **numbers))
            fake._troubled = troubled
            assert answer(db, text.format(a="a", b="b", **numbers)) == expected
            fake._troubled = False
            memory = domain_of(db).cache.memory
            assert max(laid_down(db)) <= budget
            assert memory.used() == laid_down(db), "the driver knows what is kept"
            assert db.array("a").verify().num_rows == 0, "every cell is in one box of its file"


def ask(db: ef.Database, low: int = 1, high: int = 60) -> Any:
    return answer(
        db,
        f"SELECT COUNT(*) AS n, SUM(x.v) AS s FROM BETWEEN(a, {low}, 0, {high}, 40) x SIMILARITY JOIN "
        f"BETWEEN(a, {low}, 0, {high}, 40) y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1)",
    )


def created(db: ef.Database, folder: Path, counts: tuple[int, ...] = (50, 60, 70)) -> None:
    files(folder, np.random.default_rng(3), [(count, "parquet") for count in counts])
    db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{folder}' (i = x, j = y)")


def test_what_a_lost_worker_had_is_read_again(session: FakeSession, tmp_path: Path) -> None:
    with connect(session) as db:
        created(db, tmp_path)
        first = ask(db)
        assert ask(db) == first
        assert db.cache.last.bytes_read == 0  # type: ignore[union-attr]
        shutil.rmtree(memory_root() / place(db) / "w1")
        assert ask(db) == first
        lost = db.cache.last.bytes_read  # type: ignore[union-attr]
        assert 0 < lost < sum(file.stat().st_size for file in tmp_path.iterdir())
        assert ask(db) == first
        assert db.cache.last.bytes_read == 0, "it is kept again"  # type: ignore[union-attr]
        kept = next(file for file in (memory_root() / place(db)).rglob("p*"))
        kept.write_bytes(b"")
        assert ask(db) == first, "nor does a damaged file matter"


def test_a_join_brings_pieces_to_where_they_are_kept(session: FakeSession, tmp_path: Path) -> None:
    with connect(session, 3) as db:
        created(db, tmp_path, (60,) * 8)
        ask(db)
        assert db.cache.last.bytes_moved > 0  # type: ignore[union-attr]
        ask(db)
        dynamic = db.cache.last.bytes_moved  # type: ignore[union-attr]
        db.cache.configure(placement="static")
        ask(db)
        ask(db)
        assert dynamic < db.cache.last.bytes_moved  # type: ignore[union-attr]


def test_a_skewed_file_lies_with_several_workers(session: FakeSession, tmp_path: Path) -> None:
    """A piece larger than every budget is kept in parts."""
    with connect(session, 3) as db:
        created(db, tmp_path, (350, 5, 5))
        db.cache.configure(budget=4500, min_cells=10_000)
        first = ask(db)
        assert all(0 < used <= 4500 for used in laid_down(db))
        assert max(len(domain_of(db).cache.memory.parts(n)) for n in domain_of(db).cache.memory) > 1
        assert ask(db) == first
        assert db.cache.last.bytes_read == 0  # type: ignore[union-attr]
        shutil.rmtree(memory_root() / place(db) / "w1")
        assert ask(db) == first
        assert ask(db, 1, 30) == ask(db, 1, 30)


def test_files_that_change_are_refused_and_seen_by_refresh(session: FakeSession, tmp_path: Path) -> None:
    with connect(session) as db:
        created(db, tmp_path)
        ask(db)
        parquet(tmp_path / "0", pa.table({"x": [20], "y": [1.0], "v": [5]}))
        with pytest.raises(EverfreshError) as caught:
            ask(db)
        assert caught.value.code == Code.CHANGED
        db.sql("REFRESH a")
        assert len(db.array("a")) == 131
        assert [Path(p).name for p in db.cache.last.files_read] == ["0.parquet"]  # type: ignore[union-attr]
        (tmp_path / "bad.parquet").write_bytes(b"PAR1 no PAR1")
        with pytest.raises(EverfreshError) as caught:
            db.sql("REFRESH a")
        assert caught.value.code == Code.DAMAGED
        db.array("a").drop()
        made = f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{tmp_path}' (i = x, j = y)"
        db.sql(f"{made} WITH (damaged = 'skip')")
        assert len(db.array("a")) == 131


def test_a_failure_changes_nothing_and_closing_leaves_nothing(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()
    with connect(session, path=tmp_path / "db") as db:
        created(db, tmp_path / "files")
        first = ask(db, 1, 20)
        before = db.cache.explain("json")
        monkeypatch.setattr("everfresh.raw.spark.run.run_job", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(db, 10, 40)
        monkeypatch.undo()
        install(monkeypatch)
        assert db.cache.explain("json") == before
        assert ask(db, 1, 20) == first
        boxes = len(domain_of(db).cache.catalogs["a"].pieces)
        where = place(db)
        db.cache.clear()
        assert laid_down(db) == [0, 0]
        ask(db)
    assert not (memory_root() / where).exists()
    assert not (scratch_root() / where).exists()
    with connect(session, path=tmp_path / "db") as db:
        assert len(domain_of(db).cache.catalogs["a"].pieces) >= boxes
        assert ask(db, 1, 20) == first


def test_workers_are_those_of_the_database(session: FakeSession) -> None:
    with connect(session) as db, pytest.raises(EverfreshError, match="workers of the database: 2"):
        db.cache.configure(workers=3)


@pytest.mark.spark
def test_with_spark_itself(spark: Any, tmp_path: Path) -> None:
    """Processes that share what is kept; SQL over pieces where they are."""
    with connect(spark) as db, ef.connect(engine="local") as here:
        some = files(tmp_path, np.random.default_rng(7), [(60, "fits"), (50, "csv_gz"), (40, "parquet")])
        db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{tmp_path}' (i = x, j = y)")
        here.sql(f"CREATE ARRAY a <v: INT> {SHAPE}")
        here.apply(a=loaded(some))
        db.cache.configure(budget=20_000, min_cells=10)
        numbers = {"i": 5, "j": 3, "k": 40, "m": 30, "a": "a", "b": "a"}
        for query in (0, 9, 9, 8, 3):
            text = QUERIES[query].format(**numbers)
            assert answer(db, text) == answer(here, text)
            assert domain_of(db).cache.memory.used() == laid_down(db)
        assert db.cache.last.hits > 0  # type: ignore[union-attr]


@pytest.mark.soak
def test_two_hundred_queries_stay_within_the_budgets(session: FakeSession, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    some = files(tmp_path, random, [(2000, "csv"), *((200, w) for w in sorted(WRITERS))])
    with connect(session, 3) as db, ef.connect(engine="local") as here:
        db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{tmp_path}' (i = x, j = y)")
        here.sql(f"CREATE ARRAY a <v: INT> {SHAPE}")
        here.apply(a=loaded(some))
        db.cache.configure(budget=12_000, min_cells=30)
        for _ in range(200):
            i, j = random.integers(1, 50), random.integers(0, 35)
            numbers = {"i": i, "j": j, "k": i + random.integers(0, 12), "m": j + random.integers(0, 8)}
            text = ARRAYS[random.integers(len(ARRAYS))].format(a="a", b="a", **numbers)
            assert answer(db, text) == answer(here, text)
            assert max(laid_down(db)) <= 12_000


MEMORY = """
import json, resource, sys
from pyspark.sql import SparkSession
import everfresh as ef

times, folder = int(sys.argv[1]), sys.argv[2]
session = (
    SparkSession.builder.master("local-cluster[2,1,512]").config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m").config("spark.log.level", "ERROR")
    .config("spark.ui.showConsoleProgress", "false").getOrCreate()
)
jvm = session._jvm
heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
with ef.connect(engine="spark", spark=session, options=ef.Options(workers=2, durable=False)) as db:
    db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> [i=0,3999,500; j=0,3999,500] FROM '{folder}'")
    db.cache.configure(budget=100_000_000, min_cells=400 * times)
    used = []
    for k in range(6):
        box = f"BETWEEN(a, {500 * k}, 300, {500 * k + 1200}, 3600)"
        db.sql(
            f"SELECT COUNT(*) AS n FROM {box} x SIMILARITY JOIN {box} y ON (y.i = x.i AND y.j = x.j) "
            "WITH SHAPE LINF(1)"
        ).to_pylist()
        jvm.java.lang.System.gc()
        used.append(heap.getHeapMemoryUsage().getUsed())
    print(json.dumps({
        "python": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "heap": max(used),
        "pieces": db.statistics()["raw"]["a"]["pieces"], "hits": db.cache.last.hits,
    }), flush=True)
session.stop()
"""


@pytest.mark.spark
@pytest.mark.soak
def test_cells_are_with_the_workers(tmp_path: Path) -> None:
    """Ten times the cells at the same places: the driver's process and its heap stay as they are."""
    random, found = np.random.default_rng(1), []
    places = [random.integers(0, 4000, (15_000, 2)) for _ in range(20)]
    for times in (1, 10):
        folder = tmp_path / f"files{times}"
        folder.mkdir()
        for k, cells in enumerate(places):
            i, j = np.repeat(cells, times, axis=0).T
            csv(folder / f"{k}", pa.table({"i": i, "j": j, "v": np.arange(len(i)) % 9}))
        command = [sys.executable, "-c", MEMORY, str(times), str(folder)]
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        (told,) = [line for line in ran.stdout.splitlines() if line.startswith('{"python"')]
        found.append(json.loads(told))
    few, more = found
    assert few["pieces"] == more["pieces"], "the boxes are the same"
    assert min(few["hits"], more["hits"]) > 0
    assert more["python"] < 1.1 * few["python"], found
    assert more["heap"] < 1.1 * few["heap"], found
