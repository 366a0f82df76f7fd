"""A store in a Redis Cluster: a partition is a hash tag, and every write is one function on its master.

"Stores on servers" in docs/design/key-value.md; the functions are in redis_functions.lua. Keys of partition p
of a store are `{everfresh:name:p}` and: `s`, what is known of it; `l`, its log as a stream with the offsets
as ids; `f`, its fences; `i` and a table's number, that table's keys in order; `r` table `:` key, a row. Redis
promotes replicas that may not have had the last writes: `life`, which is the master's replication id, is
another one then. Invariants: rows, entry and end of a write are one function; a call whose answer was lost is
made again only if it changes nothing, or is conditional.
"""

from __future__ import annotations

import heapq
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store import partition as core
from everfresh.kv.store.embedded import TOKENS, in_batches, table_json, table_of
from everfresh.kv.store.protocol import (
    ANY,
    Caps,
    Chunk,
    Client,
    Conflict,
    Entry,
    LogDiverged,
    LogTrimmed,
    Op,
    Partition,
    PartitionClosed,
    Position,
    Refused,
    Row,
    StoredTable,
)
from everfresh.kv.store.served import AnswerLost, Fenced, ServedStore, routed

MOST = 1000
"""Rows of a batch: the server does nothing else meanwhile."""
PATIENCE = 30.0
"""For so many seconds a cluster is asked again that is choosing a master."""
_PAUSE = 0.05


def package() -> Any:
    """The client library, or an error that says how to get it."""
    try:
        import redis as found
    except ImportError as error:
        raise EverfreshError(
            Code.ENVIRONMENT,
            "the client library of Redis is not installed",
            hint="pip install 'everfresh[redis]'",
        ) from error
    return found


