"""A base table: its rows in a pool, changed by net changes (`resolution`).

Rows of a table with a primary key are unique by it; without one the table is a bag, each distinct row with
its multiplicity.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.store.codec import Codec
from everfresh.local.store.kept_strings import Texts
from everfresh.local.store.pool import Pool, Touched
from everfresh.local.store.resolution import NO_VALUES, Net, Resolution, counts, row_text
from everfresh.local.store.strings import Alive, Interner
from everfresh.program import Part
from everfresh.state.interrupts import HeldBack
from everfresh.types import TableSchema

Ints = NDArray[np.int64]


@dataclass(slots=True)
class TableUndo:
    """What an applied change did to a table."""

    touched: Touched | None = None
    removed: Ints | None = None
    inserted: Ints | None = None
    net: Net | None = None


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
        self.key_positions = self.codec.positions(schema.key)
        self.pool = pool or Pool(self.codec.words, NO_VALUES, self.key_positions or None)

    def __len__(self) -> int:
        """The number of rows, duplicates counted."""
        return len(self.pool) if self.key_positions else int(self.pool.gather(self.pool.live()).n.sum())

    def check_loadable(self, view: str) -> None:
        """Raise unless a view can be filled from the rows that have come so far: here it can."""

    # -- resolution --------------------------------------------------------------------------------

    trusting = False
    """Whether rows are deleted unseen."""

    def resolve(self, parts: Sequence[Part]) -> Net:
        """The net change that `parts` make; raises, naming a row, if the table would not allow it."""
        return Resolution(self).net_of(parts)

    def net(self, rows: pa.Table, weights: Ints) -> Net:
        """A net change that was resolved before, as it was logged."""
        return Resolution(self).logged(rows, weights)

    def differ(self, words: Ints, stored: Ints) -> NDArray[np.bool_]:
        """Where two rows are not the same."""
        unequal = stored != words
        for row in self.codec.kept_words:
            mine, theirs = self.codec.texts.comparable(words[row], stored[row])
            unequal[row] = mine != theirs
        out: NDArray[np.bool_] = unequal.any(axis=0)
        return out

    def key_text(self, rows: pa.Table, row: int) -> str:
        """The key of a row, for an error."""
        return row_text({name: rows.column(name)[row].as_py() for name in self.schema.key})

    # -- change ------------------------------------------------------------------------------------

    def apply(self, net: Net) -> TableUndo:
        """Add a net change; `commit` or `rollback` must follow."""
        if not self.key_positions:
            return TableUndo(touched=self.pool.add(net.words, counts(net.weights)))
        found = net.found
        if found is None:
            gone = net.weights < 0
            known = self.pool.find(np.ascontiguousarray(net.words[list(self.key_positions)][:, gone]))
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

    def rows(
        self, names: Sequence[str] | None = None, among: pa.Table | None = None
    ) -> tuple[pa.Table, Ints]:
        """Distinct rows and their multiplicities; `among` has values of some columns: at least the rows that
        have them, with no look at other columns of other rows."""
        slots = self.pool.live()
        if among is not None:
            slots = self._among(slots, among)
        return self.codec.decode(self.pool.keys_at(slots), names), self.pool.gather(slots).n

    def _among(self, slots: Ints, among: pa.Table) -> Ints:
        codec = self.codec
        part = codec.part([name for name in among.column_names if name not in codec.kept])
        given = among.select([column.name for column in part.columns])
        words = part.encode(given) if part.columns else None
        for column in part.columns:
            assert words is not None
            own, theirs = codec.positions((column.name,))[-1], part.positions((column.name,))[-1]
            slots = slots[np.isin(self.pool.words_of(own)[slots], words[theirs])]
        for name in codec.kept.intersection(among.column_names):
            column = codec.decode(self.pool.keys_at(slots), (name,)).column(name)
            mask = pc.is_in(column, value_set=among.column(name).combine_chunks().cast(column.type))
            slots = slots[mask.to_numpy()]
        return slots

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

    def declared(self, schema: TableSchema) -> Table:
        """The same rows under a schema whose columns are stored alike: other names, another declaration."""
        if schema is self.schema or schema == self.schema:
            return self
        codec = self.codec
        kept = [new for old, new in zip(self.schema.names, schema.names, strict=True) if old in codec.kept]
        return Table(schema, codec.interner, self.pool, codec.texts, kept)

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
        if table.key_positions:
            table.pool.insert(new_words, n)
        else:
            table.pool.commit(table.pool.add(new_words, counts(n)))
        return table


def unread(schema: TableSchema, read: Collection[str] = ()) -> frozenset[str]:
    """The columns of a table whose strings can be only kept, if `read` are read: none where the table is a
    bag, whose rows are found by all their columns."""
    if not schema.key:
        return frozenset()
    texts = {c.name for c in schema.columns if c.type.name == "VARCHAR"}
    return frozenset(texts - {*schema.key, *read, *(name for name, _ in schema.generated)})


__all__ = ["Net", "Table", "TableUndo", "unread"]
