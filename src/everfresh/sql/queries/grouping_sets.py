"""GROUPING SETS, ROLLUP and CUBE: one aggregation by several sets of keys.

Each row is counted once for each set, with NULL for the keys that are not in it:

    Aggregate by [set, key...]: aggregates
      Project ..., key = CASE WHEN set IN (the sets that have it) THEN expression END
        Join inner
          the rows
          VALUES (0), (1), ...    the numbers of the sets

so the rows are read once whatever the number of sets, and a group of one set is never one of another. The
empty set has one row even where there are no rows; it is an aggregation of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

from sqlglot import exp

from everfresh.expr import Const, Expr, Var, build
from everfresh.sql.context import VariableNames
from everfresh.sql.logical.plan import Aggregate, Join, Named, Plan, Project, Single
from everfresh.sql.logical.renaming import defined, renamed
from everfresh.sql.logical.row_calls import AggregateCall
from everfresh.sql.queries.setops import all_rows
from everfresh.sql.source import Source
from everfresh.types import BIGINT

_MOST_SETS = 1024
Trees = tuple[Any, ...]


def grouping_sets(source: Source, trees: Sequence[Any]) -> list[Trees]:
    """The sets of keys that a GROUP BY lists; one, if it has no ROLLUP, CUBE and GROUPING SETS.

    >>> from sqlglot import parse_one
    >>> group = parse_one("SELECT 1 GROUP BY a, ROLLUP (b, c)").args["group"]
    >>> [[k.sql() for k in s] for s in grouping_sets(Source("", ()), group.expressions)]
    [['a', 'b', 'c'], ['a', 'b'], ['a']]
    """
    parts = [_sets(source, tree) for tree in trees]
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST_SETS:
        raise source.unsupported(f"GROUP BY of more than {_MOST_SETS} sets of keys", trees[0])
    return [tuple(chain.from_iterable(sets)) for sets in product(*parts)]


def _sets(source: Source, tree: Any) -> list[Trees]:
    """The sets of one element of GROUP BY."""
    keys = [_keys(part) for part in tree.expressions] if isinstance(tree, (exp.Rollup, exp.Cube)) else []
    if len(keys) > 12:
        raise source.unsupported(f"{tree.key.upper()} of more than 12 keys", tree)
    if isinstance(tree, exp.Rollup):
        return [tuple(chain.from_iterable(keys[:n])) for n in range(len(keys), -1, -1)]
    if isinstance(tree, exp.Cube):
        chosen = (c for n in range(len(keys), -1, -1) for c in combinations(keys, n))
        return [tuple(chain.from_iterable(c)) for c in chosen]
    if isinstance(tree, exp.GroupingSets):
        return [s for part in tree.expressions for s in _sets(source, part)]
    return [_keys(tree)]


def _keys(tree: Any) -> Trees:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tuple(tree.expressions) if isinstance(tree, exp.Tuple) else (tree,)


@dataclass(frozen=True)
class Sets:
    """What one aggregation by sets has in all its parts: the keys, the names of those of each set, the
    variable that says of which set a row is, and the aggregates."""

    keys: tuple[Named, ...]
    sets: tuple[frozenset[str], ...]
    number: str
    aggregates: tuple[tuple[str, AggregateCall], ...]
    names: VariableNames

    def over(self, plan: Plan) -> Plan:
        """The aggregation of a plan's rows."""
        with_keys = [i for i, s in enumerate(self.sets) if s]
        without = [i for i, s in enumerate(self.sets) if not s]
        if with_keys:
            return all_rows([self._by_keys(plan, with_keys), *(self._total_apart(plan, i) for i in without)])
        first, *more = without
        return all_rows([self._total(plan, first), *(self._total_apart(plan, i) for i in more)])

    def _by_keys(self, plan: Plan, here: list[int]) -> Plan:
        """The groups of the sets that have keys."""
        fresh = (self.number, *(self.names.fresh(self.number) for _ in here[1:]))
        numbers = [Project(Single(), ((n, Const(i, BIGINT)),)) for n, i in zip(fresh, here, strict=True)]
        pairs = Join("inner", plan, all_rows(list(numbers)))
        of = pairs.variables[-1]
        nulled = [
            (name, _where(of, [i for i in here if name in self.sets[i]], here, e)) for name, e in self.keys
        ]
        rows = Project(pairs, (*((v.name, v) for v in pairs.variables), *nulled))
        by = {v.name: v for v in rows.variables}
        listed = tuple((name, by[name]) for name in (self.number, *(name for name, _ in self.keys)))
        return Aggregate(rows, listed, self.aggregates, True)

    def _total(self, plan: Plan, at: int) -> Plan:
        """The one row of an empty set."""
        total = Aggregate(plan, (), self.aggregates, False)
        nulls = ((name, Const(None, e.type)) for name, e in self.keys)
        same = ((v.name, v) for v in total.variables)
        return Project(total, ((self.number, Const(at, BIGINT)), *nulls, *same))

    def _total_apart(self, plan: Plan, at: int) -> Plan:
        """The same with a reading of the rows, and names, of its own."""
        taken = chain(defined(plan), *(defined(call) for _, call in self.aggregates))
        own = (self.number, *(name for name, _ in (*self.keys, *self.aggregates)))
        other = {name: self.names.fresh(name) for name in dict.fromkeys((*taken, *own))}
        apart = replace(
            self,
            keys=tuple((other[name], e) for name, e in self.keys),
            number=other[self.number],
            aggregates=tuple((other[name], renamed(call, other)) for name, call in self.aggregates),
        )
        return apart._total(renamed(plan, other), at)


def _where(of: Var, has: list[int], here: list[int], key: Expr) -> Expr:
    """A key where its set has it, else NULL."""
    if has == here:
        return key
    return build.case([(build.in_list(of, [Const(i, BIGINT) for i in has]), key)])


def number_of(values: Sequence[int], number: Var) -> Expr:
    """What GROUPING gives: a number for each set, by the variable that says of which set a row is."""
    if len(set(values)) == 1:
        return Const(values[0], BIGINT)
    arms = []
    for value in dict.fromkeys(values):
        of = [Const(i, BIGINT) for i, v in enumerate(values) if v == value]
        arms.append((build.in_list(number, of), Const(value, BIGINT)))
    return build.case(arms[:-1], arms[-1][1])
