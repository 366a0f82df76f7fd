"""A base table: its rows in a pool, and the resolution of a batch against them.

Rows of a table with a primary key are unique by it; without one the table is a bag, each distinct row with
its multiplicity. `resolve` turns the parts of a batch into one net change of full rows: deletes before
inserts, judged by the net effect (`+x -x` is nothing, whether x is there or not). It reads the state before
the batch, changes nothing, and names the row it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate_vector, satisfied
from everfresh.local import incoming_kernels as kernels
from everfresh.local.codec import Codec
from everfresh.local.feeds import signed_changes
from everfresh.local.pool import Layout, Pool, Touched, Values
from everfresh.local.strings import Alive, Interner
from everfresh.local.texts import Texts
from everfresh.program import OnConflict, Part
from everfresh.state.interrupts import HeldBack
from everfresh.types import TableSchema

Ints = NDArray[np.int64]
_NO_VALUES = Layout(())
_NONE = np.zeros(0, np.int64)


@dataclass(slots=True)
class Net:
    """The net change of a table: full rows as words, with weights that are not zero.

    `found` is what the table knows of a change that it has resolved itself: rows that go come first then.
    """

    words: Ints
    weights: Ints
    found: Found | None = None
    fresh: Ints | None = None
    """The words of strings that are only kept, of this batch: those that no row takes are released."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def rows(self) -> int:
        """How many rows come or go, duplicates counted."""
        return len(self.weights) if self.found is not None else int(np.abs(self.weights).sum())


@dataclass(slots=True)
class Found:
    """The slots of the rows that go, and the hashes of the keys that come."""

    gone: Ints
    tags: Ints


@dataclass(slots=True)
class TableUndo:
    """What an applied change did to a table."""

    touched: Touched | None = None
    removed: Ints | None = None
    inserted: Ints | None = None
    net: Net | None = None


@dataclass
class _Signed:
    """Rows with weights on their way to a net change, and where each came from."""

    words: list[Ints] = field(default_factory=list)
    weights: list[Ints] = field(default_factory=list)
    origin: list[tuple[Part, int, Ints | None]] = field(default_factory=list)
    """Parts, how many rows are of each, and which they are, if not all in order."""
    fresh: list[Ints] = field(default_factory=list)
    goes: bool = False
    """Whether some weights are negative."""

    def add(self, part: Part, words: Ints, weight: int, rows: Ints | None = None) -> None:
        count = words.shape[1]
        self.words.append(words)
        self.weights.append(np.full(count, weight, np.int64))
        self.origin.append((part, count, rows))
        self.goes |= weight < 0

    def joined(self, rows: int) -> tuple[Ints, Ints]:
        """All rows, of so many words, and their weights."""
        if len(self.words) == 1:
            return self.words[0], self.weights[0]
        if not self.words:
            return np.zeros((rows, 0), np.int64), np.zeros(0, np.int64)
        return np.concatenate(self.words, axis=1), np.concatenate(self.weights)

    def place(self, index: int) -> str:
        """Where row `index` of all rows came from, for an error."""
        for part, count, rows in self.origin:
            if index < count:
                return f"{part.what}, row {part.number(index if rows is None else int(rows[index]))}"
            index -= count
        raise IndexError(index)


