"""The reference evaluator: Figure 2.1 of the thesis, over Q^k, by nested loops.

It defines what a query means and is the oracle of every later stage: slow, exact (`int` and `Fraction`), and
small enough to be checked by reading. Physical values; DOUBLE values enter weights as exact fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from typing import Any

from everfresh.algebra import Gmr, Key, Number, Weight, multiply, negate, one
from everfresh.calculus.binding import inputs, outputs
from everfresh.calculus.nodes import (
    Bind,
    Cond,
    Each,
    Exists,
    Lift,
    MapRef,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    Sum,
    Value,
    arity,
)
from everfresh.expr import each
from everfresh.expr import evaluate as scalar
from everfresh.types import canonical_float

Env = dict[str, Any]
Rows = Iterator[tuple[Env, Weight]]


Function = tuple[tuple[int, ...], Callable[[Key], Gmr]]
"""The positions of the key in a row, and the rows at a key."""


@dataclass
class Database:
    """What a query is evaluated over: tables and their changes (weights `(m,)`), maps (weights `(n, v1,
    ...)`), and relations with a row for every key, which can only be asked."""

    tables: Mapping[str, Gmr] = field(default_factory=dict)
    deltas: Mapping[str, Gmr] = field(default_factory=dict)
    maps: Mapping[str, Gmr] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)


def evaluate(query: Query, db: Database, env: Env | None = None) -> Gmr:
    """The result of `query`: tuples over `outputs(query)` in their order, with weights of arity
    `arity(query)`."""
    env = env or {}
    missing = [v.name for v in inputs(query) if v.name not in env]
    if missing:
        raise ValueError(f"variables {missing} of {query} are not bound")
    columns = outputs(query)
    return Gmr(
        (tuple(row[v.name] for v in columns), weight) for row, weight in _rows(query, db, env, arity(query))
    )


@singledispatch
def _rows(query: Query, db: Database, env: Env, k: int) -> Rows:
    """Bindings that extend `env`, with weights of arity k."""
    raise TypeError(f"{type(query).__name__} has no meaning")


def _match(names: list[str], key: tuple[Any, ...], env: Env) -> Env | None:
    row = dict(env)
    for name, value in zip(names, key, strict=True):
        if name in row and not same(row[name], value):
            return None
        row[name] = value
    return row


def same(a: Any, b: Any) -> bool:
    """Identity of physical values: NULL is NULL, NaN is NaN."""
    return a is b or a == b


@_rows.register
def _(query: Rel, db: Database, env: Env, k: int) -> Rows:
    names = [v.name for v in query.vars]
    if query.name in db.functions and not query.delta:
        positions, at = db.functions[query.name]
        table = at(tuple(env[names[i]] for i in positions))
    else:
        table = (db.deltas if query.delta else db.tables).get(query.name, Gmr())
    for key, (m, *_) in table.items():
        read = key if query.columns is None else tuple(key[place] for place in query.columns)
        row = _match(names, read, env)
        if row is not None:
            yield row, (m,) * (k + 1)


@_rows.register
def _(query: MapRef, db: Database, env: Env, k: int) -> Rows:
    names = [v.name for v in query.keys]
    for key, weight in db.maps.get(query.name, Gmr()).items():
        row = _match(names, key, env)
        if row is not None:
            picked = tuple(weight[c] if c >= 0 else 0 for c in query.components)
            yield row, picked if len(picked) == k + 1 else (picked[0],) * (k + 1)


@_rows.register
def _(query: Cond, db: Database, env: Env, k: int) -> Rows:
    if scalar(query.condition, env) is True:
        yield env, one(k)


@_rows.register
def _(query: Value, db: Database, env: Env, k: int) -> Rows:
    values = tuple(_number(scalar(item, env)) for item in query.items)
    yield env, (1, *values)


def _number(value: Any) -> Number:
    if value is None:
        raise ValueError("a value term is NULL: it must be guarded")
    return Fraction(value) if isinstance(value, float) else int(value)


@_rows.register
def _(query: Bind, db: Database, env: Env, k: int) -> Rows:
    value = scalar(query.expr, env)
    row = _match([query.var.name], (value,), env)
    if row is not None:
        yield row, one(k)


@_rows.register
def _(query: Each, db: Database, env: Env, k: int) -> Rows:
    for values in each(query.lists, env):
        row = _match([v.name for v in query.vars], values, env)
        if row is not None:
            yield row, one(k)


@_rows.register
def _(query: Prod, db: Database, env: Env, k: int) -> Rows:
    def times(weight: Weight, rows: Rows) -> Rows:
        return ((row, multiply(weight, factor)) for row, factor in rows)

    open_: list[Rows] = [iter([(env, one(k))])]  # the rows of each factor so far that are still to come
    while open_:
        found = next(open_[-1], None)
        if found is None:
            open_.pop()
        elif len(open_) > len(query.factors):
            yield found
        else:
            row, weight = found
            open_.append(times(weight, _rows(query.factors[len(open_) - 1], db, row, k)))


@_rows.register
def _(query: Plus, db: Database, env: Env, k: int) -> Rows:
    for term in query.terms:
        yield from _rows(term, db, env, k)


@_rows.register
def _(query: Neg, db: Database, env: Env, k: int) -> Rows:
    for row, weight in _rows(query.body, db, env, k):
        yield row, negate(weight)


def _grouped(query: Query, columns: list[str], db: Database, env: Env, k: int) -> Gmr:
    return Gmr((tuple(row[c] for c in columns), weight) for row, weight in _rows(query, db, env, k))


@_rows.register
def _(query: Sum, db: Database, env: Env, k: int) -> Rows:
    columns = [v.name for v in query.group]
    for key, weight in _grouped(query.body, columns, db, env, k).items():
        yield {**env, **dict(zip(columns, key, strict=True))}, weight


@_rows.register
def _(query: Lift, db: Database, env: Env, k: int) -> Rows:
    columns = [v.name for v in outputs(query.body)]
    found = _grouped(query.body, columns, db, env, 1)
    entries = [(key, weight) for key, weight in found.items() if weight[0] != 0]
    if query.closed and not entries:
        entries = [(tuple(env[c] for c in columns), (0, 0))]
    to_value: Callable[[Number], Any] = (
        (lambda x: canonical_float(float(x))) if query.var.type.is_float else int
    )
    for key, weight in entries:
        row = _match([*columns, query.var.name], (*key, to_value(weight[1])), env)
        if row is not None:
            yield row, one(k)


@_rows.register
def _(query: Exists, db: Database, env: Env, k: int) -> Rows:
    columns = [v.name for v in outputs(query.body)]
    for key, weight in _grouped(query.body, columns, db, env, arity(query.body)).items():
        if weight[0] != 0:
            yield {**env, **dict(zip(columns, key, strict=True))}, one(k)
