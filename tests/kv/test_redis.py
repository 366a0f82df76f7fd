"""The suite of stores on a Redis Cluster, and what becomes of views when a master dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from kv_failover import VIEWS, Load, assert_right, declared, write

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.encoding import keys
from everfresh.kv.protocol.head import BEYOND
from everfresh.kv.store import ABSENT, START, Conflict, Store, StoredTable, redis_store
from everfresh.kv.store.redis import RedisStore
from everfresh.kv.views import Views
from everfresh.testing.kv.servers import RedisCluster, free_ports, missing, redis_cluster, until
from everfresh.testing.kv_store_suite import KvStoreSuite
from everfresh.types import BIGINT, Column, TableSchema


def soak(strategy: str) -> Any:
    return pytest.param(strategy, marks=pytest.mark.soak)


pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(bool(missing("redis")), reason=missing("redis") or "there"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """Three masters with replicas."""
    with redis_cluster() as found:
        yield found


class TestRedis(KvStoreSuite):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: RedisCluster) -> None:
        self.nodes = cluster.addresses

    def make(self, path: Path, partitions: int) -> Store:
        return redis_store(self.nodes, f"t{crc32(str(path).encode())}", partitions=partitions)


# -- a master that dies ----------------------------------------------------------------------------------


def masters(cluster: RedisCluster) -> list[int]:
    return [port for port in cluster.ports if cluster.node(port).alive and cluster.is_master(port)]


def replica_of(cluster: RedisCluster, master: int) -> int:
    alive = [port for port in cluster.ports if cluster.node(port).alive]
    return next(p for p in alive if int(cluster.replication(p).get("master_port", 0)) == master)


@pytest.fixture
def fresh() -> Iterator[RedisCluster]:
    """A cluster that a test may break."""
    with redis_cluster() as found:
        yield found


def test_lost_writes_are_noticed_and_views_made_anew(fresh: RedisCluster) -> None:
    """A replica that was down for the last writes is promoted: what was acknowledged since is gone, row and
    entry together. Views were ahead of it: they are made anew, and until then nobody reads them."""
    store = redis_store(fresh.addresses, partitions=12)
    views, random = declared(store), Random(2)
    for _ in range(40):
        write(random, views.client)
    assert_right(views)
    epochs = {name: views.epoch(name) for name in VIEWS}
    master = masters(fresh)[0]
    replica = replica_of(fresh, master)
    fresh.node(replica).kill()
    for _ in range(120):
        write(random, views.client)
    assert_right(views)
    before = {row["id"]: row for row in views.client.scan("orders").to_pylist()}
    ends = {p.id: end.offset for p, end in store.ends()}
    fresh.node(master).kill()
    fresh.node(replica).start()
    until(lambda: fresh.ask(replica, "PING"), "the replica does not come back")
    until(lambda: fresh.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER"), "the replica is not promoted")
    until(lambda: fresh.is_master(replica), "the replica is not promoted")
    reader = Client(store)
    until(lambda: _loss(store, ends), "nothing was lost: the test shows nothing")
    assert {row["id"]: row for row in reader.scan("orders").to_pylist()} != before
    for name in VIEWS:  # not as if nothing had happened
        with pytest.raises(EverfreshError) as caught:
            reader.read(name)
        assert caught.value.code == Code.NOT_FOUND
    for cust in range(8):
        with pytest.raises(EverfreshError):
            reader.read_row("spend", cust)
    for _ in range(30):  # offsets that were lost are used again, by other entries
        write(random, views.client)
    assert_right(views)
    for name in VIEWS:
        assert views.epoch(name) > epochs[name] + BEYOND // 2
        reader.read(name)
    fresh.node(master).start()  # as a replica of its successor
    until(lambda: not fresh.is_master(master), "the old master does not give way")
    for _ in range(10):
        write(random, views.client)
    assert_right(views)
    store.close()


def _loss(store: Any, ends: dict[int, int]) -> bool:
    return any(end.offset < ends[p.id] for p, end in store.ends())


def test_a_master_is_killed_under_load(fresh: RedisCluster) -> None:
    """Writers, a maintainer and readers go on with the replica that is promoted by itself."""
    store = redis_store(fresh.addresses, partitions=12)
    views = declared(store)
    views.refresh()
    load = Load(lambda: redis_store(fresh.addresses))
    try:
        load.until(100)
        lives = {p.life for p in store.partitions()}
        fresh.node(masters(fresh)[1]).kill()
        until(lambda: {p.life for p in store.partitions()} != lives, "nobody was promoted")
        load.until(100)
    finally:
        load.end()
    assert load.reads
    assert_right(views)
    for p in store.partitions():
        entries = store.log(p.id, START, 1 << 20)
        assert [e.offset for e in entries] == list(range(1, len(entries) + 1))
    assert all(views.epoch(name) >= BEYOND for name in VIEWS)  # made anew, whether or not anything was lost
    store.close()


@pytest.mark.soak
def test_what_a_replica_was_waited_for_is_there_when_it_is_promoted(fresh: RedisCluster) -> None:
    store = redis_store(fresh.addresses, partitions=6, wait=5000)
    views = declared(store)
    for id_ in range(30):
        views.client.put("orders", {"id": id_, "cust": 1, "price": None})
    master = masters(fresh)[0]
    replica = replica_of(fresh, master)
    fresh.node(master).kill()
    until(lambda: fresh.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER"), "the replica is not promoted")
    until(lambda: fresh.is_master(replica), "the replica is not promoted")
    assert views.client.scan("orders").num_rows == 30
    with pytest.raises(Conflict):
        store.put("orders", keys.encode([1], [BIGINT]), b"", expect=ABSENT)
    other = next(port for port in masters(fresh) if port != replica)
    fresh.node(replica_of(fresh, other)).kill()
    impatient = redis_store(fresh.addresses, wait=20)
    for id_ in range(6):  # nobody to wait for, at one master: it is done all the same
        Client(impatient).put("orders", {"id": id_, "cust": 2, "price": None})
    assert_right(Views(redis_store(fresh.addresses)))
    store.close()


def test_a_master_that_is_started_again_has_all_that_it_acknowledged() -> None:
    """With every write on disk before it is acknowledged, and the same node back."""
    with redis_cluster(fsync="always") as cluster:
        store = redis_store(cluster.addresses, partitions=6)
        views = declared(store)
        load = Load(lambda: redis_store(cluster.addresses), writers=1)
        try:
            load.until(60)
            for port in cluster.ports[3:]:  # so that nobody is promoted
                cluster.node(port).kill()
            cluster.node(cluster.ports[0]).kill()
            cluster.node(cluster.ports[0]).start()
            load.until(60)
        finally:
            load.end()
        assert_right(views)
        rows = {row["id"]: row for row in views.client.scan("orders").to_pylist()}
        for id_, row in load.acknowledged.items():
            if id_ not in load.unknown:
                assert rows.get(id_) == row
        store.close()


@pytest.mark.parametrize("strategy", ["SCI", *(soak(s) for s in ("SCIMB", "IN", "SC", "ISC"))])
def test_views_equal_recomputation(cluster: RedisCluster, strategy: str) -> None:
    store = redis_store(cluster.addresses, f"views-{strategy}", partitions=4)
    views, random = declared(store, strategy), Random(1)
    for _ in range(3):
        for _ in range(12):
            write(random, views.client)
        assert_right(views)
    views.trim()
    assert_right(Views(store))
    with pytest.raises(EverfreshError) as caught:
        views.create_view("CREATE MATERIALIZED VIEW x AS SELECT COUNT(*) AS n FROM orders", strategy="SNI")
    assert caught.value.code == Code.UNSUPPORTED
    assert "SCI" in str(caught.value)
    store.close()


def test_a_master_without_the_functions_is_given_them(cluster: RedisCluster) -> None:
    store = redis_store(cluster.addresses, "functions", partitions=3)
    store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
    for port in masters(cluster):
        cluster.ask(port, "FUNCTION", "FLUSH")
    for key in (b"a", b"b", b"c", b"d"):
        store.put("t", key, b"1")
    assert len([pair for batch in store.scan("t") for pair in batch]) == 4
    store.close()


def test_a_table_that_another_client_dropped_takes_and_shows_nothing(cluster: RedisCluster) -> None:
    one, other = (redis_store(cluster.addresses, "dropped", partitions=3) for _ in range(2))
    table = StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",)))
    one.create_table(table)
    other.put("t", b"a", b"1")
    one.drop_table("t")
    with pytest.raises(EverfreshError) as caught:
        other.put("t", b"a", b"2")
    assert caught.value.code == Code.NOT_FOUND
    for read in (lambda: other.get("t", b"a"), lambda: list(other.scan("t"))):
        one.create_table(table)
        other.put("t", b"a", b"1")  # it sees the table
        one.drop_table("t")
        with pytest.raises(EverfreshError) as caught:
            read()
        assert caught.value.code == Code.NOT_FOUND
        one.create_table(table)  # one of the same name is another one, and it is read
        other.put("t", b"b", b"3")
        one.drop_table("t")
        one.create_table(table)
        one.put("t", b"c", b"4")
        assert other.get("t", b"b") is None
        assert [key for batch in other.scan("t") for key, _ in batch] == [b"c"]
        one.drop_table("t")
    one.create_table(table)
    assert one.get("t", b"a") is None
    one.close()
    other.close()


def test_nobody_there_is_an_error() -> None:
    (port,) = free_ports(1)
    with pytest.raises(EverfreshError) as caught:
        RedisStore([f"127.0.0.1:{port}"], "x", 1, patience=0.2)
    assert caught.value.code == Code.ENVIRONMENT
