"""Arrow columns of all kinds, in and out: what a table takes reads back equal, in every form, and what it
does not take is refused whole.

Mutations that these catch: bytes that are not UTF-8, decimals beyond their type, days beyond Python's let in;
an offset, a validity bitmap or a NULL of a dictionary not minded; another error than `EverfreshError`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from arrow_arrays import columns, expected
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh as ef
from everfresh.errors import EverfreshError
from everfresh.types import SqlType, parse_type, to_logical, to_physical

TYPES = [
    *("BOOLEAN", "TINYINT", "INTEGER", "BIGINT", "HUGEINT", "REAL", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP"),
    *("DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(30,2)"),
]


class Unseen:
    """An array that is not printed as it is drawn: printing some of those that are to be refused ends the
    process in pyarrow 22."""

    def __init__(self, array: Any) -> None:
        self.array = array


def _name(type_: str) -> str:
    return "t_" + type_.lower().translate(str.maketrans("(,", "__", ")"))


def _filled(db: ef.Database) -> ef.Database:
    for type_ in TYPES:
        name = _name(type_)
        db.sql(f"CREATE TABLE {name} (x {type_}, n BIGINT)")
        db.sql(
            f"CREATE MATERIALIZED VIEW v{name} AS SELECT x, SUM(n) AS s, COUNT(*) AS c FROM {name} GROUP BY x"
        )
    return db


@pytest.fixture(scope="module")
def db() -> Iterator[ef.Database]:
    with ef.connect(engine="local") as opened:
        yield _filled(opened)


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _bag(rows: pa.Table, type_: SqlType) -> Counter[Any]:
    """The values of the first column, as they are compared."""
    return Counter(_key(to_physical(value, type_)) for value in rows.column(0).to_pylist())


def _check_reads(db: ef.Database, name: str, type_: SqlType, values: list[Any]) -> None:
    """A table and its view hold the values, in whatever form they are read."""
    wanted = Counter(map(_key, values))
    table, view = db.table(name), db.view(f"v{name}")
    assert _bag(table.to_arrow(), type_) == wanted
    logical = [to_logical(v, type_) for v in values]
    assert Counter(_key(row["x"]) for row in table.to_pylist()) == Counter(map(_key, logical))
    assert len(table.to_pandas()) == len(table.to_polars()) == len(values)
    assert (
        _bag(table.to_polars().to_arrow().select(["x"]).cast(pa.schema([table.to_arrow().field("x")])), type_)
        == wanted
    )
    assert _bag(db.sql(f"SELECT x FROM {name}").to_arrow(), type_) == wanted
    counts = {_key(to_physical(row["x"], type_)): row["c"] for row in view.to_pylist()}
    assert counts == dict(wanted)
    assert view.verify().num_rows == 0
    assert str(table)
    assert str(view)


def _rows(given_: Any, n: int) -> pa.Table:
    return pa.table({"x": given_, "n": pa.array(range(n), pa.int64())})


@pytest.mark.parametrize("type_", TYPES)
@given(data=st.data())
def test_what_comes_in_goes_out(db: ef.Database, type_: str, data: Any) -> None:
    sql_type, name = parse_type(type_), _name(type_)
    column = data.draw(columns(sql_type).map(Unseen)).array
    rows, values = _rows(column, len(column)), expected(column, sql_type)
    db.sql(f"DELETE FROM {name}")  # what an example before this one left when it failed
    before = db.epoch
    if values is None:
        with pytest.raises(EverfreshError) as refused:
            db.apply({name: rows})
        assert "x" in str(refused.value.place)
        assert refused.value.hint
        assert db.epoch == before
        assert len(db.table(name)) == 0
        return
    db.apply({name: rows})
    _check_reads(db, name, sql_type, values)
    changes = db.view(f"v{name}").changes(since=before)
    assert sum(changes.column("_weight").to_pylist()) == len({_key(v) for v in values})
    db.apply({name: ef.Delta(deletes=rows if data.draw(st.booleans()) else db.table(name))})
    _check_reads(db, name, sql_type, [])


@settings(max_examples=2)
@given(data=st.data())
def test_what_came_in_is_there_after_a_reopening(tmp_path_factory: Any, data: Any) -> None:
    folder = tmp_path_factory.mktemp("door") / "db"
    held: dict[str, list[Any]] = {}
    with ef.connect(str(folder), engine="local") as db:
        _filled(db)
        for type_ in TYPES:
            sql_type = parse_type(type_)
            column = data.draw(columns(sql_type).map(Unseen)).array
            found = expected(column, sql_type)
            if found is not None:
                db.apply({_name(type_): _rows(column, len(column))})
            held[type_] = found or []
    with ef.connect(str(folder), engine="local") as db:
        for type_, values in held.items():
            _check_reads(db, _name(type_), parse_type(type_), values)
