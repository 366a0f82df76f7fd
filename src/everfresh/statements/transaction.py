"""Several changes as one epoch: BEGIN, statements, COMMIT.

Nothing of a transaction is in the database before it is committed: what its statements do to tables is kept
beside them as rows with weights, and what it reads is put together from both. Views over tables that it has
changed are answered by their queries. COMMIT is one batch, judged by its net effect as every batch is: keys
are looked at then. Invariant: the lock of the database is held by the thread that began it, so that the epoch
is that of its beginning until it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everfresh.delta import read_rows
from everfresh.delta.bags import expand, net, split, weigh
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Expr, Var
from everfresh.program import Batch, Part
from everfresh.sql.constraints import filled
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.inlining import inlined
from everfresh.sql.logical.plan import scans
from everfresh.statements.rows import fetched, plain_rows, upserted
from everfresh.types import TableSchema, no_rows

if TYPE_CHECKING:
    from everfresh.database import Database


class Transaction:
    """What has been done since BEGIN. It reads like an engine: `select`, `matching`, `read`, `read_input`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._engine = db._writable()
        self.thread = threading.get_ident()
        self.failed = False
        """Whether a statement in it was refused: then it can only be rolled back."""
        self._changes: dict[str, list[pa.Table]] = {}
        self._rows: dict[str, pa.Table] = {}

    @property
    def catalog(self) -> Any:
        """The tables and views; they do not change in a transaction."""
        return self._engine.catalog

    def read_input(self, data: Any, schema: TableSchema, what: str, op: Any) -> Any:
        """Rows as the engine takes them."""
        return self._engine.read_input(data, schema, what, op)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Table:
        """The rows of a table as they are now."""
        if name not in self._changes:
            return self._engine.read(name)
        if name not in self._rows:
            arrow = self.catalog.tables[name].arrow
            base = weigh(self._engine.read(name).cast(arrow))
            every = pa.concat_tables([base, *(some.cast(base.schema) for some in self._changes[name])])
            self._rows[name] = expand(net(every))
        return self._rows[name]

    def select(self, plan: p.Plan) -> Any:
        """The result of a query."""
        views = {view.name for view in self.catalog.affected_by(self._changes)}
        if not any(scan.table in views or scan.table in self._changes for scan in scans(plan)):
            return self._engine.select(plan)
        from everfresh.local import adhoc

        plans = {name: self.catalog.views[name].compiled.plan for name in views}
        return adhoc.execute(inlined(plan, plans), self.read)

    def matching(
        self, table: str, where: Expr | None, assign: Sequence[tuple[str, Expr]] = ()
    ) -> tuple[Any, Any]:
        """The rows of a table that satisfy `where`, and the same rows with `assign` applied."""
        if table not in self._changes:
            return self._engine.matching(table, where, assign)
        from everfresh.local import adhoc

        schema, known = self.catalog.tables[table], dict(assign)
        scan: p.Plan = p.Scan(table, table, tuple(Var(c.name, c.type, c.nullable) for c in schema.columns))
        rows = scan if where is None else p.Filter(scan, where)
        new = p.Project(rows, tuple((v.name, known.get(v.name, v)) for v in scan.variables))
        old, become = (adhoc.execute(plan, self.read) for plan in (rows, new))
        return old.cast(schema.arrow), become

    # -- changing ----------------------------------------------------------------------------------

    def add(self, batch: Batch) -> int:
        """Keep what a batch would do; the epoch stays."""
        if batch.changes or batch.statements or batch.key is not None:
            what = "a batch with a key" if batch.key is not None else "a change of anything but tables"
            raise EverfreshError(Code.UNSUPPORTED, f"{what} in a transaction is not supported")
        before = {name: len(some) for name, some in self._changes.items()}
        try:
            for part in sorted(batch.parts, key=lambda part: not part.op.startswith("delete")):
                self._add(part)
        except BaseException:
            self._changes = {name: self._changes[name][:n] for name, n in before.items()}
            self._rows.clear()
            raise
        return self._engine.epoch

    def _add(self, part: Part) -> None:
        schema = self.catalog.tables[part.table]
        rows = fetched(part.rows, schema)
        rows = rows if part.op in ("update", "delete_key") else filled(schema, rows)
        gone, come = self._effect(part, schema, rows)
        kept = self._changes.setdefault(part.table, [])
        kept += [weigh(some, weight) for some, weight in ((gone, -1), (come, 1)) if some is not None]
        self._rows.pop(part.table, None)

    def _effect(
        self, part: Part, schema: TableSchema, rows: pa.Table
    ) -> tuple[pa.Table | None, pa.Table | None]:
        """The rows that a part takes away, and those that it brings."""
        match part.op:
            case "insert":  # rows that were fetched may lack columns
                whole = rows.column_names == list(schema.names)
                return None, rows if whole else read_rows(rows, schema, what=part.what)
            case "delete":
                return rows, None
            case "upsert":
                assert part.conflict is not None
                gone, come = upserted(schema, self.read(part.table), rows, part.conflict)
                return plain_rows(schema, gone), filled(schema, plain_rows(schema, come))
            case "delete_key" | "update":
                there = {tuple(row[n] for n in schema.key): row for row in self.read(part.table).to_pylist()}
                given = rows.to_pylist()
                keys = [tuple(row[n] for n in schema.key) for row in given]
                missing = next((key for key in keys if key not in there), None)
                if missing is not None:
                    shown = ", ".join(f"{n}={v}" for n, v in zip(schema.key, missing, strict=True))
                    raise EverfreshError(
                        Code.MISSING_ROW, f"there is no row with key ({shown}) in '{schema.name}'"
                    )
                old = [there[key] for key in keys]
                new = [{**there[key], **row} for key, row in zip(keys, given, strict=True)]
                become = filled(schema, plain_rows(schema, new)) if part.op == "update" else None
                return plain_rows(schema, old), become
        raise EverfreshError(
            Code.UNSUPPORTED,
            "a change feed in a transaction is not supported",
            hint="give its rows as inserts and deletes",
        )

    def batch(self) -> Batch:
        """All of it, as one batch."""
        parts: list[Part] = []
        for name, some in self._changes.items():
            arrow = self.catalog.tables[name].arrow
            rows, column = split(
                net(pa.concat_tables([one.cast(weigh(no_rows(arrow)).schema) for one in some]))
            )
            weights = column.to_numpy()
            rows = rows.cast(arrow)
            for op, counts in (("delete", np.maximum(-weights, 0)), ("insert", np.maximum(weights, 0))):
                if counts.any():
                    taken = rows.take(np.repeat(np.arange(len(counts)), counts))
                    parts.append(Part(name, op, taken, f"COMMIT, table '{name}'"))  # type: ignore[arg-type]
        return Batch(tuple(parts))
