"""Every store keeps the protocol: files that are whole or absent, and one winner where it says so."""

from __future__ import annotations

import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import Store, is_url, store_of
from everfresh.state.remote import StoreCommits, StoreSnapshots, WriterTerm

KINDS = ("local", "memory", "obstore+file", "arrow+file")


def make(kind: str, folder: Path) -> Store:
    if kind in ("memory", "obstore+file"):
        pytest.importorskip("obstore")
    roots = {"local": str(folder), "memory": f"memory://{uuid.uuid4().hex}"}
    return store_of(roots.get(kind, f"{kind}://{folder}"))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make(request.param, tmp_path / "root")


@pytest.fixture(params=["memory", "obstore+file", "arrow+file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make(request.param, tmp_path / "root")


def test_files(store: Store) -> None:
    assert store.names("") == store.names("parts") == []
    assert store.size("FORMAT") is None
    for missing in (store.read, store.view):
        with pytest.raises(FileNotFoundError):
            missing("parts/0001/a")
    store.remove("parts/0001/a")
    assert store.create("parts/0001/a", b"one")
    assert not store.create("parts/0001/a", b"two")
    assert store.read("parts/0001/a") == bytes(store.view("parts/0001/a")) == b"one"
    store.replace("parts/0001/a", b"three")
    store.replace("parts/0002/b", memoryview(b"four"))
    store.replace("FORMAT", b"five", durable=False)
    store.settle("FORMAT")
    assert (store.read("parts/0001/a"), store.size("parts/0001/a")) == (b"three", 5)
    assert store.names("parts") == ["parts/0001/a", "parts/0002/b"]
    assert store.names("") == ["FORMAT", "parts/0001/a", "parts/0002/b"]
    store.remove("parts/0001/a")
    assert store.names("parts") == ["parts/0002/b"]
    assert store.create("parts/0001/a", [b"six", b" and ", b"seven"])
    assert store.read("parts/0001/a") == b"six and seven"
    assert store_of(store.root) is store


def test_of_many_that_create_one_wins(store: Store) -> None:
    if not store.exclusive:
        pytest.skip("the store promises nothing to more than one")
    for number in range(20):
        barrier, won = threading.Barrier(4), list[int]()

        def attempt(me: int, number: int = number, barrier: Any = barrier, won: Any = won) -> None:
            barrier.wait()
            if store.create(f"commits/{number}", bytes([me]) * 1000):
                won.append(me)

        threads = [threading.Thread(target=attempt, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert store.read(f"commits/{number}") == bytes(won) * 1000


def test_a_commit_whose_answer_was_lost_is_ours(
    remote: Store, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = type(remote).create

    def lost(self: Any, name: str, data: bytes, durable: bool = True) -> bool:
        create(self, name, data, durable)
        return False

    commits = StoreCommits(remote)
    monkeypatch.setattr(type(remote), "create", lost)
    assert commits.create(1, tools.encoded(1))
    remote.replace("commits/0000000003", tools.encoded(3))
    monkeypatch.setattr(commits, "last", lambda: 2)
    assert not commits.create(3, tools.encoded(4))  # that of another


def test_missing_records_are_damage(remote: Store, tools: Any) -> None:
    for epoch in (1, 2, 4):
        remote.create(f"commits/{epoch:010d}", tools.encoded(epoch))
    with pytest.raises(EverfreshError, match=r"missing.*: 3") as caught:
        StoreCommits(remote).last()
    assert caught.value.code == Code.DAMAGED


def test_manifests(remote: Store) -> None:
    snapshots = StoreSnapshots(remote)
    assert snapshots.latest() is None
    for epoch in (3, 7, 9):
        snapshots.write(epoch, {"t": bytes([epoch])}, {"epoch": epoch})
    assert snapshots.list() == [3, 7, 9]
    found = snapshots.latest(at_most=8)
    assert found is not None
    assert (found.epoch, found.meta, bytes(found.sections["t"])) == (7, {"epoch": 7}, b"\7")
    snapshots.drop(8)
    assert snapshots.list() == [7, 9]
    remote.replace("snaps/0000000009", remote.read("snaps/0000000009")[:-1])
    with pytest.raises(EverfreshError) as caught:
        snapshots.latest()
    assert caught.value.code == Code.DAMAGED
    assert "epoch 7" in str(caught.value.hint)


def test_a_term_ends_when_another_begins(remote: Store) -> None:
    first = WriterTerm(remote)
    first.check()
    second = WriterTerm(remote)
    second.check()
    for _ in range(2):
        with pytest.raises(EverfreshError, match="is being written by process") as caught:
            first.check()
        assert caught.value.code == Code.FENCED


def test_without_obstore_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(EverfreshError, match="obstore is not installed") as caught:
        store_of("s3://bucket/nobody-else-asks-for-this")
    assert caught.value.code == Code.ENVIRONMENT
    assert "everfresh[objects]" in str(caught.value.hint)


def test_places() -> None:
    assert is_url("s3://bucket/a")
    assert not is_url("file:///a")
    assert not is_url(Path("a"))
    assert not is_url(None)
    with pytest.raises(EverfreshError, match="no place for a database"):
        store_of("gopher://a/b")
    assert not Options().single_writer
