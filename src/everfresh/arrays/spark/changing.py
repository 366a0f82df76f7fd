"""The job of a batch of cells: one stage, in which each worker changes its chunks.

The driver knows from its catalog which worker keeps a chunk, and leaves each worker's cells in the job's
message; those that tasks have laid down from a DataFrame the workers find themselves. A worker refuses cells
that do not fit what is there, and with it the epoch. It answers with what the catalog is to say of the chunks
that have changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from everfresh.arrays.cells import split
from everfresh.arrays.execute.catalog import Entry, entry
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.spark.content import CHUNKS, ChunkContent, schema_of, segment
from everfresh.arrays.spark.laying import LaidCells, read_laid
from everfresh.spark.jobs.job import GATHERED, Job
from everfresh.spark.jobs.plans import Plan, Step, Task, unit_stage
from everfresh.spark.state.chain import Unit
from everfresh.state import pack_arrays, pack_table, plain, unpack_arrays, unpack_table
from everfresh.types import no_rows

GIVEN = "arrays"
Cells: TypeAlias = "pa.Table | LaidCells"
Change = tuple[str, str, Mapping[int, int], Cells, Cells]
"""An array's identity and DDL, the workers of the chunks that change, and the cells that come and go."""
KINDS = ("came", "went")


def counts(cells: Cells, schema: ArraySchema) -> Mapping[int, int]:
    """How many cells are in which chunk."""
    if isinstance(cells, LaidCells):
        found: Mapping[int, int] = cells.cells
        return found
    return {number: some.num_rows for number, some in split(cells, schema).items()}


def pieces_of(changes: Sequence[Change], dropped: Iterable[str], workers: int) -> dict[str, Any]:
    """The batch as pieces of a message."""
    told: dict[str, Any] = {
        "arrays": [[identity, ddl] for identity, ddl, *_ in changes],
        "dropped": sorted(dropped),
        "laid": {},
    }
    pieces: dict[str, Any] = {}
    for at, (_, ddl, homes, *both) in enumerate(changes):
        for kind, rows in zip(KINDS, both, strict=True):
            if isinstance(rows, LaidCells):
                told["laid"][f"{kind}/{at}"] = rows.files
                owned = np.array(list(homes.items()), np.int64).reshape(-1, 2)
                pieces[f"homes/{at}"] = pack_arrays({"number": owned[:, 0], "worker": owned[:, 1]})
                continue
            shares: list[list[pa.Table]] = [[] for _ in range(workers)]
            for number, cells in split(rows, schema_of(ddl)).items():
                shares[homes[number]].append(cells)
            for worker, cells in enumerate(shares):
                if cells:
                    pieces[f"{kind}/{at}/{worker}"] = pack_table(pa.concat_tables(cells).combine_chunks())
    pieces[GIVEN] = json.dumps(told).encode()
    return pieces


def _change(unit: Unit, task: Task) -> Step:
    """Change the chunks of one worker."""
    content, pieces = unit.content, task.job.pieces
    assert isinstance(content, ChunkContent)
    about = plain(pieces[GIVEN], "a batch of cells")
    changes, entries, rows = {}, {}, 0
    new = []
    for at, (identity, ddl) in enumerate(about["arrays"]):
        schema = schema_of(ddl)
        came, went = (given(task.job, task.worker, about, kind, at, schema) for kind in KINDS)
        chunks = content.changed(identity, schema, came, went)
        new.append((identity, schema, chunks))
        changes[identity] = (schema, came, went)
        entries[identity] = [entry(number, task.worker, chunk) for number, chunk in chunks.items()]
        rows += came.num_rows + went.num_rows
    dropped = [identity for identity in about["dropped"] if identity in content.arrays]
    for one in new:
        unit.record(content.put(*one), lambda: None)
    unit.record(content.drop(dropped), lambda: None)
    return Step(segment(changes, dropped), [(task.worker, GATHERED, told_entries(entries))], rows)


def given(
    job: Job, worker: int, about: Mapping[str, Any], kind: str, at: int, schema: ArraySchema
) -> pa.Table:
    """The cells of a batch that come to or leave a worker."""
    laid = about["laid"].get(f"{kind}/{at}")
    if laid is None:
        return rows_given(job.pieces, f"{kind}/{at}/{worker}", schema.arrow)
    homes = unpack_arrays(job.pieces[f"homes/{at}"])
    mine = homes["number"][homes["worker"] == worker]
    return read_laid(job.world.root, laid, schema, mine.tolist())


def rows_given(pieces: Mapping[str, Any], name: str, schema: pa.Schema) -> pa.Table:
    """The rows of a piece of a message; none if it was left out."""
    try:
        found = pieces[name]
    except KeyError:
        return no_rows(schema)
    return unpack_table(bytes(found))  # the message goes, the chunks stay


CHANGE = Plan("array-change", (unit_stage("change", CHUNKS, _change),))


def told_entries(entries: Mapping[str, Sequence[Entry]]) -> bytes:
    """What catalogs are to say of chunks, by array, as bytes."""
    return pack_arrays(
        {identity: np.array(some, np.int64) for identity, some in entries.items() if len(some)}
    )


def read_entries(payloads: Iterable[bytes]) -> dict[str, list[Entry]]:
    """The inverse of `told_entries`, of all workers."""
    found: dict[str, list[Entry]] = {}
    for payload in payloads:
        for identity, rows in unpack_arrays(payload).items():
            found.setdefault(identity, []).extend(map(tuple, rows.tolist()))
    return found
