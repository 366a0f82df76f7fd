"""The Spark engine on a cluster of two workers (`spark_elsewhere`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_elsewhere import CORE, FAULTS, SUITE, TASK_FAULTS, run

pytestmark = pytest.mark.spark


def test_the_core_of_the_suite_and_faults() -> None:
    wanted = " or ".join((*CORE, Path(FAULTS).stem))
    run("cluster", SUITE, FAULTS, "-m", "not soak", "-k", wanted, seconds=900)


@pytest.mark.soak
def test_the_whole_suite() -> None:
    run("cluster", SUITE, TASK_FAULTS, seconds=3600)


@pytest.mark.soak
def test_faults_in_any_order() -> None:
    run("cluster", FAULTS, seconds=3600)
