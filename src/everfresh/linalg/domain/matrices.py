"""Matrices as a domain of a database (`everfresh.epochs.domain`).

A matrix is stepped by publishing its updates, a view by applying those of all that it reads at once; a matrix
that follows columns of a relation makes updates of the change that the relation published. What is read of
earlier epochs is got back from what the last ones added (`past`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from everfresh.epochs import Object, Published, Resident, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.epochs.history import with_epochs
from everfresh.epochs.resident import weighted
from everfresh.errors import Code, EverfreshError
from everfresh.linalg.domain.columns import key_table
from everfresh.linalg.domain.past import ROW, Past, difference, rows_of
from everfresh.linalg.domain.steps import (
    CreateMatrix,
    CreateView,
    Drop,
    MatrixUpdates,
    decode,
    encode,
    updates_of,
)
from everfresh.linalg.domain.store import META, MatrixStore
from everfresh.linalg.run.before import Before
from everfresh.linalg.run.updates import Update
from everfresh.program.engine import check_epoch
from everfresh.state import plain
from everfresh.types import BIGINT, DOUBLE, Column

PAST, CREATED = "matrix/past/", "matrix/created"


class MatrixChange:
    """What a matrix or view publishes: its updates, if it is a matrix, and its rows that changed; `before` is
    what its value before is got back by, for a matrix that views hold known when the first is stepped."""

    exact = False

    def __init__(
        self, updates: Sequence[Update], before: Before | None, rows: Callable[[MatrixChange], pa.Table]
    ) -> None:
        self.updates, self.before = updates, before
        self._rows = rows

    @property
    def table(self) -> pa.Table:
        """The rows that went and came, while the epoch is being made."""
        return self._rows(self)


class Matrices(Resident):
    """Matrices, and views that are programs over them."""

    name = "matrix"
    kind = "matrix"

    def __init__(self, history: int = 100, store: MatrixStore | None = None) -> None:
        super().__init__(history)
        self.store = store or MatrixStore()
        self._past = Past(history)
        self._moved: dict[str, Before | None] = {}
        """Matrices that somebody else holds after the epoch that is being made."""

    # -- changes -----------------------------------------------------------------------------------

    def takes(self, given: Any) -> bool:
        """Whether something is an update of a matrix, or a list of them."""
        return updates_of(given) is not None

    def prepare(self, name: str, given: Any) -> MatrixUpdates:
        """What a user gives for a matrix."""
        listed = updates_of(given)
        if listed is None:
            raise EverfreshError(
                Code.ARGUMENT,
                f"{type(given).__name__} is no update of a matrix",
                place=f"matrix '{name}'",
                hint="updates are LowRank, RowUpdate, ColumnUpdate, EntryUpdate, AppendRows, DeleteRows "
                "of everfresh.linalg, or a list of them",
            )
        self.store.expect_matrix(name)
        if name in self.store.followed:
            relation = self.store.followed[name].source.relation
            raise EverfreshError(
                Code.ARGUMENT,
                f"the matrix '{name}' follows '{relation}'",
                place=f"matrix '{name}'",
                hint=f"change what '{relation}' is made from",
            )
        return MatrixUpdates({name: listed})

    def dropping(self, name: str) -> Sequence[Drop]:
        """The statements that drop a matrix; or a view, with the matrices that were made for it alone."""
        store = self.store
        own = [m for m in store.reads(name) if m in store.followed and store.readers(m) == [name]]
        return [Drop(name), *map(Drop, own if name in store.views else ())]

    def columns(self, name: str) -> tuple[Column, ...]:
        """A matrix, or the first output of a view, as a relation."""
        with self.lock:
            names = rows_of(self.store.value(name).shown()[:0]).column_names
        return tuple(Column(n, BIGINT if n == ROW else DOUBLE, False) for n in names)

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop a matrix or a view."""
        store, before = self.store, dict(self._moved)
        match statement:
            case CreateMatrix(name):
                undo, kind = store.create_matrix(statement), "matrix"
            case CreateView(name):
                moved = [m for m in statement.inputs.values() if not store.readers(m)]
                undo, kind = store.create_view(statement), "matrix view"
                self._moved.update({m: Before((), store.array(m)) for m in moved})
            case Drop(name):
                inputs = store.definitions[name].inputs.values() if name in store.definitions else ()
                undo, kind = store.drop(name), ""
                self._moved.update({m: Before((), store.array(m)) for m in set(inputs)})
            case _:
                raise TypeError(f"{statement} is no statement of matrices")

        def take_back() -> None:
            undo()
            self._moved = before

        made = Object(name, self.name, kind, store.reads(name)) if kind else name
        return made, take_back

    def make(
        self, name: str, own: MatrixUpdates | None, inputs: Mapping[str, Published]
    ) -> tuple[MatrixUpdates | None, MatrixChange | None, Undo]:
        """Step a matrix or a view."""
        if name in self.store.matrices:
            return self._step_matrix(name, own, inputs)
        changes = {n: change for n, change in inputs.items() if isinstance(change, MatrixChange)}
        before, undo = self.store.change_view(name, {n: change.updates for n, change in changes.items()})
        for matrix, change in changes.items():
            change.before = change.before or before[matrix]
        return None, MatrixChange((), before[name], partial(self._changed, name)), undo

    def _step_matrix(
        self, name: str, own: MatrixUpdates | None, inputs: Mapping[str, Published]
    ) -> tuple[MatrixUpdates | None, MatrixChange | None, Undo]:
        linked = self.store.followed.get(name)
        undone: list[Undo] = []
        if linked is not None and own is None:
            (change,) = inputs.values()
            updates, appended, deleted = linked.updates(change.table)
            if not updates:
                return None, None, _nothing
            undone.append(linked.move(deleted, appended))
            own = MatrixUpdates(
                {name: updates}, {name: key_table(linked.source, appended)} if appended else {}
            )
        elif linked is not None and own is not None:  # again, from the log
            gone = [i for u in own.updates[name] for i in getattr(u, "indices", ())]
            came = linked.source.keys(own.keys[name]) if name in own.keys else []
            undone.append(linked.move(gone, came))
        assert own is not None
        updates = list(own.updates[name])
        try:
            before, undo = self.store.change_matrix(name, updates)
        except BaseException:
            for take_back in undone:
                take_back()
            raise

        def take_all_back() -> None:
            for take_back in (undo, *undone):
                take_back()

        return own, MatrixChange(updates, before, partial(self._changed, name)), take_all_back

    def _changed(self, name: str, change: MatrixChange) -> pa.Table:
        after = self.store.value(name)
        now = after.shown()
        then = change.before.of(after).shown() if change.before is not None else now[:0]
        return difference(now, then, now.shape[1])

    # -- the log -----------------------------------------------------------------------------------

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Any]]) -> Told:
        """Statements and updates as the log keeps them."""
        updates = {name: change.updates[name] for name, change in changes}
        keys = {name: change.keys[name] for name, change in changes if name in change.keys}
        return encode([*statements, *([MatrixUpdates(updates, keys)] if updates else [])])

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Any]]]:
        """The inverse of `encode`."""
        steps = decode(ddl, sections)
        changes = [
            (name, MatrixUpdates({name: updates}, {name: step.keys[name]} if name in step.keys else {}))
            for step in steps
            if isinstance(step, MatrixUpdates)
            for name, updates in step.updates.items()
        ]
        return [step for step in steps if not isinstance(step, MatrixUpdates)], changes

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        sections: dict[str, Any] = dict(self.store.to_sections())
        if sections:
            created = {name: found.created for name, found in self.objects.items()}
            sections[CREATED] = json.dumps(created).encode()
            sections.update(self._past.to_sections(PAST))
        return sections

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.store.load(sections)
        self._past, self._moved = Past(self.kept, self.epoch), {}
        if META not in sections:
            return
        self._past.load(PAST, sections)
        created = plain(sections[CREATED], "when matrices were made") if CREATED in sections else {}
        store = self.store
        kinds = dict.fromkeys(store.matrices, "matrix") | dict.fromkeys(store.views, "matrix view")
        made = [
            Object(name, self.name, kind, store.reads(name), created.get(name, self.epoch))
            for name, kind in kinds.items()
        ]
        made.sort(key=lambda found: found.created)  # as they were made: those that are read come first
        self.objects = {found.name: found for found in made}

    # -- reading -----------------------------------------------------------------------------------

    def rows(self, name: str) -> pa.Table:
        """A matrix, or the first output of a view, as rows."""
        return rows_of(self.store.value(name).shown())

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """An epoch is committed."""
        before = {n: change.before for n, change in published.items() if isinstance(change, MatrixChange)}
        self._past.add(epoch, {**before, **self._moved})
        self._moved = {}

    def forget(self, created: Mapping[str, int]) -> None:
        """Objects came or went."""
        self._past.prune(created)

    def oldest(self, name: str) -> int:
        """The earliest epoch whose value is known."""
        return self._past.oldest(name, self.epoch)

    def rows_at(self, found: Object, at: int) -> pa.Table:
        """The rows at an earlier epoch."""
        return rows_of(self._past.at(found.name, self.store.value(found.name), at).shown())

    def changes_of(self, found: Object, since: int | None) -> pa.Table:
        """The change of each epoch after `since`."""
        name, oldest = found.name, self.oldest(found.name)
        since = oldest if since is None else since
        check_epoch(name, since, oldest, self.epoch)
        now = self.store.value(name)
        columns = now.shown().shape[1]
        parts = []
        for epoch, after, before in self._past.back(name, now, max(since, found.created)):
            parts.append((epoch, difference(after.shown(), before.shown(), columns)))
        if since < found.created:
            first = self._past.at(name, now, found.created).shown()
            parts.append((found.created, difference(first, first[:0], columns)))
        return with_epochs(parts[::-1], weighted(rows_of(now.shown()[:0])))

    def verify(self, name: str) -> pa.Table:
        """The matrices of a view that differ from their re-evaluation by more than its tolerance."""
        with self.lock:
            self.expect(name)
            found = {}
            if name in self.store.views:
                view = self.store.views[name]
                found = {n: gap for n, gap in view.verify().items() if not gap <= view.tolerance}
        return pa.table(
            {"matrix": pa.array(found, pa.string()), "difference": pa.array(found.values(), pa.float64())}
        )

    def explain(self, name: str, format: str = "text") -> str:
        """The triggers with their cost in big-O and in flops, and how the view is doing."""
        if format != "text":
            raise EverfreshError(
                Code.ARGUMENT, f"a matrix view is explained as text, not as '{format}'", place="format"
            )
        with self.lock:
            return self.store.expect_view(name).explain()

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of a matrix or a view."""
        from everfresh.linalg.domain.handles import LinearView, Matrix

        return (Matrix if name in self.store.matrices else LinearView)(db, self, name)


def _nothing() -> None:
    """Nothing was done."""


def made(history: int, host: Any) -> Matrices:
    """The domain, on an engine that offers `host`."""
    if host is None:
        return Matrices(history)
    from everfresh.linalg.spark.store import SparkMatrixStore

    return Matrices(history, SparkMatrixStore(host))
