"""Kernels: loops that run by Python until their compiled form is there, and by that from then on.

A kernel is written once, as a function that Numba compiles. Compiling one takes a second, loading what was
compiled before some milliseconds, and neither may hold up a batch: so it has a *twin* that gives the same
results without a compiler, and whoever calls it does not learn which of the two ran. The twin is the function
itself; where a loop over rows in Python would be slow, one over whole arrays takes its place (`plain`).

Kernels are compiled in a process of its own and loaded by a thread (`background`). A call waits for neither,
but for two cases: the compiled form is on disk and the work is more than a trifle (`TRIFLE`), or there is so
much to do that compiling is the faster way (`LARGE`); then a line on the terminal says so.

Invariants: this module and all that define kernels load without Numba. Callers find a kernel in its module
each time, `kernels.find(...)`, since its compiled form takes its place there. Kernels let go of the
interpreter while they run, so that threads are of use.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

TRIFLE: Final = 1 << 12
"""Up to so many rows the twin runs rather than wait for Numba to be loaded."""
LARGE: Final = 1 << 18
"""From so many rows on it is faster to wait for the compiler."""
_HELD: Final = frozenset(
    (
        *("keys", "table", "mark", "state", "key", "multipliers", "n", "ints", "floats", "kinds", "entries"),
        *("heap", "starts", "bounds", "recent", "cells", "heads", "nexts", "prevs", "groups", "context"),
        *("data", "totals", "order", "tops", "tree", "high", "stored", "inside"),
    )
)
"""What kernels call the arrays that they look things up in: their size says nothing of the work."""


class _Within(threading.local):
    """Whether this thread runs a twin."""

    twin = False


_within = _Within()


class Kernel:
    """A function that is compiled behind what goes on, and its twin.

    >>> @njit()
    ... def double(x, out):
    ...     for i in range(x.size):
    ...         out[i] = 2 * x[i]
    >>> out = np.zeros(3, np.int64)
    >>> double.twin(np.arange(3), out)
    >>> out.tolist()
    [0, 2, 4]
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func, self.options = function, options
        self.__doc__, self.__name__, self.__module__ = (
            function.__doc__,
            function.__name__,
            function.__module__,
        )
        self.__wrapped__ = function
        self._twin: Callable[..., Any] | None = None
        self._compiled: Callable[..., Any] | None = None
        self._native: Any = None
        self.asked: dict[str, Any] = {}
        """What was asked of `background`, by signature."""
        names = list(inspect.signature(function).parameters)
        self._measured = tuple(i for i, name in enumerate(names) if name not in _HELD)

    def __call__(self, *args: Any) -> Any:
        """Run it, compiled or not."""
        if self._compiled is not None:
            return self._compiled(*args)
        return self._otherwise(args)

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__

    def twin(self, *args: Any) -> Any:
        """Run it without a compiler."""
        if self._twin is None:
            from everfresh.local.kernels.plain import TWINS

            self._twin = TWINS.get(self, self.py_func)
        if _within.twin:
            return self._twin(*args)
        _within.twin = True
        try:
            with np.errstate(
                all="ignore"
            ):  # numbers wrap around, of which compiled code does not warn either
                return self._twin(*args)
        finally:
            _within.twin = False

    def run_by(self, twin: Callable[..., Any]) -> None:
        """Let Python run another function in its place."""
        self._twin = twin

    def native(self, *args: Any) -> Any:
        """Run it compiled, in this process and now if need be: it is waited for."""
        from everfresh.local.jit.dispatch import compile_here

        compile_here(self, signature_of(args))
        return self.dispatcher(*args)

    @property
    def dispatcher(self) -> Any:
        """Numba's form of it."""
        if self._native is None:
            from everfresh.local.jit.dispatch import dispatcher_of

            self._native = dispatcher_of(self)
        return self._native

    @property
    def _numba_type_(self) -> Any:
        """How Numba sees it in functions that call it."""
        from everfresh.local.jit.dispatch import dispatcher_type

        return dispatcher_type(self.dispatcher)

    def loaded(self) -> None:
        """Run by the compiled form from now on: it takes the place of the kernel in its module, where callers
        find it without a detour."""
        self._compiled = self.dispatcher
        module = vars(sys.modules[self.__module__])
        if module.get(self.__name__) is self:
            module[self.__name__] = self._compiled

    def other_types(self, *args: Any) -> Any:
        """What Numba calls when there is no compiled form for the types of some arguments, though for others:
        have it, and wait for it."""
        signature = signature_of(args)
        self._asked(signature).wait(f"compiling '{self.__name__}' for other types")
        if not self.asked[signature].done:
            raise TypeError(f"{self.__name__} was not compiled for {signature}")
        from everfresh.local.jit.dispatch import entry_point

        return entry_point(self, signature)

    def _asked(self, signature: str) -> Any:
        from everfresh.local.jit import background

        asked = self.asked.get(signature)
        if asked is None:
            asked = self.asked[signature] = background.ask_kernel(self, signature)
        asked.begin()
        return asked

    def _otherwise(self, args: tuple[Any, ...]) -> Any:
        """No compiled form is at hand: have one, wait for it if that pays, else run the twin. Types other
        than those of the first call are asked for once it is compiled (`other_types`)."""
        if _within.twin:  # whoever calls it is asked for, and contains it
            return self.twin(*args)
        asked = next(iter(self.asked.values()), None) or self._asked(signature_of(args))
        if not asked.failed:
            asked.begin()
            rows = self.rows(args)
            if rows > LARGE or (rows > TRIFLE and asked.is_kept()):
                asked.wait(f"compiling '{self.__name__}', once for this machine")
                if asked.done:
                    return self.dispatcher(*args)
        return self.twin(*args)

    def rows(self, args: tuple[Any, ...]) -> int:
        """How much there is to do, about: the longest of the arrays that a batch brings, or of all. Bytes of
        strings are many, and quickly done."""
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.dtype != np.uint8]
        brought = [args[i] for i in self._measured if any(args[i] is x for x in arrays)]
        return max((x.shape[-1] for x in brought or arrays), default=0)


