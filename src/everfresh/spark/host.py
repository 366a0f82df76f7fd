"""What the Spark engine offers a domain, before anything else is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everfresh.options import Options
from everfresh.spark.jobs.runner import Runner
from everfresh.state import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from everfresh.spark.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Host:
    """What a domain on Spark works with.

    In an epoch a domain runs jobs of its own plans from the draft that `Making` has, and gives it what they
    answered: `draft.add(host.runner.run(draft.job(kind, pieces=...), plan).controls)`.
    """

    session: SparkSession
    folder: StateFolder
    options: Options
    read_only: bool
    runner: Runner
    ledger: Callable[[], Ledger]
    """The versions of units as of the last commit: not there yet while domains are attached."""
