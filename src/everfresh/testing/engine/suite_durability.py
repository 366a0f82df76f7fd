"""Durability: what a folder gives back when it is opened again, who may write it, and what is refused.

Kills at random moments are in `tests/reliability`; here everything ends in order, or is damaged on purpose.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute
import pytest

from everfresh import Code, Delta, EverfreshError
from everfresh.database import Database
from everfresh.state import InjectedFault
from everfresh.testing.engine.suite_base import SuiteBase, assert_state, fill_shop, refused, state_of
from everfresh.testing.histories import random_history
from everfresh.testing.oracle import DuckOracle, assert_rows, assert_same
from everfresh.testing.replay import run_history

_READER = """
import sys
import everfresh as ef
with ef.connect(sys.argv[1], engine=sys.argv[2], read_only=True) as db:
    print("opened", db.epoch, flush=True)
    for line in sys.stdin:
        print(db.epoch, db.sql("SELECT SUM(n) AS n FROM totals").to_pylist()[0]["n"], len(db.view("cheap")),
        flush=True)
"""


class DurabilitySuite(SuiteBase):
    """What `path` promises."""

    engine = "local"
    """The engine's name, for readers in other processes."""

    other_process = True
    """Whether a reader in another process is worth its start here."""

    def test_a_folder_is_opened_again(self, tmp_path: Path) -> None:
        path = tmp_path / "shop"
        with self.connect(path) as db:
            fill_shop(db)
            loaded = db.apply({"items": [(5, "pen", 1, "3.00")]}, key="load-5")
            db.sql("UPDATE items SET name = 'ink' WHERE id = 3")
            before, changes = state_of(db), db.view("totals").changes()
            past = db.view("totals").to_arrow(at=4)
        for _ in range(2):
            with self.connect(str(path)) as db:
                assert_state(db, before)
                assert_same(changes, db.view("totals").changes(), "changes")
                assert_same(past, db.view("totals").to_arrow(at=4), "at epoch 4")
                assert db.apply({"items": [(5, "pen", 1, "3.00")]}, key="load-5") == loaded
                for view in db.views.values():
                    assert view.verify().num_rows == 0
        with self.connect(path) as db:
            assert db.apply(items=[(6, "cup", 1, "1.00")]) == before[0] + 1
            assert_rows(db.sql("SELECT id FROM cheap"), (1,), (3,), (5,), (6,))

    def test_ddl_survives(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
            db.sql("ALTER TABLE items ADD COLUMN origin VARCHAR DEFAULT 'home'")
            db.sql(
                "CREATE TABLE gone (a BIGINT); CREATE MATERIALIZED VIEW gone_too AS SELECT a FROM gone; "
                "INSERT INTO gone VALUES (1)"
            )
            db.sql("DROP TABLE gone CASCADE")
            db.sql("CREATE TABLE gone (b VARCHAR PRIMARY KEY); INSERT INTO gone VALUES ('x')")
            db.sql("CREATE OR REPLACE TABLE gone (c BIGINT); INSERT INTO gone VALUES (7)")
            db.sql(
                "CREATE OR REPLACE MATERIALIZED VIEW cheap AS SELECT id, origin FROM items WHERE price < 3"
            )
            db.sql(
                "CREATE TABLE narrow (a BIGINT, b BIGINT, c BIGINT); INSERT INTO narrow VALUES (1, 2, 3), "
                "(1, 2, 3)"
            )
            db.sql("ALTER TABLE narrow DROP COLUMN b; INSERT INTO narrow VALUES (4, 5)")
            db.sql("CREATE MATERIALIZED VIEW narrowed AS SELECT a, SUM(c) AS c FROM narrow GROUP BY a")
            before = state_of(db)
        with self.connect(tmp_path / "db") as db:
            assert_state(db, before)
            assert db.table("items").to_arrow().column_names == ["id", "name", "qty", "price", "origin"]
            assert_rows(db.view("narrowed"), (1, 6), (4, 5))
            db.apply(items=[(7, "ink", 1, "2.00", "far")], narrow=Delta(deletes=[(1, 3)]))
            assert_rows(db.view("cheap"), (3, "home"), (7, "far"))
            assert_rows(db.view("narrowed"), (1, 3), (4, 5))

    def test_snapshots_replace_the_log(self, tmp_path: Path) -> None:
        options = self.options(snapshot_epochs=3, history=4)
        with self.connect(tmp_path / "db", options=options) as db:
            db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x DOUBLE)")
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
            for i in range(12):
                db.apply(
                    {
                        "t": Delta(
                            inserts=[(i, "abc"[i % 3], i / 8)], deletes=[{"k": i - 4}] if i >= 4 else []
                        )
                    },
                    key=f"b{i}",
                )
            db.sql("CREATE MATERIALIZED VIEW late AS SELECT COUNT(*) AS n FROM t")
            before, changes = state_of(db), db.view("v").changes()
        assert list((tmp_path / "db" / "snaps").iterdir()), "no snapshot was taken"
        for _ in range(2):
            with self.connect(tmp_path / "db", options=options) as db:
                assert_state(db, before)
                assert_same(changes, db.view("v").changes(), "changes")
                for i in range(12):
                    assert db.apply({"t": [(0, "z", 0.0)]}, key=f"b{i}") == 3 + i
                assert_state(db, before)
        with self.connect(tmp_path / "db", options=options) as db:
            for i in range(12, 20):
                db.apply(
                    {"t": Delta(inserts=[(i, "abc"[i % 3], i / 8)], deletes=[{"k": i - 4}])}, key=f"b{i}"
                )
            for view in db.views.values():
                assert view.verify().num_rows == 0
            assert_rows(db.view("late"), (4,))

    def test_random_histories_with_reopening(self, tmp_path: Path) -> None:
        oracle = DuckOracle()
        options = self.options(snapshot_epochs=4)
        for seed in range(400, 400 + max(1, self.histories // 2)):
            opened = [self.connect(tmp_path / f"db-{seed}", options=options)]

            def reopen(opened: list[Database] = opened, seed: int = seed) -> Database:
                opened.pop().close()
                opened.append(self.connect(tmp_path / f"db-{seed}", options=options))
                return opened[0]

            history = random_history(seed, self.history_size, self.history_views)
            run_history(opened[0], oracle, history, None, by_key=seed % 2 == 1, reopen=reopen)
            opened.pop().close()
        oracle.close()

    def test_a_commit_that_fails_changes_nothing(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
        with self.connect(tmp_path / "db", options=self.options(fault="mid-commit:raise:*:1")) as db:
            before = state_of(db)
            with pytest.raises(InjectedFault):
                db.apply({"items": [(9, "pen", 1, "1.00")]}, key="nine")
            assert_state(db, before)
            assert db.apply({"items": [(9, "pen", 1, "1.00")]}, key="nine") == before[0] + 1
            after = state_of(db)
        with self.connect(tmp_path / "db") as db:
            assert_state(db, after)
            assert db.view("totals").verify().num_rows == 0

    def test_a_refused_batch_is_not_in_the_log(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
            with refused(Code.DUPLICATE_KEY):
                db.apply(items=[(9, "pen", 1, "1.00"), (1, "pen", 1, "1.00")])
            before = state_of(db)
        with self.connect(tmp_path / "db") as db:
            assert_state(db, before)

    # -- who may write ---------------------------------------------------------------------------------------

    def test_a_second_writer_is_refused(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
            with refused(Code.LOCKED, str(tmp_path / "db"), "read_only"):
                self.connect(tmp_path / "db")
            db.apply(items=[(9, "pen", 1, "1.00")])
        with self.connect(tmp_path / "db") as db:
            assert len(db.table("items")) == 5

    def test_a_reader_follows_the_writer(self, tmp_path: Path) -> None:
        with refused(Code.NOT_FOUND, "db"):
            self.connect(tmp_path / "db", read_only=True)
        assert not (tmp_path / "db").exists()
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
            with self.connect(tmp_path / "db", read_only=True) as reader:
                assert_state(reader, state_of(db))
                calls: list[Callable[[], Any]] = [
                    lambda: reader.apply(items=[(9, "x", 1, "1.00")]),
                    lambda: reader.sql("CREATE TABLE t (a BIGINT)"),
                    lambda: reader.sql("DELETE FROM items"),
                    lambda: reader.sql("DROP VIEW cheap"),
                ]
                for call in calls:
                    with refused(Code.READ_ONLY):
                        call()
                db.apply(items=[(9, "pen", 1, "1.00")])
                assert_state(reader, state_of(db))
                db.sql("CREATE MATERIALIZED VIEW more AS SELECT qty FROM items; DROP VIEW totals")
                assert_state(reader, state_of(db))
                assert reader.view("cheap").verify().num_rows == 0
                assert_same(db.view("cheap").changes(), reader.view("cheap").changes(), "changes")
        with self.connect(tmp_path / "db", read_only=True) as reader:
            assert len(reader.table("items")) == 5

    def test_a_reader_that_fell_behind_the_log(self, tmp_path: Path) -> None:
        options = self.options(snapshot_epochs=3, history=2)
        with self.connect(tmp_path / "db", options=options) as db:
            fill_shop(db)
            with self.connect(tmp_path / "db", read_only=True, options=options) as reader:
                assert reader.epoch == db.epoch
                for i in range(10, 30):
                    db.apply(items=[(i, "pen", i, "1.00")])
                assert_state(reader, state_of(db))

    def test_a_reader_in_another_process(self, tmp_path: Path) -> None:
        if not self.other_process:
            pytest.skip("a process of this engine takes too long to start; tests/reliability has one")
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
            command = [sys.executable, "-c", _READER, str(tmp_path / "db"), self.engine]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                assert process.stdout.readline().split() == ["opened", "4"]
                for i in range(5, 9):
                    db.apply(items=[(i, "pen", 1, "1.00")])
                    process.stdin.write("\n")
                    process.stdin.flush()
                    assert process.stdout.readline().split() == [str(i), str(i), str(i - 2)]
                process.stdin.close()
                assert process.wait(30) == 0

    # -- the folder ------------------------------------------------------------------------------------------

    def test_a_copied_folder_is_a_backup(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            before = state_of(fill_shop(db))
        shutil.copytree(tmp_path / "db", tmp_path / "backup")
        with self.connect(tmp_path / "db") as db:
            db.sql("DELETE FROM items")
        with self.connect(tmp_path / "backup") as copy:
            assert_state(copy, before)
            copy.apply(items=[(9, "pen", 1, "1.00")])
            assert copy.view("totals").verify().num_rows == 0
        with self.connect(tmp_path / "db") as db:
            assert len(db.table("items")) == 0

    def test_a_backup_is_made_while_batches_go_on(self, tmp_path: Path) -> None:
        options = self.options(history=3, snapshot_epochs=3)
        with self.connect(tmp_path / "shop", options=options) as db:
            fill_shop(db)
            found: list[tuple[int, int]] = []
            copying = threading.Thread(target=lambda: found.append((0, db.backup(tmp_path / "beside"))))
            copying.start()
            for i in range(10, 14):
                db.apply({"items": [(i, "pen", 1, "3.00")]}, key=f"load-{i}")
            copying.join()
            db.sql(f"BACKUP TO '{tmp_path / 'after'}'")
            expected, changes = state_of(db), db.view("totals").changes()
            db.sql("DELETE FROM items")
        for name in ("beside", "after"):
            with self.connect(tmp_path / name, options=options) as db:
                last = db.epoch
                assert last == (found[0][1] if name == "beside" else expected[0])
                assert len(db.table("items")) == last  # four rows at epoch 4, and one more for each
                if name == "after":
                    assert_state(db, expected)
                    since = db.view("totals").changes(since=last - 1)
                    wanted = changes.filter(pyarrow.compute.field("_epoch") == last)
                    assert_same(wanted, since, "changes")
                if last > 4:  # keys are kept
                    assert db.apply({"items": [(13, "pen", 1, "3.00")]}, key=f"load-{5 + last}") == last
                db.apply(items=[(99, "ink", 1, "1.00")])
                assert not db.view("totals").verify().num_rows

    def test_a_backup_of_what_is_in_memory(self, tmp_path: Path) -> None:
        with self.connect() as db:
            fill_shop(db)
            before = state_of(db)
            assert db.backup(tmp_path / "copy") == before[0]
            with refused(Code.EXISTS, "copy"):
                db.backup(tmp_path / "copy")
            db.sql("DELETE FROM items")
        with self.connect(tmp_path / "copy") as db:
            assert_state(db, before)

    def test_a_newer_format_is_refused(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            fill_shop(db)
        file = tmp_path / "db" / "FORMAT"
        fields = json.loads(file.read_text())
        file.write_text(json.dumps(fields | {"format": 99, "min_reader": 99}))
        for read_only in (False, True):
            with refused(Code.FORMAT, "99"):
                self.connect(tmp_path / "db", read_only=read_only)

    def test_a_folder_that_is_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "todo.txt").write_text("not a database")
        with refused(Code.FORMAT, "notes"):
            self.connect(tmp_path / "notes")
        (tmp_path / "file").write_text("x")
        with refused(Code.FORMAT, "file"):
            self.connect(tmp_path / "file")
        assert [f.name for f in (tmp_path / "notes").iterdir()] == ["todo.txt"]

    def test_a_folder_of_another_engine_is_refused(self, tmp_path: Path) -> None:
        from everfresh.state import StateFolder

        other = "spark" if self.engine == "local" else "local"
        StateFolder.open(
            tmp_path / "db", engine=other, workers=2, options=self.options(), read_only=False
        ).close()
        with refused(Code.FORMAT, other):
            self.connect(tmp_path / "db")

    def test_damage_is_found(self, tmp_path: Path) -> None:
        options = self.options(snapshot_epochs=6, snapshots="now")
        with self.connect(tmp_path / "db", options=options) as db:
            fill_shop(db)
            for i in range(10, 15):
                db.apply(items=[(i, "pen", i, "1.00")])
            before = state_of(db)
        whole = tmp_path / "db"
        files = [f for f in self.truth(whole) if f.stat().st_size > 0]
        assert len(files) >= 2, "a log and a snapshot"
        for number, file in enumerate(files):
            copy = tmp_path / f"copy-{number}"
            shutil.copytree(whole, copy)
            target = copy / file.relative_to(whole)
            data = bytearray(target.read_bytes())
            data[len(data) // 3] ^= 0x40
            target.write_bytes(bytes(data))
            with pytest.raises(EverfreshError) as caught, self.connect(copy, options=options) as db:
                state_of(db)
            assert caught.value.code == Code.DAMAGED, f"{file}: {caught.value}"
        with self.connect(whole, options=options) as db:
            assert_state(db, before)

    def truth(self, folder: Path) -> list[Path]:
        """Files without which committed epochs could not be read: the log or commits, and the snapshot."""
        found: list[Path] = []
        for name in ("log", "commits", "snaps"):
            files = sorted(f for f in (folder / name).glob("*") if f.is_file())
            found += files[-2:-1] if name == "commits" else files[-1:]
        return found

    def test_a_path_that_is_not_local(self) -> None:
        with refused(Code.UNSUPPORTED, "gopher://"):
            self.connect("gopher://bucket/db")

    def test_types_survive(self, tmp_path: Path) -> None:
        with self.connect(tmp_path / "db") as db:
            db.sql("CREATE TABLE t (h HUGEINT, w DECIMAL(38,4), x DOUBLE, s VARCHAR, d DATE)")
            db.sql(
                "CREATE MATERIALIZED VIEW v AS SELECT s, SUM(h) AS h, SUM(w) AS w, SUM(x) AS x FROM t "
                "GROUP BY s"
            )
            rows: list[Any] = [
                (10**37, Decimal("0.0001"), 1e300, "ä", None),
                (-(10**37), None, float("inf"), "ä", "2024-01-01"),
                (5, Decimal(-(10**30)), float("nan"), None, "1900-01-01"),
                (None, None, None, "", None),
            ]
            db.apply(t=rows)
            db.apply(t=Delta(deletes=rows[1:2]))
            before = state_of(db)
        with self.connect(tmp_path / "db") as db:
            assert_state(db, before)
            db.apply(t=rows[1:2])
            assert_rows(
                db.view("v"),
                ("ä", 0, Decimal("0.0001"), float("inf")),
                (None, 5, Decimal(-(10**30)), float("nan")),
                ("", None, None, None),
            )
