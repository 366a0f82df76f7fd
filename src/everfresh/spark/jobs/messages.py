"""Messages in the inbox: sealed files that a task takes only if they are what the driver left.

Whoever can write the folder, or the bucket, can put anything there. What a task is told by Spark (a property
of the job, the arguments of a function) is out of their reach, so it is told the digest of its message; the
message has the digest of each of its sections, which is compared when the section is read. A message is text,
JSON and Arrow: nothing in it can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.state import open_sealed, seal_chunks, store_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

VERSION = 1
_HINT = "look who can write the folder of the database, and do it again"


@dataclass(frozen=True, slots=True)
class Message:
    """What was left for a task."""

    header: Mapping[str, Any]
    sections: Mapping[str, memoryview]


def written(kind: str, header: Mapping[str, Any], sections: Mapping[str, Buffer]) -> tuple[list[Buffer], str]:
    """A message in chunks, and what its readers are to be told."""
    digests = {name: sha256(data).hexdigest() for name, data in sections.items()}
    about = {"version": VERSION, "header": header, "digests": digests}
    chunks = seal_chunks(kind, about, dict(sections))
    return chunks, bytes(chunks[-1]).hex()


def opened(data: Buffer, kind: str, name: str, told: str) -> Message:
    """The message that readers were told of; anything else is refused as damaged.

    >>> chunks, told = written("note", {"to": "all"}, {"text": b"hello"})
    >>> message = opened(b"".join(chunks), "note", "inbox/1", told)
    >>> message.header, bytes(message.sections["text"])
    ({'to': 'all'}, b'hello')
    """
    sealed = open_sealed(data, kind, name, _HINT)
    if sealed.digest != told:
        raise refused(name, "it is not what the driver left")
    if sealed.header["version"] != VERSION:
        raise refused(name, f"its version is {sealed.header['version']}, where this release reads {VERSION}")
    return Message(sealed.header["header"], _Sections(sealed.sections, sealed.header["digests"], name))


def taken(root: str, name: str, kind: str, told: str) -> Message:
    """The message of that name in the inbox, which must be there."""
    try:
        data = store_of(root).view(name)
    except FileNotFoundError as error:
        raise refused(name, "it is gone") from error
    return opened(data, kind, name, told)


def refused(name: str, what: str) -> EverfreshError:
    """Why a message is not taken."""
    return EverfreshError(Code.DAMAGED, f"{name} is damaged: {what}", hint=_HINT)


class _Sections(Mapping[str, memoryview]):
    """Sections by name, each compared with its digest before it is handed out the first time."""

    def __init__(self, sections: dict[str, memoryview], digests: dict[str, str], name: str) -> None:
        self._sections, self._digests, self._name = sections, digests, name

    def __getitem__(self, label: str) -> memoryview:
        found = self._sections[label]
        digest = self._digests.pop(label, None)
        if digest is not None and digest != sha256(found).hexdigest():
            raise refused(self._name, f"its section {label} is not what the driver left")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)
