"""Sealed files, and the two ways to put one into a folder: created if absent, or replaced.

Implements "Files of a folder" of docs/design/state.md. A sealed file is

    magic, version, length of kind, length of header, length of file | kind | header and directory (JSON)
    | sections, each at a multiple of 64 bytes from the start of the file | digest

The digest is the blake2b-16 of what stands before the sections, and of the crc-32 of these: a record is
sealed within every batch, and a crc costs a quarter. In layout 1, which is still read, it is that of all
before.

Invariant: under its final name a file is whole or absent, and one that is not exactly what was sealed is
never opened. Sections are views of the data given to `open_sealed`, aligned as numerical kernels like them
when that data starts at an aligned address, as a memory-mapped file does.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"\x89EVFRSH\n"
VERSION = 2
ALIGNMENT = 64
DIGEST_BYTES = 16
RESTORE = "restore the file from a backup of the folder, or go back to the last epoch that verifies"

_PREFIX = struct.Struct("<8sHHIQ")
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK)
_MOST_CHUNKS = 512  # of one writev; the system's limit is 1,024

# Temporaries that this process is writing now: garbage collection must leave them alone.
_live: set[str] = set()


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a sealed file holds; `sections` are views of the bytes it was opened from."""

    header: dict[str, Any]
    sections: dict[str, memoryview]
    digest: str


class _Header(dict[str, Any]):
    """A header; what it lacks is damage."""

    def __init__(self, fields: dict[str, Any], damaged: Callable[[str], EverfreshError]) -> None:
        super().__init__(fields)
        self._damaged = damaged

    def __missing__(self, field: str) -> Any:
        raise self._damaged(f"its header has no {field}")


def byte_view(data: Buffer) -> memoryview:
    """A flat view of the bytes of any contiguous buffer."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")  # a shape with a zero in it cannot be cast


def aligned(offset: int) -> int:
    """The first multiple of the alignment at or after `offset`.

    >>> aligned(0), aligned(1), aligned(64)
    (0, 64, 64)
    """
    return -(-offset // ALIGNMENT) * ALIGNMENT


def seal_chunks(
    kind: str, header: Mapping[str, Any], sections: Mapping[str, Buffer | list[Buffer]]
) -> list[Buffer]:
    """The sealed file as a list of chunks, so that large sections are written without being copied. A section
    may be in chunks itself."""
    views = {name: [byte_view(chunk) for chunk in _chunks(data)] for name, data in sections.items()}
    directory: dict[str, tuple[int, int]] = {}
    end = 0  # counted from the payload, which is aligned itself
    for name, some in views.items():
        size = sum(view.nbytes for view in some)
        directory[name] = (aligned(end), size)
        end = aligned(end) + size
    text = json.dumps(
        {"header": header, "sections": directory}, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()
    label = kind.encode()
    start = aligned(_PREFIX.size + len(label) + len(text))
    total = start + end + DIGEST_BYTES
    front = _PREFIX.pack(MAGIC, VERSION, len(label), len(text), total) + label + text
    chunks: list[Buffer] = [front.ljust(start, b"\0")]
    at = 0
    for name, some in views.items():
        offset, length = directory[name]
        chunks += [bytes(offset - at), *some]
        at = offset + length
    return [*chunks, _digest(chunks[0], chunks[1:])]


def _digest(front: Buffer, payload: Sequence[Buffer]) -> bytes:
    crc = 0
    for chunk in payload:
        crc = zlib.crc32(chunk, crc)
    return hashlib.blake2b(bytes(front) + crc.to_bytes(4, "little"), digest_size=DIGEST_BYTES).digest()


def seal(kind: str, header: dict[str, Any], sections: Mapping[str, Buffer | list[Buffer]]) -> bytes:
    """A sealed file as bytes; equal arguments give equal bytes.

    >>> sealed = open_sealed(seal("note", {"epoch": 7}, {"text": b"hello"}), "note")
    >>> sealed.header, bytes(sealed.sections["text"])
    ({'epoch': 7}, b'hello')
    """
    return b"".join(seal_chunks(kind, header, sections))


def sealed_length(start: Buffer) -> int | None:
    """The length a sealed file says it has, from its first bytes; None when they are not those of one."""
    view = byte_view(start)
    if view.nbytes < _PREFIX.size or view[: len(MAGIC)] != MAGIC:
        return None
    length: int = _PREFIX.unpack_from(view)[4]
    return length


def is_cut_short(start: Buffer, size: int) -> bool:
    """Whether a file with this start and size lacks its end, as an interrupted write leaves it."""
    return size < _PREFIX.size or (sealed_length(start) or 0) > size


def open_sealed(data: Buffer, kind: str, name: str = "", hint: str = RESTORE) -> Sealed:
    """Open a sealed file of that kind without copying it; anything else is refused as damaged."""
    view = byte_view(data)

    def damaged(what: str) -> EverfreshError:
        return EverfreshError(Code.DAMAGED, f"{name or 'a sealed file'} is damaged: {what}", hint=hint)

    length = sealed_length(view)
    if length is None:
        raise damaged(f"{view.nbytes} bytes that do not start as a file of everfresh does")
    _, version, label_length, text_length, _ = _PREFIX.unpack_from(view)
    if version not in (1, VERSION):
        raise damaged(f"its layout is of version {version}, and this release reads versions 1 and {VERSION}")
    label_end = _PREFIX.size + label_length
    start = aligned(label_end + text_length)
    if length != view.nbytes or length < start + DIGEST_BYTES:
        raise damaged(f"it is {view.nbytes} bytes long and should be {length}")
    if version == 1:
        digest = hashlib.blake2b(view[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest()
    else:
        digest = _digest(view[:start], [view[start:-DIGEST_BYTES]])
    if digest != view[-DIGEST_BYTES:]:
        raise damaged("its digest does not fit its contents")
    found = bytes(view[_PREFIX.size : label_end]).decode(errors="replace")
    if found != kind:
        raise damaged(f"it is a {found}, where a {kind} belongs")
    payload = view[start:-DIGEST_BYTES]
    try:  # a digest can be made by anybody
        content = json.loads(bytes(view[label_end : label_end + text_length]))
        places = content["sections"].items()
        sections = {key: payload[offset : offset + size] for key, (offset, size) in places}
        return Sealed(_Header(content["header"], damaged), sections, digest.hex())
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged(f"its directory cannot be read: {error}") from error


def plain(data: Buffer, what: str) -> Any:
    """What JSON says; bytes that are none are refused as damaged."""
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise EverfreshError(Code.DAMAGED, f"{what} is damaged: {error}", hint=RESTORE) from error


def write_all(fd: int, chunks: Sequence[Buffer]) -> None:
    """Write all chunks at the position of `fd`: one system call, unless the system takes less at once."""
    views = [view for view in map(byte_view, chunks) if view.nbytes]
    while views:
        written = os.writev(fd, views[:_MOST_CHUNKS])
        while views and written >= views[0].nbytes:
            written -= views.pop(0).nbytes
        if written:
            views[0] = views[0][written:]


def sync_file(path: Path) -> None:
    """Wait until the contents of a file are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(folder)


