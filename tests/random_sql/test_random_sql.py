"""Random views over random histories against DuckDB: some hundreds of histories, and what was found before.

Seeds are fixed: block b runs the seeds b * 1,000,000 upwards, and a failure names its seed
(`python -m everfresh.testing.random_sql --seed N`). A failure is shrunk and written to `failures/`, where
`test_what_failed_once` replays it from then on.
"""

from __future__ import annotations

from collections import Counter
from itertools import count, islice
from pathlib import Path

import pytest

from everfresh.testing.histories import History, is_valid
from everfresh.testing.random_sql.data import random_case
from everfresh.testing.random_sql.drive import Drive, Judge, drive
from everfresh.testing.random_sql.weights import WEIGHTS, never_used
from everfresh.testing.state_check import check_state

FAILURES = Path(__file__).parent / "failures"
KEPT = sorted(FAILURES.glob("*.json"))
BLOCKS = 4
STATE = (BLOCKS - 1,)
"""Blocks in which every map and derived relation is compared with its definition as well."""
HISTORIES = 200
"""Of all blocks together: about three minutes on one quiet core."""
ENOUGH = 2_000
"""Views after which a production that was never used is one that the generator has lost."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_views_equal_duckdb(block: int, capsys: pytest.CaptureFixture[str]) -> None:
    state = check_state if block in STATE else None
    seeds = islice(count(block * 1_000_000), HISTORIES // BLOCKS)
    judged(drive(seeds, keep=FAILURES, check_state=state), capsys)


@pytest.mark.soak
def test_many_random_views_equal_duckdb(capsys: pytest.CaptureFixture[str]) -> None:
    result = drive(range(50_000_000, 50_000_450), keep=FAILURES)
    judged(result, capsys)
    assert result.report.views >= 2_000


def judged(result: Drive, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{result.summary()}")
    assert not result.failures, result.failures[0]
    assert result.report.refused <= 0.01 * result.report.views, "DuckDB does not have many of the views"
    assert result.report.rows > result.report.comparisons, "views are nearly always empty"
    if result.report.views >= ENOUGH:
        assert not never_used(result.used)


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_what_failed_once(file: Path) -> None:
    judge = Judge()
    try:
        report = judge.run(History.from_json(file.read_text()))
    finally:
        judge.close()
    assert report.views
    assert not report.refused


# -- the generator -------------------------------------------------------------------------------------------


def test_a_case_is_a_function_of_its_seed() -> None:
    for seed in range(30):
        case = random_case(seed)
        assert case == random_case(seed)
        assert is_valid(case.history)
        assert History.from_json(case.history.to_json()) == case.history


def test_every_production_is_used() -> None:
    used: Counter[str] = Counter()
    cases = [random_case(seed, used=used) for seed in range(600)]
    assert not never_used(used)
    rare = [name for name in WEIGHTS if used[name] < 5]
    assert not rare, f"hardly used: {rare}"
    assert all(2 <= len(c.history.schemas) <= 4 and len(c.trees) == 5 for c in cases)
    types = {str(c.type) for case in cases for s in case.history.schemas for c in s.columns}
    assert types == {"INTEGER", "BIGINT", "DECIMAL(9,2)", "DOUBLE", "VARCHAR", "DATE", "BOOLEAN"}
    columns = [(s, c) for case in cases for s in case.history.schemas for c in s.columns]
    assert any(s.key for s, _ in columns)
    assert any(not c.nullable and c.name not in s.key for s, c in columns)
    changes = [change for case in cases for change in case.history.changes]
    deletes = sum(change.weight < 0 for change in changes)
    assert 0.3 * len(changes) < deletes < 0.5 * len(changes)
    values = [value for change in changes for value in change.row]
    assert 0.08 * len(values) < sum(value is None for value in values) < 0.2 * len(values)


def test_batches_are_small_and_varied() -> None:
    batches = [batch for seed in range(200) for batch in random_case(seed, 1).history.batches[1:]]
    assert any(not batch for batch in batches)
    assert any(len({c.table for c in batch}) >= 3 for batch in batches)
    assert any(len(b) == 2 and b[0].row == b[1].row and b[0].weight > 0 for b in batches), "come and go"
    assert any(len(b) == 2 and b[0].row == b[1].row and b[0].weight < 0 for b in batches), "go and come"
    assert sum(len(b) <= 12 for b in batches) > 0.95 * len(batches)
