"""Ranges of a map's entries inside generated code, through the ordered index that the interpreter uses too.

What `ranges` and `thresholds` do for columns, for one row: conditions become edges in the index (`indexes`);
between two edges entries are walked through, or their sums are taken. Values are integers of any kind that
are never NULL. An index that a function reads and whose map it changes is kept up by the function that adds
to the map (`entering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import TYPE_CHECKING

from everfresh.algebra import Kind
from everfresh.calculus import MapRef
from everfresh.compiler import VALUE, Comparison, Range
from everfresh.expr import Var
from everfresh.local.interpret.join_order import Narrow, Step
from everfresh.local.native.codegen.bounds import key_words, stored, value_of
from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.codegen.numbers import Number, checked
from everfresh.local.native.codegen.scalars import Scalars, Unsupported, Val, bounds_of, form
from everfresh.local.native.runtime.indexes import EDGES, INDEX_FLAG
from everfresh.local.native.runtime.layout import BandUse
from everfresh.local.order.read_orders import order_of
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import EntryStore
from everfresh.types import BIGINT, SqlType

if TYPE_CHECKING:
    from everfresh.local.native.codegen.generate import Generator
    from everfresh.local.native.codegen.loops import Loops

Span = tuple[str, str]
_FLIP = "(-1 << 63)"


# -- what an index is -------------------------------------------------------------------------------


def band_for(made: Generator, factor: MapRef, range_: Range, bound: Sequence[str]) -> BandUse:
    """The entries of a map in the order of the value of a range, behind the columns that are bound."""
    store = made.wiring.stores(factor.name)
    order = order_of(factor, range_, bound, store)
    if order is None:
        raise Unsupported("a range of a map that is read twice by one variable")
    entering(BandUse(0, 0, store, order), 0)  # to find out now whether it can be kept up
    return made.places.band(store, order)


def sum_row(use: BandUse, component: int) -> tuple[int, int]:
    """The row of an index with the sums of a component (0 is the count), and whether it is the high word of
    two."""
    if component == 0:
        return 1, 0
    kinds = use.stored.layout.kinds
    if kinds[component - 1] == Kind.FLOAT:
        raise Unsupported("sums of doubles over a range")
    before = [kind for kind in kinds[: component - 1] if kind != Kind.FLOAT]
    return 2 + sum(1 + kind for kind in before), int(kinds[component - 1])


def summed_up(out: Lines, index: str, place: str, row: int, wide: int) -> str:
    """The name of the sum of a row before an edge."""
    name = out.let(f"sum_before({index}, {place}, {row}, {wide})", "n")
    out.add(f"bad |= ld({index}, {INDEX_FLAG})")
    return name


def ordered_words(value: Val) -> list[str]:
    """The words by which a value is ordered (`ranking.encode`)."""
    if form(value.type) != "i" or value.null is not None:
        raise Unsupported("an order of what is no integer, or may be NULL")
    return [f"({value.code} >> 63)", f"({value.code} ^ {_FLIP})"] if value.type.is_wide else [value.code]


def entering(use: BandUse, pool_place: int) -> list[str]:
    """Lines of a function that has added to the slot `slot` of a map with the key words `k0`.., by `dn`,
    `d0`..: the same in the index. Its own block of words is at `P`, of which `pool_place` is the place."""
    store, out = use.stored, Lines(0)
    columns = {c.name: stored(store.codec, c, "k{}") for c in store.columns}
    for column in use.order.groups:
        if columns[column.name].null is not None:
            raise Unsupported("an order behind a column that may be NULL")

    def none(_: object) -> None:
        return None

    scalars = Scalars(out, lambda var: value_of(out, columns[var.name]), _no_text, none)
    value = ordered_words(scalars.value(use.order.value))
    groups = Codec(use.order.groups, store.codec.interner)
    words = [*key_words(groups, [columns[c.name] for c in groups.columns])[0], *value, "slot"]
    deltas = ["0", "dn"]
    for i, kind in enumerate(store.layout.kinds):
        if kind == Kind.WIDE:
            deltas += [f"d{i} >> 63", f"d{i}"]
        elif kind == Kind.COUNT:
            deltas.append(f"d{i}")
    lines = out.text().splitlines()
    if any(line.startswith(" ") for line in lines):
        raise Unsupported("an order of a value with cases")
    lines.append(f"index = P + {8 * (use.place - pool_place)}")
    lines += [f"st(ld(index, 14), {j}, {word})" for j, word in enumerate(words)]
    lines += [f"st(ld(index, 15), {j}, {word})" for j, word in enumerate(deltas)]
    return [*lines, "bad |= put(index, slot)"]


def _no_text(value: str) -> str:
    raise Unsupported("an order of strings")


# -- reading -----------------------------------------------------------------------------------------


class Ranged:
    """A range of a map, for the row that a term is at."""

    def __init__(self, loops: Loops, factor: MapRef, range_: Range) -> None:
        self.loops, self.out, self.factor, self.range = loops, loops.out, factor, range_
        self.store: EntryStore = loops.made.wiring.stores(factor.name)
        self.bound = [v.name for v in factor.keys if v.name in loops.env]
        self.use = band_for(loops.made, factor, range_, self.bound)
        self.index = f"(C + {8 * self.use.place})"
        loops.made.sought |= not loops.stage
        self._groups = 0

    def join(self, step: Step) -> None:
        """Open the blocks in which the entries of the range are run through; or take their sums."""
        loops, made = self.loops, self.loops.made
        made.reads.add(self.factor.name)
        spans = self.spans()
        if step.summed:
            self._sums(spans)
            return
        loops.looped = True
        slot = self.out.fresh("s")
        if len(spans) == 1:
            self.walk(slot, *spans[0])
        else:  # one loop for all spans, so that what follows stands here once
            turn, start, stop = (self.out.fresh("g") for _ in range(3))
            self.out.open(f"for {turn} in range({len(spans)}):")
            for i, (low, high) in enumerate(spans):
                self.out.add(f"{'if' if i == 0 else 'elif'} {turn} == {i}: {start}, {stop} = {low}, {high}")
            self.walk(slot, start, stop)
        self.entry(slot, step)

    def entry(self, slot: str, step: Step) -> None:
        """Bind what is read of an entry."""
        loops = self.loops
        loops._visit("1")
        for var, column in zip(self.factor.keys, self.store.columns, strict=True):
            if var.name not in loops.env and var.name in step.keep:
                loops.env[var.name] = loops.column(self.store, column, slot)
        loops.weigh([loops._component(self.store, c, slot) for c in self.factor.components])

    def walk(self, slot: str, start: str, stop: str) -> None:
        """Open a loop over the entries between two edges."""
        out, at = self.out, self.out.fresh("g")
        out.add(f"{at} = {start}")
        out.open(f"while {at} < {stop}:")
        out.add(f"{slot} = slot_at({self.index}, {at})")
        with out.block(f"if {slot} < 0:"):
            out.add(f"{at} = (({at} >> 16) + 1) << 16", "continue")
        out.add(f"{at} += 1")

    def _sums(self, spans: Sequence[Span]) -> None:
        out = self.out
        self.loops._visit("1")
        numbers: list[Number] = []
        for component in self.factor.components:
            if component < 0:
                numbers.append(Number.whole("0"))
                continue
            row, wide = sum_row(self.use, component)
            parts = []
            for span in spans:
                ends: list[str] = []
                for place in span:
                    if place != "0":
                        ends.insert(0, summed_up(out, self.index, place, row, wide))
                parts.append(ends[0] if len(ends) == 1 else checked(self.out, "sub", *ends))
            total = parts[0]
            for part in parts[1:]:
                total = checked(self.out, "add", total, part)
            numbers.append(Number.whole(total))
        self.loops.weigh(numbers)

    # -- edges -------------------------------------------------------------------------------------

    def spans(self) -> list[Span]:
        """The edges between which the entries of the range stand: spans that do not overlap."""
        low, high = self._whole()
        for comparison in self.range.comparisons:
            if comparison.guard is not None:
                self._guard(comparison, low, high)
        chosen = [sum(some, ()) for some in combinations(*self.range.clauses)]
        found = [self._span(some, low, high) for some in chosen]
        if len(found) > 2:
            raise Unsupported("a range of more than two pieces")
        if len(found) == 2:
            (a, b), (c, d) = found
            out = self.out
            with out.block(f"if {c} < {a}:"):
                out.add(f"{a}, {b}, {c}, {d} = {c}, {d}, {a}, {b}")
            out.add(f"{c} = max({c}, {b})", f"{d} = max({c}, {d})")
        return found

    def _whole(self) -> Span:
        """All entries that agree on what is bound."""
        out, loops = self.out, self.loops
        groups = self.use.order.groups
        if not groups:
            return "0", out.let(f"last_edge({self.index})", "g")
        codec = Codec(groups, self.store.codec.interner)
        by_column = {c.name: v.name for v, c in zip(self.factor.keys, self.store.columns, strict=True)}
        words, never = key_words(codec, [loops.env[by_column[c.name]] for c in groups])
        loops._unless(never)
        self._groups = len(words)
        self._put(words, 0)
        low = out.let(f"edge({self.index}, {self._groups}, 0)", "g")
        return low, out.let(f"edge({self.index}, {self._groups}, 1)", "g")

    def _put(self, words: Sequence[str], at: int) -> None:
        self.out.add(*(f"st(ld({self.index}, 14), {at + j}, {word})" for j, word in enumerate(words)))

    def _guard(self, comparison: Comparison, low: str, high: str) -> None:
        """`bad` where the condition cannot be computed for the first or the last entry."""
        out, type_ = self.out, self.range.value.type
        assert comparison.guard is not None
        if type_.is_wide:
            raise Unsupported("an inequality of sums that need two words")
        own = next(n.type for n in comparison.guard.walk() if isinstance(n, Var) and n.name == VALUE)
        depth = out.depth
        out.open(f"if {low} < {high}:")
        for place in (low, f"before_first({self.index}, {high})"):
            word = out.let(f"word_at({self.index}, {place}, {self._groups})", "w")
            name = out.let(_clamped(word, own), "w")

            def variable(var: Var, name: str = name) -> Val:
                return (
                    Val(name, None, own, bounds_of(own)) if var.name == VALUE else self.loops._variable(var)
                )

            self.loops.scalars(variable).value(comparison.guard)
        out.back_to(depth)

    def _span(self, comparisons: Sequence[Comparison], low: str, high: str) -> Span:
        out = self.out
        start, stop = out.let(low, "g"), out.let(high, "g")
        for comparison in comparisons:
            limit = self.loops.scalars().value(comparison.limit)
            op, name, able = self._limit(comparison, limit)
            with out.block(f"if {able}:") if able else _plainly(out):
                value = Val(name, None, self.range.value.type)
                self._put(ordered_words(value), self._groups)
                length = self._groups + (2 if self.range.value.type.is_wide else 1)
                if op[0] in ">=":
                    out.add(f"{start} = max({start}, edge({self.index}, {length}, {int(op == '>')}))")
                if op[0] in "<=":
                    out.add(f"{stop} = min({stop}, edge({self.index}, {length}, {int(op != '<')}))")
            if able:
                with out.block("else:"):
                    out.add(f"{stop} = {start}")
        out.add(f"{stop} = max({start}, {stop})")
        return start, stop

    def _limit(self, comparison: Comparison, limit: Val) -> tuple[str, str, str | None]:
        """A limit in the units of the value (`ranges._limit`): the comparison, the word, and whether any
        entry can satisfy it (None: yes)."""
        out, op, factor, type_ = self.out, comparison.op, comparison.shift, self.range.value.type
        able = [] if limit.null is None else [f"not {limit.null}"]
        if form(limit.type) != "i":
            raise Unsupported(f"a range up to a {limit.type}")
        if limit.type == type_:
            return op, out.let(limit.code, "w"), _all(able)
        low, high = bounds_of(type_)
        whole = out.let(f"{limit.code} // {factor}" if factor != 1 else limit.code, "w")
        exact = f"({whole} * {factor} == {limit.code})" if factor != 1 else "True"
        if op == "=":
            able += [exact, *_inside(whole, low, high)]
            return op, whole, _all(able)
        if op in ("<", "<="):
            if op == "<":
                whole = checked(self.out, "sub", whole, f"(1 if {exact} else 0)")
            able += _inside(whole, low, BIGINT.bounds[1])
        else:
            more = "1" if op == ">" else f"(0 if {exact} else 1)"
            whole = checked(self.out, "add", whole, more)
            able += _inside(whole, BIGINT.bounds[0], high)
        return f"{op[0]}=", out.let(_clamped(whole, type_), "w"), _all(able)


def _inside(word: str, low: int, high: int) -> list[str]:
    tests = [f"{word} >= {low}"] if low > BIGINT.bounds[0] else []
    return [*tests, f"{word} <= {high}"] if high < BIGINT.bounds[1] else tests


def _clamped(word: str, type_: SqlType) -> str:
    low, high = bounds_of(type_)
    return word if (low, high) == BIGINT.bounds else f"min(max({word}, {low}), {high})"


def _all(tests: Sequence[str]) -> str | None:
    return " and ".join(tests) or None


class _plainly:
    """No block at all."""

    def __init__(self, out: Lines) -> None:
        self._out = out

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


# -- thresholds --------------------------------------------------------------------------------------


def crossed(loops: Loops, narrow: Narrow, sign: int) -> tuple[Ranged, str]:
    """Open the loop over the entries whose condition flips with the rows of a change: what finds them, and
    the name of the slot. The product is multiplied by the weights of the rows between which they stand."""
    crossing, out = narrow.crossing, loops.out
    if not isinstance(crossing.atom, MapRef):
        raise Unsupported("a threshold of what is read off a map")
    count = out.let("0", "g")
    depth = out.depth
    weight = loops.change_rows(crossing.change, frozenset(v.name for v in crossing.change.vars))
    limits = dict(loops.env)
    own = set(limits)
    ranged = _over(loops, crossing.atom, crossing.range, own)
    for start, stop in ranged.spans():
        with out.block(f"if {start} < {stop}:"):
            with out.block(f"if {count} > {EDGES - 2}:"):
                out.add("bad = 1")
            with out.block("else:"):
                out.add(f"{count} = note_edge({ranged.index}, {count}, {start}, {weight})")
                out.add(f"{count} = note_edge({ranged.index}, {count}, {stop}, -{weight})")
    out.back_to(depth)
    loops.env.clear()
    total, at, slot = out.let("0", "n"), out.fresh("g"), out.fresh("s")
    out.open(f"for {at} in range({count} - 1):")
    edges = f"ld({ranged.index}, 16)"
    out.add(f"{total} += ld({edges}, 2 * {at} + 1)")
    out.open(f"if {total} != 0:")
    ranged.walk(slot, f"ld({edges}, 2 * {at})", f"ld({edges}, 2 * {at} + 2)")
    loops.product.times_all(Number.whole(total if sign == 1 else f"(-{total})"))
    loops.looped = True
    return ranged, slot


def _over(loops: Loops, atom: MapRef, range_: Range, limits: set[str]) -> Ranged:
    """A range whose limits are bound, and nothing of the atom is."""
    if limits & {v.name for v in atom.keys}:
        raise Unsupported("a threshold among the columns of its map")
    return Ranged(loops, atom, range_)


__all__ = ["Ranged", "band_for", "crossed", "entering", "sum_row"]
