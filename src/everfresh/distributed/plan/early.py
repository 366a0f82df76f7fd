"""What is done with a change before it is handed to the maps: rows are filtered, columns dropped, equal rows
added up.

Where a stage of its own stands between the change of a table and the maps that it is joined with (on Spark
the rows of tables and the maps are apart), a change that need not move is handed on all the same. What all of
its readers ask of it first is asked before that.

    Sum_[a](ΔT(k, a, b) * [b > 1] * M(a))  =>  P(a) := Sum_[a](ΔT(k, a, b) * [b > 1]);  Sum_[a](ΔP(a) * M(a))

Conditions keep their order, so none is asked of a row that one before it has dropped. Values that are columns
of the change are added up, too, if all readers add up the same (⟨b⟩ in place of b among the columns); others
could fail on rows that a join drops, and wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from everfresh.algebra import Kind
from everfresh.calculus import Cond, Prod, Rel, Sum, Value
from everfresh.distributed.plan.fusion import connected, single
from everfresh.distributed.plan.ir import DistributedProgram, Eval, Instruction, Temp
from everfresh.distributed.plan.leading import LeadingTerm, columns_of, over, terms_of
from everfresh.distributed.plan.spec import check
from everfresh.distributed.plan.tags import Replicated
from everfresh.expr import Expr


def done_early(program: DistributedProgram) -> DistributedProgram:
    """The program with what can be done with its given changes before maps are read."""
    instructions = list(program.instructions())
    first: list[Instruction] = []
    for _, temp in program.given:
        reading = {
            n: i for n, i in enumerate(instructions) if isinstance(i, Eval) and i.read and temp in i.uses
        }
        readers = list(reading.values())
        terms = [t for i in readers for t in terms_of(i.expr, temp)]
        if isinstance(temp.tag, Replicated) or not readers or None in terms:
            continue
        known = [t for t in terms if t is not None]
        asked = _common([t.asked() for t in known])
        values = _values(known, readers)
        places = sorted({i for t in known for i in t.needed(len(asked), bool(values))})
        if not asked and len(places) == len(temp.columns):
            continue
        made = _made(temp, places, asked, values, readers[0])
        first.append(made)
        for number, reader in reading.items():
            expr = over(reader.expr, temp, made.target, places, len(asked))
            uses = tuple(made.target if t == temp else t for t in reader.uses)
            instructions[number] = replace(reader, expr=expr, uses=uses)
    if not first:
        return program
    everything = (*first, *instructions)
    check(everything, [temp for _, temp in program.given])
    return DistributedProgram(program.given, connected(single(everything)))


def _values(terms: Sequence[LeadingTerm], readers: Sequence[Eval]) -> tuple[Expr, ...]:
    """The values that all readers add up, if they are held alike, and exactly."""
    found = {t.values() for t in terms}
    kinds = {i.target.kinds for i in readers}
    return found.pop() if len(found) == len(kinds) == 1 and Kind.FLOAT not in min(kinds) else ()


def _made(
    temp: Temp, places: Sequence[int], asked: Sequence[Expr], values: tuple[Expr, ...], reader: Eval
) -> Eval:
    columns = tuple(temp.columns[i] for i in places)
    kinds = reader.target.kinds if values else ()
    target = Temp(f"{temp.name}_early", columns, kinds, temp.tag, temp.origin)
    vars_ = columns_of(temp)
    added = (Value(values),) if values else ()
    body = Prod((Rel(temp.name, vars_, True), *map(Cond, asked), *added))
    expr = Sum(tuple(vars_[i] for i in places), body)
    return Eval(target, expr, reader.view, reader.at, reader.round, frozenset(), (temp,))


def _common(sequences: Sequence[tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """What all begin with."""
    count = 0
    while all(len(s) > count for s in sequences) and len({s[count] for s in sequences}) == 1:
        count += 1
    return sequences[0][:count]
