"""Faults fire where, how and as often as they say; and the doctests of the layer hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import everfresh.state
from everfresh.errors import Code, EverfreshError
from everfresh.state import InjectedFault, crash


def fires(point: str, fault: str, unit: int | None = None, scratch: Path | None = None) -> bool:
    try:
        crash(point, fault, unit, scratch)
    except InjectedFault:
        return True
    return False


def test_point_and_unit() -> None:
    assert fires("opened", "opened:raise")
    assert fires("opened", "opened:raise:*", 3)
    assert fires("opened", "opened:raise:3", 3)
    assert not fires("opened", "opened:raise:3", 2)
    assert not fires("opened", "opened:raise:3")
    assert not fires("opened", "mid-apply:raise")


def test_times_count_over_all_users_of_the_scratch_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "inbox"
    fired = [fires("opened", "opened:raise:*:2", unit, scratch) for unit in range(4)]
    assert fired == [True, True, False, False]
    assert not fires("other", "other:raise:*:0", None, scratch)
    assert fires("other", "other:raise:*:1", None, scratch)
    with pytest.raises(ValueError, match="scratch"):
        crash("opened", "opened:raise:*:2")


def test_sleep() -> None:
    start = time.perf_counter()
    crash("opened", "opened:sleep=0.05")
    assert time.perf_counter() - start >= 0.05


@pytest.mark.parametrize(("kind", "status"), [("exit", 9), ("kill", -signal.SIGKILL)])
def test_ends_the_process(child: Any, kind: str, status: int) -> None:
    text = "import sys; from everfresh.state import crash; crash('opened', sys.argv[1]); print('alive')"
    process = child(text, f"opened:{kind}")
    assert process.communicate()[0] == ""
    assert process.returncode == status


@pytest.mark.parametrize(
    "fault", ["", "opened", "opened:explode", "opened:sleep", "opened:raise:x", "opened:raise:1:1:1"]
)
def test_malformed_fault_is_refused(fault: str) -> None:
    with pytest.raises(EverfreshError) as caught:
        crash("opened", fault)
    assert caught.value.code == Code.ARGUMENT


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(everfresh.state.__path__)])
def test_doctests(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"everfresh.state.{name}"))
    assert result.failed == 0
