"""What every domain must satisfy, on every engine: subclass `DomainSuite`, say how to connect, what to make
and how to change it, and pytest does the rest.

Catches epochs that are half there after a refusal, a fault, a kill or an exception between two instructions;
tasks whose second attempt does something twice; readers that see a batch half done; logs and snapshots that
give back something else; names taken twice.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from everfresh.database import Database
from everfresh.delta.bags import EPOCH, WEIGHT, difference, expand, net, weigh
from everfresh.epochs import resident
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.state import InjectedFault
from everfresh.testing.engine.suite_base import refused
from everfresh.testing.strikes import struck

Contents = dict[str, pa.Table]


class DomainSuite:
    """A subclass says what a domain has; slow engines set the numbers lower."""

    batches = 6
    """Batches in a history."""
    kills = 3
    strikes = 25
    """Exceptions that strike inside a batch."""
    strikes_at_ends = 8
    """Those that strike where its epoch begins and ends."""
    points: tuple[str, ...] = ("mid-commit", "before-commit", "after-commit", "before-manifest")
    """Where a commit or a snapshot is made to fail."""
    tolerance = 1e-9

    # -- what a subclass says ----------------------------------------------------------------------

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> Database:
        """A database of the engine under test with the domain; `kwargs` are those of `everfresh.connect`."""
        raise NotImplementedError

    def options(self, **changes: Any) -> Options:
        """The options of the engine under test, with some changed."""
        return Options(durable=False).with_(**changes)

    def make(self, db: Database) -> None:
        """Make the objects, and tables and views that they read."""
        raise NotImplementedError

    def change(self, db: Database, rng: random.Random) -> Mapping[str, Any]:
        """A batch that changes some of them, in the state that the database is in."""
        raise NotImplementedError

    def bad(self, db: Database) -> Sequence[Mapping[str, Any]]:
        """Batches that are refused, each with something right in it too."""
        raise NotImplementedError

    def remake(self, db: Database, name: str) -> Any:
        """Make an object of this name, whatever it is."""
        raise NotImplementedError

    def check(self, db: Database) -> None:
        """Fail unless every object is what it should be."""
        for name in self.names(db):
            found = db._engine.verify(name)
            assert found.num_rows == 0, f"{name}:\n{found}"

    def troubled(self) -> AbstractContextManager[object]:
        """A block in which tasks are retried and run twice, on an engine that has tasks."""
        return nullcontext()

    # -- helpers -----------------------------------------------------------------------------------

    def names(self, db: Database) -> list[str]:
        """The objects of the domain."""
        return [found.name for found in db._engine.objects]

    def contents(self, db: Database, at: int | None = None) -> Contents:
        """The rows of every object."""
        db._current()
        return {name: db._engine.read(name, at) for name in self.names(db)}

    def same(self, expected: Contents, actual: Contents, what: object = "") -> None:
        """Fail unless the rows are the same."""
        assert set(expected) == set(actual), what
        for name, rows in expected.items():
            if rows.column_names == actual[name].column_names:
                found = difference(rows, actual[name], self.tolerance)
                assert found.num_rows == 0, f"{name} {what}:\n{found}"
            else:
                raise AssertionError(f"{name} {what}: {rows.column_names}, {actual[name].column_names}")

    def is_one_of(self, db: Database, *known: Contents) -> int:
        """Which of these contents the database has."""
        for number, contents in enumerate(known):
            with suppress(AssertionError):
                self.same(contents, self.contents(db))
                return number
        raise AssertionError("the database is at no epoch that there was")

    @pytest.fixture
    def db(self) -> Iterator[Database]:
        """A database with the objects."""
        with self.connect() as db:
            self.make(db)
            yield db

    # -- epochs ------------------------------------------------------------------------------------

    def test_every_epoch_is_right(self, db: Database) -> None:
        """After each batch everything is as it should be, at each epoch as it was then, by changes too."""
        rng = random.Random(1)
        start = db.epoch
        known = {start: self.contents(db)}
        for _ in range(self.batches):
            epoch = db.apply(self.change(db, rng))
            assert epoch == db.epoch == max(known) + 1
            self.check(db)
            known[epoch] = self.contents(db)
        for epoch, contents in known.items():
            self.same(contents, self.contents(db, epoch), f"at {epoch}")
        for name in self.names(db):
            changes = db._engine.changes(name, start)
            assert changes.column_names == [*known[db.epoch][name].column_names, WEIGHT, EPOCH]
            rows = changes.drop_columns([EPOCH])
            steps = net(pa.concat_tables([weigh(known[start][name]).cast(rows.schema), rows]))
            if self.tolerance == 0:
                self.same({name: known[db.epoch][name]}, {name: expand(steps)}, "by changes")
            weights = pa.compute.sum(changes.column(WEIGHT)).as_py() or 0
            assert known[start][name].num_rows + weights == known[db.epoch][name].num_rows
            with refused(Code.HISTORY, "not committed yet"):
                db._engine.read(name, db.epoch + 1)

    def test_listeners_hear_of_each_change(self, db: Database) -> None:
        """`on_change` hands over the change of each epoch that has one."""
        rng, seen = random.Random(2), dict[str, list[pa.Table]]()
        start = db.epoch
        for name in self.names(db):
            db._listen(name, seen.setdefault(name, []).append)
        for _ in range(3):
            db.apply(self.change(db, rng))
        for name, heard in seen.items():
            expected = db._engine.changes(name, start)
            assert sum(table.num_rows for table in heard) == expected.num_rows
            assert [e for t in heard for e in t.column(EPOCH).to_pylist()] == expected.column(
                EPOCH
            ).to_pylist()

    def test_a_batch_that_is_refused_changes_nothing(self, db: Database) -> None:
        """Neither objects nor tables, and the next batch is right."""
        before, tables = self.contents(db), {n: t.to_arrow() for n, t in db.tables.items()}
        epoch = db.epoch
        for batch in self.bad(db):
            with pytest.raises(EverfreshError):
                db.apply(batch)
            assert db.epoch == epoch
            self.same(before, self.contents(db))
            self.same(tables, {n: t.to_arrow() for n, t in db.tables.items()})
        db.apply(self.change(db, random.Random(3)))
        self.check(db)

    def test_names_clash(self, db: Database) -> None:
        """A name stands for one thing."""
        for name in self.names(db):
            if '"' not in name:
                with refused(Code.EXISTS, name):
                    db.sql(f'CREATE TABLE "{name}" (k BIGINT)')
        db.sql("CREATE TABLE taken (k BIGINT)")
        with refused(Code.EXISTS, "taken"):
            self.remake(db, "taken")
        with refused(Code.EXISTS):
            self.remake(db, self.names(db)[0])

    def test_a_key_is_applied_once(self, db: Database) -> None:
        """A batch that is sent again changes nothing."""
        batch = self.change(db, random.Random(4))
        epoch = db.apply(batch, key="one")
        after = self.contents(db)
        assert db.apply(batch, key="one") == epoch == db.epoch
        self.same(after, self.contents(db))

    def test_what_is_read_cannot_go(self, db: Database) -> None:
        """What an object reads is dropped after it, or with it."""
        read = {name for found in db._engine.objects for name in found.reads}
        for name in sorted(read & set(db.views)):
            with refused(Code.DEPENDENCY, name):
                db.sql(f'DROP MATERIALIZED VIEW "{name}"')
        for name in sorted(read & set(db.views)):
            if name in db.views:  # else it went with another that it read
                db.sql(f'DROP MATERIALIZED VIEW "{name}" CASCADE')
        assert not {name for found in db._engine.objects for name in found.reads} & read & set(db.views)

    # -- readers -----------------------------------------------------------------------------------

    def test_readers_see_whole_epochs(self, db: Database) -> None:
        """Whoever reads beside batches sees each object as it was at some epoch."""
        rng, known, seen = random.Random(5), [self.contents(db)], list[tuple[str, pa.Table]]()
        failed: list[BaseException] = []
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    for name in known[0]:
                        with db._reading() as engine:
                            seen.append((name, engine.read(name)))
            except BaseException as error:
                failed.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(self.batches):
            db.apply(self.change(db, rng))
            known.append(self.contents(db))
        done.set()
        reader.join()
        assert not failed, failed
        for name, rows in seen[:: max(1, len(seen) // 50)]:
            fitting = [c for c in known if difference(c[name], rows, self.tolerance).num_rows == 0]
            assert fitting, name

    def test_a_second_process_follows(self, tmp_path: Path) -> None:
        """A reader of the folder sees each epoch, and writes nothing."""
        rng = random.Random(6)
        with self.connect(tmp_path / "db") as db:
            self.make(db)
            with self.connect(tmp_path / "db", read_only=True) as reader:
                for _ in range(3):
                    self.same(self.contents(db), self.contents(reader))
                    db.apply(self.change(db, rng))
                    reader.tables  # noqa: B018 - whoever looks is brought up to date
                self.same(self.contents(db), self.contents(reader))
                with refused(Code.READ_ONLY):
                    reader.apply(self.change(db, rng))

    # -- tasks -------------------------------------------------------------------------------------

    def test_tasks_that_are_retried_or_run_twice(self, tmp_path: Path) -> None:
        """What an attempt did that nobody heard of is not there: now, earlier, and opened again."""
        rng, options = random.Random(9), self.options(snapshot_epochs=3)
        with self.connect(tmp_path / "db", options=options) as db:
            with self.troubled():
                self.make(db)
                start, known = db.epoch, dict[int, Contents]()
                for _ in range(self.batches):
                    epoch = db.apply(self.change(db, rng))
                    known[epoch] = self.contents(db)
                    self.check(db)
            for epoch, contents in known.items():
                self.same(contents, self.contents(db, epoch), f"at {epoch}")
            changes = {name: db._engine.changes(name, start) for name in self.names(db)}
        with self.connect(tmp_path / "db", options=options) as db:
            self.check(db)
            self.same(known[db.epoch], self.contents(db), "opened again")
            self.same(changes, {name: db._engine.changes(name, start) for name in changes}, "changes")

    # -- durability --------------------------------------------------------------------------------

    @pytest.mark.parametrize("every", [2, 1000])
    def test_it_is_there_again(self, tmp_path: Path, every: int) -> None:
        """Reopened from snapshots and from the log: the same contents, past and changes."""
        rng, options = random.Random(7), self.options(snapshot_epochs=every)
        with self.connect(tmp_path / "db", options=options) as db:
            self.make(db)
            start = db.epoch
        for _ in range(3):
            with self.connect(tmp_path / "db", options=options) as db:
                for _ in range(2):
                    db.apply(self.change(db, rng))
                self.check(db)
                known = {epoch: self.contents(db, epoch) for epoch in range(start, db.epoch + 1)}
                changes = {name: db._engine.changes(name, start) for name in self.names(db)}
                objects = list(db._engine.objects)
            with self.connect(tmp_path / "db", options=options) as db:
                assert list(db._engine.objects) == objects
                for epoch, contents in known.items():
                    self.same(contents, self.contents(db, epoch), f"at {epoch}")
                self.same(changes, {n: db._engine.changes(n, start) for n in changes}, "changes")

    def test_faults(self, tmp_path: Path) -> None:
        """Wherever committing fails, the database is at the epoch before or after, and goes on."""
        for number, point in enumerate(self.points):
            path, rng = tmp_path / point, random.Random(number)
            with self.connect(path, options=self.options(snapshot_epochs=3)) as db:
                self.make(db)
            with self.connect(
                path, options=self.options(snapshot_epochs=2, fault=f"{point}:raise:*:1")
            ) as db:
                for _ in range(3):
                    before, batch = self.contents(db), self.change(db, rng)
                    with suppress(InjectedFault, EverfreshError):
                        db.apply(batch)
                    with self.connect(path, read_only=True) as reader:
                        after = self.contents(reader)
                    assert self.is_one_of(db, before, after) >= 0
                    self.same(after, self.contents(db), point)
                    self.check(db)
                left = self.contents(db)
            with self.connect(path) as db:
                self.same(left, self.contents(db), point)
                db.apply(self.change(db, rng))
                self.check(db)

    def work(self, path: str) -> None:
        """What the process does that is killed: batch after batch, each told when it is committed."""
        with self.connect(path) as db:
            rng = random.Random(db.epoch)
            print("ready", flush=True)
            for _ in range(10_000):
                print(db.apply(self.change(db, rng)), flush=True)

    def test_killed(self, tmp_path: Path) -> None:
        """Killed at any moment, nothing that was committed is lost and nothing else is there."""
        with self.connect(tmp_path / "db") as db:
            self.make(db)
            told = db.epoch
        module, name = type(self).__module__, type(self).__qualname__
        path = str(tmp_path / "db")
        code = f"import sys; sys.path[:0] = {sys.path!r}\nimport {module}\n{module}.{name}().work({path!r})"
        for seed in range(self.kills):
            child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            assert child.stdout is not None
            with closing(child.stdout) as said:
                assert said.readline().strip() == "ready"
                for _ in range(2 + seed):
                    told = int(said.readline())
                time.sleep(random.Random(seed).uniform(0, 0.02))
                child.send_signal(signal.SIGKILL)
                told = max([told, *(int(line) for line in said.read().splitlines() if line.isdigit())])
            child.wait()
            with self.connect(tmp_path / "db") as db:
                assert db.epoch >= told
                self.check(db)
                self.contents(db, told)

    def test_struck(self, tmp_path: Path) -> None:
        """An exception between any two instructions of a batch leaves the epoch before or the one after."""
        rng = random.Random(8)
        with self.connect(tmp_path / "db") as db:
            self.make(db)
            batch = self.change(db, rng)
            places = struck(lambda: db.apply(batch))[1]
            for number in range(self.strikes):
                before, batch = self.contents(db), self.change(db, rng)
                struck(partial(db.apply, batch), 1 + places * number // self.strikes)
                with self.connect(tmp_path / "db", read_only=True) as reader:
                    after = self.contents(reader)
                assert self.is_one_of(db, before, after) >= 0
                self.same(after, self.contents(db), f"struck at {number}")
                self.check(db)

    def test_struck_where_epochs_begin_and_end(self, tmp_path: Path) -> None:
        """Nothing is held afterwards: another thread changes objects and reads them."""
        rng, epochs = random.Random(9), f"{Path(resident.__file__).parent}{os.sep}"
        with self.connect(tmp_path / "db") as db:
            self.make(db)
            batch = self.change(db, rng)
            places = struck(lambda: db.apply(batch), 0, epochs)[1]
            step = max(1, places // self.strikes_at_ends)
            for at in range(1 + rng.randrange(step), places + 1, step):
                before, epoch, batch = self.contents(db), db.epoch, self.change(db, rng)
                struck(partial(db.apply, batch), at, epochs)
                after = self.elsewhere(self.contents, db)
                if db.epoch == epoch:
                    self.same(before, after, f"struck at {at}")
                with self.connect(tmp_path / "db", read_only=True) as reader:
                    self.same(self.contents(reader), after, f"struck at {at}")
                self.elsewhere(db.apply, self.change(db, rng))
            self.check(db)

    def elsewhere(self, work: Callable[..., Any], *args: Any) -> Any:
        """What another thread makes of it, and no waiting for good."""
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(work(*args)), daemon=True)
        thread.start()
        thread.join(300)
        assert made, "it failed, or waits"
        return made[0]
