"""Views of a store maintained on Spark: an epoch is a batch of the Spark engine.

"On Spark" in docs/design/key-value.md. The manager is the driver: it reads the slices of the logs that the
head names, and prepares the rows of the views. In between one job of the engine has the changed rows with the
workers, which keep base tables and maps as their units. Invariant: the engine's state is of the manager's
epoch, and never outlives its manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everfresh.kv.runtime.on_engine import MakeEngine
from everfresh.options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engines(session: SparkSession | None = None, options: Options | None = None) -> MakeEngine:
    """What makes an engine for each program, on one session."""
    from everfresh.spark.engine import SparkEngine

    return lambda: SparkEngine(None, options or Options(), session=session)


__all__ = ["engines"]
