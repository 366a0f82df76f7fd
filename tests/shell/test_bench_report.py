"""The benchmark framework: its JSON form, its registry, its timing helpers; and the benchmark `start`."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from everfresh import bench
from everfresh.bench import Report, Settings, interleave, median, repeat
from everfresh.errors import EverfreshError


def check_report(text: str) -> dict[str, Any]:
    """Whether a JSON report has the form that readers rely on; returns it."""
    data: dict[str, Any] = json.loads(text)
    assert set(data) == {"name", "date", "machine", "rows", "bars", "skipped"}
    assert dt.datetime.fromisoformat(data["date"]).tzinfo is not None
    machine = data["machine"]
    assert {"cpus", "cpu", "memory_gib", "platform", "python", "versions"} == set(machine)
    assert machine["cpus"] >= 1
    assert machine["memory_gib"] > 0
    assert {"pyspark", "numba", "pyarrow", "numpy"} <= set(machine["versions"])
    assert all(isinstance(row, dict) for row in data["rows"])
    for bar in data["bars"]:
        assert set(bar) == {"what", "target", "value", "holds"}
        assert isinstance(bar["what"], str)
        assert isinstance(bar["target"], str)
        assert isinstance(bar["holds"], bool)
    for skipped in data["skipped"]:
        assert set(skipped) == {"what", "reason"}
        assert skipped["reason"]
    return data


def test_the_json_form():
    report = Report("example")
    report.row(what="one", seconds=np.float64(0.5), rows=np.int64(3))
    report.below("one", 0.5, 0.3, "s")
    report.at_least("two", 12.0, 10, "times")
    report.truth("three", True)
    report.skip("four", "no GPU")
    data = check_report(report.to_json())
    assert data["rows"] == [{"what": "one", "seconds": 0.5, "rows": 3}]
    assert data["bars"] == [
        {"what": "one", "target": "< 0.3 s", "value": 0.5, "holds": False},
        {"what": "two", "target": ">= 10 times", "value": 12.0, "holds": True},
        {"what": "three", "target": "yes", "value": "yes", "holds": True},
    ]
    assert data["skipped"] == [{"what": "four", "reason": "no GPU"}]
    assert not report.holds


def test_a_figure_that_is_no_number_is_refused():
    report = Report("example")
    report.row(seconds=math.nan)
    with pytest.raises(ValueError, match="JSON"):
        report.to_json()


def test_the_registry():
    assert "start" in bench.names()
    for one in bench.all_():
        assert bench.load(one.NAME) is one
        assert one.DESCRIPTION
    with pytest.raises(EverfreshError, match="there is no benchmark 'report'"):
        bench.load("report")


def test_timing():
    calls: list[str] = []

    def call(name: str) -> Callable[[], None]:
        return lambda: calls.append(name)

    assert len(repeat(call("a"), 3)) == 3
    assert calls == ["a"] * 3
    calls.clear()
    times = interleave({"a": call("a"), "b": call("b")}, rounds=3)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5


@pytest.mark.slow
def test_start_quick(capsys):
    from everfresh.bench import start

    report = start.run(Settings(quick=True))
    data = check_report(report.to_json())
    assert len(data["rows"]) == 4
    assert {bar["what"] for bar in data["bars"]} >= {"import everfresh"}
    assert all(bar["holds"] for bar in data["bars"] if "alone" in bar["what"])
    assert [skipped["what"] for skipped in data["skipped"]] == ["Spark engine, new session"]
    assert capsys.readouterr().out == ""
