"""Matrices and matrix views in a database on the local engine: in memory, in a folder, killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import everfresh as ef
import everfresh.linalg as la
from everfresh.linalg.domain.steps import CreateMatrix, CreateView, Drop, MatrixUpdates, decode, encode
from everfresh.testing.matrix_suite import MatrixSuite, close, ols


class TestLocalMatrices(MatrixSuite):
    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **kwargs)


CHILD = """
import sys
import numpy as np
import everfresh as ef, everfresh.linalg as la
path, count = sys.argv[1], int(sys.argv[2])
with ef.connect(path, engine="local", options=ef.Options(snapshot_epochs=7)) as db:
    print("ready", flush=True)
    for i in range(int(sys.argv[3]), count):
        r = np.random.default_rng(i)
        row = la.RowUpdate(i % 9, r.standard_normal(3))
        change = la.LowRank(0.1 * r.standard_normal((9, 2)), r.standard_normal((3, 2)))
        db.apply(
            X=[row, change],
            Y=la.EntryUpdate(i % 9, 0, float(i)),
            t=[(i, i)],
            key=str(i),
        )
        print(i, flush=True)
"""


def state_after(count: int) -> tuple[Any, Any]:
    x, y = np.random.default_rng(1000).standard_normal((9, 3)), np.zeros((9, 1))
    for i in range(count):
        r = np.random.default_rng(i)
        x[i % 9] = r.standard_normal(3)
        x += 0.1 * r.standard_normal((9, 2)) @ r.standard_normal((3, 2)).T
        y[i % 9, 0] = float(i)
    return x, y


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    path, rng = tmp_path / "db", Random(3)
    with ef.connect(path, engine="local") as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        db.create_matrix("X", state_after(0)[0])
        db.create_matrix("Y", state_after(0)[1])
        db.create_matrix_view("ols", "beta := inv(X' X) X' Y;")
    done = 0
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), "100000", str(done)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
        first = child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        acknowledged = int((first + child.stdout.read()).split("\n")[-2]) + 1
        child.wait()
        with ef.connect(path, engine="local") as db:
            count = len(db.table("t"))
            assert acknowledged <= count <= acknowledged + 1  # all that was said, and perhaps one more
            x, y = state_after(count)
            assert close(db.matrix("X").to_numpy(), x)
            assert close(db.matrix("Y").to_numpy(), y)
            assert close(db.view("ols").to_numpy(), ols(x, y))  # type: ignore[attr-defined]
            assert db.view("ols").verify().num_rows == 0
            done = count
    assert done >= 5


def test_steps_survive_the_log() -> None:
    r = np.random.default_rng(0)
    updates = [
        la.LowRank(r.random((3, 2)), r.random((4, 2))),
        la.RowUpdate(1, [1, 2, 3, 4]),
        la.ColumnUpdate(2, r.random((3, 1))),
        la.EntryUpdate(np.int64(1), 2, np.float64(0.5)),
        la.AppendRows(r.random((2, 4))),
        la.DeleteRows(np.array([0, 1])),
    ]
    steps = [
        CreateMatrix("A", r.random((3, 4)), True),
        CreateView("v", "B := A;", {"A": "A"}, {"ranks": {"A": 2}}),
        MatrixUpdates({"A": updates}),
        Drop("v"),
    ]
    told = encode(steps)
    again = decode(told.ddl, told.sections)
    assert isinstance(again[0], CreateMatrix)
    assert np.array_equal(again[0].array, steps[0].array)  # type: ignore[union-attr]
    assert again[0].static
    assert isinstance(again[1], CreateView)
    assert again[1].how == {"ranks": {"A": 2}}
    assert isinstance(again[3], MatrixUpdates)
    for before, after in zip(updates, again[3].updates["A"], strict=True):
        assert type(before) is type(after)
        for a, b in zip(vars(before).values(), vars(after).values(), strict=True):
            assert np.array_equal(np.asarray(a), np.asarray(b))
    assert again[2] == Drop("v")


def test_an_update_is_taken_back() -> None:
    """Every way in which an update is made can be undone: pending, shifted, re-evaluated, grown, rebuilt."""
    r = np.random.default_rng(1)
    x, y = r.standard_normal((300, 280)), r.standard_normal((300, 1))
    cases: list[tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ("B := A A;", {"A": x[:280]}, {"A": la.EntryUpdate(0, 0, 3.0)}, {"strategy": "incremental"}),
        ("B := A A;", {"A": x[:280]}, {"A": la.EntryUpdate(0, 0, 3.0)}, {"strategy": "reevaluate"}),
        ("B := A A;", {"A": x[:9, :9]}, {"A": la.EntryUpdate(0, 0, 3.0)}, {"strategy": "incremental"}),
        ("B := A A;", {"A": x[:9, :9]}, {"A": la.LowRank(x[:9, :9], x[:9, :9])}, {}),
        (
            "b := inv(X' X) X' Y;",
            {"X": x[:20, :4], "Y": y[:20]},
            {"X": la.AppendRows(x[:1, :4]), "Y": la.AppendRows(y[:1])},
            {},
        ),
        ("B := A + ones A;", {"A": x[:4, :3], "ones": np.ones((4, 4))}, {"A": la.RowUpdate(1, x[9, :3])}, {}),
        (
            "B := [A, C];",
            {"A": x[:4, :3], "C": x[:4, :2]},
            {"A": la.AppendRows(x[9, :3]), "C": la.AppendRows(x[9, :2])},
            {},
        ),
    ]
    for text, inputs, update, how in cases:
        view = la.MatrixView(text, inputs, **how)
        some = next(iter(inputs))
        view.update({some: la.LowRank(np.ones(inputs[some].shape[0]), np.ones(inputs[some].shape[1]))})
        before = {name: view.read(name) for name in view.state}
        said = view.version, view.reevaluations
        applied, undo, _ = view.attempt(update)
        assert applied.version == said[0] + 1
        undo()
        assert (view.version, view.reevaluations) == said, text
        for name, array in before.items():
            assert close(view.read(name), array), (text, name)
        view.update(update)
        assert all(gap < 1e-9 for gap in view.verify().values()), text


def test_import_stays_light() -> None:
    """Neither `import everfresh` nor a database without matrices loads the linear algebra."""
    code = """
