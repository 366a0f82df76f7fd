"""Queries answered by views whose shape differs (the paper on array views, section 5).

A view over the same arrays with the same mapping, conditions and groups has the pairs of its own shape. The
offsets that only the query has are joined and added, those that only the view has are joined and taken away;
least and greatest values allow for the former alone. Whether this is sooner than the query's own join is for
the cost model to say: what counts is not how many offsets there are but in how many row intervals they lie,
and how many matches they lead to.

Invariant: both ways give the same rows, whatever the costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.cells import Array
from everfresh.arrays.join import best_rows
from everfresh.arrays.shape import Shape
from everfresh.arrays.views.definition import GROUPS, Definition, Hop, define
from everfresh.arrays.views.groups import Groups, relation
from everfresh.arrays.views.joins import fresh
from everfresh.arrays.views.pipeline import Pipeline
from everfresh.arrays.views.slots import ROWS, Changes, Columns, combined
from everfresh.arrays.views.stages import Base, Joined
from everfresh.errors import EverfreshError
from everfresh.expr.nodes import Expr, Var, substitute
from everfresh.local.adhoc import execute

Views = Mapping[str, tuple[Pipeline, tuple[Any, ...]]]


@dataclass(frozen=True)
class CostModel:
    """Seconds: for a join, for a cell of it, for a cell and interval, for a match, and for a view's cell."""

    start: float = 1e-3
    cell: float = 6e-8
    step: float = 7e-9
    match: float = 2.5e-9
    view: float = 1.2e-7

    def join(self, shape: Shape, arrays: Sequence[Array]) -> float:
        """What joining two arrays by a shape takes."""
        ndim = arrays[1].schema.ndim
        cells = sum(map(len, arrays))
        if not shape.is_bounded(ndim):
            return self.start + self.cell * cells + self.match * len(arrays[0]) * len(arrays[1])
        offsets = shape.cells(ndim)
        if not offsets:
            return 0.0
        intervals = len(best_rows(shape, ndim)[0])
        matches = len(arrays[0]) * offsets * density(arrays[1])
        return self.start + self.cell * cells + self.step * intervals * cells + self.match * matches


def density(array: Array) -> float:
    """How many tuples a cell near a tuple holds: of the average chunk, weighed by its tuples."""
    sizes = [
        (len(c), np.prod((c.box[1] - c.box[0] + 1).astype(float))) for c in list(array.chunks.values())[:512]
    ]
    total = sum(n for n, _ in sizes)
    return sum(n * n / volume for n, volume in sizes) / total if total else 0.0


@dataclass(frozen=True, eq=False)
class Answer:
    """How a query may be answered by a view, and what both ways cost."""

    query: aql.Query
    definition: Definition
    arrays: tuple[Array, ...]
    view: str
    groups: Groups
    places: tuple[int, ...]
    """The view's argument for each of the query's."""
    plus: Shape
    minus: Shape
    view_cost: float
    join_cost: float

    @property
    def by_view(self) -> bool:
        """Whether the view is expected to be sooner."""
        return self.view_cost < self.join_cost

    def rows(self) -> pa.Table:
        """The rows of the query, by the view."""
        parts = [self._known()]
        for sign, shape in ((1, self.plus), (-1, self.minus)):
            if _has_cells(shape, self.arrays[1].schema.ndim):
                hop = Hop(self.definition.hops[0].mapping, shape)
                of = replace(self.definition, hops=(hop,))
                parts += [_signed(change, sign) for change in fresh(of, self.arrays)]
        change = combined(parts)
        groups = Changes(np.empty(0, np.int64), {}) if change is None else _alive(change)
        return _selected(self.definition, groups)

    def joined(self) -> pa.Table:
        """The rows of the query, by its own join."""
        change = combined(list(fresh(self.definition, self.arrays)))
        return _selected(self.definition, Changes(np.empty(0, np.int64), {}) if change is None else change)

    def _known(self) -> Changes:
        known = self.groups.changes
        if not len(known):
            return known
        columns: Columns = {ROWS: known.columns[ROWS]}
        for k, at in enumerate(self.places):
            argument = self.definition.arguments[k]
            names = ["n", *(["s"] if argument.summed else []), *(["lo", "hi"] if argument.ordered else [])]
            columns |= {f"{n}{k}": known.columns[f"{n}{at}"] for n in names}
            columns[f"neg{k}"] = np.zeros(len(known), np.int64)
            if argument.summed and f"e{at}" in known.columns:
                columns[f"e{k}"] = known.columns[f"e{at}"]
            if argument.ordered:
                columns |= {f"blo{k}": columns[f"lo{k}"], f"bhi{k}": columns[f"hi{k}"]}
        return Changes(known.keys, columns)

    def __str__(self) -> str:
        chosen = "the view" if self.by_view else "the full join"
        return "\n".join(
            [
                str(self.query),
                f"by view {self.view}, cells of {self.plus} added and of {self.minus} taken away: "
                f"{self.view_cost * 1e3:.3g} ms",
                f"by a full join with {self.definition.hops[0].shape}: {self.join_cost * 1e3:.3g} ms",
                f"chosen: {chosen}",
            ]
        )


