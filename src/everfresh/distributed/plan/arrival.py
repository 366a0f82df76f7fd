"""What is made of a change alone is made where the change arrives, if it is sent there anyway.

A statement that reads nothing but a change is computed where the change is, and its result is sent, equal
rows added up. But where the change itself, or a part of it, goes to the same place with all that the
statement reads, for another statement, nothing more has to travel.

    B @[k] := REPART Sum_[k, a](ΔT(k, a, b)),  T2(k, a) @[k] := REPART T   =>  B @[k] := Sum_[k, a](ΔT2(k, a))

Only what is given is looked at: it can be sent before all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from everfresh.calculus import Query
from everfresh.distributed.plan.ir import Eval, Instruction, Send, Temp, uses_of
from everfresh.distributed.plan.leading import over, terms_of
from everfresh.distributed.plan.subexpressions import wanted_columns
from everfresh.distributed.plan.tags import Dist, renamed
from everfresh.expr import Expr


@dataclass(frozen=True, slots=True)
class _Arrived:
    """A change that is sent, or the columns at some places of its rows that satisfy some conditions."""

    of: Temp
    at: Temp
    places: tuple[int, ...]
    asked: tuple[Expr, ...]
    known: frozenset[int]
    """The places that travel."""

    def instead(self, eval_: Eval, target: Temp) -> Eval | None:
        """What gives `target` of this: it reads nothing but what travels, and groups that lie together lie
        where they should."""
        if eval_.uses != (self.of,):
            return None
        count = len(self.asked)
        for term in terms_of(eval_.expr, self.of):
            if term is None or term.asked()[:count] != self.asked or term.needed(count, False) - self.known:
                return None
            known = term.atom.at()
            named = [
                (c.name, known[i].name)
                for c, i in zip(self.at.columns, self.places, strict=True)
                if i in known
            ]
            if renamed(self.at.tag, [c for c, _ in named], [v for _, v in named]) != target.tag:
                return None
        expr: Query = over(eval_.expr, self.of, self.at, self.places, count)
        return replace(eval_, target=target, expr=expr, uses=(self.at,))


def at_arrival(instructions: Sequence[Instruction], given: Mapping[str, Temp]) -> tuple[Instruction, ...]:
    """The instructions with fewer that send."""
    names = {t.name for t in given.values()}
    made = {i.target.name: i for i in instructions if isinstance(i, Eval) and _of_change(i, names)}
    moves = [i for i in instructions if isinstance(i, Send) and i.source.name in made]
    uses = [t.name for i in instructions for t in uses_of(i)]
    alone = {i.source.name for i in moves if uses.count(i.source.name) == 1}
    first: list[Instruction] = []
    instead: dict[Send, Eval] = {}
    for send, arrived in _arrivals(instructions, made, moves, names):
        for move in moves:
            if move is send or move in instead or send in instead:
                continue
            there = arrived.instead(made[move.source.name], move.target)
            if there is not None:
                instead[move] = there
                first += [i for i in (made.get(send.source.name), send) if i is not None and i not in first]
    gone = {move.source.name for move in instead} & alone
    kept = (
        instead.get(i, i) if isinstance(i, Send) else i
        for i in instructions
        if i not in first and not (isinstance(i, Eval) and i.target.name in gone)
    )
    return (*first, *kept)


def _arrivals(
    instructions: Sequence[Instruction], made: Mapping[str, Eval], moves: Sequence[Send], names: Iterable[str]
) -> Iterable[tuple[Send, _Arrived]]:
    """What is sent of the given changes: whole ones first, then parts, those with the most columns first."""
    others = [i for i in instructions if i not in moves]
    wanted = wanted_columns([i for i in others if not (isinstance(i, Eval) and i.target.name in made)])
    for send in (i for i in instructions if isinstance(i, Send) and i.source.name in names):
        places = range(len(send.source.columns))
        read = wanted.get(send.target.name, set())
        columns = [c.name for c in send.target.columns]
        by = (
            {columns.index(c) for c in send.target.tag.columns}
            if isinstance(send.target.tag, Dist)
            else set()
        )
        known = frozenset(places if read is None else read | by)
        yield send, _Arrived(send.source, send.target, tuple(places), (), known)
    for move in sorted(moves, key=lambda i: -len(i.target.columns)):
        eval_ = made[move.source.name]
        (of,) = eval_.uses
        (term, *more) = terms_of(eval_.expr, of)
        if term is None or more or term.rest or eval_.target.kinds:
            continue
        where = {v.name: place for place, v in term.atom.at().items()}
        places_ = tuple(where[v.name] for v in term.group if v.name in where)
        if len(places_) == len(term.group):
            yield move, _Arrived(of, move.target, places_, term.asked(), frozenset(places_))


def _of_change(instruction: Eval, names: Iterable[str]) -> bool:
    """Whether a query reads one given change and nothing else."""
    return not instruction.read and len(instruction.uses) == 1 and instruction.uses[0].name in names


__all__ = ["at_arrival"]
