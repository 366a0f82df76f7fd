"""What a batch does to matrices, and how the log keeps it: JSON for what is said, packed arrays for numbers.

Invariant: `decode(encode(steps))` makes the same steps, with arrays of equal values.

>>> encoded = encode([Change({"A": [EntryUpdate(0, 1, 2.5)]}), Drop("B")])
>>> sorted(encoded), decode(encoded)[1]
(['matrix/arrays', 'matrix/steps'], Drop(name='B'))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everfresh.linalg.backend import backend_of
from everfresh.linalg.updates import (
    AppendRows,
    ColumnUpdate,
    DeleteRows,
    EntryUpdate,
    LowRank,
    RowUpdate,
    Update,
)
from everfresh.state import pack_arrays, plain, unpack_arrays

STEPS, ARRAYS = "matrix/steps", "matrix/arrays"


@dataclass(frozen=True, eq=False)
class CreateMatrix:
    """A new matrix; `device` is where it is computed with, such as `numpy` or `torch:cuda:0`."""

    name: str
    array: Any
    static: bool = False
    device: str = "numpy"


@dataclass(frozen=True, eq=False)
class CreateView:
    """A new view: its program as text, which matrix each input is, and how it is kept.

    `how` has `strategy`, `model`, `ranks` and the fields of `ViewOptions`, as plain data.
    """

    name: str
    text: str
    inputs: Mapping[str, str]
    how: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """A matrix or a view vanishes."""

    name: str


@dataclass(frozen=True, eq=False)
class Change:
    """Updates of some matrices, in order for each."""

    updates: Mapping[str, Sequence[Update]]


Step = CreateMatrix | CreateView | Drop | Change

_KINDS: dict[str, type[Any]] = {
    "low-rank": LowRank,
    "row": RowUpdate,
    "column": ColumnUpdate,
    "entry": EntryUpdate,
    "append": AppendRows,
    "delete": DeleteRows,
}


def encode(steps: Sequence[Step]) -> dict[str, bytes]:
    """Steps as sections of a commit record."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def keep(value: Any) -> int:
        arrays[str(len(arrays))] = np.asarray(backend_of(value).to_numpy(value))
        return len(arrays) - 1

    told = [_told(step, keep) for step in steps]
    return {STEPS: json.dumps(told).encode(), ARRAYS: pack_arrays(arrays)}


def _told(step: Step, keep: Any) -> dict[str, Any]:
    match step:
        case CreateMatrix(name, array, static, device):
            return {
                "do": "matrix",
                "name": name,
                "array": keep(array),
                "static": static,
                "device": device,
            }
        case CreateView(name, text, inputs, how):
            return {"do": "view", "name": name, "text": text, "inputs": dict(inputs), "how": dict(how)}
        case Drop(name):
            return {"do": "drop", "name": name}
        case Change(updates):
            listed = {name: [_told_update(u, keep) for u in some] for name, some in updates.items()}
            return {"do": "change", "updates": listed}


def _told_update(update: Update, keep: Any) -> list[Any]:
    kind = next(word for word, known in _KINDS.items() if isinstance(update, known))
    match update:
        case LowRank(U, V):
            return [kind, keep(U), keep(V)]
        case RowUpdate(i, values) | ColumnUpdate(i, values):
            return [kind, int(i), keep(values)]
        case EntryUpdate(i, j, value):
            return [kind, int(i), int(j), float(value)]
        case AppendRows(rows):
            return [kind, keep(rows)]
        case DeleteRows(indices):
            return [kind, [int(i) for i in indices]]


def decode(sections: Mapping[str, Any]) -> list[Step]:
    """The steps that `encode` kept."""
    arrays = unpack_arrays(sections[ARRAYS])
    return [_step(told, arrays) for told in plain(sections[STEPS], "a step of matrices")]


def _step(told: Mapping[str, Any], arrays: Mapping[str, Any]) -> Step:
    match told["do"]:
        case "matrix":
            array = arrays[str(told["array"])]
            return CreateMatrix(told["name"], array, told["static"], told["device"])
        case "view":
            return CreateView(told["name"], told["text"], told["inputs"], told["how"])
        case "drop":
            return Drop(told["name"])
        case _:
            updates = told["updates"].items()
            return Change({name: [_update(u, arrays) for u in some] for name, some in updates})


def _update(told: Sequence[Any], arrays: Mapping[str, Any]) -> Any:
    kind, *rest = told
    match kind:
        case "low-rank":
            return LowRank(arrays[str(rest[0])], arrays[str(rest[1])])
        case "row" | "column":
            return _KINDS[kind](rest[0], arrays[str(rest[1])])
        case "append":
            return AppendRows(arrays[str(rest[0])])
        case _:
            return _KINDS[kind](*rest)


def updates_of(name: str, given: Any) -> list[Update] | None:
    """What a user gave for a name, as a list of updates; None if it is none."""
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    kinds = tuple(_KINDS.values())
    return listed if listed and all(isinstance(u, kinds) for u in listed) else None
