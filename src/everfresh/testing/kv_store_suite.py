"""One suite of tests for all key-value stores: subclass `KvStoreSuite`, say how to make one, and pytest does
the rest.

    class TestMyStore(KvStoreSuite):
        def make(self, path, partitions):
            return my_store(path, partitions=partitions)

It covers what `everfresh.kv.store.protocol.Store` asks. What a store's `caps` do not have is checked to be
refused. The random histories have a dictionary as their model.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.kv import split
from everfresh.kv.store import (
    ABSENT,
    START,
    Client,
    Conflict,
    LogDiverged,
    LogTrimmed,
    Op,
    PartitionClosed,
    Position,
    Refused,
    Row,
    Store,
    StoredTable,
    was_ours,
)
from everfresh.types import BIGINT, Column, TableSchema

_SCHEMA = TableSchema("t", (Column("k", BIGINT), Column("v", BIGINT)), ("k",))
_KEYS = [bytes([65 + i]) for i in range(12)]


def _table(name: str, **how: bool) -> StoredTable:
    return StoredTable(TableSchema(name, _SCHEMA.columns, ("k",)), **how)


def _rows(batches: Iterator[list[tuple[bytes, Row]]]) -> dict[bytes, bytes]:
    pairs = [(key, row.value) for batch in batches for key, row in batch]
    assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
    return dict(pairs)


def _write_all(store: Store, partition: int, ops: list[Op]) -> None:
    """In batches that the store takes."""
    most = store.caps.most or len(ops)
    for start in range(0, len(ops), most):
        store.write(partition, ops[start : start + most])


def _replayed(store: Store) -> dict[bytes, bytes]:
    """What the entries of all logs leave of table `t`; a parent's come before its children's."""
    rows: dict[bytes, bytes] = {}
    start: dict[int, Position] = {}
    for p in store.partitions():
        at = start.get(p.id, START)
        for entry in store.log(p.id, at, 1 << 20):
            assert entry.offset == at.offset + 1
            at = entry.position
            if entry.table == "t":
                assert entry.before == rows.get(entry.key)
                if entry.after is None:
                    rows.pop(entry.key, None)
                else:
                    rows[entry.key] = entry.after
        assert at == store.log_end(p.id)
        start.update(dict.fromkeys(p.children, at))
    return rows


class KvStoreSuite:
    """Everything a store must do; what it keeps, if it is durable, when it is opened again."""

    def make(self, path: Path, partitions: int) -> Store:
        """The store of a folder, made if there is none; a subclass may use the folder as it likes."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """A store of two partitions with the tables `t`, `bare` (no before-images) and `view` (no log)."""
        store = self.make(tmp_path, 2)
        store.create_table(_table("t"))
        store.create_table(_table("bare", before_images=False))
        store.create_table(_table("view", logged=False))
        yield store
        store.close()

    # -- rows --------------------------------------------------------------------------------------

    def test_rows_are_put_read_and_deleted(self, store: Store) -> None:
        assert store.get("t", b"a") is None
        version = store.put("t", b"a", b"1")
        assert store.get("t", b"a") == Row(b"1", version)
        store.put("t", b"b", b"")
        assert [r.value if r else None for r in store.multi_get("t", [b"b", b"x", b"a"])] == [b"", None, b"1"]
        assert store.get("view", b"a") is None
        store.delete("t", b"a")
        assert store.get("t", b"a") is None

    def test_a_table_that_is_not_there_is_an_error(self, store: Store) -> None:
        for call in (
            lambda: store.get("x", b"a"),
            lambda: store.put("x", b"a", b""),
            lambda: store.drop_table("x"),
        ):
            with pytest.raises(EverfreshError) as caught:
                call()
            assert caught.value.code == Code.NOT_FOUND

    def test_a_table_is_made_once(self, store: Store) -> None:
        store.create_table(_table("t"))
        with pytest.raises(EverfreshError) as caught:
            store.create_table(_table("t", logged=False))
        assert caught.value.code == Code.EXISTS

    def test_a_table_that_was_dropped_is_empty_when_it_is_made_again(self, store: Store) -> None:
        store.put("t", b"a", b"1")
        store.put("view", b"a", b"2")
        store.drop_table("t")
        store.create_table(_table("t"))
        assert store.get("t", b"a") is None
        assert store.get("view", b"a") is not None

    def test_a_conditional_write_finds_its_version_or_says_which_is_there(self, store: Store) -> None:
        for table in ("t", "bare", "view"):
            first = store.put(table, b"a", b"1", expect=ABSENT)
            with pytest.raises(Conflict) as caught:
                store.put(table, b"a", b"2", expect=ABSENT)
            assert caught.value.actual == first
            second = store.put(table, b"a", b"2", expect=first)
            assert second != first
            with pytest.raises(Conflict):
                store.delete(table, b"a", expect=first)
            store.delete(table, b"a", expect=second)
            third = store.put(table, b"a", b"3", expect=ABSENT)
            assert third not in (first, second)

    def test_a_batch_is_written_whole_or_not_at_all(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        other = next(k for k in _KEYS if store.partition_of("t", k).id == p and k != b"a")
        store.write(p, [Op("t", b"a", b"1"), Op("view", other, b"2")])
        end = store.log_end(p)
        with pytest.raises(Conflict):
            store.write(p, [Op("t", b"a", b"9"), Op("view", other, b"9", ABSENT)])
        assert store.log_end(p) == end
        assert store.multi_get("t", [b"a"]) == [Row(b"1", end.offset)]
        found = store.get("view", other)
        assert found is not None
        assert found.value == b"2"

    def test_a_batch_sees_its_own_writes(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        store.write(p, [Op("t", b"a", b"1"), Op("t", b"a", b"2"), Op("t", b"a", None)])
        assert [(e.before, e.after) for e in store.log(p, START)] == [
            (None, b"1"),
            (b"1", b"2"),
            (b"2", None),
        ]
        assert store.get("t", b"a") is None

    def test_a_batch_has_keys_of_one_partition(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        foreign = next(k for k in _KEYS if store.partition_of("t", k).id != p)
        with pytest.raises(EverfreshError) as caught:
            store.write(p, [Op("t", foreign, b"1")])
        assert caught.value.code == Code.ARGUMENT

    def test_a_batch_has_no_more_writes_than_the_store_takes(self, store: Store) -> None:
        most = store.caps.most
        if not most:
            return
        p = store.partition_of("t", b"a").id
        keys = [k for k in (b"%06d" % i for i in range(9 * most)) if store.partition_of("t", k).id == p]
        store.write(p, [Op("t", k, b"x") for k in keys[:most]])
        assert store.log_end(p).offset == most
        with pytest.raises(EverfreshError) as caught:
            store.write(p, [Op("t", k, b"x") for k in keys[: most + 1]])
        assert caught.value.code == Code.ARGUMENT
        assert store.log_end(p).offset == most

    def test_conditional_writers_in_threads_lose_nothing(self, store: Store) -> None:
        store.put("t", b"n", b"0")

        def add() -> None:
            done = 0
            while done < 50:
                row = store.get("t", b"n")
                assert row is not None
                try:
                    store.put("t", b"n", b"%d" % (int(row.value) + 1), expect=row.version)
                    done += 1
                except Conflict:
                    pass

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.get("t", b"n")
        assert found is not None
        assert found.value == b"200"

    # -- scans -------------------------------------------------------------------------------------

    def test_a_scan_is_ordered_and_bounded(self, store: Store) -> None:
        keys = [b"%05d" % (i * 7919 % 3001) for i in range(3001)]
        for p in [p.id for p in store.partitions()]:
            _write_all(store, p, [Op("t", k, k) for k in keys if store.partition_of("t", k).id == p])
        store.put("view", b"00001", b"other")
        assert list(_rows(store.scan("t"))) == sorted(keys)
        assert list(_rows(store.scan("t", b"00100", b"00200"))) == [b"%05d" % i for i in range(100, 200)]

    def test_chunks_are_exact_with_the_log(self, store: Store) -> None:
        """Rows of a chunk are what the entries up to its position leave, although writes come between."""
        p = store.partition_of("t", b"a").id
        keys = [k for k in (b"%03d" % i for i in range(200)) if store.partition_of("t", k).id == p]
        _write_all(store, p, [Op("t", k, b"0") for k in keys])
        low: bytes | None = b""
        for n, chunk in enumerate(store.scan_chunks(p, "t", size=7)):
            assert chunk.lo == low
            low = chunk.hi
            expected: dict[bytes, bytes | None] = {}
            for entry in store.log(p, START, chunk.position.offset):
                expected[entry.key] = entry.after
            inside = {k for k in keys if chunk.lo <= k and (chunk.hi is None or k < chunk.hi)}
            assert {k: r.value for k, r in chunk.rows} == {
                k: v for k, v in expected.items() if k in inside and v is not None
            }
            store.write(
                p, [Op("t", keys[(n * 31 + i) % len(keys)], None if i else b"%d" % n) for i in range(3)]
            )
        assert low is None

    def test_a_snapshot_does_not_see_a_later_write(self, store: Store) -> None:
        if store.caps.snapshot == "none":
            with pytest.raises(EverfreshError) as caught:
                store.snapshot()
            assert caught.value.code == Code.UNSUPPORTED
            return
        for key in _KEYS:
            store.put("t", key, b"old")
        snapshot = store.snapshot()
        for key in _KEYS[::2]:
            store.put("t", key, b"new")
        store.delete("t", _KEYS[1])
        store.put("t", b"later", b"new")
        assert _rows(snapshot.scan("t")) == dict.fromkeys(_KEYS, b"old")
        interleaved = zip(snapshot.scan("t"), snapshot.scan("t"), strict=True)
        assert all(a == b for a, b in interleaved)
        assert [r.value if r else None for r in snapshot.multi_get("t", [_KEYS[0], b"later"])] == [
            b"old",
            None,
        ]
        for p, position in snapshot.positions.items():
            assert position.offset + sum(1 for e in store.log(p, position)) == store.log_end(p).offset
        snapshot.close()

    # -- the log -----------------------------------------------------------------------------------

    def test_entries_are_dense_and_have_images(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        client = Client(b"me", 7)
        store.put("t", b"a", b"1", client=client)
        store.put("view", b"a", b"x")
        store.put("bare", b"a", b"2")
        store.put("bare", b"a", b"3")
        store.delete("t", b"a")
        entries = store.log(p, START)
        assert [e.offset for e in entries] == [1, 2, 3, 4]
        assert [(e.table, e.before, e.after) for e in entries] == [
            ("t", None, b"1"),
            ("bare", None, b"2"),
            ("bare", None, b"3"),
            ("t", b"1", None),
        ]
        assert (entries[0].client, entries[0].client_seq) == client
        assert len({e.id for e in entries}) == len(entries)
        assert store.log(p, entries[1].position, 1) == entries[2:3]
        assert store.log_end(p) == entries[-1].position
        assert store.entry(p, 3) == entries[2]
        assert store.entry(p, 9) is None

    def test_a_position_that_the_log_does_not_have_is_found(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        store.put("t", b"a", b"1")
        end = store.log_end(p)
        assert store.log(p, end) == []
        for wrong in (Position(end.offset, b"another!"), Position(end.offset + 1, end.id)):
            with pytest.raises(LogDiverged):
                store.log(p, wrong)

    def test_a_log_is_trimmed(self, store: Store) -> None:
        p = store.partition_of("t", b"a").id
        for i in range(5):
            store.put("t", b"a", b"%d" % i)
        entries = store.log(p, START)
        store.log_trim(p, 3)
        with pytest.raises(LogTrimmed):
            store.log(p, entries[1].position)
        assert store.log(p, entries[2].position) == entries[3:]
        with pytest.raises(LogDiverged):
            store.log(p, Position(3, b"another!"))
        store.log_trim(p, 99)
        store.put("t", b"a", b"x")
        assert [e.offset for e in store.log(p, entries[4].position)] == [6]

    def test_a_lost_answer_is_settled_by_reading(self, store: Store) -> None:
        mine, other = Client(b"me", 1), Client(b"you", 1)
        store.put("t", b"a", b"1", client=mine)
        assert was_ours(store, "t", b"a", mine)
        assert not was_ours(store, "t", b"a", other)
        if store.caps.splits:
            store.split(store.partition_of("t", b"a").id)
            assert was_ours(store, "t", b"a", mine)
        store.put("t", b"a", b"2", client=other)
        assert not was_ours(store, "t", b"a", mine)

    # -- split states and fences -------------------------------------------------------------------

    def _states(self, store: Store, key: bytes) -> split.States:
        row = store.get("view", key)
        return split.unpack(row.value if row else None)

    def test_rows_are_prepared_resolved_and_collected(self, store: Store) -> None:
        p = store.partition_of("view", b"a").id
        store.fence(p, "g", 1, 1)
        for _ in range(2):  # doing it again changes nothing
            store.prepare(p, "view", "g", 1, 1, [(b"a", b"x")])
            assert self._states(store, b"a") == (split.State(0, None), split.State(1, b"x"))
        store.resolve(p, "view", 0, [b"a"])
        assert len(self._states(store, b"a")) == 2
        store.resolve(p, "view", 1, [b"a"])
        assert self._states(store, b"a") == (split.State(1, b"x"),)
        store.fence(p, "g", 1, 2)
        store.prepare(p, "view", "g", 1, 2, [(b"a", None)])
        store.resolve(p, "view", 2, [b"a"])
        store.collect(p, "view", 1, [b"a"])
        assert self._states(store, b"a") == (split.State(2, None),)
        store.collect(p, "view", 2, [b"a"])
        assert store.get("view", b"a") is None

    def test_a_fence_refuses_zombies(self, store: Store) -> None:
        p = store.partition_of("view", b"a").id
        store.fence(p, "g", 2, 5)
        for term, epoch in ((1, 5), (2, 4), (2, 6), (3, 5)):
            with pytest.raises(Refused):
                store.prepare(p, "view", "g", term, epoch, [(b"a", b"x")])
        with pytest.raises(Refused):
            store.fence(p, "g", 1, 9)
        store.fence(p, "g", 2, 5)
        store.prepare(p, "view", "g", 2, 5, [(b"a", b"x")])
        store.fence(p, "other", 1, 1)
        store.fence(p, "g", 3, 4)
        with pytest.raises(Refused):  # the row has a later epoch
            store.prepare(p, "view", "g", 3, 4, [(b"a", b"x")])

    # -- partitions that split and move ------------------------------------------------------------

    def _splits(self, store: Store) -> bool:
        """Whether the store can; one that cannot says so."""
        if not store.caps.splits:
            with pytest.raises(EverfreshError) as caught:
                store.split(store.partitions()[0].id)
            assert caught.value.code == Code.UNSUPPORTED
        return store.caps.splits

    def test_a_partition_splits_under_load(self, store: Store) -> None:
        if not self._splits(store):
            return
        stop = threading.Event()
        written: dict[bytes, bytes] = {}

        def write() -> None:
            n = 0
            while not stop.is_set() or n < 200:
                key = b"%03d" % (n % 97)
                store.put("t", key, b"%d" % n)
                written[key] = b"%d" % n
                n += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(3):
                store.split(next(p.id for p in store.partitions() if p.open))
        finally:
            stop.set()
            thread.join()
        assert sum(p.hi - p.lo for p in store.partitions() if p.open) == 1 << 16
        assert _rows(store.scan("t")) == written == _replayed(store)

    def test_a_split_partition_takes_nothing_and_keeps_fences(self, store: Store) -> None:
        if not self._splits(store):
            return
        p = store.partition_of("view", b"a").id
        store.fence(p, "g", 3, 1)
        children = store.split(p)
        for call in (
            lambda: store.write(p, [Op("t", b"a", b"")]),
            lambda: store.fence(p, "g", 4, 1),
            lambda: store.prepare(p, "view", "g", 3, 1, [(b"a", b"")]),
            lambda: store.split(p),
            lambda: store.move(p, "x"),
        ):
            with pytest.raises(PartitionClosed):
                call()
        child = store.partition_of("view", b"a").id
        assert child in children
        with pytest.raises(Refused):
            store.fence(child, "g", 2, 1)

    def test_a_partition_that_moved_refuses_the_old_owner(self, store: Store) -> None:
        p = store.partition_of("t", b"a")
        store.write(p.id, [Op("t", b"a", b"1")], term=p.term)
        term = store.move(p.id, "other")
        assert term > p.term
        assert store.partition_of("t", b"a").owner == "other"
        with pytest.raises(PartitionClosed):
            store.write(p.id, [Op("t", b"a", b"2")], term=p.term)
        store.write(p.id, [Op("t", b"a", b"3")], term=term)

    # -- all of it ---------------------------------------------------------------------------------

    def test_what_is_written_is_there_when_the_store_is_opened_again(self, tmp_path: Path) -> None:
        store = self.make(tmp_path, 2)
        if not store.caps.durable:
            store.close()
            return
        store.create_table(_table("t"))
        for key in _KEYS:
            store.put("t", key, key * 2)
        if store.caps.splits:
            store.split(store.partitions()[0].id)
        store.put("t", b"later", b"x")
        store.log_trim(store.partitions()[1].id, 2)
        partitions, ends = store.partitions(), [store.log_end(p.id) for p in store.partitions()]
        store.close()
        again = self.make(tmp_path, 2)
        assert again.partitions() == partitions
        assert [again.log_end(p.id) for p in partitions] == ends
        assert dict(again.tables()) == {"t": _table("t")}
        assert _rows(again.scan("t")) == {**{k: k * 2 for k in _KEYS}, b"later": b"x"}
        with pytest.raises(LogTrimmed):
            again.log(partitions[1].id, START)
        again.put("t", b"a", b"y")
        again.close()

    def test_random_histories(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """The store does what a dictionary does, and its log leaves its rows."""

        @given(data=st.data())
        def check(data: Any) -> None:
            self._history(self.make(tmp_path_factory.mktemp("kv"), data.draw(st.integers(1, 3))), data)

        check()

    def _history(self, store: Store, data: Any) -> None:
        store.create_table(_table("t"))
        model: dict[bytes, bytes] = {}
        versions: dict[bytes, int] = {}
        for _ in range(data.draw(st.integers(0, 25))):
            kind = data.draw(st.sampled_from(["put", "delete", "expect", "split", "read"]))
            key = data.draw(st.sampled_from(_KEYS))
            if kind == "put":
                versions[key] = store.put("t", key, value := data.draw(st.binary(max_size=4)))
                model[key] = value
            elif kind == "delete":
                store.delete("t", key)
                model.pop(key, None)
                versions.pop(key, None)
            elif kind == "expect":
                expect = data.draw(st.sampled_from([ABSENT, versions.get(key, 99), 98]))
                if expect == versions.get(key, ABSENT):
                    versions[key] = store.put("t", key, b"c", expect=expect)
                    model[key] = b"c"
                    continue
                with pytest.raises(Conflict) as caught:
                    store.put("t", key, b"c", expect=expect)
                assert caught.value.actual == versions.get(key, ABSENT)
            elif kind == "split" and store.caps.splits:
                store.split(store.partition_of("t", key).id)
            else:
                lo, hi = sorted([key, data.draw(st.sampled_from(_KEYS))])
                assert _rows(store.scan("t", lo, hi)) == {k: v for k, v in model.items() if lo <= k < hi}
        assert _rows(store.scan("t")) == model == _replayed(store)
        store.close()
