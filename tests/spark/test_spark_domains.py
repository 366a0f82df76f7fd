"""What another domain needs of Spark, it has without touching that of tables: units with a content of its
own, a job of its own stages, its changes in segments."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import spark_counters
from fake_spark import FakeSession, install
from spark_counters import COUNT

import everfresh as ef
from everfresh.spark.state.chain import read_segment
from everfresh.spark.state.ledger import Draft

WORKERS = 3
DDL = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT); "
    "CREATE MATERIALIZED VIEW v AS SELECT g, k, COUNT(*) AS n FROM t GROUP BY g, k"
)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def connect(session: FakeSession, path: Path, **options: Any) -> ef.Database:
    chosen = ef.Options(workers=WORKERS, durable=False, snapshots="now").with_(**options)
    return ef.connect(path, engine="spark", spark=session, options=chosen)  # type: ignore[arg-type]


def count(db: ef.Database, given: list[tuple[str, int]], commit: bool = True) -> None:
    """One epoch in which counters change."""
    engine: Any = db._engine
    draft = Draft(engine._ledger)
    job = draft.job("count", pieces={"given": json.dumps(given).encode()})
    draft.add(engine._runner.run(job, COUNT).controls)
    if commit:
        engine._commit(draft)


def read(session: FakeSession, db: ef.Database) -> dict[str, int]:
    """All counters, as tasks find them."""
    from everfresh.spark.state.chain import open_for_reading

    ledger, found = db._engine._ledger, {}
    for worker in range(WORKERS):
        with session.task(worker):
            content: Any = open_for_reading(
                ledger.bases[f"counter/{worker}"], ledger.world(ledger.epoch)
            ).content
            found.update(content.counts)
    return found


def changed(db: ef.Database, epoch: int) -> Counter[str]:
    """What came in an epoch, from the segments of the units."""
    ledger, found = db._engine._ledger, Counter[str]()
    for worker in range(WORKERS):
        base = ledger.bases[f"counter/{worker}"]
        for link in base.since(epoch - 1):
            if link.epoch == epoch:
                sealed = read_segment(ledger.world(epoch), base.unit, link)
                found.update(dict(json.loads(bytes(sealed.sections["changes"]))))
    return found


@pytest.mark.parametrize("inline", [0, 1 << 16])
def test_units_of_another_domain(session: FakeSession, tmp_path: Path, inline: int) -> None:
    """Random changes, drafts that are not committed, batches of tables between them, snapshots, new processes
    and a new driver: always what a dictionary holds."""
    chosen = random.Random(5)
    expected: Counter[str] = Counter()
    options = {"inline_bytes": inline, "snapshot_epochs": 7, "history": 2}
    db = connect(session, tmp_path / "db", **options)
    db.sql(DDL)
    for number in range(40):
        given = [(f"c{chosen.randrange(8)}", chosen.randrange(1, 4)) for _ in range(chosen.randrange(6))]
        with session.trouble() if number % 3 == 1 else nullcontext():
            count(db, given, commit=number % 5 != 3)
        if number % 5 != 3:
            for name, more in given:
                expected[name] += more
            assert +changed(db, db.epoch) == +sum((Counter({n: m}) for n, m in given), Counter())
        if number % 3 == 0:
            db.apply(t=[(number, number % 2)])
        if number % 11 == 10:
            session.forget()
        if number % 13 == 12:
            db.close()
            session.forget()
            db = connect(session, tmp_path / "db", **options)
        assert read(session, db) == expected
    assert db._engine._ledger.timeline.snapshot_epoch > 20
    bases = db._engine._ledger.bases
    assert all("-counter-" in bases[f"counter/{w}"].snapshot.file for w in range(WORKERS))
    assert db.view("v").to_arrow().num_rows == 14
    db.close()


def test_a_stage_that_refuses_changes_nothing(session: FakeSession, tmp_path: Path) -> None:
    with connect(session, tmp_path / "db") as db:
        count(db, [("a", 3), ("b", 1), ("c", 2)])
        epoch = db.epoch
        with pytest.raises(ef.EverfreshError, match="the counter 'b' falls below nothing") as caught:
            count(db, [("a", 1), ("b", -2), ("c", 1)])
        assert caught.value.code == ef.Code.VALUE
        assert db.epoch == epoch
        assert read(session, db) == {"a": 3, "b": 1, "c": 2}
        count(db, [("b", -1)])
        assert read(session, db) == {"a": 3, "b": 0, "c": 2}


def test_jobs_name_the_units_of_their_plan_alone(session: FakeSession, tmp_path: Path) -> None:
    """What a domain has makes no other domain's jobs larger."""
    from everfresh.spark.jobs.job import Job

    with connect(session, tmp_path / "db") as db:
        db.sql(DDL)
        count(db, [("a", 3)])
        job = Draft(db._engine._ledger).job("count", roles=COUNT.roles)
        told = job.write()
        assert sorted(Job.read(job.world.root, told).bases) == [f"counter/{w}" for w in range(WORKERS)]
        job.remove()


@pytest.mark.spark
def test_stages_of_another_domain_on_spark(spark: Any, tmp_path: Path) -> None:
    """The same with Spark's own processes, which are handed the stages by their names."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(spark_counters)  # a worker's path has no tests
    try:
        with connect(spark, tmp_path / "db") as db:
            count(db, [("a", 3), ("b", 1), ("c", 2)])
            with pytest.raises(ef.EverfreshError, match="the counter 'b' falls below nothing"):
                count(db, [("a", 1), ("b", -2), ("c", 1)])
            db._engine.snapshot()
            count(db, [("b", 4)])
            assert changed(db, db.epoch) == {"b": 4}
            assert all(db._engine._ledger.bases[f"counter/{w}"].snapshot for w in range(WORKERS))
    finally:
        cloudpickle.unregister_pickle_by_value(spark_counters)
