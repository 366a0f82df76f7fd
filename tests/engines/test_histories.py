"""Random histories beyond the suite: by Hypothesis, from kept files, with doubles that round."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everfresh as ef
from everfresh.testing.histories import History, is_valid, random_history, shrink
from everfresh.testing.oracle import DuckOracle
from everfresh.testing.queries import PRODUCTIONS
from everfresh.testing.replay import Difference, run_history

SEEDS = sorted((Path(__file__).parent.parent / "seeds").glob("*.json"))


@pytest.fixture(scope="module")
def oracle() -> Iterator[DuckOracle]:
    oracle = DuckOracle()
    yield oracle
    oracle.close()


@given(seed=st.integers(0, 2**32), batch_size=st.sampled_from([1, 3, 7, 0, None]), by_key=st.booleans())
def test_any_history(oracle: DuckOracle, seed: int, batch_size: int | None, by_key: bool) -> None:
    size = 15 if batch_size == 1 else 40
    with ef.connect(engine="local") as db:
        run_history(db, oracle, random_history(seed, size, 4), batch_size, by_key=by_key)


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: file.stem)
@pytest.mark.parametrize("batch_size", [1, 7, 0, None], ids=["one", "seven", "all", "made"])
def test_kept_histories(oracle: DuckOracle, file: Path, batch_size: int | None) -> None:
    history = History.from_json(file.read_text())
    with ef.connect(engine="local") as db:
        run_history(db, oracle, history, batch_size)


finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)


@given(rows=st.lists(st.tuples(finite, st.booleans()), min_size=1, max_size=30), size=st.integers(1, 30))
def test_float_sums_round_once(rows: list[tuple[float, bool]], size: int) -> None:
    """Whatever came and went, a sum is within a rounding of the exact sum of what is there."""
    with ef.connect(engine="local") as db:
        db.sql(
            "CREATE TABLE t (i BIGINT, x DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s, "
            "COUNT(*) AS n FROM t"
        )
        numbered = [(i, x) for i, (x, _) in enumerate(rows)]
        for start in range(0, len(numbered), size):
            db.apply(t=numbered[start : start + size])
        gone = [row for row, (_, stays) in zip(numbered, rows, strict=True) if not stays]
        for start in range(0, len(gone), size):
            db.apply(t=ef.Delta(deletes=gone[start : start + size]))
        left = [x for x, stays in rows if stays]
        (row,) = db.view("v").to_pylist()
        assert row["n"] == len(left)
        if left:
            largest = max(abs(x) for x, _ in rows)
            assert math.isclose(row["s"], math.fsum(left), rel_tol=1e-15, abs_tol=largest * 2.0**-100)
        else:
            assert row["s"] is None


# -- the generator -------------------------------------------------------------------------------------------


def test_a_history_is_a_function_of_its_seed() -> None:
    for seed in range(20):
        history = random_history(seed)
        assert history == random_history(seed)
        assert is_valid(history)
        assert History.from_json(history.to_json()) == history
        for size in (1, 7, 0, None):
            assert tuple(change for batch in history.cut(size) for change in batch) == history.changes
    assert [len(b) for b in random_history(3, 30).cut(7)][:-1] == [7] * (
        math.ceil(len(random_history(3, 30).changes) / 7) - 1
    )


def test_every_production_and_every_kind_of_batch_is_used() -> None:
    PRODUCTIONS.clear()
    histories = [random_history(seed, 60) for seed in range(150)]
    rare = [name for name in _productions() if PRODUCTIONS[name] < 3]
    assert not rare, f"hardly used: {rare}"
    types = {str(c.type) for h in histories for s in h.schemas for c in s.columns}
    assert types >= {
        "BOOLEAN",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "REAL",
        "DOUBLE",
        "DECIMAL(9,2)",
        "DECIMAL(30,4)",
        "VARCHAR",
        "DATE",
        "TIMESTAMP",
    }
    batches = [batch for h in histories for batch in h.batches]
    assert any(not batch for batch in batches)
    assert any(len({c.table for c in batch}) > 2 for batch in batches)
    assert any(len(batch) == 2 and batch[0].row == batch[1].row for batch in batches), (
        "delete and insert again"
    )
    assert any(not s.key for h in histories for s in h.schemas)
    assert any(len(s.key) == 2 for h in histories for s in h.schemas)
    values = [value for h in histories for change in h.changes for value in change.row]
    assert 0.10 < sum(value is None for value in values) / len(values) < 0.20
    assert sum(c.weight < 0 for h in histories for c in h.changes) > 0.3 * sum(
        len(h.changes) for h in histories
    )


def _productions() -> set[str]:
    import inspect
    import re

    from everfresh.testing import queries

    source = inspect.getsource(queries)
    return {
        *re.findall(r'"([a-z][a-z ]+)": (?:lambda|make\.|self\.)', source),
        *re.findall(r'choices\["([a-z ]+)"\]', source),
        *re.findall(r'chance\([\d.]+, "([a-z ]+)"\)', source),
    }


def test_shrinking_keeps_what_fails() -> None:
    history = random_history(11, 60, 4)
    wanted = next(c for c in history.changes if c.weight < 0)

    def fails(candidate: History) -> bool:
        return any(c == wanted for c in candidate.changes)

    small = shrink(history, fails)
    assert is_valid(small)
    assert len(small.changes) == 2
    assert len(small.views) == 1


def test_a_difference_is_reported_with_both_sides(
    oracle: DuckOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DuckOracle, "query", lambda self, sql: DuckOracle.table(self, "t0"))
    history = random_history(0, 10, 2)
    with ef.connect(engine="local") as db, pytest.raises(Difference, match=r"(?s)expected.*actual"):
        run_history(db, oracle, history)
