"""Crossmatch views: the suite of domains, and every kind of row against a crossmatch from scratch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.domain_suite import DomainSuite
from everfresh.testing.engine.suite_base import refused

COLUMNS = "(k BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE, mjd DOUBLE, name VARCHAR)"


def point(rng: random.Random, key: int) -> tuple[Any, ...]:
    """Near the seam, near a pole, and where others are; some at the very same place."""
    ra = rng.choice([0.0, 359.9999, 0.0001, 10.0, 10.0001, 10.0002])
    dec = rng.choice([0.0, 0.0001, -0.0001, 20.0])
    if rng.random() < 0.2:
        ra, dec = rng.random() * 360, 89.9999
    return (key, ra, dec, rng.choice([None, 1.0, 2.0, 5.0]), rng.choice(["", "a'b", None]))


def batch(db: ef.Database, rng: random.Random, tables: Sequence[str] = ("a", "b")) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in tables:
        there = db.table(name).to_pylist()
        some = rng.sample(there, min(len(there), rng.randrange(4)))
        moved = [{**row, "dec": 0.0} for row in some[:1]] if rng.random() < 0.4 else []
        gone = [{"k": row["k"]} for row in some[len(moved) :]]
        first = 1 + max((row["k"] for row in there), default=0)
        new = [point(rng, first + k) for k in range(1 + rng.randrange(4))]
        found[name] = ef.Delta(inserts=new, deletes=gone or None, updates=moved or None)
    return found


class CrossmatchViewSuite(DomainSuite):
    """Pairs, and left points with their nearest within a window of time."""

    kills = 2
    strikes = 12

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        db.sql(f"CREATE TABLE a {COLUMNS}; CREATE TABLE b {COLUMNS}")
        db.sql("CREATE MATERIALIZED VIEW late AS SELECT k, ra, dec, mjd FROM b WHERE mjd > 1")
        db.create_crossmatch_view("pairs", "a", "b", 1.0, left_columns=["k", "name"])
        db.create_crossmatch_view(
            "nearest", "a", "late", 2.0, how="left", find="best", within={"mjd": (-1, None)}
        )

    def remake(self, db: ef.Database, name: str) -> None:
        if db.catalog.resolve("a") is None:
            db.sql(f"CREATE TABLE a {COLUMNS}")
        db.create_crossmatch_view(name, "a", "a", 1.0)

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        return batch(db, rng)

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [
            {"b": [(10**6, 1.0, 1.0, 1.0, "")], "a": [(10**6, 1.0, 91.0, 1.0, "")]},
            {"a": [(10**6, None, 1.0, 1.0, "")]},
        ]


class TestCrossmatchViews(CrossmatchViewSuite):
    """On the local engine."""


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_slots_are_used_again(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What points leave that went is used again, and nothing else is seen of it."""
    from everfresh.arrays.matching import index

    monkeypatch.setattr(index, "FEW", 3)
    rng = random.Random(11)
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE a {COLUMNS}; CREATE TABLE b {COLUMNS}")
        db.create_crossmatch_view("v", "a", "b", 1.0, how=how)
        sides = db._domain("crossmatch").matches["v"].sides
        sizes = []
        for k in range(12):
            there = {name: [row["k"] for row in db.table(name).to_pylist()] for name in "ab"}
            old = db.view("v").to_arrow()
            epoch = db.apply(
                {
                    name: ef.Delta(
                        inserts=[point(rng, 10 * k + n) for n in range(6)], deletes=[{"k": n} for n in some]
                    )
                    for name, some in there.items()
                }
            )
            assert db.view("v").verify().num_rows == 0
            assert db.view("v").to_arrow(at=epoch - 1).num_rows == old.num_rows
            sizes.append(max(side.ra.size for side in sides))
        assert max(sizes) <= 24 < 12 * 6
        with pytest.raises(ef.EverfreshError):
            db.apply(a=[(1000, 1.0, 91.0, 1.0, "")])
        assert db.view("v").verify().num_rows == 0


@pytest.mark.parametrize("how", ["inner", "left", "anti", "outer", "best"])
@pytest.mark.parametrize("find", ["all", "best"])
def test_every_kind_of_row(how: str, find: str) -> None:
    for seed, (within, right) in enumerate([({}, "b"), ({"mjd": (-1, 0)}, "b"), ({}, "a")]):
        rng = random.Random(seed)
        with ef.connect(engine="local") as db:
            db.sql(f"CREATE TABLE a {COLUMNS}; CREATE TABLE b {COLUMNS}")
            db.apply(batch(db, rng))
            db.create_crossmatch_view("v", "a", right, 1.0, how=how, find=find, within=within)
            for _ in range(6):
                before = db.view("v").to_arrow()
                epoch = db.apply(batch(db, rng))
                wrong = db.view("v").verify()
                assert wrong.num_rows == 0, wrong.to_pylist()
                changes = db.view("v").changes(epoch - 1)
                assert len(before) + sum(changes.column("_weight").to_pylist()) == len(db.view("v"))


def test_statements_and_mistakes() -> None:
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE TABLE a {COLUMNS}; CREATE TABLE nokey (ra DOUBLE, dec DOUBLE, t VARCHAR)")
        db.apply(a=[(1, 10.0, 20.0, 1.0, "x")], nokey=[(10.0001, 20.0, "t"), (10.0001, 20.0, "t")])
        db.create_crossmatch_view("v", "A", "nokey", 1.0)
        view = db.view("v")
        assert [c.name for c in view.columns] == ["k", "ra", "dec", "t", "separation"]
        assert len(view) == 2
        heard: list[Any] = []
        view.on_change(heard.append)
        db.apply(nokey=ef.Delta(deletes=[(10.0001, 20.0, "t")]))
        assert heard[0].column("_weight").to_pylist() == [-1]
        assert len(view) == view.to_arrow().num_rows == 1
        assert "1 points in sorted runs" in view.explain()
        assert db._domain("crossmatch").statistics()["v"]["rows"] == 1
        epoch = db.epoch
        wrong: list[tuple[dict[str, Any], str, str]] = [
            ({"left": "nope"}, ef.Code.NOT_FOUND, "nope"),
            ({"name": "a"}, ef.Code.EXISTS, "'a'"),
            ({"radius_arcsec": -1}, ef.Code.ARGUMENT, "radius"),
            ({"how": "full"}, ef.Code.ARGUMENT, "full"),
            ({"ra": "name"}, ef.Code.TYPE, "not a number"),
            ({"within": {"mjd": (3, 1)}}, ef.Code.ARGUMENT, "bounds nothing"),
            ({"left_columns": ["k", "zzz"]}, ef.Code.NOT_FOUND, "zzz"),
        ]
        for changed, code, said in wrong:
            given = {"name": "w", "left": "a", "right": "a", "radius_arcsec": 1.0, **changed}
            with refused(code, said):
                db.create_crossmatch_view(**given)
        with refused(ef.Code.DEPENDENCY, "v"):
            db.sql("DROP TABLE a")
        assert db.epoch == epoch
        view.drop()  # type: ignore[attr-defined]
        db.sql("DROP TABLE a")
