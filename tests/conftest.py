"""What all tests share: the Hypothesis profiles, and one Spark session for the whole run.

`--spark` says where that session runs: `local`, or on a standalone cluster of two workers on two hosts
(`cluster`), or through a Connect server (`connect`). A process has one of them only.

`HYPOTHESIS_PROFILE` picks the profile: "default" (few examples, the same ones each time) or "soak" (many,
random).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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


CLUSTER_SETTINGS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "3s",
    "spark.speculation.efficiency.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What a session on the cluster has besides: a task that takes seconds longer than the others gets a twin."""


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores that retries tasks, as everfresh asks for."""
    from everfresh.testing.spark_clusters import QUICK_JAVA, connect_server, standalone

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    where = request.config.getoption("--spark")
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("spark")
        if where == "connect":
            session = connected(stack.enter_context(connect_server(folder, settings=SPARK_SETTINGS)))
        elif where == "cluster":
            url = stack.enter_context(standalone(folder)).url
            quick = {"spark.executor.extraJavaOptions": QUICK_JAVA}
            session = classic(url, {**SPARK_SETTINGS, **CLUSTER_SETTINGS, **quick})
        else:
            session = classic("local[2,4]", SPARK_SETTINGS)
        yield session
        session.stop()


def classic(master: str, settings: Mapping[str, str]) -> Any:
    """A session whose driver is this process."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master(master).appName("everfresh tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def connected(url: str) -> Any:
    """A session of a Connect server."""
    from pyspark.sql import SparkSession

    session: Any = SparkSession.builder.remote(url).getOrCreate()
    return session


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
    """`--update-golden` writes the files of tests/listings instead of comparing with them; `--spark` says
    where Spark runs."""
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/listings")
    parser.addoption(
        "--spark", choices=("local", "cluster", "connect"), default="local", help="where Spark runs"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow; pages of the docs come first, so that the examples of one are run by one process."""
    items.sort(key=lambda item: not item.nodeid.startswith(("docs/", "README.md")))
    for item in items:
        if item.nodeid.startswith(SLOW) or any(name in item.nodeid for name in SLOW_NAMES):
            item.add_marker(pytest.mark.slow)


class _All(set[str]):
    def __contains__(self, _: object) -> bool:
        return True


@pytest.fixture
def all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is to be compiled behind a test is found compiled: it is only loaded."""
    monkeypatch.setattr("everfresh.local.jit.code_cache.settled", _All)
    monkeypatch.setattr("everfresh.local.jit.code_cache.is_done", lambda item: True)
