"""Statements, run factor by factor over columns: what a trigger adds to a map, or the whole of it at a load.

A frame of bound variables with weights starts as one empty row; an atom joins it with the entries that agree
on the bound variables, a condition filters, a binding adds a column or compares with one, values multiply.
The slow twin is the reference evaluator. Rows whose count and values are all zero are dropped, and only
those: a change with count 0 and another value is real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everfresh.algebra import Kind
from everfresh.calculus import Bind, Cond, Each, MapRef, Query, Rel, Sum, Value, arity
from everfresh.compiler import Crossing
from everfresh.errors import EverfreshError
from everfresh.expr import Var, evaluate_vector, satisfied, spread
from everfresh.local.interpret.atoms import Atom, Found, Picked, Pooled
from everfresh.local.interpret.frame_columns import Cells, VectorsOf, assemble, same
from everfresh.local.interpret.join_order import Needs, Step, Term, atom_vars
from everfresh.local.interpret.weights import Number, Weights, from_vector
from everfresh.local.order.range_join import TooMany, ranged, visits_cost
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import joined_values
from everfresh.local.store.pool import Layout, Pool, Values
from everfresh.local.store.strings import Interner
from everfresh.types import Column

Ints = NDArray[np.int64]


class StatementScope(Protocol):
    """What the names of a statement stand for, and a counter of the entries that it visits."""

    visited: int

    @property
    def many(self) -> bool:
        """Whether the change has so many rows that products of it with itself are better taken apart."""

    @property
    def interner(self) -> Interner:
        """The strings of all columns."""

    def atom(self, factor: Rel | MapRef) -> Atom:
        """What a relation atom or a map read stands for."""

    def needs(self, atom: Rel) -> Sequence[int] | None:
        """The columns of a relation that must be bound before it can be read."""

    def between(self, crossing: Crossing) -> tuple[Ints, Atom] | None:
        """The entries that a change of a threshold passes, and what they are multiplied by, row by row of a
        frame; None if that is not known without looking at all entries."""


@dataclass(frozen=True, slots=True)
class PoolDelta:
    """What is added to a map, in the form of its pool."""

    words: Ints
    values: Values

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class _Frame:
    """Bound variables and weights, row by row; `origin` is the row of the change that each came from, if the
    product starts from one."""

    columns: dict[str, Cells]
    weights: Weights
    origin: Ints | None = None
    turns: bool = False
    """Whether it is given up where a range has too many entries."""

    @property
    def rows(self) -> int:
        return self.weights.rows

    def take(self, index: Ints, keep: frozenset[str] | None = None) -> None:
        self.columns = {n: c.take(index) for n, c in self.columns.items() if keep is None or n in keep}
        self.weights = self.weights.take(index, len(index))
        self.origin = None if self.origin is None else self.origin[index]

    def filter(self, mask: NDArray[np.bool_], keep: frozenset[str] | None = None) -> None:
        if not mask.all():
            self.take(np.flatnonzero(mask), keep)


def run_terms(
    terms: Sequence[Term], keys: Sequence[Var], codec: Codec, layout: Layout, scope: StatementScope
) -> PoolDelta:
    """What a statement adds to a map with these keys and components."""
    parts = []
    for frame in _frames(_chosen(terms, scope), len(layout.kinds), scope):
        if not frame.rows:
            continue
        words, able = assemble(codec, [frame.columns[v.name] for v in keys], frame.rows)
        if able is not None:
            raise ValueError(f"a key that is never NULL is: {', '.join(v.name for v in keys)}")
        parts.append(_pruned(words, frame.weights.pool_values(layout)))
    if not parts:
        return PoolDelta(np.zeros((codec.words, 0), np.int64), Values.zeros(layout, 0))
    return joined_deltas(parts)


def _frames(terms: Sequence[Term], k: int, scope: StatementScope) -> Iterator[_Frame]:
    """The results of terms, each the other way round where that is less to do."""
    for term in terms:
        try:
            found = [_run(term, k, scope, turns=bool(term.turned) and scope.many)]
        except TooMany:
            found = [_run(other, k, scope) for other in term.turned]
        yield from found


def _chosen(terms: Sequence[Term], scope: StatementScope) -> list[Term]:
    """The terms to run: those for many rows where the change has many."""
    if not scope.many:
        return list(terms)
    return [found for term in terms for found in (term.many or (term,))]


def joined_deltas(parts: Sequence[PoolDelta]) -> PoolDelta:
    """One change after the other; at least one."""
    if len(parts) == 1:
        return parts[0]
    return PoolDelta(
        np.concatenate([p.words for p in parts], axis=1),
        joined_values(*(p.values for p in parts)),
    )


def _pruned(words: Ints, values: Values) -> PoolDelta:
    there = values.n != 0
    if not there.all():
        there |= values.ints.any(axis=0) | values.floats.any(axis=0)
        if not there.all():
            return PoolDelta(np.ascontiguousarray(words[:, there]), values.take(there))
    return PoolDelta(words, values)


def _run(term: Term, k: int, scope: StatementScope, turns: bool = False) -> _Frame:
    sign = None if term.sign == 1 else np.full(1, term.sign, np.int64)
    count = None if term.counted else np.zeros(1, np.int64)
    frame, steps = _Frame({}, Weights(1, sign, count, [None] * k)), term.steps
    atom: Rel | MapRef | None = None
    narrowed: tuple[Ints, Atom] | None = None
    if term.narrow is not None and (narrowed := scope.between(term.narrow.crossing)) is not None:
        atom, steps = term.narrow.crossing.atom, term.narrow.steps
        frame = _Frame({}, Weights(len(narrowed[0]), term.sign * narrowed[0], None, [None] * k))
    frame.turns = turns
    left = list(reversed(steps))
    while left and frame.rows:  # without rows, what is left would only bind columns of none
        step = left.pop()
        try:
            if step.factor is atom and narrowed is not None:
                _add(frame, step, [v.name for v in atom_vars(atom)], narrowed[1], scope)
                continue
            left += reversed(_STEPS[type(step.factor)](frame, step, k, scope) or ())
        except EverfreshError as error:
            row, own = getattr(error, "row", None), isinstance(step.factor, Cond | Bind | Each | Value)
            named = row is not None and own and frame.origin is not None
            error.row = int(frame.origin[row]) if named else None  # type: ignore[attr-defined,index]
            raise
    return frame


def _join(frame: _Frame, step: Step, k: int, scope: StatementScope) -> Sequence[Step]:
    factor = step.factor
    assert isinstance(factor, Rel | MapRef)
    return _meet(frame, step, [v.name for v in atom_vars(factor)], scope.atom(factor), scope)


def _meet(frame: _Frame, step: Step, names: list[str], atom: Atom, scope: StatementScope) -> Sequence[Step]:
    """Join a frame with an atom, through an ordered index if the step has a range; what is left to do if
    that cannot answer."""
    if step.range is None:
        _add(frame, step, names, atom, scope)
        return ()
    want = [i for i, name in enumerate(names) if name not in frame.columns and name in step.keep]
    found = ranged(step.range, atom, names, frame.columns, frame.rows, want, step.summed, frame.turns)
    if found is not None:
        _take(frame, step, found, names, want, scope)
        return ()
    rows, columns, visited = frame.rows, frame.columns, scope.visited
    _add(frame, step.slow[0], names, atom, scope)
    visits_cost(step.range, atom, names, columns, (scope.visited - visited) / rows)
    return step.slow[1:]


def _add(frame: _Frame, step: Step, names: list[str], atom: Atom, scope: StatementScope) -> None:
    """Join a frame with an atom whose columns have these names."""
    bound = [frame.columns.get(name) for name in names]
    times = Counter(names)
    want = [i for i, name in enumerate(names) if bound[i] is None and (times[name] > 1 or name in step.keep)]
    _take(frame, step, atom.join(bound, frame.rows, want), names, want, scope)


def _take(
    frame: _Frame, step: Step, found: Found, names: list[str], want: Sequence[int], scope: StatementScope
) -> None:
    """Multiply a frame by what was found."""
    scope.visited += found.visited
    lead = isinstance(step.factor, Rel) and step.factor.delta and not frame.columns
    frame.take(found.at, step.keep)
    if lead and frame.origin is None:
        frame.origin = np.arange(len(found.at))
    if len(found.weight) == 1:
        frame.weights.times_all(found.weight[0])
    else:
        frame.weights.times_each(found.weight[0], found.weight[1:])
    for i in want:
        name = names[i]
        if names.index(name) == i:
            frame.columns[name] = found.columns[i]
    repeated = [i for i in want if names.index(names[i]) != i]
    if repeated:
        equal = np.logical_and.reduce(
            [same(found.columns[i], found.columns[names.index(names[i])]) for i in repeated]
        )
        frame.filter(equal, step.keep)


def _sum(frame: _Frame, step: Step, k: int, scope: StatementScope) -> Sequence[Step]:
    """A part of the product that reads nothing outside: aggregated on its own, then joined."""
    factor = step.factor
    assert isinstance(factor, Sum)
    own = k if arity(factor) else 0
    columns = [Column(v.name, v.type) for v in factor.group]
    codec = Codec(columns, scope.interner)
    frames = [_run(term, own, scope) for term in _chosen(step.inner, scope)]
    layout = _common_layout([f.weights.layout() for f in frames], own)
    pool = Pool(codec.words, layout)
    for part in frames:
        if not part.rows:
            continue
        words, _ = assemble(codec, [part.columns[v.name] for v in factor.group], part.rows)
        delta = _pruned(words, part.weights.pool_values(layout))
        pool.add(delta.words, delta.values)  # never committed: count 0 with another value stays
    atom = Picked(Pooled(codec, pool), tuple(range(own + 1)))
    return _meet(frame, step, [v.name for v in factor.group], atom, scope)


def _common_layout(layouts: Sequence[Layout], k: int) -> Layout:
    return Layout(tuple(max((x.kinds[i] for x in layouts), default=Kind.WIDE) for i in range(k)))


def _filter(frame: _Frame, step: Step, k: int, scope: StatementScope) -> None:
    factor = step.factor
    assert isinstance(factor, Cond)
    frame.filter(satisfied(factor.condition, VectorsOf(frame.columns), frame.rows), step.keep)


def _bind(frame: _Frame, step: Step, k: int, scope: StatementScope) -> None:
    factor = step.factor
    assert isinstance(factor, Bind)
    made = evaluate_vector(factor.expr, VectorsOf(frame.columns), frame.rows)
    cells = Cells.of(made, scope.interner)
    name = factor.var.name
    if name in frame.columns:
        frame.filter(same(frame.columns[name], cells), step.keep)
    elif name in step.keep:
        frame.columns[name] = cells


def _each(frame: _Frame, step: Step, k: int, scope: StatementScope) -> None:
    """A row for each place in the lists."""
    factor = step.factor
    assert isinstance(factor, Each)
    index, found = spread(factor.lists, VectorsOf(frame.columns), frame.rows)
    scope.visited += len(index)
    names = [v.name for v in factor.vars]
    frame.take(index, step.keep | {name for name in names if name in frame.columns})
    made = {name: Cells.of(v, scope.interner) for name, v in zip(names, found, strict=True)}
    equal = [same(frame.columns[name], cells) for name, cells in made.items() if name in frame.columns]
    frame.columns.update({n: c for n, c in made.items() if n in step.keep and n not in frame.columns})
    if equal:
        frame.filter(np.logical_and.reduce(equal), step.keep)


def _values(frame: _Frame, step: Step, k: int, scope: StatementScope) -> None:
    factor = step.factor
    assert isinstance(factor, Value)
    env = VectorsOf(frame.columns)
    numbers: list[Number | None] = [
        from_vector(evaluate_vector(item, env, frame.rows)) for item in factor.items
    ]
    frame.weights.times_each(None, numbers)


_STEPS: dict[type[Query], Callable[[_Frame, Step, int, Any], Sequence[Step] | None]] = {
    Rel: _join,
    MapRef: _join,
    Sum: _sum,
    Cond: _filter,
    Bind: _bind,
    Each: _each,
    Value: _values,
}

__all__ = ["Needs", "PoolDelta", "StatementScope", "joined_deltas", "run_terms"]