class Link:
    """Calls of the functions, wherever the slot of their keys is served by now."""

    def __init__(self, nodes: Sequence[str], patience: float, wait: int = 0) -> None:
        self._wait = wait
        self._redis = package()
        self.refused = self._redis.ResponseError
        """What is raised for an error that a function returns."""
        self._patience = patience
        hosts = [node.rpartition(":") for node in nodes]
        self._where = ", ".join(nodes)
        self._down = (self._redis.ConnectionError, self._redis.TimeoutError, OSError)
        self._waits = (
            self._redis.exceptions.ClusterError, self._redis.exceptions.TryAgainError,
            self._redis.exceptions.SlotNotCoveredError, self._redis.BusyLoadingError,
            self._redis.ReadOnlyError, self._redis.exceptions.MovedError,
        )  # fmt: skip
        until = time.monotonic() + patience
        while True:
            try:
                self.cluster = self._redis.RedisCluster(
                    startup_nodes=[self._redis.cluster.ClusterNode(h, int(p)) for h, _, p in hosts],
                    retry=self._redis.retry.Retry(self._redis.backoff.NoBackoff(), 0),
                    socket_timeout=5,
                    socket_connect_timeout=5,
                )
                self.load()
                return
            except (*self._down, *self._waits, self._redis.exceptions.RedisClusterException) as error:
                if time.monotonic() > until:
                    raise self._silent(error) from error
                time.sleep(_PAUSE)

    def _silent(self, error: Exception) -> EverfreshError:
        return EverfreshError(
            Code.ENVIRONMENT,
            f"the Redis Cluster at {self._where} does not answer: {error}",
            hint="is it running, in cluster mode, and are all slots served?",
        )

    def load(self) -> None:
        """Have the functions on every master."""
        text = files("everfresh.kv.store").joinpath("redis_functions.lua").read_text()
        for node in self.cluster.get_primaries():
            self.cluster.execute_command("FUNCTION", "LOAD", "REPLACE", text, target_nodes=node)

    def call(self, name: str, keys: Sequence[bytes], *args: Any, again: bool = False) -> Any:
        """A function. Raises `AnswerLost` if nobody knows whether it was done, unless it may be made
        `again`."""

        def ask() -> Any:  # the node is named: the client would ask the server each time which keys these are
            node = self.cluster.get_node_from_key(keys[0])
            if self._wait and not again:
                return self._waited(node, ["FCALL", f"ef1_{name}", len(keys), *keys, *args])
            return self.cluster.execute_command(
                "FCALL", f"ef1_{name}", len(keys), *keys, *args, target_nodes=node
            )

        return self._patient(ask, again)

    def _waited(self, node: Any, command: Sequence[Any]) -> Any:
        """A write, and a while for a replica to have it: both on one connection."""
        pipeline = self.cluster.get_redis_connection(node).pipeline(transaction=False)
        pipeline.execute_command(*command)
        pipeline.execute_command("WAIT", 1, self._wait)
        answer, _ = pipeline.execute(raise_on_error=False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def every(self, commands: Sequence[tuple[bytes, Sequence[Any]]]) -> list[Any]:
        """The answers of many commands that only read, each with a key that says where: a pipeline for each
        node."""

        def ask() -> list[Any]:
            found: list[Any] = [None] * len(commands)
            places: dict[str, list[int]] = {}
            for i, (key, _) in enumerate(commands):
                places.setdefault(self.cluster.get_node_from_key(key).name, []).append(i)
            for name, listed in places.items():
                node = self.cluster.get_node(node_name=name)
                for start in range(0, len(listed), MOST):
                    some = listed[start : start + MOST]
                    pipeline = self.cluster.get_redis_connection(node).pipeline(transaction=False)
                    for i in some:
                        pipeline.execute_command(*commands[i][1])
                    for i, answer in zip(some, pipeline.execute(), strict=True):
                        found[i] = answer
            return found

        return list(self._patient(ask, True)) if commands else []

    def _patient(self, ask: Any, again: bool) -> Any:
        until = time.monotonic() + self._patience
        while True:
            try:
                return ask()
            except self._waits as error:  # it was not done
                failed: Exception = error
            except self._down as error:
                failed = error
                if not again and "connecting to" not in str(error):
                    self._look()
                    raise AnswerLost from error
            except self._redis.ResponseError as error:
                if "Function not found" not in str(error):
                    raise
                failed = error
            except self._redis.exceptions.RedisClusterException as error:
                failed = error
            if time.monotonic() > until:
                raise self._silent(failed) from failed
            time.sleep(_PAUSE)
            self._look("Function not found" in str(failed))

    def _look(self, load: bool = False) -> None:
        """See who serves which slots; it may be that nobody knows for a while."""
        try:
            self.cluster.nodes_manager.initialize()
            if load:
                self.load()
        except (*self._down, *self._waits, self._redis.exceptions.RedisClusterException):
            pass

    def close(self) -> None:
        """End the connections."""
        self.cluster.close()


class RedisStore(ServedStore):
    """A store below a name in a Redis Cluster."""

    caps = Caps(snapshot="none", splits=False, most=MOST, loses=True)

    def __init__(
        self,
        nodes: Sequence[str],
        name: str,
        partitions: int = 16,
        *,
        wait: int = 0,
        patience: float = PATIENCE,
    ) -> None:
        self._link = Link(nodes, patience, wait)
        self._tag = f"everfresh:{name}"
        self._manifest = f"{{{self._tag}}}m".encode()
        if not self._read_manifest():
            self._swap(b"", _manifest([], 1, partitions))
        self._read_manifest()
        bounds = [TOKENS * i // self._count for i in range(self._count + 1)]
        self._partitions = [Partition(i + 1, bounds[i], bounds[i + 1]) for i in range(self._count)]

    def _key(self, partition: int, rest: bytes) -> bytes:
        return f"{{{self._tag}:{partition}}}".encode() + rest

    def _own(self, partition: int) -> list[bytes]:
        """What every function of a partition is given."""
        return [self._key(partition, kind) for kind in (b"s", b"l", b"f")]

    def _rows_of(self, partition: int, table: int) -> bytes:
        return self._key(partition, b"r%d:" % table)

    def _index(self, partition: int, table: int) -> bytes:
        return self._key(partition, b"i%d" % table)

    # -- tables and partitions ---------------------------------------------------------------------

    def _read_manifest(self) -> bool:
        """See what tables there are; whether the store is there at all."""
        (found,) = self._link.every([(self._manifest, ("GET", self._manifest))])
        self._text = found or b""
        if found:
            data = json.loads(found)
            self._next, self._count = data["next"], data["partitions"]
            self._tables = {t.name: (n, t) for n, t in ((n, table_of(d)) for n, d in data["tables"])}
            self._names = {n: name for name, (n, _) in self._tables.items()}
        return bool(found)

    def _swap(self, old: bytes, new: bytes) -> bool:
        """Write what tables there are, if nobody has since it was read; whether it is there now."""
        try:
            return bool(self._link.call("swap", [self._manifest], old, new))
        except AnswerLost:
            (found,) = self._link.every([(self._manifest, ("GET", self._manifest))])
            return bool(found == new)

    def create_table(self, table: StoredTable) -> None:
        """Make a table; nothing happens if it is there just so."""
        while True:
            if self._is_there(table):
                return
            tables = [*self._tables.values(), (self._next, table)]
            self._swap(self._text, _manifest(tables, self._next + 1, self._count))

    def drop_table(self, name: str) -> None:
        """Remove a table and its rows."""
        while True:
            self._read_manifest()
            number, _ = self._known(name)
            left = [t for n, t in self._tables.items() if n != name]
            if self._swap(self._text, _manifest(left, self._next, self._count)):
                break
        self._read_manifest()
        for p in self._partitions:
            keys = [*self._own(p.id)[:1], self._index(p.id, number)]
            rows = self._rows_of(p.id, number)
            while self._link.call("clear", keys, number, rows, MOST, again=True) == MOST:
                pass

    def _by_name(self, *, anew: bool = False) -> Mapping[str, tuple[int, StoredTable]]:
        if anew:
            self._read_manifest()
        return self._tables

    def partitions(self) -> list[Partition]:
        """All partitions, each with the life of its master."""
        return [partition for partition, _ in self.ends()]

    def ends(self) -> list[tuple[Partition, Position]]:
        """All partitions, with the ends of their logs."""
        keys = [self._own(p.id)[0] for p in self._partitions]
        asked = [(key, ("FCALL", "ef1_about", 1, key)) for key in keys]
        found = []
        for p, (end, id_, term, owner, life) in zip(self._partitions, self._link.every(asked), strict=True):
            now = Partition(p.id, p.lo, p.hi, owner.decode(), int(term), (), life.decode())
            found.append((now, Position(int(end), id_)))
        self._partitions = [p for p, _ in found]
        return found

    def _routing(self) -> list[Partition]:
        return self._partitions

    def _look(self) -> None:
        self.ends()

    # -- rows --------------------------------------------------------------------------------------

    def multi_get(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Several rows, in the order of the keys."""
        while True:
            number, _ = self._known(table)
            places = (self._rows_of(routed(self._partitions, key).id, number) + key for key in keys)
            values = self._link.every([(place, ("GET", place)) for place in places])
            if None not in values or self._is_still(table, number):
                return [core.row_of(value) for value in values]

    def _is_still(self, table: str, number: int) -> bool:
        """Whether the store's table is the one with this number: where nothing is found, it may be one that
        somebody else has dropped. Raises if there is none any more."""
        self._read_manifest()
        return self._known(table)[0] == number

    def scan(
        self, table: str, lo: bytes | None = None, hi: bytes | None = None
    ) -> Iterator[list[tuple[bytes, Row]]]:
        """The rows from `lo` to before `hi`, in batches, in the order of the keys."""
        self._known(table)
        parts = (
            (pair for chunk in self.scan_chunks(p.id, table, lo, hi) for pair in chunk.rows)
            for p in self._partitions
        )
        return in_batches(heapq.merge(*parts, key=lambda pair: pair[0]))

    def scan_chunks(
        self,
        partition: int,
        table: str,
        lo: bytes | None = None,
        hi: bytes | None = None,
        *,
        size: int = core.BATCH,
    ) -> Iterator[Chunk]:
        """The rows of one partition as small snapshots."""
        number, _ = self._known(table)
        size = min(size, MOST)
        keys = [self._own(partition)[0], self._index(partition, number)]
        rows = self._rows_of(partition, number)
        low, end = lo or b"", b"+" if hi is None else b"(" + hi
        some = False
        while True:
            last, id_, found, values = self._link.call("chunk", keys, rows, b"[" + low, end, size, again=True)
            pairs = tuple(
                (key, row)
                for key, v in zip(found, values, strict=True)
                if (row := core.row_of(v)) is not None
            )
            at = Position(int(last), id_)
            some = some or bool(found)
            if not some and not self._is_still(table, number):
                yield from self.scan_chunks(partition, table, lo, hi, size=size)
                return
            if len(found) < size:
                yield Chunk(low, hi, at, pairs)
                return
            yield Chunk(low, found[-1] + b"\0", at, pairs)
            low = found[-1] + b"\0"

    def _apply(
        self, partition: int, ops: Sequence[Op], client: Client, term: int = 0, fence: Fenced | None = None
    ) -> int:
        """Write rows and entries of one partition, all or none."""
        while True:
            keys, args = self._own(partition), list[Any]()
            for op in ops:
                number, table = self._known(op.table)
                keys += [self._rows_of(partition, number) + op.key, self._index(partition, number)]
                expect = b"" if op.expect is ANY else op.expect
                kind = b"delete" if op.value is None else b"put"
                args += [number, int(table.logged), int(table.before_images), expect]
                args += [op.key, kind, op.value or b"", os.urandom(8)]
            head = (*fence,) if fence is not None else (b"", b"", b"")
            try:
                return int(self._link.call("write", keys, term, *head, client.name, client.seq, *args))
            except self._link.refused as error:
                name, _, rest = str(error).partition(" ")
                if name == "EFTABLE":
                    self._read_manifest()
                    continue
                raise _refusal(name, rest, ops) from error

    # -- the log -----------------------------------------------------------------------------------

    def log(self, partition: int, after: Position, limit: int = core.BATCH) -> list[Entry]:
        """The entries that follow a position."""
        found: list[Entry] = []
        while len(found) <= limit:
            some = min(limit + 1 - len(found), MOST)
            at = found[-1].offset + 1 if found else after.offset
            base, base_id, _, _, listed = self._link.call(
                "log", self._own(partition)[:2], at, some, again=True
            )
            if not found and after.offset < int(base):
                raise LogTrimmed
            found += [self._entry(id_, data) for id_, data in listed]
            if found and found[0].offset > after.offset and after != Position(int(base), base_id):
                break
            if len(listed) < some:
                break
        known = found[0].position if found and found[0].offset == after.offset else None
        if known is None and after.offset == int(base):
            known = Position(int(base), base_id)
        if known != after:
            raise LogDiverged(f"partition {partition} has other entries than were read from it")
        return [e for e in found if e.offset > after.offset][:limit]

    def _entry(self, id_: bytes, data: Sequence[bytes]) -> Entry:
        named = dict(zip(data[::2], data[1::2], strict=True))
        return Entry(
            int(id_.partition(b"-")[2]),
            named[b"i"],
            self._names.get(int(named[b"t"]), ""),
            named[b"k"],
            named.get(b"b"),
            named.get(b"a"),
            named.get(b"c", b""),
            int(named.get(b"q", 0)),
        )

    def entry(self, partition: int, offset: int) -> Entry | None:
        """The entry with an offset."""
        *_, found = self._link.call("log", self._own(partition)[:2], offset, 1, again=True)
        return self._entry(*found[0]) if found and int(found[0][0][2:]) == offset else None

    def log_end(self, partition: int) -> Position:
        """The position of the last entry."""
        end, id_, *_ = self._link.call("about", self._own(partition)[:1], again=True)
        return Position(int(end), id_)

    def log_trim(self, partition: int, upto: int) -> None:
        """Forget the entries up to and with an offset."""
        self._link.call("trim", self._own(partition)[:2], upto, again=True)

    # -- fences, splits, moves, snapshots ----------------------------------------------------------

    def fence(self, partition: int, group: str, term: int, epoch: int) -> None:
        """Refuse what writers of the group do with an earlier (term, epoch) from now on."""
        try:
            self._link.call("fence", self._own(partition), group, term, epoch, again=True)
        except self._link.refused as error:
            raise _refusal(str(error).partition(" ")[0], "", ()) from error

    def split(self, partition: int) -> tuple[int, int]:
        """Tags stay what they are; Redis moves slots between masters."""
        raise self._unsupported("splits", "move slots between masters: redis-cli --cluster reshard")

    def move(self, partition: int, owner: str) -> int:
        """Give a partition to another owner; returns the new term."""
        term = int(self._link.call("move", self._own(partition)[:1], owner))
        self._look()
        return term

    def snapshot(self, partitions: Sequence[int] | None = None) -> Any:
        """Redis has none."""
        raise self._unsupported("snapshots", "scan it in chunks, as the strategies SC, SCI and SCIMB do")

    def close(self) -> None:
        """End the connections."""
        self._link.close()


def _manifest(tables: Sequence[tuple[int, StoredTable]], next_: int, partitions: int) -> bytes:
    listed = [[number, table_json(table)] for number, table in tables]
    return json.dumps({"next": next_, "partitions": partitions, "tables": listed}).encode()


def _refusal(name: str, rest: str, ops: Sequence[Op]) -> Exception:
    """What a function's error means."""
    if name == "EFCONFLICT":
        at, actual = rest.split()
        return Conflict(ops[int(at)].table, ops[int(at)].key, int(actual))
    if name == "EFFENCED":
        return Refused()
    if name == "EFCLOSED":
        return PartitionClosed()
    return EverfreshError(Code.ENVIRONMENT, f"Redis refused: {name} {rest}")


__all__ = ["RedisStore"]