def best(
    query: aql.Query, arrays: Mapping[str, Array], views: Views, costs: CostModel | None = None
) -> Answer | None:
    """The cheapest way to answer a query by a view; None if no view has what it asks for."""
    found = [
        a for name in views for a in [answer(query, arrays, name, *views[name], costs or CostModel())] if a
    ]
    return min(found, key=lambda a: a.view_cost, default=None)


def answer(
    query: aql.Query,
    arrays: Mapping[str, Array],
    name: str,
    view: Pipeline,
    states: Sequence[Any],
    costs: CostModel,
) -> Answer | None:
    """How one view would answer a query; None if it cannot."""
    last = view.stages[-1]
    if (
        not (isinstance(last, Joined) and isinstance(query.join, aql.SimilarityJoin))
        or query.more
        or query.into
    ):
        return None
    sources = [view.stages[at] for at in last.inputs]
    operands = [query.left.array, query.join.right.array]
    if len(sources) != 2 or not query.group:
        return None
    for source, operand in zip(sources, operands, strict=True):
        if not (isinstance(source, Base) and isinstance(operand, aql.Read)):
            return None
        if source.name.lower() != operand.name.lower():
            return None
    given = [s.schema for s in sources]
    mine = last.definition
    try:
        asked = define(name, query, given)
    except EverfreshError:  # what a view cannot be is answered by its own join
        return None
    if mine.hops[0].mapping != asked.hops[0].mapping or mine.keys != asked.keys:
        return None
    if {_plainly(mine, c) for c in mine.where} != {_plainly(asked, c) for c in asked.where}:
        return None
    if asked.numbering.schema.dimensions != mine.numbering.schema.dimensions:
        asked = replace(asked, numbering=mine.numbering)
    places = []
    known = {
        (_plainly(mine, a.expr), a.filter and _plainly(mine, a.filter)): k
        for k, a in enumerate(mine.arguments)
    }
    for argument in asked.arguments:
        at = known.get((_plainly(asked, argument.expr), argument.filter and _plainly(asked, argument.filter)))
        if (
            at is None
            or argument.summed > mine.arguments[at].summed
            or argument.ordered > mine.arguments[at].ordered
        ):
            return None
        places.append(at)
    shape, own = asked.hops[0].shape, mine.hops[0].shape
    plus, minus = shape - own, own - shape
    groups: Groups = states[-1]
    ndim = given[1].ndim
    takes_away = _has_cells(minus, ndim)
    if takes_away and (any(a.ordered for a in asked.arguments) or not _finite(groups, places)):
        return None
    pair = tuple(s.array for s in groups.sources)
    cost = costs.view * sum(map(len, groups.blocks.values()))
    cost += sum(costs.join(some, pair) for some in (plus, minus) if _has_cells(some, ndim))
    return Answer(query, asked, pair, name, groups, tuple(places), plus, minus, cost, costs.join(shape, pair))


def _plainly(of: Definition, expr: Expr) -> Expr:
    """An expression with the columns named by source and place, whatever the arrays are called."""
    names: dict[str, Expr] = {
        v.name: Var(f"{k}.{at}", v.type, v.nullable)
        for k, scan in enumerate(of.scans)
        for at, v in enumerate(scan.vars)
    }
    return substitute(expr, names)


def _has_cells(shape: Shape, ndim: int) -> bool:
    return not shape.is_bounded(ndim) or shape.cells(ndim) > 0


def _finite(groups: Groups, places: Sequence[int]) -> bool:
    """Whether sums can be taken away from: none is infinite or no number."""
    known = groups.changes.columns
    return all(np.isfinite(known[f"s{k}"]).all() for k in places if f"e{k}" in known)


def _signed(change: Changes, sign: int) -> Changes:
    if sign > 0:
        return change
    return Changes(change.keys, {n: -c if n[0] in "rnse" else c for n, c in change.columns.items()})


def _alive(change: Changes) -> Changes:
    keep = change.columns[ROWS] > 0
    return Changes(change.keys[keep], {n: c[keep] for n, c in change.columns.items()})


def _selected(of: Definition, groups: Changes) -> pa.Table:
    if len(groups):
        table = relation(of, groups)
    else:
        from everfresh.types import arrow_schema

        table = arrow_schema(of.groups.columns).empty_table()
    return execute(of.select, {GROUPS: table}.__getitem__)
