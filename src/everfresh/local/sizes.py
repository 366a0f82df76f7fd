"""How large tables, views and the maps beside them are, for people."""

from __future__ import annotations

from typing import Any

from everfresh.compiler import Catalog, readers
from everfresh.expr import stored
from everfresh.local.interpret.atoms import Indexed
from everfresh.local.state import LocalState
from everfresh.local.store.pool import Pool


def sizes(state: LocalState, catalog: Catalog) -> dict[str, Any]:
    """Rows, entries and bytes, by name. A map that several views read is counted once."""
    views, sliced = catalog.compiled, state.wiring.tables
    return {
        "tables": {
            n: {
                "rows": len(t) if t.schema.retained else "not retained",
                **_bytes(t.pool, sliced[n], t.codec.texts.nbytes),
            }
            for n, t in state.tables.items()
        },
        "views": {n: {"entries": len(m.pool), **_bytes(m.pool, m)} for n, m in state.maps.items()},
        "maps beside them": {
            stored(n): {
                "entries": len(m.pool),
                **_bytes(m.pool, m),
                "views": readers(views, n),
                **({"outgrown": True} if m.outgrown else {}),
            }
            for n, m in state.beside.items()
        },
    }


def _bytes(pool: Pool, indexed: Indexed, texts: int = 0) -> dict[str, int]:
    return {"bytes": pool.nbytes + texts, "slice_bytes": indexed.slice_bytes}
