"""What a program takes to derive stays in proportion to its query: counted in products, never in seconds."""

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import everfresh
from everfresh.bench.parts import make_views as views
from everfresh.compiler import Catalog
from everfresh.sql import parse_and_bind
from everfresh.testing.oracle import DuckOracle

TABLE = "CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, s VARCHAR, PRIMARY KEY (id))"


def compiled(case: views.Case) -> tuple[Any, str, Catalog, int]:
    """The view of a case, its entry, the catalog before it, and how many products were derived for it."""
    catalog = Catalog(joins=True, rows=True)
    for ddl in case.tables:
        (statement,) = parse_and_bind(ddl, catalog)
        catalog, _ = catalog.execute(statement)
    told: list[int] = []
    (statement,) = parse_and_bind(f"CREATE MATERIALIZED VIEW w AS {case.query}", catalog)
    after, effect = catalog.execute(statement, progress=lambda what, done, total: told.append(done))
    return after.views["w"].compiled, effect.text, catalog, len(told)


@pytest.mark.parametrize(
    ("case", "most"),
    [
        (views.chain(12), 1_200),
        (views.star(20), 300),
        *((views.chain(8, kind), 1_000) for kind in ("LEFT JOIN", "FULL JOIN")),
        (views.by_key(12, "LEFT JOIN"), 1_000),
        (views.using(8, "FULL JOIN"), 1_000),
        (views.with_itself(12, "JOIN"), 1_000),
        (views.with_itself(12, "FULL JOIN"), 1_000),
    ],
    ids=lambda case: case.name if isinstance(case, views.Case) else "",
)
def test_many_joins_take_few_products_and_are_incremental(case: views.Case, most: int) -> None:
    view, entry, before, products = compiled(case)
    statements = [s for trigger in view.program.triggers for s in trigger.statements]
    assert {s.strategy for s in statements} == {"incremental"}
    assert products <= most
    after, _ = before.replay(entry)  # what was decided is kept with the view
    assert after.views["w"].compiled.program == view.program


def test_a_filter_rules_products_out_before_they_multiply() -> None:
    """Six uses of a union of three, each of one kind of row, are one product and not 729."""
    tables = tuple(f"CREATE TABLE t{i} (id BIGINT NOT NULL, v BIGINT)" for i in range(3))
    union = " UNION ALL ".join(f"SELECT id, SUM(v) AS v, {i} AS kind FROM t{i} GROUP BY id" for i in range(3))
    uses = ", ".join(f"u AS u{i}" for i in range(6))
    kinds = " AND ".join(f"u{i}.kind = {i % 3}" for i in range(6))
    keys = " AND ".join(f"u0.id = u{i}.id" for i in range(1, 6))
    query = f"WITH u AS ({union}) SELECT u0.id, u5.v FROM {uses} WHERE {kinds} AND {keys}"
    view, _, _, _ = compiled(views.Case("kinds", tables, query))
    assert len(view.program.relations) == 6
    assert "id" in str(view.map.definition)
    assert len(view.map.definition.children) <= 8


def shape(style: str, kind: str, tables: int, chosen: random.Random) -> str:
    """A join of tables, in one of several ways."""
    text = "t0 a0"
    for i in range(1, tables):
        on = {
            "key": f"ON a{i - 1}.id = a{i}.id",
            "chain": f"ON a{i - 1}.nx = a{i}.id",
            "using": "USING (id)",
            "any": f"ON a{chosen.randrange(i)}.{chosen.choice(['id', 'nx'])} = a{i}.nx AND a{i}.v < 3",
        }[style]
        how = chosen.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]) if kind == "any" else kind
        text += f" {how} t{i} a{i} {on}"
    return text


