"""Scenarios beside the streams: a small change of loaded tables, a join with a sum, what durability adds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.bench import Report, Settings, interleave, median
from everfresh.bench.tpch_local.bars import geometric_mean
from everfresh.bench.tpch_local.cells import INSIDE, DuckDB, Everfresh, view_ddl
from everfresh.bench.tpch_local.plan import Plan
from everfresh.datasets import Batch, tpch
from everfresh.types import TableSchema
from everfresh.workloads import WORKLOADS, Query

ROUNDS = 5
_SHARES = ({"lineitem": 0.8, "orders": 0.2}, {"partsupp": 1.0})
"""Which rows a small change consists of: by the first line some table of which the query reads."""


# -- 1,000 rows over loaded tables -----------------------------------------------------------------


def refresh(report: Report, settings: Settings, plan: Plan, tables_of: Callable[[Query], list[str]]) -> None:
    """1,000 rows against DuckDB running the query again, and how long it takes to make each view."""
    queries = [query for query in plan.queries if query.workload == "tpch"]
    if not queries:
        return
    settings.note(f"1,000 rows over tables at scale factor {plan.sf:g}")
    data = tpch.read(plan.sf)
    changing = {name for shares in _SHARES for name in shares}
    held = {name: min(1000 * ROUNDS, data[name].num_rows // 4) for name in changing}
    base = {name: rows.slice(0, rows.num_rows - held.get(name, 0)) for name, rows in data.items()}
    ours = Everfresh(queries[0], data, "auto")
    schemas: dict[str, TableSchema] = dict(ours.db.catalog.tables)
    theirs = DuckDB("", data, schemas) if "duckdb" in plan.peers else None
    try:
        ours.db.apply(base)
        if theirs is not None:
            theirs.skip({name: Batch(rows, rows.slice(0, 0)) for name, rows in base.items()})
        ratios: dict[str, list[float]] = {"inside, with conversion": [], "db.apply": []}
        slowest = ("", 0.0)
        for query in queries:
            settings.note(f"1,000 rows: {query.view}")
            batches = _changes(data, held, tables_of(query))
            ours.db.sql(view_ddl(query, "auto"))
            ours.db.sql(f"DROP VIEW {query.view}")
            started = time.perf_counter()
            ours.db.sql(view_ddl(query, "auto"))
            made = time.perf_counter() - started
            slowest = max(slowest, (query.view, made), key=lambda item: item[1])
            applied, inside = _refreshes(ours, batches)
            ours.db.sql(f"DROP VIEW {query.view}")
            stream = f"{_count(batches[0]):,} rows"
            took = {"make the view": made, "inside, with conversion": inside, "db.apply": applied}
            for where, one in took.items():
                report.row(query=query.view, stream=stream, how="auto", where=where, ms=1e3 * one)
            if theirs is not None:
                again = _recomputations(theirs, query.text, batches)
                report.row(query=query.view, stream=stream, how="DuckDB", where="its call", ms=1e3 * again)
                for where, some in ratios.items():
                    some.append(again / took[where])
    finally:
        ours.close()
        if theirs is not None:
            theirs.close()
    _refresh_bars(report, plan, ratios, slowest)


def _changes(
    data: Mapping[str, pa.Table], held: Mapping[str, int], reads: list[str]
) -> list[dict[str, pa.Table]]:
    """Some batches of the rows that are held back, in the tables that a query reads: 1,000 in each, or fewer
    where the tables are small."""
    shares = next(shares for shares in _SHARES if set(shares).intersection(reads))
    shares = {name: share for name, share in shares.items() if name in reads}
    whole = sum(shares.values())
    batches = []
    for turn in range(ROUNDS):
        batch = {}
        for name, share in shares.items():
            size = max(min(round(1000 * share / whole), held[name] // ROUNDS), 1)
            first = data[name].num_rows - held[name] + turn * size
            batch[name] = data[name].take(np.arange(first, first + size))
        batches.append(batch)
    return batches


def _refreshes(ours: Everfresh, batches: list[dict[str, pa.Table]]) -> tuple[float, float]:
    """Median seconds of a batch through `db.apply`, and inside with its conversion; all is taken back."""
    from everfresh import Delta

    applied, inside = [], []
    ours.compile()
    for batch in [batches[0], *batches]:  # the first makes the slices
        before = ours.phases()
        applied.append(ours.apply(batch).seconds)
        after = ours.phases()
        inside.append(sum(after[name] - before[name] for name in (*INSIDE, "resolve")))
        ours.skip({name: Delta(deletes=rows) for name, rows in batch.items()})
    return median(applied[1:]), median(inside[1:])


def _recomputations(theirs: DuckDB, text: str, batches: list[dict[str, pa.Table]]) -> float:
    times = []
    for batch in [batches[0], *batches]:
        theirs.skip({name: Batch(rows, rows.slice(0, 0)) for name, rows in batch.items()})
        times.append(theirs.recompute(text).seconds)
        theirs.skip({name: Batch(rows.slice(0, 0), rows) for name, rows in batch.items()})
    return median(times[1:])


def _refresh_bars(
    report: Report, plan: Plan, ratios: Mapping[str, list[float]], slowest: tuple[str, float]
) -> None:
    what = f"make a view over scale factor {plan.sf:g}, the slowest ({slowest[0]})"
    report.below(what, slowest[1], 1.0, "s")
    for name, least in (("inside, with conversion", 100.0), ("db.apply", 50.0)):
        what = f"1,000 rows at scale factor 1 against DuckDB, geometric mean, {name}"
        if not ratios[name]:
            report.skip(what, "DuckDB was not asked for")
        elif plan.sf < 1:
            mean = geometric_mean(ratios[name])
            report.skip(what, f"needs --sf 1; at {plan.sf:g} it is {mean:.3g} times")
        else:
            report.at_least(what, geometric_mean(ratios[name]), least, "times")


# -- a join and a sum over many rows ---------------------------------------------------------------

_JOIN = """
CREATE TABLE fact (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, x DECIMAL(15,2) NOT NULL);
CREATE TABLE dim (k BIGINT PRIMARY KEY, g BIGINT NOT NULL);
CREATE MATERIALIZED VIEW by_group AS
    SELECT d.g, SUM(f.x) AS s, COUNT(*) AS n FROM fact f JOIN dim d ON f.k = d.k GROUP BY d.g;
