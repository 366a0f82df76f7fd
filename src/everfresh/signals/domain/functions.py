"""Functions of users in views that outlive the process: by module and name, or by a name that was registered.

A folder has names, never code: a function is found again by importing the module it is in, or because the
program registered it before it opened the folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals.nodes import Fn

Call = Callable[..., Any]
_REGISTERED: dict[str, Call] = {}


def register(name: str, function: Call) -> Call:
    """Give a function a name by which views keep it: one that is no name of a module, such as a lambda.

    >>> _ = register("half", lambda spectra: spectra / 2)
    >>> found("half")(4.0)
    2.0
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise EverfreshError(
            Code.ARGUMENT, f"{name!r} is no name of a function", hint="a text without a colon"
        )
    _REGISTERED[name] = function
    return function


def registered() -> Mapping[str, Call]:
    """The functions that were given names."""
    return dict(_REGISTERED)


def functions_of(query: Node) -> Iterator[Fn]:
    """The functions in a query."""
    for node in query.walk():
        for value in node._fields():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Fn):
                    yield each


def name_of(fn: Fn) -> str | None:
    """The name by which a function is there in the next process; None if there is none.

    >>> name_of(Fn("sort", np.sort)), name_of(Fn("nothing", lambda x: x))
    ('numpy:sort', None)
    """
    for name, known in _REGISTERED.items():
        if known is fn.call:
            return name
    module = getattr(fn.call, "__module__", None)
    name = str(getattr(fn.call, "__qualname__", None) or getattr(fn.call, "__name__", ""))
    if module is None and isinstance(fn.call, np.ufunc):
        module, name = "numpy", fn.call.__name__
    if not isinstance(module, str):
        return None
    try:
        same = _imported(module, name) is fn.call
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if same else None


def found(name: str) -> Call:
    """The function of a name."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    module, _, inside = name.partition(":")
    try:
        call = _imported(module, inside) if inside else None
    except (ImportError, AttributeError):
        call = None
    if not isinstance(call, FunctionType | np.ufunc) and not hasattr(call, "__wrapped__"):
        raise EverfreshError(
            Code.NOT_FOUND,
            f"a signal view calls the function '{name}', which is not there",
            hint="it has to be importable under that name, or given to everfresh.signals.register "
            "before the database is opened",
        )
    return call  # type: ignore[return-value]


def _imported(module: str, name: str) -> Any:
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def names_of(query: Node, view: str) -> Mapping[Fn, str]:
    """Names for all functions of a query; refuses one that the next process will not find."""
    named: dict[Fn, str] = {}
    for fn in functions_of(query):
        name = name_of(fn)
        if name is None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the function '{fn.name}' has no name under which the database finds it again",
                place=f"signal view '{view}'",
                hint="define it in a module, or give it a name: everfresh.signals.register('name', function)",
            )
        named[fn] = name
    return named
