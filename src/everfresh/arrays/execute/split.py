"""A query over pairs, or over cells, cut at what its groups need.

`below` is what a worker does with each block of rows alone. Where groups are asked for, partial aggregates
leave the worker instead of rows: COUNT, SUM, AVG, MIN, MAX, BOOL_AND and BOOL_OR fold, `combine` folds
partial ones once more, and `final` gives the query's rows. Aggregates that do not fold (DISTINCT, deviations)
get their rows. Whatever stands above a group is done by the owner of the group if it looks at one row at a
time, else with all rows at one place.

Invariant: for any cut of the rows into blocks and of the keys into places, the union of `final` over the
places is the query's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from everfresh.expr import Expr, Var
from everfresh.expr.build import call, cast, literal
from everfresh.sql.logical.plan import Aggregate, AggregateCall, Filter, Named, Plan, Project, Scan
from everfresh.types import BIGINT, DOUBLE, HUGEINT, arrow_schema, no_rows

ROWS = "\0pairs"
"""What `below` reads; no relation of a user has this name."""
PARTIAL = "\0partial"
WORKERS, GROUPS, DRIVER = "workers", "groups", "driver"
"""Where `final` runs: at each worker over its own rows, at the owner of each group, at one place."""
_FOLDS = {"sum": "sum", "min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or"}


@dataclass(frozen=True)
class Cut:
    """A query cut in two; `keys` of the first columns of what `below` gives decide who gets a row."""

    below: Plan
    combine: Plan | None
    final: Plan
    where: str
    keys: int = 0

    @property
    def schema(self) -> pa.Schema:
        """Of what `below` gives."""
        return arrow_schema(self.below.columns)

    def first(self, blocks: Iterable[pa.Table]) -> pa.Table:
        """What a worker has of its blocks, folded where that can be."""
        folding = Folding(self)
        for block in blocks:
            folding.add(block)
        return folding.done()

    def last(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The query's rows from what has come."""
        every = pa.concat_tables(parts) if parts else no_rows(self.schema)
        if self.where == WORKERS:
            return every
        return run(self.final, {PARTIAL: every})


class Folding:
    """What a worker has of the blocks that it was given so far."""

    def __init__(self, cut: Cut) -> None:
        self._cut, self._done, self._rows, self._most = cut, list[pa.Table](), 0, _MANY

    def add(self, block: pa.Table) -> None:
        """Take a block of what `below` reads."""
        cut = self._cut
        if not block.num_rows:
            return
        self._done.append(run(cut.below, {ROWS: block}))
        self._rows += self._done[-1].num_rows
        if cut.combine is not None and self._rows > self._most and len(self._done) > 1:
            self._done = [run(cut.combine, {PARTIAL: pa.concat_tables(self._done)})]
            self._rows = self._done[0].num_rows
            self._most = max(_MANY, 2 * self._rows)

    def done(self) -> pa.Table:
        """What all blocks come to."""
        if not self._done:
            return no_rows(self._cut.schema)
        found = pa.concat_tables(self._done)
        if self._cut.combine is not None and len(self._done) > 1:
            return run(self._cut.combine, {PARTIAL: found})
        return found


_MANY = 1 << 18


def run(plan: Plan, tables: dict[str, pa.Table]) -> pa.Table:
    """A plan over tables."""
    from everfresh.local.adhoc import execute

    return execute(plan, tables.__getitem__)


def cut(plan: Plan, leaf: Plan) -> Cut:
    """Cut a plan whose rows come from `leaf`, its only input."""
    path = [plan]
    while path[-1] is not leaf:
        (below,) = path[-1].inputs
        path.append(below)
    source = Scan(ROWS, ROWS, leaf.variables)
    at = len(path) - 1
    while at > 0 and isinstance(path[at - 1], Filter | Project):
        at -= 1
    below = _over(path[at:], source)
    if at == 0:
        return Cut(below, None, below, WORKERS)
    above, node = path[: at - 1], path[at - 1]
    if not isinstance(node, Aggregate):
        scan = Scan(PARTIAL, PARTIAL, below.variables)
        return Cut(below, None, _over([*path[:at], below], scan), DRIVER)
    alone = all(isinstance(one, Filter | Project) for one in above)
    where = GROUPS if node.grouped and alone else DRIVER
    folded = _folded(node, below)
    if folded is None:
        kept = _arguments(node, below)
        scan = Scan(PARTIAL, PARTIAL, kept.variables)
        final = _replaced(node, scan)
        return Cut(kept, None, _over([*above, node], final), where, len(node.keys))
    first, combine, final = folded
    return Cut(first, combine, _over([*above, node], final), where, len(node.keys))


