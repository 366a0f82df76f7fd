"""The Spark engine through a Connect server (`spark_elsewhere`)."""

from __future__ import annotations

import pytest
from spark_elsewhere import CORE, SUITE, TASK_FAULTS, run

pytestmark = pytest.mark.spark


def test_the_core_of_the_suite_and_faults() -> None:
    run("connect", SUITE, TASK_FAULTS, "-k", " or ".join((*CORE, "truncate", "after-apply")), seconds=900)


@pytest.mark.soak
def test_the_whole_suite() -> None:
    run("connect", SUITE, TASK_FAULTS, seconds=3600)
