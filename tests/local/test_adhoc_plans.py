"""Random plans against DuckDB: any operator inside any other, correlated subqueries in any expression.

And correlated plans for many outer rows at once against the same plans run for one row after the other.

`HYPOTHESIS_PROFILE=soak` runs thousands of them. A failure names its seed: `compare(seed)` repeats it.
"""

from __future__ import annotations

import os
import random
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from test_adhoc_random import Plans
from test_adhoc_support import TABLES, oracle_of, random_rows, run, same

from everfresh.expr import Const, Var, Vector, substitute
from everfresh.local.adhoc.frame import Outer
from everfresh.local.adhoc.run import QueryRun
from everfresh.testing.oracle import assert_same
from everfresh.types import arrow_schema

SEEDS = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 60


def compare(seed: int) -> None:
    rng = random.Random(seed)
    oracle = oracle_of({name: random_rows(rng, schema) for name, schema in TABLES.items()})
    try:
        same(Plans(seed).top(), oracle, chunk=rng.choice([1, 3, 3, 1000]))
    except duckdb.NotImplementedException:
        pytest.skip("not in DuckDB")
    finally:
        oracle.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_plan(seed: int) -> None:
    compare(seed)


# -- unnesting ------------------------------------------------------------------------------------------


def compare_unnested(seed: int) -> None:
    """`frame(plan, outer)` has for each outer row what the plan has with that row's values put in."""
    plans = Plans(seed, nesting=1, everything=True)
    rng = plans.rng
    oracle = oracle_of({name: random_rows(rng, schema) for name, schema in TABLES.items()})
    schema = TABLES["r"]
    values = list(dict.fromkeys(random_rows(rng, schema, 5))) or [(1, 2, "a", 0.5, None)]
    outer = tuple(Var(plans.name(), c.type, True) for c in schema.columns)
    plan = plans.inner(outer)
    columns = {
        v.name: Vector.from_pylist([_physical(row[i]) for row in values], v.type) for i, v in enumerate(outer)
    }
    found = QueryRun(oracle.table, chunk=3).frame(plan, Outer(columns, len(values)))
    for i in range(len(values)):
        by = {name: Const(vector.to_pylist()[i], vector.type) for name, vector in columns.items()}
        expected = run(substitute(plan, by), oracle)  # type: ignore[arg-type]
        mine = found if found.d is None else found.take(np.flatnonzero(found.d == i))
        arrays = [mine[c.name].to_arrow() for c in plan.columns]
        actual = pa.Table.from_arrays(arrays, schema=arrow_schema(plan.columns))
        assert_same(expected, actual, f"seed {seed}, {values[i]}\n{plan}\n")
    oracle.close()


def _physical(value: object) -> object:
    return int(value * 100) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("seed", range(SEEDS))
def test_unnested_plan(seed: int) -> None:
    compare_unnested(seed)
