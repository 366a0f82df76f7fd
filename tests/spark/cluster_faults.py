"""Faults that need a cluster: executors die in the middle of a batch, and a slow task gets a twin elsewhere.

Run with `--spark cluster`, by `tests/engines/test_spark_cluster.py`. Whatever happens, every batch is one
epoch, and the views are those of their tables (`assert_exact`).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from fault_workload import BATCHES, DDL, DDL_EPOCHS, assert_exact, forget_caches, more_batches, send

import everfresh as ef
from everfresh.state import InjectedFault

pytestmark = pytest.mark.spark

STAGES = {"base": "after-apply", "maps": "before-yield"}
"""A point that only tasks of that stage pass."""


@pytest.fixture
def path(spark: Any, tmp_path: Path) -> Path:
    """A database with its first batch in it, and no process that has its state."""
    found = tmp_path / "db"
    with ef.connect(found, spark=spark) as db:
        db.sql(DDL)
        send(db, BATCHES[:1])
    forget_caches(spark)
    return found


def executors(spark: Any) -> list[psutil.Process]:
    """The executors of the session, by their host."""
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        ours = spark.sparkContext.applicationId in command
        if ours and any("CoarseGrainedExecutorBackend" in word for word in command):
            found.append((command[command.index("--hostname") + 1], process))
    return [process for _, process in sorted(found, key=lambda item: item[0])]


class Killer(threading.Thread):
    """Kills an executor once a task has reached the fault it sleeps at."""

    def __init__(self, spark: Any, path: Path, point: str, victim: int) -> None:
        super().__init__(daemon=True)
        self.killed = 0
        self._flag = path / "inbox" / f"fault-{point}-0"
        self._victim = executors(spark)[victim]

    def run(self) -> None:
        until = time.monotonic() + 120
        while not self._flag.exists():
            if time.monotonic() > until:
                return
            time.sleep(0.05)
        self._victim.kill()
        self.killed += 1


def apply_while_killing(spark: Any, path: Path, batch: int, batches: list[ef.Delta], **how: Any) -> None:
    """Send one batch while an executor is killed; both executors are there again afterwards."""
    point = STAGES[how["stage"]]
    for flag in (path / "inbox").glob("fault-*"):
        flag.unlink()
    options = ef.Options(fault=f"{point}:sleep=3:{how['unit']}:1")
    with ef.connect(path, spark=spark, options=options) as db:
        killer = Killer(spark, path, point, how["victim"])
        killer.start()
        send(db, batches[batch : batch + 1], batch)
        killer.join(130)
    assert killer.killed == 1, "no task came to where the executor is killed"
    until = time.monotonic() + 240
    while len(executors(spark)) < 2 and time.monotonic() < until:
        time.sleep(0.1)


LONG = pytest.mark.soak


@pytest.mark.parametrize(
    ("stage", "victim"),
    [
        ("base", 0),
        pytest.param("maps", 1, marks=LONG),
        pytest.param("base", 1, marks=LONG),
        pytest.param("maps", 0, marks=LONG),
    ],
)
def test_an_executor_is_killed_in_the_middle_of_a_batch(
    spark: Any, path: Path, stage: str, victim: int
) -> None:
    """One of the two has the task that sleeps, and each has a part of what the second stage reads."""
    apply_while_killing(spark, path, 1, BATCHES, stage=stage, unit=1, victim=victim)
    with ef.connect(path, spark=spark) as db:
        send(db, BATCHES)  # all of them again: two are there
    assert_exact(path, spark, BATCHES)


def twins(spark: Any) -> int:
    """How many second copies of tasks the session has run."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = [store.speculationSummary(stage, 0) for stage in range(1000)]
    return sum(int(one.get().numTasks()) for one in found if one.isDefined())


@pytest.mark.parametrize("stage", ["base", pytest.param("maps", marks=LONG)])
def test_a_slow_task_is_overtaken_by_its_twin(spark: Any, path: Path, stage: str) -> None:
    before = twins(spark)
    with ef.connect(path, spark=spark, options=ef.Options(fault=f"{STAGES[stage]}:sleep=60:1:1")) as db:
        send(db, BATCHES[:2])
    assert twins(spark) > before
    with ef.connect(path, spark=spark) as db:
        send(db, BATCHES)
    assert_exact(path, spark, BATCHES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_faults_in_any_order(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    batches, path = more_batches(24), tmp_path / "db"
    with ef.connect(path, spark=spark) as db:
        db.sql(DDL)
    for number in range(len(batches)):
        match rng.choice(["task", "executor", "driver", "twice", "twin", "cold"]):
            case "task":
                point = rng.choice(["opened", "mid-apply", "after-apply", "mid-write", "after-write"])
                fault = f"{point}:{rng.choice(['raise', 'exit'])}:{rng.randrange(2)}:{rng.choice([1, 2, 3])}"
            case "executor":
                stage = rng.choice(["base", "maps"])
                how = {"stage": stage, "unit": rng.randrange(2), "victim": rng.randrange(2)}
                apply_while_killing(spark, path, number, batches, **how)
                continue
            case "driver":
                point = rng.choice(["after-collect", "before-commit", "mid-commit", "after-commit"])
                options = ef.Options(fault=f"{point}:raise:*:1")
                with ef.connect(path, spark=spark, options=options) as db, pytest.raises(InjectedFault):
                    send(db, batches[number : number + 1], number)
                fault = None
            case "twice":
                with ef.connect(path, spark=spark) as db:
                    send(db, batches[number : number + 1], number)
                fault = None
            case "twin":
                fault = f"{STAGES[rng.choice(['base', 'maps'])]}:sleep=8:{rng.randrange(2)}:1"
            case _:
                forget_caches(spark)
                fault = None
        for flag in (path / "inbox").glob("fault-*"):
            flag.unlink()
        inline = rng.choice([0, 1 << 15])
        with ef.connect(path, spark=spark, options=ef.Options(fault=fault, inline_bytes=inline)) as db:
            send(db, batches[number : number + 1], number)
            assert db.epoch == DDL_EPOCHS + 1 + number
    assert_exact(path, spark, batches)
