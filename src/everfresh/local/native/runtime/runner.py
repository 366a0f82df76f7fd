"""A compiled function at work: it is given a change, and what it made is handed on.

Statements that are applied leave what an `add` to their map leaves: the entries that were touched, with
their values before. If the function says that it cannot go on (an error, a number beyond a word),
everything is taken back, and the interpreter runs the statements: it knows the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everfresh.errors import EverfreshError
from everfresh.expr import Made, evaluate_vector, variables
from everfresh.local.batch.linked_programs import Prepared
from everfresh.local.interpret.atoms import Rows
from everfresh.local.interpret.frame_columns import Cells, VectorsOf
from everfresh.local.interpret.interpreter import PoolDelta
from everfresh.local.kernels.like_patterns import matched
from everfresh.local.native.codegen.generate import Generated
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime import row_places
from everfresh.local.native.runtime.binding import (
    BandBinding,
    BufferBinding,
    PoolBinding,
    SliceBinding,
    address,
)
from everfresh.local.native.runtime.memory import as_word
from everfresh.local.store.entries import EntryStore
from everfresh.local.store.pool import Touched

Ints = NDArray[np.int64]
Function = Callable[[int, int, int], int]
_LEAST, _FEW = 64, 16


@dataclass(slots=True)
class Outcome:
    """What a call made: deltas that are to be added, changes of maps that are made, and visited entries."""

    deltas: list[tuple[EntryStore, PoolDelta]]
    touched: list[tuple[EntryStore, Touched]]
    visited: list[tuple[Prepared, int]]


class CompiledCall:
    """One compiled function and its context."""

    def __init__(self, made: Generated, function: Function) -> None:
        self.made, self._run = made, function
        places = made.places
        self.context = np.zeros(places.size, np.int64)
        self.address = address(self.context)
        for number in places.numbers:
            word = as_word(number.value) if isinstance(number.value, float) else number.value
            self.context[number.place] = word
        self._bands = [BandBinding(use) for use in places.bands.values()]
        followed = [BandBinding(use) for use in places.followed.values()]
        self.pools = [
            PoolBinding(
                use,
                use.number in places.targets,
                [b for b in self._bands if b.use.stored is use.stored],
                [b for b in followed if b.use.stored is use.stored],
            )
            for use in places.pools.values()
        ]
        self._slices = {use: SliceBinding(use.stored.slice(use.names)) for use in places.slices.values()}
        self._buffers = [BufferBinding(use) for use in places.buffers.values()]
        self._deltas = [BufferBinding(use) for use in places.deltas.values()]
        self._texts, self._texts_of = bool(places.texts), -1
        """The version of the strings that the codes of constants are of: the context holds none in use."""
        self._kept = [band for pool in self.pools for band in pool.bands]
        self._counters = slice(0, at.VISITED + places.statements)
        self._room = [_LEAST if made.jobs[buffer.use.statement].apply else 0 for buffer in self._buffers]
        """Of each buffer: what it has at least, 0: as much as the change has rows."""
        self._made = [
            (made.jobs[buffer.use.statement].prepared.store, buffer)
            for buffer in self._buffers
            if not made.jobs[buffer.use.statement].apply
        ]
        self._changed = [
            (pool.use.stored, pool)
            for pool in self.pools
            if pool.target and isinstance(pool.use.stored, EntryStore)
        ]

    def run(self, change: Rows, before: Mapping[str, Touched]) -> Outcome | None:
        """Run the statements on a change; None if the interpreter has to."""
        rows = len(change)
        held = self._bind(change, rows, before)
        if held is None:
            return None
        start = 0
        while True:
            code = self._run(self.address, start, rows)
            if code == at.DONE:
                return self._outcome()
            if code == at.BAD:
                again = self._make_room()
                self._take_back()
                if not again:
                    return None
                held = self._bind(change, rows, before)
                if held is None:
                    return None
                start = 0
                continue
            start = self.more_room(code)

    # -- as one of many ----------------------------------------------------------------------------

    def stand(self) -> None:
        """Bind all but the change, for calls that write that themselves (`templates`)."""
        for pool in self.pools:
            pool.refresh(self.context, _FEW)
        for buffer in self._buffers:
            buffer.refresh(self.context, _FEW)
        self.look_up()

    @property
    def looks_up(self) -> bool:
        """Whether there is something to look up before each call."""
        return bool(self._slices or self.made.places.texts)

    def look_up(self) -> None:
        """Write the numbers of strings, and where slices are."""
        if self._slices:
            self._bind_slices()
        if self._texts:
            self._bind_texts()

    def more_room(self, code: int) -> int:
        """Make the room that there was too little of; the row to go on with."""
        context = self.context
        row, number = int(context[at.ROW]), int(context[at.POOL])
        if code == at.FULL_POOL:
            self.pools[number].grow(context, int(context[at.NEED]))
            self._bind_slices()
        else:
            self._buffers[number].grow(context)
        return row

    def leave(self) -> None:
        """Take back what was done, and be as if nothing had been."""
        self._take_back()
        for _, pool in self._changed:
            pool.forget(self.context)
        self.context[self._counters] = 0

    def _make_room(self) -> bool:
        """Whether the function stopped for want of room after it had changed something: then there is more
        now, and the call is to be made again from its first row."""
        context = self.context
        what, number, need = (int(context[i]) for i in (at.AGAIN, at.POOL, at.NEED))
        if what == at.NO_POOL:
            self.pools[number].grow(context, need)
        elif what == at.NO_BUFFER:
            self._buffers[number].grow(context)
        elif what == at.NO_DELTA:
            self._deltas[number].grow(context)
        return what != 0

    def _outcome(self) -> Outcome:
        context = self.context
        deltas = [(store, PoolDelta(*buffer.rows(context))) for store, buffer in self._made]
        touched = []
        for store, pool in self._changed:
            if not pool.count(context):
                continue
            change = pool.touched(context)
            bands = [binding.band for binding in pool.bands]
            for band in bands:
                band.kept_up(change.slots[change.created])
            store.told(change, bands)
            touched.append((store, change))
        counts = context[self._counters].tolist()[at.VISITED :]
        visited = [(job.prepared, count) for job, count in zip(self.made.jobs, counts, strict=True)]
        return Outcome(deltas, touched, visited)

    def _take_back(self) -> None:
        for _, pool in self._changed:
            pool.take_back(self.context)

    # -- binding -----------------------------------------------------------------------------------

    def _bind(self, change: Rows, rows: int, before: Mapping[str, Touched]) -> list[object] | None:
        """Write all addresses; the arrays that only they hold, or None if a column cannot be computed."""
        context, places = self.context, self.made.places
        context[self._counters] = 0
        words, weights = np.ascontiguousarray(change._words), np.ascontiguousarray(change._weights, np.int64)
        held: list[object] = [words, weights]
        row_places.place_change(context, places.change, words, weights)
        try:
            for band in self._bands:
                band.refresh(context, band in self._kept)
        except EverfreshError:
            return None  # a value that cannot be computed stands in no order
        least = max(rows, _LEAST)
        for pool in self.pools:
            pool.refresh(context, least)
        if self._slices:
            self._bind_slices()
        for buffer, room in zip(self._buffers, self._room, strict=True):
            buffer.refresh(context, room or least)
        for delta in self._deltas:
            delta.refresh(context, _LEAST)
        if places.columns and not self._bind_columns(change, rows, held):
            return None
        for use in places.befores.values():
            self._bind_before(use.place, before.get(use.map), held)
        if self._texts:
            self._bind_texts()
        return held

    def _bind_texts(self) -> None:
        texts, interner = self.made.places.texts, self.made.codec.interner
        if self._texts_of != interner.version:
            codes = interner.intern_list(list(texts))
            for place, code in zip(texts.values(), codes.tolist(), strict=True):
                self.context[place] = code
            self._texts_of = interner.version

    def _bind_slices(self) -> None:
        for use, block in self._slices.items():
            slice_ = use.stored.slice(use.names)
            if slice_ is not block.slice:
                block = self._slices[use] = SliceBinding(slice_)
            if block.refresh():
                self.context[use.place : use.place + len(block.words)] = block.words

    def _bind_columns(self, change: Rows, rows: int, held: list[object]) -> bool:
        every = np.arange(rows)
        read = {int(v.name[1:]) for expr in self.made.places.columns for v in variables(expr)}
        columns: dict[str, Cells] = {
            Made(f"${i}"): change.cells(change.columns[i], every) for i in sorted(read)
        }
        env = VectorsOf(columns)
        for expr, use in self.made.places.columns.items():
            try:
                cells = matched(expr, columns)
                if cells is None:
                    cells = Cells.of(evaluate_vector(expr, env, rows), change.codec.interner)
            except EverfreshError:
                return False  # perhaps of a row that another condition drops
            words = np.ascontiguousarray(cells.words[0], np.int64)
            valid = None if cells.valid is None else np.ascontiguousarray(cells.valid)
            held += [words, valid]
            self.context[use.place] = address(words)
            self.context[use.place + 1] = 0 if valid is None else address(valid)
        return True

    def _bind_before(self, place: int, change: Touched | None, held: list[object]) -> None:
        if change is None or not len(change.slots):
            self.context[place : place + at.BEFORE_SIZE] = 0
            return
        arrays = [
            np.ascontiguousarray(a) for a in (change.slots, change.old.n, change.old.ints, change.old.floats)
        ]
        held += arrays
        slots, n, ints, floats = (address(a) for a in arrays)
        self.context[place : place + at.BEFORE_SIZE] = slots, len(change.slots), n, ints, floats
