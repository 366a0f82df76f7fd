"""Matrices in a database: what a user holds of them, and the part of `Database` that makes and changes them.

The work is done by `everfresh.linalg`, which is loaded when the first matrix is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch, Engine
from everfresh.relations import View
from everfresh.sql import Drop

if TYPE_CHECKING:
    import threading

    import numpy as np

    from everfresh.database import Database
    from everfresh.linalg import MatrixView, ViewOptions
    from everfresh.linalg.setup import Definition
    from everfresh.linalg.store import MatrixStore

DOMAIN = "matrix"


class Matrices:
    """The domain of matrices, made when it is needed. See `everfresh.program.domain`."""

    name = DOMAIN

    def __init__(self) -> None:
        self._host: Any = None
        self._store: MatrixStore | None = None

    def attach(self, host: Any) -> None:
        """Keep matrices with the workers of Spark."""
        self._host = host

    @property
    def store(self) -> MatrixStore:
        """The matrices and views."""
        if self._store is None:
            if self._host is None:
                from everfresh.linalg.store import MatrixStore

                self._store = MatrixStore()
            else:
                from everfresh.linalg.spark.store import SparkMatrixStore

                self._store = SparkMatrixStore(self._host)
        return self._store

    def takes(self, name: str, given: Any) -> bool:
        """Whether part of a batch is an update of a matrix, by its name or by what is given."""
        first = given[0] if isinstance(given, list) and given else given
        if type(first).__module__ == "everfresh.linalg.updates":
            return True
        return self._store is not None and name in self._names()

    def takes_some(self, given: Mapping[str, Any]) -> bool:
        """Whether some part of a batch is an update of a matrix."""
        return any(self.takes(name, some) for name, some in given.items())

    def check_statement(self, statement: Any) -> None:
        """Refuse a statement that would give a table or view the name of a matrix."""
        named = statement if hasattr(statement, "name") else getattr(statement, "schema", None)
        name = getattr(named, "name", None)
        if name in self._names() and not isinstance(statement, Drop):
            raise EverfreshError(
                Code.EXISTS, f"there is already a matrix or matrix view '{name}'", hint="choose another name"
            )

    def _names(self) -> set[str]:
        return {*self._store.matrices, *self._store.views} if self._store is not None else set()

    def kind_of(self, name: str) -> tuple[str, str] | None:
        """`('matrix' | 'matrix view', name as it was created)`, whatever its case; None if there is none."""
        for kind, names in (("matrix", self.matrices), ("matrix view", self.views)):
            for one in sorted(names, key=lambda known: known != name):
                if one.lower() == name.lower():
                    return kind, one
        return None

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of the matrices."""
        return tuple(self._store.matrices) if self._store is not None else ()

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._store.views) if self._store is not None else ()

    def changing(self, steps: Any) -> AbstractContextManager[Callable[[], Mapping[str, Any]]]:
        """Make steps, or take them back."""
        return self.store.changing(steps)

    def replay(self, sections: Mapping[str, Any]) -> None:
        """Make the steps of a commit record again."""
        self.store.replay(sections)

    def to_sections(self) -> Mapping[str, Any]:
        """The state, for a snapshot."""
        return self._store.to_sections() if self._store is not None else {}

    def load(self, sections: Mapping[str, Any]) -> None:
        """The state of a snapshot."""
        if sections or self._store is not None:
            self.store.load(sections)


class Matrix:
    """A matrix of a database."""

    def __init__(self, db: MatrixMethods, name: str) -> None:
        self._db = db
        self.name = name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        with self._db._lock:
            return self._db._matrix_store().shape(self.name)

    @property
    def static(self) -> bool:
        """Whether it never changes."""
        with self._db._lock:
            return self._db._matrix_store().expect_matrix(self.name).static

    def read(self) -> Any:
        """The matrix as an array of the kind it was given as."""
        with self._db._lock:
            return self._db._matrix_store().array(self.name)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The matrix as a NumPy array of the caller's own."""
        return _numpy(self.read())

    def drop(self) -> int:
        """Remove it; refused while a view reads it."""
        return self._db._drop_matrix(self.name)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<matrix {self.name}, {rows} x {columns}{', static' if self.static else ''}>"


