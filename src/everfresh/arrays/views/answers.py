"""Queries answered by views whose shape differs (the paper on array views, section 5).

A view over the same arrays with the same mapping, conditions and groups has the pairs of its own shape. The
offsets that only the query has are joined and added, those that only the view has are joined and taken away;
least and greatest values allow for the former alone. Whether this is sooner than the query's own join is for
the cost model to say: what counts is not how many offsets there are but in how many row intervals they lie,
and how many matches they lead to.

Invariant: both ways give the same rows, whatever the costs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
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
from everfresh.types import no_rows

Views = Mapping[str, tuple[Pipeline, tuple[Any, ...]]]


@dataclass(frozen=True)
class CostModel:
    """Seconds: for a join, for a cell of it, for a cell and interval, for a match, for a group that a join
    makes, and for a cell of a view. The defaults were measured; `calibrated` measures them where it runs."""

    start: float = 1.1e-3
    cell: float = 4.9e-8
    step: float = 3.8e-9
    match: float = 2.0e-8
    group: float = 3.8e-7
    view: float = 4.0e-8

    def join(self, shape: Shape, arrays: Sequence[Array]) -> float:
        """What joining two arrays by a shape takes."""
        known = (self.start, self.cell, self.step, self.match, self.group)
        return float(np.dot(features(shape, arrays), known))


def features(shape: Shape, arrays: Sequence[Array]) -> list[float]:
    """What a join's costs are multiples of: a join, its cells, cells and intervals, matches, groups."""
    ndim, left = arrays[1].schema.ndim, len(arrays[0])
    cells = sum(map(len, arrays))
    if not shape.is_bounded(ndim):
        return [1.0, cells, cells, float(left) * len(arrays[1]), left]
    offsets = shape.cells(ndim)
    if not offsets:
        return [0.0] * 5
    matches = left * offsets * density(arrays[1])
    return [1.0, cells, float(len(best_rows(shape, ndim)[0])) * cells, matches, min(left, matches)]


def calibrated(seed: int = 0, cells: Sequence[int] = (5_000, 40_000)) -> CostModel:
    """The model fitted to small joins that are timed now, which takes about a second: least squares of
    relative errors, none below 0."""
    from scipy.optimize import nnls

    from everfresh.arrays.evaluate import create
    from everfresh.arrays.shape import L1, L2, Linf

    rng = np.random.default_rng(seed)
    query = parse(
        "SELECT COUNT(*) AS n, SUM(y.v) AS s FROM a AS x SIMILARITY JOIN a AS y ON (y.i = x.i AND y.j = x.j) "
        "WITH SHAPE L1(1) GROUP BY x.i, x.j"
    )
    assert isinstance(query, aql.Query)
    rows, times, kept = [], [], []
    for count in cells:
        for wide in (int(count**0.5), 4 * int(count**0.5)):
            a = create(f"CREATE ARRAY a <v: DOUBLE> [i=0,{wide},50; j=0,{wide},50]").changed(
                (tuple(rng.integers(0, wide, (2, count))), rng.random(count))
            )
            for shape in (L1(1), Linf(1), Linf(1).without_center(), L2(3), Linf(3)):
                made = define("v", query, [a.schema] * 2)
                of = replace(made, hops=(Hop(made.hops[0].mapping, shape),))
                took = min(_timed(of, a) for _ in range(2))
                rows.append(features(shape, (a, a)))
                times.append(took)
            groups = combined(list(fresh(of, (a, a))))
            assert groups is not None
            started = time.perf_counter()
            _selected(of, groups)
            kept.append((time.perf_counter() - started) / len(groups))
    weight = 1 / np.array(times)
    found, _ = nnls(np.array(rows) * weight[:, None], np.ones(len(times)))
    start, cell, step, match, group = (float(x) for x in found)
    return CostModel(start, cell, step, match, group, float(np.median(kept)))


def _timed(of: Definition, array: Array) -> float:
    started = time.perf_counter()
    change = combined(list(fresh(of, (array, array))))
    assert change is not None
    _selected(of, change)
    return time.perf_counter() - started


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
                columns[f"big{k}"] = np.abs(known.columns[f"s{at}"])
            if argument.ordered:
                columns |= {f"blo{k}": columns[f"lo{k}"], f"bhi{k}": columns[f"hi{k}"]}
        return Changes(known.keys, columns)

    def _said(self, shape: Shape) -> str:
        return str(shape) if _has_cells(shape, self.arrays[1].schema.ndim) else "nothing"

    def __str__(self) -> str:
        chosen = "the view" if self.by_view else "the full join"
        return "\n".join(
            [
                str(self.query),
                f"by view {self.view}, added {self._said(self.plus)}, taken away {self._said(self.minus)}: "
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

        table = no_rows(arrow_schema(of.groups.columns))
    return execute(of.select, {GROUPS: table}.__getitem__)
