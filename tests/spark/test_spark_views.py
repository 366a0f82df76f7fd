"""Views over views and over static tables as programs, on a session that runs its tasks here: after every
batch they equal the local engine's, whatever the number of workers, the form and the size of the batches.

Catches: a view that lags behind the one it reads; names of a view's plan that meet those of another; a map
that was kept for changes of a static table alone and is read after all; one over static tables that is not
filled, or lost on reopening; rows that a view has over empty tables and that nothing ever brings.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_spark import FakeSession, install
from test_spark_stages import catalog_of, nested

import everfresh as ef
from everfresh.compiler import explain
from everfresh.delta.bags import EPOCH, expand, net, weigh
from everfresh.distributed import REPLICATED
from everfresh.errors import EverfreshError
from everfresh.spark.jobs.programs import (
    batch_program,
    executed,
    incremental,
    no_catalog,
    placement_of,
    replayed,
)
from everfresh.spark.state.ledger import Ledger
from everfresh.sql import parse_and_bind
from everfresh.testing.oracle import assert_same
from everfresh.testing.random_sql import random_case, spelled
from everfresh.testing.replay import as_delta, net_of
from everfresh.types import quoted

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, price DECIMAL(15,2) NOT NULL);
CREATE TABLE notes (customer BIGINT, note VARCHAR);
CREATE STATIC TABLE customer (id BIGINT PRIMARY KEY, nation BIGINT, name VARCHAR);
CREATE STATIC TABLE nation (id BIGINT PRIMARY KEY, name VARCHAR);
"""
VIEWS = {
    "spend": "SELECT customer, SUM(price) AS s, COUNT(*) AS n FROM orders GROUP BY customer",
    "big": "SELECT n AS s, s AS n, customer FROM spend WHERE s > 20",  # names that change places
    "total": "SELECT COUNT(*) AS c, SUM(n) AS s, MAX(s) AS m FROM big",
    "counted": "SELECT c, s IS NULL AS empty, (SELECT MAX(price) FROM orders) AS most FROM total",
    "first": "SELECT customer, s FROM spend ORDER BY s DESC, n LIMIT 3",
    "pairs": "SELECT a.customer, b.customer AS other FROM first a JOIN first b ON a.s = b.s",
    "beside": "SELECT n.note, s.s FROM notes n LEFT JOIN spend s ON n.customer = s.customer",
    "either": "SELECT customer FROM notes UNION ALL SELECT customer FROM big",
    "nations": "SELECT n.name, SUM(o.price) AS s FROM orders o JOIN customer c ON o.customer = c.id"
    " JOIN nation n ON c.nation = n.id GROUP BY n.name",
    "everybody": "SELECT c.id, c.name, o.price FROM customer c LEFT JOIN orders o ON o.customer = c.id",
    "people": "SELECT n.name, COUNT(*) AS n FROM customer c JOIN nation n ON c.nation = n.id GROUP BY n.name",
    "shares": "SELECT name, s, n FROM nations JOIN people USING (name)",
    "idle": "SELECT id FROM customer WHERE id NOT IN (SELECT customer FROM big WHERE customer IS NOT NULL)",
    "above": "SELECT e.id, e.price FROM everybody e WHERE e.price > (SELECT AVG(s) FROM nations) / 10",
}
STATIC = {
    "nation": [(1, "A"), (2, "B"), (3, None)],
    "customer": [(k, k % 5 if k % 4 else None, f"c{k % 7}") for k in range(12)],
}


