"""The suite of domains on the local engine: on counters, on matrices, and on tables and SQL views."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from counters import Counters, Create, Grow

import everfresh as ef
import everfresh.linalg as la
from everfresh.database import connected
from everfresh.testing.domain_suite import Contents, DomainSuite

SHOP = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, g VARCHAR, x INT);"
    "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY g"
)


def rows_change(db: ef.Database, rng: random.Random) -> ef.Delta:
    """Some rows of `t` go, others come; groups come and go with them."""
    there = [row["k"] for row in db.table("t").to_pylist()]
    gone = rng.sample(there, min(len(there), rng.randrange(4)))
    first = max(there, default=0) + 1
    new = [(first + i, f"g{rng.randrange(5)}", rng.randrange(100)) for i in range(1 + rng.randrange(4))]
    return ef.Delta(inserts=new, deletes=[{"k": k} for k in gone])


class CounterSuite(DomainSuite):
    """Counters: of a table, of a view, of a counter, and one that is told."""

    tolerance = 0
    strikes_at_ends = 40
    reads: Mapping[str, tuple[str, ...]] = {
        "rows": ("t",),
        "groups": ("v",),
        "told": (),
        "both": ("groups", "told"),
    }

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        options = kwargs.get("options") or self.options()
        domains = (Counters(options.history),)
        return connected(path, "local", None, kwargs.get("read_only", False), options, domains)

    def make(self, db: ef.Database) -> None:
        db.sql(SHOP)
        for name, reads in self.reads.items():
            self.define(db, Create(name, reads))

    def define(self, db: ef.Database, statement: Create) -> None:
        with db._lock:
            db._check_free(statement.name)
            db._define("counter", statement)

    def remake(self, db: ef.Database, name: str) -> None:
        self.define(db, Create(name))

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        batch: dict[str, Any] = {"t": rows_change(db, rng)}
        return batch if rng.random() < 0.3 else {**batch, "told": Grow(rng.randrange(5))}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        right = {"t": [(1000, "g", 1)]}
        return [
            {**right, "told": Grow(2_000_000)},
            {**right, "told": "more"},
            {"t": [(None, "g", 1)], "told": Grow(1)},
        ]

    def check(self, db: ef.Database) -> None:
        """What a counter of others has is what they published since it was made."""
        super().check(db)
        for found in db._engine.objects:
            if "t" not in found.reads and found.name != "told":
                changes = [db._engine.changes(read, found.created) for read in found.reads]
                weights = [w for table in changes for w in table.column("_weight").to_pylist()]
                (row,) = db._engine.read(found.name).to_pylist()
                assert row["n"] == sum(w for w in weights if w > 0), found


class TestCounters(CounterSuite):
    """On the local engine."""


class MatrixSuite(DomainSuite):
    """Matrices: updated by users, and following columns of a SQL view."""

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def make(self, db: ef.Database) -> None:
        db.sql(SHOP)
        db.apply(t=[(i, f"g{i % 3}", i) for i in range(9)])
        db.create_matrix("A", np.random.default_rng(0).standard_normal((5, 5)))
        db.create_matrix_view("square", "B := A A;", strategy="incremental")
        columns = la.columns("v", index="g", values=[1, "s", "n"])
        db.create_matrix_view("gram", "G := X' X;", inputs={"X": columns})

    def remake(self, db: ef.Database, name: str) -> None:
        db.create_matrix(name, np.eye(2))

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        values = np.array([rng.random() for _ in range(5)])
        updates = [la.RowUpdate(rng.randrange(5), values), la.EntryUpdate(0, 0, rng.random())]
        batch: dict[str, Any] = {"A": updates[rng.randrange(2)]}
        return batch if rng.random() < 0.3 else {**batch, "t": rows_change(db, rng)}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [
            {"t": [(1000, "g", 1)], "A": la.EntryUpdate(9, 9, 1.0)},
            {"t": [(1000, "g", 1)], "A": la.RowUpdate(0, [np.nan] * 5)},
            {"t": [(None, "g", 1)], "A": la.EntryUpdate(0, 0, 1.0)},
            {"A": la.EntryUpdate(0, 0, 1.0), "gram.X": la.EntryUpdate(0, 0, 1.0)},
        ]

    def check(self, db: ef.Database) -> None:
        super().check(db)
        a = db.matrix("A").to_numpy()
        assert np.allclose(db.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]
        rows = db.view("v").to_pylist()
        x = np.array([[1.0, float(row["s"]), float(row["n"])] for row in rows]).reshape(-1, 3)
        assert np.allclose(db.view("gram").to_numpy(), x.T @ x)  # type: ignore[attr-defined]


class TestMatrices(MatrixSuite):
    """On the local engine."""


class TableSuite(DomainSuite):
    """Tables and SQL views, the first domain."""

    tolerance = 0

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **{"options": self.options(), **kwargs})

    def names(self, db: ef.Database) -> list[str]:
        return list(db.views)

    def make(self, db: ef.Database) -> None:
        db.sql(SHOP)
        db.sql("CREATE MATERIALIZED VIEW over AS SELECT n, COUNT(*) AS groups FROM v GROUP BY n")

    def remake(self, db: ef.Database, name: str) -> None:
        db.sql(f'CREATE MATERIALIZED VIEW "{name}" AS SELECT k FROM t')

    def change(self, db: ef.Database, rng: random.Random) -> Mapping[str, Any]:
        return {"t": rows_change(db, rng)}

    def bad(self, db: ef.Database) -> Sequence[Mapping[str, Any]]:
        return [{"t": [(1000, "g", 1), (1000, "g", 1)]}, {"t": [(1001, "g", 1)], "nothing": [(1,)]}]


class TestTables(TableSuite):
    """On the local engine."""


def test_a_domain_steps_after_what_it_reads() -> None:
    """Objects are stepped in the order of what they read, whatever the order in which they were made."""
    suite = CounterSuite()
    with suite.connect() as db:
        db.sql(SHOP)
        for name, reads in [("a", ("v",)), ("b", ("a", "t")), ("c", ("a", "b"))]:
            suite.define(db, Create(name, reads))
        db.apply(t=[(1, "x", 1), (2, "y", 1)])
        values: Contents = suite.contents(db)
        assert {n: t["n"][0].as_py() for n, t in values.items()} == {"a": 2, "b": 3, "c": 2}
        assert db.statistics()["counter"]["c"] == {"kind": "counter"}
