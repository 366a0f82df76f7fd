"""What one call did to the maps of many views, as arrays over all of them; the views' changes come of it.

Each view's part is what an `add` to its map alone leaves (`Touched`); it is taken out when somebody asks for
it. So a batch that touches a thousand views makes some arrays, and not a thousand objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everfresh.delta.bags import net
from everfresh.local.relations.publishing import Change
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.map_store import MapStore
from everfresh.local.store.pool import Touched, Values
from everfresh.local.store.strings import Alive

Ints = NDArray[np.int64]


class Maps:
    """The maps of some views that have one layout."""

    def __init__(self, stores: Sequence[EntryStore]) -> None:
        self.stores = tuple(stores)
        self.numbers = {store.target.name: i for i, store in enumerate(stores)}
        """By the name of the map."""
        self.views = {
            store.view.name: i
            for i, store in enumerate(stores)
            if isinstance(store, MapStore) and store.view.map == store.target.name
        }
        self.grow = [i for i, store in enumerate(stores) if store.growth is not None]
        """Those that are watched while they grow."""
        self.coded = [i for i, store in enumerate(stores) if store.codec.codes]
        promises = {store.limits for store in stores if isinstance(store, MapStore)}
        self.limits = promises.pop() if len(promises) == 1 else None
        """What all sums have to be inside of, if that is all that has to be looked at."""


class Alike:
    """Changes of these maps: the touched entries of map `i` are those up to `ends[i]`."""

    __slots__ = ("_ends", "_maps", "apart", "created", "new", "old", "slots", "words")

    def __init__(
        self,
        maps: Maps,
        ends: Ints,
        slots: Ints,
        created: NDArray[np.bool_],
        old: Values,
        words: Ints,
        new: Values,
    ) -> None:
        self._maps, self._ends = maps, [0, *ends.tolist()]
        self.slots, self.created, self.old, self.words, self.new = slots, created, old, words, new
        self.apart: set[int] = set()
        """Maps whose change is told by other means, beside others of the batch."""

    def _part(self, i: int) -> slice:
        return slice(self._ends[i], self._ends[i + 1])

    def touched(self, i: int) -> Touched:
        """The change of one map."""
        part = self._part(i)
        return Touched(self.slots[part], _cut(self.old, part), self.created[part])

    def changed(self) -> Iterator[tuple[int, EntryStore]]:
        """The maps that were changed."""
        ends = self._ends
        for i, store in enumerate(self._maps.stores):
            if ends[i] < ends[i + 1]:
                yield i, store

    def of(self, name: str) -> Touched | None:
        """The change of a map by name, if it was changed."""
        i = self._maps.numbers.get(name)
        return None if i is None or self._ends[i] == self._ends[i + 1] else self.touched(i)

    # -- as the change of one map --------------------------------------------------------------------

    def commit(self, _: Any) -> None:
        """Make it final: see `EntryStore.commit`. Maps in which nothing has come to nothing have nothing to
        do."""
        gone = np.searchsorted(np.array(self._ends), np.flatnonzero(self.new.n == 0), side="right") - 1
        for i in sorted({*gone.tolist(), *self._maps.grow}):
            self._maps.stores[i].commit(self.touched(i))

    def rollback(self, _: Any) -> None:
        """Take it back."""
        for i, store in reversed(list(self.changed())):
            store.rollback(self.touched(i))

    # -- views ---------------------------------------------------------------------------------------

    def tell(self, told: dict[str, list[Touched]], before: Sequence[Alike]) -> None:
        """See that nothing is lost of maps that were changed before in this batch: their changes are told one
        after the other, in `told`."""
        if not told and not before:
            return
        for i, store in self.changed():
            name = store.target.name
            for other in before:
                at = other._maps.numbers.get(name)
                if at is not None and at not in other.apart and (was := other.of(name)) is not None:
                    other.apart.add(at)
                    told.setdefault(name, []).insert(0, was)
            if name in told:
                self.apart.add(i)
                told[name].append(self.touched(i))

    def publish(self, changes: Changes, told: dict[str, list[Touched]]) -> None:
        """The changes of the views: what comes after this of the same map, in `told`, comes together with
        it."""
        for name in told.keys() & self._maps.numbers.keys():
            i = self._maps.numbers[name]
            if i not in self.apart and (was := self.of(name)) is not None:
                self.apart.add(i)
                told[name].insert(0, was)
        limits = self._maps.limits
        if limits is not None and limits.hold(self.new):
            changes.promise(self)
            return
        for i, store in self.changed():
            if i not in self.apart and isinstance(store, MapStore) and store.view.name in self._maps.views:
                changes[store.view.name] = store.change(self.touched(i))

    def views(self) -> Iterator[str]:
        """The views that have a change here."""
        ends = self._ends
        for view, i in self._maps.views.items():
            if ends[i] < ends[i + 1] and i not in self.apart:
                yield view

    def change(self, view: str) -> Change | None:
        """The change of a view, if it has one here."""
        i = self._maps.views.get(view)
        if i is None or i in self.apart or self._ends[i] == self._ends[i + 1]:
            return None
        store, part = self._maps.stores[i], self._part(i)
        assert isinstance(store, MapStore)
        words, old, new = (
            np.ascontiguousarray(self.words[:, part]),
            _cut(self.old, part),
            _cut(self.new, part),
        )
        return Change(partial(store._published, words, old, new), [(store.codec, words)])

    def mark(self, alive: Alive) -> None:
        """Say which strings the changes have: see `reclaim`."""
        for i in self._maps.coded:
            part = self._part(i)
            if part.start < part.stop:
                self._maps.stores[i].codec.mark(self.words[:, part], alive)


def _cut(values: Values, part: slice) -> Values:
    """Some values, in arrays as kernels take them."""
    ints, floats = np.ascontiguousarray(values.ints[:, part]), np.ascontiguousarray(values.floats[:, part])
    return Values(values.n[part], ints, floats)


class Changes(MutableMapping[str, Change]):
    """The changes of views in one batch, by name: those of many views that are alike are made when somebody
    asks for them."""

    __slots__ = ("_alike", "_gone", "_own")

    def __init__(self, own: Mapping[str, Change] | None = None) -> None:
        self._own: dict[str, Change] = dict(own or {})
        self._alike: tuple[Alike, ...] = ()
        self._gone: set[str] = set()

    def promise(self, alike: Alike) -> None:
        """Those of some views more."""
        self._alike = (*self._alike, alike)

    def __getitem__(self, view: str) -> Change:
        found = self._own.get(view)
        if found is None and view not in self._gone:
            found = next((c for c in (alike.change(view) for alike in self._alike) if c is not None), None)
            if found is not None:
                self._own[view] = found
        if found is None:
            raise KeyError(view)
        return found

    def __setitem__(self, view: str, change: Change) -> None:
        self._own[view] = change
        self._gone.discard(view)

    def __delitem__(self, view: str) -> None:
        self._own.pop(view, None)
        self._gone.add(view)

    def __iter__(self) -> Iterator[str]:
        yield from list(self._own)
        for alike in self._alike:
            yield from (view for view in alike.views() if view not in self._own and view not in self._gone)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def mark(self, alive: Alive) -> None:
        """Say which strings the changes have that were not asked for yet."""
        for change in self._own.values():
            change.mark(alive)
        for alike in self._alike:
            alike.mark(alive)


def merged(every: Sequence[Changes]) -> Changes:
    """The changes of views that were stepped more than once in one batch, each as one change."""
    if len(every) == 1:
        return every[0]
    found: dict[str, list[Change]] = {}
    for changes in every:
        for view, change in changes.items():
            found.setdefault(view, []).append(change)
    return Changes(
        {
            view: some[0] if len(some) == 1 else Change.of(net(pa.concat_tables([c.table for c in some])))
            for view, some in found.items()
        }
    )
