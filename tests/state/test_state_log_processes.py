"""The log between processes: a reader follows a writer, and a killed writer loses nothing it acknowledged."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from everfresh.state import Commit, LogCommits

TAIL = """
import sys, time
from pathlib import Path
from everfresh.state import Commit, LogCommits
reader, seen = LogCommits(Path(sys.argv[1]), False, False), 0
print("ready", flush=True)
while seen < int(sys.argv[2]):
    for epoch in range(seen + 1, reader.last() + 1):
        commit = Commit.decode(reader.read(epoch))
        print(commit.epoch, commit.keys[0], flush=True)
        seen = epoch
"""


def test_reader_in_another_process_follows(tmp_path: Path, tools: Any, child: Any) -> None:
    writer = LogCommits(tmp_path, False, True)
    reader = child(TAIL, tmp_path, 60)
    assert reader.stdout.readline() == "ready\n"
    for epoch in range(1, 61):
        writer.create(epoch, tools.encoded(epoch, size=20_000))
        if epoch % 20 == 0:
            writer.rotate()
        if epoch <= 21:  # the reader sees each record before the next is written
            assert reader.stdout.readline() == f"{epoch} key-{epoch}\n"
    rest = reader.stdout.read().splitlines()
    assert rest == [f"{epoch} key-{epoch}" for epoch in range(22, 61)]
    assert reader.wait() == 0


WRITE = """
import sys
from pathlib import Path
from everfresh.state import Commit, LogCommits
store, epoch, parent = LogCommits(Path(sys.argv[1]), False, True), 0, ""
while True:
    epoch += 1
    commit = Commit(epoch, parent, sections={"t": bytes([epoch % 251]) * (epoch * 7919 % 30000)})
    store.create(epoch, commit.encode())
    parent = commit.digest
    if epoch % 50 == 0:
        store.rotate()
    print(epoch, flush=True)
"""


@pytest.mark.parametrize("stop_after", [3, 120])
def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, child: Any, stop_after: int) -> None:
    writer = child(WRITE, tmp_path)
    for _ in range(stop_after):
        writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read().splitlines()
    least = int(rest[-1]) if rest else stop_after
    store = LogCommits(tmp_path, False, True)
    assert least <= store.last() <= least + 1
    parent = ""
    for epoch in range(1, store.last() + 1):
        commit = Commit.decode(store.read(epoch) or b"")
        assert (commit.epoch, commit.parent) == (epoch, parent)
        assert bytes(commit.sections["t"]) == bytes([epoch % 251]) * (epoch * 7919 % 30000)
        parent = commit.digest
    assert store.create(store.last() + 1, Commit(store.last() + 1, parent).encode())
    store.close()
