"""The suite of stores on each adapter, and what only RocksDB can get wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store import START, Store, memory_store, rocks_store
from everfresh.testing.kv_store_suite import KvStoreSuite


class TestMemory(KvStoreSuite):
    def make(self, path: Path, partitions: int) -> Store:
        return memory_store(partitions=partitions)


class TestRocks(KvStoreSuite):
    def make(self, path: Path, partitions: int) -> Store:
        return rocks_store(path, partitions=partitions)


def test_one_process_writes_a_folder(tmp_path: Path) -> None:
    store = rocks_store(tmp_path)
    with pytest.raises(EverfreshError) as caught:
        rocks_store(tmp_path)
    assert caught.value.code == Code.LOCKED
    store.close()


_WRITER = """
import os, sys
from everfresh.kv.store import StoredTable, rocks_store
from everfresh.types import BIGINT, Column, TableSchema
store = rocks_store(sys.argv[1], partitions=1)
store.create_table(StoredTable(TableSchema("t", (Column("k", BIGINT),), ("k",))))
n = 0
while True:
    n += 1
    store.put("t", b"%d" % (n % 50), b"%d" % n)
    print(n, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline()) for _ in range(500)][-1]
    child.kill()
    child.communicate()
    store = rocks_store(tmp_path)
    entries = store.log(1, START, 1 << 20)
    assert len(entries) == store.log_end(1).offset >= acknowledged
    last = {e.key: e.after for e in entries}
    assert {k: r.value for batch in store.scan("t") for k, r in batch} == last
    store.close()


def test_importing_everfresh_loads_no_store() -> None:
    code = "import everfresh, everfresh.kv.store, sys; assert 'rocksdict' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    """It is told, and not as a failure of everfresh."""
    (tmp_path / "file").write_text("hello")
    (tmp_path / "block" / "meta").mkdir(parents=True)
    (tmp_path / "block" / "meta" / "CURRENT").write_text("nothing")
    for place, what in (("file", "is no folder"), ("file/below", "is no folder"), ("block", "cannot open")):
        with pytest.raises(EverfreshError, match=what) as caught:
            rocks_store(tmp_path / place)
        assert caught.value.code == Code.ENVIRONMENT
    store = rocks_store(tmp_path / "store")
    with pytest.raises(EverfreshError, match="another process writes") as caught:
        rocks_store(tmp_path / "store")
    assert caught.value.code == Code.LOCKED
    store.close()
