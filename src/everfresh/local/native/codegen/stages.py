"""Relations that are stepped inside a call: after each row, what it changed in a relation is a small change
of its own, whose statements run before the next row.

A relation read off a map is stepped entry by entry: for each row that is added to one of its maps, minus the
relation's row at that key before, plus the one after, netted in a buffer (the steps of one key telescope).
One whose rows are intervals has at most one row here: it is kept in the context and found anew by a descent
in the ordered index after its maps have changed; where the running sum is not monotone the interpreter takes
over.

Invariant: after the last row, all maps hold what `steps` leaves them with.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from everfresh.expr import Var
from everfresh.local.batch.linked_programs import LinkedRelation
from everfresh.local.native.codegen.bounds import Bound, key_words, stored
from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.codegen.loops import Loops
from everfresh.local.native.codegen.numbers import checked
from everfresh.local.native.codegen.ranged import sum_row, summed_up
from everfresh.local.native.codegen.relations import Entry, RelationRead
from everfresh.local.native.codegen.scalars import Unsupported, Val, bounds_of
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.layout import SumUse
from everfresh.local.order.read_orders import key_order
from everfresh.local.relations.intervals import IntervalReader, RunningLimit
from everfresh.local.relations.view_reader import ViewReader
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import EntryStore
from everfresh.types import BIGINT

if TYPE_CHECKING:
    from everfresh.local.native.codegen.generate import Generator


# -- rows of a change --------------------------------------------------------------------------------


def noting(made: Generator, stage: int, words: int) -> str:
    """The name of the function that notes a row of a stage's change, netted with one of the last."""
    name, use = f"note_{stage}", made.places.delta(stage, words)
    if name not in made.functions:
        row = "".join(f", a{j}" for j in range(words))
        same = " and ".join(f"ld(rows, {j} * cap + i) == a{j}" for j in range(words)) or "True"
        stores = "".join(f"\n    st(rows, {j} * cap + count, a{j})" for j in range(words))
        made.functions[name] = f"""
@njit
def {name}(C{row}, weight):
    rows, cap, count = ld(C, {use.place}), ld(C, {use.place + 2}), ld(C, {use.place + 3})
    for i in range(count - 1, max(count - 17, -1), -1):
        if {same}:
            st(rows, {words} * cap + i, ld(rows, {words} * cap + i) + weight)
            return 0
    if count >= cap:
        st(C, {at.AGAIN}, {at.NO_DELTA})
        st(C, {at.POOL}, {use.number})
        return 1{stores}
    st(rows, {words} * cap + count, weight)
    st(C, {use.place + 3}, count + 1)
    return 0
"""
    return name


# -- relations read off maps --------------------------------------------------------------------------


def row_of(made: Generator, stage: int, unit: LinkedRelation) -> str:
    """The name of the function that notes the row of a relation at a key, times a sign."""
    reader = unit.reader
    assert isinstance(reader, ViewReader)
    name = f"row_{stage}"
    if name in made.functions:
        return name
    note = noting(made, stage, reader.codec.words)
    with made.aside() as body:
        loops = Loops(made, -1, unit.view, 0)
        reading = RelationRead(loops, reader, False)
        bounds = reading.at([stored(reader.store.codec, c, "k{}") for c in reader.store.columns])
        words, never = key_words(reader.codec, bounds)
        if never:
            body.add(f"if {' or '.join(never)}: bad = 1")
        weight = loops.product.common
        count = "1" if weight is None else weight.terms[0]
        body.add(f"bad |= {note}({', '.join(['C', *words, f'sign * {count}'])})")
    keys = "".join(f", k{j}" for j in range(reader.store.codec.words))
    made.functions[name] = made.function(name, f"C, sign{keys}", body)
    return name


def keys_from(reader: ViewReader, store: EntryStore, map_: str) -> list[str]:
    """The key words of a relation's map in terms of the words `{}` of a row that is added to one of its
    maps."""
    if map_ == reader.view.map:
        return [f"{{{j}}}" for j in range(store.codec.words)]
    aside = next(a for a in reader.sides if a.side.map == map_)
    if sorted(aside.at) != list(range(len(store.columns))):
        raise Unsupported("a side with other keys")
    found: list[Bound | None] = [None] * len(store.columns)
    for place, column in zip(aside.at, aside.store.columns, strict=False):
        found[place] = stored(aside.store.codec, column, "{{{}}}")
    words, never = key_words(store.codec, found)  # type: ignore[arg-type]
    if never:
        raise Unsupported("a side whose keys may be NULL")
    return words


