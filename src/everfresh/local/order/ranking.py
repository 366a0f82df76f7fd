"""Values as int64 words whose order is the order of the values.

Integers, DECIMAL, days, times, moments, labels and BOOLEAN are their own words. The bits of a double are
turned so that they order like the numbers, NaN last (-0.0 is 0.0 already). A wide integer is its high word,
then its low one with the sign bit flipped. A text, or what is held as one, is its *label* (`Ranks`).
Descending order complements the words. A nullable column has a null word before its value: 0 comes first.

Invariant: `a` sorts before `b` exactly when the words of `a` are lexicographically less; equal words are
identical values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from everfresh.expr import Vector
from everfresh.local.kernels import ordered_questions
from everfresh.local.kernels.ordered_blocks import Ints
from everfresh.local.order.ordered_index import OrderedIndex
from everfresh.local.store.codec import Codec, to_word, wide_words
from everfresh.local.store.strings import Alive, Interner
from everfresh.types import SqlType

Mask = NDArray[np.bool_]

_SPACE: Final = 1 << 62
_GAP: Final = 1 << 36
_MIN, _MAX = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)


class Ranks:
    """A label for each string that is asked for: labels order as the strings do by their UTF-8 bytes.

    Codes of an interner are in order of arrival. A new string gets a label between those of its neighbours,
    so that nothing else changes; one behind all others a label at a fixed distance. When a gap is used up all
    labels are given anew, evenly, and `version` increases: who keeps labels must then take them again.
    `gap` and `space` are made small by tests.

    >>> interner = Interner()
    >>> ranks = Ranks(interner)
    >>> b, a = ranks.labels(interner.intern_list(["b", "a"])).tolist()
    >>> [between] = ranks.labels(interner.intern_list(["aa"])).tolist()
    >>> a < between < b, ranks.version
    (True, 0)
    """

    def __init__(self, interner: Interner, *, gap: int = _GAP, space: int = _SPACE) -> None:
        self.interner, self.version = interner, 0
        self._gap, self._space = gap, space
        self._order = OrderedIndex(1)
        self._labels = np.zeros(16, np.int64)  # by code; 0: none yet
        interner.tell(self)

    def forget(self, alive: Alive) -> None:
        """Let go of the labels of codes that are not alive: nobody has them, since whoever has one holds its
        code (see `codes`)."""
        codes = self._order.slots()
        kept = codes[alive[codes]]
        if len(kept) == len(codes):
            return
        labels = np.zeros(len(alive), np.int64)
        labels[kept] = self._labels[kept]
        order = OrderedIndex(1)
        order.build(labels[kept][None], kept)
        self._labels, self._order = labels, order

    def codes(self, labels: Ints) -> Ints:
        """The codes that have these labels."""
        return self._order.first(labels[None])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._order.nbytes + self._labels.nbytes

    def labels(self, codes: Ints) -> Ints:
        """The labels of codes; 0 for NULL."""
        self.cover(codes)
        return self.known(codes)

    def known(self, codes: Ints) -> Ints:
        """The labels of codes that have been covered; 0 for NULL."""
        return self._labels[codes]

    def cover(self, codes: Ints) -> None:
        """See to it that these codes have labels."""
        if len(self._labels) <= self.interner.top:
            grown = np.zeros(2 * self.interner.top, np.int64)
            grown[: len(self._labels)] = self._labels
            self._labels = grown
        unlabelled = codes[(self._labels[codes] == 0) & (codes != 0)]
        if len(unlabelled):
            missing = np.unique(unlabelled)
            self._place(missing[pc.sort_indices(self.interner.decode(missing)).to_numpy().astype(np.int64)])

    def _place(self, new: Ints) -> None:
        """Label new codes, given in the order of their strings."""
        n, at = len(self._order), np.empty(len(new), np.int64)
        ordered_questions.string_ranks(*self._order._arrays, *self.interner.bytes, new, at)
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(new)))
        size = np.bincount(run)[run]
        place = np.arange(len(new)) - starts[run] + 1
        left = np.where(at > 0, self._order.keys_at(at - 1)[0], 0)
        right = np.where(at < n, self._order.keys_at(at)[0], self._space)
        step = (right - left) // (size + 1)
        if n == 0 or not step.all():
            self._relabel(np.insert(self._order.slots(), at, new))
            self.version += n > 0
            return
        # Behind the last and before the first there is room: halving what is left would soon use it up.
        outside = (at == 0) | (at == n)
        step[outside] = np.minimum(step[outside], self._gap)
        labels = np.where(at == 0, right - (size + 1 - place) * step, left + place * step)
        self._labels[new] = labels
        self._order.insert(labels[None], new)

    def _relabel(self, codes: Ints) -> None:
        """Give all codes, in order, new labels around the middle."""
        n = len(codes)
        gap = min(self._gap, self._space // (n + 1))
        if gap == 0:
            raise MemoryError(f"{n} strings do not fit {self._space} labels")
        labels = (self._space - gap * (n - 1)) // 2 + gap * np.arange(n)
        self._labels[codes] = labels
        self._order.build(labels[None], codes)


def order_words(words: Ints, type_: SqlType, ranks: Ranks | None = None) -> Ints:
    """Pool words of a column, `[1 or 2, m]`, as words that order like its values."""
    if type_.is_float:
        return np.where(words < 0, words ^ _MAX, words)
    if type_.is_wide:
        return np.stack([words[0], words[1] ^ _MIN])
    if type_.is_text:
        if ranks is None:
            raise ValueError("strings are ordered by their ranks")
        return ranks.labels(words[0])[None]
    if type_.name == "INTERVAL":
        raise ValueError("intervals have no order words")
    return words


def _oriented(words: Ints, valid: Mask | None, ascending: bool) -> Ints:
    words = words if ascending else ~words
    return words if valid is None else np.where(valid, words, 0)


def _null_word(valid: Mask | None, rows: int, nulls_first: bool) -> Ints:
    null = np.zeros(rows, np.bool_) if valid is None else ~valid
    out: Ints = (null != nulls_first).astype(np.int64)
    return out


def encode(
    vector: Vector, ascending: bool = True, nulls_first: bool = False, ranks: Ranks | None = None
) -> Ints:
    """A column as a null word and its order words.

    >>> from everfresh.types import DOUBLE
    >>> encode(Vector.from_pylist([0.0, None], DOUBLE), ascending=False).tolist()
    [[0, 1], [-1, 0]]
    """
    if vector.dictionary is not None and ranks is not None:
        codes = ranks.interner.intern(pa.array(vector.dictionary, pa.string()))
        words = codes[vector.values][None]
    elif vector.type.is_wide:
        words = np.stack(wide_words(vector))
    elif vector.dictionary is None and vector.type.name != "INTERVAL":
        words = to_word(vector.values, vector.type)[None]
    else:
        words = np.zeros((1, 0), np.int64)  # `order_words` refuses these
    ordered = _oriented(order_words(words, vector.type, ranks), vector.valid, ascending)
    return np.concatenate([_null_word(vector.valid, len(vector), nulls_first)[None], ordered])


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column of ORDER BY; NULLs come last either way unless asked otherwise, as in DuckDB."""

    name: str
    ascending: bool = True
    nulls_first: bool = False


