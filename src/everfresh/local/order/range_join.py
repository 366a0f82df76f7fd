"""Atoms that are joined by inequalities: the entries in a range, or their sums, from an ordered index.

`Range` says what is compared, a `Band` that follows the map knows the order. Where the index cannot answer (a
value that cannot be computed, a relation read as it was before, an entry that the condition would raise for)
nothing is returned, and the product is run over all entries, which is the slow twin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everfresh.compiler import VALUE, Comparison, Range
from everfresh.errors import EverfreshError
from everfresh.expr import Expr, Var, Vector, evaluate_vector, substitute, variables
from everfresh.local.adhoc.frame import take
from everfresh.local.interpret.atoms import Atom, Found, Picked, Pooled
from everfresh.local.interpret.frame_columns import Cells, VectorsOf, assemble
from everfresh.local.order.ranking import Ranks
from everfresh.local.order.value_index import Band, Limit
from everfresh.local.relations.view_reader import Reading, ViewReader
from everfresh.local.store.entries import EntryStore
from everfresh.types import Column, SqlType

Ints = NDArray[np.int64]
LONG: Final = 64
"""Entries of which more than so many are visited for a row are kept in order."""
Source = Picked | Reading


class TooMany(Exception):
    """The other way round there is less to do."""


def ranged(
    range_: Range,
    atom: Atom,
    names: Sequence[str],
    columns: Mapping[str, Cells],
    rows: int,
    want: Sequence[int],
    summed: bool,
    turns: bool = False,
) -> Found | None:
    """The entries of an atom with these variables in the range that each row of a frame sets; one entry that
    stands for all of them, with their sums, if `summed` and all components have some. If it `turns`, and the
    entries are many more than rows and entries together, it raises `TooMany`."""
    if not isinstance(atom, Source):
        return None
    held = held_in_order(atom)
    prefix = [i for i, name in enumerate(names) if name in columns]
    if held is None or (keys := _keys(atom, held, prefix)) is None:
        return None
    columns_ = tuple(column for column, _ in keys)
    if not _long(range_.value, atom, held, names, columns_, [columns[names[i]] for _, i in keys], rows):
        return None
    try:
        band = band_of(range_.value, atom, held, names, columns_)
        limits = asked(range_, band, VectorsOf(columns), rows)
    except EverfreshError:
        return None
    words, able = assemble(band.groups, [columns[names[i]] for _, i in keys], rows)
    if able is not None:
        limits = [[[(op, v.take(able)) for op, v in some] for some in clause] for clause in limits]
    spans = band.spans(limits, words)
    if summed and isinstance(atom, Picked) and band.summable(atom.components):
        some = np.flatnonzero(np.logical_or.reduce([start < stop for start, stop in spans]))
        numbers = band.numbers([(start[some], stop[some]) for start, stop in spans], atom.components)
        return Found(some if able is None else able[some], {}, numbers, len(some))
    if turns and sum(int((stop - start).sum()) for start, stop in spans) > LONG * (rows + len(held.pool)):
        raise TooMany
    at, slots = band.entries(spans)
    return atom.read(at if able is None else able[at], slots, want)


def held_in_order(atom: Source) -> Pooled | None:
    """The entries that can be kept in order; None if they are asked for as they were before."""
    if isinstance(atom, Picked):
        return atom.store
    reader = atom.reader
    if not isinstance(reader, ViewReader) or reader.view.always or reader.view.sides:
        return None
    return None if reader.store.target.name in atom.before else reader.store


def _keys(atom: Source, store: Pooled, bound: Sequence[int]) -> list[tuple[Column, int]] | None:
    """The columns of the store that bound columns of an atom are, in the store's order; None if one is
    computed."""
    places: list[int | None] = list(bound)
    if isinstance(atom, Reading):
        assert isinstance(atom.reader, ViewReader)
        places = [atom.reader.key_of[i] for i in bound]
    if None in places or len(set(places)) < len(places):
        return None
    found = sorted(zip(places, bound, strict=True))
    return [(store.columns[place], i) for place, i in found]  # type: ignore[index]


def _long(
    value: Expr,
    atom: Source,
    store: Pooled,
    names: Sequence[str],
    groups: Sequence[Column],
    asked: Sequence[Cells],
    rows: int,
) -> bool:
    """Whether it is better to keep the entries in order than to look at those that agree with the rows."""
    if not isinstance(store, EntryStore):
        return len(store.pool) > LONG
    name = _name(value, atom, names, groups)[0]
    if store.is_followed(name, wanted=True):
        return True
    if len(store.pool) > LONG:
        columns = tuple(c.name for c in groups)
        long = len(store.pool) > LONG * (len(store.slice(columns)) if columns else 1)
        if not long and rows > LONG and columns:  # most are short, but the rows may ask for a long one
            slice_ = store.slice(columns)
            long = slice_.met(assemble(slice_.codec, asked, rows)[0]) > LONG * rows
        if long:
            store.want(name)
            return True
    return False


def visits_cost(
    range_: Range, atom: Atom, names: Sequence[str], columns: Mapping[str, Cells], visits: float
) -> None:
    """So many entries were visited for each row, for want of an index: if many, use one from now on."""
    if visits <= LONG:
        return
    store = held_in_order(atom) if isinstance(atom, Source) else None
    if isinstance(store, EntryStore):
        keys = _keys(atom, store, [i for i, name in enumerate(names) if name in columns])  # type: ignore[arg-type]
        if keys is not None:
            store.want(_name(range_.value, atom, names, [column for column, _ in keys])[0])  # type: ignore[arg-type]


def _name(
    value: Expr, atom: Source, names: Sequence[str], groups: Sequence[Column]
) -> tuple[tuple[Any, ...], Expr]:
    """What an index is known by, and the value over the places of the atom's columns."""
    by_place: dict[str, Expr] = {
        v.name: Var(str(names.index(v.name)), v.type, v.nullable) for v in variables(value)
    }
    placed = substitute(value, by_place)
    of = "" if isinstance(atom, Picked) else atom.reader.view.name  # type: ignore[attr-defined]
    return ("band", of, placed, tuple(c.name for c in groups)), placed


