"""Arrow's memory by address, for kernels: the words of an `ArrowArray`, and loads that only they need."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

NULLS, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6
"""The words of an `ArrowArray` of the C data interface."""


@intrinsic
def ldu(_typing: Any, _address: Any) -> Any:
    """The 64-bit word at an address of any alignment, unsigned."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(64))), align=1)

    return types.uint64(types.int64), codegen


@intrinsic
def ldf32(_typing: Any, _address: Any, _index: Any) -> Any:
    """A float of single precision, as a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.inttoptr(args[0], ir.PointerType(ir.FloatType()))
        return builder.fpext(builder.load(builder.gep(start, [args[1]])), ir.DoubleType())

    return types.float64(types.int64, types.int64), codegen
