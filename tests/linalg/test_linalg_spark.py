"""Matrix views on Spark: the suite of databases, blocks on one, two and three workers, programs at random.

Catches blocks that miss a merge, columns that are not those of the rows, files that are removed while they
are needed, and everything that the suite catches on other engines.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linalg_programs import sources, update_batches
from test_linalg_random import run

import everfresh as ef
import everfresh.linalg as la
from everfresh.linalg.spark.ops import Take
from everfresh.testing.matrix_suite import MatrixSuite, close, ols, random

pytestmark = pytest.mark.spark


class SparkMatrices(MatrixSuite):
    workers = 2
    session: Any = None

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _session(cls, spark: Any) -> None:
        cls.session = spark

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="spark", spark=self.session, **{"options": self.options(), **kwargs})

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(workers=self.workers, durable=False).with_(**changes)


class TestSmallMatrices(SparkMatrices):
    """Matrices that are too small to be cut stay with the driver: everything else is as with blocks."""

    options_of_views = la.ViewOptions()


class TestBlocks(SparkMatrices):
    """The dearest tests of the suite only: each product is a job."""

    @pytest.fixture(params=[1, 2, 3])
    def db(self, request: Any) -> Iterator[ef.Database]:
        with self.connect(options=self.options(workers=request.param)) as db:
            yield db


for _name in dir(MatrixSuite):  # what the class above leaves out
    if _name.startswith("test_") and _name not in (
        "test_every_kind_of_update",
        "test_it_is_there_again",
        "test_a_view_that_refuses_holds_back_all",
    ):
        setattr(TestBlocks, _name, None)


@pytest.fixture
def cluster(spark: Any, tmp_path: Path) -> Any:
    """Makes workers that keep their blocks in a folder."""
    from everfresh.linalg.spark.cluster import Cluster

    return lambda workers: Cluster(spark.newSession(), str(tmp_path), workers)


@given(data=st.data(), seed=st.integers(0, 1000), workers=st.sampled_from([1, 2, 3]))
@settings(
    deadline=None, max_examples=6, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_any_program_equals_numpy(cluster: Any, data: Any, seed: int, workers: int) -> None:
    from everfresh.linalg.spark.store import SparkView

    source = data.draw(sources(depth=2))
    made = cluster(workers)

    def view(program: Any, inputs: Any, **how: Any) -> la.MatrixView:
        return SparkView(made, program, inputs, options=la.ViewOptions(distribute=2), **how)

    strategy = data.draw(st.sampled_from(["incremental", "hybrid", "reevaluate"]))
    run(source, data.draw(update_batches(source)), seed, np.array, make=view, strategy=strategy)


@pytest.mark.soak
@given(data=st.data(), seed=st.integers(0, 1000), workers=st.sampled_from([1, 2, 3]))
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
def test_many_programs_equal_numpy(cluster: Any, data: Any, seed: int, workers: int) -> None:
    test_any_program_equals_numpy.hypothesis.inner_test(cluster, data, seed, workers)  # type: ignore[attr-defined]


def test_jobs_and_chains(cluster: Any) -> None:
    """An update of A^4 is one job per matrix that it reads; merges need none, and chains are cut."""
    from everfresh.linalg.spark.store import SparkView

    n, made = 24, cluster(2)
    a = random(0, n, n) / n
    view = SparkView(
        made,
        "P := power(A, 4);",
        {"A": a},
        strategy="incremental",
        model="exponential",
        options=la.ViewOptions(distribute=1, probe_every=1000),
    )
    jobs = []
    for i in range(14):
        u, v = random(2 * i, n, 1) / n, random(2 * i + 1, n, 1)
        before = made.jobs
        view.update(A=la.LowRank(u, v))
        jobs.append(made.jobs - before)
        a = a + u @ v.T
    assert jobs[0] == 3  # A, A^2, and one to read what the check of drift compares
    assert sorted(jobs)[:11] == [2] * 11
    assert max(jobs[1:]) <= 5  # rows written anew, one job for each matrix
    assert close(view.read("P"), np.linalg.matrix_power(a, 4))
    chains = [len(held.blocks.chain) for held in view.state.values()]  # type: ignore[attr-defined]
    assert max(chains) <= 8


def test_a_matrix_is_gathered_from_files(cluster: Any) -> None:
    """However much is in its chain; and no file is left that nobody names."""
    made, a = cluster(2), random(0, 9, 7)
    blocks = made.scatter(a)
    assert np.array_equal(made.gather(blocks), a)
    for i in range(3):
        u, v = random(2 * i, 9, 2), random(2 * i + 1, 7, 2)
        blocks, a = made.plus(blocks, u, v), a + u @ v.T
    before = made.files.names()
    assert close(made.gather(blocks), a)
    assert made.files.names() == before


def test_answers_that_are_missing_are_told(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's driver drops a result that it has no memory for, and reports no error."""
    made = cluster(2)
    blocks = made.scatter(random(0, 4, 4))
    made.run([Take(blocks, "at")], {"at": np.arange(4)})
    whole = made._requests._frame

    class Short:
        def collect(self) -> Any:
            return whole.collect()[:1]

    monkeypatch.setattr(made._requests, "_frame", Short())
    with pytest.raises(ef.EverfreshError, match="1 of 2 workers answered") as e:
        made.run([Take(blocks, "at")], {"at": np.arange(4)})
    assert e.value.code == "environment"


