"""Epochs: what every domain of a database stands on, on every engine.

- `domain`    the protocol of a domain: objects, their changes in an epoch, what is read and kept of them
- `objects`   all objects of a database by name, whatever their domain, in the order of what they read
- `stepping`  one epoch over the objects of all domains, in order; final together or taken back together
- `resident`  a domain whose state is in this process
- `timeline`  the last epoch, its digest, keys and sources; commit records written and followed
- `snapshots` when a snapshot is due, and when one that failed is tried again
- `history`   the changes of the last epochs
- `queue`     batches that wait and are committed together

An epoch is one atomic change of a database. Domains bring state and steps; when an epoch begins, is logged,
shown, replayed and snapshot is decided here and in the engines alone.
"""

from everfresh.epochs.domain import Domain, Making, Object, Published, Sections, Stepping, Told
from everfresh.epochs.history import History, RowChange
from everfresh.epochs.objects import Objects
from everfresh.epochs.resident import Resident, Undo
from everfresh.epochs.snapshots import SnapshotPolicy
from everfresh.epochs.stepping import EpochSteps
from everfresh.epochs.timeline import EpochDraft, Timeline

__all__ = [
    "Domain",
    "EpochDraft",
    "EpochSteps",
    "History",
    "Making",
    "Object",
    "Objects",
    "Published",
    "Resident",
    "RowChange",
    "Sections",
    "SnapshotPolicy",
    "Stepping",
    "Timeline",
    "Told",
    "Undo",
]
