"""A handle in a forked child: refused there, and the parent's is none the worse for it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.oracle import assert_rows


def in_child(work: Callable[[], Any]) -> int:
    """Run `work` in a forked child that then ends as a process does, with all its exit handlers."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ef.EverfreshError) as error:
        call()
    assert error.value.code == ef.Code.CLOSED
    assert "fork" in str(error.value)
    assert "read_only=True" in str(error.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("where", ["folder", "memory"])
def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path, where: str) -> None:
    path = tmp_path / "db" if where == "folder" else None
    db = ef.connect(path, engine="local")
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT SUM(k) AS s FROM t")
    db.apply(t=[(1,)])
    table, view = db.table("t"), db.view("v")

    def child() -> None:
        refused(lambda: db.apply(t=[(2,)]))
        refused(lambda: db.apply({"t": [(2,)]}, key="a"))
        refused(lambda: db.sql("INSERT INTO t VALUES (2)"))
        refused(lambda: db.sql("SELECT * FROM t"))
        refused(lambda: db.sql("DROP VIEW v"))
        refused(lambda: db.epoch)
        refused(table.to_arrow)
        refused(view.to_arrow)
        refused(view.changes)
        refused(view.verify)
        refused(lambda: db.create_matrix("A", [[1.0]]))
        refused(lambda: db.stream("t", tmp_path))
        db.close()
        if path is not None:
            with ef.connect(path, engine="local", read_only=True) as other:
                assert_rows(other.view("v"), (1,))
            with pytest.raises(ef.EverfreshError, match="is being written by"):
                ef.connect(path, engine="local")

    with db._lock:  # as another thread might hold it when the process forks
        assert in_child(child) == 0
    assert db.apply(t=[(3,)]) == 4
    db.close()
    if path is not None:
        with ef.connect(path, engine="local") as db:
            assert_rows(db.view("v"), (4,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_may_close_and_end_with_the_block_of_its_parent(tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT)")

        def child() -> None:
            with db:
                pass

        assert in_child(child) == 0
        assert db.apply(t=[(1,)]) == 2
        with pytest.raises(ef.EverfreshError, match="is being written by"):
            ef.connect(tmp_path / "db", engine="local")
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert db.epoch == 2
