"""LIKE of interned strings where they lie: the fast twin of `expr` for patterns of plain text and `%`.

A pattern is cut at each `%`. A string matches if it begins with the first piece, ends with the last, and has
the others between them, one after the other: the leftmost place of each leaves most for those behind it.
Bytes are compared, since one text of UTF-8 is inside another exactly where its bytes are. Patterns with `_`
or an escape character are left to `expr`.

Invariant: `matched` gives what the evaluation of the call would, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from everfresh.expr import Call, Const, Expr, Var
from everfresh.local.interpret.frame_columns import Cells
from everfresh.local.jit.kernel import njit

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def matched(expr: Expr, columns: Mapping[str, Cells]) -> Cells | None:
    """LIKE of one of these columns; None if it is something else, or a pattern that is left to `expr`.

    >>> from everfresh.local.store.strings import Interner
    >>> from everfresh.types import VARCHAR
    >>> interner = Interner()
    >>> texts = Cells(VARCHAR, interner, (interner.intern_list(["ab", "a-b-c", "ba"]),), None)
    >>> like = Call("like", (Var("x", VARCHAR), Const("a%b%", VARCHAR)))
    >>> matched(like, {"x": texts}).words[0].tolist()
    [1, 1, 0]
    """
    match expr:
        case Call("like", (Var(name), Const(str() as pattern))) if "_" not in pattern and name in columns:
            cells = columns[name]
            codes = np.ascontiguousarray(cells.words[0])
            out = np.empty(len(codes), np.int64)
            _match(*cells.interner.bytes, codes, *_pieces(pattern), out)
            return Cells(expr.type, cells.interner, (out,), cells.valid)
    return None


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[Bytes, Ints]:
    """The bytes of the pieces of a pattern, and where each ends among them."""
    pieces = [piece.encode() for piece in pattern.split("%")]
    data = np.frombuffer(bytearray(b"".join(pieces) or b"\0"), np.uint8)
    return data, np.cumsum([len(piece) for piece in pieces], dtype=np.int64)


@njit(forceinline=True, cache=True)
def _has(heap: Bytes, at: int, pieces: Bytes, begin: int, end: int) -> bool:
    for j in range(end - begin):  # noqa: SIM110 - Numba compiles the loop better than all()
        if heap[at + j] != pieces[begin + j]:
            return False
    return True


@njit(cache=True)
def _match(heap: Bytes, bounds: Ints, codes: Ints, pieces: Bytes, ends: Ints, out: Ints) -> None:
    """Whether the strings of codes match a pattern; no for NULL."""
    last = ends.size - 1
    tail = ends[last] - (ends[last - 1] if last else 0)
    for i in range(codes.size):
        out[i] = 0
        if codes[i] == 0:
            continue
        at, stop = bounds[2 * codes[i]], bounds[2 * codes[i] + 1] - tail  # where what is between may lie
        if last == 0:
            out[i] = at == stop and _has(heap, at, pieces, 0, tail)
            continue
        if stop - at < ends[0] or not _has(heap, at, pieces, 0, ends[0]):
            continue
        if not _has(heap, stop, pieces, ends[last - 1], ends[last]):
            continue
        at += ends[0]
        found = True
        for k in range(1, last):
            begin, end = ends[k - 1], ends[k]
            while at + end - begin <= stop and not _has(heap, at, pieces, begin, end):
                at += 1
            at += end - begin
            if at > stop:
                found = False
                break
        out[i] = found
