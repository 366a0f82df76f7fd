"""A distributed program cut into the stages of a job: rows, maps, results.

The rows' stage computes from changes alone; the maps' stage reads and changes maps; the results' stage adds
to results that nothing reads. What a stage hands on is sent as the program says, or carried to the same
worker. No map is touched in two stages: each stage has a state unit of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everfresh.distributed import Block, DistributedProgram, Temp
from everfresh.distributed.ir import WORKERS, Add, Eval, Instruction, Keep, Send, Step, uses_of

ROWS, MAPS, RESULTS = range(3)


@dataclass(frozen=True)
class Staged:
    """A block per stage, and what goes from each to the next."""

    given: tuple[tuple[str, Temp], ...]
    blocks: tuple[Block, ...]
    sends: tuple[tuple[Send, ...], ...]
    carries: tuple[tuple[Temp, ...], ...]
    late: frozenset[str]
    """The maps that the results' stage adds to."""


def staged(program: DistributedProgram, late: frozenset[str]) -> Staged | None:
    """The stages of a program; None if it needs more. Maps in `late` are added to in the last alone."""
    level = {temp.name: ROWS for _, temp in program.given}
    touched: dict[str, int] = {}
    stages: list[list[Instruction]] = [[], [], []]
    sends: list[list[Send]] = [[], []]
    for i in program.instructions():
        at = max((level[t.name] for t in uses_of(i)), default=ROWS)
        if isinstance(i, Send):
            if at >= RESULTS:
                return None
            sends[at].append(i)
            level[i.target.name] = at + 1
            continue
        stored = {n for n in (*i.reads, *i.writes) if n.startswith(("map:", "table:"))}
        at = max([at, *([MAPS] if stored else []), *(touched.get(n, ROWS) for n in stored)])
        at = RESULTS if isinstance(i, Add) and i.map in late else at
        if at == RESULTS and not isinstance(i, Add | Keep):
            return None
        touched.update({n: max(at, touched.get(n, ROWS)) for n in stored})
        stages[at].append(i)
        if isinstance(i, Eval | Keep | Step):
            level[i.target.name] = at
    results = {i.map for i in stages[RESULTS] if isinstance(i, Add)}
    if any(f"map:{m}" in i.writes | i.reads for i in stages[MAPS] for m in late):
        return None
    if late and results - late:
        return None
    return Staged(program.given, *_blocks(program, stages, sends, level), late or frozenset(results))


def _blocks(
    program: DistributedProgram,
    stages: list[list[Instruction]],
    sends: list[list[Send]],
    level: dict[str, int],
) -> tuple[tuple[Block, ...], tuple[tuple[Send, ...], ...], tuple[tuple[Temp, ...], ...]]:
    carries: list[dict[str, Temp]] = [{}, {}]
    for at, some in enumerate(stages):
        for temp in _used(some):
            for between in range(level[temp.name], at):
                carries[between][temp.name] = temp
    blocks = []
    for at, some in enumerate(stages):
        made = {i.target.name: i.target for i in some if isinstance(i, Eval | Keep | Step)}
        inputs = {t.name: t for t in _used(some) if t.name not in made}
        wanted = {i.source.name for i in sends[at]} | set(carries[at]) if at < RESULTS else set()
        outputs = tuple(t for name, t in made.items() if name in wanted)
        blocks.append(Block(WORKERS, tuple(some), tuple(inputs.values()), outputs))
    return (
        tuple(blocks),
        tuple(tuple(some) for some in sends),
        tuple(tuple(some.values()) for some in carries),
    )


def _used(instructions: Iterable[Instruction]) -> Iterable[Temp]:
    return (t for i in instructions for t in uses_of(i))
