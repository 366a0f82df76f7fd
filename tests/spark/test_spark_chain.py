"""A chain of views across three domains on Spark itself: after every batch what the local engine has, also in
a view that Spark computes anew, behind each layer of the epoch.

Catches a view that is computed anew from an object as it was before the epoch, and the change of a view that
was stepped twice.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from counters import Counters
from test_chain_of_domains import ChainSuite

import everfresh as ef
from everfresh.database import connected, domains_of
from everfresh.delta.bags import EPOCH, difference, expand, net, weigh

SPREAD = (
    "CREATE MATERIALIZED VIEW spread WITH (strategy = 're-evaluate') AS "
    "SELECT f.g, COUNT(*) AS n, STDDEV_SAMP(level.value) AS s "
    "FROM level JOIN f ON level.k = f.k GROUP BY f.g"
)
BATCHES = 2


@pytest.mark.spark
def test_chain_on_spark(spark: Any, tmp_path: Path) -> None:
    suite, rng = ChainSuite(), random.Random(2)
    options = ef.Options(workers=2, durable=False, snapshots="now", snapshot_epochs=3)

    def opened() -> ef.Database:
        domains = (*domains_of(options), Counters(options.history))
        return connected(tmp_path / "db", "spark", spark, False, options, domains)

    with suite.connect() as local:
        suite.make(local)
        local.sql(SPREAD)
        db = opened()
        try:
            suite.make(db)
            db.sql(SPREAD)
            assert db.catalog.views["spread"].compiled.reevaluated
            for number in range(BATCHES):
                batch, before = suite.change(local, rng), db.view("spread").to_arrow()
                local.apply(batch)
                epoch = db.apply(batch)
                suite.check(db)
                # Rows of `gram.X` are in the order in which they came, which differs.
                for name in sorted({*suite.names(local), "spread"} - {"gram.X"}):
                    found = difference(local._engine.read(name), db._engine.read(name), 1e-9)
                    assert found.num_rows == 0, f"{name}:\n{found}"
                assert db.view("spread").verify().num_rows == 0
                told = db.view("spread").changes(since=epoch - 1).drop_columns([EPOCH])
                after = expand(net(pa.concat_tables([weigh(before), told.cast(weigh(before).schema)])))
                assert difference(db.view("spread").to_arrow(), after).num_rows == 0
                if number == 0:
                    db.close()
                    db = opened()
        finally:
            db.close()
