"""Wide tables and many views: what creating one more view costs, and a row.

Each measurement runs in a fresh interpreter, as `python -m everfresh.bench.parts.many_views KIND ...`, so
that the growth of the process is its own. What comes back are plain numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.bench.parts.process import python
from everfresh.bench.timing import median, repeat, seconds

if TYPE_CHECKING:
    from everfresh.database import Database

_TIMES, _MOST = 5, 200


def wide(columns: int = 1_000, views: int = 60) -> dict[str, float]:
    """A table of many columns under views that read three of them each: seconds to create the last view, for
    one row by `db.apply` as soon as all are made (*interpreted*) and once their code is there, and by
    INSERT."""
    return _child("wide", columns, views)


def many(views: int = 1_000, columns: int = 20) -> dict[str, float]:
    """Many views over one table: seconds to create the last one, for one row as soon as all are made
    (*interpreted*) and once their code is there, how many rows came until then, for 10,000 rows, and MB that
    the process grew by per view."""
    return _child("many", columns, views)


def _child(*arguments: Any) -> dict[str, float]:
    found: dict[str, float] = json.loads(python("-m", __name__, *map(str, arguments)).splitlines()[-1])
    return found


# -- in a process of its own -------------------------------------------------------------------------


def _view(number: int, columns: int) -> str:
    """A view that reads three columns, and is like none of the others."""
    key, value, condition = (f"c{(number + i) % columns}" for i in range(3))
    return (
        f"CREATE MATERIALIZED VIEW v{number} AS SELECT {key}, SUM({value} + {number}) AS s, COUNT(*) AS n "
        f"FROM t WHERE {condition} >= {number % 7} GROUP BY {key}"
    )


def _row(number: int, columns: int) -> tuple[int, ...]:
    return (number, *((number * i) % 13 for i in range(columns)))


def _made(db: Database, columns: int, views: int) -> list[float]:
    """Make the table and its views; the seconds of the last few."""
    names = ", ".join(f"c{i} INTEGER" for i in range(columns))
    db.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, {names})")
    return [seconds(lambda v=v: db.sql(_view(v, columns))) for v in range(views)][-_TIMES:]  # type: ignore[misc]


def _rows(db: Database, columns: int) -> Callable[[], Any]:
    """What applies one more row each time it is called."""
    numbers = iter(range(sys.maxsize))
    return lambda: db.apply(t=[_row(next(numbers), columns)])


def _measure_wide(columns: int, views: int) -> dict[str, float]:
    import everfresh as ef

    with ef.connect(engine="local") as db:
        created = _made(db, columns, views)
        row = _rows(db, columns)
        first = repeat(row, _TIMES)[1:]
        _until_compiled(db, row, views)
        applied = repeat(row, 4 * _TIMES)[_TIMES:]
        texts = [
            f"INSERT INTO t (id, {', '.join(f'c{i}' for i in range(columns))}) "
            f"VALUES ({', '.join(map(str, _row(1_000_000 + number, columns)))})"
            for number in range(2 * _TIMES)
        ]
        inserted = [seconds(lambda text=text: db.sql(text)) for text in texts]  # type: ignore[misc]
    return {
        "create": median(created),
        "apply, interpreted": median(first),
        "apply": median(applied),
        "insert": median(inserted),
    }


def _measure_many(columns: int, views: int) -> dict[str, float]:
    import everfresh as ef

    with ef.connect(engine="local") as db:
        before = _memory()
        created = _made(db, columns, views)
        row = _rows(db, columns)
        first = repeat(row, _TIMES)[1:]
        until = _until_compiled(db, row, views)
        one = repeat(row, 4 * _TIMES)[_TIMES:]
        batches = [[_row(start + i, columns) for i in range(10_000)] for start in (100_000, 200_000, 300_000)]
        large = [seconds(lambda batch=batch: db.apply(t=batch)) for batch in batches]  # type: ignore[misc]
        grown = (_memory() - before) / views
    return {
        "create": median(created),
        "one row, interpreted": median(first),
        "rows until compiled": until,
        "one row": median(one),
        "10,000 rows": median(large),
        "MB": grown,
    }


def _until_compiled(db: Database, row: Callable[[], Any], views: int) -> int:
    """Apply rows until the code of all views is there and nothing is waited for; how many that took."""
    from everfresh.local.jit import background

    for count in range(10, 10 * _MOST, 10):
        repeat(row, 10)
        if len(db.statistics()["compiled"].get("t", {}).get("compiled", ())) >= views:
            background.join()
            return count
    raise TimeoutError("the code of some views did not come")


def _memory() -> float:
    """MB of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    kind, *sizes = sys.argv[1:]
    measure = {"wide": _measure_wide, "many": _measure_many}[kind]
    print(json.dumps(measure(*map(int, sizes))))
