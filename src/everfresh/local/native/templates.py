"""Views of one template: their forms have the same text (`codegen.generate`), and one call runs all of them.

A view takes part while all that its statements make of a change goes to maps that nothing else is read off:
then a call leaves journals and nothing else, and what the batch has done to all of these maps is some arrays
(`relations.alike`). A view that could not go on (an overflow, say) is taken back, and runs by itself.

Invariant: maps, visited entries and changes are those of the same forms run one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from everfresh.local.batch.linked_programs import Group
from everfresh.local.interpret.atoms import Rows
from everfresh.local.native.codegen import each
from everfresh.local.native.runtime import journals
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.binding import address
from everfresh.local.native.runtime.helpers import POOL_COUNT
from everfresh.local.relations.alike import Alike, Maps
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Values

if TYPE_CHECKING:
    from everfresh.local.native.manager import Form
    from everfresh.local.native.runtime.runner import CompiledCall, Function

Ints = NDArray[np.int64]
Statement = tuple[str, str, int]
"""A view, the relation whose change a statement runs on, its number."""


@dataclass(slots=True)
class Ran:
    """What a call made: the changes of maps, visited entries by statement, and the views that have to run by
    themselves."""

    changes: list[Alike]
    visited: list[tuple[Sequence[Statement], list[int]]]
    left: list[Group]


class Template:
    """Some views with forms of one text, and the function that runs all of them."""

    def __init__(self, members: Sequence[tuple[Group, Form]], function: Function) -> None:
        self.members = tuple(members)
        self._run = function
        runners = [form.runner for _, form in members]
        self._runners: list[CompiledCall] = [runner for runner in runners if runner is not None]
        assert len(self._runners) == len(members)
        for runner in self._runners:
            runner.stand()
        count, made = len(self._runners), self._runners[0].made
        self._given = np.zeros(each.CONTEXTS + count, np.int64)
        self._given[each.COUNT] = count
        self._given[each.CONTEXTS :] = [runner.address for runner in self._runners]
        self._contexts = self._given[each.CONTEXTS :]
        self._at = address(self._given)
        self._pools = [
            (pool.use.stored.pool, pool.use.stored, pool, runner)
            for runner in self._runners
            for pool in runner.pools
        ]
        self._moving = [runner for runner in self._runners if runner.looks_up]
        self._maps: list[tuple[int, Maps]] = []
        for i, pool in enumerate(self._runners[0].pools):
            if pool.target:
                stores = [runner.pools[i].use.stored for runner in self._runners]
                self._maps.append((pool.use.place, Maps([s for s in stores if isinstance(s, EntryStore)])))
        self._statements = [
            [(job.view, job.base, job.index) for job in (r.made.jobs[i].prepared for r in self._runners)]
            for i in range(len(made.jobs))
        ]

    def light(self) -> bool:
        """Whether it is good for many rows: see `Form.light`."""
        return all(form.light() for _, form in self.members)

    def run(self, change: Rows) -> Ran:
        """Run the statements of all views on a change."""
        given, rows = self._given, len(change)
        words, weights = np.ascontiguousarray(change._words), np.ascontiguousarray(change._weights, np.int64)
        given[each.WORDS], given[each.ROWS], given[each.WEIGHTS] = address(words), rows, address(weights)
        self._look()
        left, view, row, count = [], 0, 0, len(self._runners)
        while (view := self._run(self._at, view, row)) < count:
            code, runner = int(given[each.CODE]), self._runners[view]
            if code == at.BAD:
                runner.leave()
                group, form = self.members[view]
                form.bad += 1
                left.append(group)
                view, row = view + 1, 0
            else:
                row = runner.more_room(code)
        return Ran(self._taken(), self._visited(), left)

    def _look(self) -> None:
        """Write anew what has moved since the last call."""
        for pool, stored, binding, runner in self._pools:
            if binding._seen is not pool._table or stored._slices:
                binding.refresh(runner.context, 0)
        for runner in self._moving:
            runner.look_up()

    def _visited(self) -> list[tuple[Sequence[Statement], list[int]]]:
        found: list[tuple[Sequence[Statement], list[int]]] = []
        out = np.empty(len(self._contexts), np.int64)
        for i, statements in enumerate(self._statements):
            journals.words_at(self._contexts, at.VISITED + i, out)
            found.append((statements, out.tolist()))
        return found

    def _taken(self) -> list[Alike]:
        found, counts = [], np.empty(len(self._contexts), np.int64)
        for place, maps in self._maps:
            journals.words_at(self._contexts, place + POOL_COUNT, counts)
            ends = np.cumsum(counts)
            total = int(ends[-1])
            if not total:
                continue
            store = maps.stores[0]
            slots, created = np.empty(total, np.int64), np.empty(total, np.bool_)
            words = np.empty((store.codec.words, total), np.int64)
            old, new = Values.empty(store.layout, total), Values.empty(store.layout, total)
            journals.taken(
                self._contexts, place, ends, slots, created, old.n, old.ints, old.floats,
                words, new.n, new.ints, new.floats,
            )  # fmt: skip
            alike = Alike(maps, ends, slots, created, old, words, new)
            for i, store in enumerate(maps.stores):
                if store._followers and counts[i]:
                    store.told(alike.touched(i))
            found.append(alike)
        return found