def test_an_epoch_that_was_committed_is_there(spark: Any, tmp_path: Path) -> None:
    """A driver that fails right after a commit finds the epoch when it comes back; right before, it does
    not."""
    suite = SparkMatrices()
    suite.session = spark
    suite.options_of_views = la.ViewOptions()
    with suite.connect(tmp_path / "db") as db:
        arrays = suite.regression(db)
    for fault in ("before-commit", "after-commit"):
        failing = suite.connect(tmp_path / "db", options=suite.options(fault=f"{fault}:raise"))
        with failing, pytest.raises(Exception, match=fault):
            failing.apply(X=la.EntryUpdate(0, 0, 7.0))
        if fault == "after-commit":
            arrays["X"][0, 0] = 7.0
        with suite.connect(tmp_path / "db") as db:
            assert close(db.matrix("X").to_numpy(), arrays["X"])
            assert close(db.view("ols").to_numpy(), ols(arrays["X"], arrays["Y"]))  # type: ignore[attr-defined]


def test_files_that_nobody_needs_go(spark: Any, tmp_path: Path) -> None:
    """Snapshots name the files of blocks; what neither the last one nor the state names is removed."""
    suite = SparkMatrices()
    suite.session = spark
    folder = tmp_path / "db" / "matrices"
    with suite.connect(tmp_path / "db", options=suite.options(snapshot_epochs=3)) as db:
        db.create_matrix("A", random(0, 8, 8) / 8)
        db.create_matrix_view(
            "square", "B := A A;", strategy="reevaluate", options=la.ViewOptions(distribute=1)
        )
        for i in range(7):
            db.apply(A=la.RowUpdate(i, random(i, 8) / 8))
        a = db.matrix("A").to_numpy()
    assert 0 < len(list(folder.glob("*/rows-*.npy"))) <= 12  # of twice nine values of two matrices
    with suite.connect(tmp_path / "db") as db:
        assert close(db.matrix("A").to_numpy(), a)
        assert close(db.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]


def _square(suite: SparkMatrices, path: Path) -> None:
    with suite.connect(path, options=suite.options(snapshot_epochs=1, snapshots="now")) as db:
        db.create_matrix("A", random(0, 8, 8) / 8)
        db.create_matrix_view(
            "square", "B := A A;", strategy="reevaluate", options=la.ViewOptions(distribute=1)
        )


def test_a_reader_whose_files_are_removed_takes_newer_ones(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a reader loads, a writer takes snapshots, and removes the files that the reader was about to
    read: it comes out at the newest epoch, as if it had opened the database then."""
    from everfresh.linalg.spark import store

    suite = SparkMatrices()
    suite.session = spark
    _square(suite, tmp_path / "db")
    a, missed = random(0, 8, 8) / 8, list[str]()
    with suite.connect(tmp_path / "db", options=suite.options(snapshot_epochs=1, snapshots="now")) as writer:

        def late(files: Any, blocks: Any) -> Any:
            if not missed:
                for i in range(3):
                    a[i] = random(i + 1, 8) / 8
                    writer.apply(A=la.RowUpdate(i, a[i]))
            try:
                return assemble(files, blocks)
            except FileNotFoundError as error:
                missed.append(error.filename)
                raise

        assemble = store.assemble
        monkeypatch.setattr(store, "assemble", late)
        with suite.connect(tmp_path / "db", read_only=True) as reader:
            assert missed
            assert reader.epoch == writer.epoch
            assert close(reader.matrix("A").to_numpy(), a)
            assert close(reader.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]


def test_a_file_that_is_missing_for_good_is_named(spark: Any, tmp_path: Path) -> None:
    suite = SparkMatrices()
    suite.session = spark
    _square(suite, tmp_path / "db")
    for path in (tmp_path / "db" / "matrices").glob("*/rows-0001.npy"):
        path.unlink()
    with pytest.raises(
        ef.EverfreshError, match=r"matrix 'A' of the view 'square' is missing.*rows-0001"
    ) as e:
        suite.connect(tmp_path / "db", read_only=True)
    assert e.value.code == "damaged"


CHILD = """
import sys
import numpy as np
import everfresh as ef, everfresh.linalg as la
with ef.connect(sys.argv[1], options=ef.Options(workers=2, snapshot_epochs=4)) as db:
    for i in range(1000):
        r = np.random.default_rng(i)
        db.apply(A=la.LowRank(r.standard_normal((30, 1)) / 300, r.standard_normal((30, 1))))
        print(i, flush=True)
"""


@pytest.mark.slow
def test_a_driver_that_is_killed(spark: Any, tmp_path: Path) -> None:
    suite = SparkMatrices()
    suite.session = spark
    a = random(0, 30, 30) / 30
    with suite.connect(tmp_path / "db") as db:
        db.create_matrix("A", a)
        db.create_matrix_view("square", "B := A A;", options=la.ViewOptions(distribute=10))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(6)]
    child.send_signal(signal.SIGKILL)
    acknowledged = int((said[-1] + child.stdout.read()).split("\n")[-2]) + 1
    child.wait()
    with suite.connect(tmp_path / "db") as db:
        done = db.epoch - 2
        assert acknowledged <= done <= acknowledged + 1
        for i in range(done):
            r = np.random.default_rng(i)
            a = a + r.standard_normal((30, 1)) / 300 @ r.standard_normal((30, 1)).T
        assert close(db.matrix("A").to_numpy(), a)
        assert close(db.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]
