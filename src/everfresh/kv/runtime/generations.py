"""Views that are made anew each time: generations, and the switch from one to the next.

"Strategies" in docs/design/key-value.md: SN and SC. A generation is a view group with a table of its own,
made from the base as it is; the view's definition names the one that counts, and one conditional write of it
shows the next, whole and resolved. Invariant: a reader sees one generation, complete, and never an earlier
one after a later one.
"""

from __future__ import annotations

import os
from dataclasses import replace

from everfresh.kv.definitions import VIEWS, Definition, base_tables
from everfresh.kv.protocol.calls import perform
from everfresh.kv.protocol.coordinator import How
from everfresh.kv.protocol.head import HEADS, Head, first_epoch
from everfresh.kv.protocol.sweeping import sweep
from everfresh.kv.runtime.group import Group
from everfresh.kv.runtime.sql_flow import SqlFlow
from everfresh.kv.store import ABSENT, Conflict, Cut, Store, StoredTable


def fresh_group(name: str) -> str:
    """The name of a generation that nobody else makes."""
    return f"{name}@{os.urandom(6).hex()}"


def generations(store: Store, name: str) -> list[str]:
    """The generations of a view that have tables."""
    return [table for table in store.tables() if table.startswith(f"{name}@")]


def ends(store: Store) -> Cut:
    """The ends of all logs."""
    return Cut({p.id: store.log_end(p.id) for p in store.partitions()})


def lives(store: Store) -> dict[int, str]:
    """By which lives partitions are served, where that may change."""
    return {p.id: p.life for p in store.partitions() if p.life}


def first_head(store: Store, born: int, *, loads: bool = True) -> Head:
    """The head of a group that begins with the base as it is now, or with the logs' start."""
    served, epoch = lives(store), first_epoch(born)  # before the ends: what is lost in between is noticed
    return Head(committed=epoch, gc_floor=epoch, cut=ends(store) if loads else Cut(), lives=served)


def begin(store: Store, made: Definition, flow: SqlFlow) -> None:
    """Make the table of a generation, and its head: nothing of it can be seen yet."""
    store.create_table(StoredTable(replace(flow.schema, name=made.group), logged=False))
    head = first_head(store, made.born)
    store.put(HEADS.name, made.group.encode(), head.to_bytes(), expect=ABSENT)


def rebuild(store: Store, definition: Definition, *, chunks: bool) -> Definition:
    """The view made anew, if the base has changed: its definition now."""
    known = store.get(VIEWS.name, definition.name.encode())
    if known is None:
        return definition
    if Definition.from_bytes(known.value).group != definition.group:  # somebody else has made it anew
        return rebuild(store, Definition.from_bytes(known.value), chunks=chunks)
    row = store.get(HEADS.name, definition.group.encode())
    head = Head() if row is None else Head.from_bytes(row.value)
    there = definition.group in store.tables()  # not if the definition was lost that came after this one
    if there and head.version and head.cut == ends(store) and head.lives == lives(store):
        return definition
    for old in generations(store, definition.name):  # what was shown before, or was never finished
        if old != definition.group:
            drop(store, old)
    new = definition
    if head.version or not there:
        new = replace(definition, group=fresh_group(definition.name))
        begin(store, new, SqlFlow(definition.text, base_tables(store), definition.key))
    _build(store, new, chunks)
    if new != definition:
        try:
            store.put(VIEWS.name, new.name.encode(), new.to_bytes(), expect=known.version)
        except Conflict:  # somebody else was first, or the view was dropped
            drop(store, new.group)
            return definition
    return new


def _build(store: Store, definition: Definition, chunks: bool) -> None:
    flow = SqlFlow(definition.text, base_tables(store), definition.key, table=definition.group)
    Group(store, definition.group, flow, How(chunks=chunks, born=definition.born)).run()
    machine, result = sweep(definition.group, definition.group), None
    try:
        while True:
            result = perform(store, machine.send(result))
    except StopIteration:
        return


def drop(store: Store, group: str) -> None:
    """Remove a generation."""
    store.drop_table(group)
    store.delete(HEADS.name, group.encode())
