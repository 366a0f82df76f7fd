"""What matrices and matrix views in a database must satisfy, on every engine.

Catches: an update that reaches one view and not another, an epoch that is half made, a log or a snapshot
that brings back another state, refusals that change something.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everfresh as ef
from everfresh import linalg as la
from everfresh.database import Database
from everfresh.errors import Code
from everfresh.options import Options
from everfresh.testing.engine.suite_base import refused

OLS = "beta := inv(X' X) X' Y;"
Arrays = dict[str, Any]


def random(seed: int, *shape: int) -> Any:
    """Numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def ols(x: Any, y: Any) -> Any:
    """Least squares by NumPy."""
    return np.linalg.solve(x.T @ x, x.T @ y)


def close(a: Any, b: Any) -> bool:
    """Equal up to rounding."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-8, atol=1e-10))


class MatrixSuite:
    """A subclass says how to connect."""

    options_of_views = la.ViewOptions(distribute=1)

    def connect(self, path: str | Path | None = None, **kwargs: Any) -> Database:
        """A database of the engine under test."""
        raise NotImplementedError

    def options(self, **changes: Any) -> Options:
        """The options of the engine under test."""
        return Options().with_(**changes)

    @pytest.fixture
    def db(self) -> Iterator[Database]:
        """An empty database."""
        with self.connect() as db:
            yield db

    def view(self, db: Database, name: str, program: Any, **how: Any) -> int:
        """A view with the suite's options."""
        return db.create_matrix_view(name, program, options=self.options_of_views, **how)

    def regression(self, db: Database) -> Arrays:
        """Matrices X and Y, and their regression."""
        arrays = {"X": random(0, 12, 3), "Y": random(1, 12, 1)}
        for name, array in arrays.items():
            db.create_matrix(name, array)
        self.view(db, "ols", OLS)
        return arrays

    # -- a life ------------------------------------------------------------------------------------

    def test_every_kind_of_update(self, db: Database) -> None:
        """All updates of one matrix, one epoch each, are seen by both views over it."""
        a = random(0, 6, 6) / 4
        assert db.create_matrix("A", a) == 1
        assert self.view(db, "square", "B := A A;") == 2
        assert self.view(db, "cube", la.program(lambda A: A @ A @ A, name="C")) == 3
        u, v = random(1, 6, 2) / 9, random(2, 6, 2)
        row, column = random(3, 6) / 4, random(4, 6) / 4
        updates: list[Any] = [
            la.LowRank(u, v),
            la.RowUpdate(2, row),
            la.ColumnUpdate(-1, column),
            la.EntryUpdate(0, 5, 0.5),
            [la.RowUpdate(1, row), la.LowRank(u, v), la.EntryUpdate(1, 1, 0.25)],
        ]
        for epoch, update in enumerate(updates, 4):
            assert db.apply(A=update) == epoch
            for one in update if isinstance(update, list) else [update]:
                match one:
                    case la.LowRank(left, right):
                        a = a + left @ right.T
                    case la.RowUpdate(i, values):
                        a[i] = values
                    case la.ColumnUpdate(j, values):
                        a[:, j] = values
                    case la.EntryUpdate(i, j, value):
                        a[i, j] = value
            assert close(db.matrix("A").to_numpy(), a)
            assert close(db.view("square").to_numpy(), a @ a)  # type: ignore[attr-defined]
            assert close(db.view("cube")["C"], a @ a @ a)
        assert db.view("square").verify().num_rows == 0

    def test_rows_come_and_go(self, db: Database) -> None:
        """Rows appended to and deleted from matrices that share a dimension."""
        arrays = self.regression(db)
        x, y = arrays["X"], arrays["Y"]
        for i in range(4):
            more, responses = random(10 + i, 5, 3), random(20 + i, 5, 1)
            db.apply(X=la.AppendRows(more), Y=la.AppendRows(responses))
            db.apply(X=la.DeleteRows([0, 3]), Y=la.DeleteRows([0, 3]))
            x, y = (np.delete(np.vstack(pair), [0, 3], 0) for pair in ((x, more), (y, responses)))
            assert db.matrix("X").shape == x.shape
            assert close(db.matrix("X").to_numpy(), x)
            assert close(db.view("ols").coef_, ols(x, y)[:, 0])  # type: ignore[attr-defined]

    def test_a_batch_is_merged_to_its_rank(self, db: Database) -> None:
        """Row updates of the same row count once, and what cancels not at all."""
        db.create_matrix("A", random(0, 8, 8) / 8)
        self.view(db, "square", "B := A A;", strategy="incremental")
        u, v = random(1, 8, 3), random(2, 8, 3)
        before = db.view("square").to_numpy()  # type: ignore[attr-defined]
        db.apply(A=[la.LowRank(u, v), la.LowRank(-u, v)])
        assert close(db.view("square").to_numpy(), before)  # type: ignore[attr-defined]
        db.apply(A=[la.RowUpdate(3, random(i, 8)) for i in range(20)])
        expected = db.matrix("A").to_numpy()
        assert close(expected[3], random(19, 8))
        assert close(db.view("square").to_numpy(), expected @ expected)  # type: ignore[attr-defined]

    def test_analytics_and_inputs_by_another_name(self, db: Database) -> None:
        """A regression over matrices of other names, one of them static."""
        x, y = random(0, 9, 2), random(1, 9, 2)
        db.create_matrix("features", x)
        db.create_matrix("labels", y, static=True)
        self.view(db, "ridge", la.Ridge(0.5), inputs={"X": "features", "Y": "labels"})
        x = x.copy()
        x[4] = [2.0, -1.0]
        db.apply(features=la.RowUpdate(4, x[4]))
        expected = np.linalg.solve(x.T @ x + 0.5 * np.eye(2), x.T @ y)
        assert close(db.view("ridge").coef_, expected.T)  # type: ignore[attr-defined]
        assert db.matrix("labels").static
        assert "no trigger for Y: static" in db.view("ridge").explain()
        with refused(Code.ARGUMENT, "labels", "static"):
            db.apply(labels=la.EntryUpdate(0, 0, 1.0))

    def test_reading(self, db: Database) -> None:
        """Handles print, explain, and give arrays of the caller's own."""
        arrays = self.regression(db)
        view = db.view("ols")
        assert isinstance(view, ef.LinearView)
        assert list(db.matrices) == ["X", "Y"]
        assert list(db.matrix_views) == ["ols"]
        assert view.outputs == ("beta",)
        assert "inv(" in view.explain()
        assert "flops" in view.explain()
        assert repr(view) == "<matrix view ols: beta 3 x 1>"
        assert repr(db.matrix("X")) == "<matrix X, 12 x 3>"
        view.to_numpy()[:] = 0.0
        db.matrix("X").to_numpy()[:] = 0.0
        assert close(view.to_numpy(), ols(arrays["X"], arrays["Y"]))
        assert view.to_arrow().column_names == ["c0"]
        assert len(view) == 3
        assert view.drift < 1e-12
        assert [column.name for column in view.columns] == ["c0"]

    def test_what_is_dropped(self, db: Database) -> None:
        """A view gives its matrices back; a matrix that is read stays."""
        arrays = self.regression(db)
        db.apply(X=la.EntryUpdate(0, 0, 9.0))
        with refused(Code.DEPENDENCY, "'X' is read by ols"):
            db.matrix("X").drop()
        epoch = db.view("ols").drop()  # type: ignore[attr-defined]
        assert db.epoch == epoch
        arrays["X"][0, 0] = 9.0
        assert close(db.matrix("X").to_numpy(), arrays["X"])
        db.apply(X=[la.AppendRows(np.ones(3)), la.DeleteRows([0]), la.EntryUpdate(0, 1, 2.0)])
        x = np.vstack([arrays["X"][1:], np.ones((1, 3))])
        x[0, 1] = 2.0
        assert close(db.matrix("X").to_numpy(), x)
        db.matrix("Y").drop()
        with refused(Code.NOT_FOUND, "no matrix 'Y'", "matrices are: X"):
            db.matrix("Y")
        with refused(Code.NOT_FOUND, "ols"):
            db.view("ols")

    def test_the_past(self, db: Database) -> None:
        """Earlier epochs, changes and listeners: of low rank, with rows that come and go, re-evaluated."""
        arrays = self.regression(db)
        self.view(db, "gram", "G := X' X;", strategy="incremental")
        self.view(db, "again", "G := X' X;", strategy="reevaluate")
        self.view(db, "scaled", "S := 2 X;", strategy="incremental")
        names = ["ols", "gram", "again", "scaled"]
        seen: list[int] = []
        stop = db.view("gram").on_change(lambda change: seen.append(change.num_rows))
        start = db.epoch
        known = {start: {name: db.view(name).to_numpy() for name in names}}  # type: ignore[attr-defined]
        x = arrays["X"]
        for i in range(6):
            if i % 3 == 2:
                row = random(30 + i, 1, 3)
                epoch = db.apply(
                    X=[la.DeleteRows([i]), la.AppendRows(row)],
                    Y=[la.DeleteRows([i]), la.AppendRows(np.ones((1, 1)))],
                )
                x = np.vstack([np.delete(x, i, 0), row])
            else:
                epoch = db.apply(X=la.RowUpdate(i, row := random(40 + i, 3)))
                x = x.copy()
                x[i] = row
            known[epoch] = {name: db.view(name).to_numpy() for name in names}  # type: ignore[attr-defined]
        assert close(known[epoch]["gram"], x.T @ x)
        for name in names:
            view = db.view(name)
            for epoch, values in known.items():
                rows = view.to_arrow(at=epoch)
                found = np.column_stack([rows.column(n).to_numpy() for n in rows.column_names])
                assert close(found, values[name]), (name, epoch)
            changes = view.changes(since=start)
            assert set(changes.column("_epoch").to_pylist()) <= set(known)
            totals = np.array(changes.column("_weight"))
            assert totals.sum() == len(known[max(known)][name]) - len(known[start][name])
            for epoch in range(start + 1, max(known) + 1):
                after, before = known[epoch][name], known[epoch - 1][name]
                one = changes.filter(np.array(changes.column("_epoch")) == epoch)
                came = one.filter(np.array(one.column("_weight")) > 0)
                for row in came.to_pylist():
                    assert close(after[row["row"]], np.array([row[c] for c in rows_named(after)]))
                same = [i for i in range(min(len(after), len(before))) if (after[i] == before[i]).all()]
                assert not set(same) & set(came.column("row").to_pylist()), (name, epoch)
        assert len(seen) == 6
        stop()
        db.apply(X=la.EntryUpdate(0, 0, 1.0))
        assert len(seen) == 6
        with refused(Code.HISTORY, "not committed yet"):
            db.view("ols").to_arrow(at=db.epoch + 1)
        db.view("scaled").drop()  # type: ignore[attr-defined]
        assert db.view("gram").to_arrow(at=start).num_rows == 3

    # -- over views of SQL -------------------------------------------------------------------------

    def spending(self, db: Database) -> None:
        """Orders, and what customers spend; a regression over that."""
        db.sql(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, price DECIMAL(15,2), n INTEGER)"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(price) AS total, COUNT(*) AS n, "
            "AVG(n) AS mean FROM orders GROUP BY customer"
        )
        db.apply(orders=[(i, f"c{i % 7}", f"{i}.25", i % 5) for i in range(30)])
        how = {"index": "customer"}
        db.create_matrix_view(
            "fit",
            "beta := inv(X' X) X' Y;",
            inputs={
                "X": la.columns("spend", values=[1, "n", "mean"], **how),  # type: ignore[arg-type]
                "Y": la.columns("SPEND", values=["total"], **how),  # type: ignore[arg-type]
            },
        )

    def fitted(self, db: Database) -> Any:
        """The regression from scratch."""
        rows = db.sql("SELECT n, mean, total FROM spend").to_pylist()  # type: ignore[union-attr]
        x = np.array([[1.0, float(r["n"]), float(r["mean"])] for r in rows])
        return ols(x, np.array([[float(r["total"])] for r in rows]))

    def test_a_view_over_a_view_of_sql(self, db: Database) -> None:
        """Rows that come, go and change in a SQL view are low-rank updates in the same epoch."""
        self.spending(db)
        rng = np.random.default_rng(3)
        view = db.view("fit")
        assert close(view.to_numpy(), self.fitted(db))  # type: ignore[attr-defined]
        alive, next_id = list(range(30)), 30
        for turn in range(12):
            gone = [int(i) for i in rng.choice(alive, 4, replace=False)]
            if turn == 5:  # a customer goes altogether, and comes again later
                gone = [i for i in alive if i % 7 == 3]
            more = [(next_id + i, f"c{rng.integers(0, 12)}", f"{turn}.5", int(turn % 4)) for i in range(6)]
            epoch = db.epoch
            db.apply(orders=ef.Delta(inserts=more, deletes=[{"id": i} for i in gone]))
            assert db.epoch == epoch + 1
            alive, next_id = [i for i in alive if i not in gone] + [m[0] for m in more], next_id + 6
            assert close(view.to_numpy(), self.fitted(db)), turn  # type: ignore[attr-defined]
        keys = db.matrix("fit.X").keys
        assert keys is not None
        rows = {r["customer"]: r for r in db.view("spend").to_pylist()}
        for key, values in zip(
            keys.column("customer").to_pylist(), db.matrix("fit.X").to_numpy(), strict=True
        ):
            assert values.tolist() == [1.0, float(rows.pop(key)["n"]), values[2]]
        assert not rows
        db.sql(f"DELETE FROM orders WHERE id = {alive[0]}")
        assert close(view.to_numpy(), self.fitted(db))  # type: ignore[attr-defined]

    def test_what_follows_a_view_of_sql_is_bound_to_it(self, db: Database) -> None:
        """Names, drops, NULL and keys that identify nothing."""
        self.spending(db)
        with refused(Code.DEPENDENCY, "spend", "fit.X"):
            db.sql("DROP MATERIALIZED VIEW spend")
        with refused(Code.ARGUMENT, "fit.X", "follows 'spend'"):
            db.apply({"fit.X": la.EntryUpdate(0, 0, 1.0)})
        wrong: list[tuple[Any, str, tuple[str, ...]]] = [
            (la.columns("spend", index="who", values=["n"]), Code.NOT_FOUND, ("who", "customer")),
            (la.columns("spend", index="customer", values=["nothing"]), Code.NOT_FOUND, ("nothing",)),
            (la.columns("spend", index="total", values=["customer"]), Code.TYPE, ("customer", "number")),
            (la.columns("nowhere", index="k", values=["v"]), Code.NOT_FOUND, ("nowhere",)),
        ]
        epoch = db.epoch
        for columns, code, said in wrong:
            with refused(code, *said):
                db.create_matrix_view("bad", "B := A' A;", inputs={"A": columns})
        assert db.epoch == epoch
        assert sorted(db.matrices) == ["fit.X", "fit.Y"]
        db.create_matrix_view(
            "strict", "B := A' A;", inputs={"A": la.columns("spend", index="customer", values=["mean"])}
        )
        before = db.view("fit").to_numpy()  # type: ignore[attr-defined]
        with refused(Code.VALUE, "mean", "NULL"):  # AVG of nothing but NULL
            db.apply(orders=[(1000, "new", "1.00", None)])
        assert close(db.view("fit").to_numpy(), before)  # type: ignore[attr-defined]
        assert "new" not in [row["customer"] for row in db.view("spend").to_pylist()]
        db.view("strict").drop()  # type: ignore[attr-defined]
        assert sorted(db.matrices) == ["fit.X", "fit.Y"]
        db.sql("DROP MATERIALIZED VIEW spend CASCADE")
        assert not db.matrices
        assert not db.matrix_views

    # -- epochs ------------------------------------------------------------------------------------

    def test_tables_and_matrices_in_one_epoch(self, db: Database) -> None:
        """All or none of a batch over both."""
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s FROM t")
        arrays = self.regression(db)
        epoch = db.epoch
        assert db.apply(t=[(1, 10)], X=la.EntryUpdate(0, 0, 3.0), Y=la.EntryUpdate(1, 0, 4.0)) == epoch + 1
        arrays["X"][0, 0], arrays["Y"][1, 0] = 3.0, 4.0
        expected = ols(arrays["X"], arrays["Y"])
        bad: list[Any] = [
            {"t": [(1, 11)], "X": la.EntryUpdate(0, 0, 5.0)},  # the key is taken
            {"t": [(2, 11)], "X": la.EntryUpdate(0, 7, 5.0)},  # there is no such column
            {"t": [(2, 11)], "X": la.EntryUpdate(0, 0, 5.0), "Y": la.RowUpdate(0, [np.nan])},
            {"t": [(2, 11)], "X": la.LowRank(np.ones((12, 1)), np.ones((2, 1)))},
            {"t": [(2, 11)], "X": la.AppendRows(np.ones((1, 3)))},  # and none to Y
        ]
        for batch in bad:
            with pytest.raises(ef.EverfreshError):
                db.apply(batch)
            assert db.epoch == epoch + 1
            assert close(db.view("ols").to_numpy(), expected)  # type: ignore[attr-defined]
            assert close(db.matrix("X").to_numpy(), arrays["X"])
            assert db.view("s").to_pylist() == [{"s": 10}]

    def test_a_view_that_refuses_holds_back_all(self, db: Database) -> None:
        """A singular update of one view leaves the other as it was, and the next update is right."""
        db.create_matrix("A", np.eye(4))
        self.view(db, "square", "B := A A;")
        self.view(db, "inverse", "W := inv(A);")
        with refused(Code.VALUE, "inverse", "singular"):
            db.apply(A=la.RowUpdate(1, np.zeros(4)))
        assert close(db.view("square").to_numpy(), np.eye(4))  # type: ignore[attr-defined]
        db.apply(A=la.EntryUpdate(1, 1, 2.0))
        expected = np.diag([1.0, 2.0, 1.0, 1.0])
        assert close(db.view("square").to_numpy(), expected @ expected)  # type: ignore[attr-defined]
        assert close(db.view("inverse").to_numpy(), np.linalg.inv(expected))  # type: ignore[attr-defined]

    def test_a_key_is_applied_once(self, db: Database) -> None:
        """A batch that is sent again changes nothing."""
        db.create_matrix("A", np.zeros((2, 2)))
        first = db.apply(A=la.LowRank(np.ones(2), np.ones(2)), key="one")
        assert db.apply(A=la.LowRank(np.ones(2), np.ones(2)), key="one") == first
        assert close(db.matrix("A").to_numpy(), np.ones((2, 2)))

    def test_mistakes(self, db: Database) -> None:
        """Every mistake is refused with what, where and how."""
        db.sql("CREATE TABLE t (k BIGINT)")
        db.create_matrix("A", np.ones((2, 3)))
        epoch = db.epoch
        with refused(Code.EXISTS, "already a matrix 'A'"):
            db.create_matrix("A", np.ones((2, 2)))
        with refused(Code.EXISTS, "already a table 't'"):
            db.create_matrix("t", np.ones((2, 2)))
        with refused(Code.EXISTS, "matrix", "'A'"):
            db.sql("CREATE TABLE A (k BIGINT)")
        with refused(Code.ARGUMENT, "1 dimensions", "reshape"):
            db.create_matrix("b", np.ones(3))
        with refused(Code.VALUE, "NaN"):
            db.create_matrix("b", np.array([[np.inf]]))
        with refused(Code.ARGUMENT, "name"):
            db.create_matrix("no name", np.ones((1, 1)))
        with refused(Code.TYPE, "multiply A", "2 x 3"):
            self.view(db, "v", "B := A A;")
        with refused(Code.NOT_FOUND, "'Z'"):
            self.view(db, "v", "B := A Z;")
        with refused(Code.NOT_FOUND, "'Q'", "input 'A'"):
            self.view(db, "v", "B := A' A;", inputs={"A": "Q"})
        with refused(Code.ARGUMENT, "strategy"):
            self.view(db, "v", "B := A' A;", strategy="best")
        with refused(Code.NOT_FOUND, "'Z'", "matrices are: A"):
            db.apply(Z=la.EntryUpdate(0, 0, 1.0))
        with refused(Code.ARGUMENT, "ndarray", "'A'", "LowRank"):
            db.apply(A=np.ones((2, 3)))
        with refused(Code.ARGUMENT, "no row 9", "'A'"):
            db.apply(A=la.RowUpdate(9, np.ones(3)))
        assert db.epoch == epoch
        assert close(db.matrix("A").to_numpy(), np.ones((2, 3)))

    # -- durability --------------------------------------------------------------------------------

    def test_it_is_there_again(self, tmp_path: Path) -> None:
        """Reopened after every few updates, with and without snapshots, nothing is lost."""
        path, x, y = tmp_path / "db", random(0, 12, 3), random(1, 12, 1)
        with self.connect(path, options=self.options(snapshot_epochs=5)) as db:
            db.create_matrix("lonely", random(2, 3, 2))
            arrays = self.regression(db)
            x, y = arrays["X"], arrays["Y"]
        for turn in range(4):
            with self.connect(path, options=self.options(snapshot_epochs=5)) as db:
                assert close(db.view("ols").to_numpy(), ols(x, y))  # type: ignore[attr-defined]
                assert close(db.matrix("X").to_numpy(), x)
                epoch = db.epoch
                more = random(turn, 2, 3)
                db.apply(X=la.AppendRows(more), Y=la.AppendRows(np.ones((2, 1))), key=f"turn {turn}")
                x, y = np.vstack([x, more]), np.vstack([y, np.ones((2, 1))])
                db.apply(X=la.EntryUpdate(turn, 0, 7.0), lonely=la.EntryUpdate(0, 0, float(turn)))
                x[turn, 0] = 7.0
                assert db.apply(X=la.AppendRows(more), key=f"turn {turn}") == epoch + 1
                assert db.matrix("lonely").to_numpy()[0, 0] == turn
                assert close(db.view("ols").to_numpy(), ols(x, y))  # type: ignore[attr-defined]
                assert db.view("ols").verify().num_rows == 0

    def test_what_follows_is_there_again(self, tmp_path: Path) -> None:
        """Keys, matrices and their past survive reopening from the log and from snapshots."""
        path = tmp_path / "db"
        with self.connect(path, options=self.options(snapshot_epochs=4)) as db:
            self.spending(db)
        for turn in range(5):
            with self.connect(path, options=self.options(snapshot_epochs=4)) as db:
                view = db.view("fit")
                before = view.to_numpy()  # type: ignore[attr-defined]
                assert close(before, self.fitted(db))
                epoch = db.epoch
                db.apply(
                    orders=ef.Delta(
                        inserts=[(100 + turn, f"new {turn}", "7.25", 3)],
                        deletes=[{"id": i} for i in (turn, turn + 7)],
                    )
                )
                assert close(view.to_numpy(), self.fitted(db))  # type: ignore[attr-defined]
                assert close(view.to_arrow(at=epoch).column("c0").to_numpy(), before[:, 0])
                first = view.to_arrow(at=epoch - turn).column("c0").to_numpy()
                assert turn == 0 or not close(first, before[:, 0])

    def test_readers_follow(self, tmp_path: Path) -> None:
        """A reader sees what the writer commits, and writes nothing."""
        with self.connect(tmp_path / "db") as db:
            arrays = self.regression(db)
            with self.connect(tmp_path / "db", read_only=True) as reader:
                assert close(reader.view("ols").to_numpy(), ols(**_lower(arrays)))  # type: ignore[attr-defined]
                db.apply(X=la.EntryUpdate(0, 0, 7.0))
                arrays["X"][0, 0] = 7.0
                assert close(reader.matrix("X").to_numpy(), arrays["X"])
                assert close(reader.view("ols").to_numpy(), ols(**_lower(arrays)))  # type: ignore[attr-defined]
                self.view(db, "gram", "G := X' X;")
                assert close(reader.view("gram").to_numpy(), arrays["X"].T @ arrays["X"])  # type: ignore[attr-defined]
                with refused(Code.READ_ONLY):
                    reader.apply(X=la.EntryUpdate(0, 0, 1.0))

    def test_a_commit_that_fails_is_taken_back(self, tmp_path: Path) -> None:
        """A fault while an epoch is committed leaves the views as they were, in memory and on disk."""
        with self.connect(tmp_path / "db") as db:
            arrays = self.regression(db)
        expected = ols(**_lower(arrays))
        with self.connect(tmp_path / "db", options=self.options(fault="mid-commit:raise:*:1")) as db:
            with pytest.raises(Exception, match="mid-commit"):
                db.apply(X=la.EntryUpdate(0, 0, 7.0))
            assert close(db.view("ols").to_numpy(), expected)  # type: ignore[attr-defined]
        with self.connect(tmp_path / "db") as db:
            assert close(db.view("ols").to_numpy(), expected)  # type: ignore[attr-defined]
            db.apply(X=la.EntryUpdate(0, 0, 7.0))
            arrays["X"][0, 0] = 7.0
            assert close(db.view("ols").to_numpy(), ols(**_lower(arrays)))  # type: ignore[attr-defined]


def rows_named(matrix: np.ndarray[Any, Any]) -> list[str]:
    """The names of a matrix's columns as rows."""
    return [f"c{j}" for j in range(matrix.shape[1])]


def _lower(arrays: Arrays) -> Arrays:
    return {name.lower(): array for name, array in arrays.items()}
