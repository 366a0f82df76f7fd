"""Functions of users that a text names: a folder has names, never code, and no name makes a module run.

A function is looked for in modules that the program has imported itself, and in those of NumPy and SciPy.
What is Python's own, or everfresh's, is nobody's function of arrays: a name in a folder that somebody else
made may not choose among it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

_NUMBERS = frozenset({"numpy", "scipy"})
_CLOSED = sys.stdlib_module_names - {"__main__"} | {"everfresh"}


def known_function(module: str, name: str) -> Callable[..., Any] | None:
    """The function of a name that a text may choose.

    >>> known_function("numpy", "sort") is np.sort
    True
    >>> known_function("shutil", "rmtree"), known_function("this", "s"), known_function("numpy", "os.remove")
    (None, None, None)
    """
    if not _may_name(module):
        return None
    value: Any = sys.modules.get(module)
    try:
        if value is None and _top(module) in _NUMBERS:
            value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    is_function = isinstance(value, FunctionType | np.ufunc) or hasattr(value, "__wrapped__")
    home = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    if not is_function or not _may_name(str(home)):
        return None
    return value  # type: ignore[no-any-return]


def _top(module: str) -> str:
    return module.partition(".")[0]


def _may_name(module: str) -> bool:
    return bool(module) and _top(module) not in _CLOSED
