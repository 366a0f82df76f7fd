"""Run by a Python that has Pathway: queries of TPC-H over a stream in files, timed.

`python pathway_child.py QUERY FOLDER` reads `FOLDER/TABLE.parquet`: columns as integers, doubles (decimals)
and strings, dates as days since 1970, and `batch`, the number of the batch that a row belongs to. It prints
`{"seconds": ..., "rows": ...}`: the time of the run, the rows on their way in included, and the rows that it
gave in the end. It imports nothing of everfresh.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "q01": {
        "lineitem": (
            "l_returnflag",
            "l_linestatus",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            "l_tax",
            "l_shipdate",
        )
    },
    "q03": {
        "customer": ("c_custkey", "c_mktsegment"),
        "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
        "lineitem": ("l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"),
    },
    "q06": {"lineitem": ("l_quantity", "l_extendedprice", "l_discount", "l_shipdate")},
}
"""The queries that are written out below, and what they read. Query 3 is without its ORDER BY and LIMIT."""


def _day(year: int, month: int, day: int) -> int:
    return (dt.date(year, month, day) - dt.date(1970, 1, 1)).days


def _q01(pw: Any, lineitem: Any) -> Any:
    kept = lineitem.filter(pw.this.l_shipdate <= _day(1998, 9, 2))
    sale = kept.l_extendedprice * (1 - kept.l_discount)
    total, mean = pw.reducers.sum, pw.reducers.avg
    return kept.groupby(kept.l_returnflag, kept.l_linestatus).reduce(
        kept.l_returnflag,
        kept.l_linestatus,
        sum_qty=total(kept.l_quantity),
        sum_base_price=total(kept.l_extendedprice),
        sum_disc_price=total(sale),
        sum_charge=total(sale * (1 + kept.l_tax)),
        avg_qty=mean(kept.l_quantity),
        avg_price=mean(kept.l_extendedprice),
        avg_disc=mean(kept.l_discount),
        count_order=pw.reducers.count(),
    )


def _q03(pw: Any, customer: Any, orders: Any, lineitem: Any) -> Any:
    some = customer.filter(pw.this.c_mktsegment == "BUILDING")
    early = orders.filter(pw.this.o_orderdate < _day(1995, 3, 15))
    late = lineitem.filter(pw.this.l_shipdate > _day(1995, 3, 15))
    theirs = early.join(some, early.o_custkey == some.c_custkey).select(
        early.o_orderkey, early.o_orderdate, early.o_shippriority
    )
    joined = late.join(theirs, late.l_orderkey == theirs.o_orderkey).select(
        late.l_orderkey,
        theirs.o_orderdate,
        theirs.o_shippriority,
        sale=late.l_extendedprice * (1 - late.l_discount),
    )
    return joined.groupby(joined.l_orderkey, joined.o_orderdate, joined.o_shippriority).reduce(
        joined.l_orderkey,
        joined.o_orderdate,
        joined.o_shippriority,
        revenue=pw.reducers.sum(joined.sale),
    )


def _q06(pw: Any, lineitem: Any) -> Any:
    kept = lineitem.filter(
        (pw.this.l_shipdate >= _day(1994, 1, 1))
        & (pw.this.l_shipdate < _day(1995, 1, 1))
        & (pw.this.l_discount >= 0.05 - 1e-9)
        & (pw.this.l_discount <= 0.07 + 1e-9)
        & (pw.this.l_quantity < 24)
    )
    return kept.reduce(revenue=pw.reducers.sum(kept.l_extendedprice * kept.l_discount))


QUERIES: Mapping[str, Callable[..., Any]] = {"q01": _q01, "q03": _q03, "q06": _q06}


def main(query: str, folder: str) -> None:
    """Run one query."""
    import pathway as pw
    import pyarrow.parquet as pq

    tables = {}
    for name, columns in COLUMNS[query].items():
        rows = pq.read_table(Path(folder) / f"{name}.parquet")
        values = [rows[column].to_pylist() for column in columns]
        types = {column: type(some[0]) for column, some in zip(columns, values, strict=True)}
        times = [2 * batch for batch in rows["batch"].to_pylist()]
        data = list(zip(*values, times, [1] * rows.num_rows, strict=True))
        tables[name] = pw.debug.table_from_rows(pw.schema_from_types(**types), data, is_stream=True)
    there: dict[Any, bool] = {}

    def changed(key: Any, row: Any, time: int, is_addition: bool) -> None:
        if is_addition:
            there[key] = True
        else:
            there.pop(key, None)

    pw.io.subscribe(QUERIES[query](pw, **tables), changed)
    started = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": time.perf_counter() - started, "rows": len(there)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