def live_temporaries() -> frozenset[str]:
    """The paths of the temporaries this process is writing now."""
    return frozenset(_live)


def _write_new(path: str, chunks: Sequence[Buffer], durable: bool) -> None:
    """Create `path`, which must not exist, with these contents."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        write_all(fd, chunks)
        if durable:
            os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


@contextlib.contextmanager
def _temporary(path: Path, chunks: Sequence[Buffer], durable: bool) -> Iterator[str]:
    """A whole (and durable) temporary beside `path`; gone at the end unless it was renamed."""
    name = f"{path}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    _live.add(name)
    try:
        _write_new(name, chunks, durable)
        try:
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
    finally:
        _live.discard(name)


def _chunks(data: Buffer | list[Buffer]) -> list[Buffer]:
    return data if isinstance(data, list) else [data]


def create_file(
    path: Path, data: Buffer | list[Buffer], durable: bool, before_publish: Callable[[], None] | None = None
) -> bool:
    """Create a file if it is absent, atomically; False when somebody else has created it.

    `link` refuses an existing name, which `rename` would overwrite without a word. `before_publish` runs when
    the temporary is whole and the name not yet taken.
    """
    if path.exists():  # spares the write; the link below is what decides
        return False
    chunks = _chunks(data)
    with _temporary(path, chunks, durable) as temporary:
        if before_publish is not None:
            before_publish()
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may have made the link and lost the answer: then the file has two names.
            if os.stat(temporary).st_nlink != 2:
                return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without links the name is taken before the contents are whole: readers check the length.
            try:
                _write_new(str(path), chunks, durable)
            except FileExistsError:
                return False
    if durable:
        sync_folder(path.parent)
    return True


def replace_file(
    path: Path, data: Buffer | list[Buffer], durable: bool, before_publish: Callable[[], None] | None = None
) -> None:
    """Put a file in place atomically, over an older one: for names that stand for their contents."""
    with _temporary(path, _chunks(data), durable) as temporary:
        if before_publish is not None:
            before_publish()
        os.replace(temporary, path)
    if durable:
        sync_folder(path.parent)
