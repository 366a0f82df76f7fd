"""What a batch touches does not grow with the tables, for every statement that `explain` calls incremental.

Each data set (a part of it) is loaded twice and twenty times: the copies are disjoint, every column that is a
key or refers to one is shifted per copy, all others are the same. Two at least, so that no entry of a map
under a shared value comes or goes with one row. Both bases get the same changes: of each table some rows of
the first copy go, come again, and change. Compared is, statement by statement and for the steps of derived
relations, how many entries were visited in all of them: ten times the rows, and not one entry more, but

- the first rows of a bag are read as far as they go: a page of `offset + limit` rows, which the small base
  may not fill, before and after each batch;
- in `PASSED`, a threshold stands elsewhere among ten times as many groups: what lies between the old and the
  new one is what the view gains and loses, and no more than that is visited.

Interpreted and compiled statements visit other numbers of entries: both bases run the same way.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from workload_compare import DATA_SETS, ddl_of, queries_of, read

import everfresh
from everfresh.compiler import CompiledView, top_of
from everfresh.expr import Made
from everfresh.local.batch import linked_programs as wiring
from everfresh.program import Partitions

CHANGED = 40
"""Rows of each table that change, at most."""
FEW, MANY, SHIFT = 2, 20, 10**8
ORDERS = 150
"""Orders (tickets, quotes of each side) of the small base."""
REFERENCES = {"tpch": ("key",), "tpcds": ("_sk",), "finance": (), "condensed": ("ck", "ok")}
"""How the names of columns end, by data set, that refer to a key."""

Visited = Counter[tuple[str, str, int]]

PASSED = {("tpch_q11", Made("tpch_q11$1"), 0), ("thesis_q11", Made("thesis_q11$1"), 0)}
"""Statements whose entries are rows of the view: those that a threshold passes are published."""


def small(data_set: str) -> dict[str, pa.Table]:
    """Some orders with all that they refer to."""
    data = read(data_set, ORDERS)
    if data_set == "tpch":
        data["orders"] = data["orders"].slice(0, ORDERS)
        _restrict(data, "lineitem", "l_orderkey", "orders", "o_orderkey")
        _restrict(data, "customer", "c_custkey", "orders", "o_custkey")
        _restrict(data, "part", "p_partkey", "lineitem", "l_partkey")
        _restrict(data, "partsupp", "ps_partkey", "part", "p_partkey")
        data["partsupp"] = data["partsupp"].take(list(range(0, data["partsupp"].num_rows, 2)))
    elif data_set == "condensed":
        data["o"] = data["o"].slice(0, ORDERS)
        _restrict(data, "li", "ok", "o", "ok")
        _restrict(data, "c", "ck", "o", "ck")
    elif data_set == "tpcds":
        sales = data["store_sales"]
        chosen = pc.unique(sales["ss_ticket_number"]).slice(0, ORDERS)
        data["store_sales"] = sales.filter(pc.is_in(sales["ss_ticket_number"], chosen))
        for table, key, of in (
            ("date_dim", "d_date_sk", "ss_sold_date_sk"),
            ("household_demographics", "hd_demo_sk", "ss_hdemo_sk"),
            ("customer_demographics", "cd_demo_sk", "ss_cdemo_sk"),
            ("customer_address", "ca_address_sk", "ss_addr_sk"),
            ("customer", "c_customer_sk", "ss_customer_sk"),
        ):
            _restrict(data, table, key, "store_sales", of)
    return data


def _restrict(data: dict[str, pa.Table], table: str, key: str, to: str, column: str) -> None:
    data[table] = data[table].filter(pc.is_in(data[table][key], pc.unique(data[to][column])))


def copied(rows: pa.Table, copies: int, keys: set[str]) -> pa.Table:
    """Disjoint copies of rows, the first as it is."""
    parts = []
    for copy in range(copies):
        columns = [
            pc.add(rows[name], pa.scalar(copy * SHIFT, rows[name].type)) if name in keys else rows[name]
            for name in rows.column_names
        ]
        parts.append(pa.Table.from_arrays(columns, schema=rows.schema))
    return pa.concat_tables(parts).combine_chunks()


def changes(rows: pa.Table, keys: set[str]) -> list[everfresh.Delta]:
    """Rows of a table go, come again, and change."""
    some = rows.take(list(range(0, rows.num_rows, -(-rows.num_rows // CHANGED))))
    other = rows.slice(rows.num_rows - some.num_rows)
    columns = [some[name] if name in keys else other[name] for name in rows.column_names]
    changed = pa.Table.from_arrays(columns, schema=rows.schema)
    none = rows.slice(0, 0)
    return [
        everfresh.Delta(inserts=none, deletes=some),
        everfresh.Delta(inserts=some, deletes=none),
        everfresh.Delta(inserts=changed, deletes=some),
        everfresh.Delta(inserts=some, deletes=changed),
    ]


@cache
def visited(
    data_set: str, copies: int, compile: Literal["off", "now"], views: tuple[str, ...] = ()
) -> tuple[Visited, Counter[str], dict[str, CompiledView]]:
    """The entries that all changes visit, the rows that views publish, and the views (all, or `views`)."""
    data = small(data_set)
    total: Visited = Counter()
    published: Counter[str] = Counter()
    with everfresh.connect(engine="local", options=everfresh.Options(compile=compile)) as db:
        for ddl in ddl_of(data_set).values():
            db.sql(ddl)
        for query in queries_of(data_set):  # first: the sizes of tables decide on programs
            if not views or query.view in views:
                db.sql(query.ddl)
        keys = {
            name: {
                *db.catalog.tables[name].key,
                *(c for c in rows.column_names if c.endswith(REFERENCES[data_set])),
            }
            for name, rows in data.items()
        }
        db.apply({name: copied(rows, copies, keys[name]) for name, rows in data.items()})
        state = db._engine._state
        for name, rows in data.items():
            for delta in changes(rows, keys[name]):
                db.apply({name: delta})
                total.update(state.visited)
                for view, _, _ in PASSED & total.keys():
                    published[view] += db.view(view).changes(since=db.epoch - 1).num_rows
        return total, published, {view.name: view.compiled for view in db.catalog.views.values()}


def incremental(compiled: CompiledView) -> set[tuple[str, int]]:
    """The statements and steps that are called incremental."""
    program = compiled.program
    found = {
        (t.base, i)
        for t in program.triggers
        for i, s in enumerate(t.statements)
        if s.strategy == "incremental"
    }
    found |= {
        (r.name, -1) for r in program.relations if not isinstance(r, Partitions) or top_of(r) is not None
    }
    return found | {(compiled.view.name, -1)}


def pages(compiled: CompiledView, batches: int) -> dict[str, int]:
    """How many rows are read, at most, to see the first rows of a bag before and after each batch."""
    tops = {r.name: top_of(r) for r in compiled.program.relations if isinstance(r, Partitions)}
    return {name: 2 * batches * (top.offset + top.limit) for name, top in tops.items() if top is not None}


@pytest.mark.parametrize(
    ("data_set", "compile"), [*((name, "off") for name in DATA_SETS), ("condensed", "now")]
)
def test_what_is_visited_does_not_grow(data_set: str, compile: Literal["off", "now"]) -> None:
    few, _, compiled = visited(data_set, FEW, compile)
    many, published, same = visited(data_set, MANY, compile)
    assert {n: c.program for n, c in compiled.items()} == {n: c.program for n, c in same.items()}
    batches = 4 * len(ddl_of(data_set))
    grown = {}
    for view, program in compiled.items():
        page = pages(program, batches)
        places = [(view, *place) for place in incremental(program)]
        assert sum(few[place] for place in places) > 0, view
        for place in places:
            most = published[view] if place in PASSED else max(few[place], page.get(place[1], 0))
            if many[place] > most:
                grown[place] = few[place], many[place], most
    assert not grown


def test_a_scan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the index on its groups, the statement on Q11's threshold reads all of them."""
    monkeypatch.setattr(wiring, "between", lambda *_: None)
    total, published, _ = visited.__wrapped__("tpch", FEW, "off", ("tpch_q11",))
    assert total["tpch_q11", Made("tpch_q11$1"), 0] > published["tpch_q11"]