def band_of(
    value: Expr, atom: Source, store: Pooled, names: Sequence[str], groups: tuple[Column, ...] = ()
) -> Band:
    """The entries of a store in the order of `value`, which is over the variables of an atom; it follows a
    map from now on, and is made for this once over anything else."""
    name, placed = _name(value, atom, names, groups)

    def make() -> Band:
        return _band(placed, atom, store, groups)

    if isinstance(store, EntryStore):
        return store.follower(name, make)
    band = make()
    slots = store.slots()
    band.add(slots, slots)
    return band


def band_name(value: Expr, store: EntryStore, groups: tuple[Column, ...]) -> tuple[Any, ...]:
    """What the entries of a map in the order of a value over its columns are known by."""
    return _name(value, Picked(store, ()), [c.name for c in store.columns], groups)[0]


def _band(value: Expr, atom: Source, store: Pooled, groups: tuple[Column, ...]) -> Band:
    """Entries by `value`, whose variables are the numbers of the atom's columns."""
    want = [int(v.name) for v in variables(value)]
    source = Picked(atom.store, ()) if isinstance(atom, Picked) else Reading(atom.reader, {})

    def values(slots: Ints, words: Ints) -> Vector:
        found = source.read(np.arange(len(slots)), slots, want)
        env = VectorsOf({str(i): cells for i, cells in found.columns.items()})
        made = evaluate_vector(value, env, len(found.at))
        if len(found.at) == len(slots):
            return made
        place = np.full(len(slots), -1, np.int64)
        place[found.at] = np.arange(len(found.at))
        return take(made, place)

    ranks = store.ranks if isinstance(store, EntryStore) else Ranks(store.codec.interner)
    return Band(store.pool, store.codec, values, value.type, groups, ranks)


# -- limits ------------------------------------------------------------------------------------------


def asked(range_: Range, band: Band, env: Mapping[str, Vector], rows: int) -> list[list[list[Limit]]]:
    """What a range asks of the entries, row by row; raises if a condition might for some entry."""
    for comparison in range_.comparisons:
        if comparison.guard is not None and (reach := band.reach) is not None:
            type_ = next(v.type for v in variables(comparison.guard) if v.name == VALUE)
            low, high = type_.bounds
            for end in reach:
                ends = np.full(rows, min(max(end, low), high), object if type_.is_wide else np.int64)
                evaluate_vector(comparison.guard, _with(env, VALUE, Vector(type_, ends)), rows)
    return [
        [[_limit(c, range_.value.type, evaluate_vector(c.limit, env, rows)) for c in some] for some in clause]
        for clause in range_.clauses
    ]


class _with(Mapping[str, Vector]):
    """An environment with one variable more."""

    def __init__(self, env: Mapping[str, Vector], name: str, vector: Vector) -> None:
        self._env, self._name, self._vector = env, name, vector

    def __getitem__(self, name: str) -> Vector:
        return self._vector if name == self._name else self._env[name]

    def __iter__(self) -> Any:
        return iter((*self._env, self._name))

    def __len__(self) -> int:
        return len(self._env) + 1


def _limit(comparison: Comparison, type_: SqlType, limit: Vector) -> Limit:
    """A limit in the units of the value.

    >>> from everfresh.types import BIGINT, DECIMAL
    >>> given = Comparison("<", Var("l", DECIMAL(38, 1)), 10)
    >>> op, found = _limit(given, BIGINT, Vector.from_pylist([70, 71, -1, 10**25], DECIMAL(38, 1)))
    >>> op, found.to_pylist()
    ('<=', [6, 7, -1, 9223372036854775807])
    """
    op, factor = comparison.op, comparison.shift
    if limit.type == type_:
        return op, limit
    low, high = type_.bounds
    given = limit.values
    if given.dtype != object:
        given = given.astype(np.int64, copy=False)
        if len(given) and max(-int(given.min()), int(given.max())) >> 62:  # one more may be one too many
            given = given.astype(object)
    found, exact = given // factor, (given % factor == 0).astype(np.bool_)
    if op == "=":
        able = exact & (found >= low).astype(np.bool_) & (found <= high).astype(np.bool_)
    elif op in ("<", "<="):
        found = found - exact if op == "<" else found
        able = (found >= low).astype(np.bool_)
    else:
        found = found + (np.True_ if op == ">" else ~exact)
        able = (found <= high).astype(np.bool_)
    if limit.valid is not None:
        able &= limit.valid
    inside = np.minimum(np.maximum(found, low), high).astype(object if type_.is_wide else np.int64)
    named = op if op == "=" else op[0] + "="
    return named, Vector(type_, inside, None if able.all() else able)
