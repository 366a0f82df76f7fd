"""Generated code run by Python itself, and states compared entry by entry.

`plain` runs the text of a generated function, and the helpers that it calls, without a compiler: words are
read and written where they lie. It makes thousands of small functions cheap to try; that the compiler does
the same with them is tried on some.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everfresh as ef
from everfresh.algebra import Kind
from everfresh.local.kernels import primitives
from everfresh.local.native.runtime import helpers, indexes
from everfresh.local.store.components import float_total, wide_to_python
from everfresh.local.store.entries import EntryStore

_MASK = (1 << 64) - 1


def _signed(x: int) -> int:
    x &= _MASK
    return x - (1 << 64) if x >> 63 else x


class _Unsigned(int):
    """A word without a sign, which wraps around."""

    def __new__(cls, x: int) -> _Unsigned:
        return super().__new__(cls, int(x) & _MASK)

    def __add__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) + int(other))

    def __sub__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) - int(other))

    def __and__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) & int(other))

    def __or__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) | int(other))

    def __lshift__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) << int(other))

    def __mul__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) * int(other))

    def __xor__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) ^ int(other))

    def __rshift__(self, other: int) -> _Unsigned:
        return _Unsigned(int(self) >> int(other))


def _njit(*args: Any, **_: Any) -> Any:
    return args[0] if args and callable(args[0]) else lambda function: function


def _checked(op: Callable[[int, int], int]) -> Callable[[int, int], tuple[int, int]]:
    def run(a: int, b: int) -> tuple[int, int]:
        exact = op(a, b)
        return _signed(exact), int(_signed(exact) != exact)

    return run


def _float(value: float) -> float:
    return float(value)


class _Float(float):
    """A double whose division by zero is that of the processor."""

    def __truediv__(self, other: float) -> float:
        with np.errstate(all="ignore"):
            return float(np.float64(self) / np.float64(other))


_WORDS: dict[str, Any] = {
    "ld": lambda p, i: ctypes.c_int64.from_address(p + 8 * i).value,
    "st": lambda p, i, v: setattr(ctypes.c_int64.from_address(p + 8 * i), "value", v),
    "ld32": lambda p, i: ctypes.c_int32.from_address(p + 4 * i).value,
    "st32": lambda p, i, v: setattr(ctypes.c_int32.from_address(p + 4 * i), "value", v),
    "ld8": lambda p, i: ctypes.c_uint8.from_address(p + i).value,
    "st8": lambda p, i, v: setattr(ctypes.c_uint8.from_address(p + i), "value", v),
    "ldf": lambda p, i: ctypes.c_double.from_address(p + 8 * i).value,
    "stf": lambda p, i, v: setattr(ctypes.c_double.from_address(p + 8 * i), "value", v),
    "touch": lambda p, i: None,
    "as_float": lambda w: _Float(struct.unpack("<d", struct.pack("<q", w))[0]),
    "as_word": lambda x: struct.unpack("<q", struct.pack("<d", x))[0],
    "add_checked": _checked(lambda a, b: a + b),
    "sub_checked": _checked(lambda a, b: a - b),
    "mul_checked": _checked(lambda a, b: a * b),
}
_NUMPY = types.SimpleNamespace(
    uint64=_Unsigned, int64=lambda x: _signed(int(x)), float64=_Float, inf=math.inf, nan=math.nan
)
_IMPORTS = re.compile(r"^(from|import) (?!math)[^\n(]*(\([^)]*\))?\n", re.MULTILINE)


def _run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    names = {"njit": _njit, "np": _NUMPY, **_WORDS, **names}
    exec(compile(_IMPORTS.sub("", text), "generated", "exec"), names)
    return names


_HELPERS: dict[str, Any] = {}
for _module in (primitives, helpers, indexes):
    _HELPERS |= _run(Path(_module.__file__).read_text(), _HELPERS)


def plain(text: str, entry: str = "run") -> Callable[[int, int, int], int]:
    """A function of a generated text, run by Python."""
    made = _run(text, {k: v for k, v in _HELPERS.items() if isinstance(v, types.FunctionType)})
    found: Callable[[int, int, int], int] = made[entry]
    return found


@contextmanager
def run_plain() -> Iterator[None]:
    """Within it no compiler is called."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everfresh.local.native.runtime.build.build", plain)
        patch.setattr("everfresh.local.native.runtime.build.index_calls", lambda: (0,) * 6)
        yield


# -- databases ---------------------------------------------------------------------------------------------


def opened(how: str, small: int | None = None, **options: Any) -> ef.Database:
    """A database that compiles now, or not at all; with `small` rows at most run by row."""
    db = ef.connect(engine="local", options=ef.Options(compile=how, **options))
    if small is not None:
        state = db._engine._state  # type: ignore[attr-defined]
        make = state._wired

        def wired(*args: Any) -> Any:
            wiring = make(*args)
            if wiring.native is not None:
                wiring.native.small = small
            return wiring

        state._wired = wired
    return db


def forms(db: ef.Database) -> list[Any]:
    """The compiled forms that are ready."""
    native = db._engine._state.wiring.native  # type: ignore[attr-defined]
    return [form for planned in native.planned.values() for form in planned.forms if form.runner is not None]


def entries(db: ef.Database) -> dict[str, Counter[str]]:
    """All entries of all maps, with exact values."""
    return {name: _entries(store) for name, store in db._engine._state.stores().items()}  # type: ignore[attr-defined]


def _entries(store: EntryStore) -> Counter[str]:
    slots = store.pool.live()
    rows = store.codec.decode(store.pool.keys_at(slots)).to_pylist() or [{}] * len(slots)
    values = store.pool.gather(slots)
    columns: list[list[Any]] = [values.n.tolist()]
    for kind, at in zip(store.layout.kinds, store.layout.offsets, strict=True):
        if kind == Kind.FLOAT:
            columns.append(float_total(np.ascontiguousarray(values.floats[at : at + 3])).tolist())
        elif kind == Kind.WIDE:
            columns.append(wide_to_python(values.ints[at], values.ints[at + 1]))
        else:
            columns.append(values.ints[at].tolist())
    return Counter(repr((row, *cells)) for row, *cells in zip(rows, *columns, strict=True))


def slices_hold(db: ef.Database) -> None:
    """Every slice holds exactly the live entries of its map, each where its key says."""
    for store in db._engine._state.stores().values():  # type: ignore[attr-defined]
        slots = store.pool.live()
        for slice_ in store._slices.values():
            words = store.codec.project(store.words(slots), slice_.codec)
            at, found = slice_.probe(words)
            own = {(i, slot) for i, slot in zip(at.tolist(), found.tolist(), strict=True)}
            assert all((i, slot) in own for i, slot in enumerate(slots.tolist()))
            assert set(found.tolist()) == set(slots.tolist())
