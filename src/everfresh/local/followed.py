"""Tables that follow objects of other domains, in this process: what an object's change is to its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from everfresh.compiler import Catalog
from everfresh.delta.bags import difference, split
from everfresh.epochs import Objects, Published
from everfresh.epochs.layers import rows_that_came
from everfresh.errors import Code, EverfreshError
from everfresh.local.state import LocalState
from everfresh.local.store.table import Net

_ROUNDING = 1e-9


def nets_of(state: LocalState, objects: Objects, followed: Mapping[str, Published]) -> dict[str, Net]:
    """The net changes of tables that the changes of objects are."""
    nets: dict[str, Net] = {}
    try:
        for name, change in followed.items():
            table = state.tables[name]
            read = partial(_domain(objects, name).read, name)
            rows, weights = split(rows_that_came(change, read, partial(state.rows, name)))
            if rows.num_rows:
                rows = rows.select(table.schema.names).cast(table.schema.arrow)
                nets[name] = table.net(rows, weights.to_numpy())
    except BaseException:
        state.discard(nets)
        raise
    state.upkeep.count(nets.values())
    return nets


def check_followed(catalog: Catalog, objects: Objects, view: str, rows: Callable[[str], pa.Table]) -> None:
    """Raise if a table through which a view reads an object is not as the object is."""
    for name in catalog.expect_view(view).compiled.bases:
        if name in catalog.views:
            check_followed(catalog, objects, name, rows)
        elif catalog.tables[name].follows:
            ours = rows(name)
            theirs = _domain(objects, name).read(name).select(ours.column_names).cast(ours.schema)
            if difference(theirs, ours, _ROUNDING).num_rows:
                raise EverfreshError(
                    Code.DAMAGED,
                    f"the rows that are kept of '{name}' are not its rows",
                    place=f"view '{view}'",
                    hint="drop the SQL views that read it, and create them again",
                )


def _domain(objects: Objects, name: str) -> Any:
    found = objects.find(name)
    assert found is not None
    return objects.domains[found.domain]
