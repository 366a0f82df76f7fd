"""The matrices and matrix views of a database: their state, and how it is changed and kept.

A view holds the matrices that it reads, with pending factors and spare rows of its own; a matrix that no
view reads is held here as it is. Whatever changes something gives what takes it back. Invariant: all views
that read a matrix hold the same value of it, up to rounding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from everfresh.epochs import Undo
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.domain.columns import Columns, Followed
from everfresh.linalg.domain.steps import CreateMatrix, CreateView
from everfresh.linalg.kernels.backend import Array, backend_of
from everfresh.linalg.lang.source import parse
from everfresh.linalg.lang.trees import names
from everfresh.linalg.run.before import Before, UsedArray
from everfresh.linalg.run.pending import Held
from everfresh.linalg.run.setup import Definition, ViewOptions, bound_source
from everfresh.linalg.run.updates import Accumulator, AppendRows, DeleteRows, Update
from everfresh.linalg.run.view import MatrixView
from everfresh.state import pack_arrays, pack_table, plain, unpack_arrays, unpack_table

META, FREE, VIEW, KEYS = "matrix/meta", "matrix/free/", "matrix/view/", "matrix/keys/"
_ASSIGNED = re.compile(r"(\w+)\s*:=")


@dataclass(frozen=True, slots=True)
class MatrixInfo:
    """What is known of a matrix besides its numbers."""

    static: bool
    device: str


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """The definition of a view: its program, the matrix that each input is, how it is kept."""

    text: str
    inputs: Mapping[str, str]
    how: Mapping[str, Any] = field(default_factory=dict)


class MatrixStore:
    """Matrices and views by name."""

    def __init__(self) -> None:
        self.matrices: dict[str, MatrixInfo] = {}
        self.definitions: dict[str, ViewInfo] = {}
        self.views: dict[str, MatrixView] = {}
        self.followed: dict[str, Followed] = {}
        """Where the rows of relations are in the matrices that follow them."""
        self._free: dict[str, Array] = {}

    # -- looking up --------------------------------------------------------------------------------

    def expect_matrix(self, name: str) -> MatrixInfo:
        """A matrix, or an error that lists what there is."""
        if name not in self.matrices:
            raise _unknown("matrix", name, self.matrices)
        return self.matrices[name]

    def expect_view(self, name: str) -> MatrixView:
        """A view, or an error that lists what there is."""
        if name not in self.views:
            raise _unknown("matrix view", name, self.views)
        return self.views[name]

    def reads(self, name: str) -> tuple[str, ...]:
        """What a matrix or view reads."""
        if name in self.definitions:
            return tuple(dict.fromkeys(self.definitions[name].inputs.values()))
        return (self.followed[name].source.relation,) if name in self.followed else ()

    def value(self, name: str) -> UsedArray:
        """A matrix, or the first output of a view, as it is stored."""
        if name in self.views:
            return self.views[name].value(self.views[name].outputs[0])
        if name in self._free:
            return UsedArray(self._free[name])
        reader = self.readers(name)[0]
        return self.views[reader].value(self._input(reader, name))

    def readers(self, matrix: str) -> list[str]:
        """The views that read a matrix."""
        return [name for name, info in self.definitions.items() if matrix in info.inputs.values()]

    def array(self, name: str) -> Array:
        """A matrix, as an array of the caller's own."""
        self.expect_matrix(name)
        if name in self._free:
            return backend_of(self._free[name]).copy(self._free[name])
        reader = self.readers(name)[0]
        return self.views[reader].read(self._input(reader, name))

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a matrix."""
        self.expect_matrix(name)
        if name in self._free:
            rows, columns = self._free[name].shape
            return int(rows), int(columns)
        reader = self.readers(name)[0]
        return self.views[reader].shape(self._input(reader, name))

    def _input(self, view: str, matrix: str) -> str:
        return next(i for i, m in self.definitions[view].inputs.items() if m == matrix)

    def definition(
        self,
        program: Definition,
        inputs: Mapping[str, str],
        coming: Mapping[str, tuple[int, int]],
    ) -> tuple[str, dict[str, str]]:
        """A program over matrices that are there, or come with it in these shapes: as text with shapes, and
        which matrix each input is."""
        known = {name: name for name in self.matrices if name.isidentifier()} | dict(inputs)
        for name, matrix in known.items():
            if matrix not in self.matrices and matrix not in coming:
                raise _unknown("matrix", matrix, self.matrices).at(f"input '{name}'")
        if isinstance(program, str):  # what it assigns is its own, whatever else has the name
            known = {name: m for name, m in known.items() if name not in _ASSIGNED.findall(program)}
        shapes = {n: coming[m] if m in coming else self.shape(m) for n, m in known.items()}
        source = bound_source(program, shapes)
        read = set(source.outputs).union(*(names(expr) for _, expr in source.statements))
        source = replace(
            source,
            inputs=tuple(m for m in source.inputs if m.name in read),
            static=frozenset(source.static & read),
        )
        for m in source.inputs:
            if m.name not in known:
                raise _unknown("matrix", m.name, self.matrices).at("the inputs of the program")
        return str(source), {m.name: known[m.name] for m in source.inputs}

    # -- making and dropping -----------------------------------------------------------------------

    def _remember(self) -> Undo:
        before = (
            dict(self.matrices),
            dict(self.definitions),
            dict(self.views),
            dict(self.followed),
            dict(self._free),
        )

        def undo() -> None:
            self.matrices, self.definitions, self.views, self.followed, self._free = before

        return undo

    def create_matrix(self, step: CreateMatrix) -> Undo:
        """A new matrix."""
        self._check_free(step.name)
        undo = self._remember()
        array = placed(step.array, step.device)
        if array.ndim != 2:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{step.name} has {array.ndim} dimensions, a matrix has two",
                hint="array.reshape(-1, 1) makes a column of a vector",
            )
        if not backend_of(array).finite(array):
            raise EverfreshError(Code.VALUE, f"the matrix {step.name} holds NaN or infinite values")
        self.matrices[step.name] = MatrixInfo(step.static, step.device)
        self._free[step.name] = backend_of(array).copy(array)
        if step.source is not None and step.keys is not None:
            self.followed[step.name] = Followed(step.source, step.source.keys(step.keys))
        return undo

    def create_view(self, step: CreateView) -> Undo:
        """A new view over matrices that are there."""
        self._check_free(step.name)
        self._check_rows(step)
        undo = self._remember()
        inputs = {name: self.array(matrix) for name, matrix in step.inputs.items()}
        static = [name for name, matrix in step.inputs.items() if self.matrices[matrix].static]
        self.views[step.name] = self._made(step.name, step.text, inputs, static, step.how)
        self.definitions[step.name] = ViewInfo(step.text, step.inputs, step.how)
        for matrix in step.inputs.values():
            self._free.pop(matrix, None)
        return undo

    def _made(
        self, name: str, text: str, inputs: Mapping[str, Array], static: list[str], how: Mapping[str, Any]
    ) -> MatrixView:
        """A new view; engines that keep views elsewhere make theirs."""
        return MatrixView(parse(text), inputs, static=static, **view_arguments(how))

    def _restored(
        self, name: str, info: ViewInfo, arrays: Mapping[str, Any], static: list[str], like: Array | None
    ) -> MatrixView:
        """A view of a snapshot."""
        arguments = view_arguments(info.how)
        kept = {key: arguments[key] for key in ("ranks", "options")}
        return MatrixView.from_arrays(parse(info.text), arrays, like=like, static=static, **kept)

    def drop(self, name: str) -> Undo:
        """A matrix that nobody reads, or a view, goes."""
        undo = self._remember()
        if name in self.matrices:
            if readers := self.readers(name):
                raise EverfreshError(
                    Code.DEPENDENCY, f"'{name}' is read by {', '.join(readers)}", hint="drop them first"
                )
            del self.matrices[name], self._free[name]
            self.followed.pop(name, None)
            return undo
        self.expect_view(name)
        for matrix in set(self.definitions[name].inputs.values()):
            if self.readers(matrix) == [name]:
                self._free[matrix] = self.array(matrix)
        del self.views[name], self.definitions[name]
        return undo

    def _check_rows(self, step: CreateView) -> None:
        """Inputs that follow the same rows must have them in the same order."""
        seen: dict[tuple[str, tuple[str, ...]], Followed] = {}
        for matrix in step.inputs.values():
            one = self.followed.get(matrix)
            if one is None:
                continue
            other = seen.setdefault((one.source.relation, one.source.index), one)
            if list(one.ordered()) != list(other.ordered()):
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"inputs of '{step.name}' follow '{one.source.relation}' since different epochs: "
                    "their rows are in different orders",
                    hint="give all of them as columns(...) when the view is made",
                )

    def _check_free(self, name: str) -> None:
        if name in self.matrices or name in self.views:
            what = "matrix" if name in self.matrices else "matrix view"
            raise EverfreshError(
                Code.EXISTS,
                f"there is already a {what} '{name}'",
                hint="drop it first, or choose another name",
            )

    # -- updates -----------------------------------------------------------------------------------

    def change_matrix(self, name: str, updates: Sequence[Update]) -> tuple[Before | None, Undo]:
        """Update a matrix: the value before, if it is held here, and what takes that back. Where views hold
        it, they are told."""
        if self.expect_matrix(name).static:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the matrix '{name}' is static and cannot change",
                hint="create it without static=True",
            )
        before = self._free.get(name)
        if before is None:
            return None, _nothing
        self._free[name] = _at(f"matrix '{name}'", partial(updated, name, before, updates))

        def undo() -> None:
            self._free[name] = before

        return Before((), before), undo

    def change_view(
        self, name: str, updates: Mapping[str, Sequence[Update]]
    ) -> tuple[dict[str, Before | None], Undo]:
        """Update the matrices that a view reads, by their names: what each of them, and its own first output,
        was before; and what takes that back."""
        inputs, view = self.definitions[name].inputs, self.views[name]
        given = {i: list(updates[m]) for i, m in inputs.items() if m in updates}
        _, undo, before = _at(f"matrix view '{name}'", partial(view.attempt, given))
        known = {inputs[i]: before(i) for i in given}
        return {**known, name: before(view.outputs[0])}, undo

    # -- snapshots ---------------------------------------------------------------------------------

    def to_sections(self) -> dict[str, bytes]:
        """Everything, for a snapshot."""
        if not self.matrices:
            return {}
        meta = {
            "matrices": {name: asdict(info) for name, info in self.matrices.items()},
            "followed": {name: asdict(one.source) for name, one in self.followed.items()},
            "views": {
                name: {"text": info.text, "inputs": dict(info.inputs), "how": dict(info.how)}
                for name, info in self.definitions.items()
            },
        }
        sections = {META: json.dumps(meta).encode()}
        for name, array in self._free.items():
            sections[FREE + name] = pack_arrays({"": backend_of(array).to_numpy(array)})
        for name, one in self.followed.items():
            sections[KEYS + name] = pack_table(one.key_table())
        for name in self.views:
            sections[VIEW + name] = pack_arrays(self._kept(name))
        return sections

    def _kept(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """What a snapshot keeps of a view."""
        return self.views[name].to_arrays()

    def load(self, sections: Mapping[str, Any]) -> None:
        """Take the state of a snapshot; none at all without sections."""
        self.matrices, self.definitions, self.views, self.followed, self._free = {}, {}, {}, {}, {}
        if META not in sections:
            return
        meta = plain(sections[META], "what is known of matrices")
        self.matrices = {name: MatrixInfo(**info) for name, info in meta["matrices"].items()}
        for name in self.matrices:
            if FREE + name in sections:
                array = unpack_arrays(sections[FREE + name])[""]
                self._free[name] = placed(np.array(array), self.matrices[name].device)
        for name, told in meta.get("followed", {}).items():
            source = Columns.of(told)
            self.followed[name] = Followed(source, source.keys(unpack_table(sections[KEYS + name])))
        for name, told in meta["views"].items():
            info = ViewInfo(**told)
            self.definitions[name] = info
            known = {i: self.matrices[m] for i, m in info.inputs.items()}
            static = [i for i, m in known.items() if m.static]
            device = next(iter(known.values())).device
            like = None if device == "numpy" else placed(np.zeros((1, 1)), device)
            arrays = unpack_arrays(sections[VIEW + name])
            self.views[name] = self._restored(name, info, arrays, static, like)


def _nothing() -> None:
    """Nothing was done."""


def view_arguments(how: Mapping[str, Any]) -> dict[str, Any]:
    """How a view is kept, as the arguments of `MatrixView`."""
    given = dict(how)
    arguments: dict[str, Any] = {
        key: given.pop(key) for key in ("strategy", "model", "ranks") if key in given
    }
    arguments.setdefault("ranks", 1)
    return {**arguments, "options": ViewOptions(**given)}


def device_of(array: Any) -> str:
    """Where an array is computed with.

    >>> device_of([[1.0]])
    'numpy'
    """
    return f"torch:{array.device}" if backend_of(array).name == "torch" else "numpy"


def placed(array: Any, device: str) -> Array:
    """An array of floats on a device; in NumPy where PyTorch or the device is not there."""
    if device.startswith("torch:") and backend_of(array).name != "torch":
        try:
            import torch

            return torch.from_numpy(np.array(array)).to(device.removeprefix("torch:"))
        except (ImportError, RuntimeError):
            pass
    return backend_of(array).asarray(array)


def updated(name: str, array: Array, updates: Sequence[Update]) -> Array:
    """A matrix that no view holds, after updates."""
    backend = backend_of(array)
    array = backend.copy(array)
    for update in updates:
        if isinstance(update, AppendRows):
            rows = backend.asarray(update.rows, array)
            rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
            if rows.ndim != 2 or rows.shape[1] != array.shape[1]:
                raise EverfreshError(
                    Code.ARGUMENT, f"a row of {name} has {array.shape[1]} values, not {rows.shape[-1]}"
                )
            if not backend.finite(rows):
                raise EverfreshError(Code.VALUE, f"an update of {name} holds NaN or infinite values")
            array = backend.copy(backend.concat([array, rows], 0))
            continue
        accumulator = Accumulator(name, Held(array, backend), None, None)
        if isinstance(update, DeleteRows):
            gone = {accumulator.position(int(i), accumulator.rows, "row") for i in update.indices}
            kept = [i for i in range(array.shape[0]) if i not in gone]
            array = backend.copy(array[backend.index(kept, array)])
            continue
        accumulator.add(update)
        change = accumulator.change()
        if change is not None:
            backend.add_product(array, change.left, change.right)
    return array


def _at(place: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except EverfreshError as error:
        raise error.at(place) from error


def _unknown(what: str, name: str, known: Any) -> EverfreshError:
    several = {"matrix": "matrices", "matrix view": "matrix views"}[what]
    return EverfreshError(
        Code.NOT_FOUND,
        f"there is no {what} '{name}'",
        hint=f"{several} are: " + (", ".join(known) or "none yet"),
    )