"""
_KEYS, _GROUPS = 10_000, 100


def _decimals(values: Any) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2))


def micro(report: Report, settings: Settings, plan: Plan) -> None:
    """A join and a sum over a million rows: 10,000 rows come, 1,000 go, one changes."""
    import everfresh

    rows = 20_000 if plan.quick else 1_000_000
    settings.note(f"a join and a sum over {rows:,} rows")
    random = np.random.default_rng(1)

    def fact(first: int, count: int) -> pa.Table:
        return pa.table(
            {
                "id": np.arange(first, first + count),
                "k": random.integers(0, _KEYS, count),
                "x": _decimals(random.integers(0, 10**6, count)),
            }
        )

    with everfresh.connect(engine="local") as db:
        db.sql(_JOIN)
        keys = np.arange(_KEYS)
        db.apply(fact=fact(0, rows), dim=pa.table({"k": keys, "g": keys % _GROUPS}))
        at, gone = rows, 0
        times: dict[str, list[float]] = {"+10,000 rows": [], "-1,000 rows": [], "one update": []}
        for turn in range(ROUNDS + 1):
            old = pa.table({"id": np.arange(gone, gone + 1000)})
            one = pa.table({"id": [rows // 2 + turn], "x": _decimals([turn])})
            changes = (fact(at, 10_000), everfresh.Delta(deletes=old), everfresh.Delta(updates=one))
            for name, change in zip(times, changes, strict=True):
                started = time.perf_counter()
                db.apply(fact=change)
                times[name].append(time.perf_counter() - started)
            at, gone = at + 10_000, gone + 1000
    for (name, took), limit, postgres in zip(times.items(), (6.0, 1.5, 0.2), (35.0, 3.6, 2.2), strict=True):
        ms = 1e3 * median(took[1:])
        what = f"a join and a sum over {rows:,} rows: {name}"
        report.row(query="join + sum", stream=name, how="auto", where="db.apply", ms=ms)
        report.row(query="join + sum", stream=name, how="PostgreSQL 15, pg_ivm 1.15, earlier", ms=postgres)
        if plan.quick:
            report.skip(what, "over a million rows: not with --quick")
        else:
            report.below(what, ms, limit, "ms")


# -- durability ------------------------------------------------------------------------------------


def durability(report: Report, settings: Settings, plan: Plan) -> None:
    """What a folder adds to a batch of 1,000 rows, with and without waiting for the disk."""
    import everfresh

    settings.note("batches of 1,000 rows: no folder, a folder, a folder with fsync")
    tables = ("customer", "orders", "lineitem")
    rounds = 4 if plan.quick else 20
    data = tpch.read(0.001 if plan.quick else 0.02, tables)
    query = WORKLOADS["tpch"].query("q03")
    with tempfile.TemporaryDirectory(prefix="everfresh-bench-") as place:
        ways: dict[str, dict[str, Any]] = {
            "no folder": {},
            "a folder": {"path": Path(place) / "a", "options": everfresh.Options(durable=False)},
            "a folder with fsync": {"path": Path(place) / "b", "options": everfresh.Options()},
        }
        databases = {name: everfresh.connect(engine="local", **way) for name, way in ways.items()}
        batches = [_rows(data, turn, rounds + 1) for turn in range(rounds + 1)]
        try:
            for db in databases.values():
                for name in tables:
                    db.sql(WORKLOADS["tpch"].tables[name])
                db.sql(query.ddl)
                db.apply(batches[0], customer=data["customer"])
            turns = {name: iter(batches[1:]) for name in databases}
            run = {
                name: partial(lambda db, turn: db.apply(next(turn)), db, turns[name])
                for name, db in databases.items()
            }
            times = {name: 1e3 * median(took) for name, took in interleave(run, rounds).items()}
        finally:
            for db in databases.values():
                db.close()
    for name, ms in times.items():
        report.row(query=query.view, stream=f"{_count(batches[0]):,} rows", how=name, where="db.apply", ms=ms)
    without, logged, synced = times.values()
    if plan.quick:
        report.skip("what durability adds to a batch of 1,000 rows", "not with --quick")
        return
    report.below("a folder without fsync adds", 100 * (logged / without - 1), 30.0, "%")
    report.below("a folder with fsync adds", synced - without, 1.0, "ms")


def _rows(data: Mapping[str, pa.Table], turn: int, turns: int) -> dict[str, pa.Table]:
    batch = {}
    for name, size in (("orders", 200), ("lineitem", 800)):
        size = min(size, data[name].num_rows // turns)
        batch[name] = data[name].take(np.arange(turn * size, (turn + 1) * size))
    return batch


def _count(batch: Mapping[str, pa.Table]) -> int:
    return sum(rows.num_rows for rows in batch.values())
