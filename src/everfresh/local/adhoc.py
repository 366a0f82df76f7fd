"""Ad hoc queries over tables and views: a plan run once, node by node, over vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everfresh.compiler import compile_view
from everfresh.delta.bags import WEIGHT, expand, net
from everfresh.expr import Expr, Var, Vector, evaluate_vector
from everfresh.local.columnar import run
from everfresh.local.mapstore import MapStore
from everfresh.local.strings import Interner
from everfresh.sql import plan as p
from everfresh.types import arrow_schema

Source = Callable[[str], pa.Table]


@dataclass(frozen=True, slots=True)
class Frame:
    """Some rows as vectors by name."""

    columns: dict[str, Vector]
    rows: int


def execute(plan: p.Plan, source: Source) -> pa.Table:
    """The result of `plan`; `source` gives the rows of a table or view by name."""
    frame = _frame(plan, source)
    arrays = [frame.columns[c.name].to_arrow() for c in plan.columns]
    if not arrays:
        return pa.table({})
    return pa.Table.from_arrays(arrays, schema=arrow_schema(plan.columns))


def _from_table(table: pa.Table, vars_: tuple[Var, ...]) -> Frame:
    vectors = {v.name: Vector.from_arrow(table.column(i), v.type) for i, v in enumerate(vars_)}
    return Frame(vectors, table.num_rows)


def _frame(plan: p.Plan, source: Source) -> Frame:
    match plan:
        case p.Single():
            return Frame({}, 1)
        case p.Scan(table, _, vars_):
            return _from_table(source(table), vars_)
        case p.Filter(child, condition):
            frame = _frame(child, source)
            verdict = evaluate_vector(condition, frame.columns, frame.rows)
            keep = verdict.values if verdict.valid is None else verdict.values & verdict.valid
            return Frame({n: v.filter(keep) for n, v in frame.columns.items()}, int(keep.sum()))
        case p.Project(child, items):
            frame = _frame(child, source)
            return Frame({n: evaluate_vector(e, frame.columns, frame.rows) for n, e in items}, frame.rows)
        case p.Aggregate():
            return _aggregate(plan, _frame(plan.input, source))
        case p.Distinct(child):
            frame = _frame(child, source)
            table = _to_table(frame).append_column(WEIGHT, pa.array(np.ones(frame.rows, np.int64)))
            return _from_table(net(table).drop_columns([WEIGHT]), _vars(plan))
        case p.Sort(child, keys):
            return _sort(_frame(child, source), keys)
        case p.Limit(child, count, offset):
            frame = _frame(child, source)
            stop = frame.rows if count is None else min(frame.rows, offset + count)
            index = np.arange(min(offset, frame.rows), stop)
            return Frame({n: v.take(index) for n, v in frame.columns.items()}, len(index))
    raise TypeError(f"no way to run {type(plan).__name__}")


def _vars(plan: p.Plan) -> tuple[Var, ...]:
    return tuple(Var(c.name, c.type, c.nullable) for c in plan.columns)


def _to_table(frame: Frame) -> pa.Table:
    return pa.table({n: v.to_arrow() for n, v in frame.columns.items()})


def _aggregate(plan: p.Aggregate, frame: Frame) -> Frame:
    """Grouping by the same code that maintains a view: the query as a view over its input, loaded once."""
    scan = p.Scan("input", "input", tuple(Var(n, v.type, True) for n, v in frame.columns.items()))
    compiled = compile_view("query", replace(plan, input=scan))
    store = MapStore(compiled, Interner())
    load = store.load_plan()
    if load is not None:
        store.pool.commit(store.add(run(load, list(frame.columns), frame.columns, np.ones(frame.rows, np.int64))))
    return _from_table(expand(store.rows()), _vars(plan))


def _sort(frame: Frame, keys: tuple[tuple[Expr, bool, bool], ...]) -> Frame:
    if not frame.rows:
        return frame
    table = pa.table({f"k{i}": evaluate_vector(e, frame.columns, frame.rows).to_arrow() for i, (e, _, _) in enumerate(keys)})
    columns: list[tuple[str, str]] = []
    for i, (expr, ascending, nulls_first) in enumerate(keys):
        # A key of its own for NULLs: Arrow places them all at one end, SQL may ask for either per key.
        null = pc.is_null(table.column(f"k{i}"))
        table = table.append_column(f"n{i}", null.cast(pa.int8()))
        columns.append((f"n{i}", "descending" if nulls_first else "ascending"))
        if expr.type.is_float:  # NaN is the largest value
            nan = pc.fill_null(pc.is_nan(table.column(f"k{i}")), False)
            table = table.append_column(f"x{i}", nan.cast(pa.int8()))
            columns.append((f"x{i}", "ascending" if ascending else "descending"))
        columns.append((f"k{i}", "ascending" if ascending else "descending"))
    index = pc.sort_indices(table, sort_keys=columns).to_numpy()
    return Frame({n: v.take(index) for n, v in frame.columns.items()}, frame.rows)
