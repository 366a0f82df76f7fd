"""Key-value views: many views of few templates in three modes, reads beside writers, what the log costs.

Modes are measured over the joined rows of TPC-H, all of them as one batch: joins are shared in every mode.
`standard` looks at them for each view by a compiled loop whose constants are arguments. Views have qgen's
parameters, and where there are not enough of those, widened ones; equal ones are merged before. Store writes
go to RocksDB through split states: prepared and resolved.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.parts import kv_live, kv_servers, kv_strategies, kv_upkeep
from everfresh.bench.report import Report
from everfresh.bench.timing import interleave, seconds

if TYPE_CHECKING:
    from everfresh.kv.sharing.cells import Cells, Part, Sums
    from everfresh.kv.sharing.template import Shared
    from everfresh.types import TableSchema

NAME = "kv"
DESCRIPTION = "key-value views: thousands of views in three modes, reads beside writers, the log"
PARTS = (
    "modes", "end-to-end", "writers", "reads", "staleness", "spark", "changed", "strategies", "upkeep",
    "servers",
)  # fmt: skip
OPTIONS = {
    "parts": ", ".join(PARTS) + ", or some of them",
    "views": "up to how many views (1000)",
    "counts": "how many views, as N,N,... (10, 100, 1000, ... up to `views`)",
    "templates": "which of Q1,Q3,Q4,Q6,Q10,Q14 (all)",
    "modes": "which of standard,single,double,auto (all)",
    "redis": "nodes of a Redis Cluster for `servers`, as HOST:PORT,...",
    "etcd": "members of etcd for `servers`, as HOST:PORT,...",
}
_DAY = dt.date(1992, 1, 1)


@dataclass(frozen=True)
class Template:
    """A query of TPC-H without what is not its grouping, its joined rows, and its parameters."""

    name: str
    text: str
    parameters: Callable[[Random, bool], dict[str, Any]]
    bar: float = 0.0
    live: bool = False
    where: str = ""
    """Conditions without constants: what all views of the template join, before it is grouped."""


def _date(random: Random, lo: int, hi: int) -> dt.date:
    return _DAY + dt.timedelta(days=random.randrange(lo, hi))


def _month(random: Random, first: int, count: int) -> dt.date:
    month = first + random.randrange(count)
    return dt.date(1993 + month // 12, 1 + month % 12, 1)


def _q1(random: Random, wide: bool) -> dict[str, Any]:
    days = random.randint(1, 2500) if wide else random.randint(60, 120)
    return {"to": dt.date(1998, 12, 1) - dt.timedelta(days=days)}


def _q3(random: Random, wide: bool) -> dict[str, Any]:
    segments = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
    day = _date(random, 800, 1600) if wide else dt.date(1995, 3, random.randint(1, 31))
    return {"segment": random.choice(segments), "day": day}


def _q6(random: Random, wide: bool) -> dict[str, Any]:
    begin = _date(random, 1, 2190) if wide else dt.date(random.randint(1993, 1997), 1, 1)
    discount = random.randint(1 if wide else 2, 9)
    return {
        "begin": begin,
        "end": begin + dt.timedelta(days=365),
        "low": f"0.{discount - 1:02}",
        "high": f"0.{discount + 1:02}",
        "quantity": random.randint(5, 50) if wide else random.choice([24, 25]),
    }


def _q10(random: Random, wide: bool) -> dict[str, Any]:
    begin = _date(random, 1, 2200) if wide else _month(random, 1, 24)
    return {"begin": begin, "end": begin + dt.timedelta(days=90), "flag": "R"}


def _q4(random: Random, wide: bool) -> dict[str, Any]:
    begin = _date(random, 1, 2200) if wide else _month(random, 0, 58)
    return {"begin": begin, "end": begin + dt.timedelta(days=92)}


def _q14(random: Random, wide: bool) -> dict[str, Any]:
    begin = _date(random, 1, 2200) if wide else _month(random, 0, 60)
    return {"begin": begin, "end": begin + dt.timedelta(days=30)}


_DISCOUNTED = "l_extendedprice * (1 - l_discount)"
_JOINED = "c_custkey = o_custkey AND l_orderkey = o_orderkey"
_LATE = "EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)"
TEMPLATES = (
    Template(
        "Q1",
        f"""SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS q, SUM(l_extendedprice) AS p,
            SUM({_DISCOUNTED}) AS d, SUM({_DISCOUNTED} * (1 + l_tax)) AS t, AVG(l_quantity) AS a,
            COUNT(*) AS n FROM lineitem WHERE l_shipdate <= DATE '{{to}}'
            GROUP BY l_returnflag, l_linestatus""",
        _q1,
        20,
    ),
    Template(
        "Q3",
        f"""SELECT l_orderkey, o_orderdate, o_shippriority, SUM({_DISCOUNTED}) AS revenue
            FROM customer, orders, lineitem
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_mktsegment = '{{segment}}'
              AND o_orderdate < DATE '{{day}}' AND l_shipdate > DATE '{{day}}'
            GROUP BY l_orderkey, o_orderdate, o_shippriority""",
        _q3,
        10,
        True,
        _JOINED,
    ),
    Template(
        "Q4",
        f"""SELECT o_orderpriority, COUNT(*) AS n FROM orders
            WHERE o_orderdate >= DATE '{{begin}}' AND o_orderdate < DATE '{{end}}' AND {_LATE}
            GROUP BY o_orderpriority""",
        _q4,
        where=_LATE,
    ),
    Template(
        "Q6",
        """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
            WHERE l_shipdate >= DATE '{begin}' AND l_shipdate < DATE '{end}'
              AND l_discount BETWEEN {low} AND {high} AND l_quantity < {quantity}""",
        _q6,
        20,
        True,
    ),
    Template(
        "Q10",
        f"""SELECT c_custkey, SUM({_DISCOUNTED}) AS revenue FROM customer, orders, lineitem
            WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '{{begin}}'
              AND o_orderdate < DATE '{{end}}' AND l_returnflag = '{{flag}}' GROUP BY c_custkey""",
        _q10,
        10,
        where=_JOINED,
    ),
    Template(
        "Q14",
        f"""SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN {_DISCOUNTED} ELSE 0 END)
              / SUM({_DISCOUNTED}) AS promo FROM lineitem, part
            WHERE l_partkey = p_partkey AND l_shipdate >= DATE '{{begin}}' AND l_shipdate < DATE '{{end}}'""",
        _q14,
        where="l_partkey = p_partkey",
    ),
)


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    parts = settings.options.get("parts", ",".join(PARTS)).split(",")
    most = int(settings.options.get("views", 100 if settings.quick else 1000))
    if "modes" in parts or "end-to-end" in parts:
        _modes(report, settings, most, "end-to-end" in parts)
    if "writers" in parts:
        settings.note("writers: what the log costs")
        kv_live.writers(report, 2_000 if settings.quick else 20_000)
    if "reads" in parts:
        settings.note("reads: a served store beside a writer")
        kv_live.reads(report, 5.0 if settings.quick else 20.0)
    if "staleness" in parts:
        settings.note("staleness: views of TPC-H beside a writer")
        queries = [(t.name, t.text.format(**t.parameters(Random(1), False))) for t in TEMPLATES if t.live]
        batches = (0,) if settings.quick else (0, 500, 5000)
        kv_live.staleness(report, 5.0 if settings.quick else 15.0, settings.sf or 0.01, queries, batches)
    if "spark" in parts:
        settings.note("spark: staleness where programs run on Spark")
        queries = [(t.name, t.text.format(**t.parameters(Random(1), False))) for t in TEMPLATES if t.live]
        kv_live.staleness(
            report, 10.0 if settings.quick else 30.0, settings.sf or 0.01, queries, (0,), engine="spark"
        )
    if "servers" in parts:
        settings.note("servers: what the log costs on Redis and etcd")
        redis, etcd = (settings.options.get(name, "") for name in ("redis", "etcd"))
        kv_servers.servers(report, redis, etcd, 2_000 if settings.quick else 20_000)
    texts = {t.name: t.text.format(**t.parameters(Random(1), False)) for t in TEMPLATES}
    sf = settings.sf or (0.01 if settings.quick else 0.1)
    if "changed" in parts:
        settings.note("1 % of lineitem changes: IMB against SN")
        some = {name: texts[name] for name in ("Q6", "Q3", "Q10")}
        kv_strategies.one_percent(report, sf, some, 3 if settings.quick else 5)
    if "upkeep" in parts:
        settings.note("upkeep: making views of TPC-H and keeping them; rows that move, maps, a new term")
        some = {name: texts[name] for name in ("Q1", "Q3", "Q6", "Q10")}
        kv_upkeep.upkeep(report, min(sf, 0.1), some, 2_000 if settings.quick else 20_000)
    if "strategies" in parts:
        from everfresh.workloads.corpus import WORKLOADS

        settings.note("ten strategies: making a view, and keeping it")
        q7 = next(q for q in WORKLOADS["tpch"].queries if q.name == "q07")
        of = {"Q6": texts["Q6"], "Q7": q7.ddl.split(" AS", 1)[1], "Q10": texts["Q10"]}
        kv_strategies.strategies(report, min(sf, 0.01), of, (100, 1000, 10_000))
    return report


# -- many views ------------------------------------------------------------------------------------------


def _modes(report: Report, settings: Settings, most: int, writes: bool) -> None:
    from everfresh.datasets import tpch

    sf = settings.sf or (0.01 if settings.quick else 0.1)
    tables = tpch.read(sf, ("customer", "orders", "lineitem", "part"))
    counts = [n for n in (10, 100, 1000, 10_000) if n <= most] or [most]
    if "counts" in settings.options:
        counts = [int(n) for n in settings.options["counts"].split(",")]
    named = settings.options.get("templates", ",".join(t.name for t in TEMPLATES)).split(",")
    modes = tuple(settings.options.get("modes", "auto,standard,single,double").split(","))
    for template in [t for t in TEMPLATES if t.name in named]:
        for count in counts:
            settings.note(f"{template.name}: {count} views at scale factor {sf}")
            _one(report, template, count, sf, tables, modes, writes and count == counts[-1])


def _one(
    report: Report,
    template: Template,
    count: int,
    sf: float,
    tables: dict[str, Any],
    modes: tuple[str, ...],
    writes: bool,
) -> None:
    from everfresh.kv.sharing.cells import Cells

    began = time.perf_counter()
    views, wide = _views(template, count)
    bound = time.perf_counter() - began
    began = time.perf_counter()
    cells = Cells.of(views[0].template, [view.ranges for view in views])
    created = time.perf_counter() - began
    part, groups = _joined(template, views[0], cells, tables)
    parts = _cut(part, 8)
    sizes: dict[str, int] = {}

    def step(mode: Any) -> Sums:
        found = cells.changes(parts, groups, mode)
        sizes[mode] = len(found)
        return found

    report.truth(
        f"{template.name}: all modes agree on {count} views",
        len({_digest(step(mode)) for mode in modes}) == 1,
    )
    times = interleave({mode: lambda m=mode: step(m) for mode in modes}, 3)  # type: ignore[misc]
    took = {mode: min(of) for mode, of in times.items()}
    both = "standard" in took and "double" in took
    report.row(
        template=template.name,
        views=count,
        distinct=len(views),
        parameters="widened" if wide else "qgen",
        sf=sf,
        rows=len(part),
        changes=sizes[modes[-1]],
        **{f"{mode}_ms": round(1000 * s, 2) for mode, s in took.items() if mode != "auto"},
        ratio=round(took["standard"] / took["double"], 1) if both else "",
        auto_to_best=round(took["auto"] / min(took.values()), 2) if "auto" in took else "",
        bind_s=round(bound, 2),
        cells_ms=round(1000 * created, 1),
    )
    if both and count == 1000 and template.bar:
        ratio = took["standard"] / took["double"]
        report.at_least(f"{template.name}: 1,000 views, double batch against standard", ratio, template.bar)
    if writes and both:
        _end_to_end(report, template, views, step, took, tables)


def _views(template: Template, count: int) -> tuple[list[Shared], bool]:
    """Distinct views: with qgen's parameters if there are enough of them, otherwise with widened ones too."""
    from everfresh.kv.runtime.core_program import base_catalog, one_view
    from everfresh.kv.sharing.template import shared

    catalog, random = base_catalog(_schemas()), Random(7)
    found: dict[Any, Shared] = {}
    tries, wide = 0, False
    while len(found) < count and tries < 20 * count + 1000:
        tries += 1
        wide = tries > 300  # by then qgen's are almost all there
        text = template.text.format(**template.parameters(random, wide))
        view = shared(one_view(f"CREATE MATERIALIZED VIEW v AS {text}", catalog).plan)
        found.setdefault(view.ranges, view)
    return list(found.values()), wide