class Table:
    """The rows of one table (or of one partition of it)."""

    def __init__(
        self,
        schema: TableSchema,
        interner: Interner,
        pool: Pool | None = None,
        texts: Texts | None = None,
        kept: Collection[str] = (),
    ) -> None:
        self.schema = schema
        self.codec = Codec(schema.columns, interner, texts, kept)
        self._key = self.codec.positions(schema.key)
        self.pool = pool or Pool(self.codec.words, _NO_VALUES, self._key or None)

    def __len__(self) -> int:
        """The number of rows, duplicates counted."""
        return len(self.pool) if self._key else int(self.pool.gather(self.pool.live()).n.sum())

    def check_loadable(self, view: str) -> None:
        """Raise unless a view can be filled from the rows that have come so far: here it can."""

    # -- resolution --------------------------------------------------------------------------------

    def resolve(self, parts: Sequence[Part]) -> Net:
        """The net change that `parts` make; raises, naming a row, if the table would not allow it."""
        signed = _Signed()
        try:
            net = self._named(parts[0], signed) if len(parts) == 1 else None
            if net is None:
                for part in parts:
                    getattr(self, f"_{part.op}")(part, signed)
                words, weights = signed.joined(self.codec.words)
                net = self._quickly(words, weights, signed.goes) if self._key else None
                if net is None:
                    net = self._judged(words, weights, signed)
        except BaseException:
            for fresh in signed.fresh:
                self.codec.texts.release(fresh)
            raise
        if not signed.fresh:
            return net
        fresh = signed.fresh[0] if len(signed.fresh) == 1 else np.concatenate(signed.fresh)
        return Net(net.words, net.weights, net.found, fresh)

    def _named(self, part: Part, signed: _Signed) -> Net | None:
        """The same for rows that are all found by their key and go, or change: nothing is left to judge."""
        if part.op == "delete_key":
            slots = self._found(part, "delete")
            return Net(self.pool.keys_at(slots), np.full(len(slots), -1), Found(slots, slots[:0]))
        if part.op != "update":
            return None
        columns = self.codec.given(part.rows.schema)
        given = self._encode(part.rows, signed, columns.codec)
        found = self.pool.replacing(given, columns.codec.rows(self.schema.key), columns.words, columns.nulls)
        slots, tags, both, count = found.slots, found.tags, found.both, found.count
        self._check_found(part, "update", slots, -1 - count)
        m = len(slots)
        if columns.codec.kept:
            for row in self.codec.kept_words:
                self.codec.texts.unify(both[row, m:], self.pool.words_of(row), slots, np.arange(m))
            count = kernels.differing(both, found.changed)
        if count < m:
            kept = np.flatnonzero(found.changed)
            slots, tags, both = slots[kept], tags[kept], both.take(np.concatenate([kept, m + kept]), axis=1)
        weights = np.empty(2 * count, np.int64)
        weights[:count], weights[count:] = -1, 1
        return Net(both, weights, Found(slots, tags))

    def _quickly(self, words: Ints, weights: Ints, goes: bool = True) -> Net | None:
        """The same for rows that each come or (`goes`) go once by their key; None if that is not so, or
        refused."""
        at = self.pool.locate(words)
        if not goes:
            return Net(words, weights, Found(_NONE, at.tags)) if at.known == 0 else None
        gone = np.flatnonzero(weights < 0)
        for row in self.codec.kept_words:
            self.codec.texts.unify(words[row], self.pool.words_of(row), at.slots, at.first)
        keep = self.pool.judge(words, weights, at)
        if keep is None:
            return None
        if len(gone) == len(keep) and keep.all():
            return Net(words, weights, Found(at.slots, at.tags[:0]))
        come = np.flatnonzero(keep & (weights > 0))
        gone = gone[keep[gone]]
        order = np.concatenate([gone, come])
        return Net(words.take(order, axis=1), weights[order], Found(at.slots[gone], at.tags[come]))

    def _judged(self, words: Ints, weights: Ints, signed: _Signed) -> Net:
        """The same for any rows: the reference, which finds the row to name."""
        first = np.arange(len(weights))
        if not self._key or (weights < 0).any():
            compared = words.copy()
            for row in self.codec.kept_words:
                (compared[row],) = self.codec.texts.comparable(words[row])
            _, weights, first = _net(compared, weights)
            words = words.take(first, axis=1)
        if self._key:
            self._check_key(words, weights, first, signed)
            words = self._as_stored(words, weights)
        else:
            self._check_bag(words, weights, first, signed)
        return Net(words, weights)

    def _as_stored(self, words: Ints, weights: Ints) -> Ints:
        """The words of a change; rows that go with those that they have here."""
        gone = np.flatnonzero(weights < 0)
        if len(gone) and self.codec.kept:
            words = words.copy()
            words[:, gone] = self.pool.keys_at(self.pool.find(words[list(self._key)][:, gone]))
        return words

    def net(self, rows: pa.Table, weights: Ints) -> Net:
        """A net change that was resolved before, as it was logged."""
        signed = _Signed()
        words = self._as_stored(self._encode(rows, signed), weights)
        return Net(words, weights, fresh=signed.fresh[0] if signed.fresh else None)

    def _encode(self, rows: pa.Table, signed: _Signed, codec: Codec | None = None) -> Ints:
        """The words of full rows, or of some columns. Those of strings that are only kept are on record."""
        codec = codec or self.codec
        words = codec.encode(rows)
        if codec.kept_words:
            signed.fresh.append(words.take(codec.kept_words, axis=0).ravel())
        return words

    def _replaced(self, old: Ints, rows: pa.Table, signed: _Signed) -> Ints:
        """The words of rows with some columns put over them."""
        words = self.codec.replace(old, rows)
        if self.codec.kept_words:
            mine, theirs = words[self.codec.kept_words], old[self.codec.kept_words]
            signed.fresh.append(mine[mine != theirs])
        return words

    def _insert(self, part: Part, signed: _Signed) -> None:
        signed.add(part, self._encode(part.rows, signed), 1)

    def _delete(self, part: Part, signed: _Signed) -> None:
        signed.add(part, self._encode(part.rows, signed), -1)

    def _find(self, part: Part) -> Ints:
        return self.pool.find(self.codec.part(self.schema.key).encode(part.rows))

    def _found(self, part: Part, verb: str) -> Ints:
        """The slots of the rows that a part names by their keys."""
        slots = self._find(part)
        self._check_found(part, verb, slots, kernels.lacking(slots))
        return slots

    def _check_found(self, part: Part, verb: str, slots: Ints, row: int) -> None:
        """Raise if a row is named twice, or is not there: `row`, unless that is below 0."""
        if row >= 0:
            raise EverfreshError(
                Code.MISSING_ROW,
                f"there is no row to {verb} with key {self.key_text(part.rows, row)}",
                place=f"{part.what}, row {part.number(row)}",
                hint=f"every {verb} must name a row of '{self.schema.name}' that exists",
            )
        if len(slots) > 1 and len(np.unique(slots)) < len(slots):
            _, first, counts = np.unique(slots, return_index=True, return_counts=True)
            row = int(first[counts > 1][0])
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                f"the row with key {self.key_text(part.rows, row)} is named twice",
                place=f"{part.what}, row {part.number(row)}",
                hint=f"give one {verb} per row in a batch",
            )

    def _delete_key(self, part: Part, signed: _Signed) -> None:
        signed.add(part, self.pool.keys_at(self._found(part, "delete")), -1)

    def _update(self, part: Part, signed: _Signed) -> None:
        old = self.pool.keys_at(self._found(part, "update"))
        signed.add(part, old, -1)
        signed.add(part, self._replaced(old, part.rows, signed), 1)

    def _change(self, part: Part, signed: _Signed) -> None:
        for some in signed_changes(self, part, partial(self._encode, signed=signed)):
            signed.add(part, some.words, some.weight, some.rows)

    def _upsert(self, part: Part, signed: _Signed) -> None:
        slots = self._find(part)
        new = self._encode(part.rows, signed)
        self._once_per_key(part, new)
        missing = np.flatnonzero(slots < 0)
        present = np.flatnonzero(slots >= 0)
        signed.add(part, np.ascontiguousarray(new[:, missing]), 1, missing)
        conflict = part.conflict or OnConflict()
        if conflict.ignore or not len(present):
            return
        old = self.pool.keys_at(slots[present])
        changed, keep = self._assign(conflict, part.rows.take(present), old, signed)
        rows = present[keep]
        signed.add(part, np.ascontiguousarray(old[:, keep]), -1, rows)
        signed.add(part, changed, 1, rows)

    def _once_per_key(self, part: Part, words: Ints) -> None:
        first_of = self.pool.locate(words).first
        if (first_of != np.arange(len(first_of))).any():
            firsts, counts = np.unique(first_of, return_counts=True)
            row = int(firsts[counts > 1][0])
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                f"the key {self.key_text(part.rows, row)} comes twice in one upsert",
                place=f"{part.what}, row {part.number(row)}",
                hint="give each key once per statement",
            )

    def _assign(
        self, conflict: OnConflict, rows: pa.Table, old: Ints, signed: _Signed
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The old rows with the SET expressions applied, where the WHERE of the upsert holds."""
        env = self.codec.vectors(old)
        for column in self.schema.columns:
            env[f"excluded.{column.name}"] = Vector.from_arrow(rows.column(column.name), column.type)
        count = old.shape[1]
        keep = np.ones(count, np.bool_)
        if conflict.where is not None:
            keep = satisfied(conflict.where, env, count)
            env = {name: vector.filter(keep) for name, vector in env.items()}
            old, count = np.ascontiguousarray(old[:, keep]), int(keep.sum())
        values = {name: evaluate_vector(expr, env, count) for name, expr in conflict.assignments}
        for name, vector in values.items():
            column = self.schema.column(name)
            if not column.nullable and vector.valid is not None and not vector.valid.all():
                raise EverfreshError(
                    Code.NULL,
                    f"column '{name}' of '{self.schema.name}' is NOT NULL",
                    hint="the SET expression gives NULL for a row",
                )
        given = pa.table({name: vector.to_arrow() for name, vector in values.items()})
        return self._replaced(old, given, signed), keep

    # -- checks ------------------------------------------------------------------------------------

    def _check_bag(self, words: Ints, weights: Ints, first: Ints, signed: _Signed) -> None:
        gone = np.flatnonzero(weights < 0)
        if not len(gone):
            return
        have = self.pool.gather(self.pool.find(np.ascontiguousarray(words[:, gone]))).n
        bad = np.flatnonzero(have + weights[gone] < 0)
        if len(bad):
            self._missing(words, gone[bad], have[bad], weights, first, signed)

    def _missing(
        self, words: Ints, at: Ints, have: Ints, weights: Ints, first: Ints, signed: _Signed
    ) -> None:
        row = int(at[np.argmin(first[at])])
        here = int(have[list(at).index(row)])
        asked = -int(weights[row])
        message = (
            f"there is no row {self._row_text(words, row)} to delete"
            if here == 0
            else f"row {self._row_text(words, row)} is deleted {asked} times and is there {here} times"
        )
        raise EverfreshError(
            Code.MISSING_ROW,
            message,
            place=signed.place(int(first[row])),
            hint=f"deletes must name rows of '{self.schema.name}' that exist",
        )

    def _check_key(self, words: Ints, weights: Ints, first: Ints, signed: _Signed) -> None:
        keys = np.ascontiguousarray(words[list(self._key)])
        slots = self.pool.find(keys)
        gone, come = weights < 0, weights > 0
        if gone.any():
            stored = self.pool.keys_at(slots)
            other = self.differ(words, stored)
            wrong = gone & ((slots < 0) | other | (weights < -1))
            if wrong.any():
                self._wrong_delete(words, stored, other, slots, np.flatnonzero(wrong), weights, first, signed)
        first_of = self.pool.locate(words).first
        added = np.zeros(len(weights), np.int64)
        np.add.at(added, first_of, np.where(come, weights, 0))
        added = added[first_of]
        removed_slots = slots[gone]
        stays = (slots >= 0) & ~np.isin(slots, removed_slots)
        bad = come & ((added > 1) | stays)
        if bad.any():
            row = int(min(np.flatnonzero(bad), key=lambda i: int(first[i])))
            both = bool(stays[row])
            message = (
                f"key {self._words_key_text(words, row)} is already in '{self.schema.name}'"
                if both
                else (f"key {self._words_key_text(words, row)} comes twice")
            )
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                message,
                place=signed.place(int(first[row])),
                hint="give it as an update, or use INSERT ... ON CONFLICT DO UPDATE"
                if both
                else "give each key once",
            )

    def differ(self, words: Ints, stored: Ints) -> NDArray[np.bool_]:
        """Where two rows are not the same."""
        unequal = stored != words
        for row in self.codec.kept_words:
            mine, theirs = self.codec.texts.comparable(words[row], stored[row])
            unequal[row] = mine != theirs
        out: NDArray[np.bool_] = unequal.any(axis=0)
        return out

    def _wrong_delete(
        self,
        words: Ints,
        stored: Ints,
        other: NDArray[np.bool_],
        slots: Ints,
        bad: Ints,
        weights: Ints,
        first: Ints,
        signed: _Signed,
    ) -> None:
        row = int(min(bad, key=lambda i: int(first[i])))
        place = signed.place(int(first[row]))
        if slots[row] < 0:
            raise EverfreshError(
                Code.MISSING_ROW,
                f"there is no row with key {self._words_key_text(words, row)} to delete",
                place=place,
                hint=f"deletes must name rows of '{self.schema.name}' that exist",
            )
        if weights[row] < -1 and not other[row]:
            raise EverfreshError(
                Code.MISSING_ROW,
                f"row {self._row_text(words, row)} is deleted {-int(weights[row])} times",
                place=place,
                hint="a row with a primary key is there once",
            )
        mine, theirs = (self.codec.decode(w[:, row : row + 1]).to_pylist()[0] for w in (words, stored))
        name = next(n for n in mine if repr(mine[n]) != repr(theirs[n]))  # NaN is not unequal to NaN here
        raise EverfreshError(
            Code.MISSING_ROW,
            f"the row to delete with key {self._words_key_text(words, row)} has {name} = {mine[name]!r}, "
            f"the stored one {theirs[name]!r}",
            place=place,
            hint="delete by the key columns alone, or give the row as it is stored",
        )

    def key_text(self, rows: pa.Table, row: int) -> str:
        """The key of a row, for an error."""
        return _text({name: rows.column(name)[row].as_py() for name in self.schema.key})

    def _words_key_text(self, words: Ints, row: int) -> str:
        return _text(self.codec.decode(words[:, row : row + 1], self.schema.key).to_pylist()[0])

    def _row_text(self, words: Ints, row: int) -> str:
        return _text(self.codec.decode(words[:, row : row + 1]).to_pylist()[0])

    # -- change ------------------------------------------------------------------------------------

    def apply(self, net: Net) -> TableUndo:
        """Add a net change; `commit` or `rollback` must follow."""
        if not self._key:
            return TableUndo(touched=self.pool.add(net.words, _counts(net.weights)))
        found = net.found
        if found is None:
            gone = net.weights < 0
            known = self.pool.find(np.ascontiguousarray(net.words[list(self._key)][:, gone]))
            removed = self.pool.keys_at(known)
            if len(known):
                self.pool.remove(known)
            slots = self.pool.insert(np.ascontiguousarray(net.words[:, ~gone]), net.weights[~gone])
            return TableUndo(removed=removed, inserted=slots, net=net)
        count = len(found.gone)
        if count:
            self.pool.remove(found.gone)
        slots = self.pool.insert_new(net.words, found.tags, count)
        return TableUndo(removed=net.words[:, :count], inserted=slots, net=net)

    def commit(self, undo: TableUndo) -> None:
        """Make a change final."""
        if undo.touched is not None:
            self.pool.commit(undo.touched)
        if undo.net is not None and undo.net.fresh is not None:
            assert undo.removed is not None
            rows, fresh = self.codec.kept_words, undo.net.fresh
            if undo.removed.shape[1] or len(fresh) > len(rows) * len(undo.net):
                taken = undo.net.words[rows][:, undo.net.weights > 0].ravel()
                left = np.concatenate([undo.removed[rows].ravel(), fresh])
                self.codec.texts.release_others(left, taken)

    def discard(self, net: Net) -> None:
        """Forget a change that was not applied, or was taken back."""
        if net.fresh is not None:
            self.codec.texts.release(net.fresh)

    def rollback(self, undo: TableUndo) -> None:
        """Take a change back."""
        if undo.touched is not None:
            self.pool.rollback(undo.touched)
            return
        assert undo.inserted is not None
        assert undo.removed is not None
        # Everything in reverse: free slots are a stack, so each row gets its slot back.
        self.pool.remove(np.ascontiguousarray(undo.inserted[::-1]))
        words = np.ascontiguousarray(undo.removed[:, ::-1])
        self.pool.insert(words, np.ones(words.shape[1], np.int64))

    # -- reading -----------------------------------------------------------------------------------

    def rows(self, names: Sequence[str] | None = None) -> tuple[pa.Table, Ints]:
        """Distinct rows and their multiplicities."""
        slots = self.pool.live()
        return self.codec.decode(self.pool.keys_at(slots), names), self.pool.gather(slots).n

    def chunks(self, size: int = 1 << 17) -> list[Ints]:
        """The slots of all rows, cut into pieces, for work that shows progress."""
        slots = self.pool.live()
        return [slots[i : i + size] for i in range(0, len(slots), size)]

    def read(self, names: Collection[str]) -> None:
        """From now on these columns are read: strings that were only kept are interned."""
        codec = self.codec
        for column in codec.columns:
            if column.name in codec.kept.intersection(names):
                slots = self.pool.live()
                (row,) = codec.positions((column.name,))
                words = self.pool.words_of(row)[slots]
                valid = codec.valid(self.pool.keys_at(slots), column)
                codes = codec.interner.intern(codec.texts.decode(words, valid))
                codec.keep_only(codec.kept - {column.name})
                self.pool.words_of(row)[slots] = codes
                codec.texts.release(words)
        if not codec.kept:
            codec.texts = Texts()

    def texts_to_arrays(self) -> dict[str, NDArray[Any]]:
        """The strings that are only kept, and the names of their columns, for a snapshot: views that are good
        until the table changes."""
        names = json.dumps(sorted(self.codec.kept)).encode()
        return {**self.codec.texts.as_arrays(), "columns": np.frombuffer(names, np.uint8)}

    @staticmethod
    def texts_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[Texts, list[str]]:
        """The inverse."""
        return Texts.from_arrays(arrays), json.loads(arrays["columns"].tobytes())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a snapshot keeps: views that are good until the table changes."""
        return self.pool.as_arrays()

    def mark(self, alive: Alive) -> None:
        """Say which strings are used: see `reclaim`."""
        self.pool.mark(self.codec.codes, alive)

    def trim_texts(self) -> None:
        """The strings that are only kept in no more memory than is in proportion to them."""
        texts, rows = self.codec.texts, self.codec.kept_words
        if not texts.wasteful(len(rows) * len(self.pool)):
            return
        slots, fresh = self.pool.live(), Texts()
        words = [fresh.keep(texts.decode(self.pool.words_of(row)[slots])) for row in rows]
        with HeldBack():
            self.codec.interner.whole = False  # words of strings cannot be trusted if this comes to no end
            texts.become(fresh)
            for row, given in zip(rows, words, strict=True):
                self.pool.words_of(row)[slots] = given
            self.codec.interner.whole = True

    def altered(self, schema: TableSchema, default: Vector | None) -> Table:
        """The table with a column added (filled with `default`, one row) or dropped."""
        known = {c.name for c in self.schema.columns} - self.codec.kept
        table = Table(schema, self.codec.interner, kept=unread(schema, known) if self.codec.kept else ())
        slots = self.pool.live()
        words, n = self.pool.keys_at(slots), self.pool.gather(slots).n
        vectors = self.codec.vectors(words)
        columns = []
        for column in schema.columns:
            if column.name in vectors:
                columns.append(vectors[column.name])
            else:
                given = default if default is not None else Vector.constant(None, column.type, 1)
                columns.append(given.take(np.zeros(len(slots), np.int64)))
        new_words = table.codec.encode_vectors(columns, len(slots))
        if table._key:
            table.pool.insert(new_words, n)
        else:
            table.pool.commit(table.pool.add(new_words, _counts(n)))
        return table


def unread(schema: TableSchema, read: Collection[str] = ()) -> frozenset[str]:
    """The columns of a table whose strings can be only kept, if `read` are read: none where the table is a
    bag, whose rows are found by all their columns."""
    if not schema.key:
        return frozenset()
    texts = {c.name for c in schema.columns if c.type.name == "VARCHAR"}
    return frozenset(texts - {*schema.key, *read})


def _net(words: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows merged by identity, zero weights dropped, in order of first appearance; and where each first
    appeared."""
    pool = Pool(words.shape[0], _NO_VALUES)
    touched = pool.add(words, _counts(weights))
    slots = touched.slots
    total = pool.gather(slots).n
    row_slots = pool.find(words)
    first = np.full(int(slots.max(initial=-1)) + 1, -1, np.int64)
    first[row_slots[::-1]] = np.arange(len(row_slots))[::-1]
    keep = total != 0
    kept = slots[keep]
    return pool.keys_at(kept), total[keep], first[kept]


def _counts(n: Ints) -> Values:
    values = Values.zeros(_NO_VALUES, len(n))
    values.n[:] = n
    return values


def _text(row: dict[str, object]) -> str:
    return "(" + ", ".join(f"{name}={value!r}" for name, value in row.items()) + ")"


__all__ = ["Net", "Table", "TableUndo", "unread"]
