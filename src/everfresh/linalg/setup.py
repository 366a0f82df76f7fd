"""What a view is made of: its options, what an update reports, and the program compiled for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.cost import CPU, CUDA, Machine
from everfresh.linalg.dims import resize
from everfresh.linalg.evaluate import CONDITION_LIMIT
from everfresh.linalg.plan import MatrixProgram, compile
from everfresh.linalg.source import Source, parse
from everfresh.linalg.trace import TracedProgram

Definition = Source | TracedProgram | MatrixProgram | str


@dataclass(frozen=True, slots=True)
class Applied:
    """What an update did: the version it made, the ranks of the changes, how it was done, and the drift after it."""

    version: int
    ranks: Mapping[str, int]
    how: str
    drift: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a view is kept: `tolerance` for drift (None: by the floating type), `condition_limit` for inverses."""

    tolerance: float | None = None
    condition_limit: float = CONDITION_LIMIT
    pending: bool = True
    check: bool = True
    probe_every: int = 32
    seed: int = 0


def compiled_for(
    program: Definition,
    inputs: Mapping[str, Any],
    strategy: str,
    model: str,
    ranks: Mapping[str, int] | int,
    static: Iterable[str],
    machine: Machine | None,
) -> MatrixProgram:
    """The compiled program for inputs of these shapes."""
    if isinstance(program, MatrixProgram):
        return program
    shapes = {name: tuple(getattr(a, "shape", np.shape(a))) for name, a in inputs.items()}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise EverfreshError(Code.ARGUMENT, f"{name} has {len(shape)} dimensions, a matrix has two")
    if isinstance(program, str):
        source = parse(program, shapes, static=static)
    elif isinstance(program, TracedProgram):
        source = program.bind({n: shapes[n] for n in program.parameters if n in shapes})
    else:
        source = resize(program, {m.name: shapes[m.name] for m in program.inputs if m.name in shapes})
    source = replace(source, static=source.static | frozenset(static))
    return compile(source, strategy=strategy, model=model, ranks=ranks, machine=machine or _machine(inputs))


def _machine(inputs: Mapping[str, Any]) -> Machine:
    return CUDA if any(str(getattr(a, "device", "")).startswith("cuda") for a in inputs.values()) else CPU
