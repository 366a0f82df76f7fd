"""The forms of a batch and the driver's maps, on a session that runs its tasks here: whatever the number of
workers and the form, the views are the same, from caches and from files alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.spark.jobs import job as jobs
from everfresh.spark.jobs import tasks
from everfresh.spark.state import chain
from everfresh.state import pack_table
from everfresh.testing.oracle import assert_same

DDL = """
CREATE TABLE customer (id BIGINT PRIMARY KEY, region VARCHAR NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, price DECIMAL(15,2) NOT NULL);
CREATE TABLE notes (customer BIGINT NOT NULL, note VARCHAR);
CREATE MATERIALIZED VIEW revenue AS
  SELECT c.region, SUM(o.price) AS total, COUNT(*) AS n
  FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.region;
CREATE MATERIALIZED VIEW above AS
  SELECT o.id, o.price FROM orders o
  WHERE o.price > (SELECT AVG(price) FROM orders p WHERE p.customer = o.customer);
CREATE MATERIALIZED VIEW everything AS
  SELECT COUNT(*) AS n, SUM(price) AS total, MIN(price) AS low FROM orders;
CREATE MATERIALIZED VIEW noted AS
  SELECT c.id, c.region, n.note, COUNT(*) AS n FROM customer c JOIN notes n ON n.customer = c.id
  GROUP BY c.id, c.region, n.note;
