"""Kernels to Numba: their dispatchers, where these keep what is compiled, and the types of signatures.

The only module, beside what generated code imports, that loads Numba for kernels. What is compiled is kept
in a folder whose name says all that it depends on (`code_cache.digest`): Numba itself would notice neither
that a function that it calls has changed, nor that a global has another value.

Invariant: a dispatcher of a kernel compiles only when it is told to (`compile_here`); a call with other types
asks for them as all others are (`Kernel.other_types`).
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.registry import cpu_target
from numba.np import numpy_support

from everfresh.local.jit import code_cache
from everfresh.local.jit.kernel import Inline, Kernel

_log = logging.getLogger("numba")
if _log.level == logging.NOTSET:  # it says much about each function that it compiles, to whoever logs all
    _log.setLevel(logging.WARNING)


class _Locator(_CacheLocator):  # type: ignore[misc]
    """The folder of kernels. It stands for their source: nothing in it is ever stale."""

    def __init__(self, function: Any) -> None:
        self._line = f"{function.__module__}.{function.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(code_cache.kernels())

    def get_source_stamp(self) -> Any:
        return 0

    def get_disambiguator(self) -> str:
        return self._line

    @classmethod
    def from_function(cls, py_func: Any, py_file: Any) -> _Locator:
        return cls(py_func)


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Missing(Exception):
    """Nothing is kept for a signature."""


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, in our folder; where it is only to load, what is missing is an error."""

    _impl_class = _Impl
    only_load = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self.only_load:
            raise _Missing
        return found


def dispatcher_of(kernel: Kernel) -> Any:
    """A new dispatcher for a kernel."""
    options = {"nogil": True, **kernel.options}
    kept = options.pop("cache", False)
    found = numba.njit(**options)(kernel.py_func)
    if kept and not isinstance(kernel, Inline):  # whoever calls it contains it
        found._cache = _Cache(kernel.py_func)
    found._compile_for_args, found.kernel = kernel.other_types, kernel
    return found


def entry_point(kernel: Kernel, signature: str) -> Any:
    """The compiled function of a signature that is loaded."""
    return kernel.dispatcher.overloads[argument_types(signature)].entry_point


def compile_here(kernel: Kernel, signature: str) -> None:
    """Compile a kernel, or load what is kept."""
    try:
        kernel.dispatcher.compile(argument_types(signature))
    except OSError:  # it is compiled, and cannot be kept
        if argument_types(signature) not in kernel.dispatcher.overloads:
            raise


def load(kernel: Kernel, signature: str) -> bool:
    """Load what is kept of a kernel, and let it run by that; whether there is something."""
    found = kernel.dispatcher
    if argument_types(signature) not in found.overloads:
        found._cache.only_load = True
        try:
            found.compile(argument_types(signature))
        except _Missing:
            return False
        finally:
            found._cache.only_load = False
    kernel.loaded()
    return True


def dispatcher_type(dispatcher: Any) -> Any:
    """The type of a dispatcher, for functions that call it."""
    return types.Dispatcher(dispatcher)


@cache
def intrinsic_type(name: str) -> Any:
    """The type of an intrinsic."""
    from everfresh.local.native.runtime import intrinsics

    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(getattr(intrinsics, name))


@cache
def argument_types(signature: str) -> tuple[Any, ...]:
    """The types that a signature names (`jit.signature_of`)."""
    return tuple(_type(text) for text in signature.split())


def _type(text: str) -> Any:
    kind = numpy_support.from_dtype(np.dtype(text[0]))
    if len(text) == 1:
        return kind
    return types.Array(kind, int(text[1]), text[2], readonly="r" in text[3:], aligned="u" not in text[3:])
