"""Cells of files that others follow, as they were when the files were last looked at.

A file that is written over takes its old cells with it, so what a refresh has changed could not be told from
the files alone. Of an array that is followed the cells of each file are therefore kept, in a file of the
database's own under the digest of its bytes: what has gone with a file is read from there. The state of the
database has the names; a commit record has the cells that came and went, so that an epoch can be done again
without any of these files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.raw.catalog import RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.files.places import Found, stamped
from everfresh.raw.scan import check_same
from everfresh.state import Store, pack_table, store_of, unpack_table
from everfresh.types import no_rows

_FOLDER = "external"


@dataclass(frozen=True, eq=False)
class Followed:
    """What a look at the files has changed in an array that is followed: cells, and by file the name under
    which its cells are kept from now on."""

    came: pa.Table
    went: pa.Table
    names: Mapping[str, str]


@dataclass
class KeptCells:
    """The cells of files by the digest of their bytes: in a database's folder, or in memory."""

    store: Store | None = None
    _here: dict[str, pa.Table] = field(default_factory=dict)

    @staticmethod
    def of(root: str | None) -> KeptCells:
        """Those of a database, which may have no folder."""
        return KeptCells(store_of(root) if root is not None else None)

    def put(self, table: pa.Table) -> str:
        """Keep the cells of a file; their name."""
        data = pack_table(table.combine_chunks())
        name = blake2b(data, digest_size=16).hexdigest()
        if self.store is None:
            self._here[name] = table
        else:
            self.store.replace(f"{_FOLDER}/{name}", data)
        return name

    def get(self, name: str, path: str) -> pa.Table:
        """The cells that a file had."""
        if self.store is None:
            return self._here[name]
        try:
            data = self.store.read(f"{_FOLDER}/{name}")
        except FileNotFoundError:
            data = b""
        if blake2b(data, digest_size=16).hexdigest() != name:
            raise EverfreshError(
                Code.DAMAGED,
                "the cells that a file had are not kept any more, so what has gone with it cannot be told",
                place=path,
                hint="drop what follows the array, and make it again",
            )
        return unpack_table(data)

    def keep_only(self, names: Collection[str]) -> None:
        """Let all others go."""
        if self.store is None:
            self._here = {name: table for name, table in self._here.items() if name in names}
            return
        for found in self.store.names(_FOLDER):
            if found.rsplit("/", 1)[-1] not in names:
                self.store.remove(f"{_FOLDER}/{found.rsplit('/', 1)[-1]}")


def cells_of_file(reader: CellReader, found: Found) -> pa.Table:
    """All cells of a file, which is the one that was found."""
    file = RawFile(found, 0)
    check_same(file, stamped(found.path))
    nothing = no_rows(reader.schema.arrow)
    try:
        tables = [table for _, table in reader.cells(found.path)]
    except EverfreshError as error:
        if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
            raise
        return nothing  # that it is left out was said when it was looked at
    check_same(file, stamped(found.path))
    return pa.concat_tables([nothing, *tables])
