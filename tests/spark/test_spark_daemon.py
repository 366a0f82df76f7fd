"""The start and the end of a session: nothing is told, and workers that are idle then go without a word."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from everfresh.spark.session import daemon

PROGRAM = """
import everfresh as ef

with ef.connect() as db:
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    for i in range(3):
        db.apply(t=[(100 * i + j, j % 7) for j in range(100)])
    print(db.view("v").to_arrow().num_rows)
"""


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_jvm_that_is_gone_ends_its_worker(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def serve(sock: socket.socket, authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(daemon, "_serve", serve)
    with socket.socket() as sock:
        assert daemon.worker(sock, True) != 0


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(sock: socket.socket, authenticated: bool) -> int:
        raise MemoryError

    monkeypatch.setattr(daemon, "_serve", serve)
    with socket.socket() as sock, pytest.raises(MemoryError):
        daemon.worker(sock, True)


@pytest.mark.spark
def test_a_program_starts_and_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["7"]
    # The Java machine itself tells of its modules, on some machines.
    told = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert not told, done.stderr
