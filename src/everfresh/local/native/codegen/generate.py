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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from everfresh.algebra import Kind
from everfresh.calculus import Sum
from everfresh.expr import Expr
from everfresh.local.batch.linked_programs import LinkedRelation, Wiring
from everfresh.local.interpret.atoms import Pooled
from everfresh.local.interpret.join_order import Term
from everfresh.local.native.codegen.adders import adder, finder, rows_of, tag_of
from everfresh.local.native.codegen.adding import AddedStatement, Adding
from everfresh.local.native.codegen.bounds import Bound, key_words, stored
from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.codegen.loops import Loops
from everfresh.local.native.codegen.numbers import Number, checked
from everfresh.local.native.codegen.ranged import entering
from everfresh.local.native.codegen.scalars import Unsupported
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.helpers import MOST_BANDS
from everfresh.local.native.runtime.layout import BandUse, BeforeUse, BufferUse, ColumnUse, Places
from everfresh.local.relations.view_reader import Reader, ViewReader
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import WORD
from everfresh.local.store.entries import EntryStore

LONGEST = 2_000
"""Lines of a text that are compiled at most: the compiler takes more time and memory for each the more there
are (half a minute and 1 GiB for so many; 24 GiB did not do for 10,000)."""
_FLUSH, _FORGET = "flush", "forget"
_AHEAD = 8  # rows between asking for something and reading it
_OF_ROW = re.compile(r"0|k\d+_given|ld\(cw, k\d+_given \* m \+ r\)|ld\(C, \d+\)|ld\(x\d+_words, r\)")
"""A word that is known from the number of the row alone."""
_NAME = re.compile(r"\b(?:[a-z]\d+_[a-z]+|cw|m|weights)\b")
_TAKEN = re.compile(r"(?: +k\d+_given = .*\n)+")
_GIVEN, _PLACE = re.compile(r"\bk(\d+)_given\b"), re.compile(r"\bk(\d+)_place\b")
SIGNED = '@njit("int64(int64, int64, int64)", error_model="numpy", cache=True, nogil=True)'
_HEAD = '''\
"""Generated. See everfresh.local.native."""

import math

import numpy as np
from numba import njit

from everfresh.local.kernels.primitives import finish, rounded_sum, two_doubles
from everfresh.local.native.runtime.helpers import (
    add_cascade, add_count, add_wide, cascade_times, civil_part, decimal_to_float, divisible, float_less,
    float_same, half_away, link_slices, quotient, remember, room, take_slot, words_of_float,
)
from everfresh.local.native.runtime.calls import edge, note_edge, put, ranked, reaches, sum_before
from everfresh.local.native.runtime.indexes import before_first, grows, last_edge, slot_at, word_at
from everfresh.local.native.runtime.memory import (
    add_checked, as_float, ld, ld8, ld32, ldf, mul_checked, st, st32, stf, sub_checked, touch,
)
'''


class TooLong(Unsupported):
    """Code that a compiler would take too long for."""


@dataclass(frozen=True)
class Generated:
    """The text of a function, and what it works on."""

    text: str
    places: Places
    jobs: tuple[AddedStatement, ...]
    codec: Codec
    ranged: tuple[tuple[EntryStore, tuple[str, ...]], ...] = ()
    """Maps of which all entries that agree on some columns are looked at, to find those in a range."""
    sought: bool = False
    """Whether an ordered index is read for each row, not only by the steps of relations."""


