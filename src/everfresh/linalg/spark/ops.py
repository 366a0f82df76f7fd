"""What workers can be asked of matrices, as a request says it.

| operation | answer |
|---|---|
| `Times` | a worker's rows of a matrix, or of its transpose, times thin columns |
| `TimesSome` | the same where only some rows of the columns are not zero |
| `Take` | some rows by their numbers |
| `Peek` | a small part |
| `Evaluate` | the sum of what it wrote: its rows of a statement, as new blocks |

Arrays travel beside the operations, which name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from everfresh.linalg.lang.nodes import Add, Expr, Eye, MatMul, Matrix, Scale, Transpose, Zeros
from everfresh.linalg.spark.blocks import Blocks
from everfresh.rewrite.packing import Packing
from everfresh.spark.jobs.requests import Request
from everfresh.state import pack_arrays, plain, unpack_arrays

Array = np.ndarray[Any, Any]
EVALUATED = (Matrix, Transpose, MatMul, Scale, Add, Eye, Zeros)
"""What workers evaluate row by row."""


@dataclass(frozen=True, slots=True)
class Times:
    """Rows of a matrix (`turned`: of its transpose) times an array."""

    blocks: Blocks
    x: str
    turned: bool


@dataclass(frozen=True, slots=True)
class TimesSome:
    """The same where `x` has only the rows that `rows` numbers, and the others are zero."""

    blocks: Blocks
    x: str
    rows: str
    turned: bool


@dataclass(frozen=True, slots=True)
class Take:
    """The rows that an array numbers, which is sorted."""

    blocks: Blocks
    rows: str


@dataclass(frozen=True, slots=True)
class Peek:
    """A part, from and up to a row, from and up to a column."""

    blocks: Blocks
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Rows of a flat expression, which become the blocks `id`. A matrix that `held` does not name is an
    array."""

    id: str
    workers: int
    expr: Expr
    held: Mapping[str, Blocks]


Op = Times | TimesSome | Take | Peek | Evaluate


@dataclass(frozen=True, slots=True)
class _Asked:
    """All operations of a job."""

    ops: tuple[Op, ...]


_PACKING = Packing(_Asked, Times, TimesSome, Take, Peek, Evaluate, Blocks, *EVALUATED)


def packed_ops(ops: Sequence[Op], arrays: Mapping[str, Array]) -> dict[str, bytes]:
    """Operations and their arrays as the sections of a request."""
    asked = json.dumps(_PACKING.packed(_Asked(tuple(ops)))).encode()
    return {"ops": asked, "arrays": pack_arrays(arrays)}


def asked_ops(request: Request) -> tuple[tuple[Op, ...], dict[str, Array]]:
    """The operations and arrays of a request."""
    sections, name = request.sections, request.name
    asked = _PACKING.unpacked(plain(sections["ops"], name), _Asked, name)
    return asked.ops, unpack_arrays(sections["arrays"])
