"""What all tests share: the Hypothesis profiles, and one Spark session for the whole run.

`HYPOTHESIS_PROFILE` picks the profile: "default" (few examples, the same ones each time) or "soak" (many,
random).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default", deadline=None, max_examples=25, derandomize=True, database=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "soak", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=_QUIET
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two cores that retries tasks, as everfresh asks for."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder.master("local[2,4]").appName("everfresh tests")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


SLOW = (
    "tests/reliability/",
    "tests/engines/test_histories.py",
    "tests/local/test_adhoc",
    "tests/linalg/test_linalg_random",
)
"""Tests that take seconds each: `make check` leaves them to `make test`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by where it is; the suite in a folder repeats the one in memory."""
    for item in items:
        if item.nodeid.startswith(SLOW) or "TestLocalInAFolder" in item.nodeid:
            item.add_marker(pytest.mark.slow)
