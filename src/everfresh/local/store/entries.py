"""The entries of one map: a pool with its codec, and the slices through which statements read it.

Slices are built at the first read and then follow the pool. An entry whose count has come to zero inside a
batch still stands in its slices until the batch is final; it is read with weight zero, which adds nothing.
The same holds for what keeps the entries in order (`followers`): it is made when it is first asked for, is
told of entries that come, go or change, also when a change is taken back, and goes when slots or codes of
strings are given anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import EverfreshError
from everfresh.local.interpret.atoms import Pooled
from everfresh.local.kernels.netting import netted_rows
from everfresh.local.order.ranking import Ranks
from everfresh.local.store.codec import Codec
from everfresh.local.store.growth import Growth
from everfresh.local.store.pool import Layout, Pool, Touched, Values
from everfresh.local.store.strings import Alive, Interner
from everfresh.program import MapDef
from everfresh.types import Column

Ints = NDArray[np.int64]

Before = Mapping[str, Touched]
"""Changes of maps, by name, that a reader does not see yet."""


class Follower(Protocol):
    """What is told of the slots of a map, with the words of their entries."""

    def add(self, slots: Ints, words: Ints) -> None:
        """Entries have come."""

    def touch(self, slots: Ints, words: Ints) -> None:
        """The values of entries have changed."""

    def remove(self, slots: Ints, words: Ints) -> None:
        """Entries go: the pool still has them."""

    def mark(self, alive: Alive) -> None:
        """Say which strings it has codes or labels of, beside those of the entries."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""


F = TypeVar("F", bound=Follower)


class EntryStore(Pooled):
    """A map in this process (or one partition of it)."""

    def __init__(self, target: MapDef[Any], interner: Interner, pool: Pool | None = None) -> None:
        codec = Codec(tuple(Column(v.name, v.type, v.nullable) for v in target.keys), interner)
        self.target = target
        self.layout = Layout(target.kinds)
        super().__init__(codec, pool or Pool(codec.words, self.layout))
        self._followers: dict[Hashable, Follower] = {}
        self.cleared = 0
        """How many times all followers have gone."""
        self.growth: Growth | None = None
        self.outgrown = False
        """Whether it was found to be much larger than the tables it is made of."""
        self._wanted: set[Hashable] = set()
        self._ranks: Ranks | None = None

    # -- change ------------------------------------------------------------------------------------

    def add_words(self, words: Ints, values: Values) -> Touched:
        """Add a change in the form of the pool; `commit` or `rollback` must follow."""
        try:
            touched = self.pool.add(words, values)
        except EverfreshError as error:
            raise EverfreshError(
                error.code,
                f"an aggregate of '{self.target.name}' is out of range",
                hint="the batch would make a sum too large for its type",
            ) from error
        self.enter(touched.slots[touched.created])
        self._touch(touched.slots[~touched.created])
        return touched

    def told(self, touched: Touched, but: Sequence[Follower] = ()) -> None:
        """A change was made by other means, slices included: tell the followers, but those that know."""
        others = [f for f in self._followers.values() if f not in but] if but else self._followers.values()
        if others:
            created, slots = touched.slots[touched.created], touched.slots[~touched.created]
            words, others_ = self.words(created), self.words(slots)
            for follower in others:
                follower.add(created, words)
                follower.touch(slots, others_)

    def commit(self, touched: Touched) -> None:
        """Make a change final: entries that have come to nothing go."""
        if self.growth is not None and self.growth.due:
            self.growth.settled(len(self.pool))
        counts = self.pool.counts[touched.slots]
        if np.count_nonzero(counts) < len(counts):
            gone = touched.slots[counts == 0]
            self.leave(gone)
            self.pool.sweep(gone)

    def rollback(self, touched: Touched) -> None:
        """Take a change back."""
        self.leave(touched.slots[touched.created])
        self.pool.rollback(touched)
        self._touch(touched.slots[~touched.created])

    def settle(self) -> None:
        """Make everything added so far final."""
        slots = self.pool.live()
        gone = slots[self.pool.gather(slots).n == 0]
        self.leave(gone)
        self.pool.sweep(gone)

    # -- reading -----------------------------------------------------------------------------------

    def entries(self, slots: Ints, before: Before) -> Values:
        """The values at some slots, zeros at -1; as they were before a change that is in `before`."""
        values = self.pool.gather(slots)
        change = before.get(self.target.name)
        if change is not None:
            _put_back(values, slots, change)
        return settled(values)

    # -- in order ----------------------------------------------------------------------------------

    @property
    def slice_bytes(self) -> int:
        """Bytes of the slices and of what follows the entries in order."""
        return super().slice_bytes + sum(follower.nbytes for follower in self._followers.values())

    @property
    def ranks(self) -> Ranks:
        """The order of the strings that followers ask for."""
        if self._ranks is None:
            self._ranks = Ranks(self.codec.interner)
        return self._ranks

    def follower(self, key: Hashable, make: Callable[[], F]) -> F:
        """What follows the entries under the name `key`: made, and told of all of them, if there is none."""
        found = self._followers.get(key)
        if found is None:
            found = make()
            slots = self.slots()
            found.add(slots, self.words(slots))
            self._followers[key] = found
        return found  # type: ignore[return-value]

    def is_followed(self, key: Hashable, *, wanted: bool = False) -> bool:
        """Whether something follows the entries under this name, or (`wanted`) should."""
        return key in self._followers or (wanted and key in self._wanted)

    def want(self, key: Hashable) -> None:
        """Something should follow the entries under this name."""
        self._wanted.add(key)

    def enter(self, slots: Ints) -> None:
        """Some slots have come into use."""
        super().enter(slots)
        if self._followers and len(slots):
            words = self.words(slots)
            for follower in self._followers.values():
                follower.add(slots, words)

    def leave(self, slots: Ints) -> None:
        """Some slots are no longer in use."""
        super().leave(slots)
        if self._followers and len(slots):
            words = self.words(slots)
            for follower in self._followers.values():
                follower.remove(slots, words)

    def _touch(self, slots: Ints) -> None:
        if self._followers and len(slots):
            words = self.words(slots)
            for follower in self._followers.values():
                follower.touch(slots, words)

    def clear(self) -> None:
        """Forget slices and followers."""
        super().clear()
        self._followers.clear()
        self.cleared += 1
        self._ranks = None

    # -- upkeep ------------------------------------------------------------------------------------

    def mark(self, alive: Alive) -> None:
        """Those of the entries, and of what follows them."""
        super().mark(alive)
        self.pool.mark(self.codec.codes, alive)
        for follower in self._followers.values():
            follower.mark(alive)


