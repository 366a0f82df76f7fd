"""A distributed program cut into the stages of a job: rows, then maps as often as it takes; and what the
driver does after.

The rows' stage computes from changes alone. Each stage behind it reads and changes maps of its own: a map is
on the *level* of the one stage that touches it, and each level has state units of its own. So no map is
touched in two stages, every unit takes one step per epoch, and what an instruction reads as it was before is
in its own stage. What a stage hands on is sent as the program says, or carried to the same worker; what is
gathered comes with the job's answer.

Levels are the lowest that do (`levels_of`): what is touched together is on one level, behind whatever it
waits for. A map that waits for a change which is made of the map itself, and sent between, has none.

If every task is given the whole batch and nothing travels between workers, one stage is enough (`whole`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from everfresh.distributed import Block, DistributedProgram, Temp
from everfresh.distributed.plan.ir import (
    DRIVER,
    WORKERS,
    Eval,
    Instruction,
    Keep,
    Send,
    Step,
    uses_of,
)
from everfresh.distributed.plan.tags import Local

ROWS, MAPS, RESULTS = range(3)
"""The first stages; those behind have numbers alone."""
MOST = 8
"""Stages that a job has at most."""
HOMES = ("base", "maps", "results", *(f"results{level}" for level in range(3, MOST)))
"""The roles of the units that hold what each stage touches."""

Levels = Mapping[str, int]
"""The stages that touch maps, by `map_id`: those of maps that are not here are touched in `MAPS`."""


@dataclass(frozen=True)
class Staged:
    """A block per stage, what goes from each to the next and to the driver, and the driver's block."""

    given: tuple[tuple[str, Temp], ...]
    blocks: tuple[Block, ...]
    sends: tuple[tuple[Send, ...], ...]
    carries: tuple[tuple[Temp, ...], ...]
    gathers: tuple[tuple[Send, ...], ...]
    driver: Block
    whole: bool = False
    """Whether every task is given the whole batch."""

    @property
    def stages(self) -> int:
        """How many stages of tasks it takes: those after the last that has something to do are left out."""
        return len(self.blocks)

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


def levels_of(program: DistributedProgram) -> Levels | None:
    """The lowest levels of the maps of a program; None if it has none, or waits for the driver."""
    levels: dict[str, int] = {}
    grown = True
    while grown:
        grown = False
        for i, at in _placed(program, levels):
            if at >= MOST or _from_driver(i):
                return None
            higher = {n: at for n in _stored(i) if at > levels.get(n, MAPS)}
            levels.update(higher)
            grown = grown or bool(higher)
    return levels


def staged(program: DistributedProgram, levels: Levels) -> Staged | None:
    """The stages of a program, with maps on these levels; None if it needs others."""
    stages: list[list[Instruction]] = [[] for _ in range(MOST)]
    sends: list[list[Send]] = [[] for _ in range(MOST)]
    gathers: list[list[Send]] = [[] for _ in range(MOST)]
    for i, at in _placed(program, levels):
        if at >= MOST or _from_driver(i) or any(levels.get(n, MAPS) != at for n in _stored(i)):
            return None
        if not isinstance(i, Send):
            stages[at].append(i)
        elif isinstance(i.target.tag, Local):
            gathers[at].append(i)
        elif at + 1 >= MOST:
            return None
        else:
            sends[at].append(i)
    count = max((at + 1 for at in range(MOST) if stages[at] or gathers[at]), default=1)
    blocks, carries = _blocks(stages[:count], sends, gathers)
    return Staged(
        program.given,
        blocks,
        tuple(tuple(some) for some in sends[: count - 1]),
        carries,
        tuple(tuple(some) for some in gathers[:count]),
        _block(DRIVER, [i for i in program.instructions() if i.mode == DRIVER]),
    )


def _placed(program: DistributedProgram, levels: Levels) -> Iterator[tuple[Instruction, int]]:
    """What workers do and send, and in which stage: after what it waits for, with the maps it touches."""
    made = {temp.name: ROWS for _, temp in program.given}
    for i in program.instructions():
        if i.mode == DRIVER:
            continue
        at = max((made.get(t.name, ROWS) for t in uses_of(i)), default=ROWS)
        at = max([at, *(levels.get(n, MAPS) for n in _stored(i))])
        yield i, at
        if isinstance(i, Send):
            made[i.target.name] = at + 1
        elif isinstance(i, Eval | Keep | Step):
            made[i.target.name] = at


def _stored(i: Instruction) -> list[str]:
    """What an instruction reads and writes of what is stored."""
    return [n for n in (*i.reads, *i.writes) if n.startswith(("map:", "table:"))]


def _from_driver(i: Instruction) -> bool:
    return isinstance(i, Send) and isinstance(i.source.tag, Local)


def _blocks(
    stages: list[list[Instruction]], sends: list[list[Send]], gathers: list[list[Send]]
) -> tuple[tuple[Block, ...], tuple[tuple[Temp, ...], ...]]:
    """The block of each stage, and the temporaries that are carried from each to the next."""
    there: dict[str, int] = {}
    carries: list[dict[str, Temp]] = [{} for _ in stages[1:]]
    for at, some in enumerate(stages):
        there.update({i.target.name: at for i in some if isinstance(i, Eval | Keep | Step)})
        there.update({i.target.name: at for i in (sends[at - 1] if at else ())})
        for temp in _used(some):
            for between in range(there.get(temp.name, ROWS), at):
                carries[between][temp.name] = temp
    blocks = []
    for at, some in enumerate(stages):
        wanted = {i.source.name for i in gathers[at]}
        if at < len(carries):
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
