"""Snapshots: the newest is found, opened without a copy, and never passed over when it is damaged."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.state import InjectedFault, SnapshotStore, pack_arrays, unpack_arrays
from everfresh.state.files import ALIGNMENT


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path, durable=False)


def test_newest_at_or_below(store: SnapshotStore) -> None:
    assert (store.list(), store.latest()) == ([], None)
    for epoch in (40, 5, 20):
        store.write(epoch, {"t": str(epoch).encode()}, {"tables": [epoch]})
    assert store.list() == [5, 20, 40]
    for at_most, epoch in ((None, 40), (40, 40), (39, 20), (20, 20), (5, 5)):
        snapshot = store.latest(at_most)
        assert snapshot is not None
        assert (snapshot.epoch, snapshot.meta, bytes(snapshot.sections["t"])) == (
            epoch,
            {"tables": [epoch]},
            str(epoch).encode(),
        )
    assert store.latest(4) is None


def test_arrays_are_mapped(store: SnapshotStore) -> None:
    keys = np.arange(100_000)
    store.write(1, {"first": b"x", "pool": pack_arrays({"keys": keys})}, {})
    snapshot = store.latest()
    assert snapshot is not None
    assert isinstance(snapshot.sections["pool"].obj, mmap.mmap)
    array = unpack_arrays(snapshot.sections["pool"])["keys"]
    assert array.__array_interface__["data"][0] % ALIGNMENT == 0
    assert not array.flags.owndata
    store.write(1, {}, {})  # replaced, and dropped: what is mapped stays as it is
    store.write(2, {}, {})
    store.drop(2)
    del snapshot
    assert (array == keys).all()


@pytest.mark.parametrize("older", [False, True])
def test_damaged_newest_raises(store: SnapshotStore, tmp_path: Path, older: bool) -> None:
    if older:
        store.write(20, {}, {})
    store.write(40, {"t": b"12345"}, {})
    path = tmp_path / "snaps/0000000040"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-20] ^= 1
    for data in (b"", whole[:-1], bytes(flipped)):
        path.write_bytes(data)
        with pytest.raises(EverfreshError, match="snaps/0000000040 is damaged") as caught:
            store.latest()
        assert caught.value.code == Code.DAMAGED
        assert ("epoch 20" in (caught.value.hint or "")) == older
    assert (store.latest(39) is not None) == older


def test_snapshot_under_another_name_raises(store: SnapshotStore, tmp_path: Path) -> None:
    store.write(40, {}, {})
    (tmp_path / "snaps/0000000040").rename(tmp_path / "snaps/0000000041")
    with pytest.raises(EverfreshError, match="0000000041 is the snapshot of epoch 40"):
        store.latest()


def test_drop_keeps_the_newest_at_or_below(store: SnapshotStore) -> None:
    store.drop(100)
    for epoch in (10, 20, 30, 40):
        store.write(epoch, {}, {})
    store.drop(9)
    assert store.list() == [10, 20, 30, 40]
    store.drop(35)
    assert store.list() == [30, 40]
    store.drop(40)
    assert store.list() == [40]
    store.drop(1000)
    assert store.list() == [40]


def test_crash_in_a_snapshot_leaves_the_old_one(tmp_path: Path) -> None:
    SnapshotStore(tmp_path, durable=True).write(1, {"t": b"old"}, {})
    for epoch in (1, 2):
        with pytest.raises(InjectedFault):
            SnapshotStore(tmp_path, durable=True, fault="mid-snapshot:raise").write(epoch, {"t": b"new"}, {})
    snapshot = SnapshotStore(tmp_path, durable=True).latest()
    assert snapshot is not None
    assert (snapshot.epoch, bytes(snapshot.sections["t"])) == (1, b"old")
    assert os.listdir(tmp_path / "snaps") == ["0000000001"]