# -- intervals ----------------------------------------------------------------------------------------


def interval(made: Generator, view: str, unit_name: str, reader: IntervalReader) -> tuple[SumUse, str]:
    """Where the one interval of a relation is kept (whether there is one, its ends; then the same as last
    found), and the name of the function that finds it."""
    limit, key = reader._limit, reader.store.columns[0]
    if limit is None or key.type.is_wide:
        raise Unsupported("intervals that are tried one by one")
    use = made.places.keep(("interval", view, unit_name), 6)
    name = f"interval_{use.number}"
    if name not in made.functions:
        made.functions[name] = ""  # it is in the making
        with made.aside() as body:
            _descend(made, view, reader, limit, use, body)
        made.functions[name] = made.function(name, "C", body)
        made.initial.append(f"bad |= {name}(C)")
        made.initial += [f"st(C, {use.place + i}, ld(C, {use.place + 3 + i}))" for i in range(3)]
    return use, name


def _descend(
    made: Generator, view: str, reader: IntervalReader, limit: RunningLimit, use: SumUse, out: Lines
) -> None:
    """`IntervalReader._descend` for one interval."""
    store, place = reader.store, use.place + 3
    band = made.places.band(store, key_order(store))
    index = f"(C + {8 * band.place})"
    row, wide = sum_row(band, limit.component)
    loops = Loops(made, -1, view, 0)
    out.add(f"st(C, {place}, 0)")
    out.add(f"if not grows({index}, {row}) or not grows({index}, 1): return 1")
    found = loops.scalars(lambda var: _side(loops, reader, var)).value(limit.limit)
    guard = "True" if found.null is None else f"not {found.null}"
    out.open(f"if {guard}:")
    total = summed_up(out, index, f"last_edge({index})", row, wide)
    most = limit.type.bounds[1] // limit.factor
    if most < BIGINT.bounds[1]:
        out.add(f"if {total} > {most}: bad = 1")
    bound = out.let(f"{found.code} // {limit.factor}", "n")
    exact = f"{bound} * {limit.factor} == {found.code}"
    count = out.let(f"ld(ld({index}, 6), 1)", "n")
    first, last = out.let("0", "n"), out.let(count, "n")
    reach = f"reaches({index}, {row}, {wide}, "
    suffix = reader._suffix
    if limit.op in ("<", "<="):
        top = bound if limit.op == "<=" else checked(out, "sub", bound, f"(1 if {exact} else 0)")
        if suffix:
            out.add(f"{first} = {reach}{checked(out, 'sub', total, top)})")
        else:
            out.add(f"{last} = {reach}{checked(out, 'add', top, '1')}) - 1")
    else:
        least = checked(out, "add", bound, "1" if limit.op == ">" else f"(0 if {exact} else 1)")
        if suffix:
            beyond = checked(out, "sub", checked(out, "add", total, "1"), least)
            out.add(f"{last} = {reach}{beyond}) - 1")
        else:
            out.add(f"{first} = {reach}{least})")
    if not limit.empty:
        if suffix:
            entries = summed_up(out, index, f"last_edge({index})", 1, 0)
            out.add(f"{last} = min({last}, reaches({index}, 1, 0, {entries}) - 1)")
        else:
            out.add(f"{first} = max({first}, reaches({index}, 1, 0, 1))")
    low, high = bounds_of(store.columns[0].type)
    after = reader._after
    out.open(f"if {first} <= {last}:")
    out.add(f"st(C, {place}, 1)")
    begin = f"word_at({index}, ranked({index}, {first} - 1), 0) + {after}"
    end = f"word_at({index}, ranked({index}, {last}), 0) + {after - 1}"
    out.add(f"st(C, {place + 1}, {_word(low)} if {first} == 0 else {begin})")
    out.add(f"st(C, {place + 2}, {_word(high)} if {last} == {count} else {end})")


