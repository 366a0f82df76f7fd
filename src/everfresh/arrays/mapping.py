"""Mappings from the cells of one array to the indices of another (the paper on similarity joins, section 3).

A mapping gives an index in each dimension of the right array for a cell of the left one. `Affine` covers the
identity, subsets and permutations of dimensions, scaling, shifting and mirroring; it carries boxes to boxes,
so chunks are found by their corners. `Function` is any function in a module, found again by its name wherever
a plan is run; where its cells go is only known cell by cell, unless it is registered as keeping order.

Invariant: `image` of a box holds the image of every cell of the box; `parse_mapping(str(m)) == m`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everfresh.epochs.functions import known_function
from everfresh.errors import Code, EverfreshError
from everfresh.expr.tokens import TokenStream
from everfresh.rewrite import Node, node

_MOST = 1 << 62

Ints = NDArray[np.int64]
Boxes = tuple[Ints, Ints]
"""The least and the greatest indices of boxes; a row for each dimension, a column for each box."""


class Mapping(Node):
    """From `inputs` dimensions to `outputs` dimensions."""

    @property
    def inputs(self) -> int:
        """How many dimensions the left array has, at least."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        """How many dimensions the right array has."""
        raise NotImplementedError

    @property
    def keeps_order(self) -> bool:
        """Whether the corners of a box tell where the box goes."""
        raise NotImplementedError

    def cells(self, coords: Ints) -> Ints:
        """Where cells go; a row for each dimension, a column for each cell."""
        raise NotImplementedError

    def image(self, lo: Ints, hi: Ints) -> Boxes:
        """Boxes that hold the images of boxes."""
        raise NotImplementedError


@node
class Affine(Mapping):
    """Right dimension k is `a * left[d] + b`, for term k = (d, a, b).

    >>> print(Affine(((1, 1, 0), (0, -2, 5))))
    (x1, -2*x0 + 5)
    """

    terms: tuple[tuple[int, int, int], ...]

    def check(self) -> None:
        """As in `Node`."""
        if not self.terms or any(d < 0 for d, _, _ in self.terms):
            raise EverfreshError(
                Code.ARGUMENT,
                "a mapping names a left dimension for each right dimension",
                hint="Affine(((0, 1, 0),)) maps the first dimension",
            )

    @property
    def inputs(self) -> int:
        """As in `Mapping`."""
        return max(d + 1 for d, _, _ in self.terms)

    @property
    def outputs(self) -> int:
        """As in `Mapping`."""
        return len(self.terms)

    @property
    def keeps_order(self) -> bool:
        """As in `Mapping`."""
        return True

    @property
    def is_identity(self) -> bool:
        """Whether cells stay where they are."""
        return self.terms == tuple((k, 1, 0) for k in range(self.inputs))

    def _columns(self) -> tuple[Ints, Ints, Ints]:
        d, a, b = (np.array(column, np.int64) for column in zip(*self.terms, strict=True))
        return d, a[:, None], b[:, None]

    def cells(self, coords: Ints) -> Ints:
        """As in `Mapping`."""
        if self.is_identity and len(coords) == self.outputs:
            return coords
        d, a, b = self._columns()
        farthest = max(-int(coords.min()), int(coords.max()), 0) if coords.size else 0
        if any(abs(factor) * farthest + abs(shift) >= _MOST for _, factor, shift in self.terms):
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the mapping {self} leaves the range of 62 bits",
                hint="scale the coordinates down",
            )
        found: Ints = coords[d] * a + b
        return found

    def image(self, lo: Ints, hi: Ints) -> Boxes:
        """As in `Mapping`."""
        one, other = self.cells(lo), self.cells(hi)
        return np.minimum(one, other), np.maximum(one, other)

    def __str__(self) -> str:
        return "(" + ", ".join(_term(*term) for term in self.terms) + ")"


def _term(d: int, a: int, b: int) -> str:
    factor = "" if a == 1 else f"{a}*"
    shift = "" if b == 0 else f" + {b}" if b > 0 else f" - {-b}"
    return f"{factor}x{d}{shift}"


def identity(ndim: int) -> Affine:
    """Every cell to the cell with the same indices.

    >>> identity(2).is_identity, print(identity(2))
    (x0, x1)
    (True, None)
    """
    return Affine(tuple((k, 1, 0) for k in range(ndim)))


def dimensions(*chosen: int) -> Affine:
    """A subset or a permutation of the left dimensions: Example 2 of the paper is `dimensions(1)`."""
    return Affine(tuple((d, 1, 0) for d in chosen))


@node
class Function(Mapping):
    """A registered function of a module: takes and gives indices, a row for each dimension."""

    module: str
    name: str
    left: int
    right: int
    ordered: bool = False

    def check(self) -> None:
        """As in `Node`: the function is found."""
        object.__setattr__(self, "_function", _found(self.module, self.name))

    @property
    def inputs(self) -> int:
        """As in `Mapping`."""
        return self.left

    @property
    def outputs(self) -> int:
        """As in `Mapping`."""
        return self.right

    @property
    def keeps_order(self) -> bool:
        """As in `Mapping`."""
        return self.ordered

    def cells(self, coords: Ints) -> Ints:
        """As in `Mapping`."""
        try:
            found = np.asarray(self._function(coords.copy()))  # type: ignore[attr-defined]
        except EverfreshError:
            raise
        except Exception as error:
            raise EverfreshError(
                Code.VALUE,
                f"the mapping {self} failed: {type(error).__name__}: {error}",
                hint="it is given an array with a row of indices for each left dimension",
            ) from error
        if found.shape != (self.right, coords.shape[1]) or found.dtype.kind not in "iu":
            raise EverfreshError(
                Code.VALUE,
                f"the mapping {self} gave {found.dtype} of shape {found.shape}",
                hint=f"whole numbers of shape {(self.right, coords.shape[1])} are needed",
            )
        return np.ascontiguousarray(found, np.int64)

    def image(self, lo: Ints, hi: Ints) -> Boxes:
        """As in `Mapping`; each index given rises or falls with each index taken."""
        if not self.ordered:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"where the mapping {self} carries a box is not known from its corners",
                hint="give ordered=True if each index it gives only rises, or only falls, with each it takes",
            )
        sides = np.stack([lo, hi])
        corners = [
            self.cells(np.stack([sides[(corner >> k) & 1, k] for k in range(len(lo))]))
            for corner in range(1 << len(lo))
        ]
        return np.minimum.reduce(corners), np.maximum.reduce(corners)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}/{self.left}/{self.right}" + ("/ordered" if self.ordered else "")


def _found(module: str, name: str) -> Callable[[Ints], Any]:
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no function '{name}' in module '{module}': {error}",
            hint="a mapping is a function at the top of a module that can be imported where plans run",
        ) from None
    if not callable(found):
        raise EverfreshError(Code.TYPE, f"'{name}' of module '{module}' is no function")
    function: Callable[[Ints], Any] = found
    return function


def function(of: Callable[[Ints], Any], left: int, right: int, *, ordered: bool = False) -> Function:
    """A mapping by a function of a module, from `left` to `right` dimensions; `ordered` promises that each
    index it gives only rises, or only falls, with each index it takes.

    >>> function(lambda x: x, 1, 1)
    Traceback (most recent call last):
        ...
    everfresh.errors.EverfreshError: '<lambda>' cannot be imported from 'everfresh.arrays.mapping'
      hint: define the function at the top of a module
    """
    module, name = getattr(of, "__module__", ""), getattr(of, "__qualname__", "")
    if not name.isidentifier() or module == "__main__":
        raise EverfreshError(
            Code.ARGUMENT,
            f"'{name}' cannot be imported from '{module}'",
            hint="define the function at the top of a module",
        )
    made = Function(module, name, left, right, ordered)
    if _found(module, name) is not of:
        raise EverfreshError(Code.ARGUMENT, f"'{name}' of module '{module}' is another function")
    return made


def parse_mapping(text: str) -> Mapping:
    """The inverse of `str(mapping)`; no text makes a module run: functions are found in those that are there.

    >>> print(parse_mapping("(x1, -2*x0 + 5)"))
    (x1, -2*x0 + 5)
    """
    if "/" in text:
        where, left, right, *ordered = text.split("/")
        module, _, name = where.partition(":")
        if known_function(module, name) is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no function '{name}' in a module '{module}' that was imported",
                hint=f"import the module '{module}' first: a text never does",
            )
        return Function(module, name, int(left), int(right), bool(ordered))
    stream = TokenStream(text)
    stream.expect("(")
    terms = stream.listed(lambda: _read_term(stream), ")")
    stream.end()
    return Affine(tuple(terms))


def _read_term(stream: TokenStream) -> tuple[int, int, int]:
    factor = 1
    if stream.peek().kind == "number" or stream.at("-"):
        factor = stream.integer()
        stream.expect("*")
    name = stream.name()
    if not (name[:1] == "x" and name[1:].isdigit()):
        raise stream.error("x0, x1, ... is expected")
    shift = 0
    if stream.accept("+"):
        shift = stream.integer()
    elif stream.accept("-"):
        shift = -stream.integer()
    return int(name[1:]), factor, shift


def check_mapping(mapping: Mapping, left: int, right: int) -> None:
    """Raise unless it maps from `left` to `right` dimensions."""
    if mapping.inputs > left or mapping.outputs != right:
        raise EverfreshError(
            Code.ARGUMENT,
            f"the mapping {mapping} is from {mapping.inputs} to {mapping.outputs} dimensions, "
            f"the arrays have {left} and {right}",
            hint="every dimension of the right array needs one of the left array",
        )


def reduced(
    mapping: Mapping, bounds: Sequence[tuple[int | None, int | None]], left: Boxes, right: Boxes
) -> Boxes | None:
    """The part of the left box from which the right box can be reached, in the dimensions that are mapped
    one to one: the reduced range of Example 2. None if nothing can.

    >>> box = lambda *x: np.array(x, np.int64)
    >>> lo, hi = reduced(dimensions(1), [(0, 1)], (box(1, 1), box(4, 4)), (box(1), box(3)))
    >>> lo.tolist(), hi.tolist()
    ([1, 1], [4, 3])
    """
    lo, hi = left[0].copy(), left[1].copy()
    if isinstance(mapping, Affine):
        for k, (d, a, b) in enumerate(mapping.terms):
            first, last = bounds[k]
            if first is None or last is None or a == 0:
                continue
            least, most = int(right[0][k]) - last - b, int(right[1][k]) - first - b
            if a < 0:
                least, most = -most, -least
            lo[d] = max(int(lo[d]), -(-least // abs(a)))
            hi[d] = min(int(hi[d]), most // abs(a))
    return (lo, hi) if (lo <= hi).all() else None
