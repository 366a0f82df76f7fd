"""The local engine survives kill -9 at any moment: 30 times here, 100 in `make soak`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
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

COUNT = 300
CHAIN = 5
"""How often in a row one database is killed: each kill meets what the one before left."""


class Nursery:
    """The helper process, and the one child it has at a time."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        self._process = subprocess.Popen(
            [sys.executable, str(here / "nursery.py"), str(COUNT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "warm"

    def line(self) -> str:
        assert self._process.stdout is not None
        text = self._process.stdout.readline().strip()
        assert text, "the nursery has ended"
        return text

    def start(self, path: Path, acks: Path, pause: float = 0.0, **options: Any) -> int:
        """A child at work; returns its process id."""
        assert self._process.stdin is not None
        request = {"path": str(path), "acks": str(acks), "count": COUNT, "pause": pause, "options": options}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        word, pid = self.line().split(maxsplit=1)
        assert word == "ready", f"{word} {pid}"
        return int(pid)

    def end(self) -> tuple[list[str], int]:
        """Wait for the child; what it said last, and its status."""
        said = []
        while not (text := self.line()).startswith("gone"):
            said.append(text)
        return said, int(text.split()[1])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def connect(path: Path, **kwargs: Any) -> ef.Database:
    return ef.connect(path, engine="local", options=options(), **kwargs)


def new_database(path: Path) -> None:
    with connect(path) as db:
        create(db)


def kill_chain(nursery: Nursery, folder: Path, seed: int) -> None:
    rng = Random(seed)
    path, acks = folder / f"db-{seed}", folder / f"acks-{seed}"
    new_database(path)
    expected = Expected(workload(COUNT))
    for _ in range(CHAIN):
        pid = nursery.start(path, acks)
        time.sleep(rng.uniform(0.005, 0.150))
        with suppress(ProcessLookupError):  # it may be done
            os.kill(pid, signal.SIGKILL)
        said, status = nursery.end()
        assert status == signal.SIGKILL or said == ["done"], f"{said}, {status}"
        with connect(path) as db:
            check_after_kill(db, expected, read_acknowledged(acks))
    assert expected.done > 0, "no kill came after a commit: the test shows nothing"
    with connect(path) as db:
        finish(db, expected)


@pytest.mark.parametrize("seed", range(6))
def test_kill_and_reopen(nursery: Nursery, tmp_path: Path, seed: int) -> None:
    kill_chain(nursery, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_kill_and_reopen_many_times(nursery: Nursery, tmp_path: Path, seed: int) -> None:
    kill_chain(nursery, tmp_path, seed)


@pytest.mark.parametrize("point", ["mid-commit", "mid-snapshot"])
def test_killed_at_a_point(nursery: Nursery, tmp_path: Path, point: str) -> None:
    new_database(tmp_path / "db")
    expected = Expected(workload(COUNT))
    for _ in range(3):
        nursery.start(tmp_path / "db", tmp_path / "acks", fault=f"{point}:kill")
        said, status = nursery.end()
        assert status == signal.SIGKILL, f"the fault did not fire: {said}"
        with connect(tmp_path / "db") as db:
            check_after_kill(db, expected, read_acknowledged(tmp_path / "acks"))
            number = committed(db)
            db.apply(expected.workload.batches[number], key=f"b{number}")
    with connect(tmp_path / "db") as db:
        finish(db, expected)


def test_a_reader_beside_a_writer_sees_committed_prefixes(nursery: Nursery, tmp_path: Path) -> None:
    new_database(tmp_path / "db")
    pid = nursery.start(tmp_path / "db", tmp_path / "acks", pause=0.01, history=1000)
    expected = Expected(workload(COUNT))
    seen: list[int] = []
    kept = options(history=1000)
    with ef.connect(tmp_path / "db", engine="local", read_only=True, options=kept) as reader:
        with pytest.raises(ef.EverfreshError) as caught:
            connect(tmp_path / "db")
        assert caught.value.code == ef.Code.LOCKED
        assert str(pid) in str(caught.value)
        until = time.monotonic() + 120
        while (not seen or seen[-1] < COUNT) and time.monotonic() < until:
            acknowledged = len(read_acknowledged(tmp_path / "acks"))
            count = committed(reader)
            assert count >= acknowledged, "what was acknowledged before it looked, a reader sees"
            if count > (seen[-1] if seen else -1):
                seen.append(count)
                expected.advance(count)
                expected.check(reader, at=BASE + count)
    said, status = nursery.end()
    assert (said, status) == (["done"], 0)
    assert seen[-1] == COUNT
    assert len(seen) > 3, f"the reader saw only {seen}"
