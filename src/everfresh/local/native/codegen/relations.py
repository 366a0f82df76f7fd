"""Relations that are read off maps, inside generated code: what `reading.ViewReader.join` finds for one row.

The entry of the map is found, sliced or scanned by the columns that are keys; the count decides whether there
is a row, the outputs are computed where they are wanted and compared where they are bound. A relation whose
maps have changed in this batch already may be asked for as it was before: then an entry's values are looked
up in the journal of that change, where its mark points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everfresh.algebra import Kind
from everfresh.calculus import Rel
from everfresh.expr import Var
from everfresh.local.native.codegen.bounds import Bound, bind, same, value_of
from everfresh.local.native.codegen.numbers import Number
from everfresh.local.native.codegen.scalars import Scalars, Unsupported, Val, bounds_of, form
from everfresh.local.relations.intervals import IntervalReader
from everfresh.local.relations.view_reader import ViewReader
from everfresh.local.store.entries import EntryStore
from everfresh.program import component_index, is_unscaled, side_of
from everfresh.types import BIGINT, DOUBLE, SqlType

if TYPE_CHECKING:
    from everfresh.local.native.codegen.loops import Loops


def read_relation(loops: Loops, view: str, factor: Rel, keep: frozenset[str]) -> None:
    """Join with a derived relation or a view."""
    made = loops.made
    reader, number = made.wiring.reader(view, factor.name)
    hidden = made.hides(reader, number, loops.stage)
    if isinstance(reader, IntervalReader) and not hidden:
        from everfresh.local.native.codegen.stages import read_interval

        made.relations.add(factor.name)
        read_interval(loops, view, factor.name, reader, [v.name for v in factor.vars])
        return
    if not isinstance(reader, ViewReader):
        raise Unsupported("a relation that is recomputed")
    if any(aside.side.how != "at" for aside in reader.sides):
        raise Unsupported("an extreme")
    made.relations.add(factor.name)
    made.behind.update(reader.view.maps)
    RelationRead(loops, reader, hidden).join([v.name for v in factor.vars], keep)


class Entry:
    """Where the components of an entry are read: its slot may be -1, its values may be those of before."""

    def __init__(self, loops: Loops, store: EntryStore, slot: str, *, hidden: bool, sure: bool) -> None:
        self._loops, self._store, self._slot = loops, store, slot
        out, pool = loops.out, loops.made.pool(store)
        self._old: str | None = None
        if hidden:
            before = loops.made.before(store.target.name)
            self._before = before
            place = out.let("-1", "j")
            with out.block(f"if {slot} >= 0 and {before}_count > 0:"):
                out.add(f"{place} = ld32({pool}_mark, {slot})")
                test = f"{place} >= {before}_count or ld({before}_slots, {place}) != {slot}"
                out.add(f"if {test}: {place} = -1")
            self._old = place
        self._pool, self._sure = pool, sure
        self.n = out.let(self._read("ld", "n", 0, 0), "n")
        self._there = f"{self.n} != 0"

    def _read(self, load: str, matrix: str, row: int, cap_rows: int) -> str:
        """A word of the entry, 0 if there is none."""
        cap = f"{row} * {self._pool}_cap + " if row else ""
        zero = "0.0" if load == "ldf" else "0"
        code = f"{load}({self._pool}_{matrix}, {cap}{self._slot})"
        if not self._sure:
            code = f"({code} if {self._slot} >= 0 else {zero})"
        if self._old is not None:
            jump = f"{row} * {self._before}_count + " if row else ""
            code = f"({load}({self._before}_{matrix}, {jump}{self._old}) if {self._old} >= 0 else {code})"
        return code

    def is_float(self, index: int) -> bool:
        """Whether a component is a sum of doubles."""
        return index > 0 and self._store.layout.kinds[index - 1] == Kind.FLOAT

    def component(self, index: int, type_: SqlType) -> Val:
        """A component under the type that an expression reads it as; 0 where the entry has no count."""
        out = self._loops.out
        if index == 0:
            return Val(self.n, None, BIGINT)
        kind = self._store.layout.kinds[index - 1]
        at = self._store.layout.offsets[index - 1]
        if kind == Kind.FLOAT:
            terms = ", ".join(self._read("ldf", "floats", at + i, 3) for i in range(3))
            return Val(out.let(f"rounded_sum({terms}) if {self._there} else 0.0", "x"), None, DOUBLE)
        if form(type_) != "i":
            raise Unsupported(f"a sum as {type_}")
        low = at + (kind == Kind.WIDE)
        name = out.let(f"{self._read('ld', 'ints', low, 0)} if {self._there} else 0", "n")
        if kind == Kind.WIDE:
            high = self._read("ld", "ints", at, 0)
            out.add(f"if {self._there} and {high} != ({name} >> 63): bad = 1")
            bounds = bounds_of(type_)
            if bounds != BIGINT.bounds:
                out.add(f"if {name} < {bounds[0]} or {name} > {bounds[1]}: bad = 1")
            return Val(name, None, type_, bounds)
        return Val(name, None, type_)


class RelationRead:
    """One read of a relation."""

    def __init__(self, loops: Loops, reader: ViewReader, hidden: bool) -> None:
        self._loops, self._reader, self._hidden = loops, reader, hidden
        self._entry: Entry | None = None
        self._keys: dict[int, Bound] = {}
        self._slot = ""
        self._sides: dict[int, Entry] = {}

    def join(self, names: list[str], keep: frozenset[str]) -> None:
        """The rows that agree with what is bound."""
        loops, reader, view = self._loops, self._reader, self._reader.view
        store = reader.store
        bound = [loops.env.get(name) for name in names]
        for one, place in zip(bound, reader.key_of, strict=True):
            if one is not None and place is not None:
                self._keys.setdefault(place, one)
        rest = [i for i, one in enumerate(bound) if one is not None]
        if rest and not self._keys:
            raise Unsupported("only computed columns are bound")
        columns = [store.columns[i] for i in sorted(self._keys)]
        chosen = [self._keys[i] for i in sorted(self._keys)]
        if view.always:
            self._slot = loops.find(store, columns, chosen)
        else:
            self._slot = loops.entries(store, columns, chosen)
        loops._visit("1")
        self._entry = Entry(loops, store, self._slot, hidden=self._hidden, sure=not view.always)
        if not view.always:
            loops.out.open(f"if {self._entry.n} != 0:")
        self._weigh()
        self._bind(names, bound, keep)

    def at(self, keys: list[Bound]) -> list[Bound]:
        """The columns of the row at a key; blocks are opened where there may be none."""
        loops, store, view = self._loops, self._reader.store, self._reader.view
        if any(aside.side.how != "at" for aside in self._reader.sides):
            raise Unsupported("an extreme")
        self._keys = dict(enumerate(keys))
        self._slot = loops.find(store, store.columns, keys)
        self._entry = Entry(loops, store, self._slot, hidden=False, sure=False)
        if not view.always:
            loops.out.open(f"if {self._entry.n} != 0:")
        self._weigh()
        return [
            self._output(i) if place is None else self.key(place)
            for i, place in enumerate(self._reader.key_of)
        ]

    def _weigh(self) -> None:
        """The weight of the row, and the filter."""
        view, out = self._reader.view, self._loops.out
        assert self._entry is not None
        scalars = self._scalars()
        if view.weight is not None:
            found = scalars.value(view.weight)
            code = found.code if found.null is None else f"0 if {found.null} else {found.code}"
            weight = out.let(code, "n")
            out.open(f"if {weight} != 0:")
            self._loops.product.times_all(Number.whole(weight))
        elif view.bag:
            out.open(f"if {self._entry.n} != 0:")
            self._loops.product.times_all(Number.whole(self._entry.n))
        if view.having is not None:
            scalars.when(view.having)

    def _bind(self, names: list[str], bound: list[Bound | None], keep: frozenset[str]) -> None:
        loops, reader = self._loops, self._reader
        for i, name in enumerate(names):
            place, known = reader.key_of[i], bound[i]
            if known is not None and place is not None and self._keys[place] is known:
                continue
            if known is None and name not in keep and names.count(name) == 1:
                continue
            one = self.key(place) if place is not None else self._output(i)
            other = loops.env.get(name)
            if other is not None:
                loops.out.open(f"if {same(other, one)}:")
            else:
                loops.env[name] = one

    def _output(self, i: int) -> Bound:
        expr = self._reader.view.outputs[i]
        return bind(self._loops.out, self._scalars().value(expr), lead=False)

    def key(self, place: int) -> Bound:
        """A key of the map."""
        found = self._keys.get(place)
        if found is None:
            store = self._reader.store
            found = self._loops.column(store, store.columns[place], self._slot)
        return found

    def _scalars(self) -> Scalars:
        return self._loops.scalars(self._variable)

    def _variable(self, var: Var) -> Val:
        keys = [c.name for c in self._reader.store.columns]
        if var.name in keys:
            return value_of(self._loops.out, self.key(keys.index(var.name)))
        side = side_of(var.name)
        entry = self._side(side) if side else self._entry
        assert entry is not None
        index = component_index(var.name)
        if is_unscaled(var.name) and entry.is_float(index):
            raise Unsupported("the rest of a sum of doubles")
        return entry.component(index, var.type)

    def _side(self, number: int) -> Entry:
        """The entry of a side at the same keys."""
        found = self._sides.get(number)
        if found is None:
            aside = self._reader.sides[number - 1]
            slot = self._loops.find(aside.store, aside.store.columns, [self.key(i) for i in aside.at])
            found = Entry(self._loops, aside.store, slot, hidden=self._hidden, sure=False)
            self._sides[number] = found
        return found
