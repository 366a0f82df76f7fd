"""Making crossmatch views, and what a user holds of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays.matching.domain import Create
from everfresh.arrays.matching.match import Definition, Side
from everfresh.arrays.sky.crossmatches import checked_limits, checked_match
from everfresh.errors import Code, EverfreshError
from everfresh.relations import View
from everfresh.types import Column

if TYPE_CHECKING:
    from everfresh.arrays.matching.domain import Crossmatches
    from everfresh.database import Database

DOMAIN = "crossmatch"
_NUMBERS = ("DOUBLE", "REAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL")


class CrossmatchView(View):
    """A crossmatch view: always equal to the crossmatch of its two relations."""

    kind = "crossmatch view"

    def __init__(self, db: Database, domain: Crossmatches, name: str) -> None:
        super().__init__(db, name)
        self._domain = domain

    def _check(self, catalog: Any) -> None:
        self._domain.expect(self.name)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of both sides that are shown, and `separation` in arcseconds."""
        self._db._current()
        return self._domain.columns(self.name)

    def __len__(self) -> int:
        self._db._current()
        with self._domain.lock:
            self._domain.expect(self.name)
            return len(self._domain.matches[self.name])

    def on_change(self, fn: Callable[[pa.Table], Any]) -> Callable[[], None]:
        """Call `fn(changes)` after each batch that changes the view; returns a function that ends it."""
        self._check(None)
        return self._db._listen(self.name, fn)

    def drop(self) -> int:
        """Remove it."""
        return self._db._drop(self.name)


def create_crossmatch_view(
    db: Database,
    name: str,
    left: str,
    right: str,
    radius_arcsec: float,
    how: str,
    find: str,
    within: Any,
    ra: Any,
    dec: Any,
    shown: tuple[Sequence[str] | None, Sequence[str] | None],
) -> int:
    """Keep the crossmatch of two relations; `best` as `how` is the pairs with the nearest."""
    if how == "best":
        how, find = "inner", "best"
    checked_match(radius_arcsec, how, find)
    limits = checked_limits(within or {})
    with db._lock:
        db._check_free(name)
        sides, rows = [], []
        for k, relation in enumerate((left, right)):
            side, table = _side(db, relation, _of(ra, k), _of(dec, k), [_of(n, k) for n in limits], shown[k])
            sides.append(side)
            rows.append(table)
        definition = Definition(
            name, sides[0], sides[1], float(radius_arcsec), tuple(limits.values()), how, find
        )
        if len({c.name.lower() for c in definition.columns}) != len(definition.columns):
            raise EverfreshError(
                Code.EXISTS,
                "two columns of the view would have the same name",
                place=f"crossmatch view '{name}'",
                hint="columns are: " + ", ".join(c.name for c in definition.columns),
            )
        return db._define(DOMAIN, Create(definition, *rows))


def _of(name: Any, side: int) -> str:
    return name if isinstance(name, str) else str(name[side])


def _side(
    db: Database, relation: str, ra: str, dec: str, bounded: Sequence[str], shown: Sequence[str] | None
) -> tuple[Side, pa.Table]:
    """A side of a view, and its rows now."""
    engine = db._open()
    exact = engine.catalog.resolve(relation) or relation
    found = engine.catalog.relation(exact)
    if found is None:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no table or view '{relation}'",
            hint="there are: " + (", ".join(engine.catalog.names()) or "none yet"),
        )
    columns: Mapping[str, Column] = {c.name: c for c in found[1]}
    table = engine.catalog.table(exact) if found[0] == "table" else None
    names = (
        list(shown) if shown is not None else list(table.key if table is not None and table.key else columns)
    )
    for name in (ra, dec, *bounded, *names):
        if name not in columns:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"'{relation}' has no column '{name}'",
                hint="its columns are: " + ", ".join(columns),
            )
    for name in (ra, dec, *bounded):
        if columns[name].type.name not in _NUMBERS:
            raise EverfreshError(
                Code.TYPE,
                f"column '{name}' of '{relation}' is {columns[name].type}, not a number",
                hint="degrees are DOUBLE; cast dates to days in a view",
            )
    side = Side(exact, ra, dec, tuple(bounded), tuple(columns[n] for n in names))
    return side, engine.read(exact).select(side.used)