def changes(seed: int) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Rows that come (1) and go (-1), each when it can."""
    rng = random.Random(seed)
    there: dict[str, list[tuple[Any, ...]]] = {"orders": [], "notes": []}
    found = []
    for number in range(60):
        table = rng.choice(("orders", "orders", "notes"))
        if there[table] and rng.random() < 0.3:
            row = there[table].pop(rng.randrange(len(there[table])))
            found.append((table, -1, row))
            continue
        customer = rng.choice([None, *range(8)])
        row = (
            (number, customer, Decimal(rng.randrange(1, 30)))
            if table == "orders"
            else (customer, rng.choice([None, "x", "y"]))
        )
        there[table].append(row)
        found.append((table, 1, row))
    return found


def batches(seed: int, size: int) -> Iterator[dict[str, Any]]:
    """The changes in batches; within one a row may come and go."""
    every = changes(seed)
    for start in range(0, len(every), size):
        net: dict[tuple[str, Any], int] = {}
        for table, sign, row in every[start : start + size]:
            net[table, row] = net.get((table, row), 0) + sign
        found: dict[str, Any] = {}
        for table in ("orders", "notes"):
            come = [row for (t, row), n in net.items() if t == table for _ in range(n)]
            go = [row for (t, row), n in net.items() if t == table for _ in range(-n)]
            if come or go:
                found[table] = ef.Delta(inserts=come or None, deletes=go or None)
        if found:
            yield found


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


def connect(session: FakeSession, path: Path | None = None, **changes: Any) -> ef.Database:
    options = ef.Options(workers=2, durable=False).with_(**changes)
    return ef.connect(path, engine="spark", spark=session, options=options)  # type: ignore[arg-type]


def create(db: ef.Database, *views: str) -> None:
    for name in views or VIEWS:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def start(db: ef.Database) -> None:
    db.sql(TABLES)
    db.apply({name: list(rows) for name, rows in STATIC.items()})


def compare(expected: ef.Database, db: ef.Database, *views: str) -> None:
    for name in views or VIEWS:
        assert not db.catalog.views[name].compiled.reevaluated, name
        assert_same(expected.view(name).to_arrow(), db.view(name).to_arrow(), name)


@pytest.mark.parametrize(
    ("workers", "whole_bytes", "size"),
    [(1, 0, 7), (2, 1 << 20, 1), (3, 0, 1), (3, 1 << 20, 7), (2, 0, 10**9)],
)
def test_after_every_batch(session: FakeSession, workers: int, whole_bytes: int, size: int) -> None:
    with (
        ef.connect(engine="local") as expected,
        connect(session, workers=workers, whole_bytes=whole_bytes) as db,
    ):
        for one in (expected, db):
            start(one)
            create(one)
        seen = {name: db.view(name).to_arrow() for name in VIEWS}
        epoch = db.epoch
        compare(expected, db)
        for number, batch in enumerate(batches(workers, size)):
            expected.apply(batch)
            db.apply(batch)
            if size > 1 or number % 5 == 0:
                compare(expected, db)
        compare(expected, db)
        for name, rows in seen.items():  # the published changes lead there, too
            change = db.view(name).changes(since=epoch).drop_columns([EPOCH])
            moved = net(pa.concat_tables([weigh(rows).cast(change.schema), change]))
            assert_same(expand(moved), db.view(name).to_arrow(), name)


@pytest.mark.parametrize("refresh", ["incremental", "recompute"])
def test_views_are_filled_and_opened_again(session: FakeSession, tmp_path: Path, refresh: str) -> None:
    """Over tables that have rows; from files alone; emptied and filled anew."""
    with ef.connect(engine="local") as expected:
        start(expected)
        every = list(batches(5, 20))
        expected.apply(every[0])
        create(expected)
        with connect(session, tmp_path, workers=3) as db:
            start(db)
            db.apply(every[0])
            create(db)
            compare(expected, db)
        session.forget()
        with connect(session, tmp_path, refresh=refresh, snapshot_epochs=2) as db:
            compare(expected, db)
            for batch in every[1:]:
                expected.apply(batch)
                db.apply(batch)
                compare(expected, db)
        session.forget()
        with connect(session, tmp_path) as db:
            compare(expected, db)


def test_views_of_many_stages_are_opened_again(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their units are there on each level: filled, read, snapshot, rebuilt from files; a batch is refused on
    the way."""
    monkeypatch.setattr(Ledger, "table_sizes", lambda _: {"t": 50_000_000})
    ddl = nested(4, 6)
    batches_: list[Any] = [
        [(k, k % 7, k % 5, k % 3) for k in range(40)],
        ef.Delta(deletes=[(k, k % 7, k % 5, k % 3) for k in range(0, 40, 3)], inserts=[(50, None, 1, 2)]),
        [(k, 1, None, k % 4) for k in range(60, 70)],
        ef.Delta(deletes=[{"id": k} for k in range(1, 40, 3)]),
    ]
    with ef.connect(engine="local") as expected:
        for text in (ddl[0], ddl[1]):
            expected.sql(text)
        expected.apply(t=batches_[0])
        expected.sql(ddl[2])
        with connect(session, tmp_path, workers=3) as db:
            db.sql(ddl[0])
            db.sql(ddl[1])
            db.apply(t=batches_[0])
            db.sql(ddl[2])
            compare(expected, db, "v4", "v6")
            seen, epoch = db.view("v6").to_arrow(), db.epoch
            with pytest.raises(EverfreshError):
                db.apply(t=[(71, 1, 1, 1), (50, 1, 1, 1), (50, 2, 2, 2)])
        for number, batch in enumerate(batches_[1:]):
            session.forget()  # every other time from a snapshot
            with connect(session, tmp_path, snapshot_epochs=1 + number % 2) as db:
                for one in (expected, db):
                    one.apply(t=batch)
                compare(expected, db, "v4", "v6")
                assert db.statistics()["last batch"]["stages"] == 6
        session.forget()
        with connect(session, tmp_path) as db:
            compare(expected, db, "v4", "v6")
            change = db.view("v6").changes(since=epoch).drop_columns([EPOCH])
            moved = net(pa.concat_tables([weigh(seen).cast(change.schema), change]))
            assert_same(expand(moved), db.view("v6").to_arrow())