class Generator(Adding):
    """One function in the making: what its terms share."""

    def __init__(
        self,
        wiring: Wiring,
        jobs: Sequence[AddedStatement],
        codec: Codec,
        unit: int,
        counted: Counter[str],
        chain: Sequence[LinkedRelation] = (),
    ) -> None:
        self.wiring, self.jobs, self.codec, self.at = wiring, tuple(jobs), codec, unit
        self.chain = tuple(chain)
        """The relations that are stepped, in order."""
        self.held = {name for unit_ in chain for name in unit_.maps}
        """Their maps: what is added waits for the step of the relation."""
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
        self.sought = False
        self._counted = counted
        self._once: dict[str, str] = {}
        self._sums: dict[int, str] = {}
        self.functions: dict[str, str] = {}
        """Texts of functions, by name."""
        self.initial: list[str] = []
        """What is done before the first row."""
        self._adders: dict[str, EntryStore] = {}
        self._sites: list[tuple[int, str, list[str], list[str]]] = []
        self._ahead: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    # -- what terms ask for ------------------------------------------------------------------------

    def change_column(self, number: int) -> Bound:
        """A column of the row of the change."""
        return stored(self.codec, self.codec.columns[number], "ld(cw, {} * m + r)", number, self.given)

    def given(self, kind: str, value: float) -> str:
        """The name of a number that is handed to the function, so that others of this shape share it."""
        return f"k{self.places.given(kind, value)}_given"

    def pool(self, store: Pooled) -> str:
        """The prefix of the names of a pool."""
        if store.pool._mask != WORD:
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
                    tag = tag_of([word.replace("r)", "ra)") for word in words])
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
        if name not in self.functions:
            self.functions[name] = finder(name, key)
        return name

    # -- functions of their own --------------------------------------------------------------------

    @contextmanager
    def aside(self) -> Iterator[Lines]:
        """Lines that go elsewhere."""
        before, self.out = self.out, Lines(1)
        self.out.names_like(before)
        try:
            yield self.out
        finally:
            before.names_like(self.out)
            self.out = before

    def function(self, name: str, args: str, body: Lines) -> str:
        """The text of a function that says whether something was bad."""
        text = body.text()
        lines = "".join(f"    {line}\n" for line in self._bindings(text))
        return f"\n@njit\ndef {name}({args}):\n{lines}    bad = 0\n{text}\n    return bad\n"

    def summed(self, loops: Loops, factor: Sum, terms: Sequence[Term], k: int) -> list[Number]:
        """The count and k values of a sum that reads nothing outside: taken once, until maps change."""
        if factor.group:
            raise Unsupported("a sum by columns")
        use = self.places.keep(("sum", loops._view, loops.stage, factor, k), k + 1)
        name = f"sum_{use.number}"
        if name not in self.functions:
            with self.aside() as body:
                totals = [body.let("0", "n") for _ in range(k + 1)]

                def emit(inner: Loops) -> None:
                    count, values = inner.product.final([Kind.WIDE] * k)
                    for total, term in zip(totals, [count, *(v[0] for v in values)], strict=True):
                        body.add(f"{total} = {checked(body, 'add', total, term)}")

                for term in terms:
                    Loops(self, -1, loops._view, k, loops.stage).run(term, emit)
                body.add(*(f"st(C, {use.place + i}, {total})" for i, total in enumerate(totals)))
            self.functions[name] = self.function(name, "C", body)
        flag = self._sums.setdefault(use.number, f"y{use.number}")
        with self.out.block(f"if {flag} == 0:"):
            self.out.add(f"bad |= {name}(C)", f"{flag} = 1")
        return [Number.whole(self.out.let(f"ld(C, {use.place + i})", "n")) for i in range(k + 1)]

    def forget_sums(self) -> None:
        """Maps have changed."""
        self.out.add(_FORGET)

    def hides(self, reader: Reader, number: int, stage: int) -> bool:
        """Whether the relation of a unit is to be read as it was before a change that is there already."""
        if not stage:
            return number >= self.at >= 0
        here = self.chain[stage - 1].number
        changed = {name for unit in self.chain[:stage] for name in unit.maps}
        if number >= here and changed & set(maps_of(reader)):
            raise Unsupported("a relation as it was before")
        return False

    # -- statements --------------------------------------------------------------------------------

    def statement(self, number: int) -> None:
        """All terms of a statement."""
        job = self.jobs[number]
        store = job.prepared.store
        for term in job.prepared.terms:
            loops = Loops(self, number, job.prepared.view, len(store.layout.kinds), job.stage)
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
            lines = [f"st(C, {at.POOL}, {use.number})"]
            if job.stage:
                lines.append(f"st(C, {at.AGAIN}, {at.NO_BUFFER})")
            self.exit(at.BAD if job.stage else at.FULL_BUFFER, *lines)
        for cell, (store_, matrix, row) in zip(cells, rows_of(store), strict=True):
            out.add(f"{store_}({b}_{matrix}, {row} * {b}_cap + {b}, {cell})")
        out.add(f"{b} += 1")

    def _zeros(self, store: EntryStore) -> list[str]:
        return ["0.0" if load == "stf" else "0" for load, _, _ in rows_of(store)]

    def exit(self, code: int, *lines: str) -> None:
        """Leave in the middle of row `r`: buffers are as they were at its start."""
        self.out.add(*lines, _FLUSH, f"st(C, {at.ROW}, r)", f"return {code}")

    def _flushed(self, text: str) -> str:
        """`text` with the marks replaced by what is written back before a return."""
        lines = [f"st(C, {use.place + at.BUFFER_COUNT}, b{use.number}_start)" for use in self._emitted()] + [
            f"st(C, {at.VISITED + i}, v{i})" for i in range(len(self.jobs))
        ]
        for mark, by in (
            (_FLUSH, lines),
            (_FORGET, [f"{name} = 0" for name in self._sums.values()] or ["pass"]),
        ):
            text = re.sub(
                rf"^( *){mark}$",
                lambda m, by=by: "\n".join(m[1] + line for line in by),  # type: ignore[misc]
                text,
                flags=re.MULTILINE,
            )
        return text

    def _emitted(self) -> list[BufferUse]:
        return [use for use in self.places.buffers.values() if not self.jobs[use.statement].apply]

    # -- text --------------------------------------------------------------------------------------

    def source(self) -> str:
        """The whole text."""
        body = self.out
        for name, store in self._adders.items():
            bands = [use for use in self.places.bands.values() if use.stored is store]
            followed = self._followed(store, len(bands))
            self.functions[name] = adder(name, store, self.places.pool(store).place, bands, followed)
        out = self.out = Lines(1)
        out.add("bad = 0", *self.initial)
        if self.initial:
            out.add(f"if bad != 0: return {at.BAD}")
        out.add(*(f"v{i} = ld(C, {at.VISITED + i})" for i in range(len(self.jobs))))
        for use in self._emitted():
            out.add(f"b{use.number} = ld(C, {use.place + at.BUFFER_COUNT})")
        out.open("for r in range(start, stop):")
        out.add("w = ld(weights, r)")
        if any(job.apply for job in self.jobs):
            out.add("full = 0")
        for use in self.places.buffers.values():
            applied = self.jobs[use.statement].apply
            out.add(f"b{use.number} = 0" if applied else f"b{use.number}_start = b{use.number}")
        out.add(*(f"{name} = -2" for name in self._once.values()))
        out.add(*(f"{name} = 0" for name in self._sums.values()))
        if self._ahead:
            self._prefetches()
        for _, site, _, zeros in self._sites:
            out.add(f"{site} = 0", *(f"{site}_{j} = {zero}" for j, zero in enumerate(zeros)))
        head = out.text()
        self.out = Lines(1)
        self.out.add("r = stop")
        for use in self._emitted():
            self.out.add(f"b{use.number}_start = b{use.number}")
        self.exit(at.DONE)
        tail = self.out.text()
        self.out = body
        functions = "".join(self.functions[name] for name in sorted(self.functions))
        text = f"{head}\n{body.text()}\n{tail}\n"
        bound = "".join(f"    {line}\n" for line in self._bindings(text))
        text = self._flushed(f"{_HEAD}{functions}\n\n{SIGNED}\ndef run(C, start, stop):\n{bound}{text}")
        return self._numbered(text)

    def _numbered(self, text: str) -> str:
        """`text` with the numbers that it is given in the order in which it uses them, not in that of a
        table's columns."""
        if not self.places.asked:
            return text
        used = dict.fromkeys(map(int, _GIVEN.findall(_TAKEN.sub("", text))))
        uses = {i: self.places.number(i) for i in used}

        def number(line: str) -> int:
            return uses[int(_GIVEN.findall(line)[0])].number

        def in_order(lines: re.Match[str]) -> str:
            return "".join(sorted(lines[0].splitlines(True), key=number))

        text = _TAKEN.sub(in_order, text)
        text = _GIVEN.sub(lambda m: f"k{uses[int(m[1])].number}_given", text)
        return _PLACE.sub(lambda m: str(uses[int(m[1])].place), text)

    def _followed(self, store: EntryStore, taken: int) -> list[BandUse]:
        """The orders of a map that other functions read, as far as they can be kept up beside some."""
        found: list[BandUse] = []
        for order in self.wiring.orders(self.jobs[0].prepared.view).get(store.target.name, ()):
            if (id(store), order) in self.places.bands or taken + len(found) == MOST_BANDS:
                continue
            try:
                entering(BandUse(0, 0, store, order), 0)
            except Unsupported:
                continue
            found.append(self.places.follow(store, order))
        return found

    def _bindings(self, text: str) -> list[str]:
        """What a text reads of the context by name."""
        change = self.places.change
        found = {
            "cw": f"ld(C, {change + at.CHANGE_WORDS})",
            "m": f"ld(C, {change + at.CHANGE_ROWS})",
            "weights": f"ld(C, {change + at.CHANGE_WEIGHTS})",
        }
        pool_names = ("keys", "cap", "table", "mask", "mark", "state", "n", "ints", "floats")
        slice_names = {"keys": 3, "cap": 4, "table": 5, "mask": 6, "heads": 11, "nexts": 12}
        for pool in self.places.pools.values():
            found |= {f"p{pool.number}_{n}": f"ld(C, {pool.place + i})" for i, n in enumerate(pool_names)}
        for slice_ in self.places.slices.values():
            found |= {f"i{slice_.number}_{n}": f"ld(C, {slice_.place + i})" for n, i in slice_names.items()}
        others: list[tuple[str, Iterable[BufferUse | ColumnUse | BeforeUse], tuple[str, ...]]] = [
            ("b", self.places.buffers.values(), ("words", "floats", "cap")),
            ("d", self.places.deltas.values(), ("words", "floats", "cap")),
            ("x", self.places.columns.values(), ("words", "valid")),
            ("o", self.places.befores.values(), ("slots", "count", "n", "ints", "floats")),
        ]
        for prefix, uses, names in others:
            for one in uses:
                found |= {f"{prefix}{one.number}_{n}": f"ld(C, {one.place + i})" for i, n in enumerate(names)}
        for i, (kind, _) in enumerate(self.places.asked):
            code = f"ld(C, k{i}_place)"  # see `_numbered`
            found[f"k{i}_given"] = f"as_float({code})" if kind == "float" else code
        read = set(_NAME.findall(text))
        return [f"{name} = {code}" for name, code in found.items() if name in read]


