"""What a unit of state holds, as a domain says it: the protocol of contents, and the roles of units.

A unit is `role/w`, worker w's part of something, or `driver`. Its *chain* (`everfresh.spark.state.chain`)
knows versions, files and how a step is taken back; its *content* is a domain's: rows and maps
(`everfresh.spark.state.table_content`), chunks of arrays, groups of signals. A domain registers a role for
each kind of unit that it has.

Invariant: what `replay` does with the sections of a step leaves the content that the step left, and `load` of
`sections` the one that they were taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from everfresh.spark.jobs.job import DRIVER, World

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Section: TypeAlias = Buffer | list[Buffer]
    """The bytes of a section, in one piece or in chunks."""

RESTORE = "restore the folder from a backup"


class Content(Protocol):
    """What one unit holds."""

    def sync(self, world: World) -> None:
        """Follow the catalog: what has been dropped goes. A reader of an earlier epoch drops nothing that has
        come since."""
        ...

    def replay(self, world: World, sections: Mapping[str, Any]) -> None:
        """Do what the segment of a step says: it holds what is there after the step."""
        ...

    def sections(self, world: World) -> Mapping[str, Section]:
        """All of it, for a snapshot: good until it changes."""
        ...

    def load(self, world: World, sections: Mapping[str, Any]) -> None:
        """Take what `sections` gave; nothing was held before."""
        ...

    def reclaim(self, world: World, *, now: bool = False) -> None:
        """Free what is not used any more, if that is due, or `now`. The unit stands at a version that is
        committed, and nothing has been read for the next step."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory held."""
        ...


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of unit, which every worker has one of."""

    name: str
    make: Callable[[str, World, Callable[[], None]], Content]
    """An empty content, from the unit's name and a call that makes final what its last step left open."""
    hint: str = RESTORE
    """How to go on without one of its files."""


_ROLES: dict[str, Role] = {}


def register(*roles: Role) -> None:
    """Make roles known to this process."""
    _ROLES.update({role.name: role for role in roles})


def role_of(unit: str) -> Role:
    """The role of a unit."""
    return _ROLES[role_name(unit)]


def known(unit: str) -> bool:
    """Whether this process knows the role of a unit: that of a domain with no object left it may not."""
    return role_name(unit) in _ROLES


def role_name(unit: str) -> str:
    """The name of the role of a unit.

    >>> role_name("maps/3"), worker_of("maps/3"), role_name("driver"), worker_of("driver")
    ('maps', 3, 'driver', -1)
    """
    return unit.split("/", maxsplit=1)[0]


def worker_of(unit: str) -> int:
    """The worker of a unit, or -1 for the driver."""
    return -1 if unit == DRIVER else int(unit.split("/")[1])
