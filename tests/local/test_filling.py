"""Views over the latest row of a group, the next event and their relatives: however rows and views come, they
equal DuckDB, and neither filling nor state is quadratic.

Catches: a lookup that scans a group for every row that asks, a self-join evaluated pair by pair when a view
is created, a statement used for filling that reads what was not there, a map with an entry for every pair, a
key between two values that change together and is missed, ties and NULLs on either side of the comparison,
entries whose count is zero taken for values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everfresh as ef
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import TableSchema

LATEST = {
    "join": """SELECT a.k, a.x FROM t a JOIN (SELECT g, MAX(x) AS m FROM t GROUP BY g) b
        ON a.g = b.g AND a.x = b.m""",
    "scalar": "SELECT a.k, a.x FROM t a WHERE a.x = (SELECT MAX(b.x) FROM t b WHERE b.g = a.g)",
    "all": "SELECT a.k, a.x FROM t a WHERE a.x >= ALL (SELECT b.x FROM t b WHERE b.g = a.g)",
    "not exists": "SELECT a.k FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.g = a.g AND b.x > a.x)",
    "exists": "SELECT a.k FROM t a WHERE EXISTS (SELECT 1 FROM u b WHERE b.g = a.g AND b.x <= a.x)",
    "either": "SELECT a.k, EXISTS (SELECT 1 FROM u b WHERE b.g = a.g AND a.x > b.x) AS e FROM t a",
}
NEXT = {
    "next": "SELECT a.k, (SELECT MIN(b.x) FROM t b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "next or same": "SELECT a.k, (SELECT MIN(b.x) FROM u b WHERE b.g = a.g AND b.x >= a.x) AS n FROM t a",
    "previous": "SELECT a.k, (SELECT MAX(b.x) FROM u b WHERE b.g = a.g AND b.x < a.x) AS n FROM t a",
    "as of": """SELECT a.k, (SELECT MAX(b.x) FROM t b WHERE b.g = a.g AND b.x <= a.x AND b.k > 3) AS n
        FROM t a""",
    "last": "SELECT a.k, (SELECT MAX(b.x) FROM u b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "first": "SELECT a.k, (SELECT MIN(b.x) FROM t b WHERE b.g = a.g AND a.x >= b.x) AS n FROM t a",
    "alone": "SELECT a.k, (SELECT MIN(b.x) FROM u b WHERE b.x > a.x) AS n FROM t a",
    "both": "SELECT a.k FROM t a WHERE a.k < (SELECT MIN(b.k) FROM u b WHERE b.g = a.g AND b.k > a.k)",
}
SUMS = {
    "counted": "SELECT a.k, (SELECT COUNT(*) FROM t b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "summed": "SELECT a.k, (SELECT SUM(b.k) FROM u b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a",
    "by group": """SELECT a.g, SUM(b.k) AS s, COUNT(*) AS n FROM t a JOIN t b ON b.g = a.g AND b.x > a.x
        GROUP BY a.g""",
    "by row": "SELECT a.k, SUM(b.k) AS s FROM t a JOIN u b ON b.g = a.g AND b.x > a.x GROUP BY a.k",
    "least": "SELECT a.k, MIN(b.x) AS s FROM t a JOIN t b ON b.g = a.g AND b.x > a.x GROUP BY a.k",
    "both tables": "SELECT g, x FROM t UNION ALL SELECT a.g, b.x FROM t a, u b WHERE a.k = b.k AND a.x < b.x",
}
VIEWS = {**LATEST, **NEXT, **SUMS}
VALUES: dict[str, list[Any]] = {
    "BIGINT": list(range(-4, 9)),
    "VARCHAR": ["", "a", "ab", "b", "B", "é", "z" * 9],
    "DOUBLE": [float("nan"), 0.0, -1.5, 2.0, float("inf"), -float("inf"), 3.25],
    "DECIMAL(25, 3)": [Decimal(i) / 8 * 10**15 for i in range(-3, 5)],
}


class Twins:
    """A database and DuckDB with the same rows, and views with their queries."""

    def __init__(self, type_: str, path: Path | None = None) -> None:
        self.path, self.type, self.views = path, type_, dict[str, str]()
        self.db = self._open()
        self.duck = DuckOracle()
        for name in "tu":
            self.db.sql(f"CREATE TABLE {name} (k BIGINT, g BIGINT, x {type_})")
            self.duck.create(TableSchema(name, self.db.tables[name].columns))

    def _open(self) -> ef.Database:
        options = ef.Options(compile="off")
        return (
            ef.connect(self.path, engine="local", options=options)
            if self.path
            else ef.connect(engine="local", options=options)
        )

    def create(self, names: list[str]) -> None:
        for name in names:
            view = "v_" + name.replace(" ", "_")
            self.db.sql(f"CREATE MATERIALIZED VIEW {view} AS {VIEWS[name]}")
            self.views[view] = VIEWS[name]

    def apply(self, **changes: ef.Delta) -> None:
        self.db.apply(**changes)
        for name, change in changes.items():
            self.duck.apply(name, change.inserts, change.deletes)

    def reopen(self) -> None:
        self.db.close()
        self.db = self._open()

    def check(self) -> None:
        for view, query in self.views.items():
            assert_same(self.duck.query(query), self.db.views[view].to_arrow(), view)


def histories(type_: str, seed: int, size: int, rows: int = 70) -> Iterator[dict[str, ef.Delta]]:
    """Rows that come, go and come again; some values are NULL, many are the same."""
    chance = random.Random(seed)
    held: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    for start in range(0, rows, size):
        changes = {}
        for name, there in held.items():
            gone = [there.pop(chance.randrange(len(there))) for _ in range(min(len(there), size) // 3)]
            new = [
                (
                    chance.randrange(9),
                    chance.choice([0, 0, 0, 1, None]),
                    chance.choice([None, *VALUES[type_] * 2]),
                )
                for _ in range(min(size, rows - start))
            ]
            there += new
            changes[name] = ef.Delta(inserts=new, deletes=gone)
        yield changes


@pytest.mark.parametrize("size", [1, 7, 70])
@pytest.mark.parametrize("type_", list(VALUES))
def test_views_equal_duckdb(type_: str, size: int) -> None:
    names = list(VIEWS) if type_ == "BIGINT" else [*LATEST, *NEXT]
    twins = Twins(type_)
    twins.create(names[::2])
    changes = list(histories(type_, 7 + size, size))
    for i, change in enumerate(changes):
        if i == len(changes) // 2:
            twins.create(names[1::2])
        twins.apply(**change)
        if size > 1 or i % 5 == 0:
            twins.check()
    twins.check()
    for view in twins.views:
        assert not twins.db.views[view].verify().num_rows, view


@pytest.mark.parametrize("type_", ["BIGINT", "VARCHAR"])
def test_views_are_filled_and_opened_again(type_: str, tmp_path: Path) -> None:
    twins = Twins(type_, tmp_path / "db")
    first, *changes = histories(type_, 3, 20, 200)
    for change in (first, *changes[:4]):
        twins.apply(**change)
    twins.create(list(VIEWS) if type_ == "BIGINT" else [*LATEST, *NEXT])
    twins.check()
    twins.apply(**changes[4])
    twins.reopen()
    twins.check()
    for change in changes[5:]:
        twins.apply(**change)
    twins.check()


ROWS = 4000
LONG = [*LATEST, *NEXT, "counted", "summed", "by group", "by row"]


def skewed(seed: int = 1) -> list[tuple[int, int, int]]:
    """One long group, and many that have one row."""
    values = list(range(ROWS))
    random.Random(seed).shuffle(values)
    return [(k, 0 if k < ROWS // 2 else k, x) for k, x in enumerate(values)]


def largest(db: ef.Database) -> int:
    maps = db.statistics()["maps beside them"]
    return max((found["entries"] for found in maps.values()), default=0)


@pytest.mark.parametrize("name", LONG)
def test_filling_and_state_are_linear(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of frames are counted, in what fills and in what maintains."""
    from everfresh.local.interpret import interpreter as joined

    met = [0]
    real = joined._take

    def take(frame: Any, step: Any, found: Any, *rest: Any) -> None:
        met[0] += len(found.at) + found.visited
        real(frame, step, found, *rest)

    monkeypatch.setattr(joined, "_take", take)
    found = []
    for first in (True, False):
        with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
            for table in "tu":
                db.sql(f"CREATE TABLE {table} (k BIGINT, g BIGINT, x BIGINT)")
            met[0] = 0
            if first:
                db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
            db.apply(t=skewed(), u=skewed(2))
            if not first:
                db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
            assert met[0] <= 40 * ROWS, "first" if first else "after"
            assert largest(db) <= 2 * ROWS
            found.append(db.views["v"].to_arrow())
    assert_same(*found, name)


