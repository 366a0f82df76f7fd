"""How rows of tables come to the groups that they belong to: the first stage of the jobs of signal views.

A *shipment* is a table by the columns of a key: its rows go to the workers that own their keys, for all views
that read the table by that key, in the columns that these views need. A view that reads a table by two keys
has all its groups with the first worker. Every worker is told the newest start among all rows, so that time
passes for all groups alike, with no job of its own.

Invariant: what is sent is a function of the units' versions; rows of one group go to one worker, in an order
that does not depend on how the tasks ran.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT, split, weigh
from everfresh.distributed.worker.routing import owners
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.rewrite import Node
from everfresh.signals.domain.bases import Groups
from everfresh.signals.domain.view import ViewState
from everfresh.signals.nodes import Reading
from everfresh.signals.run.source import LOW
from everfresh.signals.run.source import ticks as ticks_of
from everfresh.spark.jobs.job import DATA, DRIVER, Base, Message, World, cut
from everfresh.spark.state.chain import read_segment
from everfresh.spark.state.reading import rows_of
from everfresh.state import open_sealed, pack_table, plain, seal, unpack_table
from everfresh.types import from_arrow

if TYPE_CHECKING:
    from everfresh.spark.frames import Frames
    from everfresh.spark.state.ledger import Draft

CHANGE, ROWS = "change", "rows"
"""What is shipped: the change of this epoch, or rows as they are now."""


@dataclass(frozen=True)
class Shipment:
    """Columns of a table, and the key by which rows have their owner; None: they go to the first worker.
    `of` are views whose groups are asked for, in shipments of rows; None: all rows."""

    table: str
    key: tuple[str, ...] | None
    times: tuple[str, ...]
    columns: tuple[str, ...]
    what: str = CHANGE
    asked: int | None = None
    """The number of the groups whose rows are sent; None: those of all."""

    def to_json(self) -> list[Any]:
        """As plain data."""
        key = None if self.key is None else list(self.key)
        return [self.table, key, list(self.times), list(self.columns), self.what, self.asked]

    @staticmethod
    def of(data: Sequence[Any]) -> Shipment:
        """The inverse of `to_json`."""
        table, key, times, columns, what, asked = data
        return Shipment(table, None if key is None else tuple(key), tuple(times), tuple(columns), what, asked)


def placed(query: Node) -> bool:
    """Whether the groups of a query belong to workers by their keys: not if a table is read by two keys."""
    keys: dict[str, tuple[str, ...]] = {}
    readings = [each for each in query.walk() if isinstance(each, Reading)]
    return all(keys.setdefault(each.table, each.key) == each.key for each in readings)


def shipments(
    view: ViewState, tables: Iterable[str], what: str = CHANGE, asked: int | None = None
) -> list[Shipment]:
    """What a view needs of tables."""
    found = []
    spread = placed(view.query)
    for table in tables:
        readings = [reading for reading in view.readings if reading.table == table]
        times = tuple(dict.fromkeys(reading.time for reading in readings if reading.timed))
        key = readings[0].key if spread else None
        found.append(Shipment(table, key, times, view.columns_of(table), what, asked))
    return found


def merged(wanted: Iterable[Shipment]) -> list[Shipment]:
    """Shipments of changes of one table by one key as one, with the columns of all."""
    found: dict[Any, Shipment] = {}
    for one in wanted:
        known = found.setdefault((one.table, one.key, one.what, one.asked), one)
        if known is not one:
            times, columns = (
                tuple(dict.fromkeys((*getattr(known, name), *getattr(one, name))))
                for name in ("times", "columns")
            )
            found[one.table, one.key, one.what, one.asked] = Shipment(
                one.table, one.key, times, columns, one.what, one.asked
            )
    return list(found.values())


# -- what the driver leaves ------------------------------------------------------------------------------


def pieces_of(ships: Sequence[Shipment], draft: Draft, frames: Frames) -> dict[str, Any]:
    """Where tasks find the tables: versions of the units that hold them; the rows of those on the driver."""
    pieces: dict[str, Any] = {"ships": json.dumps([one.to_json() for one in ships]).encode()}
    world = draft.job("signal").world
    homes: dict[str, list[str]] = {}
    for ship in ships:
        units = frames.units(ship.table, world.catalog)
        homes[ship.table] = list(units)
        if units == (DRIVER,):
            rows = (
                frames.change_in(draft, ship.table)
                if ship.what == CHANGE
                else rows_of(world, draft.bases[DRIVER], ship.table, None)
            )
            pieces[f"{ship.what}/{ship.table}"] = pack_table(rows)
            continue
        for unit in units:
            base = draft.bases[unit]
            pieces[f"unit/{unit}"] = json.dumps(base.to_json()).encode()
            pieces.update(base.data())
    pieces["homes"] = json.dumps(homes).encode()
    return pieces


@dataclass(frozen=True)
class Depot:
    """The tables, as tasks see them."""

    world: World
    pieces: Mapping[str, Any]

    def rows(self, ship: Shipment, groups: pa.Table | None, worker: int) -> pa.Table:
        """What a worker has of a shipment, with `_weight`; of rows at least those of the groups."""
        units = plain(self.pieces["homes"], "a job of signals")[ship.table]
        if units == [DRIVER]:
            rows = _unpacked(self.pieces[f"{ship.what}/{ship.table}"])
            rows = rows if ship.what == CHANGE else weigh(rows)
            return rows.select([*ship.columns, WEIGHT]).slice(0, None if worker == 0 else 0)
        base = self._base(units[worker])
        if ship.what == ROWS:
            among = None if groups is None else self._keys_in(ship, groups)
            return weigh(rows_of(self.world, base, ship.table, None, among).select(ship.columns))
        section = f"changes/{self.world.ids[ship.table]}"
        found = [read_segment(self.world, base.unit, link) for link in base.since(self.world.epoch - 1)]
        tables = [unpack_table(s.sections[section]) for s in found if section in s.sections]
        if not tables:
            return pa.table({})
        return pa.concat_tables(tables).select([*ship.columns, WEIGHT])

    def _keys_in(self, ship: Shipment, groups: pa.Table) -> pa.Table | None:
        """The keys of groups by the key columns of a table."""
        schema = self.world.catalog.tables.get(ship.table)
        if schema is None or not ship.key:
            return None
        columns = pa.schema([schema.arrow.field(name) for name in ship.key])
        return groups.rename_columns(columns.names).cast(columns)

    def _base(self, unit: str) -> Base:
        base = Base.from_json(plain(self.pieces[f"unit/{unit}"], "a version"))
        prefix = f"data/{unit}/"
        return base.with_data({n: bytes(self.pieces[n]) for n in self.pieces if n.startswith(prefix)})


def _unpacked(data: Any) -> pa.Table:
    return unpack_table(bytes(data))  # the message goes, rows may stay


# -- in tasks --------------------------------------------------------------------------------------------


def shipped(
    ships: Sequence[Shipment],
    rows: Callable[[Shipment, pa.Table | None], pa.Table],
    worker: int,
    workers: int,
    asked: Sequence[pa.Table] = (),
) -> Iterator[Message]:
    """The messages of one worker: its rows, to those who own their keys, and the newest starts, to all."""
    for number, ship in enumerate(ships):
        groups = None if ship.asked is None else asked[ship.asked]
        some = rows(ship, groups)
        if not some.num_rows:
            continue
        header = {"ship": number, "from": worker}
        if ship.what == CHANGE or ship.asked is None:
            newest = _newest(some, ship)
            told = seal("signal", {**header, "newest": newest}, {})
            yield from ((to, DATA, told) for to in range(workers))
        if groups is not None:
            names = ship.key if ship.key is not None else ()
            some = some.filter(pa.array(Groups(groups).of(some, names)))
        to_whom = _owners(some, ship, workers)
        for to in range(workers):
            mine = some if workers == 1 else some.filter(pa.array(to_whom == to))
            for part, piece in enumerate(cut(mine.combine_chunks()) if mine.num_rows else ()):
                yield to, DATA, seal("signal", {**header, "part": part}, {"rows": pack_table(piece)})


def _newest(rows: pa.Table, ship: Shipment) -> dict[str, int]:
    came = rows.filter(pc.greater(split(rows)[1], 0))
    found = {}
    for name in ship.times if came.num_rows else ():
        column = came.column(name).combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        found[name] = int(ticks_of(column, Reading(ship.table, name)).max())
    return found


def _owners(rows: pa.Table, ship: Shipment, workers: int) -> Any:
    vectors = []
    for name in ship.key or ():
        column = rows.column(name)
        if pa.types.is_integer(column.type):  # keys of all widths meet
            column = column.cast(pa.int64())
        type_ = from_arrow(column.type)
        if type_ is None:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"table '{ship.table}' cannot be partitioned by '{name}', which is {column.type}",
            )
        vectors.append(Vector.from_arrow(column, type_))
    return owners(vectors, rows.num_rows, workers)


@dataclass
class Arrived:
    """What came to a worker, by the number of the shipment."""

    ships: Sequence[Shipment]
    rows: dict[int, list[pa.Table]] = field(default_factory=dict)
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    """The newest start in a table by a column."""

    @staticmethod
    def of(ships: Sequence[Shipment], payloads: Iterable[bytes]) -> Arrived:
        """What the messages say."""
        found = Arrived(ships)
        told = [open_sealed(payload, "signal", "a shipment") for payload in payloads]
        told.sort(key=lambda one: (one.header["ship"], one.header["from"], one.header.get("part", -1)))
        for one in told:
            number = one.header["ship"]
            table = ships[number].table
            for name, time in one.header.get("newest", {}).items():
                found.newest[table, name] = max(found.newest.get((table, name), LOW), time)
            if "rows" in one.sections:
                found.rows.setdefault(number, []).append(unpack_table(one.sections["rows"]))
        return found

    def table(self, ship: Shipment) -> pa.Table | None:
        """The rows of the shipment that has these, with `_weight`; None if nothing came."""
        for number, one in enumerate(self.ships):
            same = (one.table, one.key, one.what, one.asked) == (ship.table, ship.key, ship.what, ship.asked)
            if same and number in self.rows:
                return pa.concat_tables(self.rows[number]).select([*ship.columns, WEIGHT])
        return None

    def newest_of(self, view: ViewState) -> tuple[int, ...]:
        """The newest starts by the readings of a view."""
        return tuple(self.newest.get((r.table, r.time), LOW) for r in view.readings)


def read_ships(pieces: Mapping[str, Any]) -> list[Shipment]:
    """The shipments that the driver asks for."""
    return [Shipment.of(each) for each in plain(pieces["ships"], "a job of signals")]


def asked_of(pieces: Mapping[str, Any]) -> list[pa.Table]:
    """The groups whose rows are asked for."""
    names = sorted((n for n in pieces if n.startswith("asked/")), key=lambda n: int(n.removeprefix("asked/")))
    return [_unpacked(pieces[name]) for name in names]


def ship_all(world: World, pieces: Mapping[str, Any], worker: int) -> Iterator[Message]:
    """The first stage of a job of signals."""
    depot = Depot(world, pieces)
    rows = partial(depot.rows, worker=worker)
    yield from shipped(read_ships(pieces), rows, worker, world.workers, asked_of(pieces))