def settled(values: Values) -> Values:
    """Values as they are after a batch: an entry without a count is gone, whatever is left in it."""
    gone = values.n == 0
    if not gone.any() or not (values.ints[:, gone].any() or values.floats[:, gone].any()):
        return values
    return Values(values.n, np.where(gone, 0, values.ints), np.where(gone, 0.0, values.floats))


def _put_back(values: Values, slots: Ints, change: Touched) -> None:
    if not len(change.slots):
        return
    order = np.argsort(change.slots)
    known = change.slots[order]
    place = np.minimum(np.searchsorted(known, slots), len(known) - 1)
    hit = known[place] == slots
    source = order[place[hit]]
    values.n[hit] = change.old.n[source]
    values.ints[:, hit] = change.old.ints[:, source]
    values.floats[:, hit] = change.old.floats[:, source]


def joined_values(*parts: Values) -> Values:
    """Values one after the other."""
    return Values(
        np.concatenate([p.n for p in parts]),
        np.concatenate([p.ints for p in parts], axis=1),
        np.concatenate([p.floats for p in parts], axis=1),
    )


def merged(steps: Sequence[Touched]) -> Touched:
    """Several changes of one pool as one: each slot once, with its values before the first."""
    if len(steps) == 1:
        return steps[0]
    slots = np.concatenate([s.slots for s in steps])
    first, _ = netted_rows(slots[None], np.ones(len(slots), np.int64))
    old = joined_values(*(s.old for s in steps))
    old = Values(old.n.take(first), old.ints.take(first, axis=1), old.floats.take(first, axis=1))
    return Touched(slots.take(first), old, np.concatenate([s.created for s in steps]).take(first))
