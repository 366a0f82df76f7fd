"""Ad hoc queries over tables and views: a plan run once, vectorised, without any state kept.

`frame` holds rows lazily, `keys` makes rows integers, `graph` and `join` join, `aggregate`, `window` and
`over` compute, `subquery` answers subqueries, and `run` puts them together.
"""

from __future__ import annotations

import pyarrow as pa

from everfresh.local.adhoc.run import CHUNK, QueryRun, Source
from everfresh.sql.logical import plan as p
from everfresh.types import arrow_schema

__all__ = ["execute"]


def execute(plan: p.Plan, source: Source, *, chunk: int = CHUNK) -> pa.Table:
    """The result of `plan`; `source` gives the rows of a table or view by name.

    Joins look at `chunk` candidate pairs at a time.
    """
    frame = QueryRun(source, chunk).frame(plan, None)
    arrays = [frame[c.name].to_arrow() for c in plan.columns]
    if not arrays:
        return pa.table({})
    return pa.Table.from_arrays(arrays, schema=arrow_schema(plan.columns))
