"""Random histories: one change at a time, by sevens, all at once and as they were made, against DuckDB.

A history that fails is shrunk and printed; `History.to_json` of the result, in a file under `tests/seeds/`,
keeps it.
"""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everfresh.database import Database
from everfresh.errors import EverfreshError
from everfresh.testing.engine.suite_base import SuiteBase
from everfresh.testing.histories import History, random_history, shrink
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.testing.replay import Difference, as_delta, run_history


class HistorySuite(SuiteBase):
    """Whatever happens, a view is its query."""

    shrink_tries = 150
    """How much effort goes into a smaller history when one fails."""

    @pytest.fixture(scope="class")
    @classmethod
    def playground(cls) -> Iterator[tuple[Database, DuckOracle]]:
        """One database and one oracle; every history drops its tables."""
        oracle = DuckOracle()
        with cls().connect() as db:
            yield db, oracle
        oracle.close()

    def test_one_change_at_a_time(self, playground: tuple[Database, DuckOracle]) -> None:
        for seed in range(self.single_changes):
            self.judge(playground, random_history(seed, self.history_size // 2, self.history_views), 1)

    def test_by_sevens(self, playground: tuple[Database, DuckOracle]) -> None:
        for seed in range(100, 100 + self.histories):
            self.judge(playground, random_history(seed, self.history_size, self.history_views), 7)

    def test_all_at_once(self, playground: tuple[Database, DuckOracle]) -> None:
        for seed in range(200, 200 + self.histories):
            self.judge(playground, random_history(seed, self.history_size, self.history_views), 0)

    def test_as_they_were_made(self, playground: tuple[Database, DuckOracle]) -> None:
        for seed in range(300, 300 + self.histories):
            self.judge(
                playground,
                random_history(seed, self.history_size, self.history_views),
                None,
                by_key=seed % 2 == 0,
            )

    def test_the_result_does_not_depend_on_the_batches(self, playground: tuple[Database, DuckOracle]) -> None:
        db, _ = playground
        history = random_history(7, self.history_size // 2, self.history_views)
        results = []
        for size in (1, 7, 0):
            for schema in history.schemas:
                db.sql(schema.ddl)
            for name, query in history.views:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            for batch in history.cut(size):
                db.apply(
                    {
                        schema.name: as_delta(schema, [c for c in batch if c.table == schema.name])
                        for schema in history.schemas
                    }
                )
            results.append({name: db.view(name).to_arrow() for name, _ in history.views})
            for schema in history.schemas:
                db.sql(f"DROP TABLE {schema.name} CASCADE")
        for name, query in history.views:
            for other in results[1:]:
                assert_same(results[0][name], other[name], f"{name}, {query},", tolerance=0)

    def judge(
        self,
        playground: tuple[Database, DuckOracle],
        history: History,
        batch_size: int | None,
        *,
        by_key: bool = False,
    ) -> None:
        """Run a history; if it fails, fail with a small one."""
        db, oracle = playground
        try:
            run_history(db, oracle, history, batch_size, by_key=by_key)
        except (Difference, EverfreshError) as problem:
            small, message = self.smaller(history, batch_size, by_key)
            pytest.fail(f"batches of {batch_size}: {message or problem}\n{small.text()}\n{small.to_json()}")

    def smaller(self, history: History, batch_size: int | None, by_key: bool) -> tuple[History, str]:
        """A small history that still fails on a fresh database, and how."""
        messages: list[str] = []

        def fails(candidate: History) -> bool:
            oracle = DuckOracle()
            try:
                with self.connect() as db:
                    run_history(db, oracle, candidate, batch_size, by_key=by_key)
            except (Difference, EverfreshError) as problem:
                messages.append(str(problem))
                return True
            finally:
                oracle.close()
            return False

        small = shrink(history, fails, self.shrink_tries)
        return small, messages[-1] if messages else ""
