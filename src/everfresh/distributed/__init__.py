"""Distributed programs (chapter 5 of the thesis): a catalog's programs on workers and a driver.

- `placement`   where tables and maps are kept: location tags, by keys and sizes
- `programs`    a catalog's programs: their schedule (`everfresh.program.schedule`), maps and columns
- `annotate`, `rules`, `lower`   statements with transformers; fewest rounds; single transformer form
- `sharing`, `fusion`            common subexpressions and dead code; statement blocks
- `spec`        what every pass must leave
- `execute`     one block on one worker, by the local engine's code

Invariant: maps and tables never travel, only changes and what is derived from them.
"""

from everfresh.distributed.plan.compile import ALL, NAIVE, Passes, best, distributed, settled
from everfresh.distributed.plan.explain import complexity, explained
from everfresh.distributed.plan.ir import Block, DistributedProgram, Temp
from everfresh.distributed.plan.lower import Known
from everfresh.distributed.plan.placement import Limits, Placement, placed
from everfresh.distributed.plan.tags import LOCAL, RANDOM, REPLICATED, Dist, Tag
from everfresh.distributed.plan.text import parse_distributed

__all__ = [
    "ALL",
    "LOCAL",
    "NAIVE",
    "RANDOM",
    "REPLICATED",
    "Block",
    "Dist",
    "DistributedProgram",
    "Known",
    "Limits",
    "Passes",
    "Placement",
    "Tag",
    "Temp",
    "best",
    "complexity",
    "distributed",
    "explained",
    "parse_distributed",
    "placed",
    "settled",
]
