"""Which files an array has now: found by its pattern, and looked at once where they are new.

The box of a new file comes from its header, or from one reading of it; what was looked at before, and has not
changed, is not looked at again, and keeps its pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.catalog import UNKNOWN, Catalog, Piece, RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.files.formats import ENDINGS, FORMATS
from everfresh.raw.files.places import Found, found
from everfresh.raw.scan import first_scan

_log = logging.getLogger("everfresh")


@dataclass(frozen=True)
class Looked:
    """The files of an array as they are now, and what is different."""

    catalog: Catalog
    come: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{len(self.come)} files came, {len(self.changed)} changed, {len(self.gone)} went"


def look(
    reader: CellReader,
    before: Catalog,
    workers: int,
    numbers: Iterator[int],
    progress: Progress | None = None,
) -> Looked:
    """See which files there are."""
    definition = reader.definition
    known = definition.option("format")
    now = {one.path: one for one in found(definition.files, FORMATS[known].endings if known else ENDINGS)}
    if not now:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no file '{definition.files}'",
            place=f"array '{reader.schema.name}'",
            hint="a pattern is a path with * in it, or a folder",
        )
    for path in now:
        reader.format(path)
    gone = [path for path in before.files if path not in now]
    changed = [path for path, file in before.files.items() if path in now and now[path] != file.found]
    come = [path for path in now if path not in before.files]
    after = before.without([*gone, *changed])
    count = [0] * workers
    for file in after.files.values():
        count[file.owner] += 1
    for done, path in enumerate([*changed, *come]):
        if progress is not None:
            progress(f"looking at files of {reader.schema.name}", done, len(changed) + len(come))
        owner = count.index(min(count))
        count[owner] += 1
        after = _with(reader, after, now[path], owner, next(numbers))
    return Looked(after, tuple(come), tuple(changed), tuple(gone))


def _with(reader: CellReader, before: Catalog, one: Found, owner: int, number: int) -> Catalog:
    file = RawFile(one, owner)
    try:
        box, cells = reader.header_box(one.path), UNKNOWN
        if box is None:
            box, cells = first_scan(reader, one.path)
    except EverfreshError as error:
        if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
            raise
        _log.warning("array '%s' is without %s: %s", reader.schema.name, one.path, error.message)
        return before.extended(file, ())
    return before.extended(file, () if box is None else [Piece(number, one.path, box, cells)])
