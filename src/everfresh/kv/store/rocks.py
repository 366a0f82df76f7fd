"""A space in RocksDB: one database in a folder, which one process opens for writing.

"Store" in docs/design/key-value.md. A pin is a raw iterator made at that moment: rocksdict's own `Snapshot`
pins what is read by key, and not what its iterators read. Invariant: with `sync`, what `apply` wrote is on
disk when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store.space import Pairs


def rocksdict() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import rocksdict as found
    except ImportError as error:
        raise EverfreshError(
            Code.ENVIRONMENT, "RocksDB is not installed", hint="pip install 'everfresh[kv]'"
        ) from error
    return found


class RocksPin:
    """A space as it was when this was made."""

    def __init__(self, iterator: Any) -> None:
        self._iterator: Any = iterator
        self._lock = Lock()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        found = self.range(key, key + b"\0", 1)
        return found[0][1] if found else None

    def range(self, lo: bytes, hi: bytes | None, limit: int) -> Pairs:
        """The first keys from `lo` to before `hi` with their values."""
        found: Pairs = []
        with self._lock:
            at = self._iterator
            at.seek(lo)
            while len(found) < limit and at.valid():
                key = at.key()
                if hi is not None and key >= hi:
                    break
                found.append((key, at.value()))
                at.next()
        return found

    def close(self) -> None:
        """Let RocksDB drop what only this has read."""
        with self._lock:
            self._iterator = None


class RocksSpace:
    """A space in a folder."""

    pins = True

    def __init__(self, path: Path, *, sync: bool) -> None:
        rocks = self._rocks = rocksdict()
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        try:
            self._db = rocks.Rdict(str(path), options)
        except Exception as error:
            told = str(error).lower()
            if "lock file" not in told and "lock hold" not in told:
                raise EverfreshError(
                    Code.ENVIRONMENT,
                    f"RocksDB cannot open the store in {path}: {error}",
                    hint="a folder that `everfresh kv serve` made, or an empty one",
                ) from error
            raise EverfreshError(
                Code.LOCKED,
                f"another process writes the store in {path}",
                hint="one process opens a store; others go through it",
            ) from error
        self._how = rocks.WriteOptions()
        self._how.sync = sync

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        found: bytes | None = self._db.get(key)
        return found

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of several keys."""
        return list(self._db.get(list(keys))) if keys else []

    def range(self, lo: bytes, hi: bytes | None, limit: int) -> Pairs:
        """The first keys from `lo` to before `hi` with their values."""
        pin = self.pin()
        found = pin.range(lo, hi, limit)
        pin.close()
        return found

    def apply(self, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write all of these or none."""
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, value in writes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch, self._how)

    def drop(self, lo: bytes, hi: bytes) -> None:
        """Delete the keys from `lo` to before `hi`."""
        batch = self._rocks.WriteBatch(raw_mode=True)
        batch.delete_range(lo, hi)
        self._db.write(batch, self._how)

    def pin(self) -> RocksPin:
        """The space as it is now."""
        return RocksPin(self._db.iter())

    def flush(self) -> None:
        """Have on disk what was written until now."""
        self._db.flush_wal(True)

    def close(self) -> None:
        """Close the database."""
        self._db.close()
