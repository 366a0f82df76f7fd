"""Shrinking keeps what fails and drops the rest; a failure is written so that it can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from everfresh.local.adhoc import run
from everfresh.sql.logical import plan as p
from everfresh.testing.histories import History, is_valid
from everfresh.testing.random_sql.data import Case, random_case
from everfresh.testing.random_sql.drive import Judge, drive
from everfresh.testing.random_sql.shrinking import shrunk, written
from everfresh.testing.random_sql.spelling import HOSTILE, spelled
from everfresh.testing.random_sql.tree import Expr, nodes


def test_a_tree_shrinks_to_what_fails() -> None:
    def fails(case: Case) -> bool:
        return any(isinstance(n, Expr) and n.production == "exists" for _, t in case.trees for n in nodes(t))

    case = next(c for c in map(random_case, range(100)) if fails(c))
    small = shrunk(case, fails)
    assert fails(small)
    assert len(small.trees) == 1
    assert not small.history.changes
    assert len(small.history.views[0][1]) < 150


def test_rows_and_columns_shrink() -> None:
    case = random_case(3, 2)
    wanted = next(c for c in case.history.changes if c.weight < 0)

    def fails(candidate: Case) -> bool:
        return any(c.weight < 0 and c.table == wanted.table for c in candidate.history.changes)

    small = shrunk(case, fails)
    assert is_valid(small.history)
    assert [c.weight for c in small.history.changes] == [1, -1]


@pytest.fixture
def except_as_union(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run._kept
    monkeypatch.setattr(
        run, "_kept", lambda plan, *args: right(p.SetOperation("union", plan.all, *plan.inputs), *args)
    )


def test_a_failure_is_small_and_kept(
    except_as_union: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = (drive([seed], keep=tmp_path).failures for seed in range(100))
    text = next(failures[0] for failures in found if failures)
    assert "EXCEPT" in text or "INTERSECT" in text
    assert "expected" in text or "verify()" in text
    assert "batch" in text or "when it was created" in text
    (file,) = tmp_path.glob("*.json")
    history = History.from_json(file.read_text())
    assert len(history.views) == 1
    assert sum(map(len, history.batches)) <= 3
    judge = Judge()
    assert judge.problem(history) is not None
    monkeypatch.undo()
    assert judge.problem(history) is None
    judge.close()


def test_a_history_is_written_as_sql() -> None:
    text = written(random_case(5).history)
    assert "CREATE TABLE" in text
    assert 'INSERT INTO "t0" VALUES (' in text
    assert "DELETE FROM" in text
    assert "IS NOT DISTINCT FROM NULL" in text


def test_the_state_is_checked_after_each_batch() -> None:
    calls = []

    def check(db: object) -> None:
        calls.append(db)
        if len(calls) == 3:
            raise AssertionError("a map is wrong")

    judge = Judge(check_state=check)
    problem = judge.problem(random_case(0).history)
    judge.close()
    assert problem is not None
    assert "the state after batch 2: a map is wrong" in problem


def test_a_history_is_spelled_as_its_seed_says() -> None:
    assert len({name.lower() for name in HOSTILE}) == len(HOSTILE)
    cases = [random_case(seed).history for seed in range(40)]
    made = [spelled(history) for history in cases]
    assert made == [spelled(history) for history in cases]
    assert all(is_valid(history) for history in made)
    assert all(len(a.schemas) == len(b.schemas) for a, b in zip(cases, made, strict=True))
    names = {n for h in made for s in h.schemas for n in (s.name, *s.names)} & set(HOSTILE)
    assert len(names) > 20, "hardly any name is hostile"
    words = {word for h in made for _, query in h.views for word in query.split()}
    assert {"SELECT", "select"} < words
