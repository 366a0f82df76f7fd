"""What a statement reads beside tables and views: variables of its caller, what is registered, and files.

A name is looked for among what was registered, then among the local and the global variables of the caller,
as it is written. What is found is read once for a statement, however often it stands there; a
reader, which can be read once only, is kept for the statements behind it in a script. Invariant: no variable
is touched that the statement does not name, and code of everfresh itself has no variables to give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from everfresh.delta.given import KINDS, Given, is_rows
from everfresh.delta.given_files import FileOptions
from everfresh.types import fold


class Scope:
    """The rows that one call of `db.sql` may read."""

    def __init__(
        self,
        registered: Mapping[str, tuple[str, Any]],
        caller: FrameType | None,
        read: Callable[[Any, str], Given],
        files: Callable[[tuple[str, ...], str, FileOptions, str], Given],
    ) -> None:
        self._registered, self._read, self._files = registered, read, files
        self._caller = None if caller is None or _ours(caller) else caller
        self._known: dict[Any, Given] = {}

    def close(self) -> None:
        """Let go of everything: plans that somebody remembers have no rows then."""
        for found in self._known.values():
            found.close()
        self._known.clear()
        self._caller = None

    def again(self) -> None:
        """Another statement begins: rows are read anew, but those that can be read once only."""
        for key, found in list(self._known.items()):
            if not found.once:
                found.close()
                del self._known[key]

    def _found(self, name: str) -> Any:
        """What a name stands for."""
        known = self._registered.get(fold(name))
        if known is not None:
            return known[1]
        frame = self._caller
        if frame is None:
            return None
        local = frame.f_locals
        return local[name] if name in local else frame.f_globals.get(name)

    def rows(self, name: str) -> Given | None:
        """The rows that a name stands for."""
        if name not in self._known:
            found = self._found(name)
            if not is_rows(found):
                return None
            self._known[name] = self._read(found, name)
        return self._known[name]

    def other(self, name: str) -> str | None:
        """What a name stands for that is no rows."""
        found = self._found(name)
        if not isinstance(found, str | list | tuple | dict | set) and not hasattr(found, "__array__"):
            return None
        return f"the variable '{name}' is of type {type(found).__name__}: {KINDS}"

    def files(self, paths: tuple[str, ...], kind: str, options: FileOptions, what: str) -> Given:
        """The rows of files."""
        key = paths, kind, options
        if key not in self._known:
            self._known[key] = self._files(*key, what)
        return self._known[key]


def _ours(frame: FrameType) -> bool:
    """Whether code of everfresh is asking, such as its prompt."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.split(".", maxsplit=1)[0] == "everfresh" and not module.startswith("everfresh.testing")