def test_what_depends_on_a_view_is_known(session: FakeSession) -> None:
    with ef.connect(engine="local") as expected, connect(session) as db:
        for one in (expected, db):
            start(one)
            create(one)
            one.sql("ALTER TABLE orders ADD COLUMN comment VARCHAR DEFAULT 'none'")
            one.sql("ALTER TABLE customer ADD COLUMN more BIGINT")
            one.apply(orders=[(100, 1, Decimal(99), "x"), (101, None, Decimal(30), None)])
            for text in ("DROP MATERIALIZED VIEW spend", "DROP TABLE orders"):
                with pytest.raises(ef.EverfreshError) as caught:
                    one.sql(text)
                assert caught.value.code == ef.Code.DEPENDENCY
            with pytest.raises(ef.EverfreshError, match="read by"):
                one.sql("ALTER TABLE orders DROP COLUMN price")
            with pytest.raises(ef.EverfreshError, match="cannot read itself"):
                one.sql("CREATE OR REPLACE MATERIALIZED VIEW either AS SELECT * FROM either")
            one.sql("ALTER TABLE orders DROP COLUMN comment")
            one.apply(orders=[(102, 2, Decimal(77))])
        compare(expected, db)
        for one in (expected, db):
            one.sql("DROP MATERIALIZED VIEW big CASCADE")
            one.apply(orders=[(103, 3, Decimal(55))])
        left = [name for name in VIEWS if name not in ("big", "total", "counted", "either", "idle")]
        assert list(db.catalog.views) == left
        compare(expected, db, *left)
        for change in ({"nation": [(9, "Z")]}, {"customer": ef.Delta(deletes=[{"id": 1}])}):
            with pytest.raises(ef.EverfreshError, match="static table"):
                db.apply(change)


def test_static_tables_are_on_every_worker() -> None:
    """Joins with them take no exchange, and nothing is kept for changes that do not come."""
    ddl = [*TABLES.strip().split("\n")]
    view = f"CREATE MATERIALIZED VIEW nations AS {VIEWS['nations']}"
    sizes = {"orders": 10**6, "customer": 10**5, "nation": 25}
    catalog = catalog_of([*ddl, view], sizes)
    program = catalog.views["nations"].compiled.program
    tags = placement_of(catalog).maps
    held = {m.name: {n.name for n in m.definition.walk() if hasattr(n, "delta")} for m in program.maps}
    assert all(tags[name] == REPLICATED for name, read in held.items() if "orders" not in read)
    assert [name for name, read in held.items() if "orders" in read] == ["nations"]
    assert set(program.static) == {"customer", "nation"}
    assert batch_program(catalog, frozenset({"orders"})).stages <= 2
    changing = catalog_of([*(text.replace("STATIC ", "") for text in ddl), view], sizes)
    assert len(changing.views["nations"].compiled.program.maps) > len(program.maps)
    shown = explain(catalog.views["nations"].compiled, view)
    assert "STATIC nation" in shown
    assert "when the view is filled, reads only the change of nation" in shown


