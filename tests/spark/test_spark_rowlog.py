"""What segments say of the rows of tables: replayed, the same rows and no more strings than they need.

Mutations that these catch: a row that goes by a wrong key or not at all, one that goes and comes again, a row
given as it is where another one comes, strings of rows that have gone kept or released twice, a file that is
not there when its task has ended.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_spark import FakeSession, install

import everfresh as ef
from everfresh.delta.parquet import read_exact
from everfresh.local.store.stream_table import make_table
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Table
from everfresh.program import Part
from everfresh.spark.jobs.tasks import Behind
from everfresh.spark.state.rowlog import replay_rows, row_sections
from everfresh.state import unpack_table
from everfresh.types import BIGINT, VARCHAR, Column, TableSchema, arrow_schema

COLUMNS = (Column("k", BIGINT, nullable=False), Column("a", VARCHAR), Column("b", VARCHAR))
Row = tuple[int, str | None, str | None]


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("kab", row, strict=True)) for row in rows], arrow_schema(COLUMNS))


def used(table: Table) -> int:
    texts = [t for name in table.codec.kept for t in table.rows()[0].column(name).to_pylist()]
    return sum(-(-len(t) // 8) * 8 for t in texts if t is not None and len(t) > 7)


@pytest.mark.parametrize("key", [("k",), ()])
def test_replayed(key: tuple[str, ...]) -> None:
    random_ = random.Random(7)
    schema = TableSchema("t", COLUMNS, key)
    first, second = (make_table(schema, Interner()) for _ in range(2))
    there: dict[int, Row] = {}
    for number in range(60):
        gone = random_.sample(sorted(there), min(len(there), random_.randrange(6)))
        deletes = [there.pop(k) for k in gone]
        inserts: list[Row] = []
        for k in random_.sample(range(40), random_.randrange(8)):
            if k not in there:
                word = random_.choice(["short", "a longer string", f"string {k}", None])
                again = [row for row in deletes if row[0] == k and random_.random() < 0.5]
                there[k] = again[0] if again else (k, word, f"of batch {number}")
                inserts.append(there[k])
        parts: list[Part] = []
        if deletes:
            parts.append(Part("t", "delete", table_of(deletes), "t"))
        if inserts:
            parts.append(Part("t", "insert", table_of(inserts), "t"))
        if not parts:
            continue
        change = first.resolve(parts)
        applied = first.apply(change)
        sections = row_sections("t@1", first, change, parts) if len(change) else {}
        if number % 5 == 4:
            first.rollback(applied)
            first.discard(change)
            change = first.resolve(parts)
            applied = first.apply(change)
        first.commit(applied)
        for name, data in sections.items():
            replay_rows(name.split("/")[0], second, unpack_table(data))
        for table in (first, second):
            found = sorted(map(tuple, (row.values() for row in table.rows()[0].to_pylist())), key=repr)
            assert found == sorted(there.values(), key=repr)
            if key:
                assert table.codec.texts.used == used(table)


def test_dictionaries_are_written_as_they_are(tmp_path: Path) -> None:
    schema = TableSchema("t", COLUMNS, ("k",))
    rows: list[Row] = [(k, f"one of a few {k % 3}" if k % 5 else None, "xy"[k % 2]) for k in range(500)]
    pq.write_table(table_of(rows), tmp_path / "t.parquet")
    given = read_exact([str(tmp_path / "t.parquet")], schema, "t", "insert")
    assert given is not None
    assert pa.types.is_dictionary(given.schema.field("a").type)
    first, second, interned = (
        make_table(schema, Interner()),
        make_table(schema, Interner()),
        Table(schema, Interner()),
    )
    parts = [Part("t", "insert", given, "t")]
    change = first.resolve(parts)
    first.commit(first.apply(change))
    interned.commit(interned.apply(interned.resolve(parts)))
    (data,) = row_sections("t@1", first, change, parts).values()
    assert pa.types.is_dictionary(unpack_table(data).schema.field("a").type)
    replay_rows("table", second, unpack_table(data))
    for table in (first, second, interned):
        assert table.rows()[0].to_pylist() == table_of(rows).to_pylist()
    assert first.codec.texts.used == second.codec.texts.used == used(first)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return install(monkeypatch)


@pytest.mark.parametrize("whole", [False, True])
def test_batches_in_files_survive(session: FakeSession, tmp_path: Path, whole: bool) -> None:
    options = ef.Options(workers=2, durable=False, inline_bytes=0)

    def connect() -> Any:
        return ef.connect(tmp_path / "db", engine="spark", spark=session, options=options)  # type: ignore[arg-type]

    def file(name: str, rows: list[Row]) -> str:
        pq.write_table(table_of(rows), tmp_path / name)
        return str(tmp_path / name)

    come: list[Row] = [(k, f"one of a few {k % 3}", f"its own string {k}") for k in range(300)]
    later: list[Row] = [(k, "one more of few", f"another string {k}") for k in range(100, 300)]
    with connect() as db:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, a VARCHAR, b VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        if whole:  # a view that workers keep
            db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, a, COUNT(*) AS n FROM t GROUP BY k, a")
        db.apply(t=file("come.parquet", come))
        with pytest.raises(ef.EverfreshError, match="has b = 'its own string 5x'"):
            db.apply(t=ef.Delta(deletes=file("bad.parquet", [(5, come[5][1], "its own string 5x")])))
        deletes = file("go.parquet", come[50:300])
        db.apply(t=ef.Delta(deletes=deletes, inserts=file("later.parquet", later)))
        assert db.statistics()["last batch"]["form"] == ("whole" if whole else "staged")
    session.forget()
    with connect() as db:  # from files alone
        found = db.table("t").to_spark().toArrow().to_pylist()
        assert sorted(tuple(row.values()) for row in found) == sorted(come[:50] + later)
        counts = {row["a"]: row["n"] for row in db.view("v").to_arrow().to_pylist()}
        assert counts == {"one of a few 0": 17, "one of a few 1": 17, "one of a few 2": 16, later[0][1]: 200}
        db.apply(t=ef.Delta(deletes=file("all.parquet", come[:50] + later)))
        assert db.view("v").to_arrow().num_rows == 0
        assert db.table("t").to_spark().toArrow().num_rows == 0


def test_writing_behind_is_waited_for() -> None:
    done: list[str] = []

    def slowly() -> None:
        time.sleep(0.05)
        done.append("slowly")

    with Behind() as behind:
        behind(slowly)
        behind(lambda: done.append("at once"))
    assert sorted(done) == ["at once", "slowly"]
    with pytest.raises(OSError, match="full"), Behind() as behind:
        behind(_fail)
    with pytest.raises(ZeroDivisionError):
        _divide(Behind())


def _fail() -> None:
    raise OSError("the disk is full")


def _divide(behind: Behind) -> None:
    with behind:
        behind(_fail)
        _ = 1 // 0