def _joined(template: Template, view: Shared, cells: Cells, tables: dict[str, Any]) -> tuple[Part, int]:
    """The joined rows of a template as one batch of changes, from an empty base."""
    import duckdb
    import numpy as np

    from everfresh.expr import Vector
    from everfresh.kv.sharing.cells import Part

    core = view.template.core
    names = {c.name: e for c, (_, e) in zip(core.columns, core.keys, strict=False)}  # type: ignore[attr-defined]
    listed = [*names.values(), *(call.args[0] for _, call in core.aggregates if call.args)]  # type: ignore[attr-defined]
    source, where = _source(template)
    with duckdb.connect() as oracle:
        for name, table in tables.items():
            oracle.register(name, table)
        rows = oracle.sql(f"SELECT {', '.join(map(_text, listed))} {source}{where}").to_arrow_table()
    vectors = [Vector.from_arrow(rows.column(i), e.type) for i, e in enumerate(listed)]
    k, d = len(view.template.keys), len(view.template.attributes)
    groups = np.zeros(rows.num_rows, np.int64)
    for vector in vectors[:k]:
        _, codes = np.unique(vector.values, return_inverse=True)
        _, groups = np.unique(groups * (codes.max() + 1) + codes, return_inverse=True)
    values = [np.ones(rows.num_rows, np.int64), *(v.values.astype(np.int64) for v in vectors[k + d :])]
    part = Part(cells.ids(vectors[k : k + d]), groups.astype(np.int64), np.array(values))
    return part, int(groups.max()) + 1


