"""A client of etcd's JSON gateway: ranges, transactions, watches, over plain HTTP.

etcd 3.4 and later serve their API as JSON below `/v3`; keys and values are base64, numbers are text. A
request goes to one member until that does not answer, then to the next. Invariants: what only reads is asked
again until it is answered or the time is up; a transaction whose answer was lost raises `AnswerLost`, and is
never sent twice from here.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from everfresh.errors import Code, EverfreshError
from everfresh.kv.store.served import AnswerLost

PATIENCE = 30.0
"""For so many seconds members are asked that do not answer."""
_PAUSE = 0.05
_COMPACTED = 11
_UNAVAILABLE = (2, 4, 14)
"""Codes of gRPC (unknown, deadline exceeded, unavailable) with which a member says that it cannot tell."""


class Compacted(Exception):
    """The revision that was asked for is no longer there."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it is at a revision."""

    key: bytes
    value: bytes
    mod: int
    """The revision of its last write; 0: it is not there."""


@dataclass(frozen=True, slots=True)
class Event:
    """A write as a watch tells it: None is absence."""

    revision: int
    key: bytes
    before: bytes | None
    after: bytes | None


Request = dict[str, Any]


def get(
    key: bytes, end: bytes | None = None, limit: int = 0, revision: int = 0, keys_only: bool = False
) -> Request:
    """A read of one key, or of the keys from one to before another."""
    what: Request = {"key": _text(key)}
    if end is not None:
        what["range_end"] = _text(end)
    if limit:
        what["limit"] = limit
    if revision:
        what["revision"] = revision
    if keys_only:
        what["keys_only"] = True
    return {"request_range": what}


def put(key: bytes, value: bytes, lease: int = 0) -> Request:
    """A write of one key."""
    what: Request = {"key": _text(key), "value": _text(value)}
    return {"request_put": {**what, "lease": lease} if lease else what}


def delete(key: bytes, end: bytes | None = None) -> Request:
    """A delete of one key, or of the keys from one to before another."""
    what: Request = {"key": _text(key)}
    return {"request_delete_range": what if end is None else {**what, "range_end": _text(end)}}


def unchanged(key: bytes, mod: int) -> Request:
    """The condition that the last write of a key is of this revision; 0: it is not there."""
    return {"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": mod}


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _key_value(data: Request) -> KeyValue:
    value = b64decode(data.get("value", ""))
    return KeyValue(b64decode(data["key"]), value, int(data.get("mod_revision", 0)))


class Gateway:
    """The members of one cluster, as `host:port`. Any thread may ask; each has a connection of its own."""

    def __init__(self, members: Sequence[str], *, patience: float = PATIENCE, timeout: float = 5.0) -> None:
        self.members, self.patience, self.timeout = tuple(members), patience, timeout
        self._first = 0
        self._mine = threading.local()
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    # -- calls -------------------------------------------------------------------------------------

    def read(self, requests: Sequence[Request]) -> tuple[int, list[list[KeyValue]]]:
        """Several reads at one revision: that revision, and the keys that each found."""
        answer = self._patient("/v3/kv/txn", {"success": list(requests)})
        return _revision(answer), [_found(part) for part in answer.get("responses", [])]

    def transact(self, compare: Sequence[Request], then: Sequence[Request]) -> bool:
        """Writes if all conditions hold; whether they did. Raises `AnswerLost`."""
        return bool(
            self._once("/v3/kv/txn", {"compare": list(compare), "success": list(then)}).get("succeeded")
        )

    def ask(self, path: str, body: Request) -> Request:
        """Another call that may be made twice."""
        return self._patient(path, body)

    def watch(self, key: bytes, end: bytes, revision: int) -> Iterator[list[Event] | None]:
        """The writes of these keys from a revision on, with what was there before: a list for each message of
        the server; None when it says that there was nothing for a while. Ends when the member does."""
        what = {"key": _text(key), "range_end": _text(end), "start_revision": revision, "prev_kv": True}
        member = self.members[self._first % len(self.members)]
        connection = http.client.HTTPConnection(member, timeout=self.timeout)
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": what}))
            response = connection.getresponse()
            while True:
                try:
                    line = response.readline()
                except TimeoutError:
                    yield None
                    return
                if not line:
                    return
                result = json.loads(line).get("result", {})
                if int(result.get("compact_revision", 0)):
                    raise Compacted
                yield [_event(e) for e in result.get("events", [])]
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()

    # -- requests ----------------------------------------------------------------------------------

    def _patient(self, path: str, body: Request) -> Request:
        until = time.monotonic() + self.patience
        while True:
            try:
                return self._once(path, body)
            except AnswerLost as error:
                if time.monotonic() > until:
                    raise self.silent() from error
                time.sleep(_PAUSE)

    def silent(self) -> EverfreshError:
        """What to raise when nobody answers."""
        return EverfreshError(
            Code.ENVIRONMENT,
            f"etcd does not answer at {', '.join(self.members)}",
            hint="is it running, and has it a majority of its members?",
        )

    def _once(self, path: str, body: Request) -> Request:
        """One request, to one member: to the next if nobody is there. Raises `AnswerLost`."""
        data = json.dumps(body)
        until = time.monotonic() + self.patience
        while True:
            member = self._first
            try:
                connection = self._connected(member)
            except OSError as error:  # nothing was sent
                self._next(member)
                if time.monotonic() > until:
                    raise self.silent() from error
                if self._first % len(self.members) == 0:
                    time.sleep(_PAUSE)
                continue
            try:
                connection.request("POST", path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer: Request = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._forget(connection)
                self._next(member)
                raise AnswerLost from error
            if "error" not in answer and "code" not in answer:
                return answer
            code = int(answer.get("code", 0))
            said = str(answer.get("message") or answer.get("error"))
            if code == _COMPACTED and "compacted" in said:
                raise Compacted
            if code in _UNAVAILABLE:
                self._next(member)
                raise AnswerLost(said)
            hint = "its limits are --max-txn-ops, --max-request-bytes and --quota-backend-bytes"
            raise EverfreshError(Code.ENVIRONMENT, f"etcd refused: {said}", hint=hint)

    def _connected(self, member: int) -> http.client.HTTPConnection:
        mine: tuple[int, http.client.HTTPConnection] | None = getattr(self._mine, "connection", None)
        if mine is not None and mine[0] == member and mine[1].sock is not None:
            return mine[1]
        if mine is not None:
            self._forget(mine[1])
        made = http.client.HTTPConnection(self.members[member % len(self.members)], timeout=self.timeout)
        made.connect()
        self._mine.connection = member, made
        with self._lock:
            self._open.add(made)
        return made

    def _forget(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            self._open.discard(connection)

    def _next(self, member: int) -> None:
        """Ask another member from now on, unless somebody has turned already."""
        with self._lock:
            if self._first == member:
                self._first = member + 1


def _revision(answer: Request) -> int:
    return int(answer["header"]["revision"])


def _found(part: Request) -> list[KeyValue]:
    return [_key_value(kv) for kv in part.get("response_range", {}).get("kvs", [])]


def _event(data: Request) -> Event:
    now = _key_value(data["kv"])
    before = b64decode(data["prev_kv"].get("value", "")) if "prev_kv" in data else None
    return Event(now.mod, now.key, before, None if data.get("type") == "DELETE" else now.value)
