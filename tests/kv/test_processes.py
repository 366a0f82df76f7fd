"""A served store with real processes: killed, stopped and gone on with, under write load."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.kv.client import Client
from everfresh.kv.process import wire
from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.process.ring import RING, Ring, read_ring, write_ring
from everfresh.kv.process.server import Server, packed_answer
from everfresh.kv.store import (
    ANY,
    START,
    Conflict,
    Entry,
    LogTrimmed,
    Op,
    Position,
    Row,
    memory_store,
)
from everfresh.kv.views import Views

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(9,2))"
SPEND = """CREATE MATERIALIZED VIEW spend AS
    SELECT cust, SUM(price) AS s, COUNT(*) AS n FROM orders GROUP BY cust"""
BIG = (
    "CREATE MATERIALIZED VIEW big WITH (layout = 'own') AS SELECT COUNT(*) AS n FROM orders WHERE price > {0}"
)


@contextmanager
def served(folder: Path, *options: str, **environment: str) -> Iterator[tuple[str, list[int]]]:
    """`everfresh kv serve` as a process; ended by SIGTERM, whatever happens."""
    path = Path(mkdtemp()) / "s"  # the folder of a test may be too long for a socket
    how = [sys.executable, "-m", "everfresh", "kv", "serve", str(folder), "--socket", str(path)]
    child = subprocess.Popen(
        [*how, "--partitions", "2", *options], stdout=subprocess.PIPE, env={**os.environ, **environment}
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        yield str(path), json.loads(line)["managers"]
    finally:
        child.send_signal(signal.SIGCONT)
        child.terminate()
        assert child.wait(30) == 0
        assert not path.exists()


def write(random: Random, client: Client, count: int) -> None:
    for _ in range(count):
        id_ = random.randrange(40)
        if random.random() < 0.25:
            client.delete("orders", id_)
        else:
            price = Decimal(random.randrange(1, 500)) / 100
            client.put("orders", {"id": id_, "cust": random.randrange(6), "price": price})


def until_fresh(store: RemoteStore, seconds: float = 60) -> None:
    """Wait until every view has seen every entry."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        views = store.ask("status")["views"].values()
        if all(view["behind"] == 0 and view["epoch"] > 0 for view in views):
            return
        time.sleep(0.05)
    raise AssertionError(store.ask("status"))


def declared(store: RemoteStore) -> Views:
    views = Views(store, only=lambda group: False)
    views.create_table(ORDERS)
    views.create_view(SPEND, key=["cust"])
    views.create_views([BIG.format(n).replace("big", f"big{n}") for n in (1, 3)])
    return views


def assert_right(store: RemoteStore, views: Views) -> None:
    until_fresh(store)
    base = views.client.scan("orders").to_pylist()
    sums: dict[Any, list[Any]] = {}
    for row in base:
        of = sums.setdefault(row["cust"], [Decimal(0), 0])
        of[0], of[1] = of[0] + row["price"], of[1] + 1
    seen = {row["cust"]: [row["s"], row["n"]] for row in store.read("spend").to_pylist()}
    assert seen == sums
    for n in (1, 3):
        assert store.read_row(f"big{n}") == {"n": sum(row["price"] > n for row in base)}
    for name in views.names:
        assert views.verify(name).num_rows == 0


def assert_reads_are_whole(store: RemoteStore, last: int) -> int:
    """Each order counts in `spend` once and in no other state: the number of orders is that of one moment,
    and moments do not go back."""
    total = sum(row["n"] for row in store.read("spend").to_pylist())
    assert 0 <= total <= 40
    epoch: int = store.ask("status")["views"]["spend"]["epoch"]
    assert epoch >= last
    return epoch


