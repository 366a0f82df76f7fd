"""What a worker's unit holds of signal views: the groups whose keys belong to the worker.

Each view is a `ViewState` over these groups alone, stepped by the same kernels as in one process. A segment
has the rows that were admitted and the times that tables have reached, and beside them the rows that the view
published; replay steps the view again, so windows, accumulators and spectra are never written. A view that is
made has its rows and state in a segment, as in a snapshot: nobody computes them again.

Invariant: the rows of a view in all units together are those of the view in one process, in the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.options import Options
from everfresh.signals.domain.functions import register as register_function
from everfresh.signals.domain.statements import decode, encode, view_of
from everfresh.signals.domain.view import Stepped, ViewState
from everfresh.spark.jobs.job import World
from everfresh.spark.state.content import Role, register
from everfresh.state import plain

if TYPE_CHECKING:
    from everfresh.spark.state.content import Section

ABOUT, CHANGES = "about", "changes/"
ROLE = "signal"
Call = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Kept:
    """A view over the groups of one worker, known by its name and the epoch that made it."""

    told: Mapping[str, Any]
    """What it is, as data."""
    state: ViewState

    @property
    def identity(self) -> str:
        """What its changes are known by."""
        return str(self.told["identity"])


def kept_of(told: Mapping[str, Any]) -> Kept:
    """The view that data says, with nothing in it."""
    options = Options().with_(**told["options"])
    return Kept({**told, "do": "view"}, view_of(told, options))


class GroupContent:
    """The views of one worker, by name."""

    def __init__(self, name: str, world: World, settle: Callable[[], None]) -> None:
        self.views: dict[str, Kept] = {}

    def put(self, name: str, kept: Kept | None) -> Callable[[], None]:
        """Have a view under a name, or none; returns what takes it back."""
        before = self.views

        def undo() -> None:
            self.views = before

        self.views = {other: known for other, known in before.items() if other != name}
        if kept is not None:
            self.views[name] = kept
        return undo

    # -- the protocol of contents --------------------------------------------------------------------------

    def sync(self, world: World) -> None:
        """Views are dropped by steps."""

    def replay(self, world: World, sections: Mapping[str, Any]) -> None:
        """Do what a segment says."""
        for number, told in enumerate(plain(sections[ABOUT], "a segment of signals")):
            if told["do"] == "drop":
                self.put(told["name"], None)
                continue
            made = kept_of(told)
            made.state.load(_below(sections, f"{number}/"))
            self.put(made.state.name, made)
        for name, stepped in decode((), sections, None)[1]:
            self.views[name].state.again(stepped)

    def sections(self, world: World) -> Mapping[str, Section]:
        """All views."""
        return _made(list(self.views.values()))

    def load(self, world: World, sections: Mapping[str, Any]) -> None:
        """Take what `sections` gave."""
        self.replay(world, sections)

    def reclaim(self, world: World, *, now: bool = False) -> None:
        """What groups do not need is given back as they are stepped."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        states = [kept.state for kept in self.views.values()]
        return sum(s.pipeline.size + sum(part.nbytes for part in s.parts) for s in states)


def _below(sections: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {n.removeprefix(prefix): data for n, data in sections.items() if n.startswith(prefix)}


def _made(views: Sequence[Kept]) -> dict[str, Section]:
    told = [kept.told for kept in views]
    found: dict[str, Section] = {ABOUT: json.dumps(told).encode()}
    for number, kept in enumerate(views):
        found.update({f"{number}/{name}": data for name, data in kept.state.to_sections().items()})
    return found


@dataclass
class Segment:
    """What a step leaves, as it is put together."""

    dropped: list[str] = field(default_factory=list)
    made: list[Kept] = field(default_factory=list)
    steps: list[tuple[str, Stepped]] = field(default_factory=list)
    changes: dict[str, pa.Table] = field(default_factory=dict)
    """What views published, by identity: rows as signals have them, with `_weight`."""

    def sections(self, pack: Callable[[pa.Table], bytes]) -> dict[str, Section]:
        """The sections; none if nothing was done."""
        if not (self.dropped or self.made or self.steps):
            return {}
        found = _made(self.made)
        if self.dropped:
            gone: list[dict[str, Any]] = [{"do": "drop", "name": name} for name in self.dropped]
            found[ABOUT] = json.dumps([*plain(found[ABOUT], "views"), *gone]).encode()  # type: ignore[arg-type]
        found.update(encode((), self.steps).sections)
        found.update({CHANGES + identity: pack(rows) for identity, rows in self.changes.items()})
        return found


@dataclass(frozen=True, eq=False)
class Making:
    """Makes contents, in processes that are to know these functions of users: they travel with the job, as
    other functions that Spark runs do, and never lie in the folder."""

    functions: tuple[tuple[str, Call], ...] = ()

    def __call__(self, name: str, world: World, settle: Callable[[], None]) -> GroupContent:
        """An empty content."""
        self.known()
        return GroupContent(name, world, settle)

    def known(self) -> None:
        """Make the functions known to this process."""
        for name, call in self.functions:
            register_function(name, call)


def role_with(functions: tuple[tuple[str, Call], ...] = ()) -> Role:
    """The role of units of signal views, with functions that their processes need."""
    return Role(ROLE, Making(functions))


register(role_with())
