"""Every role of a served store is killed and stopped at named points, under write load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from kv_faults import RECORDS, Trial, decode, timelines

from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.views import Views
from everfresh.testing.kv import decodable
from everfresh.testing.kv.histories import in_order
from everfresh.testing.kv.servers import until

pytestmark = pytest.mark.server

MANAGER = ("fence", "prepare", "head", "resolve", "collect")
OWNER = ("put", "get", "packed_log", "prepare", "resolve", "read", "delete", "baseat")


def manager_dies(folder: Path, point: str) -> None:
    trial = Trial(folder, 1, manager=point)
    try:
        assert trial.judged() is None
    finally:
        trial.close()


def manager_stops(folder: Path, point: str) -> None:
    """At the point it stops; another takes its groups over; then it goes on, and is refused."""
    trial = Trial(folder, 2, manager=point)
    try:
        (pid,) = trial.managers()
        until(lambda: stopped(pid), "it does not come to the point", 120)
        takes_over = RemoteStore(trial.path)
        Views(takes_over).refresh()
        trial.until(trial.acknowledged + 20)
        Views(takes_over).refresh()
        os.kill(pid, signal.SIGCONT)
        assert trial.judged() is None
    finally:
        trial.close()


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def owner_dies(folder: Path, point: str) -> None:
    trial = Trial(folder, 3, owner=point)
    try:
        trial.serve_again()
        assert trial.judged() is None
    finally:
        trial.close()


def owner_stops(folder: Path, point: str) -> None:
    trial = Trial(folder, 4, owner=point)
    try:
        until(lambda: stopped(trial.owner.pid), "it does not come to the point", 120)
        trial.owner.send_signal(signal.SIGCONT)
        assert trial.judged() is None
    finally:
        trial.close()


def client_dies(folder: Path) -> None:
    trial = Trial(folder, 5)
    try:
        for writes in (30, 60, 90):
            trial.until(writes)
            trial.write_again()
        assert trial.judged() is None
    finally:
        trial.close()


def client_stops(folder: Path) -> None:
    trial = Trial(folder, 6)
    try:
        trial.until(30)
        trial.writer.send_signal(signal.SIGSTOP)
        store = RemoteStore(trial.path)
        until(lambda: store.ask("status")["views"]["sums"]["behind"] == 0, "the view does not come on")
        trial.writer.send_signal(signal.SIGCONT)
        assert trial.judged() is None
    finally:
        trial.close()


def master_dies_and_stops(folder: Path) -> None:
    trial = Trial(folder, 7)
    try:
        store = RemoteStore(trial.path)
        trial.until(20)
        os.kill(store.ask("status")["master"], signal.SIGKILL)
        trial.until(80)
        master = until(lambda: store.ask("status")["master"], "there is no master")
        os.kill(master, signal.SIGSTOP)
        trial.until(140)
        os.kill(trial.managers()[0], signal.SIGKILL)  # nobody tells the ring
        trial.until(180)
        os.kill(master, signal.SIGCONT)
        assert trial.judged() is None
    finally:
        trial.close()


def test_a_manager_dies_where_its_rows_are_prepared(tmp_path: Path) -> None:
    manager_dies(tmp_path / "s", "prepare:4:after")


def test_a_manager_stops_where_it_writes_the_head(tmp_path: Path) -> None:
    manager_stops(tmp_path / "s", "head:5:stop")


def test_the_owner_dies_where_rows_are_prepared(tmp_path: Path) -> None:
    owner_dies(tmp_path / "s", "prepare:5")


def test_a_writer_dies(tmp_path: Path) -> None:
    client_dies(tmp_path / "s")


@pytest.mark.soak
@pytest.mark.parametrize("point", ["prepare:9", "head:5:after", "fence:4", "resolve:3"])
def test_a_manager_of_a_family_dies(point: str, tmp_path: Path) -> None:
    """Each of three managers that keep the view together, again and again."""
    trial = Trial(tmp_path / "s", 8, manager=point, options=("--managers", "3"), family=True)
    try:
        assert trial.judged() is None
    finally:
        trial.close()


@pytest.mark.soak
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_manager_of_a_family_stops(which: int, tmp_path: Path) -> None:
    """It is taken for dead, the others go on without it, and it comes back as a zombie."""
    trial = Trial(tmp_path / "s", 9, options=("--managers", "3"), family=True)
    try:
        trial.until(60)
        stopped_one = trial.managers()[which]
        os.kill(stopped_one, signal.SIGSTOP)
        trial.until(200)
        os.kill(stopped_one, signal.SIGCONT)
        assert trial.judged() is None
    finally:
        trial.close()


@pytest.mark.soak
@pytest.mark.spark
def test_a_driver_dies(tmp_path: Path) -> None:
    """A manager whose programs run on Spark."""
    trial = Trial(tmp_path / "s", 10, options=("--engine", "spark"))
    try:
        trial.until(100)
        os.kill(trial.managers()[0], signal.SIGKILL)
        assert trial.judged() is None
    finally:
        trial.close()


@pytest.mark.soak
def test_the_master_dies_and_stops(tmp_path: Path) -> None:
    master_dies_and_stops(tmp_path / "s")


@pytest.mark.soak
def test_a_writer_stops(tmp_path: Path) -> None:
    client_stops(tmp_path / "s")


@pytest.mark.soak
@pytest.mark.parametrize("call", MANAGER)
@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("when", ["", ":after"])
def test_a_manager_at_each_point(call: str, count: int, when: str, tmp_path: Path) -> None:
    manager_dies(tmp_path / "killed", f"{call}:{count}{when}")
    manager_stops(tmp_path / "stopped", f"{call}:{count}{when}:stop")


@pytest.mark.soak
@pytest.mark.parametrize("call", OWNER)
@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("when", ["", ":after"])
def test_the_owner_at_each_point(call: str, count: int, when: str, tmp_path: Path) -> None:
    owner_dies(tmp_path / "killed", f"{call}:{count}{when}")
    owner_stops(tmp_path / "stopped", f"{call}:{count}{when}:stop")


def test_the_judge_finds_what_is_wrong() -> None:
    """A record in two groups, one that goes back, a version that it never had."""
    of = timelines(1)
    allowed = decode(of)
    first = next(v for v, group in enumerate(of[0]) if group is not None)
    later = next(v for v, group in enumerate(of[0]) if group is not None and v > first)

    def state(*shown: tuple[int | None, int]) -> tuple[tuple[int | None, int, int], ...]:
        return tuple((group, version + 1, 1) for group, version in shown)

    def judge(*states: tuple[tuple[int | None, int, int], ...]) -> object:
        return decodable.violation(in_order(states), allowed, RECORDS)

    assert judge((), state((of[0][first], first)), state((of[0][later], later))) is None
    assert judge(state((of[0][later], later)), state((of[0][first], first))) is not None
    assert judge(state((0, first), (1, first))) is not None
    wrong = (of[0][first] + 1) % 3 if of[0][first] is not None else 0  # type: ignore[operator]
    assert judge(state((wrong, first))) is not None
