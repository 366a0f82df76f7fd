"""The resolution of a batch against a table: its parts as one net change of full rows.

Deletes come before inserts, judged by the net effect (`+x -x` is nothing, whether x is there or not). A
resolution reads the state before the batch, changes nothing, and names the row it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector, evaluate_vector, satisfied
from everfresh.local.kernels import incoming as kernels
from everfresh.local.store.codec import Codec
from everfresh.local.store.feeds import signed_changes
from everfresh.local.store.pool import Layout, Pool, Values
from everfresh.program import OnConflict, Part
from everfresh.sql.constraints import broken, checks_of, computed

if TYPE_CHECKING:
    from everfresh.local.store.table import Table

Ints = NDArray[np.int64]
NO_VALUES = Layout(())
_CHANGING = ("update", "upsert", "change")
"""What makes rows of others; the rows of other operations come with what is computed of them."""
_NONE = np.zeros(0, np.int64)


@dataclass(slots=True)
class Net:
    """The net change of a table: full rows as words, with weights that are not zero.

    `found` is what the table knows of a change that it has resolved itself: rows that go come first then.
    """

    words: Ints
    weights: Ints
    found: Settled | None = None
    fresh: Ints | None = None
    """The words of strings that are only kept, of this batch: those that no row takes are released."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def rows(self) -> int:
        """How many rows come or go, duplicates counted."""
        return len(self.weights) if self.found is not None else int(np.abs(self.weights).sum())


@dataclass(slots=True)
class Settled:
    """The slots of the rows that go, and the hashes of the keys that come."""

    gone: Ints
    tags: Ints


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


