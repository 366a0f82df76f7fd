"""The writer's lock of a folder: one process writes, and whoever comes second learns who it is.

`WRITER` of docs/design/state.md: an advisory lock (flock) on a file whose text names the owner. The
system frees it when the owner ends, however it ends; the text alone means nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import socket
import weakref
from datetime import UTC, datetime
from pathlib import Path

from everfresh.errors import Code, EverfreshError


class WriterLock:
    """Held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owner = {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "user": _user(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(owner).encode(), 0)
        except OSError as error:
            text = os.pread(self._fd, 4096, 0)
            self._close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise _locked(path.parent, text) from None
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise EverfreshError(
                    Code.ENVIRONMENT,
                    f"the file system of {path.parent} has no locks",
                    hint="keep the database on a file system that supports flock, such as a local disk",
                ) from error
            raise
        _held.add(self)

    def release(self) -> None:
        """Let the next writer in; a second call does nothing."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)  # the file stays: removing it would let two writers lock two files
            self._close()

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1


def _user() -> str:
    with contextlib.suppress(OSError, KeyError):  # a container may have no name for its user
        return getpass.getuser()
    return str(os.getuid())


def _locked(folder: Path, text: bytes) -> EverfreshError:
    try:
        owner = json.loads(text)
        who = f"process {owner['pid']} on host {owner['host']} (user {owner['user']}, since {owner['since']})"
    except (ValueError, KeyError, TypeError):
        who = "another process"  # it has the lock and has not written its name yet
    return EverfreshError(
        Code.LOCKED,
        f"{folder} is being written by {who}",
        hint="open it with read_only=True, or close the database there first",
    )


# A forked child shares the lock with its parent, and would keep it when the parent is gone.
_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for lock in list(_held):
        if lock._fd >= 0:
            lock._close()


os.register_at_fork(after_in_child=_let_go_in_child)
