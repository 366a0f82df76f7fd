"""The stages of a distributed program in tasks: what is sent from each to the next, and what was done.

The blocks are functions of state and inputs (`everfresh.distributed.execute`); here temporaries become
messages of the exchange and back, and what was done becomes the sections of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from everfresh.distributed import Temp
from everfresh.distributed.execute import Journal, Site, run_block
from everfresh.distributed.tags import Replicated
from everfresh.distributed.wire import Held, empty, entries_table, packed, routed, unpacked
from everfresh.local.entries import merged
from everfresh.local.pool import Layout, Values
from everfresh.local.state import LocalState
from everfresh.local.strings import Interner
from everfresh.local.table import Net, Table
from everfresh.spark import observe
from everfresh.spark.jobs import DATA, World
from everfresh.spark.programs import incremental, placement_of
from everfresh.spark.stages import ROWS, Staged
from everfresh.spark.units import Unit, store_id
from everfresh.state import pack_table, unpack_table

Message = tuple[int, int, bytes]


def site_of(world: World, state: LocalState, worker: int) -> Site:
    """A worker's maps, ready to run blocks."""
    return Site(state, worker, world.workers, placement_of(world.catalog))


def given(program: Staged, tables: Mapping[str, Table], nets: Mapping[str, Net]) -> dict[str, Held]:
    """The changes of this worker's rows, as the program reads them."""
    found = {}
    for name, temp in program.given:
        interner = tables[name].codec.interner if name in tables else Interner()
        found[temp.name] = _rows(temp, tables[name], nets[name]) if name in nets else empty(temp, interner)
    return found


def _rows(temp: Temp, table: Table, net: Net) -> Held:
    values = Values.zeros(Layout(()), len(net.weights))
    values.n[:] = net.weights
    return Held(temp, table.codec, net.words, values)


def sent(world: World, worker: int, program: Staged, held: Mapping[str, Held]) -> Iterator[Message]:
    """What follows from the changes of this worker's rows alone."""
    state = LocalState.blank(
        incremental(world.catalog), next((h.codec.interner for h in held.values()), None)
    )
    outputs, _ = run_block(site_of(world, state, worker), program.blocks[ROWS], held)
    yield from handed_on(world, worker, program, ROWS, {**held, **outputs})


def handed_on(
    world: World, worker: int, program: Staged, stage: int, held: Mapping[str, Held]
) -> Iterator[Message]:
    """What a stage gives the next: each part to the worker that it belongs to, or to this one again."""
    for send in program.sends[stage]:
        for to, part in routed(held[send.source.name], send.target, world.workers):
            if len(part):
                yield to, DATA, _message(send.target.name, packed(part))
    for temp in program.carries[stage]:
        if len(held[temp.name]):
            yield worker, DATA, _message(temp.name, packed(held[temp.name]))


def _message(name: str, table: pa.Table) -> bytes:
    head = name.encode()
    return len(head).to_bytes(2, "big") + head + pack_table(table)


def received(
    world: World,
    unit: Unit,
    state: LocalState,
    worker: int,
    program: Staged,
    stage: int,
    payloads: list[bytes],
) -> tuple[Journal, dict[str, Held]]:
    """Run the block of a stage with what came for it: what it did, and all temporaries that are known now."""
    pieces: dict[str, list[pa.Table]] = {}
    for payload in payloads:
        size = int.from_bytes(payload[:2], "big")
        pieces.setdefault(payload[2 : 2 + size].decode(), []).append(unpack_table(payload[2 + size :]))
    observe.arrive(sum(table.num_rows for tables in pieces.values() for table in tables))
    block = program.blocks[stage]
    came = [send.target for send in program.sends[stage - 1]] + list(program.carries[stage - 1])
    inputs = {t.name: unpacked(t, pieces.get(t.name, ()), unit.interner) for t in (*came, *block.inputs)}
    outputs, journal = run_block(site_of(world, state, worker), block, inputs)
    return journal, {**inputs, **outputs}


def images(world: World, state: LocalState, journal: Journal) -> dict[str, bytes]:
    """The entries that were touched, as they are now."""
    sections = {}
    for view, definition in state.catalog.views.items():
        for m in definition.compiled.program.maps:
            if m.name in journal.touched:
                store = state._store(m.name)
                slots = np.sort(merged(journal.touched[m.name]).slots)
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