def test_decisions_are_kept() -> None:
    ddl = [
        *TABLES.strip().split("\n"),
        *(f"CREATE MATERIALIZED VIEW {quoted(n)} AS {q}" for n, q in VIEWS.items()),
    ]
    catalog = catalog_of(ddl)
    assert set(incremental(catalog).views) == set(VIEWS)
    again = no_catalog()
    for _, entry in catalog.ddl:
        again, _ = replayed(again, entry)
    assert again == catalog
    assert catalog.views["shares"].compiled.bases == ("nations", "people")
    assert incremental(catalog).views["shares"].compiled.bases == ("orders", "customer", "nation")


def test_why_a_view_is_computed_anew() -> None:
    """A view is a program even if the one that it reads is not; one that cannot be says why."""
    ddl = [*TABLES.strip().split("\n")]
    ddl.append(f"CREATE MATERIALIZED VIEW spend WITH (strategy = 're-evaluate') AS {VIEWS['spend']}")
    ddl.append("CREATE MATERIALIZED VIEW total AS SELECT SUM(s) AS s FROM spend")
    ddl.append(
        "CREATE MATERIALIZED VIEW spread AS SELECT s, (SELECT VAR_POP(CAST(s AS DECIMAL(30,20))) "
        "FROM spend) AS d FROM spend"
    )
    catalog = catalog_of(ddl)
    assert list(incremental(catalog).views) == ["total"]
    assert "its strategy asks for it" in explain(catalog.views["spend"].compiled, "")
    assert "VAR_POP" in explain(catalog.views["spread"].compiled, "").upper().split("RE-EVALUATED")[1]


@pytest.mark.parametrize("seed", range(3))
def test_random_views(session: FakeSession, seed: int) -> None:
    random_history(session, seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_many_random_views(session: FakeSession, block: int) -> None:
    for seed in range(1000 + block * 20, 1020 + block * 20):
        random_history(session, seed)


def random_history(session: FakeSession, seed: int) -> int:
    """Views over tables, some of them static, and over each other; how many are over views."""
    history = spelled(random_case(seed, views=4).history)
    rng = random.Random(seed)
    static = {s.name for s in history.schemas if rng.random() < 0.3}
    ddl = [replace(s, static=s.name in static).ddl for s in history.schemas]
    first = {t: list(rows.elements()) for t, rows in net_of(history.changes).items() if t in static}
    sizes = {s.name: len(set(first.get(s.name, ()))) for s in history.schemas}
    catalog = catalog_of(ddl)
    views = {}
    for name, query in history.views:
        try:
            (bound,) = parse_and_bind(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}", catalog)
            after, effect = executed(catalog, bound, sizes)
        except EverfreshError:
            continue  # over a view that was left out, or a view that everfresh does not have
        assert effect.create_view is not None
        if not effect.create_view.compiled.reevaluated:
            catalog, views[name] = after, query
    size = (1, 7, 10**9)[seed % 3]
    options = {"workers": rng.choice((1, 2, 3)), "whole_bytes": rng.choice((0, 1 << 20))}
    with ef.connect(engine="local") as expected, connect(session, **options) as db:
        for one in (expected, db):
            one.sql("; ".join(ddl))
            one.apply(first)
            for name, query in views.items():
                one.sql(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}")
        for some in history.cut(size):
            batch = {
                t.name: as_delta(t, [c for c in some if c.table == t.name])
                for t in history.schemas
                if t.name not in static and any(c.table == t.name for c in some)
            }
            codes = [_applied(one, batch) for one in (expected, db)]
            assert codes[0] == codes[1]
            if codes[0] is not None:
                break
            if views:
                compare(expected, db, *views)
    return sum(not set(catalog.views[name].compiled.bases) <= set(catalog.tables) for name in views)


def _applied(db: ef.Database, batch: dict[str, Any]) -> str | None:
    """Why a batch is refused, if it is."""
    try:
        db.apply(batch)
    except EverfreshError as error:
        return error.code
    return None
