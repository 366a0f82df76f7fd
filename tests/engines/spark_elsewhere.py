"""The Spark engine elsewhere, on a cluster of two workers or through a Connect server: a core of its suite
and the faults that need a cluster in `make test`, all of the suite and faults in any order in `make soak`.

A process has one kind of Spark session, so each place gets a pytest of its own: `pytest --spark cluster ...`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = "tests/engines/test_spark.py"
FAULTS = "tests/spark/cluster_faults.py"
TASK_FAULTS = "tests/spark/test_spark_faults.py"
CORE = (
    "test_a_batch_over_several_tables_is_atomic",
    "test_a_batch_key_is_applied_once",
    "test_a_batch_that_a_view_cannot_take_is_refused_whole",
    "test_spark_frames_go_in_and_come_out",
)
"""Jobs of every kind, and errors that come out of tasks."""


def run(where: str, *arguments: str, seconds: float) -> None:
    """A pytest whose session is elsewhere; its output if it fails."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-x",
        "--spark",
        where,
    ]
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done in {seconds} s:\n{(late.stdout or b'').decode()[-6000:]}")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
