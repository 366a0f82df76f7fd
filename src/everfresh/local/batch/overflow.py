"""Values that maps take apart, checked as a whole where they may leave their types (`compiler.overflow`).

How far columns reach is known from their tables, and kept up with each batch. As long as no value of a view
can leave its type, that is all. A batch after which one can is checked before it is committed: the rows that
it brings are joined with the others by the view's own query, and its values computed as SELECT computes them.
Columns are then looked at anew, as the rows that reached that far may have gone.

Invariant: a batch is committed only if every value that SELECT would compute for its views is of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from everfresh.compiler import Catalog, ViewDef
from everfresh.compiler.overflow import Guards, Interval, Reach
from everfresh.errors import EverfreshError
from everfresh.expr import Made, build
from everfresh.expr.nodes import Const, Expr
from everfresh.local import adhoc
from everfresh.local.kernels.hashing import Ints
from everfresh.local.store.codec import Codec
from everfresh.local.store.table import Net, Table
from everfresh.sql.logical import plan as p
from everfresh.types import Column

_FEW = 64  # rows whose extremes are found faster without NumPy
Rows = Callable[[str], pa.Table]


class Unsplit:
    """The checks of all views of a catalog; tables that `before` knows are not looked at again."""

    def __init__(self, catalog: Catalog, before: Unsplit | None = None) -> None:
        self.catalog = catalog
        self._guards = Guards({name: view.compiled for name, view in catalog.views.items()})
        self._reach = Reach()
        self._counts: dict[str, int] = {}
        self._known: dict[str, tuple[Table, tuple[int, ...]]] = {}
        self._hiding: frozenset[str] = frozenset()
        if before is not None:
            self._reach, self._counts = before._reach.copy(), dict(before._counts)
            self._known = dict(before._known)
            self._judge()

    def check(self, nets: Mapping[str, Net], tables: Mapping[str, Table], rows: Rows) -> None:
        """Refuse changes that were made to tables, and are in `rows`, if a view computes a value of them that
        is outside its type."""
        if not self._guards.watched:
            return
        if self._seen(nets, tables):
            self._judge()
        if not self._hiding:
            return
        for view in self.catalog.affected_by(nets):
            if view.name in self._hiding:
                self.forget()  # the rows that reached so far may be refused, or have gone
                self._compute(view, nets, tables, rows)

    def check_view(self, name: str, tables: Mapping[str, Table], rows: Rows) -> None:
        """The same for a new view, over all rows."""
        if name in self._guards.watched and self._seen({}, tables):
            self._judge()
        if name in self._hiding:
            self._compute(self.catalog.views[name], {}, tables, rows)

    def forget(self) -> None:
        """Rows have come or gone without a check: tables are looked at anew."""
        self._known.clear()

    # -- how far columns reach -------------------------------------------------------------------------------

    def _judge(self) -> None:
        found = {n for n in self._guards.watched if self._guards.hides(n, self._reach) is not None}
        self._hiding = frozenset(found)

    def _seen(self, nets: Mapping[str, Net], tables: Mapping[str, Table]) -> bool:
        """Take note of what changed; whether a column, or a table, reaches further."""
        columns = self._guards.columns
        new = [n for n, places in columns.items() if self._known.get(n) != (tables[n], places)]
        grown = bool(new)
        for name in new:
            self._look(name, tables[name], columns[name])
        for name, net in nets.items():
            if name in columns and name not in new:
                self._counts[name] += net.rows
                grown |= self._note(name, tables[name].codec, columns[name], net.words)
        return grown

    def _look(self, name: str, table: Table, places: tuple[int, ...]) -> None:
        """All rows of a table."""
        for place in places:
            self._reach.columns.pop((name, place), None)
        slots = table.pool.live()
        self._counts[name] = int(table.pool.gather(slots).n.sum())
        self._reach.rows.pop(name, None)
        self._note(name, table.codec, places, table.pool.keys_at(slots))
        self._known[name] = table, places

    def _note(self, name: str, codec: Codec, places: tuple[int, ...], words: Ints) -> bool:
        grown = self._reach.add(name, self._counts[name])
        for place in places:
            least, most = extremes(codec, codec.columns[place], words) if words.shape[1] else (0, 0)
            grown |= self._reach.see(name, place, least, most)
        return grown

    # -- values as SELECT computes them ----------------------------------------------------------------------

    def _compute(
        self, view: ViewDef, nets: Mapping[str, Net], tables: Mapping[str, Table], rows: Rows
    ) -> None:
        plan = view.compiled.plan
        joined = _rows_of(plan)
        read = [scan.table for scan in p.scans(plan)]
        once = joined is not None and all(n in tables and read.count(n) == 1 for n in read)
        try:
            if joined is None or not once or not nets:
                adhoc.execute(plan, rows)
                return
            for name in (n for n in nets if n in read):
                come = tables[name].codec.decode(nets[name].words[:, nets[name].weights > 0])
                adhoc.execute(joined, partial(_instead, rows, name, come))
        except EverfreshError as error:
            raise error.at(f"view '{view.name}'") from error


def _instead(rows: Rows, table: str, come: pa.Table, name: str) -> pa.Table:
    """The rows of relations, of one table only those that come."""
    return come if name == table else rows(name)


def extremes(codec: Codec, column: Column, words: Ints) -> Interval:
    """The least and the greatest value of a column; of 128 bits, by their high half."""
    places, _ = codec.places(column)
    first = words[places[0]]
    if len(first) <= _FEW:
        values = first.tolist()
        least, most = min(values), max(values)
    else:
        least, most = int(np.min(first)), int(np.max(first))
    return (least << 64, (most << 64) + (1 << 64) - 1) if column.type.is_wide else (least, most)


def _rows_of(plan: p.Plan) -> p.Plan | None:
    """What a plan computes of each row that it joins, so that it can be computed of some rows alone; None if
    rows do not stand for themselves in it."""
    while isinstance(plan, p.Project | p.Filter | p.Sort) and _aggregates(plan):
        plan = plan.input
    if isinstance(plan, p.Aggregate):
        asked = [
            (Made(f"@{i}"), _asked(call, arg))
            for i, (call, arg) in enumerate((call, arg) for _, call in plan.aggregates for arg in call.args)
        ]
        plan = p.Project(plan.input, (*plan.keys, *asked))
    plain = p.Scan | p.Filter | p.Project | p.Join | p.Sort
    for node in plan.walk():
        if isinstance(node, p.Subquery) or (isinstance(node, p.Plan) and not isinstance(node, plain)):
            return None
        if isinstance(node, p.Join) and node.kind != "inner":
            return None
    return plan


def _aggregates(plan: p.Plan) -> bool:
    return any(isinstance(node, p.Aggregate) for node in plan.walk())


def _asked(call: p.AggregateCall, arg: Expr) -> Expr:
    return arg if call.filter is None else build.case([(call.filter, arg)], Const(None, arg.type))
