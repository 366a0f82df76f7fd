"""Every construct of the language that runs as a distributed program on Spark, in both forms, on a session
that runs its tasks here: the views equal DuckDB's after each batch, and their changes lead there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.delta.bags import EPOCH, net, weigh
from everfresh.spark.jobs.programs import executed, no_catalog
from everfresh.spark.state.ledger import Ledger
from everfresh.sql import parse_and_bind
from everfresh.state import InjectedFault
from everfresh.testing.engine.suite_language import TABLES, VIEWS, _history
from everfresh.testing.oracle import DuckOracle, assert_same

_BATCHES = 5


def _failing(*args: Any, **kwargs: Any) -> int:
    raise InjectedFault("before the commit")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def programs() -> list[str]:
    """The views that run as programs; the others are for Spark SQL."""
    catalog = no_catalog()
    for text in (TABLES, *(f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in VIEWS.items())):
        for statement in parse_and_bind(text, catalog):
            catalog, _ = executed(catalog, statement)
    return [name for name, view in catalog.views.items() if not view.compiled.reevaluated]


def test_most_of_the_language_runs_as_programs() -> None:
    assert len(programs()) > 0.75 * len(VIEWS), sorted(set(VIEWS) - set(programs()))


@pytest.mark.parametrize(("workers", "whole_bytes"), [(1, 1 << 20), (2, 0), (3, 1 << 20), (8, 0)])
def test_every_view_follows_its_tables(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, workers: int, whole_bytes: int
) -> None:
    options = ef.Options(workers=workers, whole_bytes=whole_bytes, durable=False)
    oracle = DuckOracle()
    with ef.connect(engine="spark", spark=session, options=options) as db:  # type: ignore[arg-type]
        db.sql(TABLES)
        for schema in db.catalog.tables.values():
            oracle.create(schema)
        chosen = programs()
        for name in chosen[::2]:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        seen: dict[str, pa.Table] = {}
        for number, batch in enumerate(_history(_BATCHES)):
            given = {t: ef.Delta(inserts=come, deletes=go) for t, (come, go) in batch.items()}
            if number % 2:  # what was done and not committed is taken back
                with monkeypatch.context() as patched:
                    patched.setattr(Ledger, "commit", _failing)
                    with pytest.raises(InjectedFault):
                        db.apply(given)
            epoch = db.apply(given)
            for table, (come, go) in batch.items():
                oracle.apply(table, come, go)
            if number == 2:
                for name in chosen[1::2]:
                    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
                seen = {}
            if number == 3:
                session.forget()  # from files
            for name in db.views:
                rows = db.view(name).to_arrow()
                assert_same(oracle.query(VIEWS[name]).cast(rows.schema), rows, f"{name} after batch {number}")
                if name in seen:
                    change = db.view(name).changes(epoch - 1).drop_columns([EPOCH])
                    before = net(pa.concat_tables([weigh(seen[name]), change.cast(weigh(rows).schema)]))
                    assert_same(net(weigh(rows)), before, f"{name}: old rows and their change, {number}")
                seen[name] = rows
    oracle.close()
