"""The larger functions of `indexes`, called by address from generated code.

A compiled function contains all that it calls, compiled anew; these are compiled once and kept on disk
(`build.index_calls`), and an index's block of words says where they are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from everfresh.local.native.runtime.memory import ld

_I64 = ir.IntType(64)


def _calling(count: int) -> Any:
    """An intrinsic that calls the function at an address with so many words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = ir.FunctionType(_I64, [_I64] * count)
        return builder.call(builder.inttoptr(args[0], ir.PointerType(function)), args[1:])

    return types.int64(*([types.int64] * (count + 1))), codegen


@intrinsic
def _call2(_typing: Any, _address: Any, _a: Any, _b: Any) -> Any:
    return _calling(2)


@intrinsic
def _call3(_typing: Any, _address: Any, _a: Any, _b: Any, _c: Any) -> Any:
    return _calling(3)


@intrinsic
def _call4(_typing: Any, _address: Any, _a: Any, _b: Any, _c: Any, _d: Any) -> Any:
    return _calling(4)


@njit(forceinline=True)
def edge(index: int, length: int, after: int) -> int:
    """See `indexes`."""
    return int(_call3(ld(index, 18), index, length, after))


@njit(forceinline=True)
def sum_before(index: int, place: int, row: int, wide: int) -> int:
    """See `indexes`."""
    return int(_call4(ld(index, 19), index, place, row, wide))


@njit(forceinline=True)
def reaches(index: int, row: int, wide: int, value: int) -> int:
    """See `indexes`."""
    return int(_call4(ld(index, 20), index, row, wide, value))


@njit(forceinline=True)
def ranked(index: int, rank: int) -> int:
    """See `indexes`."""
    return int(_call2(ld(index, 21), index, rank))


@njit(forceinline=True)
def put(index: int, slot: int) -> int:
    """See `indexes`."""
    return int(_call2(ld(index, 22), index, slot))


@njit(forceinline=True)
def note_edge(index: int, count: int, place: int, weight: int) -> int:
    """See `indexes`."""
    return int(_call4(ld(index, 23), index, count, place, weight))
