"""The owner of a store: answers its calls, protocol calls and consistent reads over a Unix socket.

A thread for each connection; the store's own locks make calls atomic. Reads are done here, beside the rows
and the heads, so that a point read is one request. Invariant: only the calls in `CALLS` are answered.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.definitions import VIEWS, definitions
from everfresh.kv.process import points, wire
from everfresh.kv.process.load import Load
from everfresh.kv.process.mail import Boxes
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.head import HEADS, Head, shown
from everfresh.kv.runtime.generations import ends, lives
from everfresh.kv.store import Conflict, Store

CALLS = (
    "create_table", "drop_table", "tables", "partitions", "partition_of", "get", "multi_get", "put", "delete",
    "write", "log", "entry", "log_end", "log_trim", "fence", "prepare", "resolve", "collect", "split", "move",
)  # fmt: skip
WRITES = ("put", "delete", "write")
Policy = Literal["slow", "detach"]
POLICIES: tuple[Policy, ...] = ("slow", "detach")
SLOWED = 0.002
"""By how much a write waits while the logs hold more than they may."""


class Server:
    """A store behind a socket."""

    def __init__(
        self, store: Store, path: str | Path, *, log_entries: int = 0, policy: Policy = "slow"
    ) -> None:
        """Above so many entries that a view has not seen the policy says what becomes of it: writers are
        slowed, or it is detached and made anew."""
        self.store, self.path, self.client = store, Path(path), Client(store, fresh_for=float("inf"))
        self.log_entries, self.policy = log_entries, policy
        self.counts: Counter[str] = Counter()
        self.managers: list[int] = []
        """The processes that maintain views."""
        self.master: int | None = None
        self.load = Load()
        boxes = Boxes()
        self.began = time.monotonic()
        self._slow = False
        self._point = points.point(points.OWNER)
        self._closing = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(str(self.path))
        except OSError as error:
            raise EverfreshError(
                Code.ENVIRONMENT, f"cannot listen at {self.path}: {error}", hint="take a shorter path"
            ) from error
        os.chmod(self.path, 0o600)
        self._socket.listen(64)
        self._connections: set[socket.socket] = set()
        self._answers: dict[str, Callable[..., Any]] = {
            **{name: getattr(store, name) for name in CALLS},
            "caps": lambda: store.caps,
            "perform": lambda call: perform(store, call),
            "scan": self._scan,
            "chunk": self._chunk,
            "read": lambda view: wire.table_bytes(self.client.read(view)),
            "read_row": self._read_row,
            "packed_log": self._packed_log,
            "status": self.status,
            "beat": self.load.beat,
            "beats": self.load.beats,
            "post": boxes.post,
            "fetch": boxes.fetch,
        }

    def serve(self) -> None:
        """Answer until `close`."""
        while not self._closing:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.add(connection)
            threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _answer_all(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while (data := wire.receive(connection)) is not None and not self._closing:
                wire.send(connection, self._answer(data))
        self._connections.discard(connection)

    def _answer(self, data: bytes) -> bytes:
        try:
            call, args, how = wire.unpack(data)
            if call not in self._answers:
                raise EverfreshError(Code.UNSUPPORTED, f"there is no call '{call}'")
            self.counts[call] += 1
            if self._slow and call in WRITES:
                time.sleep(SLOWED)
            answer = self._do(call, args, how)
            if call in WRITES:
                self.load.wrote(self.store)
            if call in WRITES and args[0] == VIEWS.name:
                self.client.forget()
            return packed_answer(call, answer)
        except Exception as error:
            return wire.pack(wire.packed_error(error))

    def _do(self, call: str, args: Any, how: Any) -> Any:
        if self._point is None:
            return self._answers[call](*args, **how)
        kind = type(args[0]).__name__.lower() if call == "perform" else call
        return self._point.around(kind, lambda: self._answers[call](*args, **how))

    # -- calls that are not the store's ------------------------------------------------------------

    def _scan(self, table: str, lo: bytes, hi: bytes | None, limit: int) -> Any:
        found: list[Any] = []
        for batch in self.store.scan(table, lo, hi):
            found += batch[: limit - len(found)]
            if len(found) >= limit:
                break
        return found

    def _chunk(self, partition: int, table: str, lo: bytes | None, hi: bytes | None, size: int) -> Any:
        return next(iter(self.store.scan_chunks(partition, table, lo, hi, size=size)))

    def _read_row(self, view: str, *key: Any, arrow: bytes | None = None) -> Any:
        """A row; its key comes as plain values where they travel and as Arrow where not."""
        if arrow is not None:
            columns = wire.bytes_table(arrow)
            named = zip(columns.column_names, columns, strict=True)
            key = tuple(column[0].as_py() for name, column in named if name)
        return self.client.read_row(view, *key)

    def _packed_log(self, *given: Any) -> Any:
        """A slice of a log as it is stored; None if the store has no such thing."""
        packed = getattr(self.store, "packed_log", None)
        return None if packed is None else packed(*given)

    # -- how it is ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Views with how far behind they are, logs, and what was asked."""
        ends = {p.id: self.store.log_end(p.id).offset for p in self.store.partitions()}
        views, heads = {}, {}
        for name, of in sorted(definitions(self.store).items()):
            if of.group not in heads:
                row = self.store.get(HEADS.name, of.group.encode())
                heads[of.group] = Head() if row is None else Head.from_bytes(row.value)
            head = heads[of.group]
            behind = sum(
                max(0, end - head.cut.of(id_).offset) for id_, end in ends.items() if id_ in head.cut.at
            )
            views[name] = {
                "group": of.group,
                "strategy": of.strategy,
                "epoch": shown(head.committed),
                "seen": {str(id_): at.offset for id_, at in sorted(head.cut.at.items())},
                "term": head.term,
                "behind": behind,
                "staleness_s": self.load.staleness(head.cut),
                **self.load.of(of.group),
            }
        return {
            "seconds": round(time.monotonic() - self.began, 3),
            "log_ends": {str(id_): end for id_, end in ends.items()},
            "slowed": self._slow,
            "managers": self.managers,
            "master": self.master,
            "views": views,
            "calls": dict(self.counts),
        }

    def retain(self) -> None:
        """Trim what all views have seen; the policy says what becomes of one that holds back too much."""
        heads, late = dict[str, Head](), False
        at = {p: self.store.log_end(p.id).offset for p in self.store.partitions()}
        for group, of in {d.group: d for d in definitions(self.store).values()}.items():
            row = self.store.get(HEADS.name, group.encode())
            head = Head() if row is None else Head.from_bytes(row.value)
            if "@" in group and not head.loading:
                continue  # a generation that is made needs no log
            held = sum(
                max(0, end - head.cut.of(p.id).offset)
                for p, end in at.items()
                if p.open or p.id in head.cut.at
            )
            if row is not None and held > self.log_entries > 0 and not head.loading:
                late = True
                if self.policy == "detach":
                    head = self._detached(group, of.born, head, row.version)
            heads[group] = head
        if not heads:
            return
        for partition, end in at.items():
            upto = min((head.cut.of(partition.id).offset for head in heads.values()), default=end)
            self.store.log_trim(partition.id, upto)
        self._slow = self.policy == "slow" and late

    def _detached(self, group: str, born: int, head: Head, version: int) -> Head:
        """Let a group be made anew of what is there by now: whoever maintains it loses its term by this."""
        served = lives(self.store)
        new = head.begun_again(ends(self.store), served, born)
        try:
            self.store.put(HEADS.name, group.encode(), new.to_bytes(), expect=version)
        except Conflict:  # it has just come further
            return head
        return new


def packed_answer(call: str, answer: Any) -> bytes:
    """An answer as a message: a row is plain values, and Arrow if one of them does not travel."""
    try:
        return wire.pack({"answer": answer})
    except TypeError:
        if call != "read_row":
            raise
        row = pa.table({name: [value] for name, value in answer.items()})
        return wire.pack({"answer": wire.table_bytes(row)})