class Resolution:
    """One batch on its way to a net change of a table."""

    def __init__(self, table: Table) -> None:
        self.table, self.schema, self.codec, self.pool = table, table.schema, table.codec, table.pool
        self._key = table.key_positions
        self._signed = _Signed()

    def net_of(self, parts: Sequence[Part]) -> Net:
        """The net change that `parts` make; raises, naming a row, if the table would not allow it."""
        try:
            net = self._named(parts[0]) if len(parts) == 1 else None
            if net is None:
                for part in parts:
                    getattr(self, f"_{part.op}")(part)
                words, weights = self._signed.joined(self.codec.words)
                if self.schema.generated and any(part.op in _CHANGING for part in parts):
                    words = self._computed(words)
                net = self._quickly(words, weights, self._signed.goes) if self._key else None
                if net is None:
                    net = self._judged(words, weights)
            if self.schema.checks:
                self._check_rows(net)
        except BaseException:
            for fresh in self._signed.fresh:
                self.codec.texts.release(fresh)
            raise
        if not self._signed.fresh:
            return net
        fresh = self._signed.fresh[0] if len(self._signed.fresh) == 1 else np.concatenate(self._signed.fresh)
        return Net(net.words, net.weights, net.found, fresh)

    def _named(self, part: Part) -> Net | None:
        """The same for rows that are all found by their key and go, or change: nothing is left to judge."""
        if part.op == "delete_key":
            slots = self._found(part, "delete")
            return Net(self.pool.keys_at(slots), np.full(len(slots), -1), Settled(slots, slots[:0]))
        if part.op != "update" or self.schema.generated:
            return None
        columns = self.codec.given(part.rows.schema)
        given = self._encode(part.rows, columns.codec)
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
        return Net(both, weights, Settled(slots, tags))

    def _quickly(self, words: Ints, weights: Ints, goes: bool = True) -> Net | None:
        """The same for rows that each come or (`goes`) go once by their key; None if that is not so, or
        refused."""
        at = self.pool.locate(words)
        if not goes:
            return Net(words, weights, Settled(_NONE, at.tags)) if at.known == 0 else None
        gone = np.flatnonzero(weights < 0)
        for row in self.codec.kept_words:
            self.codec.texts.unify(words[row], self.pool.words_of(row), at.slots, at.first)
        keep = self.pool.judge(words, weights, at)
        if keep is None:
            return None
        if len(gone) == len(keep) and keep.all():
            return Net(words, weights, Settled(at.slots, at.tags[:0]))
        come = np.flatnonzero(keep & (weights > 0))
        gone = gone[keep[gone]]
        order = np.concatenate([gone, come])
        return Net(words.take(order, axis=1), weights[order], Settled(at.slots[gone], at.tags[come]))

    def _judged(self, words: Ints, weights: Ints) -> Net:
        """The same for any rows: the reference, which finds the row to name."""
        first = np.arange(len(weights))
        if not self._key or (weights < 0).any():
            compared = words.copy()
            for row in self.codec.kept_words:
                (compared[row],) = self.codec.texts.comparable(words[row])
            _, weights, first = _net(compared, weights)
            words = words.take(first, axis=1)
        if self._key:
            self._check_key(words, weights, first)
            words = self._as_stored(words, weights)
        elif not self.table.trusting:
            self._check_bag(words, weights, first)
        return Net(words, weights)

    def _computed(self, words: Ints) -> Ints:
        """The words of rows with what is computed from others of their columns."""
        count = words.shape[1]
        new = computed(self.schema, self.codec.vectors(words, self.schema.given), count)
        return self._replaced(words, pa.table({name: vector.to_arrow() for name, vector in new.items()}))

    def _check_rows(self, net: Net) -> None:
        """Raise if a row comes for which a CHECK of the table is FALSE."""
        come = np.flatnonzero(net.weights > 0)
        if not len(come):
            return
        words = net.words if len(come) == len(net) else net.words.take(come, axis=1)
        for check in checks_of(self.schema):
            env = self.codec.vectors(words, check.columns)
            try:
                held = evaluate_vector(check.condition, env, len(come))
            except EverfreshError as error:
                raise error.at(f"table '{self.schema.name}', constraint {check}") from error
            bad = ~held.values if held.valid is None else ~held.values & held.valid
            if bad.any():
                row = self._row_text(words, int(np.flatnonzero(bad)[0]))
                raise EverfreshError(Code.CHECK, broken(self.schema, check), place=f"row {row}")

    def _as_stored(self, words: Ints, weights: Ints) -> Ints:
        """The words of a change; rows that go with those that they have here."""
        gone = np.flatnonzero(weights < 0)
        if len(gone) and self.codec.kept:
            words = words.copy()
            words[:, gone] = self.pool.keys_at(self.pool.find(words[list(self._key)][:, gone]))
        return words

    def logged(self, rows: pa.Table, weights: Ints) -> Net:
        """A net change that was resolved before, as it was logged."""
        words = self._as_stored(self._encode(rows), weights)
        return Net(words, weights, fresh=self._signed.fresh[0] if self._signed.fresh else None)

    def _encode(self, rows: pa.Table, codec: Codec | None = None) -> Ints:
        """The words of full rows, or of some columns. Those of strings that are only kept are on record."""
        codec = codec or self.codec
        words = codec.encode(rows)
        if codec.kept_words:
            self._signed.fresh.append(words.take(codec.kept_words, axis=0).ravel())
        return words

    def _replaced(self, old: Ints, rows: pa.Table) -> Ints:
        """The words of rows with some columns put over them."""
        words = self.codec.replace(old, rows)
        if self.codec.kept_words:
            mine, theirs = words[self.codec.kept_words], old[self.codec.kept_words]
            self._signed.fresh.append(mine[mine != theirs])
        return words

    # -- by operation ------------------------------------------------------------------------------

    def _insert(self, part: Part) -> None:
        self._signed.add(part, self._encode(part.rows), 1)

    def _delete(self, part: Part) -> None:
        self._signed.add(part, self._encode(part.rows), -1)

    def _delete_key(self, part: Part) -> None:
        self._signed.add(part, self.pool.keys_at(self._found(part, "delete")), -1)

    def _update(self, part: Part) -> None:
        old = self.pool.keys_at(self._found(part, "update"))
        self._signed.add(part, old, -1)
        self._signed.add(part, self._replaced(old, part.rows), 1)

    def _change(self, part: Part) -> None:
        for some in signed_changes(self.table, part, self._encode):
            self._signed.add(part, some.words, some.weight, some.rows)

    def _upsert(self, part: Part) -> None:
        slots = self._find(part)
        new = self._encode(part.rows)
        self._once_per_key(part, new)
        missing = np.flatnonzero(slots < 0)
        present = np.flatnonzero(slots >= 0)
        self._signed.add(part, np.ascontiguousarray(new[:, missing]), 1, missing)
        conflict = part.conflict or OnConflict()
        if conflict.ignore or not len(present):
            return
        old = self.pool.keys_at(slots[present])
        changed, keep = self._assign(conflict, part.rows.take(present), old)
        rows = present[keep]
        self._signed.add(part, np.ascontiguousarray(old[:, keep]), -1, rows)
        self._signed.add(part, changed, 1, rows)

    def _assign(self, conflict: OnConflict, rows: pa.Table, old: Ints) -> tuple[Ints, NDArray[np.bool_]]:
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
        return self._replaced(old, given), keep

    # -- checks ------------------------------------------------------------------------------------

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
                f"there is no row to {verb} with key {self.table.key_text(part.rows, row)}",
                place=f"{part.what}, row {part.number(row)}",
                hint=f"every {verb} must name a row of '{self.schema.name}' that exists",
            )
        if len(slots) > 1 and len(np.unique(slots)) < len(slots):
            _, first, counts = np.unique(slots, return_index=True, return_counts=True)
            row = int(first[counts > 1][0])
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                f"the row with key {self.table.key_text(part.rows, row)} is named twice",
                place=f"{part.what}, row {part.number(row)}",
                hint=f"give one {verb} per row in a batch",
            )

    def _once_per_key(self, part: Part, words: Ints) -> None:
        first_of = self.pool.locate(words).first
        if (first_of != np.arange(len(first_of))).any():
            firsts, counts = np.unique(first_of, return_counts=True)
            row = int(firsts[counts > 1][0])
            raise EverfreshError(
                Code.DUPLICATE_KEY,
                f"the key {self.table.key_text(part.rows, row)} comes twice in one upsert",
                place=f"{part.what}, row {part.number(row)}",
                hint="give each key once per statement",
            )

    def _check_bag(self, words: Ints, weights: Ints, first: Ints) -> None:
        gone = np.flatnonzero(weights < 0)
        if not len(gone):
            return
        have = self.pool.gather(self.pool.find(np.ascontiguousarray(words[:, gone]))).n
        bad = np.flatnonzero(have + weights[gone] < 0)
        if len(bad):
            self._missing(words, gone[bad], have[bad], weights, first)

    def _missing(self, words: Ints, at: Ints, have: Ints, weights: Ints, first: Ints) -> None:
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
            place=self._signed.place(int(first[row])),
            hint=f"deletes must name rows of '{self.schema.name}' that exist",
        )

    def _check_key(self, words: Ints, weights: Ints, first: Ints) -> None:
        keys = np.ascontiguousarray(words[list(self._key)])
        slots = self.pool.find(keys)
        gone, come = weights < 0, weights > 0
        if gone.any():
            stored = self.pool.keys_at(slots)
            other = self.table.differ(words, stored)
            wrong = gone & ((slots < 0) | other | (weights < -1))
            if wrong.any():
                self._wrong_delete(words, stored, other, slots, np.flatnonzero(wrong), weights, first)
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
                place=self._signed.place(int(first[row])),
                hint="give it as an update, or use INSERT ... ON CONFLICT DO UPDATE"
                if both
                else "give each key once",
            )

    def _wrong_delete(
        self,
        words: Ints,
        stored: Ints,
        other: NDArray[np.bool_],
        slots: Ints,
        bad: Ints,
        weights: Ints,
        first: Ints,
    ) -> None:
        row = int(min(bad, key=lambda i: int(first[i])))
        place = self._signed.place(int(first[row]))
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

    def _words_key_text(self, words: Ints, row: int) -> str:
        return row_text(self.codec.decode(words[:, row : row + 1], self.schema.key).to_pylist()[0])

    def _row_text(self, words: Ints, row: int) -> str:
        return row_text(self.codec.decode(words[:, row : row + 1]).to_pylist()[0])


def _net(words: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows merged by identity, zero weights dropped, in order of first appearance; and where each first
    appeared."""
    pool = Pool(words.shape[0], NO_VALUES)
    touched = pool.add(words, counts(weights))
    slots = touched.slots
    total = pool.gather(slots).n
    row_slots = pool.find(words)
    first = np.full(int(slots.max(initial=-1)) + 1, -1, np.int64)
    first[row_slots[::-1]] = np.arange(len(row_slots))[::-1]
    keep = total != 0
    kept = slots[keep]
    return pool.keys_at(kept), total[keep], first[kept]


def counts(n: Ints) -> Values:
    """Multiplicities as values."""
    values = Values.zeros(NO_VALUES, len(n))
    values.n[:] = n
    return values


def row_text(row: dict[str, object]) -> str:
    """A row, or its key, for an error."""
    return "(" + ", ".join(f"{name}={value!r}" for name, value in row.items()) + ")"
