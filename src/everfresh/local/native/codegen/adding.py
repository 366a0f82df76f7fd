"""What statements have made of a row is added to its maps: the part of a generator that writes this.

Before anything is added there is a look at the room for all of it. What goes to the maps of a relation that
is stepped waits for its step (`stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everfresh.local.batch.linked_programs import LinkedRelation, Prepared, Wiring
from everfresh.local.native.codegen.adders import rows_of
from everfresh.local.native.codegen.lines import Lines
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.helpers import POOL_ROOM
from everfresh.local.native.runtime.layout import Places
from everfresh.local.store.entries import EntryStore

_SLACK = 64
"""Entries for which there is room in the maps that later stages change, when a row begins."""


@dataclass(frozen=True)
class AddedStatement:
    """A statement, whether what it makes is added at once, and on the change of which stage it runs: 0 is the
    row, i the i-th relation that is stepped."""

    prepared: Prepared
    apply: bool
    stage: int = 0


class Adding:
    """Of a generator: its jobs, and what they have made so far."""

    wiring: Wiring
    jobs: tuple[AddedStatement, ...]
    chain: tuple[LinkedRelation, ...]
    """The relations that are stepped, in order."""
    held: set[str]
    """Their maps: what is added waits for the step of the relation."""
    places: Places
    out: Lines
    _sites: list[tuple[int, str, list[str], list[str]]]
    """Rows that are kept in variables: the statement, the name, the cells, and zeros for them."""
    _adders: dict[str, EntryStore]

    def exit(self, code: int, *lines: str) -> None:
        """Leave in the middle of row `r`."""
        raise NotImplementedError

    def apply(self, stage: int = 0) -> None:
        """Add the rows of the applied statements of a stage, after a look at the room for all of them."""
        maps = dict.fromkeys(
            job.prepared.store.target.name for job in self.jobs if job.apply and job.stage == stage
        )
        now = [name for name in maps if name not in self.held]
        self.room(now, again=stage > 0)
        for name in now:
            self.release(name, stage=stage)
        if now and not self.chain:
            with self.out.block("if bad != 0:"):
                self.exit(at.BAD)

    def room(self, maps: Sequence[str], *, again: bool) -> None:
        """Leave if there is no room for all rows for some maps, or, at the first stage, for a few in those
        of later ones; `again`: in the middle of a row."""
        needs = {name: " + ".join(what for _, what, _ in self._waiting(name)) for name in maps}
        needs = {name: self.out.let(code, "q") for name, code in needs.items() if code}
        if not again and self.chain:
            every = dict.fromkeys(job.prepared.store.target.name for job in self.jobs if job.apply)
            needs |= {name: str(_SLACK) for name in every if name not in needs}
        for name, need in needs.items():
            use = self.places.pool(self.wiring.stores(name))
            self.places.targets.add(use.number)
            with (
                self.out.block(f"if ld(C, {use.place + POOL_ROOM}) < {need}:"),
                self.out.block(f"if room(C + {8 * use.place}) < {need}:"),
            ):
                self.out.add(f"st(C, {at.POOL}, {use.number})", f"st(C, {at.NEED}, {need})", "full = 1")
        if needs:
            with self.out.block("if full != 0:"):
                lines = [f"st(C, {at.AGAIN}, {at.NO_POOL})"] if again else []
                self.exit(at.BAD if again else at.FULL_POOL, *lines)

    def _waiting(self, name: str, stage: int | None = None) -> list[tuple[int, str, bool]]:
        """What has been made for a map: the statement, how many rows there are, and whether in a buffer."""
        found = [
            (number, site, False) for number, site, _, _ in self._sites if self._goes(number, name, stage)
        ]
        buffers = self.places.buffers.values()
        return found + [
            (use.statement, f"b{use.number}", True)
            for use in buffers
            if self._goes(use.statement, name, stage)
        ]

    def _goes(self, number: int, name: str, stage: int | None) -> bool:
        job = self.jobs[number]
        return job.apply and job.prepared.store.target.name == name and stage in (None, job.stage)

    def release(
        self,
        name: str,
        before: Callable[[list[str]], list[str]] | None = None,
        after: Callable[[list[str]], list[str]] | None = None,
        stage: int | None = None,
    ) -> None:
        """Add what has been made for a map; `before` and `after` each addition, given its key words, more."""
        out = self.out
        for number, what, buffered in self._waiting(name, stage):
            store = self.jobs[number].prepared.store
            if buffered:
                args = [
                    f"{'ldf' if put == 'stf' else 'ld'}({what}_{matrix}, {row} * {what}_cap + j)"
                    for put, matrix, row in rows_of(store)
                ]
            else:
                args = [f"{what}_{j}" for j in range(len(rows_of(store)))]
            words = args[: store.codec.words]
            with out.block(f"for j in range({what}):" if buffered else f"if {what} != 0:"):
                out.add(*(before(words) if before is not None else ()))
                out.add(f"bad |= {self._adder(number)}{', '.join(args)})")
                out.add(*(after(words) if after is not None else ()))

    def if_changed(self, maps: Sequence[str]) -> None:
        """Open a block for what is done if something was added to some maps."""
        waiting = [f"{what} != 0" for name in maps for _, what, _ in self._waiting(name)]
        self.out.open(f"if {' or '.join(waiting) or 'False'}:")

    def _adder(self, statement: int) -> str:
        """The call, up to its own arguments, of the function that adds to a statement's map."""
        store = self.jobs[statement].prepared.store
        use = self.places.pool(store)
        self._adders[f"add_{use.number}"] = store
        return f"add_{use.number}(C + {8 * use.place}, "
