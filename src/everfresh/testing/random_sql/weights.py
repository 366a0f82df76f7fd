"""The productions of the generator, each with its weight, and how often each was used.

A production stands in one of the tables below or it does not exist: `Choices.pick` looks weights up here, and
`never_used` goes through all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

T = TypeVar("T")

QUERIES = {"rows": 5.0, "grouped": 6.0, "global": 2.0, "set operation": 2.0, "with": 1.2, "window": 1.3}
OPTIONS = {  # the chance of each
    "where": 0.5, "distinct": 0.15, "limit": 0.1, "offset": 0.3, "having": 0.4, "filter": 0.2,
    "position": 0.25, "key expression": 0.3, "hidden key": 0.15, "deviation": 0.12, "second conjunct": 0.3,
    "subquery in an aggregate": 0.06, "view over a view": 0.25, "flat view": 0.25, "self-join": 0.25,
    "correlated derived table": 0.6, "question": 0.45, "subquery in a window": 0.3,
    "ordinality": 0.25, "unnested item": 0.06, "pivot": 0.05, "unpivot": 0.05, "include nulls": 0.4,
}  # fmt: skip
SETS = {
    "UNION": 1.5, "UNION ALL": 1.5, "INTERSECT": 1.0, "INTERSECT ALL": 1.0, "EXCEPT": 1.3,
    "EXCEPT ALL": 1.0,
}  # fmt: skip
GROUPINGS = {"": 7.0, "ROLLUP": 0.7, "CUBE": 0.5}
SOURCES = {"table": 8.0, "derived table": 2.0}
JOINS = {
    "no join": 6.0, "JOIN": 3.0, "LEFT JOIN": 3.0, "RIGHT JOIN": 1.2, "FULL JOIN": 1.5, "CROSS JOIN": 0.7,
    "NATURAL JOIN": 0.6, "JOIN USING": 0.8, "LEFT JOIN USING": 0.5, "FULL JOIN USING": 0.4, "comma": 0.6,
    "CROSS JOIN LATERAL": 0.5, "LEFT JOIN LATERAL": 0.4, "CROSS JOIN UNNEST": 0.7, "LEFT JOIN UNNEST": 0.5,
}  # fmt: skip
LISTS = {"values": 2.0, "values or none": 1.2, "range": 1.0, "constants": 0.7}
ON = {"equality": 5.0, "equality and more": 3.0, "inequality": 1.3, "sameness": 0.8, "any condition": 1.0}
CORRELATIONS = {"equality correlation": 5.0, "inequality correlation": 2.0, "uncorrelated": 1.5}
LEAVES = {"column": 10.0, "outer column": 3.0, "literal": 1.0}
EXPRESSIONS = {
    "leaf": 9.0, "case": 0.8, "coalesce": 0.5, "nullif": 0.4, "scalar subquery": 1.6, "greatest": 0.3,
}  # fmt: skip
NUMBERS = {
    "plus": 1.0, "minus": 0.7, "times": 0.7, "half": 0.2, "negation": 0.3, "absolute": 0.3, "length": 0.2,
    "date part": 0.3, "truth as number": 0.2, "days between": 0.2, "list of numbers": 0.2,
    "lambda": 0.25, "distance": 0.15,
}  # fmt: skip
TEXTS = {
    "upper": 0.5, "concatenation": 0.4, "substring": 0.4, "pattern": 0.2, "formatted date": 0.2,
    "encoded": 0.2,
    "joined list": 0.2,
}  # fmt: skip
DATES = {"next day": 0.6, "date of a text": 0.2}
RATIOS = {"as double": 3.0}
TRUTHS = {"condition": 7.0}
CONDITIONS = {
    "and": 1.5, "or": 1.5, "not": 1.0, "compare": 4.0, "between": 0.6, "in list": 0.8, "not in list": 0.5,
    "like": 0.6, "is null": 0.7, "is not null": 0.8, "is distinct from": 0.5, "is not distinct from": 0.6,
    "truth column": 0.5, "case condition": 0.3, "labels": 0.3,
}  # fmt: skip
SUBQUERIES = {
    "exists": 1.0, "not exists": 1.0, "in query": 1.0, "not in query": 1.2, "any": 0.8, "all": 0.8,
    "row in query": 0.6, "row not in query": 0.6, "row any": 0.6, "row all": 0.6,
}  # fmt: skip
ROWS_OF_ONE = {"one by an aggregate": 5.0, "one by a limit": 1.0, "one of several": 0.7}
AGGREGATES = {
    "count rows": 1.2, "count": 1.0, "sum": 2.0, "min": 1.0, "max": 1.0, "count distinct": 0.7,
    "sum distinct": 0.6, "count_if": 0.4, "size of a list": 0.2, "second least": 0.2, "quantile_disc": 0.3,
    "first of a list": 0.2,
}  # fmt: skip
EXTREMES = {"min of a kind": 1.0, "max of a kind": 1.0}
TRUTH_AGGREGATES = {"bool_and": 1.0, "bool_or": 1.0, "compared aggregate": 0.7}
RATIO_AGGREGATES = {"avg": 3.0, "avg distinct": 0.5, "max of a kind": 1.0, "median": 0.5, "quantiles": 0.3}
TEXT_AGGREGATES = {"string_agg": 0.5, "first of a kind": 0.4, "list of texts": 0.3, "histogram": 0.3}
DEVIATIONS = {
    "stddev_samp": 1.0,
    "stddev_pop": 1.0,
    "var_samp": 1.0,
    "var_pop": 1.0,
    "stddev": 0.3,
    "variance": 0.3,
    "covar_pop": 0.4,
    "covar_samp": 0.4,
    "regr_sxy": 0.3,
    "mad": 0.2,
    "entropy": 0.2,
    "kurtosis_pop": 0.2,
}
OVER_AGGREGATES = {
    "plain aggregate": 7.0, "group key": 4.0, "sum of aggregates": 0.6, "default of an aggregate": 0.5,
    "case over aggregates": 0.4, "subquery of a group": 1.0,
}  # fmt: skip
HAVINGS = {
    "having comparison": 3.0, "having null": 0.5, "having and": 0.7, "having or": 0.5, "having not": 0.4,
    "having subquery": 3.0,
}  # fmt: skip
WINDOWS = {
    "row_number": 1.0, "rank": 1.0, "dense_rank": 1.0, "lag": 0.8, "lead": 0.8, "sum over": 1.0,
    "count over": 0.7, "ntile": 0.4, "percent_rank": 0.4, "cume_dist": 0.8, "nth_value": 0.4,
    "avg over": 0.6, "min over": 0.5, "max over": 0.5, "rows frame": 0.6,
}  # fmt: skip
BATCHES = {
    "few changes": 10.0, "empty batch": 0.5, "delete all of a table": 0.6, "delete everything": 0.4,
    "come and go": 0.6, "go and come": 0.6, "update of a key": 1.0, "duplicates": 0.7, "all tables": 1.3,
}  # fmt: skip

CLAUSES = ("select", "where", "having", "on")
_TABLES = (
    QUERIES, OPTIONS, SETS, GROUPINGS, SOURCES, JOINS, LISTS, ON, CORRELATIONS, LEAVES, EXPRESSIONS, NUMBERS,
    TEXTS, DATES, RATIOS, TRUTHS, CONDITIONS, SUBQUERIES, ROWS_OF_ONE, AGGREGATES, EXTREMES, TRUTH_AGGREGATES,
    RATIO_AGGREGATES, TEXT_AGGREGATES, DEVIATIONS, OVER_AGGREGATES, HAVINGS, WINDOWS, BATCHES,
)  # fmt: skip
WEIGHTS: dict[str, float] = {name: weight for table in _TABLES for name, weight in table.items()}
PLACED = tuple(f"{kind} in {clause}" for kind in (*SUBQUERIES, "scalar subquery") for clause in CLAUSES)
"""Every kind of subquery under every clause."""


def never_used(used: Counter[str], times: int = 1) -> list[str]:
    """The productions and placed subqueries used less than `times` times."""
    return [name for name in (*WEIGHTS, *PLACED) if used[name] < times]


class Choices:
    """Random choices among productions, counted, within a budget of nodes."""

    def __init__(self, rng: Random, used: Counter[str], budget: int) -> None:
        self.rng = rng
        self.used = used
        self.budget = budget

    def choose(self, names: Iterable[str]) -> str:
        """One of the productions, by weight."""
        names = list(names)
        (name,) = self.rng.choices(names, [WEIGHTS[name] for name in names])
        self.used[name] += 1
        return name

    def pick(self, makers: dict[str, Callable[[], T]]) -> T:
        """What one of the productions makes, by weight."""
        self.budget -= 1
        return makers[self.choose(makers)]()

    def chance(self, name: str) -> bool:
        """Whether an option is taken."""
        if self.rng.random() >= OPTIONS[name]:
            return False
        self.used[name] += 1
        return True
