"""All views of a data set in one database, beside DuckDB: the same batches go to both, and they must agree.

A view is compared after each batch that changes one of its tables. Now and then the change that the view
published since its last comparison is added to the rows it had then: they must be those it has now.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice

import pyarrow as pa
import sqlglot
from workload_streams import HELD_BACK, Batches, Lengths, Stream

import everfresh
from everfresh.datasets import orderbook, tpcds, tpch
from everfresh.delta.bags import EPOCH, expand, net, weigh
from everfresh.testing.oracle import BatchOracle, assert_same
from everfresh.types import TableSchema
from everfresh.workloads import WORKLOADS, Query
from everfresh.workloads.strategies import catalog_of

SF = 0.01

DATA_SETS: dict[str, tuple[str, ...]] = {
    "tpch": ("tpch", "thesis"),
    "tpcds": ("tpcds",),
    "finance": ("finance",),
    "condensed": ("condensed",),
}
"""The workloads over the tables of each data set."""


def read(name: str, orders: int) -> dict[str, pa.Table]:
    """The rows of a data set; `orders` of each side of a book."""
    if name == "tpch":
        return tpch.read(SF)
    if name == "tpcds":
        return tpcds.read(SF)
    book = orderbook.orders(orders)
    if name == "finance":
        return book
    trade = tpch.read(SF, ("customer", "orders", "lineitem"))
    quantity = trade["lineitem"]["l_quantity"].cast(pa.int64())
    return {
        "c": pa.table({"ck": trade["customer"]["c_custkey"]}),
        "o": pa.table({"ck": trade["orders"]["o_custkey"], "ok": trade["orders"]["o_orderkey"]}),
        "li": pa.table({"ok": trade["lineitem"]["l_orderkey"], "qty": quantity}),
        "b": pa.table({"p": book["bids"]["price"], "v": book["bids"]["volume"]}),
        "a": pa.table({"p": book["asks"]["price"], "v": book["asks"]["volume"]}),
    }


def queries_of(data_set: str) -> tuple[Query, ...]:
    return tuple(query for name in DATA_SETS[data_set] for query in WORKLOADS[name].queries)


def ddl_of(data_set: str) -> Mapping[str, str]:
    return WORKLOADS[DATA_SETS[data_set][0]].tables


def settled(query: str) -> str:
    """The query with ties of a LIMIT broken as everfresh breaks them: by all columns, in ascending order."""
    tree = sqlglot.parse_one(query, dialect="duckdb")
    if tree.args.get("limit") is None:
        return query
    order = tree.args["order"]
    for position in range(1, len(tree.selects) + 1):
        order.append(
            "expressions",
            sqlglot.exp.Ordered(this=sqlglot.exp.Literal.number(position), desc=False, nulls_first=False),
        )
    return tree.sql(dialect="duckdb")


class Comparison:
    """Views of a data set, and DuckDB beside them."""

    def __init__(
        self,
        data_set: str,
        sampled: int = 1,
        queries: Iterable[Query] | None = None,
        compile: str = "off",
    ) -> None:
        self.schemas: dict[str, TableSchema] = dict(catalog_of(ddl_of(data_set).values()).tables)
        self.queries = tuple(queries if queries is not None else queries_of(data_set))
        self.expected = {query.view: settled(query.text) for query in self.queries}
        self.sampled = sampled
        self.db = everfresh.connect(engine="local", options=everfresh.Options(history=1000, compile=compile))
        self.oracle = BatchOracle()
        for name, ddl in ddl_of(data_set).items():
            self.db.sql(ddl)
            self.oracle.create(self.schemas[name])
        self.rows: dict[str, tuple[int, pa.Table]] = {}
        """Of each view the epoch when it was last compared, and its rows then."""
        self.stale: set[str] = set()
        self.compared: dict[str, int] = defaultdict(int)
        self.filled: set[str] = set()
        """Views that had rows, not only NULLs, when they were compared."""
        self.seconds: dict[str, float] = defaultdict(float)

    def close(self) -> None:
        self.db.close()
        self.oracle.close()

    def create_views(self) -> None:
        for query in self.queries:
            start = time.process_time()
            self.db.sql(query.ddl)
            self.seconds["create"] += time.process_time() - start
            self._compare(query.view, "when it was created")

    def apply(self, batch: Batches, what: str, compare: bool = True) -> None:
        start = time.process_time()
        self.db.apply(
            {name: everfresh.Delta(inserts=b.inserts, deletes=b.deletes) for name, b in batch.items()}
        )
        self.seconds["apply"] += time.process_time() - start
        for name, part in batch.items():
            self.oracle.change(name, part.inserts, part.deletes)
        views = self.db.catalog.views.values()
        self.stale |= {view.name for view in views if not batch.keys().isdisjoint(view.compiled.bases)}
        if compare:
            start = time.process_time()
            for view in sorted(self.stale):
                self._compare(view, what)
            self.stale.clear()
            self.seconds["compare"] += time.process_time() - start

    def _compare(self, view: str, what: str) -> None:
        actual = self.db.view(view).to_arrow()
        assert_same(self.oracle.query(self.expected[view]), actual, f"{view} {what}")
        number = self.compared[view]
        self.compared[view] += 1
        if any(column.null_count < len(column) for column in actual.columns):
            self.filled.add(view)
        if number and number % self.sampled == 0:
            since, old = self.rows[view]
            changes = self.db.view(view).changes(since=since).drop_columns([EPOCH])
            before = weigh(old)
            sum_ = expand(net(pa.concat_tables([before, changes.cast(before.schema)])))
            assert_same(actual, sum_, f"old rows + changes() of {view} {what}", tolerance=0)
        self.rows[view] = (self.db.epoch, actual)


# -- modes -----------------------------------------------------------------------------------------


def all_at_once(comparison: Comparison, stream: Stream, lengths: Lengths) -> None:
    """From empty, everything in one batch; half goes; all goes."""
    comparison.create_views()
    for number, batch in enumerate(stream.everything()):
        comparison.apply(batch, f"after part {number} of all at once")


def thousands(comparison: Comparison, stream: Stream, lengths: Lengths) -> None:
    """From empty, batches of 1,000."""
    comparison.create_views()
    batches = islice(stream.batches(stream.rows_in_turn(), 1000), lengths.thousands)
    for number, batch in enumerate(batches, 1):
        comparison.apply(batch, f"after batch {number} of 1,000", number % lengths.compared == 0)
    comparison.apply({}, "after the last batch of 1,000")


def sevens(comparison: Comparison, stream: Stream, lengths: Lengths) -> None:
    """Over a preload, batches of 7."""
    comparison.apply(stream.preload(), "after the preload")
    comparison.create_views()
    for number, batch in enumerate(islice(stream.batches(stream.tail(), 7), lengths.sevens), 1):
        comparison.apply(batch, f"after batch {number} of 7")


def singles(comparison: Comparison, stream: Stream, lengths: Lengths) -> None:
    """Over a preload, single changes."""
    comparison.apply(stream.preload(), "after the preload")
    comparison.create_views()
    for number, batch in enumerate(islice(stream.batches(stream.tail(), 1), lengths.singles), 1):
        comparison.apply(batch, f"after single change {number}")


MODES = {"all_at_once": all_at_once, "thousands": thousands, "sevens": sevens, "singles": singles}


def run(
    data_set: str,
    mode: str,
    lengths: Lengths,
    queries: Iterable[Query] | None = None,
    seed: int = 7,
    compile: str = "off",
) -> Comparison:
    """Run one mode over a data set; raises at the first difference."""
    hold_back = HELD_BACK if mode in ("sevens", "singles") else 0
    comparison = Comparison(data_set, lengths.sampled, queries, compile)
    try:
        MODES[mode](
            comparison, Stream(comparison.schemas, read(data_set, lengths.orders), seed, hold_back), lengths
        )
    finally:
        comparison.close()
    return comparison
