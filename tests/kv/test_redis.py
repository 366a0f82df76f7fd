"""The suite of stores on a Redis Cluster, and what becomes of views when a master dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from everfresh.kv.store import Store, redis_store
from everfresh.testing.kv.servers import RedisCluster, missing, redis_cluster
from everfresh.testing.kv_store_suite import KvStoreSuite

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
