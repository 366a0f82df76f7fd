"""What a user holds of matrices: a matrix, and a matrix view. Reading waits for no batch of other domains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.domain.past import ROW
from everfresh.linalg.kernels.backend import backend_of
from everfresh.relations import View
from everfresh.types import DOUBLE, Column

if TYPE_CHECKING:
    import numpy as np

    from everfresh.database import Database
    from everfresh.linalg.domain.matrices import Matrices
    from everfresh.linalg.domain.store import MatrixStore
    from everfresh.linalg.run.view import MatrixView


@contextmanager
def looking(db: Database, domain: Matrices) -> Iterator[MatrixStore]:
    """The matrices of an open database, while nobody changes them."""
    db._current()
    with domain.lock:
        yield domain.store


class Matrix:
    """A matrix of a database."""

    def __init__(self, db: Database, domain: Matrices, name: str) -> None:
        self._db, self._domain = db, domain
        self.name = name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        with self._look() as store:
            return store.shape(self.name)

    @property
    def static(self) -> bool:
        """Whether it never changes."""
        with self._look() as store:
            return store.expect_matrix(self.name).static

    @property
    def keys(self) -> pa.Table | None:
        """The keys of its rows, if it follows columns of a table or view (`everfresh.linalg.columns`)."""
        with self._look() as store:
            followed = store.followed.get(self.name)
            return followed.key_table() if followed is not None else None

    def _look(self) -> AbstractContextManager[MatrixStore]:
        return looking(self._db, self._domain)

    def read(self) -> Any:
        """The matrix as an array of the kind it was given as."""
        with self._look() as store:
            return store.array(self.name)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The matrix as a NumPy array of the caller's own."""
        return _numpy(self.read())

    def drop(self) -> int:
        """Remove it; refused while a view reads it."""
        return self._db._drop(self.name)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<matrix {self.name}, {rows} x {columns}{', static' if self.static else ''}>"


class LinearView(View):
    """A matrix view: always equal to its program over its matrices, up to rounding.

    `view.to_numpy()` is its (first) output, `view["beta"]` one by name. As rows, in `changes` and at earlier
    epochs, it is its first output: columns c0, c1, ...; changes also say which row.
    """

    kind = "matrix view"

    def __init__(self, db: Database, domain: Matrices, name: str) -> None:
        super().__init__(db, name)
        self._domain = domain

    @contextmanager
    def _held(self) -> Iterator[MatrixView]:
        with looking(self._db, self._domain) as store:
            yield store.expect_view(self.name)

    def _check(self, catalog: Any) -> None:
        self._domain.store.expect_view(self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the first output."""
        with self._held() as held:
            return tuple(Column(f"c{j}", DOUBLE, False) for j in range(held.shape(held.outputs[0])[1]))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        with self._held() as held:
            return held.outputs

    def read(self, name: str | None = None) -> Any:
        """An output, or another matrix that the view keeps, as an array of the kind of its inputs."""
        with self._held() as held:
            return held.read(name)

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
        with self._held() as held:
            return held.drift

    def _read(self, at: int | None) -> pa.Table:
        return super()._read(at).drop_columns([ROW])

    def explain(self, format: str = "text", distributed: bool = False) -> str:
        """The triggers with their cost in big-O and in flops, and how the view is doing; where its blocks
        are is said in any case."""
        self._db._current()
        return self._domain.explain(self.name, format)

    def drop(self) -> int:
        """Remove the view; its matrices stay, but those that were made for it from columns of relations."""
        return self._db._drop(self.name)

    def __len__(self) -> int:
        return int(self.to_numpy().shape[0])

    def __repr__(self) -> str:
        with self._held() as held:
            shapes = ", ".join(f"{n} {' x '.join(map(str, held.shape(n)))}" for n in held.outputs)
        return f"<matrix view {self.name}: {shapes}>"

    def _repr_html_(self) -> str:
        return f"<code>{repr(self).replace('<', '&lt;')}</code>"


def _numpy(array: Any) -> np.ndarray[Any, Any]:
    return backend_of(array).to_numpy(array)


def check_name(name: Any) -> None:
    """Refuse what is no name."""
    if not isinstance(name, str):
        raise EverfreshError(Code.ARGUMENT, f"{name!r} cannot be a name", hint="use letters, digits and _")
