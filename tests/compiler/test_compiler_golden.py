"""What views compile to, as text; and every golden program is parsed and run.

`golden/*.txt` is `explain(view)`. To accept a change: `python tests/compiler/test_compiler_golden.py`, then
read the diff. The program that runs here is the one parsed from the file, so a text that does not say what
the compiler meant fails too.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler_support import catalog_of

from everfresh.algebra import Gmr
from everfresh.compiler import Catalog, CompiledView, ViewDef, explain
from everfresh.compiler.listing import parse_listing
from everfresh.delta.bags import difference, expand, net, subtract
from everfresh.expr import Vector
from everfresh.local.batch.recompute import recompute
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.strings import Interner
from everfresh.program import Program
from everfresh.testing.one_change import OneChange
from everfresh.types import NAN

GOLDEN = Path(__file__).parent / "golden"

TABLES = [
    "CREATE TABLE t (id BIGINT PRIMARY KEY, g VARCHAR, x INTEGER, d DOUBLE, p DECIMAL(15,2), w DECIMAL(30,4),"
    " b BOOLEAN, day DATE NOT NULL)",
    'CREATE TABLE "odd name" ("a b" INTEGER, "Δ" VARCHAR NOT NULL)',
]
VIEWS = {
    "star": "SELECT * FROM t",
    "filter": "SELECT id, x + 1 AS y, upper(g) AS g FROM t WHERE x > 1 - 1 AND g IS NOT NULL",
    "count": "SELECT count(*) AS n FROM t",
    "required": "SELECT sum(id) AS s, avg(id) AS a, count(id) AS n FROM t",
    "group": "SELECT g, count(*) AS n, sum(x) AS s, avg(x) AS a, count(x) AS nx FROM t GROUP BY g",
    "floats": "SELECT b, sum(d) AS s, avg(d) AS a FROM t WHERE d IS NULL OR d < 5 OR d > 7 GROUP BY b",
    "decimals": "SELECT g, sum(p) AS sp, sum(w) AS sw, avg(p) AS ap, sum(p * 2) AS twice FROM t GROUP BY g",
    "having": "SELECT g, sum(x) + 1 AS s FROM t GROUP BY g HAVING sum(x) > 1 AND count(*) < 9",
    "having_one_row": "SELECT sum(x) AS s FROM t HAVING count(*) > 3",
    "filtered": "SELECT count(*) FILTER (WHERE b) AS n, sum(x) FILTER (x > 0) AS s, sum(b) AS t FROM t",
    "distinct": "SELECT DISTINCT g, b FROM t",
    "expressions": "SELECT x % 2 AS parity, year(day) AS y, sum(p) AS s FROM t GROUP BY x % 2, year(day)",
    "nothing": "SELECT g, x FROM t WHERE 1 = 2",
    "nothing_counted": "SELECT count(*) AS n, sum(x) AS s FROM t WHERE NULL",
    "repeated": "SELECT g AS a, g AS b, coalesce(x, 0) AS c, coalesce(x, 0) + 0 AS d FROM t",
    "odd": """SELECT "a b", "Δ", count(*) AS "o""id" FROM "odd name" WHERE "Δ" <> 'it''s\n2' GROUP BY ALL""",
    "renamed": "SELECT CASE WHEN TRUE THEN g END AS h, coalesce(id, 0) AS i FROM t",
}


def catalog() -> Catalog:
    return catalog_of(
        *TABLES, *(f'CREATE MATERIALIZED VIEW "{name}" AS {query}' for name, query in VIEWS.items())
    )


CATALOG = catalog()


def parsed(name: str) -> Program[Any]:
    """The program in the golden file."""
    text = (GOLDEN / f"{name}.txt").read_text()
    start, end = text.index("\nMAP ") + 1, text.rindex("\n\nREAD")
    relations = {n: schema.columns for n, schema in CATALOG.tables.items()}
    return parse_listing(text[start:end], relations)


def shown(view: ViewDef) -> str:
    return explain(view.compiled, view.text) + "\n"


@pytest.mark.parametrize("name", VIEWS)
def test_text(name: str) -> None:
    assert (GOLDEN / f"{name}.txt").read_text() == shown(CATALOG.views[name])


@pytest.mark.parametrize("name", VIEWS)
def test_parse(name: str) -> None:
    assert parsed(name) == CATALOG.views[name].compiled.program


def test_no_file_is_left_over() -> None:
    assert sorted(f.stem for f in GOLDEN.glob("*.txt")) == sorted(VIEWS)


# -- run -----------------------------------------------------------------------------------------------

POOL: dict[str, list[Any]] = {
    "BIGINT": [0, 1, 2, 3],
    "VARCHAR": [None, "", "a", "it's\n2"],
    "INTEGER": [None, -1, 0, 1, 2],
    "DOUBLE": [None, 0.1, 0.2, -1e300, 1e300, NAN, float("inf"), 6.0],
    "DECIMAL(15,2)": [None, 125, -99999, 10**14],
    "DECIMAL(30,4)": [None, 10**29, -(10**29), 1],
    "BOOLEAN": [None, True, False],
    "DATE": [0, 400, -1],
}


def random_batches(
    compiled: CompiledView, rng: random.Random, count: int = 6
) -> list[list[tuple[tuple[Any, ...], int]]]:
    """Inserts, and deletes of rows that are there; rows more than once too."""
    (name,) = compiled.bases
    columns = CATALOG.tables[name].columns
    there: list[tuple[Any, ...]] = []
    batches = []
    for _ in range(count):
        batch = []
        for _ in range(rng.randrange(6)):
            if there and rng.random() < 0.45:
                batch.append((there.pop(rng.randrange(len(there))), -1))
        for _ in range(rng.randrange(8)):
            row = tuple(
                rng.choice([v for v in POOL[str(c.type)] if v is not None or c.nullable]) for c in columns
            )
            weight = rng.choice([1, 1, 1, 2, 3])
            there += [row] * weight
            batch.append((row, weight))
        batches.append(batch)
    return [*batches, [(row, -1) for row in there]]  # and everything goes


@pytest.mark.parametrize("name", VIEWS)
def test_run(name: str) -> None:
    """The parsed program in a `MapStore` equals recomputation after every batch, and publishes the change."""
    compiled = replace(CATALOG.views[name].compiled, program=parsed(name))
    (base,) = compiled.bases
    columns = CATALOG.tables[base].columns
    for seed in range(3):
        interner, table = Interner(), Gmr()
        store, trigger = MapStore(compiled, interner), compiled.program.trigger(base)
        for batch in random_batches(compiled, random.Random(seed)):
            vectors = {
                c.name: Vector.from_pylist([row[i] for row, _ in batch], c.type)
                for i, c in enumerate(columns)
            }
            weights = np.array([w for _, w in batch], np.int64)
            before, change = expand(store.rows()), store.no_change()
            scope = OneChange(columns, vectors, weights, interner)
            for statement in trigger.statements if trigger else ():
                touched = scope.add(store, statement.expr)
                change = store.published(touched)
                store.pool.commit(touched)
                assert change.num_rows == net(change).num_rows  # no row twice, none with weight 0
            for row, weight in batch:
                table.add(row, (weight,))
            after = expand(store.rows())
            again = expand(recompute(compiled, {base: table}))
            assert difference(again, after, 1e-12).to_pylist() == []
            assert difference(before, subtract(after, change), 0).to_pylist() == []
        assert len(store.pool) == 0


if __name__ == "__main__":
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for name, view in CATALOG.views.items():
        (GOLDEN / f"{name}.txt").write_text(shown(view))
    sys.stdout.write(f"{len(CATALOG.views)} files written\n")
