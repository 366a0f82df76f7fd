"""The folder: made once, refused when it is something else, written by one process, cleaned of garbage."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import FileCommits, InjectedFault, LogCommits, StateFolder

QUICK = Options(durable=False)


def connect(
    path: Path, engine: str = "local", workers: int = 1, read_only: bool = False, **options: Any
) -> StateFolder:
    return StateFolder.open(
        path, engine=engine, workers=workers, options=QUICK.with_(**options), read_only=read_only
    )


def refused(path: Path, code: str, **arguments: Any) -> EverfreshError:
    with pytest.raises(EverfreshError) as caught:
        connect(path, **arguments)
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("engine", "kind"), [("local", LogCommits), ("spark", FileCommits)])
@pytest.mark.parametrize("durable", [False, True])
def test_create_and_reopen(tmp_path: Path, tools: Any, engine: str, kind: type, durable: bool) -> None:
    path = tmp_path / "new" / "shop.ef"
    first = connect(path, engine, 3, durable=durable)
    assert isinstance(first.commits, kind)
    assert (first.path, first.engine, first.workers) == (path, engine, 3)
    assert (first.partition_hash, first.partition_seed) == ("ef1", 0)
    assert first.commits.create(1, tools.encoded(1))
    first.snapshots.write(1, {}, {"x": 1})
    assert not (path / "inbox").exists()
    assert first.inbox.is_dir()
    assert first.parts == path / "parts"
    first.close()
    first.close()
    second = connect(path, engine, 8, durable=durable)
    assert (second.id, second.workers, second.commits.last()) == (first.id, 3, 1)
    assert second.snapshots.list() == [1]
    second.close()
    other = connect(tmp_path / "other")
    assert other.id != first.id
    other.close()


def test_other_engine_is_refused_with_the_way_out(tmp_path: Path) -> None:
    connect(tmp_path / "db", "local").close()
    error = refused(tmp_path / "db", Code.FORMAT, engine="spark")
    assert 'engine="local"' in (error.hint or "")
    connect(tmp_path / "db", "local").close()  # the refusal let go of the lock
    refused(tmp_path / "db", Code.ARGUMENT, engine="duck")


def test_foreign_folders_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    refused(tmp_path, Code.FORMAT)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    refused(tmp_path / "thesis.tex", Code.FORMAT)
    refused(tmp_path, Code.NOT_FOUND, read_only=True)
    refused(tmp_path / "nothing", Code.NOT_FOUND, read_only=True)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_folder_that_was_being_created_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "WRITER").write_text('{"pid": 1')
    (tmp_path / "FORMAT.1.abc.tmp").write_text("{")
    folder = connect(tmp_path)
    assert folder.remove_garbage() == ["FORMAT.1.abc.tmp"]
    folder.close()


def test_newer_format_is_refused(tmp_path: Path) -> None:
    connect(tmp_path).close()
    fields = json.loads((tmp_path / "FORMAT").read_text())
    (tmp_path / "FORMAT").write_text(json.dumps({**fields, "format": 2, "min_reader": 2}))
    for read_only in (False, True):
        error = refused(tmp_path, Code.FORMAT, read_only=read_only)
        assert "format 2" in error.message
        assert "upgrade" in (error.hint or "")
        assert "read_only" not in (error.hint or "")
    (tmp_path / "FORMAT").write_text(json.dumps({**fields, "format": 2}))
    assert "read_only" in (refused(tmp_path, Code.FORMAT).hint or "")


def test_damaged_format_is_refused_at_every_byte(tmp_path: Path) -> None:
    connect(tmp_path, "spark", 4).close()
    whole = (tmp_path / "FORMAT").read_bytes()
    meaning = json.loads(whole)
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= 1
        try:
            if json.loads(data) == meaning:  # a blank that became another blank
                continue
        except ValueError:
            pass
        (tmp_path / "FORMAT").write_bytes(data)
        with pytest.raises(EverfreshError) as caught:
            connect(tmp_path, "spark", 4)
        assert caught.value.code in (Code.DAMAGED, Code.FORMAT)


def test_second_writer_is_refused_and_readers_are_not(tmp_path: Path, tools: Any) -> None:
    writer = connect(tmp_path)
    error = refused(tmp_path, Code.LOCKED)
    assert str(os.getpid()) in error.message
    assert socket.gethostname() in error.message
    assert "read_only=True" in (error.hint or "")
    reader = connect(tmp_path, read_only=True)
    writer.commits.create(1, tools.encoded(1))
    assert (reader.read_only, reader.id, reader.commits.last()) == (True, writer.id, 1)
    assert not reader.inbox.exists()
    with pytest.raises(EverfreshError) as caught:
        reader.remove_garbage()
    assert caught.value.code == Code.READ_ONLY
    reader.close()
    refused(tmp_path, Code.LOCKED)  # closing a reader frees nothing
    writer.close()
    connect(tmp_path).close()


HOLD = """
import sys, time
from everfresh.options import Options
from everfresh.state import StateFolder
folder = StateFolder.open(sys.argv[1], engine="local", workers=1, options=Options(), read_only=False)
print("open", flush=True)
time.sleep(60)
"""


def test_lock_of_another_process_and_its_end_by_kill(tmp_path: Path, child: Any) -> None:
    holder = child(HOLD, tmp_path / "db")
    assert holder.stdout.readline() == "open\n"
    assert f"process {holder.pid} on host" in refused(tmp_path / "db", Code.LOCKED).message
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    folder = connect(tmp_path / "db")
    assert f'"pid": {os.getpid()}' in (tmp_path / "db/WRITER").read_text()
    folder.close()


FORK = """
import os, sys
from everfresh.options import Options
from everfresh.state import StateFolder
folder = StateFolder.open(sys.argv[1], engine="local", workers=1, options=Options(), read_only=False)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
os._exit(0)
"""


def test_forked_child_does_not_keep_the_lock(tmp_path: Path, child: Any) -> None:
    parent = child(FORK, tmp_path / "db")
    assert parent.stdout.readline() == "forked\n"
    parent.wait()
    connect(tmp_path / "db").close()


DIE = """
import sys
from everfresh.options import Options
from everfresh.state import Commit, StateFolder
options = Options(fault=sys.argv[2])
folder = StateFolder.open(sys.argv[1], engine="spark", workers=1, options=options, read_only=False)
folder.commits.create(1, Commit(1, "").encode())
folder.snapshots.write(1, {"t": b"1"}, {})
"""


@pytest.mark.parametrize(("fault", "last"), [("mid-commit:kill", 0), ("mid-snapshot:exit", 1)])
def test_death_in_a_write_leaves_only_garbage(tmp_path: Path, child: Any, fault: str, last: int) -> None:
    assert child(DIE, tmp_path / "db", fault).wait() in (-signal.SIGKILL, 9)
    folder = connect(tmp_path / "db", "spark")
    assert (folder.commits.last(), folder.snapshots.list()) == (last, [])
    removed = folder.remove_garbage()
    assert len(removed) == 1
    assert removed[0].endswith(".tmp")
    assert not list((tmp_path / "db").rglob("*.tmp"))
    folder.close()


def test_garbage_of_parts_follows_epochs_and_names(tmp_path: Path) -> None:
    folder = connect(tmp_path, "spark", 2)
    names = {
        "0000/s-0000000004-0-aa.seg": "named by path",
        "0001/s-0000000004-0-bb.seg": "named",
        "0000/s-0000000005-0-cc.seg": "orphan",
        "0000/s-0000000005-0-dd.seg.17.ab.tmp": "orphan",
        "0000/c-0000000003-ee.snap": "orphan",
        "0001/s-0000000006-0-ff.seg": "running",
        "0001/s-0000000006-0-ff.seg.18.cd.tmp": "running",
        "0001/README": "not ours",
    }
    for name in names:
        (folder.parts / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.parts / name).write_bytes(b"")
    for name in ("nonce", "fault-opened-0", "x.tmp"):
        (folder.inbox / name).write_bytes(b"")
    referenced = {"0000/s-0000000004-0-aa.seg", "s-0000000004-0-bb.seg"}

    def parts(*kinds: str) -> set[str]:
        return {f"parts/{name}" for name, kind in names.items() if kind in kinds}

    assert set(folder.remove_garbage()) == {"inbox/x.tmp"}
    assert set(folder.remove_garbage(referenced, last_epoch=5)) == parts("orphan")
    removed = set(folder.remove_garbage(referenced, last_epoch=5, new_term=True))
    assert removed == parts("running") | {"inbox/nonce"}
    left = {str(path.relative_to(tmp_path)) for path in folder.parts.rglob("*") if path.is_file()}
    assert left == parts("named by path", "named", "not ours")
    assert os.listdir(folder.inbox) == ["fault-opened-0"]
    folder.close()


def test_garbage_spares_what_this_process_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = connect(tmp_path)
    removed: list[list[str]] = []
    monkeypatch.setattr(
        "everfresh.state.snapshots.crash", lambda *arguments, **named: removed.append(folder.remove_garbage())
    )
    folder.snapshots.write(1, {}, {})
    assert removed == [[]]
    assert folder.snapshots.list() == [1]
    folder.close()


def test_fault_in_garbage_collection_can_be_repeated(tmp_path: Path) -> None:
    folder = connect(tmp_path, fault="mid-gc:raise:*:1")
    for name in ("a.tmp", "b.tmp"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InjectedFault):
        folder.remove_garbage()
    assert sorted(folder.remove_garbage()) == ["a.tmp", "b.tmp"]
    folder.close()


def test_retention_lets_every_epoch_of_the_history_be_rebuilt(tmp_path: Path, tools: Any) -> None:
    folder = connect(tmp_path)
    for epoch in range(1, 61):
        folder.commits.create(epoch, tools.encoded(epoch))
        if epoch % 20 == 0:
            folder.snapshots.write(epoch, {}, {})
            folder.commits.rotate()
    folder.snapshots.drop(60 - 15)
    folder.commits.trim(max(e for e in (20, 40, 60) if e <= 60 - 15) + 1)
    for epoch in range(60 - 15, 61):
        base = folder.snapshots.latest(epoch)
        assert base is not None
        assert all(folder.commits.read(number) for number in range(base.epoch + 1, epoch + 1))
    assert folder.commits.first() == 41
    folder.close()
