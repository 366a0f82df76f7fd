"""What keeping views over a store costs, by what it is made of: making views and keeping them, rows that move
between groups, groups of many rows and of few, maps that grow and shrink, a new term.

All of it is on RocksDB in one process, by processor time. Invariant: after each measurement the view is
compared with its recomputation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

from everfresh.bench.parts.kv_strategies import _changed, _group, _seconds, filled
from everfresh.bench.report import Report
from everfresh.bench.timing import median

SHARES = (0.0, 0.2, 0.4, 0.6)
BATCH = 1000


def upkeep(report: Report, sf: float, queries: Mapping[str, str], rows: int) -> None:
    """All of it."""
    _tpch(report, sf, queries)
    for share in SHARES:
        _moving(report, rows, share)
    _growing(report, rows)
    report.skip(
        "the feed pushed by RocksDB's owner against reading its log",
        "there is no such feed: managers read the log, which is also what a new term reads",
    )
    report.skip("snapshots of maps on and off", "maps are made from the base in a new term, and not kept")


def _tpch(report: Report, sf: float, queries: Mapping[str, str]) -> None:
    """Making views of data that are there, keeping them, and beginning again in a new term; and groups of
    orders by columns of few values and of many."""
    from everfresh.kv.views import Views

    text = "SELECT {0}, SUM(o_totalprice) AS s, COUNT(*) AS n FROM orders GROUP BY {0}"
    by = {f"orders by {column}": text.format(column) for column in ("o_orderstatus", "o_clerk", "o_custkey")}
    with filled(sf, ("customer", "orders", "lineitem")) as (store, pairs):
        for i, (query, text) in enumerate({**queries, **by}.items()):
            table, random = "orders" if query in by else "lineitem", Random(i)
            name = f"v{i}"
            views = Views(store, only=_group(name))
            views.create_view(f"CREATE MATERIALIZED VIEW {name} AS {text}")
            making = _seconds(views.refresh)
            rounds = []
            for _ in range(5):
                _changed(store, pairs, random, BATCH, table)
                rounds.append(_seconds(views.refresh))
            report.truth(f"{query} is right", views.verify(name).num_rows == 0)
            again = Views(store, only=_group(name))
            report.row(
                what=query,
                base_rows=sum(map(len, pairs.values())) if query in queries else len(pairs["orders"]),
                groups=again.client.read(name).num_rows,
                making_ms=round(1000 * making, 1),
                us_per_change=round(1e6 * median(rounds) / BATCH, 1),
                new_term_ms=round(1000 * _seconds(again.refresh), 1),
            )
            again.drop_view(name)


@contextmanager
def _table(rows: int, groups: int) -> Iterator[tuple[Any, Any]]:
    """A table of numbers in groups, and a view that adds them up."""
    from everfresh.kv.store import rocks_store
    from everfresh.kv.views import Views

    with tempfile.TemporaryDirectory() as folder:
        store = rocks_store(folder)
        views = Views(store)
        views.create_table("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT)")
        views.create_view("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(v) AS s FROM t GROUP BY g", key=["g"])
        try:
            yield store, views
        finally:
            store.close()


def _write(store: Any, views: Any, rows: list[tuple[int, int | None, int]]) -> None:
    """Rows (id, group, number); a group that is None: the row goes."""
    from everfresh.kv.store import Op

    codec = views.client._codec("t", view=False)
    ops = [
        Op("t", codec.encode_key([id_]), None) if group is None else Op("t", *codec.encode((id_, group, v)))
        for id_, group, v in rows
    ]
    for at in range(0, len(ops), BATCH):
        store.write(1, ops[at : at + BATCH])


def _moving(report: Report, rows: int, share: float) -> None:
    """Updates of which a share move their row to another group: these change two rows of the view at once."""
    groups, random = 1000, Random(1)
    with _table(rows, groups) as (store, views):
        _write(store, views, [(i, i % groups, 1) for i in range(rows)])
        views.refresh()
        rounds = []
        for _ in range(5):
            some = random.sample(range(rows), BATCH)
            moved = [i + 1 if random.random() < share else i for i in some]
            _write(
                store,
                views,
                [(i, j % groups, random.randrange(99)) for i, j in zip(some, moved, strict=True)],
            )
            rounds.append(_seconds(views.refresh))
            _write(store, views, [(i, i % groups, 1) for i in some])
            views.refresh()
        report.truth(f"{share:.0%} moved: the view is right", views.verify("s").num_rows == 0)
        report.row(
            what=f"{share:.0%} of updates change two rows",
            us_per_change=round(1e6 * median(rounds) / BATCH, 1),
        )


def _growing(report: Report, rows: int) -> None:
    """The entries of a manager's maps: after inserts, with deletes and with updates among them."""
    from everfresh.kv.definitions import base_tables
    from everfresh.kv.protocol.timeline import condense
    from everfresh.kv.runtime.sql_flow import SqlFlow
    from everfresh.kv.store import START

    groups, random = 1000, Random(2)
    for what, deletes, updates in (
        ("inserts", 0.0, 0.0),
        ("30 % deletes", 0.3, 0.0),
        ("30 % updates", 0.0, 0.3),
    ):
        with _table(rows, groups) as (store, views):
            written = list[tuple[int, int | None, int]]()
            for i in range(rows):
                written.append((i, random.randrange(groups), i))
                if random.random() < deletes:
                    written.append((random.randrange(i + 1), None, 0))
                if random.random() < updates:
                    written.append((random.randrange(i + 1), random.randrange(groups), i))
            _write(store, views, written)
            flow = SqlFlow(
                "CREATE MATERIALIZED VIEW m AS SELECT g, MAX(v) AS v, COUNT(*) AS n FROM t GROUP BY g",
                base_tables(store),
            )
            maps, at, end = flow.blank(), START, store.log_end(1)
            while at != end:
                entries = store.log(1, at, 10 * BATCH)
                flow.apply(maps, flow.route(condense(entries, flow.tables)))
                at = entries[-1].position
            state: Any = maps.state
            own = state.maps["m"]
            beside = (m.name for m in own.compiled.program.maps if m.name in state.beside)
            entries_of_maps = len(own.pool) + sum(len(state.beside[name].pool) for name in beside)
            left = views.client.scan("t").num_rows
            report.row(what=f"maps of MAX, {what}", base_rows=left, map_entries=entries_of_maps)
