"""A chain of views across domains, in one epoch: a table, a signal view, a SQL view of it and of another
table, a matrix view over that, a SQL view over the matrix; and a counter of what the last one publishes.

Catches objects that are stepped before what they read is done, views that keep half of an epoch in which they
are stepped twice, and changes of such an epoch that are told, logged or taken back one by one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from counters import Counters, Create
from hypothesis import given
from hypothesis import strategies as st

import everfresh as ef
import everfresh.linalg as la
from everfresh import signals as s
from everfresh.database import connected, domains_of
from everfresh.delta.bags import difference
from everfresh.testing.domain_suite import DomainSuite

LEVELS = (
    "CREATE MATERIALIZED VIEW levels AS "
    "SELECT level.t, f.g, SUM(level.value * f.w) AS v, COUNT(*) AS n "
    "FROM level JOIN f ON level.k = f.k GROUP BY level.t, f.g"
)
TRACE = (
    "CREATE MATERIALIZED VIEW trace AS "
    "SELECT gram.c0 AS n, gram.c1 AS total, COUNT(levels.t) AS rows "
    "FROM gram LEFT JOIN levels ON gram.row >= 0 WHERE gram.row = 0 GROUP BY gram.c0, gram.c1"
)
"""A view of the matrix and of the view that the matrix follows: what it reads changes in two layers."""


class ChainSuite(DomainSuite):
    """A batch goes through three domains and back; `f` changes views in the first layer that `r` changes in
    the second."""

    kills = 1
    strikes = 8

    def domains(self, options: ef.Options) -> tuple[Any, ...]:
        return (*domains_of(options), Counters(options.history))

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        options = kwargs.get("options") or self.options()
        read_only = kwargs.get("read_only", False)
        return connected(path, "local", None, read_only, options, self.domains(options))

    def make(self, db: ef.Database) -> None:
        db.sql(
            "CREATE TABLE r (k INT, t BIGINT, value DOUBLE, PRIMARY KEY (k, t));"
            "CREATE TABLE f (k INT PRIMARY KEY, g VARCHAR, w DOUBLE)"
        )
        db.apply(
            r=[(k, 5 * t, float(k + t % 3)) for k in range(3) for t in range(4)],
            f=[(k, "ab"[k % 2], k + 0.5) for k in range(3)],
        )
        readings = db.signal("r", time="t", key="k", late="revise")
        readings.sample(5, interpolate=s.last(window=20)).create_view("level")
        db.sql(LEVELS)
        x = la.columns("levels", index=("t", "g"), values=[1, "v", "n"])
        db.create_matrix_view("gram", "G := X' X;", inputs={"X": x})
        db.sql(TRACE)
        with db._lock:
            db._define("counter", Create("told", ("trace",)))

    def remake(self, db: ef.Database, name: str) -> None:
        db.create_matrix(name, np.eye(2))

    def names(self, db: ef.Database) -> list[str]:
        return [*super().names(db), "levels", "trace"]

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        """Readings that come, go, change and come late; facts that come, go and come again."""
        rows = {(row["k"], row["t"]) for row in db.table("r").to_pylist()}
        last = max((t for _, t in rows), default=0)
        free = [(k, t) for k in range(4) for t in range(last - 10, last + 20, 5) if (k, t) not in rows]
        new = rng.sample(free, 1 + rng.randrange(5))
        gone = rng.sample(sorted(rows), min(len(rows), rng.randrange(3)))
        readings = ef.Delta(
            inserts=[(k, t, float(rng.randrange(8))) for k, t in new],
            deletes=[{"k": k, "t": t} for k, t in gone],
        )
        known = {row["k"] for row in db.table("f").to_pylist()}
        keys = rng.sample(range(4), 2)
        facts = ef.Delta(
            inserts=[(k, rng.choice("abc"), rng.randrange(8) / 2) for k in keys],
            deletes=[{"k": k} for k in keys if k in known],
        )
        return {n: given for n, given in (("r", readings), ("f", facts)) if rng.random() < 0.8}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        right = {"f": [(9, "right", 1.0)]}
        return [
            {**right, "r": [(9, None, 1.0)]},
            # NULL is no entry of a matrix: found when two domains have been stepped.
            {"f": ef.Delta(updates=[{"k": 0, "w": None}, {"k": 1, "w": None}, {"k": 2, "w": None}])},
            {**right, "gram.X": la.EntryUpdate(0, 0, 1.0)},
        ]

    def check(self, db: ef.Database) -> None:
        """Each object by what the one before it has, from the tables on."""
        for one in db._engine.objects:
            differs = db._engine.verify(one.name)
            assert differs.num_rows == 0, f"{one.name}:\n{differs}"
        read = db._engine.read
        facts = {row["k"]: row for row in read("f").to_pylist()}
        groups: dict[tuple[int, str], list[float]] = {}
        for row in read("level").to_pylist():
            fact = facts.get(row["k"])
            if fact is not None:
                group = groups.setdefault((row["t"], fact["g"]), [])
                group.append(row["value"] * fact["w"])
        found = {(row["t"], row["g"]): (row["v"], row["n"]) for row in read("levels").to_pylist()}
        assert {k: n for k, (_, n) in found.items()} == {k: len(of) for k, of in groups.items()}
        assert all(np.isclose(found[k][0], sum(of)) for k, of in groups.items())
        x = np.array([[1.0, v, n] for v, n in found.values()]).reshape(-1, 3)
        gram = db.view("gram").to_numpy()  # type: ignore[attr-defined]
        assert np.allclose(gram, x.T @ x)
        (trace,) = read("trace").to_pylist()
        assert trace["rows"] == len(found)
        assert (trace["n"], trace["total"]) == (gram[0, 0], gram[0, 1])
        created = db._engine.objects.find("told").created  # type: ignore[union-attr]
        weights = db._engine.changes("trace", max(created, db._engine.oldest)).column("_weight").to_pylist()
        assert read("told").to_pylist() == [{"n": sum(w for w in weights if w > 0)}]


class TestChain(ChainSuite):
    """On the local engine."""

    def test_it_is_one_epoch(self) -> None:
        """What listeners are told of a view that was stepped twice is one change."""
        rng = random.Random(3)
        with self.connect() as db:
            self.make(db)
            before = db.view("levels").to_arrow()
            for _ in range(10):
                epoch = db.epoch
                told = db.apply(self.change(db, rng))
                assert told == epoch + 1
                change = db._engine.changes("levels", epoch).drop_columns(["_epoch"])
                after = db.view("levels").to_arrow()
                assert difference(after, before).num_rows == change.num_rows
                before = after
                self.check(db)


@given(data=st.data())
def test_random_batches_equal_recomputation(data: st.DataObject) -> None:
    """Of both tables, one of them, none, in any order."""
    suite = TestChain()
    with suite.connect() as db:
        suite.make(db)
        rng = random.Random(data.draw(st.integers(0, 1 << 30)))
        for _ in range(data.draw(st.integers(1, 3))):
            db.apply(suite.change(db, rng))
        suite.check(db)
