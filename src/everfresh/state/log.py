"""The commit log of the local engine: records appended to one open file; those that are committed together
with one write and one sync.

`log/<first epoch>.log` is a sequence of frames, each followed by a sealed commit record. The next file's
name is the epoch after the last one here, so a reader needs no list to go on.

Invariants:

- The index holds only records whose digest was checked; `create` returns when the record is on the disk.
- A last record that is not whole was never acknowledged: it counts as absent, and the writer cuts it off
  when it opens the log. If all its bytes are there, and wrong, they are kept in a file `.torn` for whoever
  wants to look.
- Anything wrong before the last record is damage and is refused. To tell the two apart a frame has a
  checksum of its own, and the rest of the file is searched for frames of later epochs. So is a log that ends
  before an epoch that is known to have been acknowledged (`reached`).
- A write that fails leaves the log as it was.

There is one writer, which holds the lock of the folder. Readers in other processes follow the file and never
change it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from everfresh.errors import Code, EverfreshError
from everfresh.state.environment import environment
from everfresh.state.faults import crash
from everfresh.state.files import sealed_length, sync_folder, write_all
from everfresh.state.frames import FRAME_BYTES, frames_in, is_interrupted, make_frame, problem_of, read_frame
from everfresh.state.reached import Reached

_NAME = re.compile(r"(\d{10})\.log")
_sync_data = getattr(os, "fdatasync", os.fsync)  # not every system has the first


@dataclass(slots=True)
class _Segment:
    """One file: it holds the epochs from `first` up to, without, `following` in its first `end` bytes."""

    path: Path
    fd: int
    first: int
    following: int
    end: int = 0

    def read(self, length: int, offset: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        data = os.pread(self.fd, length, offset)
        while len(data) < length and (more := os.pread(self.fd, length - len(data), offset + len(data))):
            data += more
        return data


class LogCommits:
    """A `CommitStore` in append-only files, for one writer and any number of readers."""

    def __init__(
        self,
        folder: Path,
        durable: bool,
        writer: bool,
        fault: str | None = None,
        reached: Reached | None = None,
    ) -> None:
        self._root = folder
        self._folder = folder / "log"
        self._durable = durable
        self._writer = writer
        self._fault = fault
        self._reached = reached
        self._lock = threading.Lock()
        self._writing = threading.Lock()  # beside the other, so that readers need not wait for the disk
        self._segments: list[_Segment] = []
        self._index: dict[int, tuple[_Segment, int, int]] = {}
        self._broken = False
        self._closed = False
        try:
            if writer:
                self._folder.mkdir(parents=True, exist_ok=True)
            self._load()
            if reached is not None:
                reached.check(self._following() - 1)
            if writer:
                self._recover()
        except BaseException:
            self._writer = False  # there is nothing to leave
            self.close()
            raise

    def create(self, epoch: int, data: bytes) -> bool:
        """Append the record; when this fails, the log is as before and the error says why."""
        return self.create_all(epoch, [data])

    def create_all(self, first: int, records: Sequence[bytes]) -> bool:
        """Append the records of `first` and the epochs after it with one write and one sync: all, or none."""
        if any(sealed_length(data) != len(data) for data in records):
            raise ValueError("a commit record must be sealed")
        with self._writing:
            with self._lock:
                self._require_writer()
                segment = self._segments[-1]
                if first < segment.following:
                    return False
                if first > segment.following:
                    raise ValueError(f"epoch {first} cannot follow {segment.following - 1}: epochs are dense")
                start = segment.end
            chunks = [(make_frame(first + i, len(data)), data) for i, data in enumerate(records)]
            try:
                write_all(segment.fd, [part for chunk in chunks for part in chunk])
                crash("mid-commit", self._fault, scratch=self._root / "inbox")
                if self._durable:
                    _sync_data(segment.fd)
                with self._lock:
                    for data in records:
                        self._add(segment, len(data))
            except BaseException as error:  # also an interrupt: what is not acknowledged must not stay
                with self._lock:
                    for epoch in range(first, first + len(records)):
                        self._index.pop(epoch, None)
                    segment.following, segment.end = first, start
                    self._broken = not self._cut(segment)
                if isinstance(error, OSError):
                    raise environment(error, f"{segment.path}: epoch {first} was not written") from error
                raise
            if self._reached is not None:
                self._reached.passed(first + len(records) - 1)
            return True

    def read(self, epoch: int) -> bytes | None:
        """The record as it was given to `create`."""
        with self._lock:
            if epoch not in self._index:
                self._refresh()
            if epoch not in self._index:
                return None
            segment, offset, length = self._index[epoch]
            return segment.read(length, offset)

    def name(self, epoch: int) -> str:
        """The file that holds the record, and the epoch."""
        entry = self._index.get(epoch)
        return f"{entry[0].path if entry else self._folder} (epoch {epoch})"

    def last(self) -> int:
        """The writer knows; a reader looks at the size of the last file, and for the next one."""
        with self._lock:
            self._refresh()
            return self._following() - 1

    def first(self) -> int:
        """The lowest epoch in the files that are still there."""
        with self._lock:
            self._refresh()
            self._forget([segment for segment in self._segments if os.fstat(segment.fd).st_nlink == 0])
            return self._segments[0].first if self._segments else 1

    def rotate(self) -> None:
        """Begin a new file, unless the current one is empty."""
        with self._lock:
            self._require_writer()
            if self._segments[-1].end:
                os.fsync(self._segments[-1].fd)  # always: only the last file may end in a torn record
                self._begin(self._following())

    def trim(self, below: int) -> None:
        """Remove the files that hold only epochs lower than `below`; the current one stays."""
        with self._lock:
            self._require_writer()
            old = [segment for segment in self._segments[:-1] if segment.following <= below]
            for segment in old:  # upwards, so that the files left follow each other at every moment
                segment.path.unlink(missing_ok=True)
            self._forget(old)
            if self._durable:
                sync_folder(self._folder)

    def reopen(self) -> None:
        """Read the files again: somebody was interrupted in here, and what is known of them may be wrong."""
        with self._writing, self._lock:
            self._index, self._broken = {}, False
            self._load()
            if self._writer:
                self._recover()

    def close(self) -> None:
        """Close the files; a closed store refuses everything but another `close`."""
        with self._lock:
            if self._writer and not self._closed and self._reached is not None:
                self._reached.write(self._following() - 1)
            self._closed = True
            self._forget(list(self._segments))

    # -- the writer ------------------------------------------------------------------------------------------

    def _require_writer(self) -> None:
        if not self._writer:
            raise EverfreshError(Code.READ_ONLY, "the database is open for reading only")
        self._refresh()
        if self._broken and not self._cut(self._segments[-1]):
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"an earlier write to {self._folder} failed, and cannot be taken back yet",
                hint="see to the disk, and try again",
            )
        self._broken = False

    def _begin(self, epoch: int) -> None:
        path = self._folder / f"{epoch:010d}.log"
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._segments.append(_Segment(path, fd, epoch, epoch))
        if self._durable:
            sync_folder(self._folder)

    def _recover(self) -> None:
        """Cut off a last record that is not whole."""
        if not self._segments:
            self._begin(1)
        segment = self._segments[-1]
        tail = segment.read(os.fstat(segment.fd).st_size - segment.end, segment.end)
        if not tail:
            return
        if not is_interrupted(tail, segment.following):
            segment.path.with_name(f"{segment.path.name}.{os.urandom(4).hex()}.torn").write_bytes(tail)
        os.ftruncate(segment.fd, segment.end)
        if self._durable:
            os.fsync(segment.fd)

    def _cut(self, segment: _Segment) -> bool:
        """Take back what was written beyond the end; if even that fails, nothing more may be written."""
        try:
            os.ftruncate(segment.fd, segment.end)
            if self._durable:
                _sync_data(segment.fd)
        except OSError:
            return False
        return True

    # -- reading ---------------------------------------------------------------------------------------------

    def _following(self) -> int:
        return self._segments[-1].following if self._segments else 1

    def _refresh(self) -> None:
        if self._closed:
            raise EverfreshError(Code.CLOSED, "the database is closed", hint="connect again")
        if not self._writer:
            self._follow()

    def _load(self) -> None:
        """Open all files and index their records; all of them, or none."""
        while True:
            self._forget(list(self._segments))
            try:
                names = sorted(name for name in os.listdir(self._folder) if _NAME.fullmatch(name))
                for name in names:
                    self._open(self._folder / name)
                break
            except FileNotFoundError:  # trimmed since it was listed, or the folder has no log yet
                if not self._folder.exists():
                    return
        try:
            for segment, later in zip_longest(self._segments, self._segments[1:]):
                self._scan(segment)
                if later is not None and segment.following != later.first:
                    raise _damaged(segment, later.first - 1, f"the next file begins with epoch {later.first}")
        except BaseException:
            self._forget(list(self._segments))
            raise

    def _open(self, path: Path) -> None:
        fd = os.open(path, (os.O_RDWR | os.O_APPEND if self._writer else os.O_RDONLY) | os.O_CLOEXEC)
        first = int(path.name[:10])
        self._segments.append(_Segment(path, fd, first, first))

    def _follow(self) -> None:
        """Index what a writer has added since, in this file and in those after it."""
        while True:
            if not self._segments:
                return self._load()
            segment = self._segments[-1]
            state = os.fstat(segment.fd)
            if state.st_nlink == 0 or state.st_size < segment.end:  # trimmed while we slept, or taken back
                return self._load()
            self._scan(segment)
            if segment.following == segment.first:
                return None
            try:
                self._open(self._folder / f"{segment.following:010d}.log")
            except FileNotFoundError:
                return None

    def _forget(self, segments: list[_Segment]) -> None:
        for segment in segments:
            self._segments.remove(segment)
            for epoch in range(segment.first, segment.following):
                self._index.pop(epoch, None)
            os.close(segment.fd)

    def _add(self, segment: _Segment, length: int) -> None:
        self._index[segment.following] = (segment, segment.end + FRAME_BYTES, length)
        segment.end += FRAME_BYTES + length
        segment.following += 1

    def _scan(self, segment: _Segment) -> None:
        """Index the records from the end of what is known, up to one that is not whole."""
        size = os.fstat(segment.fd).st_size
        while segment.end < size:
            start, epoch = segment.end + FRAME_BYTES, segment.following
            frame = read_frame(segment.read(FRAME_BYTES, segment.end))
            if frame is not None and frame[0] != epoch:
                raise _damaged(segment, max(frame[0], epoch), f"epoch {frame[0]} stands in its place")
            if frame is not None and start + frame[1] > size:
                return  # cut short: a write that did not finish, or is not finished yet
            if frame is None:
                problem = "its frame is damaged"
            else:
                problem = problem_of(segment.read(frame[1], start), epoch)
            if problem or frame is None:
                rest = segment.read(size - segment.end, segment.end)
                later = [number for number in frames_in(rest) if number > epoch]
                if later or (frame is not None and start + frame[1] < size):
                    raise _damaged(segment, max([epoch, *later]), problem)
                return
            self._add(segment, frame[1])


def _damaged(segment: _Segment, until: int, problem: str) -> EverfreshError:
    epoch = segment.following
    lost = f"epoch {epoch}" if until <= epoch else f"epochs {epoch} to {until}"
    return EverfreshError(
        Code.DAMAGED,
        f"{segment.path} is damaged at byte {segment.end}, {lost}: {problem}",
        hint=f"restore the file from a backup of the folder; the log is whole up to epoch {epoch - 1}",
    )
