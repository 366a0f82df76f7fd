"""The Spark engine survives kill -9 of its driver: 8 times here, 30 in `make soak`.

A child has a JVM of its own, which ends by itself when the child's pipes close. What it left is judged on
the shared session.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reliability_workload import (
    BASE,
    Expected,
    check_after_kill,
    committed,
    create,
    finish,
    options,
    read_acknowledged,
    workload,
)

import everfresh as ef

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = 30
POINTS = ["after-collect", "mid-commit", "after-commit"]


def connect(spark: Any, path: Path, **kwargs: Any) -> ef.Database:
    return ef.connect(path, engine="spark", spark=spark, options=options(), **kwargs)


def child(path: Path, acks: Path, **changes: Any) -> subprocess.Popen[str]:
    """A child at work, once it says so."""
    script = Path(__file__).parent / "spark_child.py"
    command = [sys.executable, str(script), str(path), str(acks), str(COUNT), json.dumps(changes)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line == "ready", f"the child did not start: {line!r}"
    return process


def wait_for_acks(acks: Path, more: int, process: subprocess.Popen[str]) -> None:
    """Until `more` further batches are acknowledged, or the child has ended."""
    target = len(read_acknowledged(acks)) + more
    until = time.monotonic() + 240
    while len(read_acknowledged(acks)) < target and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


class Victim:
    """One database that is killed again and again; everything it must hold is checked after each time."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.path, self.acks = spark, folder / "db", folder / "acks"
        with connect(spark, self.path) as db:
            create(db)
        self.expected = Expected(workload(COUNT))

    def kill_at(self, point: str) -> None:
        process = child(self.path, self.acks, fault=f"{point}:kill")
        assert process.wait(120) == -signal.SIGKILL, f"the fault at {point} did not fire"
        self.check()

    def kill_after(self, rng: Random) -> None:
        process = child(self.path, self.acks)
        wait_for_acks(self.acks, rng.randint(0, 2), process)
        time.sleep(rng.uniform(0, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(120)
        self.check()

    def check(self) -> None:
        with connect(self.spark, self.path) as db:
            check_after_kill(db, self.expected, read_acknowledged(self.acks))

    def finish(self) -> None:
        with connect(self.spark, self.path) as db:
            finish(db, self.expected)


@pytest.fixture
def victim(spark: Any, tmp_path: Path) -> Iterator[Victim]:
    return Victim(spark, tmp_path)


def test_the_driver_is_killed_at_each_point(victim: Victim) -> None:
    for point in POINTS:
        victim.kill_at(point)
    victim.finish()


def test_the_driver_is_killed_at_random(victim: Victim) -> None:
    rng = Random(4)
    for _ in range(8 - len(POINTS)):
        victim.kill_after(rng)
    assert victim.expected.done > 0
    victim.finish()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_the_driver_is_killed_many_times(victim: Victim, seed: int) -> None:
    rng = Random(100 + seed)
    for number in range(6):
        if number % 3 == 2:
            victim.kill_at(rng.choice(POINTS))
        else:
            victim.kill_after(rng)
    victim.finish()


def test_a_reader_beside_a_writer_sees_committed_prefixes(spark: Any, tmp_path: Path) -> None:
    with connect(spark, tmp_path / "db") as db:
        create(db)
    expected = Expected(workload(COUNT))
    process = child(tmp_path / "db", tmp_path / "acks", history=1000)
    seen: list[int] = []
    kept = options(history=1000)
    with ef.connect(tmp_path / "db", engine="spark", spark=spark, read_only=True, options=kept) as reader:
        with pytest.raises(ef.EverfreshError) as caught:
            connect(spark, tmp_path / "db")
        assert caught.value.code == ef.Code.LOCKED
        until = time.monotonic() + 120
        while (not seen or seen[-1] < COUNT) and time.monotonic() < until:
            acknowledged = len(read_acknowledged(tmp_path / "acks"))
            count = committed(reader)
            assert count >= acknowledged
            if count > (seen[-1] if seen else -1):
                seen.append(count)
                expected.advance(count)
                expected.check(reader, at=BASE + count)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "done"
    assert process.wait(60) == 0
    assert seen[-1] == COUNT
    assert len(seen) > 1, f"the reader saw only {seen}"
