"""Attributes of every type: cells that come and go, extremes of views, columns of crossmatch views."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pytest

import everfresh as ef
from everfresh.arrays.execute.route import by_keys

NAN = float("nan")
UTC = dt.UTC
IDS = ["12345678-1234-1234-1234-123456789012", "02345678-1234-1234-1234-123456789012"]
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "BIGINT": [2**63 - 1, -(2**63), 5],
    "UBIGINT": [2**64 - 1, 2**63, 3],
    "HUGEINT": [2**100, -(2**100)],
    "REAL": [1.5, NAN, float("inf"), -0.0],
    "DOUBLE": [2.5, NAN, float("-inf"), 0.0],
    "DECIMAL(38,4)": [Decimal("1.25"), Decimal("-99999999999999999999999999")],
    "VARCHAR": ["b", "", "é\x00"],
    "BLOB": [b"\xff", b""],
    "UUID": IDS,
    "JSON": ['{"a": 1}', "3"],
    "DATE": [dt.date(2020, 1, 1), dt.date(1, 1, 1)],
    "TIME": [dt.time(1, 2, 3), dt.time(0)],
    "TIMESTAMPTZ": [dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)],
    "INTEGER[]": [[1, None], [], [3]],
    "STRUCT(x INTEGER, y VARCHAR)": [{"x": 1, "y": "q"}, {"x": None, "y": ""}],
    "MAP(VARCHAR, INTEGER)": [{"a": 1}, {}],
}


@pytest.mark.parametrize("type_", VALUES)
def test_cells_and_views(type_: str) -> None:
    rng = random.Random(type_)
    with ef.connect(engine="local", options=ef.Options(workers=2)) as db:
        db.sql(f"CREATE ARRAY a <v: {type_}> [i=1,9,3]")
        db.sql("""CREATE ARRAY VIEW near AS SELECT COUNT(y.v) AS n, MIN(y.v) AS least, MAX(y.v) AS most
                  FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i) WITH SHAPE L1(1) GROUP BY x.i""")
        kept: list[tuple[int, Any]] = []
        for _ in range(4):
            rng.shuffle(kept)
            gone = kept[len(kept) // 2 :]
            come = [(rng.randint(1, 9), rng.choice([*VALUES[type_], None])) for _ in range(6)]
            db.apply(a=ef.Delta(inserts=come, deletes=gone))
            kept = kept[: len(kept) // 2] + come
            assert db.view("near").verify().num_rows == 0
            assert len(db.array("a")) == len(kept)
        db.apply(a=ef.Delta(deletes=kept))
        assert len(db.array("a")) == len(db.view("near")) == 0


@pytest.mark.parametrize("type_", VALUES)
def test_crossmatch_views(type_: str) -> None:
    value, other = VALUES[type_][0], VALUES[type_][-1]
    with ef.connect(engine="local") as db:
        for name in ("stars", "seen"):
            db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE, v {type_})")
        db.create_crossmatch_view(
            "m",
            "stars",
            "seen",
            radius_arcsec=2,
            how="left",
            left_columns=["id", "v"],
            right_columns=["id", "v"],
        )
        db.apply(stars=[(1, 1.0, 1.0, value), (2, 5.0, 1.0, None)], seen=[(1, 1.0, 1.0, other)])
        assert db.view("m").verify().num_rows == 0
        assert len(db.view("m")) == 2
        db.apply(seen=ef.Delta(deletes=[{"id": 1}]))
        assert [row["v_right"] for row in db.view("m").to_pylist()] == [None, None]


def test_equal_values_have_one_owner() -> None:
    """Keys of a group, a list and -0.0 among them, go to one worker wherever they are."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE ARRAY a <v: INT[], u: DOUBLE> [i=1,9,3]")
        db.apply(a=[(1, [1, None], 0.0), (2, [1, None], -0.0), (3, [2], 0.0)])
        table = db.array("a").to_arrow().select(["v", "u"])
    one, other, _ = by_keys(table, 2, 1 << 30).tolist()
    assert one == other
    assert by_keys(table.slice(1), 2, 1 << 30).tolist()[0] == one