def maps_of(reader: Reader) -> tuple[str, ...]:
    """The maps that a relation is read off."""
    if isinstance(reader, ViewReader):
        return reader.view.maps
    return reader.relation.maps  # type: ignore[attr-defined,no-any-return]


Known = dict[tuple[tuple[int, bool], ...], tuple[Generated, Generator]]
"""What was generated for some statements (by identity) on one change, applied or not."""


def generate(
    wiring: Wiring,
    jobs: Sequence[AddedStatement],
    codec: Codec,
    unit: int = -1,
    chain: Sequence[LinkedRelation] = (),
    known: Known | None = None,
) -> tuple[Generated, Generator]:
    """The text for some statements on the change of a relation with this codec, and on the relations `chain`
    that are stepped with it; `Unsupported` if one has no native form, or all together are too long. It is
    looked for among what is `known` of this change, and put there."""
    if known is None or chain:
        return _generate(wiring, jobs, codec, unit, chain)
    key = tuple((id(job.prepared), job.apply) for job in jobs)
    if key not in known:
        known[key] = _generate(wiring, jobs, codec, unit, chain)
    return known[key]


def _generate(
    wiring: Wiring, jobs: Sequence[AddedStatement], codec: Codec, unit: int, chain: Sequence[LinkedRelation]
) -> tuple[Generated, Generator]:
    from everfresh.local.native.codegen.stages import step

    counted: Counter[str] = Counter()
    for _ in range(2):
        made = Generator(wiring, jobs, codec, unit, counted, chain)
        for number, job in enumerate(made.jobs):
            if not job.stage:
                made.statement(number)
        with made.out.block("if bad != 0:"):
            made.exit(at.BAD)
        made.apply()
        for stage, stepped in enumerate(made.chain, 1):
            step(made, stage, stepped)
        if made.chain:
            with made.out.block("if bad != 0:"):
                made.exit(at.BAD)
        text = made.source()
        counted = made.seen
        if all(times < 2 for times in counted.values()):
            break  # nothing is looked up twice
    lines = text.count("\n")
    if lines > LONGEST:
        raise TooLong(f"its code would have {lines} lines, more than the {LONGEST} that are compiled")
    return Generated(text, made.places, made.jobs, codec, tuple(made.ranged), made.sought), made
