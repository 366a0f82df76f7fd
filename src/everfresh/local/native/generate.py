"""The text of a function that runs statements on the rows of a change, one row after the other.

Two forms of the same loops. A statement that is *applied* adds what a row makes to its map before the next
row is looked at; one that is *emitted* collects it in a buffer, which the caller gets as the statement's
delta. For each row all statements are evaluated against the state that it finds; then, if there is room
everywhere, the rows that were made are added. Where there is none nothing has been changed yet for this row:
the caller makes room and comes back to it.

Invariant: the text depends on the statements and on the forms of what they read alone, never on a run; equal
statements over equal forms give equal text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everfresh.algebra import Kind
from everfresh.expr import Expr
from everfresh.local.atoms import Pooled
from everfresh.local.codec import Codec
from everfresh.local.entries import EntryStore
from everfresh.local.native import layout as at
from everfresh.local.native.bounds import Bound, key_words, stored
from everfresh.local.native.helpers import POOL_ROOM
from everfresh.local.native.layout import BeforeUse, BufferUse, ColumnUse, Places
from everfresh.local.native.lines import Lines
from everfresh.local.native.loops import Loops
from everfresh.local.native.scalars import Unsupported
from everfresh.local.pool import _WORD, _multipliers
from everfresh.local.wiring import Prepared, Wiring

_FLUSH = "flush"
_AHEAD = 8  # rows between asking for something and reading it
_OF_ROW = re.compile(r"0|ld\(cw, \d+ \* m \+ r\)|ld\(C, \d+\)|ld\(x\d+_words, r\)")
"""A word that is known from the number of the row alone."""
_DECORATOR = '@njit("int64(int64, int64, int64)", error_model="numpy", cache=True, nogil=True)'
_HEAD = '''\
"""Generated. See everfresh.local.native."""

import math

import numpy as np
from numba import njit

from everfresh.local.native.helpers import (
    add_cascade, add_count, add_wide, cascade_times, cascade_total, civil_part, decimal_to_float, divisible,
    finish, float_less, float_same, half_away, link_slices, quotient, remember, room, split, take_slot,
    words_of_float,
)
from everfresh.local.native.memory import (
    add_checked, as_float, ld, ld8, ld32, ldf, mul_checked, st, st32, stf, sub_checked, touch,
)
'''


@dataclass(frozen=True)
class Job:
    """A statement, and whether what it makes is added at once."""

    prepared: Prepared
    apply: bool


@dataclass(frozen=True)
class Generated:
    """The text of a function, and what it works on."""

    text: str
    places: Places
    jobs: tuple[Job, ...]
    codec: Codec
    ranged: tuple[tuple[EntryStore, tuple[str, ...]], ...] = ()
    """Maps of which all entries that agree on some columns are looked at, to find those in a range."""


class Generator:
    """One function in the making: what its terms share."""

    def __init__(
        self, wiring: Wiring, jobs: Sequence[Job], codec: Codec, unit: int, counted: Counter[str]
    ) -> None:
        self.wiring, self.jobs, self.codec, self.at = wiring, tuple(jobs), codec, unit
        self.one_by_one = any(job.apply for job in jobs)
        self.places = Places(len(self.jobs))
        self.out = Lines(2)
        self.seen: Counter[str] = Counter()
        self.reads: set[str] = set()
        """The maps that are read by name."""
        self.behind: set[str] = set()
        """The maps of relations that are read."""
        self.relations: set[str] = set()
        self.tables: set[str] = set()
        self.ranged: list[tuple[EntryStore, tuple[str, ...]]] = []
        self._counted = counted
        self._once: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._sites: list[tuple[int, str, list[str], list[str]]] = []
        self._ahead: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    # -- what terms ask for ------------------------------------------------------------------------

    def change_column(self, number: int) -> Bound:
        """A column of the row of the change."""
        return stored(self.codec, self.codec.columns[number], "ld(cw, {} * m + r)", number)

    def pool(self, store: Pooled) -> str:
        """The prefix of the names of a pool."""
        if store.pool._mask != _WORD:
            raise Unsupported("keys that collide")
        return f"p{self.places.pool(store).number}"

    def slice(self, store: Pooled, names: tuple[str, ...]) -> str:
        """The prefix of the names of a slice."""
        return f"i{self.places.slice(store, names).number}"

    def before(self, name: str) -> str:
        """The prefix of the names of a map's journal."""
        return f"o{self.places.before(name).number}"

    def text(self, value: str) -> str:
        """The number of a string."""
        return f"ld(C, {self.places.text(value)})"

    def column(self, expr: Expr) -> Bound:
        """A column that is computed beforehand."""
        use = self.places.column(expr)
        if expr.type.is_wide or expr.type.name in ("REAL", "INTERVAL", "NULL"):
            raise Unsupported(f"a column of type {expr.type}")
        null = f"(x{use.number}_valid != 0 and ld8(x{use.number}_valid, r) == 0)"
        return Bound(expr.type, (f"ld(x{use.number}_words, r)",), null, lead=True)

    def once(self, code: str) -> str:
        """A lookup by the change's row: made once if several ask for it."""
        self.seen[code] += 1
        if self._counted[code] < 2:
            return self.out.let(code, "s")
        name = self._once.setdefault(code, f"f{len(self._once)}")
        self.out.add(f"if {name} == -2: {name} = {code}")
        return name

    def ahead(self, prefix: str, words: Sequence[str], values: Sequence[str] = ()) -> None:
        """Ask some rows ahead for what a lookup by the change's row alone will read: its cell of the table,
        then the entry's words and values."""
        if all(_OF_ROW.fullmatch(word) for word in words) and any("r)" in word for word in words):
            self._ahead.setdefault((prefix, tuple(words)), tuple(values))

    def _prefetches(self) -> None:
        out = self.out
        for stage, distance in (("cell", 2 * _AHEAD), ("entry", _AHEAD)):
            with out.block(f"if r + {distance} < stop:"):
                out.add(f"ra = r + {distance}")
                for (prefix, words), values in self._ahead.items():
                    tag = _tag([word.replace("r)", "ra)") for word in words])
                    where = f"({tag} >> 32) & {prefix}_mask"
                    if stage == "cell":
                        out.add(f"touch({prefix}_table, {where})")
                        continue
                    cell = out.let(f"ld({prefix}_table, {where})", "c")
                    with out.block(f"if {cell} != 0:"):
                        slot = out.let(f"({cell} & 4294967295) - 1", "c")
                        for matrix in ("keys", *values):
                            out.add(f"touch({prefix}_{matrix}, {slot})")

    def finder(self, key: tuple[int, ...]) -> str:
        """The name of the function that finds an entry by the words at these places."""
        name = "find_" + "_".join(map(str, key))
        if name not in self._functions:
            args = "".join(f", a{j}" for j in range(len(key)))
            same = " and ".join(f"ld(keys, {p} * cap + slot) == a{j}" for j, p in enumerate(key)) or "True"
            self._functions[name] = f"""
@njit(forceinline=True)
def {name}(keys, cap, table, mask{args}):
    tag = {_tag([f"a{j}" for j in range(len(key))])}
    at = (tag >> 32) & mask
    while True:
        cell = ld(table, at)
        if cell == 0:
            return np.int64(-1)
        if (cell & -4294967296) == tag:
            slot = (cell & 4294967295) - 1
            if {same}:
                return slot
        at = (at + 1) & mask
"""
        return name

    # -- statements --------------------------------------------------------------------------------

    def statement(self, number: int) -> None:
        """All terms of a statement."""
        job = self.jobs[number]
        store = job.prepared.store
        for term in job.prepared.terms:
            loops = Loops(self, number, job.prepared.view, len(store.layout.kinds))
            loops.run(term, self._emit)

    def _emit(self, loops: Loops) -> None:
        """What is done with a row: kept in variables where there is at most one, else put into the buffer."""
        job, out = self.jobs[loops.statement], self.out
        store = job.prepared.store
        names = [v.name for v in store.target.keys]
        words, never = key_words(store.codec, [loops.env[name] for name in names])
        if never:
            out.add(f"if {' or '.join(never)}: bad = 1")
        count, values = loops.product.final(store.layout.kinds)
        flat = [term for value in values for term in value if term != "0.0"]
        out.open(f"if {' or '.join(f'{term} != 0' for term in dict.fromkeys([count, *flat]))}:")
        cells = [*words, count, *(term for value in values for term in value)]
        if job.apply and not loops.looped:
            site = f"e{len(self._sites)}"
            self.ahead(self.pool(store), words, ["n", *(["ints"] if store.layout.int_rows else [])])
            out.add(f"{site} = 1", *(f"{site}_{j} = {cell}" for j, cell in enumerate(cells)))
            self._sites.append((loops.statement, site, cells, self._zeros(store)))
            return
        use = self.places.buffer(loops.statement, store.codec.words, store.layout)
        b = f"b{use.number}"
        with out.block(f"if {b} >= b{use.number}_cap:"):
            self._exit(at.FULL_BUFFER, f"st(C, {at.POOL}, {use.number})")
        for cell, (store_, matrix, row) in zip(cells, _rows(store), strict=True):
            out.add(f"{store_}({b}_{matrix}, {row} * {b}_cap + {b}, {cell})")
        out.add(f"{b} += 1")

    def _zeros(self, store: EntryStore) -> list[str]:
        return ["0.0" if load == "stf" else "0" for load, _, _ in _rows(store)]

    def _exit(self, code: int, *lines: str) -> None:
        """Leave in the middle of row `r`: buffers are as they were at its start."""
        self.out.add(*lines, _FLUSH, f"st(C, {at.ROW}, r)", f"return {code}")

    def _flushed(self, text: str) -> str:
        """`text` with the marks replaced by what is written back before a return."""
        lines = [f"st(C, {use.place + at.BUFFER_COUNT}, b{use.number}_start)" for use in self._emitted()] + [
            f"st(C, {at.VISITED + i}, v{i})" for i in range(len(self.jobs))
        ]
        return re.sub(
            rf"^( *){_FLUSH}$", lambda m: "\n".join(m[1] + line for line in lines), text, flags=re.MULTILINE
        )

    def _emitted(self) -> list[BufferUse]:
        return [use for use in self.places.buffers.values() if not self.jobs[use.statement].apply]

    # -- adding ------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Add the rows of applied statements, after a look at the room for all of them."""
        out = self.out
        needs: dict[int, list[str]] = {}
        stores: dict[int, EntryStore] = {}
        for number, site, _, _ in self._sites:
            store = self.jobs[number].prepared.store
            needs.setdefault(self.places.pool(store).number, []).append(site)
            stores[self.places.pool(store).number] = store
        for use in self.places.buffers.values():
            if self.jobs[use.statement].apply:
                store = self.jobs[use.statement].prepared.store
                needs.setdefault(self.places.pool(store).number, []).append(f"b{use.number}")
                stores[self.places.pool(store).number] = store
        for number in sorted(needs):
            place = self.places.pool(stores[number]).place
            self.places.targets.add(number)
            need = out.let(" + ".join(needs[number]), "q")
            with (
                out.block(f"if ld(C, {place + POOL_ROOM}) < {need}:"),
                out.block(f"if room(C + {8 * place}) < {need}:"),
            ):
                self._exit(at.FULL_POOL, f"st(C, {at.POOL}, {number})", f"st(C, {at.NEED}, {need})")
        for number, site, cells, _ in self._sites:
            args = ", ".join(f"{site}_{j}" for j in range(len(cells)))
            with out.block(f"if {site} != 0:"):
                out.add(f"bad |= {self._adder(number)}{args})")
        for use in self.places.buffers.values():
            if self.jobs[use.statement].apply:
                store, b = self.jobs[use.statement].prepared.store, f"b{use.number}"
                args = ", ".join(
                    f"{'ldf' if put == 'stf' else 'ld'}({b}_{matrix}, {row} * {b}_cap + j)"
                    for put, matrix, row in _rows(store)
                )
                with out.block(f"for j in range(b{use.number}):"):
                    out.add(f"bad |= {self._adder(use.statement)}{args})")
        if needs:
            with out.block("if bad != 0:"):
                self._exit(at.BAD)

    def _adder(self, statement: int) -> str:
        """The call, up to its own arguments, of the function that adds to a statement's map."""
        store = self.jobs[statement].prepared.store
        use = self.places.pool(store)
        name = f"add_{use.number}"
        if name not in self._functions:
            self._functions[name] = _adder(name, store)
        return f"{name}(C + {8 * use.place}, "

    # -- text --------------------------------------------------------------------------------------

    def source(self) -> str:
        """The whole text."""
        body = self.out
        self.out = Lines(1)
        self._bindings()
        out = self.out
        out.add("bad = 0")
        out.add(*(f"v{i} = ld(C, {at.VISITED + i})" for i in range(len(self.jobs))))
        for use in self._emitted():
            out.add(f"b{use.number} = ld(C, {use.place + at.BUFFER_COUNT})")
        out.open("for r in range(start, stop):")
        out.add("w = ld(weights, r)")
        for use in self.places.buffers.values():
            applied = self.jobs[use.statement].apply
            out.add(f"b{use.number} = 0" if applied else f"b{use.number}_start = b{use.number}")
        out.add(*(f"{name} = -2" for name in self._once.values()))
        if self._ahead:
            self._prefetches()
        for _, site, _, zeros in self._sites:
            out.add(f"{site} = 0", *(f"{site}_{j} = {zero}" for j, zero in enumerate(zeros)))
        head = out.text()
        self.out = Lines(1)
        self.out.add("r = stop")
        for use in self._emitted():
            self.out.add(f"b{use.number}_start = b{use.number}")
        self._exit(at.DONE)
        tail = self.out.text()
        self.out = body
        functions = "".join(self._functions[name] for name in sorted(self._functions))
        return self._flushed(
            f"{_HEAD}{functions}\n\n{_DECORATOR}\ndef run(C, start, stop):\n{head}\n{body.text()}\n{tail}\n"
        )

    def _bindings(self) -> None:
        out, change = self.out, self.places.change
        out.add(
            f"cw = ld(C, {change + at.CHANGE_WORDS})",
            f"m = ld(C, {change + at.CHANGE_ROWS})",
            f"weights = ld(C, {change + at.CHANGE_WEIGHTS})",
        )
        pool_names = ("keys", "cap", "table", "mask", "mark", "state", "n", "ints", "floats")
        slice_names = {"keys": 3, "cap": 4, "table": 5, "mask": 6, "heads": 11, "nexts": 12}
        for pool in self.places.pools.values():
            out.add(*(f"p{pool.number}_{n} = ld(C, {pool.place + i})" for i, n in enumerate(pool_names)))
        for slice_ in self.places.slices.values():
            out.add(*(f"i{slice_.number}_{n} = ld(C, {slice_.place + i})" for n, i in slice_names.items()))
        others: list[tuple[str, Iterable[BufferUse | ColumnUse | BeforeUse], tuple[str, ...]]] = [
            ("b", self.places.buffers.values(), ("words", "floats", "cap")),
            ("x", self.places.columns.values(), ("words", "valid")),
            ("o", self.places.befores.values(), ("slots", "count", "n", "ints", "floats")),
        ]
        for prefix, uses, names in others:
            for use in uses:
                out.add(*(f"{prefix}{use.number}_{n} = ld(C, {use.place + i})" for i, n in enumerate(names)))


