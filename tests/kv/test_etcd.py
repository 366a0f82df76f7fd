"""The suite of stores on etcd, and what a cluster of it promises: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from everfresh.kv.store import Store, etcd_store
from everfresh.testing.kv.servers import EtcdCluster, etcd_cluster, missing
from everfresh.testing.kv_store_suite import KvStoreSuite

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
