"""Matrix views on Spark: the suite on one, two and three workers, and blocks against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.matrix_suite import MatrixSuite

pytestmark = pytest.mark.spark


class SparkMatrices(MatrixSuite):
    workers = 2
    session: Any = None

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _session(cls, spark: Any) -> None:
        cls.session = spark

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="spark", spark=self.session, **{"options": self.options(), **kwargs})

    def options(self, **changes: Any) -> ef.Options:
        return ef.Options(workers=self.workers).with_(**changes)


class TestTwoWorkers(SparkMatrices):
    pass
