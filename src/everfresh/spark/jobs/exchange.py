"""The stages of a distributed program in tasks and on the driver: what is given, what is sent from each to
the next, and what was done.

The blocks are functions of state and inputs (`everfresh.distributed.worker.execute`); here temporaries become
messages of the exchange and back, and what was done becomes the sections of a segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from everfresh.distributed import Temp
from everfresh.distributed.plan.ir import Block
from everfresh.distributed.plan.tags import Replicated
from everfresh.distributed.worker.execute import Journal, Site, run_block
from everfresh.distributed.worker.wire import Held, empty, entries_table, packed, routed, unpacked
from everfresh.local.kernels.netting import netted
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import pieces
from everfresh.local.store.entries import EntryStore, merged
from everfresh.local.store.pool import Layout, Values
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Net, Table
from everfresh.spark.jobs.job import DATA, GATHERED, Message, World, cut
from everfresh.spark.jobs.stages import Staged
from everfresh.spark.session import observe
from everfresh.spark.state.table_content import store_id
from everfresh.state import pack_table, table_chunks, unpack_table

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from everfresh.spark.state.content import Section


def given(program: Staged, tables: Mapping[str, Table], nets: Mapping[str, Net]) -> dict[str, Held]:
    """The changes of this worker's rows, as the program reads them."""
    found = {}
    for name, temp in program.given:
        interner = tables[name].codec.interner if name in tables else Interner()
        found[temp.name] = _net(temp, tables[name], nets[name]) if name in nets else empty(temp, interner)
    return found


def _net(temp: Temp, table: Table, net: Net) -> Held:
    codec = Codec(temp.columns, table.codec.interner)
    return Held(temp, codec, table.codec.project(net.words, codec), _counts(net.weights))


def _counts(weights: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Values:
    values = Values.zeros(Layout(()), len(weights))
    values.n[:] = weights
    return values


def given_whole(
    program: Staged, rows: Mapping[str, Sequence[tuple[pa.Table, int]]], interner: Interner
) -> dict[str, Held]:
    """The changes of all rows of the batch: tables of rows that come (1) and go (-1)."""
    found = {}
    for name, temp in program.given:
        codec = Codec(temp.columns, interner)
        parts = [(table, sign) for table, sign in rows.get(name, ()) if table.num_rows]
        if not parts:
            found[temp.name] = empty(temp, interner)
            continue
        words = np.concatenate([codec.encode(table) for table, _ in parts], axis=1)
        weights = np.concatenate([np.full(table.num_rows, sign) for table, sign in parts])
        if len({sign for _, sign in parts}) > 1:
            words, weights = netted(words, weights)  # a row that goes and comes again is no change
        found[temp.name] = Held(temp, codec, words, _counts(weights))
    return found


def handed_on(
    world: World, site: Site, program: Staged, stage: int, held: Mapping[str, Held]
) -> Iterator[Message]:
    """What a stage gives the next, each part to the worker that it belongs to or to this one again; and what
    it gives the driver."""
    last = stage == len(program.blocks) - 1
    for send in () if last else program.sends[stage]:
        for to, part in routed(held[send.source.name], send.target, world.workers):
            if len(part):
                yield from _messages(to, DATA, send.target.name, packed(part))
    for temp in () if last else program.carries[stage]:
        part = held[temp.name].aggregated(temp)
        if len(part):
            yield from _messages(site.number, DATA, temp.name, packed(part))
    for send in program.gathers[stage]:
        if isinstance(send.source.tag, Replicated) and site.number:
            continue  # the first worker has all of it
        part = held[send.source.name].aggregated(send.target)
        if len(part):
            yield from _messages(site.number, GATHERED, send.target.name, packed(part))


def _messages(to: int, kind: int, name: str, table: pa.Table) -> Iterator[Message]:
    head = name.encode()
    for piece in cut(table):
        yield to, kind, len(head).to_bytes(2, "big") + head + pack_table(piece)


def came(temps: Iterable[Temp], payloads: list[bytes], interner: Interner) -> dict[str, Held]:
    """The temporaries that messages hold, from all places together. The list is emptied: messages go as they
    are read."""
    pieces: dict[str, list[pa.Table]] = {}
    for payload in payloads:
        size = int.from_bytes(payload[:2], "big")
        pieces.setdefault(payload[2 : 2 + size].decode(), []).append(
            unpack_table(memoryview(payload)[2 + size :])
        )
    payloads.clear()
    observe.arrive(sum(table.num_rows for tables in pieces.values() for table in tables))
    found = {t.name: unpacked(t, pieces.pop(t.name, []), interner) for t in dict.fromkeys(temps)}
    if pieces:
        raise RuntimeError(f"{', '.join(sorted(pieces))}: sent, but not known where it arrives")
    return found


def received(
    site: Site, program: Staged, stage: int, payloads: list[bytes]
) -> tuple[Journal, dict[str, Held]]:
    """Run the block of a stage with what came for it: what it did, and all temporaries that are known now."""
    block = program.blocks[stage]
    sent = [send.target for send in program.sends[stage - 1]] + list(program.carries[stage - 1])
    inputs = came((*sent, *block.inputs), payloads, site.state.interner)
    return ran(site, block, inputs)


def ran(site: Site, block: Block, inputs: Mapping[str, Held]) -> tuple[Journal, dict[str, Held]]:
    """Run a block: what it did, and all temporaries that are known now."""
    outputs, journal = run_block(site, block, inputs)
    return journal, {**inputs, **outputs}


def images(world: World, site: Site, journal: Journal) -> dict[str, Section]:
    """The entries that were touched, as they are now."""
    sections: dict[str, Section] = {}
    state = site.state
    for view, definition in state.catalog.views.items():
        for m in definition.compiled.program.maps:
            if m.name in journal.touched:
                store = state._store(m.name)
                slots = np.sort(merged(journal.touched[m.name]).slots)
                sections[f"map/{store_id(world, view, m.name)}"] = _image(store, slots)
    return sections


def _image(store: EntryStore, slots: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Buffer]:
    return table_chunks(
        entries_table(store.codec, store.words(some), store.pool.gather(some)) for some in pieces(slots)
    )


def published(site: Site, journal: Journal, view: str) -> pa.Table | None:
    """The change of this place's rows of a view."""
    store = site.state.maps[view]
    if isinstance(site.placement.maps[store.target.name], Replicated) and site.number:
        return None
    change = journal.published(store, site.state.wiring.under)
    return change.table if change is not None else None


def done(world: World, site: Site, journal: Journal) -> tuple[dict[str, Section], int]:
    """What a block did as the sections of a segment, and how many rows of views it changed."""
    sections, rows = images(world, site, journal), 0
    for view in site.state.catalog.views:
        change = published(site, journal, view)
        if change is not None and change.num_rows:
            rows += change.num_rows
            sections[f"changes/{world.ids[view]}"] = pack_table(change)
    return sections, rows
