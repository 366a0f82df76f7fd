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
    "tests/random_sql/",
    "tests/engines/test_histories.py",
    "tests/local/test_adhoc",
    "tests/local/test_mapstore.py",
    "tests/compiler/test_compiler_passes.py",
    "tests/compiler/test_compiler_canonical.py",
    "tests/expr/test_expr_random.py",
    "tests/expr/test_expr_fold.py",
    "tests/expr/test_expr_text.py",
    "tests/linalg/test_linalg_random",
    "tests/linalg/test_linalg_text.py",
    "tests/linalg/test_linalg_nodes.py",
    "tests/shell/test_tpch.py",
    "tests/workloads/",
)
"""Tests that take seconds each, by where they are: `make check` leaves them to `make test`."""

SLOW_NAMES = (
    "TestLocalInAFolder",  # repeats the suite in memory
    "test_as_they_were_made",
    "test_by_sevens",
    "test_all_at_once",
    "test_one_change_at_a_time",
    "test_random_histories_with_reopening",
    "_for_real",
    "test_a_reader_in_another_process",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes the files of tests/listings instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/listings")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow."""
    for item in items:
        if item.nodeid.startswith(SLOW) or any(name in item.nodeid for name in SLOW_NAMES):
            item.add_marker(pytest.mark.slow)
