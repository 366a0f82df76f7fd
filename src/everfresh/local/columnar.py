"""Statements over one change, run column by column: the fast path for flat single-relation statements.

A statement `M[keys] += Sum_[keys](ΔR(...) * [c] * (x := e) * ⟨v⟩ + ...)` is a sum of products of one change
with scalars. Each product is a list of steps over vectors: filter, bind, value. The slow twin is the
reference evaluator (`everfresh.calculus.evaluate`); a property holds them equal. Also used to load a map in
bulk, with `R` in place of `ΔR`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import Bind, Cond, Neg, Plus, Prod, Query, Rel, Sum, Value
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate_vector, satisfied, variables
from everfresh.expr.vector import concat
from everfresh.local.codec import Codec, wide_words
from everfresh.local.pool import Layout, Values
from everfresh.program import MapDef
from everfresh.types import Column

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FlatTerm:
    """One product: `sign * R(vars) * steps`."""

    sign: int
    relation: str
    vars: tuple[str, ...]
    steps: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class FlatPlan:
    """A statement over one relation, ready to run."""

    target: MapDef[Any]
    terms: tuple[FlatTerm, ...]
    needs: frozenset[str]
    """The variables that are read; the others of the relation are never decoded."""

    def columns(self, names: Sequence[str]) -> frozenset[str]:
        """Which columns of the relation, of `names` in its order, have to be given to `run`."""
        return frozenset(
            name
            for term in self.terms
            for name, var in zip(names, term.vars, strict=True)
            if var in self.needs
        )


@dataclass(frozen=True, slots=True)
class MapDelta:
    """What a statement adds to its map: keys as vectors, counts, and one vector per component."""

    keys: tuple[Vector, ...]
    n: Ints
    components: tuple[Vector, ...]


def flat_plan(target: MapDef[Any], expr: Query) -> FlatPlan | None:
    """The plan of a statement, or None if it is not flat over one relation."""
    body = expr.body if isinstance(expr, Sum) else expr
    terms: list[FlatTerm] = []
    for term in body.terms if isinstance(body, Plus) else (body,):
        flat = _flat_term(term, len(target.kinds))
        if flat is None:
            return None
        terms.append(flat)
    if len({flat.relation for flat in terms}) != 1:
        return None
    needs: set[str] = {v.name for v in target.keys}
    for flat in terms:
        for step in flat.steps:
            needs |= {v.name for child in step.children for v in variables(child)}  # type: ignore[arg-type]
    return FlatPlan(target, tuple(terms), frozenset(needs))


def _flat_term(term: Query, k: int) -> FlatTerm | None:
    """One product of a relation, conditions, bindings of new variables, and k values."""
    sign = 1
    while isinstance(term, Neg):
        sign, term = -sign, term.body
    factors = term.factors if isinstance(term, Prod) else (term,)
    if not factors or not isinstance(factors[0], Rel):
        return None
    relation, steps = factors[0], factors[1:]
    if relation.columns is not None:
        return None
    bound = [v.name for v in relation.vars] + [step.var.name for step in steps if isinstance(step, Bind)]
    values = [len(step.items) for step in steps if isinstance(step, Value)]
    if not all(isinstance(step, Cond | Bind | Value) for step in steps):
        return None
    if len(set(bound)) != len(bound) or values != ([k] if k else []):
        return None
    return FlatTerm(sign, relation.name, tuple(v.name for v in relation.vars), steps)


def run(plan: FlatPlan, names: Sequence[str], columns: Mapping[str, Vector], weights: Ints) -> MapDelta:
    """The change of the plan's map for rows of a relation with columns `names`, given by name, with
    `weights`."""
    deltas = []
    for term in plan.terms:
        env = {var: columns[name] for name, var in zip(names, term.vars, strict=True) if name in columns}
        deltas.append(_run_term(plan.target, term, env, weights))
    if len(deltas) == 1:
        return deltas[0]
    return MapDelta(
        tuple(concat([d.keys[i] for d in deltas]) for i in range(len(plan.target.keys))),
        np.concatenate([d.n for d in deltas]) if deltas else np.zeros(0, np.int64),
        tuple(concat([d.components[i] for d in deltas]) for i in range(len(plan.target.kinds))),
    )


def _run_term(target: MapDef[Any], term: FlatTerm, env: dict[str, Vector], weights: Ints) -> MapDelta:
    n = weights * term.sign
    components: tuple[Vector, ...] = ()
    origin = np.arange(len(n))
    for step in term.steps:
        try:
            if isinstance(step, Cond):
                keep = satisfied(step.condition, env, len(n))
                if not keep.all():
                    env = {name: vector.filter(keep) for name, vector in env.items()}
                    components = tuple(vector.filter(keep) for vector in components)
                    n, origin = n[keep], origin[keep]
            elif isinstance(step, Bind):
                env[step.var.name] = evaluate_vector(step.expr, env, len(n))
            else:
                assert isinstance(step, Value)
                components = tuple(evaluate_vector(item, env, len(n)) for item in step.items)
        except EverfreshError as error:
            row = getattr(error, "row", None)
            if row is not None:
                error.row = int(origin[row])  # type: ignore[attr-defined]
            raise
    return MapDelta(tuple(env[v.name] for v in target.keys), n, components)


def to_words(delta: MapDelta, codec: Codec, layout: Layout) -> tuple[Ints, Values]:
    """The pool form of a map's change: key words, and count and components times the weights."""
    rows = len(delta.n)
    values = Values.zeros(layout, rows)
    values.n[:] = delta.n
    for kind, at, vector in zip(layout.kinds, layout.offsets, delta.components, strict=True):
        if kind == Kind.FLOAT:
            _weighted_floats(vector.values.astype(np.float64), delta.n, values.floats[at : at + 2])
        elif kind == Kind.COUNT:
            values.ints[at] = vector.values.astype(np.int64) * delta.n
        else:
            values.ints[at], values.ints[at + 1] = _weighted(vector, delta.n)
    return codec.encode_vectors(delta.keys, rows), values


def _weighted_floats(x: NDArray[np.float64], n: Ints, out: NDArray[np.float64]) -> None:
    """Products of values and weights, exact as a sum of two doubles: three inserts at once equal one three
    times.

    A product beyond the finite range stays infinite, which the pool refuses.
    """
    with np.errstate(over="ignore"):
        out[0] = x * n
    for i in np.flatnonzero((np.abs(n) > 1) & np.isfinite(out[0])):
        exact = Fraction(float(x[i])) * int(n[i])
        out[0, i] = float(exact)
        out[1, i] = float(exact - Fraction(float(out[0, i])))


def _weighted(vector: Vector, n: Ints) -> tuple[Ints, Ints]:
    """Exact products of values and weights, as 128-bit integers."""
    if vector.values.dtype != object:
        if not len(n):
            return n, n
        values = vector.values.astype(np.int64, copy=False)
        largest = max(abs(int(values.min())), abs(int(values.max())))
        if largest * max(abs(int(n.min())), abs(int(n.max()))) < 1 << 63:
            return wide_words(Vector(vector.type, values * n))
    exact = vector.values.astype(object) * n.astype(object)
    try:
        return wide_words(Vector(vector.type, exact))
    except OverflowError:
        raise EverfreshError(
            Code.OVERFLOW, "a sum is out of range", hint="the batch has too many copies of one large value"
        ) from None


def key_columns(target: MapDef[Any]) -> tuple[Column, ...]:
    """The keys of a map as columns."""
    return tuple(Column(v.name, v.type, v.nullable) for v in target.keys)