class LinearView(View):
    """A matrix view: always equal to its program over its matrices, up to rounding.

    `view.to_numpy()` is its (first) output, `view["beta"]` one by name.
    """

    _db: Database

    def _held(self) -> MatrixView:
        return self._db._matrix_store().expect_view(self.name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        with self._db._lock:
            return self._held().outputs

    def read(self, name: str | None = None) -> Any:
        """An output, or another matrix that the view keeps, as an array of the kind of its inputs."""
        with self._db._lock:
            return self._held().read(name)

    def to_numpy(self, name: str | None = None) -> np.ndarray[Any, Any]:
        """An output as a NumPy array of the caller's own."""
        return _numpy(self.read(name))

    __getitem__ = to_numpy  # type: ignore[assignment]

    @property
    def coef_(self) -> np.ndarray[Any, Any]:
        """The first output as scikit-learn shows coefficients: one per feature, or a row per response."""
        found = self.to_numpy()
        return found[:, 0] if found.shape[1] == 1 else found.T

    @property
    def drift(self) -> float:
        """The relative error that was estimated after the last update."""
        with self._db._lock:
            return self._held().drift

    def to_arrow(self, at: int | None = None) -> pa.Table:
        """The first output, its columns named c0, c1, ..."""
        if at is not None:
            raise _only_now(self.name)
        found = self.to_numpy()
        return pa.table({f"c{j}": found[:, j] for j in range(found.shape[1])})

    def to_spark(self, at: int | None = None) -> Any:
        """Not offered: a matrix is read as an array."""
        raise _only_now(self.name)

    def changes(self, since: int | None = None) -> pa.Table:
        """Not offered: a matrix is read as an array."""
        raise _only_now(self.name)

    def on_change(self, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        """Not offered: a matrix is read as an array."""
        raise _only_now(self.name)

    def explain(self, format: str = "text", distributed: bool = False) -> str:
        """The triggers with their cost in big-O and in flops, and how the view is doing; where its blocks
        are is said in any case."""
        if format != "text":
            raise EverfreshError(
                Code.ARGUMENT, f"a matrix view is explained as text, not as '{format}'", place="format"
            )
        with self._db._lock:
            return self._held().explain()

    def verify(self) -> pa.Table:
        """Re-evaluate the program; the matrices that differ by more than the view's tolerance: none."""
        with self._db._lock:
            held = self._held()
            found = {name: gap for name, gap in held.verify().items() if not gap <= held.tolerance}
        return pa.table(
            {"matrix": pa.array(found, pa.string()), "difference": pa.array(found.values(), pa.float64())}
        )

    def drop(self) -> int:
        """Remove the view; its matrices stay."""
        return self._db._drop_matrix(self.name)

    def __len__(self) -> int:
        return int(self.to_numpy().shape[0])

    def __repr__(self) -> str:
        with self._db._lock:
            held = self._held()
            shapes = ", ".join(f"{n} {' x '.join(map(str, held.shape(n)))}" for n in held.outputs)
        return f"<matrix view {self.name}: {shapes}>"

    def _repr_html_(self) -> str:
        return f"<code>{repr(self).replace('<', '&lt;')}</code>"


class MatrixMethods:
    """The methods of `Database` that are about matrices."""

    _lock: threading.RLock
    _matrices: Matrices

    def _open(self) -> Engine:
        raise NotImplementedError

    def _writable(self) -> Engine:
        raise NotImplementedError

    def _matrix_store(self) -> MatrixStore:
        self._open()
        return self._matrices.store

    def _step(self, *steps: Any) -> int:
        return self._writable().apply(Batch((), None, {DOMAIN: steps})).epoch

    def create_matrix(self, name: str, array: Any, static: bool = False) -> int:
        """Keep a matrix; one that is `static` never changes, and views of it have no triggers for it.

        The array is copied: a NumPy array, a nested list, or a PyTorch tensor, which stays on its device.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.create_matrix("A", [[1.0, 2.0], [0.0, 1.0]])
        ...     _ = db.create_matrix_view("square", "B := A A;")
        ...     _ = db.apply(A=ef.linalg.EntryUpdate(0, 1, 3.0))
        ...     db.view("square").to_numpy()
        array([[1., 6.],
               [0., 1.]])
        """
        from everfresh.linalg.nodes import Matrix as Symbol
        from everfresh.linalg.steps import CreateMatrix
        from everfresh.linalg.store import device_of

        with self._lock:
            engine = self._writable()
            _free_name(engine, name)
            Symbol(name, 1, 1)  # refuses what cannot be a name
            return self._step(CreateMatrix(name, array, static, device_of(array)))

    @property
    def matrices(self) -> Mapping[str, Matrix]:
        """All matrices by name."""
        with self._lock:
            self._open()
            return {name: Matrix(self, name) for name in self._matrices.matrices}

    @property
    def matrix_views(self) -> Mapping[str, LinearView]:
        """All matrix views by name."""
        with self._lock:
            self._open()
            return {name: LinearView(self, name) for name in self._matrices.views}  # type: ignore[arg-type]

    def matrix(self, name: str) -> Matrix:
        """The matrix called `name`."""
        with self._lock:
            self._matrix_store().expect_matrix(name)
        return Matrix(self, name)

    def create_matrix_view(
        self,
        name: str,
        program: Definition | Callable[..., Any],
        *,
        inputs: Mapping[str, str] | None = None,
        strategy: str = "auto",
        model: str = "auto",
        ranks: Mapping[str, int] | int = 1,
        options: ViewOptions | None = None,
    ) -> int:
        """Keep the results of a program over matrices; returns the epoch.

        `program` is a function under `everfresh.linalg.program`, a text such as `B := A A;`, or an analytic
        such as `everfresh.linalg.Ridge(0.1)`. Its inputs are the matrices of these names, or those that
        `inputs` names. `strategy`, `model` and `ranks` (of a usual update) are as for
        `everfresh.linalg.compile`.
        """
        from everfresh.linalg.setup import ViewOptions
        from everfresh.linalg.steps import CreateView
        from everfresh.linalg.trace import TracedProgram

        with self._lock:
            engine = self._writable()
            _free_name(engine, name)
            if callable(program) and not hasattr(program, "bind"):
                program = TracedProgram(program)
            text, bound = self._matrix_store().definition(program, inputs)  # type: ignore[arg-type]
            how = {
                "strategy": strategy,
                "model": model,
                "ranks": ranks if isinstance(ranks, int) else dict(ranks),
                **asdict(options or ViewOptions()),
            }
            return self._step(CreateView(name, text, bound, how))

    def _drop_matrix(self, name: str, cascade: bool = False) -> int:
        """Drop a matrix or a matrix view; with `cascade`, first the views that read a matrix."""
        from everfresh.linalg.steps import Drop

        with self._lock:
            store = self._matrix_store()
            readers = store.readers(name) if cascade and name in store.matrices else []
            return self._step(*map(Drop, readers), Drop(name))

    def _with_matrices(self, batch: Batch, updates: Mapping[str, Any]) -> Batch:
        """The batch with updates of matrices in it."""
        if not updates:
            return batch
        from everfresh.linalg.steps import Change, updates_of

        found = {}
        for name, given in updates.items():
            listed = updates_of(name, given)
            if listed is None:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"{type(given).__name__} is no update of a matrix",
                    place=f"matrix '{name}'",
                    hint="updates are LowRank, RowUpdate, ColumnUpdate, EntryUpdate, AppendRows, DeleteRows "
                    "of everfresh.linalg, or a list of them",
                )
            self._matrix_store().expect_matrix(name)
            found[name] = listed
        return replace(batch, steps={DOMAIN: [Change(found)]})


def _free_name(engine: Engine, name: str) -> None:
    if not isinstance(name, str):
        raise EverfreshError(Code.ARGUMENT, f"{name!r} cannot be a name", hint="use letters, digits and _")
    found = engine.catalog.relation(name)
    if found is not None:
        raise EverfreshError(
            Code.EXISTS, f"there is already a {found[0]} '{name}'", hint="choose another name"
        )


def _numpy(array: Any) -> np.ndarray[Any, Any]:
    from everfresh.linalg.backend import backend_of

    return backend_of(array).to_numpy(array)


def _only_now(name: str) -> EverfreshError:
    return EverfreshError(
        Code.UNSUPPORTED,
        f"'{name}' is a matrix view: it is read as arrays, as of now",
        hint=f'db.view("{name}").to_numpy()',
    )
