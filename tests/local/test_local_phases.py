"""Seconds by phase, and sizes with slices, in `statistics()`."""

from __future__ import annotations

import pytest

import everfresh
from everfresh.errors import EverfreshError
from everfresh.local.phases import PHASES

JOIN = """
CREATE TABLE f (id BIGINT PRIMARY KEY, k BIGINT, x BIGINT);
CREATE TABLE d (k BIGINT PRIMARY KEY, g BIGINT);
CREATE MATERIALIZED VIEW v AS SELECT d.g, SUM(f.x * d.g) AS s FROM f JOIN d ON f.k = d.k GROUP BY d.g;
"""


def test_every_phase_of_a_batch_is_counted() -> None:
    with everfresh.connect(engine="local", options=everfresh.Options(timing=True)) as db:
        db.sql(JOIN)
        assert set(db.statistics()["seconds"].values()) == {0.0}
        db.apply(f=[(i, i % 3, i) for i in range(10)], d=[(i, i) for i in range(3)])
        seconds = db.statistics()["seconds"]
        assert list(seconds) == list(PHASES)
        assert all(seconds[name] > 0 for name in PHASES if name != "relations")
        with pytest.raises(EverfreshError):
            db.apply(f=[(1, 1, 1)])
        refused = db.statistics()["seconds"]
        assert refused["resolve"] > seconds["resolve"]
        assert refused["commit"] == seconds["commit"]


def test_time_survives_no_reopening_and_is_off_unless_asked_for(tmp_path) -> None:
    with everfresh.connect(tmp_path / "a", engine="local") as db:
        db.sql(JOIN)
        db.apply(d=[(1, 1)])
        assert "seconds" not in db.statistics()
        db._engine.snapshot()
    options = everfresh.Options(timing=True)
    with everfresh.connect(tmp_path / "a", engine="local", options=options) as db:
        db.apply(f=[(1, 1, 1)])
        assert db.statistics()["seconds"]["statements"] > 0


def test_slices_are_in_the_sizes() -> None:
    with everfresh.connect(engine="local") as db:
        db.sql(JOIN.replace("v AS", "v WITH (strategy = 'first-order') AS"))
        db.apply(f=[(i, i % 3, i) for i in range(100)])
        assert db.statistics()["tables"]["f"]["slice_bytes"] == 0
        db.apply(d=[(i, i) for i in range(3)])  # reads f by k
        tables = db.statistics()["tables"]
        assert tables["f"]["slice_bytes"] > 0
        assert tables["d"]["slice_bytes"] == 0
