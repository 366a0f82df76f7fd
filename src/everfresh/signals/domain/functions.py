"""Functions of users in views that outlive the process: by module and name, or by a name that was registered.

A folder has names, never code: a function is found again in a module that the program has imported
(`everfresh.epochs.functions`), or because it was registered, before the folder was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from everfresh.epochs.functions import known_function
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
    return f"{module}:{name}" if known_function(module, name) is fn.call else None


def found(name: str) -> Call:
    """The function of a name."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    module, _, inside = name.partition(":")
    call = known_function(module, inside) if inside else None
    if call is None:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"a signal view calls the function '{name}', which is not there",
            hint="import the module that it is in, or give it to everfresh.signals.register, "
            "before the database is opened",
        )
    return call


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
