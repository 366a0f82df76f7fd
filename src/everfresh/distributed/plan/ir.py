"""Distributed programs: instructions with located temporaries, in blocks (sections 5.3.2 and 5.4).

Every instruction has at most one transformer, and that is all it does (single transformer form). A *block* is
a sequence of instructions that one task runs, on every worker or on the driver, from its inputs to its
outputs; blocks of exchanges stand between them. `reads` and `writes` name what an instruction depends on:
maps, tables and temporaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from everfresh.algebra import Kind
from everfresh.calculus import Query
from everfresh.distributed.plan.tags import Local, Replicated, Tag
from everfresh.expr import Made, Var, stored
from everfresh.types import Column

WORKERS, DRIVER, EXCHANGE = "workers", "driver", "exchange"


def map_id(name: str) -> str:
    """What instructions depend on that read or write a map."""
    return f"map:{stored(name)}"


def table_id(name: str) -> str:
    """The same for a table; among the names of maps, it is none of theirs: they end in a number."""
    return Made(f"table:{name}:")


def table_of(name: str) -> str | None:
    """The table of a `table_id`, None for the name of a map."""
    found = isinstance(name, Made) and name.startswith("table:") and name.endswith(":")
    return str(name[6:-1]) if found else None


@dataclass(frozen=True, slots=True)
class Temp:
    """A temporary: rows with counts, and values where it has kinds. `origin` is the relation whose change it
    is, if it is one, whole or in parts."""

    name: str
    columns: tuple[Column, ...]
    kinds: tuple[Kind, ...]
    tag: Tag
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Eval:
    """`target := expr`, by the names of a view's program."""

    target: Temp
    expr: Query
    view: str
    at: str | None
    """The unit whose change it is about: it and those behind it in the schedule are read as they were before
    the round. None: the change is a table's, all units are."""
    round: int
    read: frozenset[str]
    """The maps and tables that are read, also through relations."""
    uses: tuple[Temp, ...]

    @property
    def target_vars(self) -> tuple[Var, ...]:
        """The variables that the columns of the target are."""
        return tuple(Var(c.name, c.type, c.nullable) for c in self.target.columns)

    @property
    def mode(self) -> str:
        """Where it runs."""
        return mode_of(self.target.tag)

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return self.read | {t.name for t in self.uses}

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((self.target.name,))


@dataclass(frozen=True, slots=True)
class Keep:
    """Of a temporary that is everywhere, what belongs to each worker."""

    target: Temp
    source: Temp

    mode = WORKERS

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset((self.source.name,))

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((self.target.name,))


@dataclass(frozen=True, slots=True)
class Send:
    """A location transformer: Repart, Broadcast, Gather or Scatter, by the tags of source and target. Only
    the target's columns travel, equal rows added up."""

    target: Temp
    source: Temp

    mode = EXCHANGE

    @property
    def how(self) -> str:
        """Its name in the thesis; sending to every worker is a Broadcast."""
        if isinstance(self.target.tag, Local):
            return "GATHER"
        if isinstance(self.target.tag, Replicated):
            return "BROADCAST"
        return "SCATTER" if isinstance(self.source.tag, Local) else "REPART"

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset((self.source.name,))

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((self.target.name,))


@dataclass(frozen=True, slots=True)
class Add:
    """`map += source`, where the map is."""

    map: str
    source: Temp

    @property
    def mode(self) -> str:
        """Where it runs."""
        return mode_of(self.source.tag)

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset((self.source.name,))

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((map_id(self.map),))


@dataclass(frozen=True, slots=True)
class PlacedChange:
    """The rows of a table change, where they are."""

    table: str
    source: Temp

    mode = WORKERS

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset((self.source.name,))

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((table_id(self.table),))


