"""The master as a process: hears which managers are there and writes the ring.

What it knows is in the store: definitions, terms, the ring. It may be killed or stopped at any moment; views
are kept fresh without one, and another takes the ring over with a new term. Invariant: one that was taken
over writes nothing any more.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

from everfresh.kv.process.remote import RemoteStore
from everfresh.kv.process.ring import members_now, read_ring, write_ring
from everfresh.kv.process.role import run
from everfresh.kv.store import Conflict

PAUSE = 0.2
PATIENCE = 3.0
"""After so many seconds without a word a manager's groups are given to others."""


def rule(path: str, stop: threading.Event) -> None:
    """Keep the ring until told to stop, or until another master does."""
    store = RemoteStore(path)
    ring, version = read_ring(store)
    ring = replace(ring, term=ring.term + 1)
    try:
        version = write_ring(store, ring, version)
        while not stop.wait(PAUSE):
            members = members_now(store.ask("beats"), ring.members, PATIENCE)
            if members != ring.members:
                ring = replace(ring, members=members)
                version = write_ring(store, ring, version)
    except Conflict:
        return
    finally:
        store.close()


def main(arguments: list[str]) -> int:
    """`python -m everfresh.kv.process.master SOCKET`."""
    return run(lambda stop: rule(arguments[0], stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