@pytest.mark.parametrize("name", ["next", "previous", "as of", "next or same", "not exists", "exists"])
def test_one_row_costs_what_changes(name: str) -> None:
    """A row between others concerns its neighbours, however long the group is."""
    with ef.connect(engine="local", options=ef.Options(compile="off")) as db:
        for table in "tu":
            db.sql(f"CREATE TABLE {table} (k BIGINT, g BIGINT, x BIGINT)")
        db.apply(t=[(k, 1, 10 * k) for k in range(ROWS)], u=[(k, 1, 10 * k) for k in range(ROWS)])
        db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
        db.apply(t=[(5, 1, 10 * (ROWS // 2) + 5)], u=[(5, 1, 10 * (ROWS // 2) + 5)])
        engine: Any = db._engine
        assert 0 < sum(engine._state.visited.values()) < 60


def test_a_map_of_pairs_is_announced_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    pairs = "SELECT a.k, (SELECT MIN(b.k) FROM t b WHERE b.g = a.g AND b.x > a.x) AS n FROM t a"
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {pairs}")
        db.sql(f"CREATE MATERIALIZED VIEW w AS {NEXT['next']}")
        assert (
            "LARGE MAPS\n  v#2: up to an entry for each pair of rows of v$0 and t" in db.views["v"].explain()
        )
        assert '"pairs of": [\n        "v$0",' in db.views["v"].explain("json")
        assert "LARGE MAPS" not in db.views["w"].explain()
        for start in range(0, 600, 200):
            db.apply(t=[(k, 1, k) for k in range(start, start + 200)])
        assert [str(r.args[0]) for r in caplog.records if r.name == "everfresh"] == ["v#2"]  # type: ignore[index]
        maps = db.statistics()["maps beside them"]
        assert [name for name, found in maps.items() if found.get("outgrown")] == ["v#2"]
