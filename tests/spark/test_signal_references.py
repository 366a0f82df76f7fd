"""Signals joined with reference tables: rows at hand and views, on both engines, beside a join by hand. A
change of a reference row computes its group anew, and nothing else."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from fake_spark import install
from test_spark_signal_views import on_spark

import everfresh as ef
from everfresh import signals as s
from everfresh.testing.engine.suite_base import refused


def prepare(db: ef.Database) -> None:
    db.sql(
        "CREATE TABLE a (k BIGINT, t BIGINT, value DOUBLE, PRIMARY KEY (k, t));"
        "CREATE TABLE sensors (k INT PRIMARY KEY, gain DOUBLE, place VARCHAR, zero DOUBLE)"
    )


def queries(db: ef.Database) -> dict[str, Any]:
    read = db.signal("a", time="t", key="k", late="revise")
    sensors = db.reference("sensors", key="k", value=["gain", "zero"])
    return {
        "inner": read.join(sensors).select(value="gain * value + zero"),
        "outer": read.join(sensors, kind="left"),
        "filtered": read.as_uniform(1).join(sensors).select(value="value * gain").filter_fir([1.0, 0.5]),
    }


def by_hand(
    rows: dict[tuple[int, int], float], sensors: dict[int, tuple[float, float]], name: str
) -> list[Any]:
    found = []
    for (k, t), value in sorted(rows.items()):
        gain, zero = sensors.get(k, (math.nan, math.nan))
        if name == "outer":
            found.append((k, t, value, gain, zero))
        elif k in sensors and name == "inner":
            found.append((k, t, gain * value + zero))
        elif k in sensors:
            found.append((k, t, gain * value + 0.5 * (rows.get((k, t - 1), 0.0) * gain)))
    return found


def as_rows(table: pa.Table) -> list[Any]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=lambda row: row[:2])


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_views_follow_both_tables(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    local = engine == "local"
    options = ef.Options(workers=2, durable=False)
    with ef.connect(engine="local") if local else on_spark(None, install(monkeypatch), options) as db:
        prepare(db)
        rows: dict[tuple[int, int], float] = {}
        known: dict[int, tuple[float, float]] = {1: (2.0, 0.5)}
        db.apply(sensors=[(1, 2.0, "roof", 0.5)])
        for name, query in queries(db).items():
            query.create_view(name)
        for step in range(8):
            new = {(rng.randrange(4), 4 * step + i): rng.choice([0.5, 1.0, 3.0]) for i in range(4)}
            rows.update(new)
            batch: dict[str, Any] = {"a": [(*key, value) for key, value in new.items()]}
            k, row = rng.randrange(4), (float(step + 1), rng.choice([0.0, 0.25]))
            if step % 2:
                gone = [{"k": k}] if k in known else []
                change = [] if gone and step % 4 == 3 else [(k, row[0], "here", row[1])]
                known.pop(k, None)
                known.update({k: row} if change else {})
                batch["sensors"] = ef.Delta(deletes=gone, inserts=change)
            before = {name: as_rows(db.view(name).to_arrow()) for name in queries(db)}
            epoch = db.apply(batch)
            for name, old in before.items():
                found = as_rows(db.view(name).to_arrow())
                assert repr(found) == repr(by_hand(rows, known, name)), name
                assert db.view(name).verify().num_rows == 0
                changed = db.view(name).changes(epoch - 1)
                others = {row[0] for row in old if row[0] != k} - {key for key, _ in new}
                assert not others & set(changed.column("k").to_pylist())
        moved = [{"k": k, "place": "moved"} for k in known]  # which nobody reads
        db.apply(sensors=ef.Delta(updates=moved))
        assert db.view("inner").changes(db.epoch - 1).num_rows == 0


def test_rows_at_hand() -> None:
    """The reference comes first, however the rows are cut."""
    rows = {(k, t): float(k + t) for k in range(3) for t in range(5)}
    sensors = {0: (2.0, 1.0), 2: (3.0, 0.0)}
    tables = {
        "a": pa.table(
            {
                n: [row[i] for row in ((*k, v) for k, v in rows.items())]
                for i, n in enumerate(("k", "t", "value"))
            }
        ),
        "sensors": pa.table({"k": [0, 2], "gain": [2.0, 3.0], "zero": [1.0, 0.0]}),
    }
    read = s.reading("a", time="t", key="k")
    made = read.join(s.reference("sensors", key="k", value=["gain", "zero"])).select(
        value="gain * value + zero"
    )
    assert as_rows(made.run(tables)) == by_hand(rows, sensors, "inner")
    assert "reference table 'sensors': a change computes its groups anew" in made.explain()
    assert s.parse(str(made)) == made.node


def test_what_is_refused() -> None:
    with ef.connect(engine="local") as db:
        prepare(db)
        db.sql("CREATE TABLE twice (k BIGINT, gain DOUBLE)")
        read = db.signal("a", time="t", key="k")
        read.join(db.reference("twice", key="k", value="gain")).create_view("v")
        with refused(ef.Code.SIG_OVERLAP, "two rows of key 1", "'twice'"):
            db.apply(twice=[(1, 1.0), (1, 2.0)])
        with refused(ef.Code.NOT_FOUND, "no signal view reads"):
            db.advance("twice", 5)
        with refused(ef.Code.NOT_FOUND, "'nothing'"):
            db.reference("nothing", key="k", value="gain")
        with refused(ef.Code.SIG_KIND, "no reference table"):
            read.join(read)
        with refused(ef.Code.SIG_KIND, "table 'a'"):
            read.join(db.reference("a", key="k", value="value")).create_view("w")
        with refused(ef.Code.SIG_TYPE, "place"):
            read.join(db.reference("sensors", key="k", value="place")).create_view("w")
        with refused(ef.Code.ARGUMENT, "'inner' nor 'left'"):
            read.join(db.reference("twice", key="k", value="gain"), kind="right")
