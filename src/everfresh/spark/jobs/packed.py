"""What the driver compiled, as text that tasks read back: catalogs, staged programs, expressions of a batch.

A task builds what the driver has built, of the classes that are listed here and of no others. A catalog is
packed view by view, and both sides remember what a view is packed as: after a DDL statement the driver packs,
and a process reads, what is new.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from everfresh.calculus import nodes as q
from everfresh.compiler import Catalog, CompiledView
from everfresh.compiler.effect import ViewDef
from everfresh.compiler.viewlet.decisions import Decision
from everfresh.distributed import Block, Dist, Temp
from everfresh.distributed.plan import ir as d
from everfresh.distributed.plan.tags import Local, Random, Replicated
from everfresh.expr import nodes as e
from everfresh.expr.names import Made
from everfresh.program import ir as program
from everfresh.program.engine import OnConflict
from everfresh.rewrite.packing import Packing
from everfresh.spark.jobs.stages import Staged
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.row_calls import GroupingCall, UnnestCall
from everfresh.state import plain
from everfresh.types import Column, SqlType, TableSchema

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


EXPRESSIONS = (e.Var, e.Const, e.Call, e.Cast, e.Case)
QUERIES = (
    q.Rel, q.MapRef, q.Prod, q.Plus, q.Neg, q.Sum, q.Cond, q.Value, q.Bind, q.Each, q.Lift, q.Exists,
)  # fmt: skip
PLANS = (
    p.Single, p.Scan, p.Filter, p.Project, p.Aggregate, p.Join, p.SetOperation, p.Window, p.Distinct, p.Sort,
    p.Limit, p.ScalarSubquery, p.ExistsSubquery, p.QuantifiedSubquery, p.AggregateCall, p.WindowCall,
    GroupingCall, UnnestCall, p.Unnest,
)  # fmt: skip
PROGRAMS = (
    program.MapDef, program.Side, program.Partitions, program.Intervals, program.Statement, program.Trigger,
    program.Program, program.View, CompiledView, Decision, ViewDef,
)  # fmt: skip
STAGES = (
    Local, Random, Replicated, Dist, Temp, d.Eval, d.Keep, d.Send, d.Add, d.PlacedChange, d.Step, Block,
    Staged,
)  # fmt: skip
CLASSES = (
    SqlType, Column, TableSchema, *EXPRESSIONS, *QUERIES, *PLANS, *PROGRAMS, *STAGES, OnConflict,
)  # fmt: skip
"""All that a task builds from what it reads."""
PACKING = Packing(*CLASSES, made=Made)

_KEPT = 4096
_PACKED: dict[int, tuple[ViewDef, bytes]] = {}
_READ: dict[bytes, ViewDef] = {}


def packed(tree: Any) -> bytes:
    """A tree of known classes as text."""
    return json.dumps(PACKING.packed(tree), separators=(",", ":")).encode()


def unpacked(text: Buffer, expected: type[T], what: str) -> T:
    """The inverse of `packed`."""
    return PACKING.unpacked(plain(text, what), expected, what)


def packed_catalog(catalog: Catalog) -> tuple[dict[str, Any], dict[str, Buffer]]:
    """A catalog: what is plain, and the text of each table and view."""
    flags = {name: getattr(catalog, name) for name in _FLAGS}
    sections: dict[str, Buffer] = {f"table/{name}": packed(table) for name, table in catalog.tables.items()}
    sections.update({f"view/{name}": _packed_view(view) for name, view in catalog.views.items()})
    return {"ddl": catalog.ddl, "wide": catalog.wide, **flags}, sections


_FLAGS = ("joins", "share", "intervals", "rows")


def unpacked_catalog(header: Mapping[str, Any], sections: Mapping[str, Buffer], what: str) -> Catalog:
    """The inverse of `packed_catalog`."""
    tables, views = {}, {}
    for label, text in sections.items():
        kind, name = label.split("/", 1)
        if kind == "table":
            tables[name] = unpacked(text, TableSchema, what)
        else:
            views[name] = _read_view(bytes(text), what)
    ddl = tuple((str(name), str(text)) for name, text in header["ddl"])
    wide = None if header["wide"] is None else int(header["wide"])
    flags: dict[str, Any] = {name: bool(header[name]) for name in _FLAGS}
    return Catalog(tables, views, ddl, wide=wide, **flags)


def _packed_view(view: ViewDef) -> bytes:
    known = _PACKED.get(id(view))
    if known is None:
        _room(_PACKED)
        known = _PACKED[id(view)] = view, packed(view)  # with the view: its number is its own while it lives
    return known[1]


def _read_view(text: bytes, what: str) -> ViewDef:
    view = _READ.get(text)
    if view is None:
        _room(_READ)
        view = _READ[text] = unpacked(text, ViewDef, what)
    return view


def _room(memory: dict[Any, Any]) -> None:
    if len(memory) >= _KEPT:
        memory.clear()
