"""The slow twin of derived relations and of programs: every map and every relation from the tables, in plain
Python.

Definitions go through the reference evaluator, rows of relations through the scalar one. Nothing here reads a
pool, so a map or relation of the engine that differs is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil, floor
from typing import Any

import pyarrow as pa

from everfresh.algebra import Gmr, Key, Weight
from everfresh.calculus import ZERO, Database, Function, Query, evaluate, outputs, relations
from everfresh.expr import Var, Vector
from everfresh.expr import evaluate as scalar
from everfresh.local import adhoc
from everfresh.local.batch.recompute import components
from everfresh.program import Intervals, MapDef, Partitions, Program, Side, View, beside, side_component
from everfresh.types import Column, canonical_float


def program_state(program: Program[Any], tables: Mapping[str, Gmr]) -> tuple[dict[str, Gmr], dict[str, Gmr]]:
    """All maps of a program and its derived relations over `tables` (and the views that it reads), but for
    relations with a row for every key."""
    maps: dict[str, Gmr] = {}
    derived: dict[str, Gmr] = {}
    functions: dict[str, Function] = {}
    defs = {m.name: m for m in program.maps}
    left: list[Any] = [*program.maps, *program.relations]
    while left:
        chosen = next(item for item in left if _ready(item, maps, {*derived, *functions}, program))
        left.remove(chosen)
        if isinstance(chosen, MapDef):
            maps[chosen.name] = map_entries(chosen, {**tables, **derived}, functions)
        elif isinstance(chosen, View) and chosen.always and defs[chosen.map].keys:
            functions[chosen.name] = _function(chosen, maps, defs)
        else:
            derived[chosen.name] = relation_rows(chosen, maps, defs)
    return maps, derived


def _function(view: View, maps: Mapping[str, Gmr], defs: Mapping[str, MapDef[Any]]) -> Function:
    shown = [e.name if isinstance(e, Var) else "" for e in view.outputs]
    positions = tuple(shown.index(v.name) for v in defs[view.map].keys)
    return positions, lambda key: relation_rows(view, maps, defs, [key])


def _ready(item: Any, maps: Mapping[str, Gmr], derived: Collection[str], program: Program[Any]) -> bool:
    if isinstance(item, MapDef):
        names = {r.name for r in program.relations}
        return all(n in derived for n in relations(item.definition) if n in names)
    return all(m in maps for m in item.maps)


def map_entries(
    target: MapDef[Query], tables: Mapping[str, Gmr], functions: Mapping[str, Function] | None = None
) -> Gmr:
    """What a map holds: its definition, without the entries whose count is zero."""
    if target.definition == ZERO:
        return Gmr()
    order = [[v.name for v in outputs(target.definition)].index(v.name) for v in target.keys]
    found = evaluate(target.definition, Database(tables=tables, functions=functions or {}))
    return Gmr((tuple(key[i] for i in order), weight) for key, weight in found.items() if weight[0] != 0)


def relation_rows(
    relation: View | Partitions[Any] | Intervals,
    maps: Mapping[str, Gmr],
    defs: Mapping[str, MapDef[Any]],
    at: Sequence[Key] | None = None,
) -> Gmr:
    """The rows of a derived relation over its maps: all, or those at some keys if there is a row for
    every key."""
    if isinstance(relation, Partitions):
        return _partition_rows(relation, maps[relation.map], defs[relation.map])
    if isinstance(relation, Intervals):
        return _interval_rows(relation, maps, defs)
    target, entries = defs[relation.map], maps[relation.map]
    keys: list[Key] = [key for key, _ in entries.items()]
    if relation.always:
        keys = [()] if at is None else list(at)
    out = Gmr()
    zero = (0,) * (len(target.kinds) + 1)
    for key in keys:
        weight = entries.get(key) or zero
        env: dict[str, Any] = dict(zip((v.name for v in target.keys), key, strict=True))
        env.update(components(weight, target.kinds))
        for number, side in enumerate(relation.sides, 1):
            env.update(_side(number, side, env, key, target, maps[side.map], defs[side.map]))
        if relation.having is not None and scalar(relation.having, env) is not True:
            continue
        times = (
            scalar(relation.weight, env) if relation.weight is not None else weight[0] if relation.bag else 1
        )
        if times:
            out.add(tuple(_canonical(scalar(e, env)) for e in relation.outputs), (int(times),))
    return out


def _interval_rows(relation: Intervals, maps: Mapping[str, Gmr], defs: Mapping[str, MapDef[Any]]) -> Gmr:
    """Every value at which the running sum may change, tried."""
    target, entries = defs[relation.map], maps[relation.map]
    low, high = relation.columns[0].type.bounds
    keys = sorted(key[0] for key, _ in entries.items())
    starts = sorted({low, *keys, *(k + 1 for k in keys if k < high)})
    env: dict[str, Any] = {}
    for number, side in enumerate(relation.sides, 1):
        env.update(_side(number, side, env, (), target, maps[side.map], defs[side.map]))
    found: list[tuple[int, int]] = []
    for start, end in zip(starts, [*(s - 1 for s in starts[1:]), high], strict=True):
        counted = [w for (k,), w in entries.items() if compared(k, relation.op, start)]
        sums = [sum(w[i] for w in counted) for i in range(len(target.kinds) + 1)]
        if scalar(relation.having, {**env, **components(tuple(sums), target.kinds)}) is not True:
            continue
        if found and found[-1][1] + 1 == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return Gmr((row, (1,)) for row in found)


def compared(a: Any, op: str, b: Any) -> bool:
    """Whether `a op b`."""
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _canonical(value: Any) -> Any:
    return canonical_float(value) if isinstance(value, float) else value


def _side(
    number: int,
    side: Side,
    env: Mapping[str, Any],
    key: Key,
    of: MapDef[Any],
    entries: Gmr,
    target: MapDef[Any],
) -> dict[str, Any]:
    own = [v.name for v in target.keys[: len(target.keys) - side.beyond]]
    names = {v.name for v in of.keys}
    at = tuple(env[n] for n in own) if set(own) <= names else key[: len(own)]
    if side.how == "at":
        weight: Weight = entries.get(at) or (0,) * (len(target.kinds) + 1)
        found = components(weight, target.kinds)
        return {beside(name, number): value for name, value in found.items()}
    if side.how == "first":
        found_keys = [k[len(own) :] for k, _ in entries.items() if k[: len(own)] == at]
        for place, (up, first) in reversed(list(enumerate(side.order))):
            missing = [k for k in found_keys if k[place] is None]
            known = [k for k in found_keys if k[place] is not None]
            known.sort(key=lambda k, place=place: _order(k[place]), reverse=not up)  # type: ignore[misc]
            found_keys = [*missing, *known] if first else [*known, *missing]
        return {side_component(number, "x"): found_keys[0][-1] if found_keys else None}
    if side.how in ("disc", "low", "high"):
        rows = [k[-1] for k, w in entries.items() if k[:-1] == at for _ in range(int(w[0]))]
        rows.sort(key=_order)
        n, f = len(rows), side.fraction
        chosen = {"disc": max(ceil(n * f) - 1, 0), "low": floor((n - 1) * f), "high": ceil((n - 1) * f)}
        return {side_component(number, "x"): rows[chosen[side.how]] if rows else None}
    values = [k[-1] for k, _ in entries.items() if k[:-1] == at and k[-1] is not None]
    if side.than:
        limit = env[side.key]
        values = [v for v in values if limit is not None and compared(_order(v), side.than, _order(limit))]
    choose = min if side.how == "min" else max
    return {side_component(number, "x"): choose(values, key=_order, default=None)}


def _order(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (value != value, 0.0 if value != value else value)


def _partition_rows(relation: Partitions[Any], entries: Gmr, target: MapDef[Any]) -> Gmr:
    """Each partition on its own."""
    parts: dict[Key, list[Key]] = {}
    for key, (n, *_) in entries.items():
        parts.setdefault(key[: relation.prefix], []).extend([key] * int(n))
    out = Gmr()
    for rows in parts.values():
        columns = [Column(v.name, v.type, v.nullable) for v in target.keys]
        bag = pa.table(
            {
                c.name: Vector.from_pylist([row[i] for row in rows], c.type).to_arrow()
                for i, c in enumerate(columns)
            }
        )
        found = adhoc.execute(relation.expr, lambda _, bag=bag: bag)  # type: ignore[misc]
        lists = [
            [_canonical(v) for v in Vector.from_arrow(found.column(i), c.type).to_pylist()]
            for i, c in enumerate(relation.columns)
        ]
        for row in zip(*lists, strict=True):
            out.add(row, (1,))
    return out
