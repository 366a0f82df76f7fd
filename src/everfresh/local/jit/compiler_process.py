"""The process that compiles for others: what is wanted in the folder of `code_cache`, one item at a time.

`behind` starts it with the parent's process id and paths. It runs at low priority, ends with its parent, and
when nothing has been wanted for a while. It runs no code of the user's: kernels are named by module,
generated modules lie in the user's cache folder as the parent wrote them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress

from everfresh.local.jit import code_cache
from everfresh.local.jit.code_cache import Item

IDLE = 5.0
"""Seconds without a wish after which it ends."""
_PACKAGE = "everfresh."


def main(parent: int) -> None:
    """Compile until there is nothing more to do, or nobody to do it for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    lock = code_cache.try_lock()
    if lock is None:
        return
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    with suppress(OSError):
        os.nice(5)
    since = time.monotonic()
    while time.monotonic() - since < IDLE:
        todo = code_cache.wanted()
        if not todo:
            time.sleep(0.02)
            continue
        make(todo[0])
        since = time.monotonic()


def _watch(parent: int) -> None:
    """End with the parent. What is being written is written under another name and moved: nothing is left
    half done."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


def make(item: Item) -> None:
    """Compile an item and say so."""
    try:
        if not code_cache.is_done(item):
            if item.module:
                _kernel(item)
            else:
                _generated(item)
        code_cache.settle(item)
    except Exception:
        code_cache.settle(item, traceback.format_exc())


def _kernel(item: Item) -> None:
    from importlib import import_module

    if not item.module.startswith(_PACKAGE):
        raise ValueError(f"'{item.module}' has no kernels")
    from everfresh.local.jit.dispatch import compile_here

    compile_here(getattr(import_module(item.module), item.name), item.signature)


def _generated(item: Item) -> None:
    from everfresh.local.native.runtime import build

    if item.signature == build.ORDERED:
        build.index_calls()
    build.load_named(item.name)


if __name__ == "__main__":
    main(int(sys.argv[1]))
