"""DataFrames over the units: how Spark SQL, readers and the engine itself see tables and views.

A frame is of the versions that were current when it was made, or that a draft has reached. Its tasks read the
units where they are (`everfresh.spark.state.reading`); what is on the driver travels with the frame.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta import SparkRows
from everfresh.delta.bags import net
from everfresh.expr import Expr, Var
from everfresh.local.store.map_store import weighted_schema
from everfresh.spark.beside import relations
from everfresh.spark.jobs.job import DRIVER, Base, World
from everfresh.spark.jobs.programs import DRIVER_HOME, home_of
from everfresh.spark.session.failures import translated
from everfresh.spark.sql.forms import from_held, held, shown_frame
from everfresh.spark.sql.text import plan_sql, spark_schema
from everfresh.spark.state.chain import read_segment
from everfresh.spark.state.ledger import Draft, Ledger
from everfresh.spark.state.reading import given_block, read_block, rows_of
from everfresh.sql.logical import plan as p
from everfresh.state import pack_table, unpack_table
from everfresh.types import INTERVAL, Column, arrow_schema, no_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READ_CHUNK = 1 << 16


class Frames:
    """What the units of a database hold, for Spark."""

    def __init__(self, session: SparkSession, ledger: Ledger) -> None:
        self._spark = session
        self._ledger = ledger
        self._workers = ledger.folder.workers

    def units(self, name: str, catalog: Catalog) -> tuple[str, ...]:
        """The units that hold a table or view."""
        home = "base" if name in catalog.tables else home_of(catalog, name)
        return (DRIVER,) if home == DRIVER_HOME else tuple(f"{home}/{w}" for w in range(self._workers))

    def frame(
        self,
        name: str,
        at: int | None = None,
        draft: Draft | None = None,
        world: World | None = None,
        session: SparkSession | None = None,
    ) -> DataFrame:
        """A DataFrame over the units at the current epoch, or at a draft's versions, fixed now."""
        ledger = self._ledger
        world = world or ledger.world(ledger.epoch)
        found = world.catalog.relation(name)
        assert found is not None
        known = draft.bases if draft is not None else ledger.bases
        bases = tuple(known[unit] for unit in self.units(name, world.catalog))
        schema, session = spark_schema(found[1]), session or self._spark
        if bases[0].unit == DRIVER:
            rows = pack_table(held(rows_of(world, bases[0], name, at), found[1]))
            return session.range(0, 1, 1, 1).mapInArrow(partial(given_block, rows, _READ_CHUNK), schema)
        read = partial(read_block, world.left(), bases, name, at, _READ_CHUNK)
        return session.range(0, self._workers, 1, self._workers).mapInArrow(read, schema)

    def rows(self, name: str, at: int | None = None) -> pa.Table:
        """The rows of a table or view, collected; those of a view on the driver are there."""
        ledger = self._ledger
        found = ledger.catalog.relation(name)
        assert found is not None
        if self.units(name, ledger.catalog) == (DRIVER,):
            rows = rows_of(ledger.world(ledger.epoch), ledger.bases[DRIVER], name, at)
            return rows.cast(arrow_schema(found[1]))
        return SparkResult(self.frame(name, at), found[1]).fetch()

    def change_in(self, draft: Draft, name: str) -> pa.Table:
        """The change of a view in an epoch that is being made, or of a table whose change is published."""
        known = [table for _, table in self.changes_in(draft.bases, name, draft.epoch - 1)]
        found = self._ledger.catalog.relation(name)
        assert found is not None
        schema = weighted_schema(found[1])
        return pa.concat_tables([t.cast(schema) for t in known]) if known else no_rows(schema)

    def changes_in(self, bases: Mapping[str, Base], name: str, since: int) -> list[tuple[int, pa.Table]]:
        """The changes of a view or table in the epochs after `since`, in parts, from its units' segments."""
        ledger = self._ledger
        world, section = ledger.world(ledger.epoch), f"changes/{ledger.ids[name]}"
        parts = []
        for unit in self.units(name, ledger.catalog):
            found: dict[int, list[pa.Table]] = {}
            for link in bases[unit].since(since):
                sealed = read_segment(world, unit, link)
                if section in sealed.sections:
                    found.setdefault(link.epoch, []).append(unpack_table(sealed.sections[section]))
            for epoch, some in found.items():  # several where a view was stepped more than once
                parts.append((epoch, some[0] if len(some) == 1 else net(pa.concat_tables(some))))
        return parts

    def view(
        self,
        name: str,
        draft: Draft | None = None,
        world: World | None = None,
        plan: p.Plan | None = None,
    ) -> str:
        """A name for Spark SQL to read a table or view by, or what a plan needs of an object of another
        domain, as of now; in a draft the table that follows the object."""
        domain = self._ledger.objects.domain_of(name)
        if domain is not None and draft is None:
            frame = (
                domain.frame(name, None, self._spark)
                if plan is None
                else domain.frame_for(name, plan, self._spark)
            )
            if frame is None:
                rows = domain.read(name) if plan is None else domain.rows_for(name, plan)
                frame = self._spark.createDataFrame(rows)
            return self._named(frame)
        return self._named(self.frame(name, None, draft, world))

    def _named(self, frame: DataFrame) -> str:
        alias = f"everfresh_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(alias)
        return alias

    def select(self, plan: p.Plan, bound: Any = None) -> SparkResult:
        """An ad hoc query, by Spark SQL over the units."""
        with relations(self._spark) as beside:
            text = plan_sql(plan, partial(self.view, plan=plan), beside)
            return SparkResult(self._spark.sql(text), plan.columns)

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows that satisfy `where`, and the same rows with `assign` applied, both as DataFrames."""
        schema = self._ledger.catalog.tables[table]
        scan: p.Plan = p.Scan(table, table, tuple(Var(c.name, c.type, c.nullable) for c in schema.columns))
        rows = p.Filter(scan, where) if where is not None else scan
        new = dict(assign)
        changed = p.Project(rows, tuple((v.name, new.get(v.name, v)) for v in scan.variables))
        names = tuple((name, name) for name in schema.names)
        alias = self.view(table)
        found = (self._spark.sql(plan_sql(plan, lambda _: alias)) for plan in (rows, changed))
        return tuple(SparkRows(shown_frame(frame, schema.columns), names) for frame in found)  # type: ignore[return-value]

    def recomputed(self, view: str) -> DataFrame:
        """A view from the base tables alone: no map is read, not even of the views it reads."""
        catalog = self._ledger.catalog

        def source(name: str) -> str:
            return self.view(name) if name in catalog.tables else self._named(self.recomputed(name))

        return self._spark.sql(plan_sql(catalog.views[view].compiled.plan, source))


@dataclass(frozen=True, slots=True)
class SparkResult:
    """A DataFrame that answers a query, in the types in which queries hold values, and its columns."""

    raw: DataFrame
    columns: tuple[Column, ...]

    @property
    def frame(self) -> DataFrame:
        """The DataFrame in the types in which others read it."""
        return shown_frame(self.raw, self.columns)

    def fetch(self) -> pa.Table:
        """The rows, with exactly the Arrow types of the columns."""
        with translated():
            table = self.raw.toArrow()
        for index, column in enumerate(self.columns):
            if (
                column.type == INTERVAL
            ):  # travels as a struct: Spark's own intervals do not mix months and days
                parts = [
                    None if v is None else (v["months"], v["days"], v["us"] * 1000)
                    for v in table[index].to_pylist()
                ]
                table = table.set_column(index, column.name, pa.array(parts, pa.month_day_nano_interval()))
        return from_held(table, self.columns).cast(arrow_schema(self.columns))