"""
VIEWS = ("revenue", "above", "everything", "noted")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def connect(session: FakeSession, path: Path | None = None, **changes: Any) -> ef.Database:
    options = ef.Options(workers=2, durable=False).with_(**changes)
    return ef.connect(path, engine="spark", spark=session, options=options)  # type: ignore[arg-type]


def batch(number: int) -> dict[str, Any]:
    orders = [(100 * number + k, k * 7 % 30, Decimal(k)) for k in range(50)]
    customers = [(10 * number + k, f"r{k % 3}") for k in range(10)]
    notes = [(k, None if k % 4 == 0 else f"n{k % 2}") for k in range(10 * number)]
    return {"customer": customers, "orders": orders, "notes": notes}


def history(db: ef.Database) -> list[str]:
    """Batches of all kinds; the form of each."""
    forms = []

    def done() -> None:
        forms.append(db.statistics()["last batch"]["form"])

    for number in range(4):
        db.apply(batch(number))
        done()
    gone = [row for row in batch(1)["orders"] if row[0] % 3 == 0]
    again = [(i, c, p + 1) for i, c, p in gone]
    db.apply(orders=ef.Delta(inserts=again, deletes=gone), notes=ef.Delta(deletes=[(5, "n1"), (6, "n0")]))
    done()
    db.apply(orders=ef.Delta(deletes=[{"id": 203}], updates=[{"id": 204, "price": Decimal(7)}]))
    done()
    db.apply(orders=ef.Delta(inserts=again[:2], deletes=again[:3]))
    done()
    return forms


def local() -> ef.Database:
    db = ef.connect(engine="local")
    db.sql(DDL)
    for number in range(4):
        db.apply(batch(number))
    gone = [row for row in batch(1)["orders"] if row[0] % 3 == 0]
    again = [(i, c, p + 1) for i, c, p in gone]
    db.apply(orders=ef.Delta(inserts=again, deletes=gone), notes=ef.Delta(deletes=[(5, "n1"), (6, "n0")]))
    db.apply(orders=ef.Delta(deletes=[{"id": 203}], updates=[{"id": 204, "price": Decimal(7)}]))
    db.apply(orders=ef.Delta(inserts=again[:2], deletes=again[:3]))
    return db


def compare(expected: ef.Database, db: ef.Database) -> None:
    for view in VIEWS:
        assert not db.catalog.views[view].compiled.reevaluated
        assert_same(expected.view(view).to_arrow(), db.view(view).to_arrow(), view)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
def test_workers_and_forms_give_the_same_views(
    session: FakeSession, tmp_path: Path, workers: int, whole_bytes: int
) -> None:
    with local() as expected:
        with connect(session, tmp_path, workers=workers, whole_bytes=whole_bytes) as db:
            db.sql(DDL)
            first = "whole" if whole_bytes else "staged"
            assert history(db) == [first] * 5 + ["staged", first]
            compare(expected, db)
        session.forget()
        with connect(session, tmp_path) as db:  # from files alone
            compare(expected, db)
            db.apply(orders=[(-1, 3, Decimal(1))])
            expected.apply(orders=[(-1, 3, Decimal(1))])
            compare(expected, db)
        folders = {path.name for path in (tmp_path / "parts").glob("*")} if whole_bytes == 0 else set()
        assert folders <= {"driver", *(f"{w:04d}" for w in range(workers))}


def test_one_stage_is_one_stage(session: FakeSession) -> None:
    with connect(session) as db:
        db.sql(DDL)
        for expected, whole_bytes in ((1, 1 << 20), (2, 0)):
            db._engine._options = db._engine._options.with_(whole_bytes=whole_bytes)
            session.jobs = session.stages = 0
            db.apply(batch(expected))
            assert (session.jobs, session.stages) == (1, expected)
            assert db.statistics()["last batch"]["stages"] == expected
        assert "stages per batch: 1 if every task may read it" in db.view("revenue").explain()
        assert "place: @driver" in db.view("revenue").explain()
        assert "MAP revenue @driver" in db.view("revenue").explain(distributed=True)


def test_files_are_read_whole(session: FakeSession, tmp_path: Path) -> None:
    with connect(session) as db, local() as expected:
        db.sql(DDL)
        history(db)
        rows = pa.table(
            {"id": [9000, 9001], "customer": [1, 2], "price": pa.array([5, 6], pa.decimal128(15, 2))}
        )
        pq.write_table(rows, tmp_path / "o.parquet")
        db.apply(orders=tmp_path / "o.parquet")
        expected.apply(orders=tmp_path / "o.parquet")
        assert db.statistics()["last batch"]["form"] == "whole"
        compare(expected, db)


def feed(*changes: tuple[Any, ...]) -> pa.Table:
    rows = [(*row, kind, version) for kind, version, *row in changes]
    kinds = pa.schema(
        [
            ("id", pa.int64()),
            ("customer", pa.int64()),
            ("price", pa.decimal128(15, 2)),
            ("_change_type", pa.string()),
            ("_commit_version", pa.int64()),
        ]
    )
    return pa.Table.from_pylist([dict(zip(kinds.names, row, strict=True)) for row in rows], schema=kinds)


def test_feeds_of_full_images_are_read_whole(session: FakeSession, tmp_path: Path) -> None:
    """Updates with both images, deletes with all columns; what finds its rows by their key takes stages."""
    full = feed(
        ("insert", 1, 900, 3, Decimal(5)),
        ("update_preimage", 2, 900, 3, Decimal(5)),
        ("update_postimage", 2, 900, 4, Decimal(6)),
        ("delete", 1, 7, 19, Decimal(7)),
        ("update_preimage", 1, 8, 26, Decimal(8)),
        ("update_postimage", 1, 8, 26, Decimal(80)),
    )
    blind = feed(("update_postimage", 1, 9, 1, Decimal(90)), ("insert", 1, 901, 1, Decimal(1)))
    other_version = feed(
        ("update_preimage", 1, 10, 10, Decimal(10)), ("insert", 2, 10, 10, Decimal(11)),
        ("update_postimage", 3, 10, 10, Decimal(12)),
    )  # fmt: skip
    by_key = feed(("delete", 1, 11, None, None), ("insert", 1, 902, 1, Decimal(2)))
    deletes = feed(("delete", 1, 12, 24, Decimal(12)), ("insert", 1, 903, 2, Decimal(3)))
    pq.write_table(deletes, tmp_path / "f.parquet")
    with local() as expected, connect(session, workers=3) as db:
        db.sql(DDL)
        history(db)
        for number, (rows, form) in enumerate(
            [
                (full, "whole"),
                (blind, "staged"),
                (other_version, "staged"),
                (by_key, "staged"),
                (tmp_path / "f.parquet", "whole"),
            ]
        ):
            for one in (expected, db):
                one.apply(orders=rows)
            assert db.statistics()["last batch"]["form"] == form, number
            compare(expected, db)
            assert_same(
                expected.sql("SELECT * FROM orders").to_arrow(), db.table("orders").to_spark().toArrow()
            )
        bag = pa.table(
            {
                "customer": [1, 2, 2],
                "note": pa.array([None, "n0", "z"]),
                "_change_type": ["insert", "update_preimage", "update_postimage"],
            }
        )
        for one in (expected, db):
            one.apply(notes=bag)
        assert db.statistics()["last batch"]["form"] == "whole"
        compare(expected, db)
        with pytest.raises(ef.EverfreshError) as caught:  # a preimage that is not there
            db.apply(orders=feed(("delete", 1, 12, 24, Decimal(12)), ("insert", 1, 904, 2, Decimal(3))))
        assert caught.value.code == ef.Code.MISSING_ROW
        compare(expected, db)


def test_a_batch_that_one_task_refuses_is_refused(session: FakeSession, tmp_path: Path) -> None:
    with local() as expected, connect(session, tmp_path, workers=3) as db:
        db.sql(DDL)
        history(db)
        epoch = db.epoch
        for bad, code in [
            (
                {"orders": [*[(5000 + k, k, Decimal(k)) for k in range(20)], (301, 1, Decimal(1))]},
                "DUPLICATE_KEY",
            ),
            ({"orders": ef.Delta(deletes=[(302, 14, Decimal(99))])}, "MISSING_ROW"),
            ({"notes": ef.Delta(deletes=[(77, "none")])}, "MISSING_ROW"),
        ]:
            for _ in range(2):
                with pytest.raises(ef.EverfreshError) as caught:
                    db.apply(bad)
                assert caught.value.code == getattr(ef.Code, code)
            assert db.epoch == epoch
            compare(expected, db)
        db.apply(orders=[(6000, 3, Decimal(2))])
        expected.apply(orders=[(6000, 3, Decimal(2))])
        compare(expected, db)
        assert db.statistics()["last batch"]["maps/0"]["how"] in ("hit", "catch-up")


def test_what_maps_cannot_take_is_run_in_stages(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from everfresh.spark.jobs import map_tasks as blocks

    with local() as expected, connect(session) as db:
        db.sql(DDL)
        history(db)

        def broken(*args: Any) -> Any:
            raise LookupError("no such entry")

        with monkeypatch.context() as patched:
            patched.setattr(blocks, "given_whole", broken)
            db.apply(orders=[(6000, 3, Decimal(2))])
        assert db.statistics()["last batch"]["form"] == "staged"
        assert "no such entry" in caplog.text
        expected.apply(orders=[(6000, 3, Decimal(2))])
        compare(expected, db)


def test_views_on_the_driver_are_read_without_a_job(session: FakeSession, tmp_path: Path) -> None:
    with connect(session, tmp_path) as db:
        db.sql(DDL)
        db.apply(batch(0))
        before, epoch = db.view("revenue").to_arrow(), db.epoch
        db.apply(batch(1))
        after = db.view("revenue").to_arrow()
        session.jobs = 0
        assert_same(before, db.view("revenue").to_arrow(at=epoch))
        change = db.view("revenue").changes(since=epoch)
        assert change.num_rows
        assert session.jobs == 0
        assert_same(after, db.view("revenue").to_spark().toArrow().cast(after.schema))
        assert_same(before, db.view("revenue").to_spark(at=epoch).toArrow().cast(before.schema))
        assert session.jobs == 2
    session.forget()
    with ef.connect(tmp_path, engine="spark", spark=session, read_only=True) as reader:  # type: ignore[arg-type]
        assert_same(after, reader.view("revenue").to_arrow())
        assert_same(before, reader.view("revenue").to_arrow(at=epoch))


def test_the_driver_survives_snapshots_and_views_that_go(session: FakeSession, tmp_path: Path) -> None:
    with local() as expected:
        with connect(session, tmp_path, snapshot_epochs=3, history=1) as db:
            db.sql(DDL)
            history(db)
            db._engine.compaction.wait()
            assert list((tmp_path / "parts" / "driver").glob("c-*.snap"))
            db.sql("DROP VIEW everything")
            db.sql(
                "CREATE MATERIALIZED VIEW everything AS SELECT COUNT(*) AS n, SUM(price) AS total, "
                "MIN(price) AS low FROM orders"
            )
            compare(expected, db)
        session.forget()
        with connect(session, tmp_path) as db:
            compare(expected, db)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_dropped_and_made_anew_begins_with_nothing(session: FakeSession, workers: int) -> None:
    ddl = (
        "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT); "
        "CREATE MATERIALIZED VIEW few AS SELECT g, COUNT(*) AS n FROM t GROUP BY g; "
        "CREATE MATERIALIZED VIEW many AS SELECT k, g FROM t WHERE g > 0"
    )
    with connect(session, None, workers=workers) as db:
        for _ in range(3):
            db.sql(ddl)
            db.apply(t=[(1, 1), (2, 1), (3, 0)])
            assert sorted(map(tuple, (r.values() for r in db.view("few").to_arrow().to_pylist()))) == [
                (0, 1),
                (1, 2),
            ]
            assert len(db.view("many").to_arrow()) == 2
            db.sql("DROP TABLE t CASCADE")


def test_the_driver_holds_no_entry_of_a_distributed_map(session: FakeSession) -> None:
    with connect(session) as db:
        db.sql(DDL)
        history(db)
        tags = db._engine.placement.maps
        (held,) = [unit for (_, name), unit in chain._CACHE.items() if name == "driver"]
        found = {}
        for identity, pool in held.content.pools.items():
            found[identity.split("\n")[1]] = len(pool)
        assert any(str(tags[name]) == "@driver" and size for name, size in found.items())
        assert not [name for name, size in found.items() if size and str(tags[name]) != "@driver"]


def test_a_refusal_by_the_driver_changes_nothing(session: FakeSession) -> None:
    with connect(session) as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, x BIGINT NOT NULL)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(SUM(x) AS BIGINT) AS s FROM t")
        db.apply(t=[(1, 2**62)])
        for _ in range(2):
            with pytest.raises(ef.EverfreshError):
                db.apply(t=[(2, 2**62), (3, 2**62)])
        db.apply(t=[(4, 5)])
        assert db.view("v").to_pylist() == [{"s": 2**62 + 5}]


def test_a_fresh_process_compiles_nothing(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everfresh.spark.jobs import job as jobs
    from everfresh.spark.state import artifacts

    with connect(session, tmp_path) as db:
        db.sql(DDL)
        db.apply(batch(0))
        world = db._engine._ledger.world(db.epoch)
        parts = tuple(jobs.PartSpec(table, "insert", "a test", ()) for table in batch(0))
        told = jobs.Job("1", "batch", world.left(), {}, parts, form="whole").write()
        artifacts._KNOWN.clear()

        def compiles(*args: Any) -> Any:
            raise AssertionError("compiled in a task")

        with monkeypatch.context() as patched:
            patched.setattr(jobs, "replayed", compiles)
            patched.setitem(jobs._FORMS, "whole", compiles)
            job = jobs.Job.read(str(tmp_path), told)
            assert set(job.world.catalog.views) == set(VIEWS)
            assert job.program is not None


def test_a_snapshot_is_taken_when_the_log_is_a_third_of_the_last(
    session: FakeSession, tmp_path: Path
) -> None:
    with connect(session, tmp_path, snapshot_bytes=1, history=0, snapshots="now") as db:
        db.sql(DDL)
        taken = []
        for number in range(12):
            db.apply(batch(number))
            ledger = db._engine._ledger
            taken.append(ledger.timeline.snapshot_epoch == db.epoch)
            assert ledger.timeline.snapshot_bytes == sum(
                (tmp_path / "parts" / base.snapshot.file).stat().st_size
                for base in ledger.bases.values()
                if base.snapshot is not None
            )
            assert taken[-1] or ledger.timeline.log_bytes <= ledger.timeline.snapshot_bytes // 3
        assert True in taken
        assert False in taken
    with connect(session, tmp_path) as db:
        assert db._engine._ledger.timeline.snapshot_bytes > 0


def test_messages_have_an_end(session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes from stage to stage is cut into pieces, and put together where it arrives."""
    monkeypatch.setattr(jobs, "_MESSAGE_BYTES", 400)
    sizes, emit = [], tasks._emitted

    def emitted(messages: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
        sizes.extend(len(payload) for _, kind, payload in messages if kind in (jobs.DATA, jobs.GATHERED))
        return emit(messages)

    monkeypatch.setattr(tasks, "_emitted", emitted)
    with local() as expected, connect(session, tmp_path, workers=2, whole_bytes=0) as db:
        db.sql(DDL)
        history(db)
        compare(expected, db)
    assert max(sizes) < 3000  # with schemas


def test_a_table_is_cut_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": range(1000), "b": ["x" * 20] * 1000})
    assert [*jobs.cut(rows)] == [rows]
    monkeypatch.setattr(jobs, "_MESSAGE_BYTES", rows.nbytes // 4)
    pieces = [*jobs.cut(rows)]
    assert len(pieces) in (4, 5)
    assert pa.concat_tables(pieces) == rows
    assert all(len(pack_table(piece)) < rows.nbytes // 3 for piece in pieces)
    assert [piece.num_rows for piece in jobs.cut(rows.slice(0, 0))] == [0]