@pytest.mark.parametrize(
    ("style", "kind", "tables"),
    [
        ("key", "FULL JOIN", 6),
        ("chain", "FULL JOIN", 6),
        ("using", "FULL JOIN", 7),
        ("chain", "LEFT JOIN", 12),
        ("using", "LEFT JOIN", 9),
        ("any", "any", 6),
    ],
)
def test_many_outer_joins_equal_duckdb(style: str, kind: str, tables: int) -> None:
    """With NULL in the columns that are joined, rows that go and rows that come again."""
    chosen = random.Random(f"{style} {kind} {tables}")
    db, oracle = everfresh.connect(engine="local"), DuckOracle()
    for i in range(tables):
        db.sql(f"CREATE TABLE t{i} (id BIGINT NOT NULL, nx BIGINT, v BIGINT, PRIMARY KEY (id))")
        oracle.create(db.catalog.tables[f"t{i}"])
    joined = shape(style, kind, tables, chosen)
    columns = ", ".join(f"a{i}.id AS k{i}, a{i}.v AS v{i}" for i in range(tables))
    if style == "using":
        columns = "id, " + ", ".join(f"a{i}.v AS v{i}" for i in range(tables))
    query = f"SELECT {columns} FROM {joined}"
    db.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
    rows: dict[str, dict[int, tuple[Any, ...]]] = {f"t{i}": {} for i in range(tables)}
    for _ in range(6):
        for name, there in rows.items():
            gone = [there.pop(key) for key in list(there) if chosen.random() < 0.2]
            new = {
                key: (key, chosen.choice([None, 0, 1, 2]), chosen.choice([None, 1, 5]))
                for key in range(4)
                if key not in there and chosen.random() < 0.4
            }
            there.update(new)
            oracle.apply(name, inserts=new.values(), deletes=gone)
            columns_ = ("id", "nx", "v")
            inserts = [dict(zip(columns_, row, strict=True)) for row in new.values()]
            deletes = [dict(zip(columns_, row, strict=True)) for row in gone]
            db.apply({name: everfresh.Delta(inserts=inserts, deletes=deletes)})
        got = Counter(tuple(row.values()) for row in db.sql("SELECT * FROM w").to_arrow().to_pylist())
        want = Counter(tuple(row.values()) for row in oracle.query(query).to_pylist())
        assert got == want
    db.close()
    oracle.close()


LONG = {
    "a union of 200": " UNION ALL ".join(f"SELECT id, v + {i} AS v FROM t" for i in range(200)),
    "a list of 10,000": f"SELECT id FROM t WHERE v IN ({', '.join(map(str, range(10_000)))})",
    "1,000 conditions": "SELECT id FROM t WHERE " + " AND ".join(f"v <> {i}" for i in range(2, 1_002)),
    "500 branches": f"SELECT CASE {' '.join(f'WHEN v = {i} THEN {i}' for i in range(500))} END AS c FROM t",
}
DEEP = {
    "500 sums": f"SELECT id, {' + '.join(['v'] * 500)} AS x FROM t",
    "200 brackets": f"SELECT id FROM t WHERE {'(' * 200}v > 1{')' * 200}",
    "150 calls": f"SELECT id, {'abs(' * 150}v{')' * 150} AS x FROM t",
}


@pytest.mark.parametrize("query", LONG.values(), ids=LONG)
def test_long_queries_are_maintained(query: str) -> None:
    with everfresh.connect(engine="local") as db:
        db.sql(TABLE)
        db.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
        db.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b')")
        assert db.view("w").verify().num_rows == 0


@pytest.mark.parametrize("query", DEEP.values(), ids=DEEP)
def test_deep_queries_are_maintained_or_refused(query: str) -> None:
    with everfresh.connect(engine="local") as db:
        db.sql(TABLE)
        with suppress(everfresh.EverfreshError):
            db.sql(f"CREATE MATERIALIZED VIEW w AS {query}")


def test_an_interrupt_while_a_view_is_compiled_leaves_nothing() -> None:
    case = views.by_key(4)
    with everfresh.connect(engine="local") as db:
        for ddl in case.tables:
            db.sql(ddl)
        before, epoch = db.catalog, db.epoch
        told: list[tuple[str, int, int]] = []

        def stop(what: str, done: int, total: int) -> None:
            told.append((what, done, total))
            if len(told) == 20:
                raise KeyboardInterrupt

        db.on_progress(stop)
        with pytest.raises(KeyboardInterrupt):
            db.sql(f"CREATE MATERIALIZED VIEW w AS {case.query}")
        assert {what for what, _, _ in told} == {"compiling w"}
        assert all(0 < done <= total for _, done, total in told)
        assert db.catalog is before
        assert db.epoch == epoch
        db.on_progress(None)
        db.sql(f"CREATE MATERIALIZED VIEW w AS {case.query}")
        db.sql("INSERT INTO t1 VALUES (1, 2, 3)")
        assert db.view("w").verify().num_rows == 0
