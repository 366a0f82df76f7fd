"""The suite of stores on etcd, and what a cluster of it promises: nothing acknowledged is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

import pytest
from kv_failover import VIEWS, Load, assert_right, declared, write

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.protocol.head import BEYOND
from everfresh.kv.store import START, LogTrimmed, Row, Store, StoredTable, etcd_store
from everfresh.kv.store.etcd import EtcdStore
from everfresh.kv.store.served import AnswerLost
from everfresh.kv.views import Views
from everfresh.testing.kv.servers import EtcdCluster, etcd_cluster, free_ports, missing, until
from everfresh.testing.kv_store_suite import KvStoreSuite
from everfresh.types import BIGINT, Column, TableSchema


def soak(strategy: str) -> Any:
    return pytest.param(strategy, marks=pytest.mark.soak)


pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(bool(missing("etcd")), reason=missing("etcd") or "there"),
]


@pytest.fixture(scope="module")
def one() -> Iterator[EtcdCluster]:
    """One member, for what does not depend on how many there are."""
    with etcd_cluster(1) as cluster:
        yield cluster


class TestEtcd(KvStoreSuite):
    @pytest.fixture(autouse=True)
    def _cluster(self, one: EtcdCluster) -> None:
        self.members = one.members

    def make(self, path: Path, partitions: int) -> Store:
        return etcd_store(self.members, f"t{crc32(str(path).encode())}", partitions=partitions)


@pytest.fixture
def three() -> Iterator[EtcdCluster]:
    with etcd_cluster(3) as cluster:
        yield cluster


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(three: EtcdCluster) -> None:
    """Writers, a maintainer and readers go on with another leader; every write that was acknowledged is there
    once, and no view was made anew."""
    store = etcd_store(three.members, partitions=3)
    views = declared(store)
    views.refresh()
    load = Load(lambda: etcd_store(three.members))
    try:
        load.until(40)
        leader = three.leader()
        assert leader is not None
        leader.kill()
        load.until(40)
        leader.start()
        load.until(20)
    finally:
        load.end()
    assert load.reads
    assert_right(views)
    rows = {row["id"]: row for row in views.client.scan("orders").to_pylist()}
    for id_, row in load.acknowledged.items():
        if id_ not in load.unknown:
            assert rows.get(id_) == row
    for p in store.partitions():  # the log leaves the rows, and an entry is there once
        entries = store.log(p.id, START, 1 << 20)
        assert [e.offset for e in entries] == list(range(1, len(entries) + 1))
        assert len({e.id for e in entries}) == len(entries)
    for name in VIEWS:
        assert views.epoch(name) < BEYOND
    store.close()


def test_a_transaction_whose_answer_was_lost_is_settled(one: EtcdCluster) -> None:
    """Whether it was done, was not, or comes to be done later: the write is there once."""
    store = EtcdStore(one.members, "lost", 1)
    store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
    really = store.gateway.transact
    late: list[Any] = []

    def lost(compare: Any, then: Any) -> bool:
        store.gateway.transact = really  # type: ignore[method-assign]
        if how == "done":
            really(compare, then)
        late.append((compare, then))
        raise AnswerLost

    for how in ("done", "never", "late"):
        store.gateway.transact = lost  # type: ignore[method-assign]
        version = store.put("t", how.encode(), b"1")
        if how == "late":
            assert not really(*late[-1])  # what it expects was written over
        assert store.get("t", how.encode()) == Row(b"1", version)
    assert [e.key for e in store.log(1, START)] == [b"done", b"never", b"late"]
    store.close()


def test_a_watch_tells_what_the_logs_tell(one: EtcdCluster) -> None:
    """etcd's own log of revisions, with what was there before each write, against the store's."""
    store = EtcdStore(one.members, "watched", 2)
    store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
    begin, random = store.revision(), Random(5)
    for _ in range(30):
        key = b"%d" % random.randrange(4)
        store.delete("t", key) if random.random() < 0.3 else store.put("t", key, b"%d" % random.randrange(99))
    end = store.revision()
    seen: list[Any] = []
    for events in store.watch(begin):
        seen += [e for e in events or () if e.key.startswith(store.rows_prefix)]
        if any(e.revision >= end for e in events or ()):
            break
    told = {(e.key, e.revision): (e.before and e.before[8:], e.after and e.after[8:]) for e in seen}
    logged = [e for p in store.partitions() for e in store.log(p.id, START)]
    real = [(e.before, e.after) for e in logged if (e.before, e.after) != (None, None)]
    assert sorted(map(str, told.values())) == sorted(map(str, real))
    assert [e.revision for e in seen] == sorted(e.revision for e in seen)
    store.close()


def test_revisions_are_compacted_but_for_those_that_are_read(one: EtcdCluster) -> None:
    store = EtcdStore(one.members, "compacted", 1)
    store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
    store.put("t", b"a", b"old")
    begin = store.revision()
    snapshot = store.snapshot()
    store.put("t", b"a", b"new")
    assert store.compact() <= snapshot.revision
    assert snapshot.get("t", b"a") == Row(b"old", 1)
    snapshot.close()
    store.put("t", b"a", b"newer")
    assert store.compact() > begin
    with pytest.raises(EverfreshError) as caught:
        snapshot.get("t", b"a")
    assert caught.value.code == Code.HISTORY
    with pytest.raises(LogTrimmed):
        list(store.watch(begin))
    store.close()


def test_nobody_there_is_an_error() -> None:
    (port,) = free_ports(1)
    with pytest.raises(EverfreshError) as caught:
        EtcdStore([f"127.0.0.1:{port}"], "x", 1, patience=0.2)
    assert caught.value.code == Code.ENVIRONMENT


@pytest.mark.parametrize("strategy", ["SNIMB", "SC", *(soak(s) for s in ("SCI", "IN", "SN", "ISN", "ISC"))])
def test_views_equal_recomputation(one: EtcdCluster, strategy: str) -> None:
    store = etcd_store(one.members, f"views-{strategy}", partitions=2)
    views, random = declared(store, strategy), Random(1)
    for round_ in range(3):
        for _ in range(12):
            write(random, views.client)
        if round_ == 1:
            store.split(next(p.id for p in store.partitions() if p.open))
        assert_right(views)
    views.trim()
    assert_right(Views(store))
    store.close()


def test_a_served_store(one: EtcdCluster, tmp_path: Path) -> None:
    """`everfresh kv serve etcd://...` with a process that maintains views, beside clients of etcd itself."""
    path = str(Path(mkdtemp()) / "s")
    how = [sys.executable, "-m", "everfresh", "kv", "serve", f"etcd://{one.members[0]}/served"]
    child = subprocess.Popen([*how, "--socket", path, "--partitions", "2"], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline()
        views = Views(RemoteStore(path), only=lambda group: False)
        views.create_table("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        views.create_view("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS v FROM t")
        client = Client(etcd_store(one.members, "served"))
        for k in range(5):
            client.put("t", {"k": k, "v": k})
        until(lambda: _sum(client) == 10, "the view does not come on")
        assert views.verify("s").num_rows == 0
    finally:
        child.terminate()
        assert child.wait(30) == 0


def _sum(client: Client) -> Any:
    try:
        return client.read("s")["v"][0].as_py()
    except EverfreshError:
        return None