def _source(template: Template) -> tuple[str, str]:
    """What a template reads, and how that is joined."""
    source = template.text[template.text.index("FROM") :].split("WHERE")[0]
    return source, f" WHERE {template.where}" if template.where else ""


def _text(expr: object) -> str:
    """An expression as DuckDB reads it; constants without their types."""
    return re.sub(r"::DECIMAL\(\d+,\d+\)", "", str(expr))


def _schemas() -> dict[str, TableSchema]:
    from everfresh.datasets.tpch import TABLES
    from everfresh.kv.runtime.core_program import bound

    return {name: bound(text, {})[0].schema for name, text in TABLES.items()}  # type: ignore[attr-defined]


def _cut(part: Part, count: int) -> list[Part]:
    """The parts of so many workers."""
    from everfresh.kv.sharing.cells import Part

    at = [len(part) * i // count for i in range(count + 1)]
    return [
        Part(part.ids[:, a:b].copy(), part.groups[a:b], part.values[:, a:b].copy()) for a, b in pairwise(at)
    ]


def _digest(sums: Sums) -> tuple[int, int]:
    import numpy as np

    places = (sums.views * 1_000_003 + sums.groups) % 1_000_000_007
    weight = sum(int(v) * (i + 1) for i, v in enumerate(sums.values.sum(axis=1)))
    return len(sums), int(np.sum(places)) + weight


def _end_to_end(
    report: Report,
    template: Template,
    views: Sequence[Shared],
    step: Callable[[Any], Sums],
    took: dict[str, float],
    tables: dict[str, Any],
) -> None:
    """The same with the rows written to RocksDB, prepared and then resolved: a row per view and group, and in
    layout `shared` a row per group, beside the core's maintenance."""
    from everfresh.kv.runtime.shared_flow import Numbered, SharedFlow

    most = 500_000
    sums = step("double")
    listed = zip(sums.views.tolist(), sums.groups.tolist(), sums.values.T.tolist(), strict=True)
    some = [(f"{v}/{g}".encode(), repr(values).encode()) for v, g, values in listed][:most]
    wrote, disk = _written(some)
    puts = wrote * (len(sums) / max(1, len(some)))
    ratio = (took["standard"] + puts) / (took["double"] + puts)
    report.row(
        template=template.name,
        views=len(views),
        what="end to end, own rows",
        changes=len(sums),
        puts_ms=round(1000 * puts, 1),
        disk_mb=round(disk * len(sums) / max(1, len(some)) / 2**20, 1),
        extrapolated=len(sums) > len(some),
        ratio=round(ratio, 2),
    )
    if template.name in ("Q1", "Q6") and len(views) >= 1000:
        report.at_least(f"{template.name}: {len(views):,} views end to end on RocksDB", ratio, 8)
    if not views[0].template.keys:
        return
    core, schemas = _core(template, views[0], tables), _schemas()
    numbered = [Numbered(i, view.ranges, 1) for i, view in enumerate(views)]
    flow = SharedFlow("v", schemas, views[0].template, numbered, layout="shared")
    flow.shown(flow.blank(), core.slice(0, 100))  # what is done once
    rows: list[tuple[bytes, bytes | None]] = []
    maps = flow.blank()
    kept = seconds(lambda: rows.extend((row.key, row.value) for row in flow.shown(maps, core)))
    wrote, disk = _written(rows)
    ratio = (took["standard"] + puts) / (kept + wrote)
    report.row(
        template=template.name,
        views=len(views),
        what="end to end, shared layout",
        changes=len(rows),
        double_ms=round(1000 * kept, 1),
        puts_ms=round(1000 * wrote, 1),
        disk_mb=round(disk / 2**20, 1),
        ratio=round(ratio, 2),
    )
    if template.name in ("Q3", "Q10") and len(views) >= 1000:
        what = f"{template.name}: {len(views):,} views, shared layout against own rows in standard mode"
        report.at_least(what, ratio, 5)


def _written(rows: Sequence[tuple[bytes, bytes | None]]) -> tuple[float, int]:
    """How long it takes to prepare and resolve rows in RocksDB, and how many bytes they are on disk."""
    from everfresh.kv.store import StoredTable, rocks_store
    from everfresh.types import BIGINT, Column, TableSchema

    with tempfile.TemporaryDirectory() as folder:
        store = rocks_store(folder)
        schema = TableSchema("v", (Column("k", BIGINT), Column("s", BIGINT)), ("k",))
        store.create_table(StoredTable(schema, logged=False))
        store.fence(1, "g", 1, 1)

        def written() -> None:
            for at in range(0, len(rows), 1000):
                store.prepare(1, "v", "g", 1, 1, rows[at : at + 1000])
            for at in range(0, len(rows), 1000):
                store.resolve(1, "v", 1, [key for key, _ in rows[at : at + 1000]])

        took = seconds(written)
        store.close()
        return took, sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def _core(template: Template, view: Shared, tables: dict[str, Any]) -> Any:
    """The rows of a template's core as a change from nothing."""
    import duckdb
    import pyarrow as pa

    from everfresh.delta.bags import WEIGHT
    from everfresh.types import to_arrow

    core = view.template.core
    names = [_text(e) for _, e in core.keys]  # type: ignore[attr-defined]
    calls = [
        f"SUM({_text(call.args[0])})" if call.args else "COUNT(*)"
        for _, call in core.aggregates  # type: ignore[attr-defined]
    ]
    source, where = _source(template)
    with duckdb.connect() as oracle:
        for name, table in tables.items():
            oracle.register(name, table)
        rows = oracle.sql(
            f"SELECT {', '.join([*names, *calls])} {source}{where} GROUP BY {', '.join(names)}"
        ).to_arrow_table()
    schema = pa.schema([(c.name, to_arrow(c.type)) for c in core.columns])
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    found = pa.Table.from_arrays(arrays, schema=schema)
    return found.append_column(WEIGHT, pa.array([1] * found.num_rows, pa.int64()))
