"""Array namespaces: NumPy always, PyTorch when the arrays are tensors (section 6.5).

Kernels elsewhere use operators, `.mT`, slicing and what is here, so they run on any namespace of the array
API standard that adds these few functions. Thin factors are kept so that their columns are contiguous: a
product with a large matrix is taken as `(x' M')'`, which BLAS runs up to six times faster than `M x` for
two to sixteen columns.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.kernels import blas, gpu
from everfresh.linalg.kernels import both_ways as kernels

Array = Any
_MERGED = 1 << 20  # entries that are updated at a time


class NumpyBackend:
    """NumPy arrays of doubles (or of another floating type, as given)."""

    name = "numpy"

    def __init__(self, threads: int = 0) -> None:
        self.threads = threads
        """Threads of a thin product; 0: as many as there may be."""

    def asarray(self, value: Any, like: Array | None = None) -> Array:
        """The value as an array of floats."""
        try:
            array = np.asarray(value)
        except ValueError as problem:  # rows of different lengths
            raise EverfreshError(Code.ARGUMENT, f"the values are no matrix: {problem}") from problem
        if array.dtype.kind not in "biuf":
            raise EverfreshError(Code.TYPE, f"a matrix of {array.dtype} has no numbers to compute with")
        if np.ma.is_masked(value):
            raise EverfreshError(
                Code.VALUE, "a matrix has a value everywhere, and some are masked", hint="array.filled(0)"
            )
        kind = like.dtype if like is not None else array.dtype
        if not np.issubdtype(kind, np.floating):
            kind = np.dtype(np.float64)
        with np.errstate(over="ignore"):  # what becomes infinite is refused as such
            return array.astype(kind, copy=False)

    def zeros(self, rows: int, columns: int, like: Array) -> Array:
        """Zeros, columns contiguous when there are few of them."""
        return np.zeros((rows, columns), like.dtype, "F" if columns < rows else "C")

    def eye(self, n: int, like: Array) -> Array:
        """The identity."""
        return np.eye(n, dtype=like.dtype)

    def concat(self, parts: list[Array], axis: int) -> Array:
        """Blocks in one array; side by side, their columns stay contiguous."""
        return np.concatenate([p.T for p in parts], axis=0).T if axis else np.concatenate(parts, axis=0)

    def thin(self, matrix: Array, x: Array, turned: bool = False) -> Array:
        """A large matrix (or its transpose) times a few columns."""
        width = x.shape[1]
        if kernels.pays(matrix, 0 if turned else width, width if turned else 0):
            ahead, back = kernels.both(matrix, None if turned else x, x if turned else None, self.threads)
            return back if turned else ahead
        if matrix.size < kernels.SHARE:
            return (x.T @ (matrix if turned else matrix.T)).T
        with blas.threaded():
            return (x.T @ (matrix if turned else matrix.T)).T

    def calm(self, largest: int) -> AbstractContextManager[None]:
        """While thin products with matrices of so many entries run: processors are left to our threads."""
        return blas.calm(kernels.share(largest, self.threads) > 1)

    def both(self, matrix: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """A large matrix times a few columns and its transpose times others, in one pass where that pays."""
        if kernels.pays(matrix, x.shape[1], y.shape[1]):
            return kernels.both(matrix, x, y, self.threads)
        return self.thin(matrix, x), self.thin(matrix, y, True)

    def add_product(self, target: Array, left: Array, right: Array) -> None:
        """`target += left right'` in place, block by block."""
        rows = max(1, _MERGED // max(1, target.shape[1]))
        turned = right.T
        for start in range(0, target.shape[0], rows):
            target[start : start + rows] += left[start : start + rows] @ turned

    def shifted(self, target: Array, base: Array, left: Array, right: Array) -> None:
        """`target` becomes `base + left right'`."""
        if kernels.adding_pays(base, left.shape[1]) and target.flags.c_contiguous:
            kernels.shifted(base, left, right, target)
        else:
            np.matmul(left, right.T, out=target)
            target += base

    def columns(self, x: Array) -> Array:
        """The array with contiguous columns."""
        return np.asfortranarray(x)

    def inv(self, x: Array) -> Array:
        """The inverse; `EverfreshError` if there is none."""
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            raise _singular(x) from None

    def norm1(self, x: Array) -> float:
        """The largest sum of a column's sizes."""
        return float(np.linalg.norm(x, 1)) if x.size else 0.0

    def norm(self, x: Array) -> float:
        """The Frobenius norm."""
        return float(np.linalg.norm(x))

    def finite(self, x: Array) -> bool:
        """Whether no entry is infinite or NaN."""
        return bool(np.isfinite(x).all())

    def qr(self, x: Array) -> tuple[Array, Array]:
        """Orthonormal columns and the triangle."""
        q, r = np.linalg.qr(x)
        return q, r

    def svd(self, x: Array) -> tuple[Array, Array, Array]:
        """The thin singular value decomposition."""
        u, s, vt = np.linalg.svd(x, full_matrices=False)
        return u, s, vt

    def copy(self, x: Array) -> Array:
        """An independent copy with contiguous rows."""
        return np.array(x, order="C")

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        """A NumPy array of the same values."""
        return np.asarray(x)

    def index(self, positions: Any, like: Array) -> Any:
        """Positions as this namespace indexes with."""
        return np.asarray(positions, dtype=np.intp)

    def floats(self, values: list[Any]) -> list[float]:
        """Scalars of this namespace as numbers."""
        return [float(value) for value in values]


