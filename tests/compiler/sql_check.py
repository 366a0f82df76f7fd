"""Views on the local engine, compared with DuckDB after every batch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import everfresh as ef
from everfresh.testing.oracle import DuckOracle, assert_same

Row = tuple[Any, ...]
Batch = Mapping[str, tuple[Sequence[Row], Sequence[Row]]]
"""Per table: rows that come, rows that go."""


def check(
    tables: Iterable[str], queries: Sequence[str], batches: Iterable[Batch], *, incremental: bool = True
) -> None:
    """Each query is a view over `tables`; after every batch its rows are those that DuckDB finds."""
    oracle = DuckOracle()
    with ef.connect(engine="local") as db:
        for text in tables:
            db.sql(text)
        for name in db.tables:
            oracle.create(db._engine.catalog.tables[name])
        for i, query in enumerate(queries):
            db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
            if incremental:
                assert ":=   -- re-evaluated" not in db.view(f"v{i}").explain(), query
        for number, batch in enumerate(batches):
            db.apply({t: ef.Delta(inserts=list(new), deletes=list(gone)) for t, (new, gone) in batch.items()})
            for table, (new, gone) in batch.items():
                oracle.apply(table, new, gone)
            for i, query in enumerate(queries):
                found = db.view(f"v{i}").to_arrow()
                assert_same(oracle.query(query), found, f"batch {number}: {query}")
    oracle.close()


def random_batches(
    rng: random.Random, rows: Mapping[str, Sequence[Sequence[Any]]], count: int = 5
) -> Iterable[Batch]:
    """Rows with values from these domains per column, and deletes of rows that are there; in the end
    everything goes."""
    there: dict[str, list[Row]] = {table: [] for table in rows}
    for _ in range(count):
        batch = {}
        for table, domains in rows.items():
            old = there[table]
            gone = [old.pop(rng.randrange(len(old))) for _ in range(rng.randrange(3)) if old]
            new = [tuple(rng.choice(domain) for domain in domains) for _ in range(rng.randrange(5))]
            old += new
            batch[table] = (new, gone)
        yield batch
    yield {table: ((), old) for table, old in there.items()}
