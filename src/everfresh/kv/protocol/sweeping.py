"""The sweeper: resolves and collects what managers that died have left.

"Epochs" in docs/design/key-value.md. It may run at any time, beside anything: it only does what the head
allows. Invariant: no consistent read sees a difference.
"""

from __future__ import annotations

from everfresh.kv import split
from everfresh.kv.protocol.calls import Collect, Machine, Place, Resolve, Scan
from everfresh.kv.protocol.reading import LIMIT, read_head
from everfresh.kv.store import PartitionClosed


def sweep(group: str, table: str, limit: int = LIMIT) -> Machine:
    """Go once through a view table; how many rows there were to tidy."""
    lo, tidied = b"", 0
    while True:
        head = yield from read_head(group)
        rows = yield Scan(table, lo, limit)
        for key, row in rows:
            states = split.unpack(row.value)
            if split.resolved(states, head.committed) != states:
                call: type[Resolve | Collect] = Resolve
                epoch = head.committed
            elif split.is_tombstone(states, head.gc_floor):
                call, epoch = Collect, head.gc_floor
            else:
                continue
            tidied += 1
            try:
                (partition,) = yield Place(table, (key,))
                yield call(partition, table, epoch, (key,))
            except PartitionClosed:
                continue  # the next sweep finds it
        if len(rows) < limit:
            return tidied
        lo = rows[-1][0] + b"\0"
