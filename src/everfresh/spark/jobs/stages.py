"""A distributed program cut into the stages of a job: rows, maps, results; and what the driver does after.

The rows' stage computes from changes alone; the maps' stage reads and changes maps; the results' stage adds
to results that nothing reads. What a stage hands on is sent as the program says, or carried to the same
worker; what is gathered comes with the job's answer. No map is touched in two stages: each stage has a state
unit of its own.

If every task is given the whole batch and nothing travels between workers, one stage is enough (`whole`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everfresh.distributed import Block, DistributedProgram, Temp
from everfresh.distributed.plan.ir import (
    DRIVER,
    WORKERS,
    Add,
    Eval,
    Instruction,
    Keep,
    Send,
    Step,
    map_id,
    uses_of,
)
from everfresh.distributed.plan.tags import Local

ROWS, MAPS, RESULTS = range(3)


@dataclass(frozen=True)
class Staged:
    """A block per stage, what goes from each to the next and to the driver, and the driver's block."""

    given: tuple[tuple[str, Temp], ...]
    blocks: tuple[Block, ...]
    sends: tuple[tuple[Send, ...], ...]
    carries: tuple[tuple[Temp, ...], ...]
    gathers: tuple[tuple[Send, ...], ...]
    driver: Block
    late: frozenset[str] = frozenset()
    """The maps that the results' stage adds to."""
    whole: bool = False
    """Whether every task is given the whole batch."""

    @property
    def stages(self) -> int:
        """How many stages of tasks it takes: those after the last that has something to do are left out."""
        if self.whole:
            return 1
        busy = [at for at, block in enumerate(self.blocks) if block.instructions]
        return max(busy, default=ROWS) + 1

    @property
    def maps(self) -> frozenset[str]:
        """The maps on workers that it adds to."""
        return frozenset(m for block in self.blocks for m in block.maps)


def whole(program: DistributedProgram) -> Staged | None:
    """The one stage of a program whose changes are on every worker; None if workers wait for each other."""
    workers: list[Instruction] = []
    driver: list[Instruction] = []
    gathers: list[Send] = []
    for i in program.instructions():
        if isinstance(i, Send):
            if not isinstance(i.target.tag, Local):
                return None
            gathers.append(i)
        else:
            (driver if i.mode == DRIVER else workers).append(i)
    wanted = {i.source.name for i in gathers}
    block = _block(WORKERS, workers, wanted)
    return Staged(
        program.given, (block,), ((),), ((),), (tuple(gathers),), _block(DRIVER, driver), whole=True
    )


def staged(program: DistributedProgram, late: frozenset[str]) -> Staged | None:
    """The stages of a program; None if it needs more. Maps in `late` are added to in the last alone."""
    level = {temp.name: ROWS for _, temp in program.given}
    touched: dict[str, int] = {}
    stages: list[list[Instruction]] = [[], [], []]
    driver: list[Instruction] = []
    sends: list[list[Send]] = [[], []]
    gathers: list[list[Send]] = [[], [], []]
    for i in program.instructions():
        if i.mode == DRIVER:
            driver.append(i)
            continue
        if isinstance(i, Send) and isinstance(i.source.tag, Local):
            return None
        at = max((level[t.name] for t in uses_of(i)), default=ROWS)
        if isinstance(i, Send) and isinstance(i.target.tag, Local):
            gathers[at].append(i)
            continue
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
    if any(map_id(m) in i.writes | i.reads for i in stages[MAPS] for m in late):
        return None
    if late and results - late:
        return None
    blocks, carries = _blocks(stages, sends, gathers, level)
    return Staged(
        program.given,
        blocks,
        tuple(tuple(some) for some in sends),
        carries,
        tuple(tuple(some) for some in gathers),
        _block(DRIVER, driver),
        late or frozenset(results),
    )


def _blocks(
    stages: list[list[Instruction]],
    sends: list[list[Send]],
    gathers: list[list[Send]],
    level: dict[str, int],
) -> tuple[tuple[Block, ...], tuple[tuple[Temp, ...], ...]]:
    carries: list[dict[str, Temp]] = [{}, {}]
    for at, some in enumerate(stages):
        for temp in _used(some):
            for between in range(level[temp.name], at):
                carries[between][temp.name] = temp
    blocks = []
    for at, some in enumerate(stages):
        wanted = {i.source.name for i in gathers[at]}
        if at < RESULTS:
            wanted |= {i.source.name for i in sends[at]} | set(carries[at])
        blocks.append(_block(WORKERS, some, wanted))
    return tuple(blocks), tuple(tuple(some.values()) for some in carries)


def _block(mode: str, some: list[Instruction], wanted: Iterable[str] = ()) -> Block:
    made = {i.target.name: i.target for i in some if isinstance(i, Eval | Keep | Step)}
    inputs = {t.name: t for t in _used(some) if t.name not in made}
    outputs = tuple(made[name] for name in sorted(set(wanted) & made.keys()))
    return Block(mode, tuple(some), tuple(inputs.values()), outputs)


def _used(instructions: Iterable[Instruction]) -> Iterable[Temp]:
    return (t for i in instructions for t in uses_of(i))