def test_a_manager_that_is_killed_or_stopped_is_replaced(tmp_path: Path) -> None:
    random = Random(3)
    with served(tmp_path / "store") as (path, managers):
        store, writer = RemoteStore(path), Client(RemoteStore(path))
        views, epoch = declared(store), 0
        write(random, writer, 60)
        assert_right(store, views)
        os.kill(managers[0], signal.SIGKILL)
        for _ in range(10):
            write(random, writer, 10)
            epoch = assert_reads_are_whole(store, epoch)
        assert_right(store, views)
        # Stopped, replaced by somebody else, and gone on with as a zombie.
        (manager,) = store.ask("status")["managers"]
        os.kill(manager, signal.SIGSTOP)
        try:
            write(random, writer, 30)
            Views(RemoteStore(path)).refresh()
            assert_right(store, views)
            write(random, writer, 30)
        finally:
            os.kill(manager, signal.SIGCONT)
        write(random, writer, 30)
        assert_right(store, views)
        views.drop_view("big1")
        assert views.names == ["big3", "spend"]
        write(random, writer, 10)
        until_fresh(store)
        assert views.verify("big3").num_rows == 0
        assert store.ask("status")["calls"]["put"] > 0
        with pytest.raises(EverfreshError) as caught:
            store.read("big1")
        assert caught.value.code == Code.NOT_FOUND
        rows = [len(batch) for batch in store.scan("big1_rows")]
        assert sum(rows) == 1  # those of the view that was dropped are gone
        for who in (store, writer.store):
            who.close()
    # All of it is there when it is served again.
    with served(tmp_path / "store") as (path, _):
        store = RemoteStore(path)
        write(random, Client(store), 20)
        until_fresh(store)
        assert Views(store, only=lambda group: False).verify("spend").num_rows == 0
        store.close()
    with pytest.raises(EverfreshError) as caught:
        RemoteStore(path)
    assert caught.value.code == Code.NOT_FOUND


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_master_gives_the_groups_of_a_manager_that_is_silent_to_others(tmp_path: Path) -> None:
    random = Random(4)
    with served(tmp_path / "store", "--managers", "2") as (path, managers):
        store, writer = RemoteStore(path), Client(RemoteStore(path))
        views = declared(store)
        write(random, writer, 40)
        until(lambda: read_ring(store)[0].members == ("m0", "m1"))
        assert_right(store, views)
        group = views._definitions["spend"].group
        owner = read_ring(store)[0].owner(group)
        os.kill(managers[int(str(owner)[1:])], signal.SIGSTOP)
        try:
            until(lambda: read_ring(store)[0].members == tuple({"m0", "m1"} - {owner}))
            write(random, writer, 20)
            assert_right(store, views)
            # A master that is killed is started again, and has a new term.
            term = read_ring(store)[0].term
            os.kill(store.ask("status")["master"], signal.SIGKILL)
            until(lambda: read_ring(store)[0].term > term)
        finally:
            os.kill(managers[int(str(owner)[1:])], signal.SIGCONT)
        until(lambda: read_ring(store)[0].members == ("m0", "m1"))
        write(random, writer, 20)
        assert_right(store, views)
        view = store.ask("status")["views"]["spend"]
        assert view["staleness_s"] == 0.0
        assert {"updates_per_s", "buffered", "seen"} <= view.keys()
        store.close()


def test_only_the_newest_master_writes_the_ring() -> None:
    store = memory_store()
    store.create_table(RING)
    ring, version = read_ring(store)
    first = write_ring(store, Ring(ring.term + 1, ("a",)), version)
    write_ring(store, Ring(ring.term + 2, ("b",)), first)
    with pytest.raises(Conflict):
        write_ring(store, Ring(ring.term + 1, ("a", "c")), first)
    assert read_ring(store)[0] == Ring(ring.term + 2, ("b",))


def test_a_view_that_holds_back_too_much_of_the_log_is_detached(tmp_path: Path) -> None:
    store = memory_store(partitions=2)
    views = declared(store)  # type: ignore[arg-type]
    random, here = Random(5), Views(store)
    write(random, here.client, 60)
    here.refresh()
    before = here.client.read("spend").num_rows
    assert before > 0
    server = Server(store, Path(mkdtemp()) / "s", log_entries=30, policy="detach")
    server.retain()
    assert here.client.read("spend").num_rows == before
    write(random, here.client, 60)
    server.retain()
    for partition in store.partitions():
        end = store.log_end(partition.id)
        assert store.log(partition.id, end) == []
        if end.offset:
            with pytest.raises(LogTrimmed):
                store.log(partition.id, START)
    with pytest.raises(EverfreshError, match="is being made"):
        Client(store).read("spend")
    again = Views(store)
    again.refresh()
    server.retain()
    for name in views.names:
        assert again.verify(name).num_rows == 0
    again.sweep()
    assert again.client.read("spend").num_rows > 0
    server.close()