def _over(path: Sequence[Plan], leaf: Plan) -> Plan:
    """The nodes of a path, root first, with another leaf in the place of its last."""
    found = leaf
    for one in reversed(path[:-1]):
        found = _with_input(one, found)
    return found


def _with_input(node: Plan, new: Plan) -> Plan:
    (old,) = node.inputs
    done = node.map_children(lambda child: new if child is old else child)
    assert isinstance(done, Plan)
    return done


def _arguments(node: Aggregate, below: Plan) -> Plan:
    """The keys and the arguments of aggregates that do not fold."""
    items: list[Named] = [(f"\0k{i}", e) for i, (_, e) in enumerate(node.keys)]
    for i, (_, one) in enumerate(node.aggregates):
        items += [(f"\0a{i}.{k}", arg) for k, arg in enumerate(one.args)]
        items += [(f"\0f{i}", one.filter)] if one.filter is not None else []
    return Project(below, tuple(items))


def _replaced(node: Aggregate, scan: Scan) -> Plan:
    known = {v.name: v for v in scan.vars}
    keys = tuple((name, known[f"\0k{i}"]) for i, (name, _) in enumerate(node.keys))
    calls = []
    for i, (name, one) in enumerate(node.aggregates):
        args = tuple(known[f"\0a{i}.{k}"] for k in range(len(one.args)))
        filtered = known[f"\0f{i}"] if one.filter is not None else None
        calls.append((name, AggregateCall(one.fn, args, one.distinct, filtered)))
    return Aggregate(scan, keys, tuple(calls), node.grouped)


def _folded(node: Aggregate, below: Plan) -> tuple[Plan, Plan, Plan] | None:
    """What makes partial aggregates, what folds them, and what ends them; None if some do not fold."""
    makes: list[tuple[str, AggregateCall]] = []
    folds: list[tuple[str, AggregateCall]] = []
    ends: list[Named] = []

    def part(name: str, one: AggregateCall) -> Var:
        """A partial aggregate, and what stands for it when all is folded."""
        held = Var(name, one.type, one.nullable)
        makes.append((name, one))
        folds.append((name, AggregateCall("sum" if one.fn == "count" else _FOLDS[one.fn], (held,))))
        return held

    for i, (name, one) in enumerate(node.aggregates):
        if one.distinct or (one.fn not in _FOLDS and one.fn not in ("count", "avg")):
            return None
        if one.fn == "avg":
            if not one.args[0].type.is_numeric:
                return None
            total = part(f"\0s{i}", AggregateCall("sum", one.args, filter=one.filter))
            count = part(f"\0n{i}", AggregateCall("count", one.args, filter=one.filter))
            ends.append((name, call("/", cast(total, DOUBLE), cast(count, DOUBLE))))
        else:
            ends.append((name, part(f"\0p{i}", one)))
    keys: list[Named] = [(f"\0k{i}", e) for i, (_, e) in enumerate(node.keys)]
    held = [Var(name, e.type, e.nullable) for name, e in keys]
    first = Aggregate(below, tuple(keys), tuple(makes), node.grouped)
    scan = Scan(PARTIAL, PARTIAL, first.variables)
    same: tuple[Named, ...] = tuple((v.name, v) for v in held)
    folded = Aggregate(scan, same, tuple(folds), node.grouped)
    combine = Project(folded, tuple((v.name, _as(v)) for v in first.variables))
    named: list[Named] = [(name, v) for (name, _), v in zip(node.keys, held, strict=True)]
    return first, combine, Project(combine, (*named, *ends))


def _as(wanted: Var) -> Expr:
    """A folded aggregate in the type that it had: sums of counts are counts, and 0 over nothing."""
    if wanted.type == BIGINT and not wanted.nullable and wanted.name.startswith(("\0p", "\0n")):
        found = Var(wanted.name, HUGEINT, True)
        return cast(call("coalesce", found, cast(literal(0), HUGEINT)), BIGINT)
    return wanted
