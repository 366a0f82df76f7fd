"""Memory in proportion to what is live: strings that nothing uses any more, pools and slices that shrank.

Codes of strings stand in many places, and counting them there would cost every batch. So from time to time
all who hold codes between batches are asked (`Holder.mark`), and what nobody holds is freed; codes in use
stay what they are, so that nothing has to be rewritten. Those who hold codes are the tables and maps with
their indexes, the changes of views that no one has asked for yet, and nobody else: what compiled code and
labels know of codes is forgotten (`Interner.version`, `Remembering`). A holder that is left out is found: its
codes are free then, and to read a free code raises.

Invariant: looking costs a fraction of the batches since the last time. It is done when twice as many strings
have come as there were, or half as many rows have gone; and not before there is one for each few words that
have to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import numpy as np

from everfresh.local.interpret.atoms import Pooled
from everfresh.local.store.strings import Alive, Interner
from everfresh.local.store.table import Net
from everfresh.state.interrupts import HeldBack

_LEAST: Final = 1 << 14  # strings or rows that it is worth looking for
_LEAST_BYTES: Final = 1 << 20
_WORDS: Final = 4  # words that are looked at for each of them, at most
_STORE: Final = 512  # words that take as long as to begin with a store
_GAPS: Final = 8  # codes for each string in use, above which strings are numbered anew
_MANY: Final = 1 << 16  # codes that are worth it


class Holder(Protocol):
    """What holds codes of strings between batches."""

    def mark(self, alive: Alive) -> None:
        """Say which: `alive[code] = True`."""


class PastHolders(Holder, Protocol):
    """What holds codes for those who ask for earlier epochs."""

    def make_changes(self) -> None:
        """Hold none any more."""


@dataclass(frozen=True)
class CodeHolders:
    """All that holds codes of an interner: tables and maps, with their slices, and the past."""

    stores: Sequence[Pooled]
    past: PastHolders | None = None

    @property
    def words(self) -> int:
        """About how many words have to be looked at."""
        return sum(len(s.pool) * max(1, len(s.codec.codes)) + _STORE for s in self.stores)

    def mark(self, alive: Alive) -> None:
        """Say which strings are used."""
        for store in self.stores:
            store.mark(alive)
        if self.past is not None:
            self.past.mark(alive)


class Upkeep:
    """Looks for what is not used any more when that is due.

    >>> interner, upkeep = Interner(), Upkeep()
    >>> codes = interner.intern_list(["a", "b"])
    >>> upkeep.collect(interner, CodeHolders([]))
    >>> len(interner)
    0
    """

    def __init__(self) -> None:
        self.always = False
        """Whether it is always due, for tests."""
        self.collections = 0
        """How often it has looked."""
        self._gone = self._left = self._left_bytes = 0
        self._enough: tuple[int, ...] = _LEAST, _LEAST, _LEAST_BYTES

    def count(self, changes: Iterable[Net]) -> None:
        """Rows come and go."""
        for net in changes:
            found = net.found
            gone = len(found.gone) if found is not None else int(np.count_nonzero(net.weights < 0))
            self._gone += 2 * gone - len(net)

    def went(self, entries: int) -> None:
        """So many entries or rows have gone otherwise."""
        self._gone += entries

    def due(self, interner: Interner) -> bool:
        """Whether so much has come or gone that it is worth looking, by what there was the last time."""
        since = zip(self._since(interner), self._enough, strict=True)
        return self.always or any(has >= enough for has, enough in since)

    def _since(self, interner: Interner) -> tuple[int, int, int]:
        """Strings that have come, rows that have gone, and bytes that have come since the last time."""
        return len(interner) - self._left, self._gone, interner.used - self._left_bytes

    def step(self, interner: Interner, held: CodeHolders, *, now: bool = False) -> None:
        """Between two batches, when it is due: look, unless there is too much to look at by now."""
        least = held.words // _WORDS
        if now or self.always or max(self._since(interner)) >= least:
            self.collect(interner, held)
        else:
            self._enough = tuple(max(enough, least) for enough in self._enough)

    def collect(self, interner: Interner, held: CodeHolders) -> None:
        """Free the strings that nobody holds, and memory that much less would do for."""
        self.collections += 1
        for store in held.stores:
            store.trim()
        if len(interner):
            alive = interner.none_alive()
            held.mark(alive)
            interner.reclaim(alive)
            if _MANY <= interner.top > _GAPS * len(interner) and held.words <= 4 * interner.top:
                renumber(interner, held)
        least = held.words // _WORDS
        self._gone, self._left, self._left_bytes = 0, len(interner), interner.used
        self._enough = (
            max(_LEAST, 2 * self._left, least),
            max(_LEAST, self._left // 2, least),
            max(_LEAST_BYTES, 4 * interner.size - self._left_bytes, least),
        )


def renumber(interner: Interner, held: CodeHolders) -> None:
    """Give strings codes without gaps, after most of very many have gone."""
    if held.past is not None:
        held.past.make_changes()
    alive = interner.none_alive()
    held.mark(alive)
    fresh, remap = interner.renumbered(alive)
    pools = [
        store.pool.copy(partial(store.codec.remap_strings, remap)) if store.codec.codes else None
        for store in held.stores
    ]
    with HeldBack():
        interner.whole = False
        interner.become(fresh)
        for store, pool in zip(held.stores, pools, strict=True):
            store.become(pool)
        interner.whole = True
