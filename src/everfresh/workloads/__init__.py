"""Query workloads: SQL texts over the schemas of `everfresh.datasets`, for tests and benchmarks.

`WORKLOADS` has them by name; `compile_all` times their compilation, `strategies` says how they are
maintained.
"""

from everfresh.workloads.corpus import WORKLOADS, Query, Workload
from everfresh.workloads.strategies import Strategies, compile_all, compiled, strategies

__all__ = ["WORKLOADS", "Query", "Strategies", "Workload", "compile_all", "compiled", "strategies"]
