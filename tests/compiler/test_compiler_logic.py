"""Three-valued logic of views: random boolean trees over comparisons, IN, ANY, ALL and EXISTS, on all rows of
{NULL, 0, 1}^3, as a value and as a condition, equal DuckDB.

Sets are empty, without NULL, with NULL, of NULL only, correlated and not; they change under the view.
"""

from __future__ import annotations

import itertools
import random

import pytest
from sql_check import Batch, check

TABLES = [
    "CREATE TABLE t (id BIGINT PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER)",
    "CREATE TABLE s (x INTEGER, y INTEGER)",
]
ROWS = [(i, *row) for i, row in enumerate(itertools.product((None, 0, 1), repeat=3))]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
SETS = [
    "SELECT x FROM s",
    "SELECT x FROM s WHERE y = 0",
    "SELECT x FROM s WHERE x IS NOT NULL",
    "SELECT x FROM s WHERE x IS NULL",
    "SELECT x FROM s WHERE y = t.a",
    "SELECT x FROM s WHERE y IS NOT DISTINCT FROM t.b",
    "SELECT x FROM s WHERE y < t.c",
    "SELECT x FROM s WHERE y > 5",
    "SELECT max(x) FROM s WHERE y = t.a",
    "SELECT x FROM s WHERE y = t.a AND x = 1",
]


def leaf(rng: random.Random) -> str:
    x, y = rng.choice(["a", "b", "c", "0", "1", "a + b"]), rng.choice(["a", "b", "c", "NULL", "1"])
    some = rng.choice(SETS)
    return rng.choice(
        [
            f"{x} {rng.choice(['=', '<>', '<', '>='])} {y}",
            f"{x} BETWEEN 0 AND {y}",
            f"{x} IS NULL",
            f"{x} IS NOT DISTINCT FROM {y}",
            f"{x} IN ({some})",
            f"{x} NOT IN ({some})",
            f"{x} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} ANY ({some})",
            f"{x} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} ALL ({some})",
            f"{rng.choice(['', 'NOT '])}EXISTS ({some})",
            f"{x} < (SELECT max(x) FROM s WHERE y = t.{rng.choice('abc')})",
            f"(SELECT count(*) FROM s WHERE y = t.{rng.choice('abc')}) = {rng.choice('01')}",
        ]
    )


def tree(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.2:
        return leaf(rng)
    inner = tree(rng, depth - 1)
    match rng.randrange(6):
        case 0:
            return f"NOT ({inner})"
        case 1:
            return f"({inner}) IS {rng.choice(['TRUE', 'FALSE', 'NULL', 'NOT NULL'])}"
        case 2:
            return f"CASE WHEN {inner} THEN {tree(rng, depth - 1)} ELSE {tree(rng, depth - 1)} END"
        case _:
            return f"({inner}) {rng.choice(['AND', 'OR'])} ({tree(rng, depth - 1)})"


BATCHES: list[Batch] = [
    {"t": (ROWS, [])},
    {"s": ([(1, 0), (0, 0), (1, 1)], [])},
    {"s": ([(None, 0), (None, 1), (0, None)], [(0, 0)]), "t": ([], ROWS[:3])},
    {"s": ([], [(1, 0), (1, 1), (0, None)]), "t": (ROWS[:3], [])},
    {"s": ([(0, 1)], [(None, 0), (None, 1)])},
]


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 35))])
def test_random_trees(block: int) -> None:
    """20 trees a block, 700 in all."""
    rng = random.Random(block)
    trees = [tree(rng, 3) for _ in range(20)]
    queries = [
        f"SELECT a, b, c, {t} AS v FROM t" if i % 2 else f"SELECT a, b, c FROM t WHERE {t}"
        for i, t in enumerate(trees)
    ]
    check(TABLES, queries, BATCHES, incremental=False)


@pytest.mark.parametrize(
    "asked",
    [
        "= ANY", "<> ALL", "< ANY",
        *(pytest.param(f"{op} {how}", marks=pytest.mark.slow) for how in ("ANY", "ALL") for op in OPERATORS
          if f"{op} {how}" not in ("= ANY", "<> ALL", "< ANY")),
    ],
)  # fmt: skip
def test_quantifiers(asked: str) -> None:
    """Every comparison with every set, negated too, maintained incrementally."""
    questions = [f"b {asked} ({some})" for some in SETS]
    queries = [f"SELECT a, b, c, {q} AS v FROM t" for q in questions]
    queries += [f"SELECT a, b, c FROM t WHERE {q}" for q in questions]
    queries += [f"SELECT a, b, c FROM t WHERE NOT ({q})" for q in questions]
    check(TABLES, queries, BATCHES)
