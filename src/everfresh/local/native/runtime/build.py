"""Generated text as a compiled function, kept on disk under a name that says all that it depends on.

The name is a hash of the text, of the source of everything that the text calls, and of the versions of Numba
and of its compiler: Numba notices none of those by itself. So a file never changes once it is there, and a
stale one is never found.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.local.jit import code_cache

if TYPE_CHECKING:
    from everfresh.local.native.runtime.runner import Function

HELPERS = (
    *("memory.py", "intrinsics.py", "helpers.py", "indexes.py", "calls.py"),
    "../../kernels/primitives.py",
)
"""The modules that generated code calls."""


ORDERED = "ordered"
"""Says of a generated module that it comes with `index_calls`."""


@cache
def index_calls() -> tuple[int, ...]:
    """The addresses of what generated code calls of ordered indexes; compiled now or before."""
    text = (Path(__file__).parent / "indexes.py").read_text(encoding="utf-8") + _CALLS
    found: tuple[Any, ...] = load(text).COMPILED
    return tuple(int(one.address) for one in found)


_CALLS = """
import inspect

from numba import cfunc


def _compiled(function):
    words = ", ".join(["int64"] * len(inspect.signature(function.py_func).parameters))
    return cfunc(f"int64({words})", cache=True)(function.py_func)


COMPILED = tuple(_compiled(function) for function in CALLED)
"""


_KEPT_AS = "2"
"""Another one where what was kept before must not be found: modules have to stay in `sys.modules`, since
Numba keeps a function with the name of its module, and finds none for one that has gone."""


def name_of(text: str, sources: Sequence[bytes] | None = None) -> str:
    """The name of a generated module."""
    parts = _sources() if sources is None else list(sources)
    digest = hashlib.sha256()
    said = (text, _KEPT_AS, *code_cache.versions())
    for part in (*(one.encode() for one in said), *parts):
        digest.update(len(part).to_bytes(8, "little") + part)
    return f"ef_{digest.hexdigest()[:32]}"


@cache
def _sources() -> list[bytes]:
    here = Path(__file__).parent
    return [(here / name).read_bytes() for name in HELPERS]


def build(text: str, entry: str = "run") -> Function:
    """A function of a generated text, compiled now or before."""
    found: Function = getattr(load(text), entry)
    return found


def is_loaded(text: str) -> bool:
    """Whether this process has the function of a text already."""
    return hasattr(sys.modules.get(name_of(text)), _WHOLE)


def load(text: str) -> Any:
    """The module of a text, written if it is not there. Where several threads or processes ask for one at the
    same time, one compiles it, and the others find what it has kept."""
    write(text)
    return load_named(name_of(text))


def write(text: str) -> str:
    """Write the module of a text where it is kept, if it is not there; its name."""
    name = name_of(text)
    _written(code_cache.generated() / f"{name}.py", text)
    return name


def load_named(name: str) -> Any:
    """The module of a name, which has been written."""
    path = code_cache.generated() / f"{name}.py"
    loaded = sys.modules.get(name)
    if loaded is None or not hasattr(loaded, _WHOLE):
        with path.open("rb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            loaded = sys.modules.get(name) or _loaded(name, path)
    return loaded


_WHOLE = "__whole__"
"""What a module has that has been run to its end: others must wait for it."""


def _loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded  # before it runs: Numba looks for the module of what it loads
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[name]
        raise
    setattr(loaded, _WHOLE, True)
    return loaded


def _written(path: Path, text: str) -> None:
    """The file of a text; the same one for all who ask at once, as Numba's files are kept beside its time."""
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        made.write_text(text, encoding="utf-8")
        try:
            os.link(made, path)
            made.unlink()
        except FileExistsError:
            made.unlink()
        except OSError:  # a file system without links
            made.replace(path)
