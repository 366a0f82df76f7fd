"""The benchmark of similarity joins measures every algorithm, and judges what it measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fake_spark import install

from everfresh.arrays.evaluate import create
from everfresh.arrays.plan import place
from everfresh.arrays.shape import Linf
from everfresh.bench import Report, Settings, simjoin
from everfresh.bench.parts import simjoin_child, simjoin_spark
from everfresh.bench.parts.simjoin_workloads import ROW, catalog_of, ptf_2d, ptf_3d
from everfresh.spark.session import sessions


def test_every_algorithm_has_a_row_and_every_bar_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simjoin, "WORKERS", (2, 8))
    report = Report("simjoin", machine={})
    simjoin._algorithms(report, Settings(quick=True), ptf_3d(4))
    planned = {(row["workers"], row["how"]) for row in report.rows if "mb" in row}
    assert planned == {(workers, name) for workers in (2, 8) for name in simjoin.ALL}
    assert all(
        row["against_opt"] >= 1 for row in report.rows if row["how"] in ("bhvc", "hvc", "mbh", "struct")
    )
    assert len(report.bars) == 5
    assert all(isinstance(bar.value, float) for bar in report.bars)
    simulated = [row for row in report.rows if row["how"].startswith("simulated, schedule")]
    assert len(simulated) == 8
    assert all(row["makespan"] > 0 for row in simulated)


def test_small_joins_are_held_to_the_exact_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simjoin, "ptf_3d", lambda nights: ptf_2d(nights))
    report = Report("simjoin", machine={})
    simjoin._exact(report, Settings())
    assert report.rows
    assert all(row["ratio"] >= 1 for row in report.rows)


def test_two_instances_have_no_pair_in_two_directions() -> None:
    problem = ptf_3d(3).problem(4, two=True)
    assert set(problem.ways.tolist()) == {1}
    assert len(problem.cells) == 2 * len(ptf_3d(3).chunks)


def test_a_catalog_of_cells_has_their_boxes_and_counts() -> None:
    points = np.array([[1, 1], [2, 2], [5, 1], [6, 2], [6, 1]])
    found = catalog_of(points[::-1], (1, 1), (4, 4))
    assert found.lo.tolist() == [[1, 1], [5, 1]]
    assert found.hi.tolist() == [[2, 2], [6, 2]]
    assert (found.cells.tolist(), found.bytes.tolist()) == ([2, 3], [2 * ROW, 3 * ROW])
    assert place(found, "round-robin", 2).home.tolist() == [0, 1]


def test_runs_on_spark_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each algorithm over the same chunks has a row, and speed-ups are those of wall times."""

    def child(*args: str, **_: str) -> str:
        asked = json.loads(args[-1])
        took = 12.0 / asked["cores"] + asked["workers"]
        times = {"receive": [0.5, 0.25], "joining": [2.0, 1.0], "overlap": 0.5, "thread_spread": 1.5}
        figures = {
            **times,
            "processor": 1.0,
            "matches": 7,
            "bytes": 10,
            "most_received": 4,
            "mean_received": 2.0,
        }
        rows = [
            {"what": "PTF", "algorithm": name, "seconds": took, "spread": 1.0, "makespan": 1.0, **figures}
            for name in asked["algorithms"]
        ]
        return "noise\n" + json.dumps(rows) + "\n"

    monkeypatch.setattr(simjoin_spark, "python", child)
    monkeypatch.setattr(simjoin_spark, "has_java", lambda: True)
    monkeypatch.setattr(simjoin_spark.os, "cpu_count", lambda: 4)
    report = Report("simjoin", machine={})
    simjoin_spark.on_spark(report, Settings(quick=True), 4, ("bhvc", "struct", "mr"))
    ratios = {row["how"]: row["ratio"] for row in report.rows if "ratio" in row}
    assert ratios == {
        "measured speed-up on Spark, 2 to 8 workers": 8 / 14,
        "measured speed-up on Spark, 1 to 2 cores": 20 / 14,
    }
    assert sum("seconds" in row for row in report.rows) == 3 + 2
    assert report.rows[0]["receive_max"] == 0.5
    assert report.rows[0]["receive_of_each"] == "0.5 0.25"
    assert len(report.bars) == 1


def test_the_process_that_runs_joins_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are those of plans that were carried out, and every algorithm finds the same."""
    session = install(monkeypatch)
    monkeypatch.setattr(session, "stop", lambda: None, raising=False)
    monkeypatch.setattr(sessions, "start", lambda *_: session)
    cells = create(
        "CREATE ARRAY cells <mag: DOUBLE> [i=0,59,10; j=0,59,15]",
        [(i, j, 1.0) for i in range(60) for j in range(0, 60, 7)],
    )
    monkeypatch.setattr(simjoin_child, "cells_of", lambda *_: [("some", cells, Linf(1).without_center())])
    asked = {"cores": 2, "workers": 3, "algorithms": ["bhvc", "struct"], "quick": True, "nights": 1}
    found = simjoin_child.main(asked)
    assert [one["algorithm"] for one in found] == ["bhvc", "struct"]
    assert {one["matches"] for one in found} == {9 * 2 * 59}
    assert all(0 < one["most_received"] <= one["bytes"] for one in found)
    assert all(min(one["receive"]) > 0 and min(one["joining"]) > 0 for one in found)
    assert all(one["thread_spread"] >= 1 and 0 <= one["overlap"] <= 1 for one in found)
