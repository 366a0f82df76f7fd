"""State on disk: epochs, their commit records, snapshots, and the folder that holds them.

A database is a folder. Its state at epoch e is a snapshot and the commit records after it, up to e; an epoch
is committed when its record is there, whole, and nothing else decides. The layer keeps bytes and their
order, and knows nothing of what they mean: engines choose the sections of records and snapshots.

- `files`      sealed files (a digest over all), created if absent or replaced, atomically
- `arrays`     NumPy arrays and Arrow tables as sections, opened without a copy
- `record`     the commit record, chained to the one before by its digest
- `commits`    where records are kept: a file per epoch (Spark)
- `log`        the same as an append-only log (local engine)
- `reached`    an epoch that was acknowledged, to tell what is lost
- `snapshots`  everything up to one epoch, memory-mapped
- `stores`     where files lie: a folder, an object store (`objects`)
- `remote`     commit records, manifests and writers in a store that is no folder
- `lock`       one writer
- `folder`     the folder: format, engine, garbage
- `environment` what disks and file systems refuse, as errors
- `faults`     crashes on purpose

Implements sections 1-3 and 9 of the design note "State on Spark: the epoch protocol".
"""

from everfresh.state.arrays import (
    array_chunks,
    pack_arrays,
    pack_table,
    table_chunks,
    unpack_arrays,
    unpack_table,
)
from everfresh.state.commits import CommitStore, FileCommits, LogCommits, read_commit
from everfresh.state.environment import environment, told
from everfresh.state.faults import InjectedFault, crash
from everfresh.state.files import Sealed, create_file, open_sealed, plain, replace_file, seal, seal_chunks
from everfresh.state.folder import StateFolder
from everfresh.state.record import Commit
from everfresh.state.snapshots import Snapshot, SnapshotStore
from everfresh.state.stores import Store, is_url, scratch_of, store_of

__all__ = [
    "Commit",
    "CommitStore",
    "FileCommits",
    "InjectedFault",
    "LogCommits",
    "Sealed",
    "Snapshot",
    "SnapshotStore",
    "StateFolder",
    "Store",
    "array_chunks",
    "crash",
    "create_file",
    "environment",
    "is_url",
    "open_sealed",
    "pack_arrays",
    "pack_table",
    "plain",
    "read_commit",
    "replace_file",
    "scratch_of",
    "seal",
    "seal_chunks",
    "store_of",
    "table_chunks",
    "told",
    "unpack_arrays",
    "unpack_table",
]
