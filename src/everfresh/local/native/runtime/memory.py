"""Memory by address: loads and stores of words, checked arithmetic, prefetching.

Generated code passes addresses and not arrays: an array in a signature costs time at every call and at
compilation, and an index that may be negative costs a test. Whoever calls it holds the arrays alive and has
checked every bound.

The functions here are what Python does until a caller is compiled; in compiled code they are the instructions
that `intrinsics` has under the same names.
"""

from __future__ import annotations

import struct
from ctypes import c_double, c_float, c_int32, c_int64, c_uint8, c_uint64
from typing import Any

import numpy as np

from everfresh.local.jit.kernel import Primitive

_WORD = 1 << 64


@Primitive
def ld(address: int, index: int) -> int:
    """The 64-bit word `index` words behind `address`."""
    return c_int64.from_address(int(address) + 8 * int(index)).value


@Primitive
def st(address: int, index: int, value: int) -> None:
    """Store a 64-bit word."""
    c_int64.from_address(int(address) + 8 * int(index)).value = int(value)


@Primitive
def ld32(address: int, index: int) -> int:
    """A signed 32-bit word."""
    return c_int32.from_address(int(address) + 4 * int(index)).value


@Primitive
def st32(address: int, index: int, value: int) -> None:
    """Store the low half of a word."""
    c_int32.from_address(int(address) + 4 * int(index)).value = int(value)


@Primitive
def ld8(address: int, index: int) -> int:
    """A byte."""
    return c_uint8.from_address(int(address) + int(index)).value


@Primitive
def st8(address: int, index: int, value: int) -> None:
    """Store the lowest byte of a word."""
    c_uint8.from_address(int(address) + int(index)).value = int(value) & 0xFF


@Primitive
def ldf(address: int, index: int) -> float:
    """A double."""
    return c_double.from_address(int(address) + 8 * int(index)).value


@Primitive
def stf(address: int, index: int, value: float) -> None:
    """Store a double."""
    c_double.from_address(int(address) + 8 * int(index)).value = float(value)


@Primitive
def ldf32(address: int, index: int) -> float:
    """A float of single precision, as a double."""
    return c_float.from_address(int(address) + 4 * int(index)).value


@Primitive
def ldu(address: int) -> np.uint64:
    """The 64-bit word at an address of any alignment, unsigned."""
    return np.uint64(c_uint64.from_address(int(address)).value)


@Primitive
def touch(_address: int, _index: int) -> None:
    """Ask the processor for the cache line of a word, without waiting for it."""


@Primitive
def prefetch(_array: Any, _at: int) -> None:
    """Ask the processor for the cache line of `array[at]`, without waiting for it."""


@Primitive
def as_float(word: int) -> float:
    """The double whose bits a word has."""
    found: float = struct.unpack("<d", struct.pack("<q", word))[0]
    return found


@Primitive
def as_word(value: float) -> int:
    """The bits of a double."""
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found


def _wrapped(exact: int) -> tuple[int, int]:
    value = (exact + (_WORD >> 1)) % _WORD - (_WORD >> 1)
    return value, int(value != exact)


@Primitive
def add_checked(a: int, b: int) -> tuple[int, int]:
    """a + b, and 1 if it does not fit a word."""
    return _wrapped(int(a) + int(b))


@Primitive
def sub_checked(a: int, b: int) -> tuple[int, int]:
    """a - b, and 1 if it does not fit a word."""
    return _wrapped(int(a) - int(b))


@Primitive
def mul_checked(a: int, b: int) -> tuple[int, int]:
    """a * b, and 1 if it does not fit a word."""
    return _wrapped(int(a) * int(b))
