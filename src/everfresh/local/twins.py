"""The slow twin of derived relations and of programs: every map and every relation from the tables, in plain
Python.

Definitions go through the reference evaluator, rows of relations through the scalar one. Nothing here reads a
pool, so a map or relation of the engine that differs is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import pyarrow as pa

from everfresh.algebra import Gmr, Key, Weight
from everfresh.calculus import ZERO, Database, Query, evaluate, outputs, relations
from everfresh.expr import Vector
from everfresh.expr import evaluate as scalar
from everfresh.local import adhoc
from everfresh.local.recompute import components
from everfresh.program import MapDef, Partitions, Program, Side, View
from everfresh.types import Column, SqlType, canonical_float


MOST_KEYS = 5_000
"""Keys at which a relation with a row for every key is given, at most."""


class TooLarge(Exception):
    """There are too many keys to give a relation at each of them."""


def program_state(program: Program[Any], tables: Mapping[str, Gmr]) -> tuple[dict[str, Gmr], dict[str, Gmr]]:
    """All maps of a program and all its derived relations over `tables` (and the views that it reads).

    A relation with a row for every key is given at all keys made of values that occur in tables or maps.
    """
    maps: dict[str, Gmr] = {}
    derived: dict[str, Gmr] = {}
    defs = {m.name: m for m in program.maps}
    left: list[Any] = [*program.maps, *program.relations]
    while left:
        chosen = next(item for item in left if _ready(item, maps, derived, program))
        left.remove(chosen)
        if isinstance(chosen, MapDef):
            maps[chosen.name] = map_entries(chosen, {**tables, **derived})
        else:
            derived[chosen.name] = relation_rows(
                chosen, maps, defs, _values([*tables.values(), *maps.values()])
            )
    return maps, derived


def _ready(item: Any, maps: Mapping[str, Gmr], derived: Mapping[str, Gmr], program: Program[Any]) -> bool:
    if isinstance(item, MapDef):
        names = {r.name for r in program.relations}
        return all(n in derived for n in relations(item.definition) if n in names)
    return all(m in maps for m in (item.maps if isinstance(item, View) else (item.map,)))


def map_entries(target: MapDef[Query], tables: Mapping[str, Gmr]) -> Gmr:
    """What a map holds: its definition, without the entries whose count is zero."""
    if target.definition == ZERO:
        return Gmr()
    order = [[v.name for v in outputs(target.definition)].index(v.name) for v in target.keys]
    found = evaluate(target.definition, Database(tables=tables))
    return Gmr((tuple(key[i] for i in order), weight) for key, weight in found.items() if weight[0] != 0)


def _values(gmrs: Iterable[Gmr]) -> list[Any]:
    found = (value for gmr in gmrs for key, _ in gmr.items() for value in key)
    return [None, *(value for _, value in dict.fromkeys((type(v), v) for v in found if v is not None))]


def _fits(value: Any, type_: SqlType) -> bool:
    if value is None:
        return True
    if type_.name == "VARCHAR":
        return isinstance(value, str)
    if type_.is_float or type_.name == "BOOLEAN":
        return isinstance(value, float if type_.is_float else bool)
    return isinstance(value, int) and not isinstance(value, bool)


def relation_rows(
    relation: View | Partitions[Any],
    maps: Mapping[str, Gmr],
    defs: Mapping[str, MapDef[Any]],
    values: Sequence[Any] = (),
) -> Gmr:
    """The rows of a derived relation over its maps; `values` are those that keys are made of where there is
    a row for every key."""
    if isinstance(relation, Partitions):
        return _partition_rows(relation, maps[relation.map], defs[relation.map])
    target, entries = defs[relation.map], maps[relation.map]
    keys: list[Key] = [key for key, _ in entries.items()]
    if relation.always:
        domains = [[v for v in values if _fits(v, key.type)] for key in target.keys]
        if prod(map(len, domains)) > MOST_KEYS:
            raise TooLarge(relation.name)
        keys = list(product(*domains))
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
    own = [v.name for v in (target.keys if side.how == "at" else target.keys[:-1])]
    names = {v.name for v in of.keys}
    at = tuple(env[n] for n in own) if set(own) <= names else key[: len(own)]
    if side.how == "at":
        weight: Weight = entries.get(at) or (0,) * (len(target.kinds) + 1)
        found = components(weight, target.kinds)
        return {f"#{number}.{name[1:]}": value for name, value in found.items()}
    values = [k[-1] for k, _ in entries.items() if k[:-1] == at and k[-1] is not None]
    choose = min if side.how == "min" else max
    return {f"#{number}.x": choose(values, key=_order, default=None)}


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
