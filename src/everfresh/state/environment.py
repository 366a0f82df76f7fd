"""What disks, file systems and stores refuse, as errors of everfresh: what could not be done, why, and what
helps."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from everfresh.errors import Code, EverfreshError

_FULL: Final = "make room; nothing was changed, and the database goes on when there is some"
_RIGHTS: Final = "give this user the right to, or choose another place"
_PATH: Final = "look at the path: each part of it must be a folder, and the last may be new"
_HINTS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EROFS: "the file system is mounted read-only: choose another place, or read with read_only=True",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENOENT: _PATH,
    errno.ENOTDIR: _PATH,
    errno.ENAMETOOLONG: _PATH,
    errno.EINVAL: _PATH,
    errno.ELOOP: _PATH,
    errno.EMFILE: "close what is open, or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close what is open, or raise the limit of open files",
    errno.EIO: "the device reports errors: see to it, and restore from a backup what cannot be read",
}


def environment(error: OSError, what: str) -> EverfreshError:
    """An error of the system, while `what` was done.

    >>> print(environment(OSError(errno.ENOSPC, "No space left on device"), "epoch 7 was not written"))
    epoch 7 was not written: No space left on device
      hint: make room; nothing was changed, and the database goes on when there is some
    """
    why = error.strerror or str(error) or type(error).__name__
    place = str(error.filename) if error.filename is not None else None
    hint = _HINTS.get(error.errno or 0, "see to what the message says, and try again")
    return EverfreshError(Code.ENVIRONMENT, f"{what}: {why}", place=place, hint=hint)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Raise what the system refuses in the block as an error of everfresh."""
    try:
        yield
    except OSError as error:
        raise environment(error, what) from error