def _word(value: int) -> str:
    return "(-1 << 63)" if value == BIGINT.bounds[0] else str(value)


def _side(loops: Loops, reader: IntervalReader, var: Var) -> Val:
    """A component of a map without keys."""
    number, index = var.name[1:].split(".")
    store = reader._sides[int(number) - 1]
    slot = loops.find(store, store.columns, [])
    return Entry(loops, store, slot, hidden=False, sure=False).component(
        int(index.removesuffix("u")), var.type
    )


def read_interval(loops: Loops, view: str, name: str, reader: IntervalReader, names: list[str]) -> None:
    """Join with the one interval that there is."""
    made, out = loops.made, loops.out
    use, _ = interval(made, view, name, reader)
    out.open(f"if ld(C, {use.place}) != 0:")
    loops._visit("1")
    type_ = reader.store.columns[0].type
    for i, one in enumerate(names):
        loops.take(one, Bound(type_, (f"ld(C, {use.place + 1 + i})",), None))


# -- the steps ----------------------------------------------------------------------------------------


def step(made: Generator, stage: int, unit: LinkedRelation) -> None:
    """What a row has changed in a relation, and the statements on that."""
    out, reader = made.out, unit.reader
    delta = made.places.delta(stage, reader.codec.words)
    out.add(f"st(C, {delta.place + at.BUFFER_COUNT}, 0)")
    made.room(unit.maps, again=True)
    if isinstance(reader, IntervalReader):
        use, find = interval(made, unit.view, unit.name, reader)
        for map_ in unit.maps:
            made.release(map_)
        note = noting(made, stage, reader.codec.words)
        now, then = use.place, use.place + 3
        made.if_changed(unit.maps)
        out.add(f"bad |= {find}(C)")
        moved = [f"ld(C, {now + i}) != ld(C, {then + i})" for i in range(3)]
        out.open(f"if {moved[0]} or ld(C, {now}) != 0 and ({moved[1]} or {moved[2]}):")
        with out.block(f"if ld(C, {now}) != 0:"):
            out.add(f"bad |= {note}(C, ld(C, {now + 1}), ld(C, {now + 2}), -1)")
        with out.block(f"if ld(C, {then}) != 0:"):
            out.add(f"bad |= {note}(C, ld(C, {then + 1}), ld(C, {then + 2}), 1)")
        out.add(*(f"st(C, {now + i}, ld(C, {then + i}))" for i in range(3)))
        out.back_to(2)
    else:
        assert isinstance(reader, ViewReader)
        row = row_of(made, stage, unit)
        for map_ in dict.fromkeys(unit.maps):
            key = keys_from(reader, reader.store, map_)

            made.release(map_, partial(_noted, row, key, -1), partial(_noted, row, key, 1))
    out.add(f"d{delta.number} = ld(C, {delta.place + at.BUFFER_COUNT})")
    out.open(f"if d{delta.number} > 0:")
    made.forget_sums()
    for number, job in enumerate(made.jobs):
        if job.stage == stage:
            made.statement(number)
    made.apply(stage)
    out.back_to(2)


def _noted(row: str, key: list[str], sign: int, words: list[str]) -> list[str]:
    """The call that notes the row at the key of an addition."""
    return [f"bad |= {row}({', '.join(['C', str(sign), *(k.format(*words) for k in key)])})"]


def change_rows(loops: Loops, stage: int, codec: Codec) -> tuple[str, list[Bound]]:
    """Open the loop over the rows of a stage's change: the name of the weight, and the columns."""
    made, out = loops.made, loops.out
    use = made.places.delta(stage, codec.words)
    row, d = out.fresh("q"), f"d{use.number}"
    out.open(f"for {row} in range({d}):")
    weight = out.let(f"ld({d}_words, {codec.words} * {d}_cap + {row})", "n")
    out.open(f"if {weight} != 0:")
    loops.looped = True
    return weight, [stored(codec, c, f"ld({d}_words, {{}} * {d}_cap + {row})") for c in codec.columns]


__all__ = ["change_rows", "interval", "read_interval", "row_of", "step"]
