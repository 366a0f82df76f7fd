"""Crossmatch views as a domain of a database (`everfresh.epochs.domain`).

A view keeps the points of its two tables or SQL views by place and is stepped by what they publish. The
record of an epoch holds the rows of both sides that came and went, with the columns that are used; a snapshot
all points. Rows are matched again where a snapshot is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everfresh.arrays.matching.match import Definition, Match, Side
from everfresh.arrays.sky.crossmatches import crossmatch
from everfresh.delta.bags import WEIGHT, difference, net
from everfresh.epochs import Object, Published, Resident, RowChange, Told, Undo
from everfresh.epochs.domain import Sections
from everfresh.errors import Code, EverfreshError
from everfresh.sql.scalars import read_type
from everfresh.state import pack_table, plain, unpack_table
from everfresh.types import Column

KIND = "crossmatch view"
VIEWS, ROWS, PAST, CHANGE = "crossmatch/all", "crossmatch/rows/", "crossmatch/past/", "crossmatch/change/"
SIDES = ("left", "right")


@dataclass(frozen=True, eq=False)
class Create:
    """Make a view over the rows that its sides have now."""

    definition: Definition
    left: pa.Table
    right: pa.Table


@dataclass(frozen=True)
class Drop:
    """Drop a view."""

    name: str


@dataclass(frozen=True, eq=False)
class Moved:
    """The rows of the sides (0, 1) that came and went, with `_weight`."""

    sides: Mapping[int, pa.Table]


class Crossmatches(Resident):
    """Crossmatch views by name."""

    name = "crossmatch"
    kind = KIND

    def __init__(self, history: int = 100) -> None:
        super().__init__(history)
        self.matches: dict[str, Match] = {}

    def takes(self, given: Any) -> bool:
        """Never: a view is changed by what it reads alone."""
        return False

    def dropping(self, name: str) -> tuple[Drop]:
        """The statement that drops a view."""
        return (Drop(name),)

    def columns(self, name: str) -> tuple[Column, ...]:
        """A view as a relation."""
        with self.lock:
            self.expect(name)
            return self.matches[name].of.columns

    def define(self, statement: Any) -> tuple[Object | str, Undo]:
        """Make or drop a view."""
        before = self.matches

        def undo() -> None:
            self.matches = before

        if isinstance(statement, Drop):
            self.expect(statement.name)
            self.matches = {n: m for n, m in before.items() if n != statement.name}
            return statement.name, undo
        of = statement.definition
        self.matches = {**before, of.name: Match(of, statement.left, statement.right)}
        return Object(of.name, self.name, KIND, _reads(of)), undo

    def make(
        self, name: str, own: Moved | None, inputs: Mapping[str, Published]
    ) -> tuple[Moved | None, Published | None, Undo]:
        """Step a view by what its sides published, or by what the log says that they did."""
        match = self.matches[name]
        if own is None:
            moved = {}
            for k, side in enumerate((match.of.left, match.of.right)):
                if side.relation in inputs:
                    change = _netted(inputs[side.relation].table.select([*side.used, WEIGHT]))
                    if change.num_rows:
                        moved[k] = change
            own = Moved(moved)
        if not own.sides:
            return None, None, _nothing
        change, undo = match.step(own.sides)
        change = _netted(change)
        return own, RowChange(lambda: change) if change.num_rows else None, undo

    def remember(self, epoch: int, published: dict[str, Published]) -> None:
        """An epoch is committed: what points left that went may be used again, unless another has begun."""
        super().remember(epoch, published)
        if len(self.open) == 1:
            for name in published:
                self.matches[name].reclaim()

    def encode(self, statements: Sequence[Any], changes: Sequence[tuple[str, Moved]]) -> Told:
        """Statements as JSON, rows as tables."""
        ddl, sections = [], {}
        for statement in statements:
            if isinstance(statement, Drop):
                ddl.append(json.dumps({"drop": statement.name}))
                continue
            of = statement.definition
            ddl.append(json.dumps(told(of)))
            for side, rows in zip(SIDES, (statement.left, statement.right), strict=True):
                sections[f"{ROWS}{side}/{of.name}"] = pack_table(rows)
        for name, moved in changes:
            for k, table in moved.sides.items():
                sections[f"{CHANGE}{SIDES[k]}/{name}"] = pack_table(table)
        return Told(tuple(ddl), sections)

    def decode(
        self, ddl: Sequence[str], sections: Sections
    ) -> tuple[Sequence[Any], Sequence[tuple[str, Moved]]]:
        """The inverse of `encode`."""
        statements: list[Any] = []
        for text in ddl:
            known = json.loads(text)
            if "drop" in known:
                statements.append(Drop(known["drop"]))
            else:
                of = definition_of(known)
                rows = [unpack_table(sections[f"{ROWS}{side}/{of.name}"]) for side in SIDES]
                statements.append(Create(of, *rows))
        moved: dict[str, dict[int, pa.Table]] = {}
        for section, data in sections.items():
            if section.startswith(CHANGE):
                side, _, name = section.removeprefix(CHANGE).partition("/")
                moved.setdefault(name, {})[SIDES.index(side)] = unpack_table(data)
        return statements, [(name, Moved(dict(sorted(some.items())))) for name, some in moved.items()]

    def to_sections(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        with self.lock:
            if not self.objects:
                return {}
            listed = [[told(self.matches[n].of), found.created] for n, found in self.objects.items()]
            sections: dict[str, Any] = {VIEWS: json.dumps(listed).encode()}
            for name, match in self.matches.items():
                for k, side in enumerate(SIDES):
                    sections[f"{ROWS}{side}/{name}"] = pack_table(points(match, k))
            return {**sections, **self.history.to_sections(PAST, lambda change: change.table)}

    def restore(self, sections: Sections) -> None:
        """Take the state of a snapshot."""
        self.matches, objects = {}, {}
        for known, created in (
            plain(sections[VIEWS], "the crossmatch views of a database") if sections else ()
        ):
            of = definition_of(known)
            rows = [unpack_table(sections[f"{ROWS}{side}/{of.name}"]) for side in SIDES]
            self.matches[of.name] = Match(of, *rows)
            objects[of.name] = Object(of.name, self.name, KIND, _reads(of), created)
        self.objects = objects
        self.history.load(PAST, sections)

    # -- reading -----------------------------------------------------------------------------------

    def rows(self, name: str) -> pa.Table:
        """The rows of a view, by left point and separation."""
        return self.matches[name].rows()

    def statistics(self) -> dict[str, Any]:
        """Points and rows of each view."""
        with self.lock:
            return {
                name: {
                    "kind": KIND,
                    "left": len(match.sides[0].live()),
                    "right": len(match.sides[1].live()),
                    "rows": len(match),
                }
                for name, match in self.matches.items()
            }

    def verify(self, name: str) -> pa.Table:
        """Where a view differs from a crossmatch of its points: no rows when it is right."""
        with self.lock:
            self.expect(name)
            match, shown = self.matches[name], self.matches[name].rows()
            sides = [points(match, k) for k in (0, 1)]
        of = match.of
        within = {
            (a, b): bound for a, b, bound in zip(of.left.bounded, of.right.bounded, of.bounds, strict=True)
        }
        found = crossmatch(
            sides[0],
            sides[1], of.radius_arcsec, how=of.how, find=of.find, within=within,  # type: ignore[arg-type]
            ra=(of.left.ra, of.right.ra), dec=(of.left.dec, of.right.dec),
        )  # fmt: skip
        columns = [sides[0].column(c.name).take(found.column("left_row")) for c in of.left.columns]
        columns += [sides[1].column(c.name).take(found.column("right_row")) for c in of.right.columns]
        expected = pa.Table.from_arrays([*columns, found.column("separation")], list(shown.column_names))
        return difference(expected.cast(shown.schema), shown)

    def explain(self, name: str, format: str = "text") -> str:
        """How a view is maintained."""
        with self.lock:
            self.expect(name)
            match = self.matches[name]
            sizes = [(len(i.live()), [len(r.keys) for r in i.runs]) for i in match.sides]
        of = match.of
        if format == "json":
            return json.dumps({**told(of), "points": [n for n, _ in sizes], "runs": [r for _, r in sizes]})
        radius = f"{of.radius_arcsec:g} arcsec"
        lines = [
            f"crossmatch {of.left.relation} with {of.right.relation} within {radius}: {of.how}, {of.find}"
        ]
        for a, b, (least, most) in zip(of.left.bounded, of.right.bounded, of.bounds, strict=True):
            lines.append(
                f"  {b} of {of.right.relation} minus {a} of {of.left.relation} in {least:g}..{most:g}"
            )
        for side, (count, runs) in zip((of.left, of.right), sizes, strict=True):
            lines.append(
                f"{side.relation}: {count} points in sorted runs of {', '.join(map(str, runs)) or 'none'}"
            )
        lines.append(
            "a change: left points that come, go, or are near a right one that does, before and after"
        )
        return "\n".join(lines)

    def hold(self, db: Any, name: str) -> Any:
        """What a user holds of a view."""
        from everfresh.arrays.matching.handle import CrossmatchView

        return CrossmatchView(db, self, name)


def _netted(change: pa.Table) -> pa.Table:
    """A change without rows that come and go; there are none where all come, or all go."""
    signs = np.sign(change.column(WEIGHT).to_numpy())
    return change if not len(signs) or (signs == signs[0]).all() else net(change)


def _nothing() -> None:
    return None


def _reads(of: Definition) -> tuple[str, ...]:
    return tuple(dict.fromkeys((of.left.relation, of.right.relation)))


def points(match: Match, k: int) -> pa.Table:
    """The points of a side that are there, with the columns that are used."""
    index, side = match.sides[k], (match.of.left, match.of.right)[k]
    slots = index.live()
    shown = {c.name: index.arrow(at, slots) for at, c in enumerate(side.columns)}
    plainly = {side.ra: index.ra, side.dec: index.dec, **dict(zip(side.bounded, index.bounded, strict=True))}
    table = {name: pa.array(grown.values[slots], from_pandas=True) for name, grown in plainly.items()}
    return pa.table({**table, **shown}).select(side.used)


def told(of: Definition) -> dict[str, Any]:
    """A definition as plain data."""
    sides = [
        {"relation": s.relation, "ra": s.ra, "dec": s.dec, "bounded": list(s.bounded),
         "columns": [[c.name, str(c.type), c.nullable] for c in s.columns]}
        for s in (of.left, of.right)
    ]  # fmt: skip
    bounds = [[None if abs(b) == float("inf") else b for b in bound] for bound in of.bounds]
    return {"name": of.name, "sides": sides, "radius": of.radius_arcsec, "bounds": bounds, "how": of.how,
            "find": of.find}  # fmt: skip


def definition_of(known: Mapping[str, Any]) -> Definition:
    """The inverse of `told`."""
    try:
        sides = [
            Side(s["relation"], s["ra"], s["dec"], tuple(s["bounded"]),
                 tuple(Column(n, read_type(t), nullable) for n, t, nullable in s["columns"]))
            for s in known["sides"]
        ]  # fmt: skip
        bounds = tuple(
            (float("-inf") if a is None else a, float("inf") if b is None else b) for a, b in known["bounds"]
        )
        return Definition(
            known["name"], sides[0], sides[1], known["radius"], bounds, known["how"], known["find"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EverfreshError(Code.DAMAGED, f"a crossmatch view cannot be read: {error}") from None


def made(history: int, host: Any) -> Crossmatches:
    """The domain: points and pairs are in this process, on Spark with the driver."""
    return Crossmatches(history)
