"""What an epoch does to matrices, and how the log keeps it: JSON for what is said, packed arrays for numbers.

Statements are in the log of DDL, updates in a section of the commit record, arrays of both in another.
Invariant: `decode(encode(steps))` makes the same steps, with arrays of equal values.

>>> told = encode([Drop("B"), MatrixUpdates({"A": [EntryUpdate(0, 1, 2.5)]})])
>>> told.ddl, sorted(told.sections)
(('{"do": "drop", "name": "B"}',), ['matrix/arrays', 'matrix/steps'])
>>> decode(told.ddl, told.sections)[0]
Drop(name='B')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.epochs.domain import Told
from everfresh.linalg.domain.columns import Columns
from everfresh.linalg.kernels.backend import backend_of
from everfresh.linalg.run.updates import (
    AppendRows,
    ColumnUpdate,
    DeleteRows,
    EntryUpdate,
    LowRank,
    RowUpdate,
    Update,
)
from everfresh.state import pack_arrays, pack_table, plain, unpack_arrays, unpack_table

STEPS, ARRAYS = "matrix/steps", "matrix/arrays"


@dataclass(frozen=True, eq=False)
class CreateMatrix:
    """A new matrix; `device` is where it is computed with, such as `numpy` or `torch:cuda:0`. One that
    follows columns of a relation has the keys of its rows."""

    name: str
    array: Any
    static: bool = False
    device: str = "numpy"
    source: Columns | None = None
    keys: pa.Table | None = None


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
class MatrixUpdates:
    """Updates of some matrices, in order for each; and the keys of the rows that were appended to matrices
    that follow a relation."""

    updates: Mapping[str, Sequence[Update]]
    keys: Mapping[str, pa.Table] = field(default_factory=dict)


Statement = CreateMatrix | CreateView | Drop
Step = Statement | MatrixUpdates

_KINDS: dict[str, type[Any]] = {
    "low-rank": LowRank,
    "row": RowUpdate,
    "column": ColumnUpdate,
    "entry": EntryUpdate,
    "append": AppendRows,
    "delete": DeleteRows,
}
Keep = Callable[[Any], int]


def encode(steps: Sequence[Step]) -> Told:
    """Steps as the log keeps them."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def keep(value: Any) -> int:
        arrays[str(len(arrays))] = np.asarray(backend_of(value).to_numpy(value))
        return len(arrays) - 1

    ddl = tuple(json.dumps(_told(step, keep)) for step in steps if not isinstance(step, MatrixUpdates))
    changes = [_told(step, keep) for step in steps if isinstance(step, MatrixUpdates)]
    sections = {STEPS: json.dumps(changes).encode(), ARRAYS: pack_arrays(arrays)}
    return Told(ddl, sections)


def _told(step: Step, keep: Keep) -> dict[str, Any]:
    match step:
        case CreateMatrix(name, array, static, device, source, keys):
            told = {"do": "matrix", "name": name, "array": keep(array), "static": static, "device": device}
            if source is not None and keys is not None:
                told |= {"source": asdict(source), "keys": _rows(keys, keep)}
            return told
        case CreateView(name, text, inputs, how):
            return {"do": "view", "name": name, "text": text, "inputs": dict(inputs), "how": dict(how)}
        case Drop(name):
            return {"do": "drop", "name": name}
        case MatrixUpdates(updates, keys):
            listed = {name: [_told_update(u, keep) for u in some] for name, some in updates.items()}
            came = {name: _rows(rows, keep) for name, rows in keys.items()}
            return {"do": "change", "updates": listed, **({"keys": came} if came else {})}


def _rows(rows: pa.Table, keep: Keep) -> int:
    return keep(np.frombuffer(pack_table(rows), np.uint8))


def _told_update(update: Update, keep: Keep) -> list[Any]:
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


def decode(ddl: Sequence[str], sections: Mapping[str, Any]) -> list[Step]:
    """The steps that `encode` kept. Records of before had statements among the steps."""
    arrays = unpack_arrays(sections[ARRAYS])
    steps = [plain(text.encode(), "a statement of matrices") for text in ddl]
    return [_step(told, arrays) for told in [*steps, *plain(sections[STEPS], "a step of matrices")]]


def _step(told: Mapping[str, Any], arrays: Mapping[str, Any]) -> Step:
    match told["do"]:
        case "matrix":
            array, source = arrays[str(told["array"])], told.get("source")
            given = (Columns.of(source), _unpacked(told["keys"], arrays)) if source is not None else ()
            return CreateMatrix(told["name"], array, told["static"], told["device"], *given)
        case "view":
            return CreateView(told["name"], told["text"], told["inputs"], told["how"])
        case "drop":
            return Drop(told["name"])
        case _:
            updates = {name: [_update(u, arrays) for u in some] for name, some in told["updates"].items()}
            keys = {name: _unpacked(number, arrays) for name, number in told.get("keys", {}).items()}
            return MatrixUpdates(updates, keys)


def _unpacked(number: int, arrays: Mapping[str, Any]) -> pa.Table:
    return unpack_table(np.asarray(arrays[str(number)]).tobytes())


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


def updates_of(given: Any) -> list[Update] | None:
    """What a user gave, as a list of updates; None if it is none."""
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    kinds = tuple(_KINDS.values())
    return listed if listed and all(isinstance(u, kinds) for u in listed) else None