def _tag(words: Sequence[str]) -> str:
    by = _multipliers(len(words), _WORD).view("uint64").tolist()
    terms = [f"np.uint64({w}) * np.uint64({c})" for w, c in zip(words, by, strict=True)]
    return f"finish({' + '.join(terms) or 'np.uint64(0)'})"


def _rows(store: EntryStore) -> list[tuple[str, str, int]]:
    """Where the cells of a made row stand in a buffer: how to store each, in which matrix, in which row."""
    found = [("st", "words", j) for j in range(store.codec.words + 1)]
    ints, floats = store.codec.words + 1, 0
    for kind in store.layout.kinds:
        if kind == Kind.FLOAT:
            found += [("stf", "floats", floats + i) for i in range(3)]
            floats += 3
        else:
            found.append(("st", "words", ints))
            ints += 1
    return found


def _adder(name: str, store: EntryStore) -> str:
    """The function that adds a row to a map, with its journal and slices."""
    keys = [f"k{j}" for j in range(store.codec.words)]
    same = " and ".join(f"ld(keys, {j} * cap + slot) == {k}" for j, k in enumerate(keys)) or "True"
    args, adds = [*keys, "dn"], []
    for i, (kind, row) in enumerate(zip(store.layout.kinds, store.layout.offsets, strict=True)):
        if kind == Kind.COUNT:
            args.append(f"d{i}")
            adds.append(f"bad |= add_count(ld(P, 7), {row} * cap + slot, d{i})")
        elif kind == Kind.WIDE:
            args.append(f"d{i}")
            adds.append(f"bad |= add_wide(ld(P, 7) + 8 * {row} * cap, cap, slot, d{i})")
        else:
            args += [f"d{i}s", f"d{i}c", f"d{i}cc"]
            adds.append(f"bad |= add_cascade(ld(P, 8) + 8 * {row} * cap, cap, slot, d{i}s, d{i}c, d{i}cc)")
    stores = "\n        ".join(f"st(keys, {j} * cap + slot, {k})" for j, k in enumerate(keys)) or "pass"
    return f"""
@njit
def {name}(P, {", ".join(args)}):
    keys, cap, table, mask, mark = ld(P, 0), ld(P, 1), ld(P, 2), ld(P, 3), ld(P, 4)
    tag = {_tag(keys)}
    at = (tag >> 32) & mask
    slot = np.int64(-1)
    while True:
        cell = ld(table, at)
        if cell == 0:
            break
        if (cell & -4294967296) == tag:
            slot = (cell & 4294967295) - 1
            if {same}:
                break
            slot = np.int64(-1)
        at = (at + 1) & mask
    if slot < 0:
        slot = take_slot(mark, ld(P, 5))
        st(table, at, tag | (slot + 1))
        {stores}
        remember(P, slot, 1)
        if ld(P, 9) != 0:
            link_slices(P, slot)
    else:
        place = ld32(mark, slot)
        if place >= ld(P, 18) or ld(ld(P, 12), place) != slot:
            remember(P, slot, 0)
    st(P, {POOL_ROOM}, ld(P, {POOL_ROOM}) - 1)
    bad = add_count(ld(P, 6), slot, dn)
    {"; ".join(adds) or "pass"}
    return bad
"""


def generate(
    wiring: Wiring, jobs: Sequence[Job], codec: Codec, unit: int = -1
) -> tuple[Generated, Generator]:
    """The text for some statements on the change of a relation with this codec; `Unsupported` if one of them
    has no native form."""
    counted: Counter[str] = Counter()
    for _ in range(2):
        made = Generator(wiring, jobs, codec, unit, counted)
        for number in range(len(made.jobs)):
            made.statement(number)
        with made.out.block("if bad != 0:"):
            made._exit(at.BAD)
        made.apply()
        text = made.source()
        counted = made.seen
    return Generated(text, made.places, made.jobs, codec, tuple(made.ranged)), made