POINTS = [
    f"{call}:{n}{when}"
    for call in ("fence", "prepare", "head", "resolve", "collect")
    for n in (1, 5)
    for when in ("", ":after")
]


def dies_at(point: str, folder: Path) -> None:
    random = Random(hash(point) % 1000)
    with served(folder, EVERFRESH_KV_CRASH=point) as (path, _):
        store, writer = RemoteStore(path), Client(RemoteStore(path))
        views, epoch = declared(store), 0
        for _ in range(15):
            write(random, writer, 5)
            time.sleep(0.05)
            if store.ask("status")["views"]["spend"]["epoch"]:
                epoch = assert_reads_are_whole(store, epoch)
    with served(folder) as (path, _):  # without the point, it comes to its end
        store = RemoteStore(path)
        views = Views(store, only=lambda group: False)
        assert_right(store, views)


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
def test_a_manager_that_is_killed_at_each_point(point: str, tmp_path: Path) -> None:
    dies_at(point, tmp_path / "store")


# -- messages --------------------------------------------------------------------------------------------

LEAF = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary()
ENTRY = st.builds(
    Entry,
    st.integers(1, 9),
    st.binary(),
    st.text(),
    st.binary(),
    st.none() | st.binary(),
    st.none() | st.binary(),
)
VALUES: Any = st.recursive(
    LEAF | ENTRY | st.builds(Op, st.text(), st.binary(), st.none() | st.binary(), st.just(ANY)),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(value=VALUES)
def test_messages_come_as_they_went(value: Any) -> None:
    assert wire.unpack(wire.pack(value)) == value


@given(rows=st.lists(st.tuples(LEAF, LEAF), min_size=30, max_size=40), entries=st.lists(ENTRY, max_size=40))
def test_many_rows_come_as_they_went(rows: list[Any], entries: list[Entry]) -> None:
    every = [*entries * 10, Entry(1, b"x", "t", b"k", None, None)]
    for value in (rows, tuple(rows), every):
        found = wire.unpack(wire.pack(value))
        assert found == value
        assert [type(v) for v in found] == [type(v) for v in value]


def test_rows_come_as_plain_values_and_as_arrow_where_these_do_not_travel() -> None:
    store = memory_store()
    views = Views(store)
    views.create_table("CREATE TABLE t (k BIGINT PRIMARY KEY, p DECIMAL(9,2), f DOUBLE, d DATE, t TIMESTAMP)")
    views.create_view("CREATE MATERIALIZED VIEW v AS SELECT k, p, f, d, t FROM t", key=["d"])
    day, price = dt.date(2020, 1, 2), Decimal("1.50")
    row = {"k": 1, "p": price, "f": float("inf"), "d": day, "t": dt.datetime(2020, 1, 2, 3, 4, 5, 6)}
    views.client.put("t", row)
    views.refresh()
    server = Server(store, Path(mkdtemp()) / "s")
    threading.Thread(target=server.serve, daemon=True).start()
    remote = RemoteStore(server.path)
    assert remote.read_row("v", day) == row
    assert remote.read_row("v", dt.date(2020, 1, 3)) is None
    remote.close()
    server.close()
    other = {"i": pa.MonthDayNano([1, 2, 3000])}
    answer = wire.unpack(packed_answer("read_row", other))["answer"]
    assert wire.bytes_table(answer).to_pylist() == [other]
    with pytest.raises(TypeError):
        packed_answer("get", other)


def test_errors_and_tables_come_as_they_went() -> None:
    assert wire.unpack(wire.pack([Position(1, b"a"), Row(b"v", 2)])) == [Position(1, b"a"), Row(b"v", 2)]
    error = wire.raised(wire.unpack(wire.pack(wire.packed_error(Conflict("t", b"k", 4)))))
    assert isinstance(error, Conflict)
    assert (error.table, error.key, error.actual) == ("t", b"k", 4)
    table = pa.table({"a": [1, None]})
    assert wire.bytes_table(wire.table_bytes(table)) == table
    with pytest.raises(TypeError):
        wire.pack(object())
