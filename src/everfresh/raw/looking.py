"""Which files an array has now: found by its pattern, and looked at once where they are new.

The box of a new file comes from its header, or from one reading of it; what was looked at before, and has not
changed, is not looked at again, and keeps its pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from everfresh.errors import Code, EverfreshError
from everfresh.progress import Progress
from everfresh.raw.boxes import Box
from everfresh.raw.catalog import UNKNOWN, Catalog, Piece, RawFile
from everfresh.raw.cells import CellReader
from everfresh.raw.files.formats import ENDINGS, FORMATS
from everfresh.raw.files.places import Found, found, is_there
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


Surveyed = tuple[Box | None, int, str]
"""The box of a new file's cells, how many there are, and why it cannot be read; no box if it has none."""
Survey = Callable[[Sequence[tuple[Found, int]]], Iterator[tuple[str, Surveyed]]]
"""Looks at new files, each with its owner."""


def surveyed(reader: CellReader, path: str) -> Surveyed:
    """What a header says of a file, or one reading."""
    try:
        box, cells = reader.header_box(path), UNKNOWN
        if box is None:
            box, cells = first_scan(reader, path)
    except EverfreshError as error:
        if error.code != Code.DAMAGED or reader.definition.option("damaged") != "skip":
            raise
        return None, UNKNOWN, error.message
    return box, cells, ""


def look(
    reader: CellReader,
    before: Catalog,
    workers: int,
    numbers: Iterator[int],
    progress: Progress | None = None,
    survey: Survey | None = None,
) -> Looked:
    """See which files there are; `survey` looks at new ones, in this process if none is given."""
    definition = reader.definition
    known = definition.option("format")
    now = {one.path: one for one in found(definition.files, FORMATS[known].endings if known else ENDINGS)}
    if not now and not (before.files and is_there(definition.files)):
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
    fresh = _dealt([now[path] for path in (*changed, *come)], after, workers)
    told = survey(fresh) if survey else ((one.path, surveyed(reader, one.path)) for one, _ in fresh)
    pieces: list[Piece] = []
    if progress is not None and fresh:
        progress(f"looking at files of {reader.schema.name}", 0, len(fresh))
    for done, (path, (box, cells, error)) in enumerate(told, 1):
        if error:
            _log.warning("array '%s' is without %s: %s", reader.schema.name, path, error)
        if box is not None:
            pieces.append(Piece(next(numbers), path, box, cells))
        if progress is not None and done < len(fresh):
            progress(f"looking at files of {reader.schema.name}", done, len(fresh))
    after = after.extended([RawFile(one, owner) for one, owner in fresh], pieces)
    return Looked(after, tuple(come), tuple(changed), tuple(gone))


def _dealt(fresh: Sequence[Found], beside: Catalog, workers: int) -> list[tuple[Found, int]]:
    """An owner for each new file: whoever has the fewest."""
    count = [0] * workers
    for file in beside.files.values():
        count[file.owner] += 1
    dealt = []
    for one in fresh:
        owner = count.index(min(count))
        count[owner] += 1
        dealt.append((one, owner))
    return dealt
