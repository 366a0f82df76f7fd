"""The folder of a stream, `sources/<stream>/`: what the stream is, and how far it has read.

`STREAM` says which table it feeds, from what, and by which means; it never changes. The rest belongs to the
means. Invariant: a folder that commits name and that is gone is not made anew, since its batches would be
numbered from 0 again and be taken for old ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from everfresh.errors import Code, EverfreshError
from everfresh.state import create_file
from everfresh.state.files import sync_folder

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_HINT = "give it another name to read its source from the start"


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a folder everywhere."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise EverfreshError(
            Code.ARGUMENT,
            f"'{name}' cannot be the name of a stream",
            hint="a name has letters of ASCII, digits, '_', '-' and '.': db.stream(..., name='orders-1')",
        )


def open_home(
    root: Path,
    name: str,
    about: Mapping[str, str],
    last: int | None,
    durable: bool,
    has_read: Callable[[Path], bool],
) -> Path:
    """The folder of a stream, made if it is new. `last` is the last batch that commits name; `has_read` says
    whether a folder knows of batches that were read."""
    home = root / name
    file = home / "STREAM"
    if last is not None and not (file.exists() and has_read(home)):
        raise EverfreshError(
            Code.DAMAGED,
            f"{home} is missing or empty, and batch {last} of stream '{name}' was committed: without it the "
            "stream cannot go on where it was",
            place=f"stream '{name}'",
            hint=f"restore it from a backup, or {_HINT}",
        )
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        if durable:
            sync_folder(root.parent)
            sync_folder(root)
        create_file(file, json.dumps(dict(about)).encode(), durable)
    try:
        known = json.loads(file.read_bytes())
    except ValueError:
        raise EverfreshError(
            Code.DAMAGED, f"{file} is damaged", place=f"stream '{name}'", hint="restore it from a backup"
        ) from None
    for what, value in about.items():
        if known.get(what) != value:
            raise EverfreshError(
                Code.ARGUMENT,
                f"stream '{name}' was started with {what} '{known.get(what)}', not '{value}'",
                place=f"stream '{name}'",
                hint=_HINT,
            )
    return home
