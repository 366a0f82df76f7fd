"""Names that the compiler makes, and names of users: two kinds that are never equal, however spelled.

A user may call a column `#1` or a table `v$0`. So what tells a component from a key, or a map of the view `v`
from a table, is the type of its name. In texts a made name stands as it is (`v$0`) and a user's that looks
like one in quotes (`"v$0"`); `stored` and `told` are the spellings that files and digests have.
"""

from __future__ import annotations

import re

_MAP = re.compile(r".*[#~]\d+x*", re.DOTALL)  # as the maps of a view are called
_RELATION = re.compile(r".*\$\d+x*", re.DOTALL)  # as relations derived from them are called


class Made(str):
    """A name that the compiler made: equal to made names of its spelling alone.

    >>> Made("#1") == "#1", Made("#1") == Made("#1"), {"#1": "theirs", Made("#1"): "ours"}[Made("#1")]
    (False, True, 'ours')
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return ~str.__hash__(self)

    def __repr__(self) -> str:
        return f"Made({str.__repr__(self)})"


def view_of(name: str) -> str:
    """The view whose map has this name."""
    return re.sub(r"(?:~\d+)?(?:[#$]\d+x*)?\Z", "", name) if isinstance(name, Made) else name


def stored(map_name: str) -> str:
    """The name of a map as plain text: those of different maps differ. `unstored` is the inverse.

    >>> stored("v"), stored(Made("v#0")), stored("v#0")
    ('v', 'v#0', '"v#0"')
    """
    theirs = not isinstance(map_name, Made)
    return f'"{map_name}"' if theirs and (_MAP.fullmatch(map_name) or _is_quoted(map_name)) else str(map_name)


def unstored(text: str) -> str:
    """The name of a map that `stored` gave this spelling."""
    if _is_quoted(text):
        return text[1:-1]
    return Made(text) if _MAP.fullmatch(text) else text


def _is_quoted(text: str) -> bool:
    inside = text[1:-1]
    quoted = len(text) > 2 and text[0] == text[-1] == '"'
    return quoted and (_MAP.fullmatch(inside) is not None or _is_quoted(inside))


def told(relation: str) -> str:
    """The name of a relation as plain text: those of different relations differ.

    >>> told("t"), told(Made("v$0")), told("v$0")
    ('t', 'v$0', '"v$0"')
    """
    theirs = not isinstance(relation, Made)
    return f'"{relation}"' if theirs and _RELATION.fullmatch(relation) else str(relation)
