"""Where compiled code is kept, and what is said there about it: what is wanted, what is done.

The user's cache folder has a folder for each *digest*: a hash of the source of kernels and of the
versions of all that takes part. In it lie compiled kernels, and small files by which processes talk:
`NAME.want` asks for an item and holds its text, `NAME.done` says that it is compiled and kept, `NAME.failed`
says why it cannot be. One process at a time compiles there, the one that holds `lock`; whoever wants
something looks for the files. So processes that want the same wait for one compiler, whichever started it.

A folder that cannot be written is replaced by one for this process alone, which goes with it.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import IO

WANT, DONE, FAILED = ".want", ".done", ".failed"


@dataclass(frozen=True)
class Item:
    """Something to compile: a kernel and a signature, or the text of a generated module by its name."""

    module: str
    """The module of a kernel; "" for a generated module."""
    name: str
    signature: str = ""

    @cached_property
    def key(self) -> str:
        """The name of its files."""
        text = f"{self.module}:{self.name}:{self.signature}"
        return f"{self.name[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def text(self) -> str:
        """All of it in three lines, for the file that asks for it."""
        return "\n".join((self.module, self.name, self.signature))

    @staticmethod
    def of(text: str) -> Item:
        """The inverse of `text`.

        >>> Item.of(Item("m", "f", "l1C l").text) == Item("m", "f", "l1C l")
        True
        """
        return Item(*text.split("\n", 2))


def root() -> Path:
    """The folder of everfresh in the user's cache folder; in Numba's (`NUMBA_CACHE_DIR`) if that cannot be
    written; else one that goes with this process."""
    return _root(os.environ.get("XDG_CACHE_HOME"), os.environ.get("NUMBA_CACHE_DIR"))


@cache
def _root(given: str | None, other: str | None) -> Path:
    with suppress(OSError, RuntimeError):  # a user without a home
        return _writable(Path(given or Path.home() / ".cache") / "everfresh")
    if other:
        with suppress(OSError):
            return _writable(Path(other) / "everfresh")
    return _own()


def _writable(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return folder


def _own() -> Path:
    made, maker = Path(tempfile.mkdtemp(prefix="everfresh-")), os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # not in a process that was forked off
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    folder = made / "everfresh"
    folder.mkdir()
    return folder


@cache
def versions() -> tuple[str, ...]:
    """The versions of what compiles; asked of the installed packages, since loading them takes half a
    second."""
    return tuple(metadata.version(name) for name in ("numba", "llvmlite", "numpy"))


@cache
def digest() -> str:
    """A hash of all that compiled kernels depend on."""
    found = hashlib.sha256()
    for path, text in sources().items():
        found.update(path.name.encode() + b"\0" + text + b"\0")
    found.update("\0".join((*versions(), sys.version, sys.platform)).encode())
    return found.hexdigest()[:24]


def sources() -> dict[Path, bytes]:
    """The modules that define kernels, all those of everfresh that they import from, and how they are
    compiled. Kernels are in folders of that name, and in what generated code calls."""
    package = Path(__file__).parents[2]
    chosen = {*package.glob("**/kernels/*.py"), *package.glob("local/native/runtime/*.py")}
    chosen = {path for path in chosen if _DEFINES.search(path.read_bytes())}
    chosen.add(Path(__file__).with_name("dispatch.py"))
    for path in list(chosen):
        for module, names in _IMPORTS.findall(path.read_bytes()):
            parts = module.decode().split(".")[1:]
            found = [parts, *([*parts, name.strip().decode()] for name in names.split(b","))]
            chosen |= {package.joinpath(*each).with_suffix(".py") for each in found}
    return {path: path.read_bytes() for path in sorted(chosen) if path.exists()}


_DEFINES = re.compile(rb"\n@(njit|intrinsic)")
_IMPORTS = re.compile(rb"^from (everfresh\.[\w.]+) import ([^(\n]*)", re.MULTILINE)


def kernels() -> Path:
    """The folder of this digest."""
    return _held(root() / f"kernels-{digest()}")


def generated() -> Path:
    """The folder of generated code, whose names have a digest of their own."""
    return _made(root() / "native")


@cache
def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


# -- folders of earlier digests --------------------------------------------------------------------

KEPT = 4
"""Folders of kernels that are kept, those that were used last: there is one more with every release."""
_USED = "used"
"""A file that whoever uses a folder has locked as long as it lives; its time is that of the last use."""
_DAY = 86_400.0


@cache
def _held(folder: Path) -> Path:
    """A folder of kernels, which nobody removes while this process is there."""
    with suppress(OSError):  # a file system without locks: nothing is removed there
        while True:
            # A number and no file object, which would say at the end that nobody has closed it.
            file = os.open(_made(folder) / _USED, os.O_CREAT | os.O_WRONLY, 0o666)
            fcntl.flock(file, fcntl.LOCK_SH)
            if (folder / _USED).exists():
                break
            os.close(file)  # somebody has just removed it
            _made.cache_clear()
        os.utime(folder / _USED)
        prune(folder)
    return _made(folder)


def prune(used: Path) -> None:
    """Remove the folders of other digests but for the last few, those that somebody uses, and those that
    somebody has used today."""
    others = sorted((p for p in used.parent.glob("kernels-*") if p != used), key=_last_use, reverse=True)
    for folder in [p for p in others[KEPT - 1 :] if _last_use(p) < time.time() - _DAY]:
        # One of a release that locked nothing has no such file; an error says that it is in use.
        with suppress(OSError), (folder / _USED).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _last_use(folder: Path) -> float:
    times = [0.0]
    for path in (folder / _USED, folder):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


# -- what is wanted --------------------------------------------------------------------------------


def is_done(item: Item) -> bool:
    """Whether it is compiled and kept."""
    return (kernels() / (item.key + DONE)).exists()


def failure(item: Item) -> str | None:
    """Why it could not be compiled, if so."""
    with suppress(OSError):
        return (kernels() / (item.key + FAILED)).read_text(encoding="utf-8")
    return None


def settled() -> set[str]:
    """The keys of all items that are done or cannot be."""
    names = (name.partition(".") for name in os.listdir(kernels()))
    return {key for key, dot, kind in names if dot + kind in (DONE, FAILED)}


def want(item: Item) -> None:
    """Ask for it, unless it is asked for or settled."""
    folder = kernels()
    if any((folder / (item.key + kind)).exists() for kind in (WANT, DONE, FAILED)):
        return
    made = folder / f"{item.key}.{os.getpid()}.tmp"
    made.write_text(item.text, encoding="utf-8")
    made.replace(folder / (item.key + WANT))


def forgive(item: Item) -> None:
    """Let it be tried again if it failed before, for want of memory perhaps."""
    (kernels() / (item.key + FAILED)).unlink(missing_ok=True)


def missing(item: Item) -> None:
    """It is said to be done, and is not: it was compiled for another processor, or removed."""
    (kernels() / (item.key + DONE)).unlink(missing_ok=True)


def wanted() -> list[Item]:
    """All that is asked for, the oldest first; kernels, which all views use, before generated code."""
    found: list[tuple[bool, float, Item]] = []
    for path in kernels().glob("*" + WANT):
        with suppress(OSError, TypeError):  # somebody else was faster; not one of ours
            item = Item.of(path.read_text(encoding="utf-8"))
            found.append((item.module == "", path.stat().st_mtime, item))
    return [item for *_, item in sorted(found, key=lambda each: each[:2])]


def settle(item: Item, why: str | None = None) -> None:
    """Say that it is done, or why it cannot be."""
    folder = kernels()
    if why is None:
        (folder / (item.key + DONE)).touch()
    else:
        (folder / (item.key + FAILED)).write_text(why, encoding="utf-8")
    (folder / (item.key + WANT)).unlink(missing_ok=True)


def try_lock() -> IO[bytes] | None:
    """The right to compile in this folder, while the file is open; None if another process has it."""
    file = (kernels() / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks: two compilers do the same, which is harmless
        pass
    return file
