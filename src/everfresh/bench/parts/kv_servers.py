"""What the log costs writers of stores on servers, beside plain writes of the same rows to the same server.

The servers are there already (`--set redis=HOST:PORT,...`, `--set etcd=HOST:PORT,...`). A plain write of
Redis is a SET of the same bytes, one at a time or a pipeline of 1,000; of etcd it is a transaction with one
put.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

from everfresh.bench.report import Report
from everfresh.bench.timing import interleave, median

_VALUE = b"x" * 60
_BATCH = 1000


def servers(report: Report, redis: str, etcd: str, rows: int) -> None:
    """Writers on the servers that are named."""
    if redis:
        _redis(report, redis.split(","), rows)
    else:
        report.skip("writers on Redis", "no servers named: --set redis=HOST:PORT,...")
    if etcd:
        _etcd(report, etcd.split(","), rows // 10)
    else:
        report.skip("writers on etcd", "no servers named: --set etcd=HOST:PORT,...")


def _table(store: Any) -> None:
    from everfresh.kv.store import StoredTable
    from everfresh.types import BIGINT, Column, TableSchema

    store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))


def _keys(count: int) -> list[bytes]:
    random = Random(1)
    return [b"%08d" % random.randrange(count) for _ in range(count)]


def _redis(report: Report, nodes: list[str], rows: int) -> None:
    from everfresh.kv.store import Op, redis_store
    from everfresh.kv.store.redis import package

    store = redis_store(nodes, f"bench{os.getpid()}", partitions=1)
    _table(store)
    host, _, port = nodes[0].rpartition(":")
    plain = package().RedisCluster(host=host, port=int(port))
    keys, few = _keys(rows), _keys(rows // 10)

    def pipelines() -> None:
        for at in range(0, len(keys), _BATCH):
            pipeline = plain.pipeline()
            for key in keys[at : at + _BATCH]:
                pipeline.set(b"{plain}" + key, _VALUE)
            pipeline.execute()

    def batches() -> None:
        for at in range(0, len(keys), _BATCH):
            store.write(1, [Op("t", key, _VALUE) for key in keys[at : at + _BATCH]])

    times = interleave(
        {
            "SET": lambda: [plain.set(b"{plain}" + key, _VALUE) for key in few],
            "put": lambda: [store.put("t", key, _VALUE) for key in few],
            "pipeline of SET": pipelines,
            "batch": batches,
        },
        7,
    )
    took = {name: median(of) for name, of in times.items()}
    for name, s in took.items():
        count = len(few) if name in ("SET", "put") else len(keys)
        report.row(what=f"Redis: {name}", us_per_row=round(1e6 * s / count, 1))
    report.below("Redis, one row a request: put against SET", took["put"] / took["SET"], 1.4, "times")
    ratio = took["batch"] / took["pipeline of SET"]
    report.below("Redis, batches of 1,000: against pipelines of SET", ratio, 2.5, "times")
    store.drop_table("t")
    for key in {*keys, *few}:
        plain.delete(b"{plain}" + key)
    store.close()
    plain.close()


def _etcd(report: Report, members: list[str], rows: int) -> None:
    from everfresh.kv.store import Op, etcd_store
    from everfresh.kv.store.etcd_gateway import Gateway, put

    name = f"bench{os.getpid()}"
    store, plain = etcd_store(members, name), Gateway(members)
    _table(store)
    keys = _keys(rows)
    most = store.caps.most

    def batches() -> None:
        for at in range(0, len(keys), most):
            store.write(1, [Op("t", key, _VALUE) for key in keys[at : at + most]])

    def each() -> None:
        for key in keys[: rows // 5]:
            plain.transact([], [put(f"{name}/{key.decode()}".encode(), _VALUE)])

    times = interleave(
        {
            "put of etcd": each,
            "put": lambda: [store.put("t", key, _VALUE) for key in keys[: rows // 5]],
            f"batch of {most}": batches,
        },
        5,
    )
    for what, of in times.items():
        count = len(keys) if what.startswith("batch") else rows // 5
        report.row(what=f"etcd: {what}", us_per_row=round(1e6 * median(of) / count, 1))
    store.drop_table("t")
    store.close()
    plain.close()
