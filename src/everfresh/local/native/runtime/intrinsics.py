"""What the functions of `memory` are to the compiler: one or a few instructions each.

Only what compiles loads this module: `jit.Primitive` looks here for the function of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I1, _I8, _I32, _I64, _F64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()


def _at(builder: Any, address: Any, index: Any, of: Any) -> Any:
    return builder.gep(builder.inttoptr(address, ir.PointerType(of)), [index])


@intrinsic
def ld(_typing: Any, _address: Any, _index: Any) -> Any:
    """The 64-bit word `index` words behind `address`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_at(builder, args[0], args[1], _I64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def st(_typing: Any, _address: Any, _index: Any, _value: Any) -> Any:
    """Store a 64-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _at(builder, args[0], args[1], _I64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def ld32(_typing: Any, _address: Any, _index: Any) -> Any:
    """A signed 32-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.sext(builder.load(_at(builder, args[0], args[1], _I32)), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def st32(_typing: Any, _address: Any, _index: Any, _value: Any) -> Any:
    """Store the low half of a word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[2], _I32), _at(builder, args[0], args[1], _I32))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def ld8(_typing: Any, _address: Any, _index: Any) -> Any:
    """A byte."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_at(builder, args[0], args[1], _I8)), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def st8(_typing: Any, _address: Any, _index: Any, _value: Any) -> Any:
    """Store the lowest byte of a word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[2], _I8), _at(builder, args[0], args[1], _I8))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def ldf(_typing: Any, _address: Any, _index: Any) -> Any:
    """A double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_at(builder, args[0], args[1], _F64))

    return types.float64(types.int64, types.int64), codegen


@intrinsic
def stf(_typing: Any, _address: Any, _index: Any, _value: Any) -> Any:
    """Store a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _at(builder, args[0], args[1], _F64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), codegen


@intrinsic
def touch(_typing: Any, _address: Any, _index: Any) -> Any:
    """Ask the processor for the cache line of a word, without waiting for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(_at(builder, args[0], args[1], _I64), ir.PointerType(_I8))
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def as_float(_typing: Any, _word: Any) -> Any:
    """The double whose bits a word has."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _F64)

    return types.float64(types.int64), codegen


@intrinsic
def as_word(_typing: Any, _value: Any) -> Any:
    """The bits of a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), codegen


def _checked(name: str) -> Callable[..., Any]:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = ir.LiteralStructType([_I64, _I1])
        function_type = ir.FunctionType(pair, [_I64, _I64])
        function = cgutils.get_or_insert_function(
            builder.module, function_type, f"llvm.{name}.with.overflow.i64"
        )
        found = builder.call(function, args)
        value, flag = builder.extract_value(found, 0), builder.extract_value(found, 1)
        return context.make_tuple(builder, signature.return_type, [value, builder.zext(flag, _I64)])

    return codegen


_PAIR = types.UniTuple(types.int64, 2)


@intrinsic
def add_checked(_typing: Any, _a: Any, _b: Any) -> Any:
    """a + b, and 1 if it does not fit a word."""
    return _PAIR(types.int64, types.int64), _checked("sadd")


@intrinsic
def sub_checked(_typing: Any, _a: Any, _b: Any) -> Any:
    """a - b, and 1 if it does not fit a word."""
    return _PAIR(types.int64, types.int64), _checked("ssub")


@intrinsic
def mul_checked(_typing: Any, _a: Any, _b: Any) -> Any:
    """a * b, and 1 if it does not fit a word."""
    return _PAIR(types.int64, types.int64), _checked("smul")


@intrinsic
def ldu(_typing: Any, _address: Any) -> Any:
    """The 64-bit word at an address of any alignment, unsigned."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType(_I64)), align=1)

    return types.uint64(types.int64), codegen


@intrinsic
def ldf32(_typing: Any, _address: Any, _index: Any) -> Any:
    """A float of single precision, as a double."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.load(_at(builder, args[0], args[1], ir.FloatType())), _F64)

    return types.float64(types.int64, types.int64), codegen


@intrinsic
def prefetch(_typing: Any, array: Any, _at: Any) -> Any:
    """Ask the processor for the cache line of `array[at]`, without waiting for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), ir.PointerType(_I8))
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
