"""What the stages of a batch send: rows of a change are filtered, cut to the columns that are read where they
arrive and added up by key before they travel, whether to other workers, to the driver or to the next stage.

Catches: rows that are sent one by one, a condition that is asked too late, a change that is sent twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fake_spark import FakeSession, install
from test_spark_stages import SIZES, catalog_of

import everfresh as ef
from everfresh.distributed import ALL, RANDOM, Passes, distributed
from everfresh.distributed.plan.early import done_early
from everfresh.spark.jobs import map_tasks as blocks
from everfresh.spark.jobs import row_tasks as tables
from everfresh.spark.jobs.job import CONTROL, DATA, GATHERED
from everfresh.spark.jobs.programs import incremental, placement_of
from everfresh.spark.jobs.row_tasks import split
from everfresh.state import unpack_table
from everfresh.testing.oracle import assert_same
from everfresh.types import arrow_schema
from everfresh.workloads import WORKLOADS

WORKERS = 3
DDL = """
CREATE TABLE lines (number BIGINT, line BIGINT, customer BIGINT, price DECIMAL(15,2) NOT NULL,
  PRIMARY KEY (number, line));
CREATE STATIC TABLE customer (id BIGINT PRIMARY KEY, region VARCHAR);
"""
Row = tuple[Any, ...]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], list[int]]:
    """The sizes of the messages of the last batch, by the task of the first stage and the kind."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    real = tables.handed_on

    def handed_on(world: Any, site: Any, program: Any, stage: int, held: Any) -> Any:
        for to, kind, payload in real(world, site, program, stage, held):
            if stage == 0 and kind != CONTROL:
                size = int.from_bytes(payload[:2], "big")
                found[site.number, kind].append(unpack_table(payload[2 + size :]).num_rows)
            yield to, kind, payload

    for module in (tables, blocks):
        monkeypatch.setattr(module, "handed_on", handed_on)
    return found


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def rows(count: int) -> list[Row]:
    return [(k // 7, k, k * k % 11 if k % 5 else None, Decimal(k % 4)) for k in range(count)]


def distinct(db: ef.Database, given: list[Row], key: Callable[[Row], Any], asked: Any = None) -> list[int]:
    """How many keys the rows of each task have."""
    schema = db.catalog.tables["lines"]
    made = [dict(zip(schema.names, row, strict=True)) for row in given if asked is None or asked(row)]
    parts = {
        w: t for w, t, _ in split(pa.Table.from_pylist(made, arrow_schema(schema.columns)), schema, WORKERS)
    }
    return [
        len({key(tuple(r.values())) for r in parts[w].to_pylist()}) if w in parts else 0
        for w in range(WORKERS)
    ]


@pytest.mark.parametrize(
    ("query", "kind", "key", "asked"),
    [
        (
            "SELECT number, SUM(price) AS s, COUNT(*) AS n FROM lines GROUP BY number",
            DATA,
            lambda r: r[0],
            None,
        ),
        ("SELECT customer, SUM(price) AS s FROM lines GROUP BY customer", GATHERED, lambda r: r[2], None),
        (
            "SELECT number, COUNT(*) AS n FROM lines WHERE price > 2 GROUP BY number",
            DATA,
            lambda r: r[0],
            lambda r: r[3] > 2,
        ),
        (
            "SELECT c.region, SUM(l.price) AS s FROM lines l JOIN customer c ON l.customer = c.id"
            " WHERE l.price < 3 GROUP BY c.region",
            DATA,
            lambda r: r[2],
            lambda r: r[2] is not None and r[3] < 3,
        ),
        (
            "SELECT c.region, AVG(l.price * 2) AS s FROM lines l JOIN customer c ON l.customer = c.id"
            " GROUP BY c.region",
            DATA,
            lambda r: (r[2], r[3]),
            lambda r: r[2] is not None,
        ),
    ],
)
def test_rows_are_added_up_before_they_are_sent(
    session: FakeSession,
    sent: dict[tuple[int, int], list[int]],
    query: str,
    kind: int,
    key: Callable[[Row], Any],
    asked: Callable[[Row], bool] | None,
) -> None:
    options = ef.Options(workers=WORKERS, durable=False, whole_bytes=0, refresh="incremental")
    with (
        ef.connect(engine="local") as expected,
        ef.connect(engine="spark", spark=session, options=options) as db,  # type: ignore[arg-type]
    ):
        for one in (expected, db):
            one.sql(DDL)
            one.apply(customer=[(k, f"r{k % 3}") for k in range(10)])
            one.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for given in (rows(100), [(n + 50, *rest) for n, *rest in rows(40)]):
            sent.clear()
            expected.apply(lines=given)
            db.apply(lines=given)
            assert not db.catalog.views["v"].compiled.reevaluated
            assert db.statistics()["last batch"]["form"] == "staged"
            assert [sum(sent[w, kind]) for w in range(WORKERS)] == distinct(db, given, key, asked)
            assert_same(expected.view("v").to_arrow(), db.view("v").to_arrow())
        gone = ef.Delta(deletes=rows(100)[::3], inserts=[(500, 1, 4, Decimal(9))])
        for one in (expected, db):
            one.apply(lines=gone)
        assert_same(expected.view("v").to_arrow(), db.view("v").to_arrow())


@pytest.mark.parametrize(
    ("name", "table", "times"), [("q05", "lineitem", 1), ("q17", "lineitem", 1), ("q18", "orders", 1)]
)
def test_a_change_is_sent_once(name: str, table: str, times: int) -> None:
    """What a statement makes of the change alone is made where the change arrives for another."""
    query = WORKLOADS["thesis"].query(name)
    catalog = catalog_of([*WORKLOADS["thesis"].tables.values(), query.ddl], SIZES)
    alone, placement = incremental(catalog), placement_of(catalog)
    sends = {}
    for passes in (ALL, Passes(common=False)):
        program = distributed(alone, placement, (table,), RANDOM, passes, rows=False)
        sends[passes] = program.exchanges
        assert done_early(program).exchanges == program.exchanges
    assert sends[ALL] == times
    assert sends[Passes(common=False)] > times
