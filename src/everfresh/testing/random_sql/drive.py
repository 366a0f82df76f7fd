"""Runs random cases, seed after seed, until a time is over; the first that differs is shrunk and kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from everfresh.database import Database, connect
from everfresh.errors import EverfreshError
from everfresh.testing.histories import History
from everfresh.testing.oracle import DuckOracle
from everfresh.testing.random_sql.data import Case, random_case
from everfresh.testing.random_sql.large import enlarged
from everfresh.testing.random_sql.shrinking import shrunk, written
from everfresh.testing.random_sql.spelling import plain, spelled
from everfresh.testing.replay import Difference, Report, run_history

Problem = Difference | EverfreshError
_STRATEGIES = ("auto", "auto", "higher-order", "first-order", "first-order-projected", "re-evaluate")
CheckState = Callable[[Database], None]


def strategy(seed: int, view: str) -> str:
    """How a view of a case is to be maintained: each way for some views of each seed."""
    return Random(f"{seed} {view}").choice(_STRATEGIES)


def _local() -> Database:
    """A database that frees what nothing uses after every batch: a place that holds the code of a string, and
    does not say so, is found."""
    db = connect(engine="local")
    db._engine._state.upkeep.always = True  # type: ignore[attr-defined]
    return db


class Judge:
    """One DuckDB connection, and a fresh database for each history; views are maintained as `strategy` says,
    or each in a way of its own."""

    def __init__(
        self,
        open_database: Callable[[], Database] | None = None,
        check_state: CheckState | None = None,
        strategy: str | None = None,
    ) -> None:
        self.oracle = DuckOracle()
        self.open = open_database or _local
        self.check_state = check_state
        self.strategy = strategy

    def run(self, history: History) -> Report:
        """Run a history as it was made; raises `Difference`, whatever went wrong."""
        try:
            with self.open() as db:
                return run_history(
                    db,
                    self.oracle,
                    history,
                    None,
                    check_state=self.check_state,
                    strategy=lambda view: self.strategy or strategy(history.seed, view),
                )
        except EverfreshError as error:
            raise Difference(f"an error that DuckDB does not have: {error}") from error
        except AssertionError:
            raise
        except Exception as error:
            raise Difference(f"a bug: {type(error).__name__}: {error}") from error

    def problem(self, history: History) -> str | None:
        """What goes wrong with a history, if something does."""
        try:
            self.run(history)
        except AssertionError as problem:
            return str(problem) or "an assertion failed"
        return None

    def close(self) -> None:
        """Let go of the connection."""
        self.oracle.close()


@dataclass
class Drive:
    """What a drive has seen."""

    histories: int = 0
    seconds: float = 0.0
    report: Report = field(default_factory=Report)
    agreed: Counter[str] = field(default_factory=Counter)
    """Errors that both sides gave."""
    used: Counter[str] = field(default_factory=Counter)
    """Productions."""
    failures: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """One line for people."""
        r = self.report
        errors = f", errors on both sides {dict(self.agreed)}" if self.agreed else ""
        return (
            f"{r.views} views in {self.histories} histories, {r.comparisons} comparisons of {r.rows} rows in "
            f"{self.seconds:.0f} s ({r.views / max(self.seconds, 1e-9):.1f} views/s); "
            f"{sum(r.reevaluated.values())} re-evaluated, {r.refused} that DuckDB does not have{errors}; "
            f"{len(self.failures)} failures"
        )


def drive(
    seeds: Iterable[int],
    *,
    views: int = 5,
    seconds: float = float("inf"),
    stop_at: int = 1,
    keep: Path | None = None,
    check_state: CheckState | None = None,
) -> Drive:
    """Run the cases of `seeds` until the time or `stop_at` failures are reached; failures go to the folder
    `keep` as files that a test replays."""
    judge = Judge(check_state=check_state)
    result = Drive()
    begin = time.monotonic()
    try:
        for seed in seeds:
            case = random_case(seed, views, result.used)
            try:
                report = judge.run(spelled(enlarged(case.history)))
                result.report.add(report)
                result.agreed.update([report.agreed] if report.agreed else [])
            except AssertionError:
                result.failures.append(explained(case, judge, keep))
            result.histories += 1
            if len(result.failures) >= stop_at or time.monotonic() - begin > seconds:
                break
    finally:
        judge.close()
    result.seconds = time.monotonic() - begin
    return result


_CATEGORIES = (
    "columns differ", "by everfresh only", "by DuckDB only", "old rows + changes()", "verify()",
    "the state after", "a bug", "is refused by SELECT", "after the refused batch", "SELECT and", "differs",
)  # fmt: skip


def category(problem: str | None) -> str | None:
    """What kind of problem it is: a smaller case must have the same."""
    return None if problem is None else next((c for c in _CATEGORIES if c in problem), "")


def explained(case: Case, judge: Judge, keep: Path | None = None) -> str:
    """A failing case made small, with what is wrong in it; written to the folder `keep`. Its names are plain
    if it fails with them, too."""
    case = replace(case, history=enlarged(case.history))
    what = category(judge.problem(spelled(case.history)))
    spell = plain if category(judge.problem(case.history)) == what else spelled
    found = shrunk(case, lambda c: category(judge.problem(spell(c.history))) == what)
    small = spell(found.history)
    message = judge.problem(small) or "it does not fail twice"
    text = f"seed {case.history.seed}\n{message}\n\n{written(small)}"
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"seed_{case.history.seed}.json").write_text(small.to_json())
        (keep / f"seed_{case.history.seed}.sql").write_text(written(small))
    return text
