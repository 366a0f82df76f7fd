"""Large numbers in a history, a pure function of its seed: some of its integers become ones near the ends of
their types, so that products, sums and negations of them overflow.

Equal integers stay equal in all tables, and others differ, so that joins hit as before. Where a view computes
with doubles no number is larger than 32 bits: sums of them would depend on the order of rows. Histories with
deviations stay as they are, since DuckDB loses digits of those of large numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

from everfresh.testing.histories import History

SHARE = 0.2
"""Of all histories."""
SHORT = (46_341, -46_341, 100_000, 2**30, 2**31 - 1, -(2**31), 1 - 2**31)
"""What an INTEGER may become, and a BIGINT that is joined with it."""
LONG = (3_037_000_500, 2**33, 2**62, -(2**62), -(2**63))
_SMALL = (1, 2, 3, -1, 5)
_SMALL_LONG = (7, -2)
_DEVIATES = re.compile(r"\b(STDDEV|VARIANCE|VAR_)", re.IGNORECASE)
_DOUBLE = re.compile(r"/ 2|\bDOUBLE\b|\de\d", re.IGNORECASE)


def enlarged(history: History) -> History:
    """The same history with large numbers, if its seed says so."""
    rng = Random(f"{history.seed} large")
    queries = [query for _, query in history.views]
    if rng.random() >= SHARE or any(map(_DEVIATES.search, queries)):
        return history
    types = {s.name: [c.type.name for c in s.columns] for s in history.schemas}
    doubles = any("DOUBLE" in names for names in types.values()) or any(map(_DOUBLE.search, queries))
    short = dict(zip(rng.sample(_SMALL, 2), rng.sample(SHORT, 2), strict=True))
    long = {**short, **({} if doubles else dict(zip(_SMALL_LONG, rng.sample(LONG, 2), strict=True)))}
    by_type: dict[str, dict[Any, Any]] = {"INTEGER": short, "BIGINT": long}

    def row(table: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        found = zip(values, types[table], strict=True)
        return tuple(by_type.get(type_, {}).get(value, value) for value, type_ in found)

    batches = tuple(tuple(replace(c, row=row(c.table, c.row)) for c in b) for b in history.batches)
    return replace(history, batches=batches)