import everfresh as ef, json, sys
ef.connect(engine="local").close()
print(json.dumps([name for name in sys.modules if name.startswith("everfresh.linalg")]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == []


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_types_of_numbers(dtype: str) -> None:
    with ef.connect(engine="local") as db:
        db.create_matrix("A", np.eye(3, dtype=dtype))
        db.create_matrix_view("square", "B := A A;")
        db.apply(A=la.EntryUpdate(0, 1, 0.5))
        found = db.view("square").to_numpy()  # type: ignore[attr-defined]
        assert found.dtype == ("float32" if dtype == "float32" else "float64")
        assert found[0, 1] == 1.0


@pytest.mark.parametrize(
    "values",
    [
        [[1.0], [1.0, 2.0]],
        [["a", "b"]],
        [[1j, 0.0]],
        [[None, 1.0]],
        [[10**400, 1.0]],
        np.ma.masked_array([[1.0, 2.0]], [[True, False]]),
    ],
    ids=["ragged", "text", "complex", "none", "large", "masked"],
)
def test_values_that_are_no_matrix(values: Any) -> None:
    with ef.connect(engine="local") as db:
        db.create_matrix("A", np.eye(2))
        epoch = db.epoch
        for given in (
            lambda: db.create_matrix("B", values),
            lambda: db.apply(A=ef.linalg.RowUpdate(0, values)),
            lambda: db.apply(A=ef.linalg.LowRank(values, [[1.0], [1.0]])),
            lambda: db.apply(A=ef.linalg.AppendRows(values)),
            lambda: db.apply(A=ef.linalg.EntryUpdate(0, 0, values)),
            lambda: db.apply(A=ef.linalg.DeleteRows(["a"])),
            lambda: db.create_matrix(5, np.eye(2)),  # type: ignore[arg-type]
        ):
            with pytest.raises(ef.EverfreshError):
                given()
        assert db.epoch == epoch
