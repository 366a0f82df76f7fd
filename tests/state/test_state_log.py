"""The log: a torn tail is absent, other damage is refused, and a crash loses nothing acknowledged."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.state import Commit, LogCommits


def fill(folder: Path, tools: Any, epochs: int) -> Path:
    store = LogCommits(folder, False, True)
    for epoch in range(1, epochs + 1):
        assert store.create(epoch, tools.encoded(epoch))
    store.close()
    return folder / "log/0000000001.log"


def test_torn_tail_at_every_byte(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 2)
    before = path.stat().st_size
    fill_three = LogCommits(tmp_path, False, True)
    fill_three.create(3, tools.encoded(3))
    fill_three.close()
    whole = path.read_bytes()
    for length in range(before, len(whole)):
        path.write_bytes(whole[:length])
        reader = LogCommits(tmp_path, False, False)
        assert (reader.last(), reader.read(3)) == (2, None)
        assert path.stat().st_size == length, "a reader changes nothing"
        writer = LogCommits(tmp_path, False, True)
        assert path.stat().st_size == before
        assert writer.last() == 2
        assert writer.create(3, tools.encoded(3))
        assert (reader.last(), reader.read(3)) == (3, tools.encoded(3))
        reader.close()
        writer.close()
        assert path.read_bytes() == whole
    assert os.listdir(path.parent) == [path.name]


def test_flipped_tail_is_absent_and_kept_aside(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 2)
    before = path.stat().st_size
    writer = LogCommits(tmp_path, False, True)
    writer.create(3, tools.encoded(3))
    writer.close()
    whole = path.read_bytes()
    for count, position in enumerate(range(before, len(whole), 13), 1):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        writer = LogCommits(tmp_path, False, True)
        assert writer.last() == 2
        writer.close()
        assert path.read_bytes() == whole[:before]
        torn = list(path.parent.glob("*.torn"))
        assert len(torn) == count
        assert bytes(damaged[before:]) in [file.read_bytes() for file in torn]


def test_damage_before_the_tail_is_refused_at_every_byte(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 3)
    whole = path.read_bytes()
    ends = [0, *(position for position in range(1, len(whole)) if whole[position : position + 4] == b"EFLG")]
    for position in range(ends[2]):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        epoch = 1 if position < ends[1] else 2
        for writer in (False, True):
            with pytest.raises(EverfreshError) as caught:
                LogCommits(tmp_path, False, writer)
            assert caught.value.code == Code.DAMAGED
            assert str(path) in caught.value.message
            assert f"epochs {epoch} to 3" in caught.value.message
            assert f"whole up to epoch {epoch - 1}" in (caught.value.hint or "")
        assert path.read_bytes() == damaged, "nothing is cut off a damaged log"


def test_record_lost_from_the_middle_is_refused(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 3)
    whole = path.read_bytes()
    second, third = whole.index(b"EFLG", 1), whole.rindex(b"EFLG")
    path.write_bytes(whole[:second] + whole[third:])
    with pytest.raises(EverfreshError, match="epochs 2 to 3: epoch 3 stands in its place"):
        LogCommits(tmp_path, False, True)


def test_torn_tail_of_a_file_that_is_not_the_last_is_refused(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 3)
    store = LogCommits(tmp_path, False, True)
    store.rotate()
    store.create(4, tools.encoded(4))
    store.close()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(EverfreshError, match="epoch 3: the next file begins with epoch 4"):
        LogCommits(tmp_path, False, True)


def test_missing_file_is_refused(tmp_path: Path, tools: Any) -> None:
    store = LogCommits(tmp_path, False, True)
    for epoch in range(1, 7):
        store.create(epoch, tools.encoded(epoch))
        if epoch % 2 == 0:
            store.rotate()
    store.close()
    (tmp_path / "log/0000000003.log").unlink()
    with pytest.raises(EverfreshError, match="epochs 3 to 4"):
        LogCommits(tmp_path, False, False)


def test_damage_that_a_reader_finds_later_stays_found(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 2)
    reader = LogCommits(tmp_path, False, False)
    assert reader.last() == 2
    writer = LogCommits(tmp_path, False, True)
    position = path.stat().st_size + 50
    for epoch in (3, 4):
        writer.create(epoch, tools.encoded(epoch))
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))
    for _ in range(2):
        with pytest.raises(EverfreshError, match="epochs 3 to 4"):
            reader.last()


def test_trim_removes_whole_files_only(tmp_path: Path, tools: Any) -> None:
    store = LogCommits(tmp_path, False, True)
    for epoch in range(1, 11):
        store.create(epoch, tools.encoded(epoch))
        if epoch in (3, 6, 9):
            store.rotate()
    store.trim(3)
    assert store.first() == 1
    store.trim(6)
    assert (store.first(), store.read(3), store.read(4)) == (4, None, tools.encoded(4))
    store.trim(100)
    assert (store.first(), store.last()) == (10, 10)
    assert os.listdir(tmp_path / "log") == ["0000000010.log"]
    store.close()


def test_disk_limit_leaves_the_log_as_before(tmp_path: Path, tools: Any) -> None:
    path = fill(tmp_path, tools, 2)
    store, before = LogCommits(tmp_path, True, True), path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # the system writes up to the limit, and refuses the rest: a real short write
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
        with pytest.raises(EverfreshError) as caught:
            store.create(3, tools.encoded(3, size=4000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.code == Code.ENVIRONMENT
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert (store.last(), store.read(3)) == (2, None)
    assert store.create(3, tools.encoded(3))
    store.close()
    assert LogCommits(tmp_path, True, False).last() == 3


def test_failed_sync_withdraws_the_record(
    tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(tmp_path, tools, 2)
    store, before = LogCommits(tmp_path, True, True), path.read_bytes()
    reader = LogCommits(tmp_path, True, False)
    calls: list[int] = []

    def fail_once(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            assert reader.last() == 3, "the record is in the file, and not yet acknowledged"
            raise OSError(errno.EIO, "disk")

    monkeypatch.setattr("everfresh.state.log._sync_data", fail_once)
    with pytest.raises(EverfreshError, match="disk"):
        store.create(3, tools.encoded(3))
    assert path.read_bytes() == before
    assert (store.last(), reader.last(), reader.read(3)) == (2, 2, None)
    other = Commit(3, "", keys=("another",)).encode()
    assert store.create(3, other)
    assert (reader.last(), reader.read(3)) == (3, other)


def test_nothing_is_written_after_a_write_that_cannot_be_taken_back(
    tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, tools, 2)
    store = LogCommits(tmp_path, True, True)

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, "disk")

    with monkeypatch.context() as patch:
        patch.setattr("everfresh.state.log._sync_data", fail)
        with pytest.raises(EverfreshError, match="disk"):
            store.create(3, tools.encoded(3))
        with pytest.raises(EverfreshError, match="cannot be taken back yet") as caught:
            store.create(3, tools.encoded(3))
        assert caught.value.code == Code.ENVIRONMENT
    assert store.create(3, tools.encoded(3))
    assert (store.last(), store.read(3)) == (3, tools.encoded(3))


def test_interrupt_at_the_last_moment_withdraws_the_record(
    tmp_path: Path, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(tmp_path, tools, 2)
    store, before = LogCommits(tmp_path, False, True), path.read_bytes()
    add = store._add

    def interrupted(*arguments: Any) -> None:
        add(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.create(3, tools.encoded(3))
    assert (store.last(), store.read(3), path.read_bytes()) == (2, None, before)
    assert store.create(3, tools.encoded(3))
    store.close()
    assert LogCommits(tmp_path, False, False).read(3) == tools.encoded(3)


def test_damage_that_a_sleeper_wakes_up_to_stays_found(tmp_path: Path, tools: Any) -> None:
    store, sleeper = LogCommits(tmp_path, False, True), LogCommits(tmp_path, False, False)
    for epoch in range(1, 7):
        store.create(epoch, tools.encoded(epoch))
        if epoch == 1:
            assert sleeper.last() == 1
        if epoch % 2 == 0:
            store.rotate()
    store.trim(3)
    path = tmp_path / "log/0000000003.log"
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):  # it must not go on with the files after the damaged one
        with pytest.raises(EverfreshError, match="epoch 4"):
            sleeper.last()


def test_record_of_another_epoch_is_refused(tmp_path: Path, tools: Any) -> None:
    store = LogCommits(tmp_path, False, True)
    store.create(1, tools.encoded(5))
    store.create(2, tools.encoded(2))
    store.close()
    with pytest.raises(EverfreshError, match="it is the record of epoch 5"):
        LogCommits(tmp_path, False, False)


def test_only_sealed_records_and_only_while_open(tmp_path: Path, tools: Any) -> None:
    store = LogCommits(tmp_path, False, True)
    with pytest.raises(ValueError, match="sealed"):
        store.create(1, tools.encoded(1) + b"more")
    store.close()
    store.close()
    create, read = (lambda: store.create(1, tools.encoded(1))), (lambda: store.read(1))
    for attempt in (create, read, store.last, store.first, store.rotate):
        with pytest.raises(EverfreshError) as caught:
            attempt()
        assert caught.value.code == Code.CLOSED
