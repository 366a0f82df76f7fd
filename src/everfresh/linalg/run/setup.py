"""What a view is made of: its options, what an update reports, its program for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.cost import CPU, CUDA, Machine
from everfresh.linalg.compiler.plan import MatrixProgram, compile
from everfresh.linalg.lang.dims import resize
from everfresh.linalg.lang.source import Source, parse
from everfresh.linalg.run.evaluate import CONDITION_LIMIT


class Bindable(Protocol):
    """A program whose shapes are open: a traced function, or an analytic that is ready to use."""

    parameters: tuple[str, ...]

    def bind(self, shapes: Mapping[str, tuple[int, int]], /) -> Source:
        """The program for inputs of these shapes."""


Definition = Source | MatrixProgram | Bindable | str


@dataclass(frozen=True, slots=True)
class Applied:
    """What an update did: the version it made, the ranks of the changes, how, and the drift after it."""

    version: int
    ranks: Mapping[str, int]
    how: str
    drift: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How a view is kept: `tolerance` is for drift (None: by the floating type), the limit for inverses.

    On Spark, matrices with both sides of `distribute` or more are kept in blocks by the workers.
    """

    tolerance: float | None = None
    condition_limit: float = CONDITION_LIMIT
    pending: bool = True
    check: bool = True
    probe_every: int = 32
    seed: int = 0
    distribute: int = 256


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
    source = bound_source(program, shapes, static)
    source = replace(source, static=source.static | frozenset(static))
    return compile(source, strategy=strategy, model=model, ranks=ranks, machine=machine or _machine(inputs))


def bound_source(
    program: Definition, shapes: Mapping[str, tuple[int, int]], static: Iterable[str] = ()
) -> Source:
    """A program of any kind for inputs of these shapes."""
    if isinstance(program, MatrixProgram):
        return program.source
    if isinstance(program, str):
        return parse(program, shapes, static=static)
    if isinstance(program, Source):
        return resize(program, {m.name: shapes[m.name] for m in program.inputs if m.name in shapes})
    return program.bind({n: shapes[n] for n in program.parameters if n in shapes})


def _machine(inputs: Mapping[str, Any]) -> Machine:
    return CUDA if any(str(getattr(a, "device", "")).startswith("cuda") for a in inputs.values()) else CPU
