"""The strategies of key-value views beside each other: making a view, and keeping it while rows change.

All are measured on RocksDB in one process, by processor time: what clients would wait for is the part
`staleness`. A round is a number of changed rows and a refresh. Invariant: after every round each view is
compared with the others of its query; they are the same rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from everfresh.bench.report import Report
from everfresh.bench.timing import median

Pairs = Mapping[str, Sequence[tuple[bytes, bytes]]]
TABLES = ("nation", "supplier", "customer", "orders", "lineitem")
STRATEGIES = ("IN", "IMB", "SN", "SC", "ISN", "ISC", "SNI", "SNIMB", "SCI", "SCIMB")


@contextmanager
def filled(sf: float, names: Sequence[str] = TABLES) -> Iterator[tuple[Any, Pairs]]:
    """A store with tables of TPC-H, and their rows as they lie there."""
    from everfresh.datasets import tpch
    from everfresh.kv.client import Client
    from everfresh.kv.store import Op, rocks_store
    from everfresh.kv.views import Views

    tables = tpch.read(sf, names)
    with tempfile.TemporaryDirectory() as folder:
        store = rocks_store(folder)
        views, client, pairs = Views(store, only=lambda group: False), Client(store), {}
        for name, rows in tables.items():
            views.create_table(tpch.TABLES[name])
            codec = client._codec(name, view=False)
            pairs[name] = [codec.encode(row) for row in codec.physical(rows)]
            ops = [Op(name, key, value) for key, value in pairs[name]]
            for at in range(0, len(ops), 1000):
                store.write(1, ops[at : at + 1000])
        try:
            yield store, pairs
        finally:
            store.close()


def _changed(store: Any, pairs: Pairs, random: Random, count: int, table: str = "lineitem") -> None:
    """Rows of a table get the values of others."""
    from everfresh.kv.store import Op

    rows = pairs[table]
    for at in range(0, count, 1000):
        size = min(1000, count - at)
        ops = [Op(table, random.choice(rows)[0], random.choice(rows)[1]) for _ in range(size)]
        store.write(1, ops)


def _group(name: str) -> Callable[[str], bool]:
    """Which group is a view's; a generation has its name in front."""
    return lambda group: group.split("@")[0] == name


def _seconds(what: Callable[[], object]) -> float:
    began = time.process_time()
    what()
    return time.process_time() - began


def one_percent(report: Report, sf: float, queries: Mapping[str, str], rounds: int) -> None:
    """1 % of lineitem changes: IMB against making the view anew by SN."""
    from everfresh.kv.views import Views

    with filled(sf, ("customer", "orders", "lineitem")) as (store, pairs):
        count, random = len(pairs["lineitem"]) // 100, Random(3)
        for query, text in queries.items():
            views: dict[str, Any] = {}
            for strategy in ("IMB", "SN"):
                name = f"{query}_{strategy}"
                views[strategy] = Views(store, only=_group(name))
                made = f"CREATE MATERIALIZED VIEW {name} AS {text}"
                views[strategy].create_view(made, strategy=strategy)
                views[strategy].refresh()
            took: dict[str, list[float]] = {strategy: [] for strategy in views}
            for _ in range(rounds):
                _changed(store, pairs, random, count)
                for strategy, of in views.items():
                    took[strategy].append(_seconds(of.refresh))
            same = views["IMB"].client.read(f"{query}_IMB").num_rows
            report.truth(
                f"{query}: both have {same} rows", views["SN"].client.read(f"{query}_SN").num_rows == same
            )
            ratio = median(took["SN"]) / median(took["IMB"])
            report.row(
                query=query,
                rows=len(pairs["lineitem"]),
                changed=count,
                imb_ms=round(1000 * median(took["IMB"]), 1),
                sn_ms=round(1000 * median(took["SN"]), 1),
                ratio=round(ratio, 1),
            )
            report.at_least(f"{query}: 1 % changed, IMB against a rebuild by SN", ratio, 20, "times")


def strategies(report: Report, sf: float, queries: Mapping[str, str], batches: Sequence[int]) -> None:
    """Each strategy: making the view, and a round of changes of each size."""
    from everfresh.kv.views import Views

    with filled(sf) as (store, pairs):
        random = Random(4)
        for query, text in queries.items():
            best: dict[str, tuple[float, str]] = {}
            for strategy in STRATEGIES:
                name = f"{query}_{strategy}"
                made = f"CREATE MATERIALIZED VIEW {name} AS {text}"
                views = Views(store, only=_group(name))

                def make(views: Views = views, made: str = made, strategy: str = strategy) -> None:
                    views.create_view(made, strategy=strategy)
                    views.refresh()

                cells = {"making": _seconds(make)}
                for batch in batches:
                    rounds = []
                    for _ in range(3):
                        _changed(store, pairs, random, batch)
                        rounds.append(_seconds(views.refresh))
                    cells[f"{batch} changed"] = median(rounds)
                report.truth(f"{query}: {strategy} is right", views.verify(name).num_rows == 0)
                report.row(
                    query=query,
                    strategy=strategy,
                    **{f"{what}, ms": round(1000 * s, 1) for what, s in cells.items()},
                )
                for what, s in cells.items():
                    best[what] = min(best.get(what, (s, strategy)), (s, strategy))
                views.drop_view(name)
            for what, (s, strategy) in best.items():
                report.row(query=query, when=what, best=strategy, ms=round(1000 * s, 1))