class Ordering:
    """How rows in the words of `codec` order by some columns: the words of all sort keys, in turn."""

    def __init__(self, codec: Codec, keys: Sequence[SortKey], ranks: Ranks | None = None) -> None:
        by_name = {column.name: column for column in codec.columns}
        self._codec, self._ranks = codec, ranks
        self._keys = [(key, by_name[key.name]) for key in keys]
        strings = [column for _, column in self._keys if column.type.is_text]
        self._strings = [codec.places(column)[0][0] for column in strings]
        if self._strings and ranks is None:
            raise ValueError("strings are ordered by their ranks")
        self.words = sum(1 + c.nullable + c.type.is_wide for _, c in self._keys)

    @property
    def version(self) -> int:
        """Increases when the words of rows encoded before are no longer theirs."""
        return self._ranks.version if self._strings and self._ranks is not None else 0

    def encode(self, words: Ints) -> Ints:
        """The order words `[words, m]` of some rows."""
        ranks = self._ranks
        if self._strings:  # all first, and at once: a new label may change the others
            assert ranks is not None
            ranks.cover(words[self._strings].ravel())
        rows = [np.empty((0, words.shape[1]), np.int64)]
        for key, column in self._keys:
            values, valid = self._codec.column_words(words, column)
            if column.nullable:
                rows.append(_null_word(valid, words.shape[1], key.nulls_first)[None])
            if ranks is not None and column.type.is_text:
                values = ranks.known(values)
            else:
                values = order_words(values, column.type, ranks)
            rows.append(_oriented(values, valid, key.ascending))
        return np.concatenate(rows)
