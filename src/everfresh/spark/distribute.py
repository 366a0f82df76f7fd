"""The two stages of a distributed program in tasks: what holders of rows send, what holders of maps do.

Both are functions of state and inputs (`everfresh.distributed.execute`); here temporaries become messages of
the exchange and back, and what was done becomes the sections of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from everfresh.distributed import DistributedProgram
from everfresh.distributed.execute import Journal, Site, run_block
from everfresh.distributed.ir import Send, Temp
from everfresh.distributed.tags import Replicated
from everfresh.distributed.wire import Held, empty, entries_table, packed, routed, unpacked
from everfresh.local.entries import merged
from everfresh.local.pool import Layout, Values
from everfresh.local.state import LocalState
from everfresh.local.table import Net, Table
from everfresh.spark.jobs import DATA, World
from everfresh.spark.programs import incremental, placement_of
from everfresh.spark.units import Unit, store_id
from everfresh.state import pack_table, unpack_table

Message = tuple[int, int, bytes]


def site_of(world: World, state: LocalState, worker: int) -> Site:
    """A worker's maps, ready to run blocks."""
    return Site(state, worker, world.workers, placement_of(world.catalog))


def sent(
    world: World,
    worker: int,
    program: DistributedProgram,
    tables: Mapping[str, Table],
    nets: Mapping[str, Net],
) -> Iterator[Message]:
    """What follows from the changes of this worker's rows alone, to the workers that it belongs to."""
    if not program.blocks:
        return
    first = program.blocks[0]
    state = LocalState.blank(incremental(world.catalog))
    held = {}
    for name, temp in program.given:
        if name in nets:
            held[temp.name] = _given(temp, tables[name], nets[name])
        else:
            held[temp.name] = empty(temp, tables[name].codec.interner)
        state.interner = held[temp.name].codec.interner
    outputs, _ = run_block(site_of(world, state, worker), first, held)
    outputs = {**held, **outputs}
    for block in program.blocks[1:-1]:
        for send in block.instructions:
            assert isinstance(send, Send)
            for to, part in routed(outputs[send.source.name], send.target, world.workers):
                if len(part):
                    yield to, DATA, _message(send.target.name, packed(part))


def _given(temp: Temp, table: Table, net: Net) -> Held:
    values = Values.zeros(Layout(()), len(net.weights))
    values.n[:] = net.weights
    return Held(temp, table.codec, net.words, values)


def _message(name: str, table: pa.Table) -> bytes:
    head = name.encode()
    return len(head).to_bytes(2, "big") + head + pack_table(table)


def received(
    world: World,
    unit: Unit,
    state: LocalState,
    worker: int,
    program: DistributedProgram,
    payloads: list[bytes],
) -> Journal:
    """Run the last block on this worker's maps with what came."""
    pieces: dict[str, list[pa.Table]] = {}
    for payload in payloads:
        size = int.from_bytes(payload[:2], "big")
        pieces.setdefault(payload[2 : 2 + size].decode(), []).append(unpack_table(payload[2 + size :]))
    last = program.blocks[-1]
    inputs = {t.name: unpacked(t, pieces.get(t.name, ()), unit.interner) for t in last.inputs}
    return run_block(site_of(world, state, worker), last, inputs)[1]


def images(world: World, state: LocalState, journal: Journal) -> dict[str, bytes]:
    """The entries that were touched, as they are now."""
    sections = {}
    for view, definition in state.catalog.views.items():
        for m in definition.compiled.program.maps:
            if m.name in journal.touched:
                store = state._store(m.name)
                touched = merged(journal.touched[m.name])
                slots = touched.slots[np.argsort(touched.slots, kind="stable")]
                table = entries_table(store.codec, store.words(slots), store.pool.gather(slots))
                sections[f"map/{store_id(world, view, m.name)}"] = pack_table(table)
    return sections


def published(state: LocalState, journal: Journal, view: str, site: Site) -> pa.Table | None:
    """The change of this worker's rows of a view."""
    store = state.maps[view]
    target = store.target.name
    if isinstance(site.placement.maps[target], Replicated) and site.number:
        return None
    if view in journal.changes:
        return store.table_of(journal.changes[view])
    if target in journal.touched and target not in state.wiring.under:
        return store.published(merged(journal.touched[target]))
    return None
