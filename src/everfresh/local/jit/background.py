"""Compiling behind what goes on: another process compiles (`ahead`), a thread of this one loads the result.

Loading takes some milliseconds of Numba's lock, compiling would take seconds of it, and each batch needs that
lock to load a kernel. So nothing is compiled in this process, unless no other can be started.

The process is started by whoever first wants something that is not kept, and ends with it; everyone else who
wants something from the same folder is served by it too (`code_cache`). After a fork the child begins anew.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from everfresh.local.jit import code_cache
from everfresh.local.jit.code_cache import Item
from everfresh.local.jit.kernel import Kernel
from everfresh.progress import patience

POLL = 0.05
"""Seconds between two looks for what is done."""
TURN = 0.0005
"""Seconds after which threads take turns while one of them loads code: a batch that lets go of the
interpreter for a moment would have to wait for ten times that, each time."""
_TRIES = 4
"""When so many processes in a row were started, and the last of them came to nothing, it is done here."""
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from everfresh.local.jit.compiler_process import main; "
    "main(int(sys.argv[1]))"
)
_log = logging.getLogger("everfresh")


class Load(Protocol):
    """Takes what is compiled, or compiles it `here`; whether it was there."""

    def __call__(self, here: bool) -> bool:
        """Whether it is loaded now."""


class Compilation:
    """An item that somebody waits for."""

    def __init__(self, item: Item, load: Load, alive: Callable[[], object] = lambda: True) -> None:
        self.item, self._load, self._alive = item, load, alive
        self.failed = self.begun = False
        self._settled = threading.Event()

    @property
    def done(self) -> bool:
        """Whether it is loaded."""
        return self._settled.is_set() and not self.failed

    @property
    def is_needed(self) -> bool:
        """Whether somebody still waits for it."""
        return not self._settled.is_set() and self._alive() is not None

    def begin(self) -> None:
        """See that somebody works on it."""
        begin()

    def is_kept(self) -> bool:
        """Whether it only has to be loaded."""
        return code_cache.is_done(self.item)

    def take(self, here: bool = False) -> bool:
        """Load it if it is kept, or compile it here; whether it is settled."""
        with _loading:
            if self._settled.is_set():
                return True
            why = None if here else code_cache.failure(self.item)
            try:
                if why is None and not here and not self.is_kept():
                    return False
                if why is None and not self._load(here):
                    code_cache.missing(self.item)
                    code_cache.want(self.item)
                    return False
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                _log.debug("loading %s", self.item.name, exc_info=True)
            if why is None:
                self._settled.set()
            else:
                self.give_up(_last(why))
            return True

    def give_up(self, why: str) -> None:
        """It will not come: the twin, or the interpreter, goes on."""
        self.failed = True
        _log.error("%s could not be compiled and stays slow: %s", self.item.name, why)
        self._settled.set()

    def wait(self, what: str) -> None:
        """Wait until it is settled, and say after a while what is waited for."""
        with patience(what):
            while not self.take() and not self._settled.wait(POLL):
                pass


def _last(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else text


def ask_kernel(kernel: Kernel, signature: str) -> Compilation:
    """Have a kernel compiled for a signature, and loaded."""

    def load(here: bool) -> bool:
        from everfresh.local.jit import dispatch

        if here:
            dispatch.compile_here(kernel, signature)
        return dispatch.load(kernel, signature)

    return ask(Item(kernel.__module__, kernel.__name__, signature), load)


def ask(item: Item, load: Load, alive: Callable[[], object] = lambda: True) -> Compilation:
    """Have an item compiled if it is not kept, and loaded, as long as somebody is `alive` who wants it."""
    asked = Compilation(item, load, alive)
    _workshop().add(asked)
    return asked


def begin() -> None:
    """See that somebody works on what was asked for."""
    _workshop().begin()


def waiting(generated: bool = False) -> int:
    """How many items this process waits for; or how many of them are generated code."""
    return sum(asked.is_needed and not (generated and asked.item.module) for asked in _workshop().pending)


def join(generated: bool = False) -> None:
    """Wait until there is nothing to wait for."""
    while waiting(generated):
        begin()
        time.sleep(POLL)


class Workshop:
    """What this process waits for, the thread that looks for it, and the process that compiles."""

    def __init__(self) -> None:
        self.pending: list[Compilation] = []
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._tries = 0
        self._killed = False
        self.closed = False

    def add(self, asked: Compilation) -> None:
        """Wait for one more."""
        with self._lock:
            self.pending.append(asked)
            self._lock.notify()
        self.begin()

    def begin(self) -> None:
        """See that the thread is there: a process that was forked has none at first."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self.closed:
                self._thread = threading.Thread(target=self._work, name="everfresh-compile", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self.pending and not self.closed:
                    self._lock.wait()
                if self.closed:
                    return
                todo = list(self.pending)
            left = [asked for asked in todo if asked.is_needed]
            if self._tries < _TRIES:
                try:
                    with _loading, short_turns():  # a fork waits: what is half imported would stay so in it
                        left = self._taken(left)
                        self._have_made(left)
                except OSError:  # a folder that is full or gone
                    self._tries = _TRIES
                except Exception:  # whatever it is, somebody waits
                    _log.exception("compiling in another process failed: it is done here")
                    self._tries = _TRIES
            elif left and self._killed:
                left[0].give_up("the process that compiled was killed")
            elif left:
                left[0].take(here=True)
            with self._lock:
                self.pending = left + self.pending[len(todo) :]
            if left:
                time.sleep(POLL)

    def _taken(self, todo: list[Compilation]) -> list[Compilation]:
        """Load what is there; what is not."""
        left = []
        for asked in todo:
            if not asked.begun:
                asked.begun = True
                code_cache.forgive(asked.item)
        there = code_cache.settled()
        for asked in todo:
            if asked.item.key in there and not self.closed and asked.take():
                self._tries = 0
            else:
                left.append(asked)
        return left

    def _have_made(self, left: list[Compilation]) -> None:
        """See that another process compiles what is missing."""
        for asked in left:
            code_cache.want(asked.item)
        if not left or (self._process is not None and self._process.poll() is None):
            return
        lock = code_cache.try_lock()
        if lock is None:
            return  # somebody else's compiles for us too
        lock.close()
        self._tries += 1  # until something comes of it
        if self._process is not None:
            self._killed = self._process.returncode < 0  # out of memory, perhaps: not here then
        self._process = start()

    def close(self) -> None:
        """End the process that compiles; the thread finds nothing to do."""
        with self._lock:
            self.closed = True
            self.pending = []
            self._lock.notify()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(30)  # it may be in the middle of loading: the interpreter must not go before it
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns more often, unless they do so already."""
    usual = sys.getswitchinterval()
    if usual > TURN:
        sys.setswitchinterval(TURN)
    short = sys.getswitchinterval()  # not to the last bit what was set
    try:
        yield
    finally:
        if usual > TURN and sys.getswitchinterval() == short:  # nobody else has set it meanwhile
            sys.setswitchinterval(usual)


def start() -> subprocess.Popen[bytes]:
    """The process that compiles. It imports from where this one does, and nothing else of it."""
    if not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
        raise FileNotFoundError("this process is no plain Python")
    paths = [os.path.abspath(path) for path in sys.path]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _START, str(os.getpid()), *paths],
        env={**os.environ, "XDG_CACHE_HOME": str(code_cache.root().parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


_shop: list[Workshop] = []
"""The workshop of this process, and before it those of processes that it was forked from."""
_loading = threading.RLock()
"""Held by whoever loads or looks for what is to be loaded, since Numba's own lock would stay taken, and
modules half imported, in a process that is forked meanwhile."""


def _workshop() -> Workshop:
    """The one of this process."""
    if not _shop:
        _shop.append(Workshop())
        atexit.register(_close)
    return _shop[-1]


def _close() -> None:
    _workshop().close()


def _forked() -> None:
    """A child has neither the thread nor the process of its parent: what was asked for is asked for again
    when it is missed."""
    _loading.release()
    if _shop:
        _shop.append(Workshop())
        _shop[-1].pending = list(_shop[-2].pending)


os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_forked)