@dataclass(frozen=True, slots=True)
class Step:
    """A unit takes what is pending for its maps; its change is `target`."""

    target: Temp
    view: str
    relation: str
    round: int
    adds: tuple[tuple[str, Temp], ...]
    maps: tuple[str, ...]

    @property
    def mode(self) -> str:
        """Where it runs."""
        return mode_of(self.target.tag)

    @property
    def reads(self) -> frozenset[str]:
        """What it depends on."""
        return frozenset((*(t.name for _, t in self.adds), *map(map_id, self.maps)))

    @property
    def writes(self) -> frozenset[str]:
        """What depends on it."""
        return frozenset((self.target.name, *(map_id(m) for m, _ in self.adds)))


Instruction = Eval | Keep | Send | Add | PlacedChange | Step


def mode_of(tag: Tag) -> str:
    """Where something with this tag is computed."""
    return DRIVER if isinstance(tag, Local) else WORKERS


def uses_of(instruction: Instruction) -> tuple[Temp, ...]:
    """The temporaries that an instruction reads."""
    match instruction:
        case Eval():
            return instruction.uses
        case Step(_, _, _, _, adds):
            return tuple(t for _, t in adds)
    return (instruction.source,)


@dataclass(frozen=True)
class Block:
    """Instructions that run together, in this order."""

    mode: str
    instructions: tuple[Instruction, ...]
    inputs: tuple[Temp, ...] = ()
    """Temporaries from elsewhere that it reads."""
    outputs: tuple[Temp, ...] = ()
    """Temporaries of its own that are read elsewhere."""
    rounds: frozenset[int] = frozenset()
    """Rounds of which steps before and after it are in other blocks: what they changed has to be known."""

    @cached_property
    def reads(self) -> frozenset[str]:
        """What its instructions depend on."""
        return frozenset(name for i in self.instructions for name in i.reads)

    @cached_property
    def writes(self) -> frozenset[str]:
        """What depends on its instructions."""
        return frozenset(name for i in self.instructions for name in i.writes)

    @property
    def maps(self) -> tuple[str, ...]:
        """The maps that it adds to."""
        added = [i.map for i in self.instructions if isinstance(i, Add)]
        stepped = [m for i in self.instructions if isinstance(i, Step) for m, _ in i.adds]
        return tuple(dict.fromkeys((*added, *stepped)))


@dataclass(frozen=True)
class DistributedProgram:
    """What a batch does that changes some tables, given where their changes are."""

    given: tuple[tuple[str, Temp], ...]
    """The changed tables, in order, and the temporary that holds each change."""
    blocks: tuple[Block, ...]

    @property
    def stages(self) -> int:
        """How many times all workers run a block; sending a batch from where it is takes one, even if
        nothing is computed there."""
        running = [block.mode for block in self.blocks if block.mode != DRIVER]
        return running.count(WORKERS) + (running[:1] == [EXCHANGE])

    @property
    def jobs(self) -> int:
        """How many jobs that takes: workers wait for each other inside of one, for the driver between."""
        if not self.stages:
            return 0
        later = 0
        seen = False
        for block in self.blocks:
            seen = seen or block.mode == WORKERS
            later += seen and any(isinstance(t.tag, Local) for t in _sources(block))
        return 1 + later

    @property
    def exchanges(self) -> int:
        """How many temporaries travel between workers, or from the driver to them."""
        sends = (i for b in self.blocks for i in b.instructions if isinstance(i, Send))
        return sum(i.how != "GATHER" for i in sends)

    def instructions(self) -> Iterator[Instruction]:
        """All of them, in order."""
        for block in self.blocks:
            yield from block.instructions

    def to_text(self) -> str:
        """The program as text; `everfresh.distributed.plan.text.parse_distributed` reads it back."""
        from everfresh.distributed.plan.text import to_text

        return to_text(self)


def _sources(block: Block) -> Iterable[Temp]:
    """What the driver sends to workers in an exchange."""
    return (i.source for i in block.instructions if isinstance(i, Send) and i.how != "GATHER")


__all__ = [
    "DRIVER",
    "EXCHANGE",
    "WORKERS",
    "Add",
    "Block",
    "DistributedProgram",
    "Eval",
    "Instruction",
    "Keep",
    "PlacedChange",
    "Send",
    "Step",
    "Temp",
    "mode_of",
    "uses_of",
]