class TorchBackend:
    """PyTorch tensors, on the device they are on."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch

    def asarray(self, value: Any, like: Array | None = None) -> Array:
        """The value as a tensor of floats."""
        torch = self.torch
        tensor = value if torch.is_tensor(value) else torch.from_numpy(NumpyBackend().asarray(value).copy())
        if tensor.is_complex():
            raise EverfreshError(Code.TYPE, f"a matrix of {tensor.dtype} has no numbers to compute with")
        if like is not None:
            return tensor.to(device=like.device, dtype=like.dtype)
        return tensor if tensor.is_floating_point() else tensor.to(torch.float64)

    def zeros(self, rows: int, columns: int, like: Array) -> Array:
        """Zeros, columns contiguous when there are few of them."""
        if columns < rows:
            return self.torch.zeros((columns, rows), dtype=like.dtype, device=like.device).T
        return self.torch.zeros((rows, columns), dtype=like.dtype, device=like.device)

    def eye(self, n: int, like: Array) -> Array:
        """The identity."""
        return self.torch.eye(n, dtype=like.dtype, device=like.device)

    def concat(self, parts: list[Array], axis: int) -> Array:
        """Blocks in one tensor; side by side, their columns stay contiguous."""
        return self.torch.cat([p.T for p in parts], 0).T if axis else self.torch.cat(parts, 0)

    def thin(self, matrix: Array, x: Array, turned: bool = False) -> Array:
        """A large matrix (or its transpose) times a few columns."""
        return (x.T @ (matrix if turned else matrix.T)).T

    def calm(self, largest: int) -> AbstractContextManager[None]:
        """Nothing: its threads are PyTorch's own."""
        return nullcontext()

    def both(self, matrix: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """A large matrix times a few columns, and its transpose times others, in one pass where that pays."""
        if gpu.pays(matrix, max(x.shape[1], y.shape[1])):
            return gpu.both(matrix, x, y)
        return self.thin(matrix, x), self.thin(matrix, y, True)

    def add_product(self, target: Array, left: Array, right: Array) -> None:
        """`target += left right'` in place."""
        target.addmm_(left, right.T)

    def shifted(self, target: Array, base: Array, left: Array, right: Array) -> None:
        """`target` becomes `base + left right'`."""
        self.torch.addmm(base, left, right.T, out=target)

    def columns(self, x: Array) -> Array:
        """The tensor with contiguous columns."""
        return x.T.contiguous().T

    def inv(self, x: Array) -> Array:
        """The inverse; `EverfreshError` if there is none."""
        try:
            return self.torch.linalg.inv(x)
        except RuntimeError:  # torch.linalg.LinAlgError is one
            raise _singular(x) from None

    def norm1(self, x: Array) -> float:
        """The largest sum of a column's sizes."""
        return float(x.abs().sum(0).max()) if x.numel() else 0.0

    def norm(self, x: Array) -> float:
        """The Frobenius norm."""
        return float(self.torch.linalg.vector_norm(x))

    def finite(self, x: Array) -> bool:
        """Whether no entry is infinite or NaN."""
        return bool(self.torch.isfinite(x).all())

    def qr(self, x: Array) -> tuple[Array, Array]:
        """Orthonormal columns and the triangle."""
        q, r = self.torch.linalg.qr(x)
        return q, r

    def svd(self, x: Array) -> tuple[Array, Array, Array]:
        """The thin singular value decomposition."""
        u, s, vt = self.torch.linalg.svd(x, full_matrices=False)
        return u, s, vt

    def copy(self, x: Array) -> Array:
        """An independent copy with contiguous rows."""
        return self.torch.clone(x, memory_format=self.torch.contiguous_format)

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        """A NumPy array of the same values."""
        return x.detach().cpu().numpy()  # type: ignore[no-any-return]

    def index(self, positions: Any, like: Array) -> Any:
        """Positions as this namespace indexes with."""
        return self.torch.as_tensor(np.asarray(positions, dtype=np.int64), device=like.device)

    def floats(self, values: list[Any]) -> list[float]:
        """Scalars of this namespace as numbers: one wait for the device."""
        return (
            [float(x) for x in self.torch.stack([v.to(self.torch.float64) for v in values]).tolist()]
            if values
            else []
        )


def _singular(x: Array) -> EverfreshError:
    return EverfreshError(
        Code.VALUE,
        f"a matrix of {x.shape[0]} x {x.shape[1]} that has to be inverted is singular",
        hint="the update is refused; add a multiple of the identity (ridge) if the data are like that",
    )


Backend = NumpyBackend | TorchBackend
_NUMPY = NumpyBackend()


def backend_of(*arrays: Any) -> Backend:
    """The backend of some arrays: PyTorch if one of them is a tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and any(torch.is_tensor(a) for a in arrays):
        return TorchBackend()
    return _NUMPY
