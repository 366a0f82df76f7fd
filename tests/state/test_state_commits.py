"""All stores keep the protocol: dense epochs, one winner, records that stay as they were created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.state import Commit, CommitStore, FileCommits, InjectedFault, LogCommits, read_commit, store_of
from everfresh.state.remote import StoreCommits


def object_commits(
    folder: Path, durable: bool, writer: bool = True, fault: str | None = None
) -> StoreCommits:
    pytest.importorskip("obstore")
    return StoreCommits(store_of(f"obstore+file://{folder}"), writer, fault)


def arrow_commits(folder: Path, durable: bool, writer: bool = True, fault: str | None = None) -> StoreCommits:
    return StoreCommits(store_of(f"arrow+file://{folder}"), writer, fault)


STORES = pytest.mark.parametrize("make", [FileCommits, LogCommits, object_commits, arrow_commits])


@STORES
@pytest.mark.parametrize("durable", [False, True])
def test_protocol(tmp_path: Path, tools: Any, make: Any, durable: bool) -> None:
    store: CommitStore = make(tmp_path, durable, True)
    assert (store.first(), store.last(), store.read(1), store.read(0)) == (1, 0, None, None)
    for epoch in range(1, 8):
        assert store.create(epoch, tools.encoded(epoch))
        assert store.last() == epoch
    assert not store.create(7, tools.encoded(1))
    assert not store.create(3, tools.encoded(1))
    with pytest.raises(ValueError, match="dense"):
        store.create(9, tools.encoded(9))
    assert [store.read(epoch) for epoch in range(1, 8)] == [tools.encoded(epoch) for epoch in range(1, 8)]
    assert store.read(8) is None
    assert store.first() == 1
    store.close()
    reopened: CommitStore = make(tmp_path, durable, False)
    assert (reopened.first(), reopened.last(), reopened.read(7)) == (1, 7, tools.encoded(7))
    reopened.close()


@STORES
def test_reader_follows_rotations_and_trims(tmp_path: Path, tools: Any, make: Any) -> None:
    writer, reader = make(tmp_path, False, True), make(tmp_path, False, False)
    sleeper = make(tmp_path, False, False)
    assert sleeper.last() == 0
    for epoch in range(1, 31):
        assert writer.create(epoch, tools.encoded(epoch))
        assert reader.last() == epoch
        assert reader.read(epoch) == tools.encoded(epoch)
        if epoch == 2:
            assert sleeper.last() == 2
        if epoch % 5 == 0:
            writer.rotate()
            writer.trim(epoch - 6)
    writer.trim(29)
    # the sleeper's last record is gone, and so are the names it would probe
    assert sleeper.last() == 30
    assert sleeper.read(30) == tools.encoded(30)
    assert sleeper.read(2) is None
    assert reader.first() == sleeper.first() == writer.first() > 24
    assert writer.create(31, tools.encoded(31))
    assert sleeper.last() == 31
    for store in (writer, reader, sleeper):
        store.close()


@STORES
def test_last_is_known_when_everything_may_go(tmp_path: Path, tools: Any, make: Any) -> None:
    store = make(tmp_path, True, True)
    for epoch in range(1, 4):
        store.create(epoch, tools.encoded(epoch))
    store.rotate()
    store.rotate()
    store.trim(1000)
    store.close()
    store = make(tmp_path, True, True)
    assert store.last() == 3
    assert store.first() in (3, 4)
    assert store.read(2) is None
    assert store.create(4, tools.encoded(4))
    assert (store.last(), store.read(4)) == (4, tools.encoded(4))
    store.close()


@STORES
def test_reader_may_not_write(tmp_path: Path, tools: Any, make: Any) -> None:
    make(tmp_path, False, True).close()
    reader = make(tmp_path, False, False)
    for attempt in (lambda: reader.create(1, tools.encoded(1)), lambda: reader.trim(5)):
        with pytest.raises(EverfreshError) as caught:
            attempt()
        assert caught.value.code == Code.READ_ONLY
    assert reader.last() == 0


@STORES
def test_reader_of_a_folder_without_records(tmp_path: Path, tools: Any, make: Any) -> None:
    reader = make(tmp_path, False, False)
    assert (reader.last(), reader.first(), reader.read(1)) == (0, 1, None)
    assert os.listdir(tmp_path) == []
    writer = make(tmp_path, False, True)
    writer.create(1, tools.encoded(1))
    assert (reader.last(), reader.read(1)) == (1, tools.encoded(1))


@STORES
def test_polling_is_cheap(tmp_path: Path, tools: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = make(tmp_path, False, True), make(tmp_path, False, False)
    writer.create(1, tools.encoded(1))
    assert reader.last() == 1

    def refuse(*arguments: Any) -> None:
        raise AssertionError("a poll lists nothing")

    monkeypatch.setattr(os, "listdir", refuse)
    assert reader.last() == 1
    writer.create(2, tools.encoded(2))
    assert reader.last() == 2


@STORES
def test_raise_in_mid_commit_leaves_no_epoch(tmp_path: Path, tools: Any, make: Any) -> None:
    store = make(tmp_path, True, True, "mid-commit:raise:*:1")
    with pytest.raises(InjectedFault):
        store.create(1, tools.encoded(1))
    assert (store.last(), store.read(1)) == (0, None)
    assert store.create(1, tools.encoded(1))
    store.close()
    assert make(tmp_path, True, False).read(1) == tools.encoded(1)


def test_read_commit_refuses_a_record_of_another_epoch(tmp_path: Path, tools: Any) -> None:
    store = FileCommits(tmp_path, False)
    for epoch in (1, 2):
        store.create(epoch, tools.encoded(epoch))
    found = read_commit(store, 2)
    assert found is not None
    assert found.keys == ("key-2",)
    assert read_commit(store, 3) is None
    (tmp_path / "commits/0000000001").write_bytes(tools.encoded(2))
    with pytest.raises(EverfreshError, match="0000000001 holds the record of epoch 2") as caught:
        read_commit(store, 1)
    assert caught.value.code == Code.DAMAGED


def test_file_that_was_cut_short_is_absent_only_as_the_last(tmp_path: Path, tools: Any) -> None:
    store = FileCommits(tmp_path, False)
    for epoch in (1, 2, 3):
        store.create(epoch, tools.encoded(epoch))
    whole = tools.encoded(4)
    for length in (0, 10, 100, len(whole) - 1):
        (tmp_path / "commits/0000000004").write_bytes(whole[:length])
        for other in (store, FileCommits(tmp_path, False)):
            assert (other.last(), other.read(4)) == (3, None)
        assert not store.create(4, whole)  # another writer may be in the middle of it
    store.recover()
    assert store.create(4, whole)
    assert len(list((tmp_path / "commits").glob("*.torn"))) == 1
    (tmp_path / "commits/0000000002").write_bytes(tools.encoded(2)[:-1])
    with pytest.raises(EverfreshError, match="0000000002 is damaged"):
        read_commit(FileCommits(tmp_path, False), 2)


def test_flipped_last_file_is_damage(tmp_path: Path, tools: Any) -> None:
    store = FileCommits(tmp_path, False)
    data = bytearray(tools.encoded(1))
    data[-20] ^= 1
    store.create(1, bytes(data))
    store.recover()
    with pytest.raises(EverfreshError, match="0000000001 is damaged"):
        read_commit(store, store.last())


def test_missing_file_is_damage(tmp_path: Path, tools: Any) -> None:
    store = FileCommits(tmp_path, False)
    for epoch in range(1, 6):
        store.create(epoch, tools.encoded(epoch))
    (tmp_path / "commits/0000000003").unlink()
    with pytest.raises(EverfreshError, match="missing") as caught:
        FileCommits(tmp_path, False).last()
    assert caught.value.message.endswith("commits: 3")
    assert caught.value.code == Code.DAMAGED


TEXTS = st.lists(st.text(), max_size=3).map(tuple)
COMMITS = st.builds(
    Commit,
    epoch=st.integers(1, 10**10),
    parent=st.text(),
    keys=TEXTS,
    ddl=TEXTS,
    sources=st.dictionaries(st.text(), st.integers(), max_size=3),
    meta=st.just({"parts": [{"unit": 1, "tag": None}]}),
    sections=st.dictionaries(st.text(), st.binary(), max_size=3),
)


@settings(deadline=None)
@given(COMMITS)
def test_record_round_trip(commit: Commit) -> None:
    decoded = Commit.decode(commit.encode())
    assert decoded == commit
    assert decoded.digest == commit.digest == commit.encode()[-16:].hex()
    assert decoded.encode() == commit.encode()


def test_record_differs_with_its_parent_and_names_its_file() -> None:
    assert Commit(2, "a").digest != Commit(2, "b").digest
    with pytest.raises(EverfreshError, match="commits/0000000002 is damaged"):
        Commit.decode(Commit(2, "a").encode()[:-1], "commits/0000000002")
    with pytest.raises(ValueError, match="numbered from 1"):
        Commit(0, "")