class Inline(Kernel):
    """A kernel that is part of those that call it: never asked for on its own."""

    def __call__(self, *args: Any) -> Any:
        """Run it by Python."""
        return (self._twin or self.py_func)(*args)


class Primitive:
    """What Python does where compiled code has the instructions of the same name in `native.intrinsics`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__, self.__name__, self.__module__ = (
            function.__doc__,
            function.__name__,
            function.__module__,
        )

    def __call__(self, *args: Any) -> Any:
        """Run it by Python."""
        return self._function(*args)

    def __reduce__(self) -> str:
        return self.__name__

    @property
    def _numba_type_(self) -> Any:
        from everfresh.local.jit.dispatch import intrinsic_type

        return intrinsic_type(self.__name__)


def kernel_of(function: Any) -> Kernel:
    """The kernel, of what stands in its place."""
    return function if isinstance(function, Kernel) else function.kernel


def njit(function: Callable[..., Any] | None = None, /, *, forceinline: bool = False, **options: Any) -> Any:
    """Decorator: a kernel, with options of `numba.njit`; one that is inlined is never called from Python."""
    if function is None:
        return partial(njit, forceinline=forceinline, **options)
    if forceinline:
        return Inline(function, {**options, "forceinline": True})
    return Kernel(function, options)


# -- signatures ------------------------------------------------------------------------------------


def signature_of(args: tuple[Any, ...]) -> str:
    """The types of arguments, as text: NumPy's letters, dimensions and layout of an array, `r` if it is
    read-only and `u` if it is not aligned.

    >>> signature_of((np.zeros((2, 3)), 5, True, np.arange(9)[::2]))
    'd2C l ? l1A'
    """
    return " ".join(_type_of(arg) for arg in args)


def _type_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        more = ("" if flags.writeable else "r") + ("" if flags.aligned else "u")
        return f"{value.dtype.char}{value.ndim}{layout}{more}"
    if isinstance(value, np.generic):
        return value.dtype.char
    if isinstance(value, bool):
        return "?"
    return "d" if isinstance(value, float) else "l"
