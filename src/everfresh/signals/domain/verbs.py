"""Readings of tables of a database, views over them, and time that passes: what `Database.signal`,
`create_view` and `Database.advance` do."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.progress import shown
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.domain.functions import names_of
from everfresh.signals.domain.signals import DOMAIN, Signals
from everfresh.signals.domain.statements import Advance, CreateView
from everfresh.signals.domain.view import ViewState
from everfresh.signals.explain import reach_of
from everfresh.signals.plan import Plan
from everfresh.signals.queries.base import query
from everfresh.signals.queries.readings import reading
from everfresh.types import Column, to_arrow

if TYPE_CHECKING:
    from everfresh.database import Database


_DEFAULTS = {each.name: each.default for each in inspect.signature(reading).parameters.values()}


def signal(db: Database, table: str, *, time: str | None, key: Any, **how: Any) -> Any:
    """A reading of a table or SQL view, or the query of a signal view, to go on from."""
    with db._reading() as engine:
        found = engine.objects.find(table)
        if found is not None and found.kind == "signal view":
            return _of_view(db, found.name, {"time": time, "key": key, **how})
        relation = engine.catalog.relation(table)
        if relation is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no table or view '{table}'",
                hint="signal() takes the name of a table, of a SQL view or of a signal view",
            )
        name = engine.catalog.resolve(table)
    if time is None:
        raise EverfreshError(Code.ARGUMENT, f"signal('{table}') is given no column of times", hint="time=")
    type_ = schema_of(relation[1]).field(time).type if time in _names(relation[1]) else None
    units: dict[str, str] = {}
    if type_ is not None and pa.types.is_timestamp(type_):
        units = {"unit": type_.unit}
    elif type_ is not None and pa.types.is_date(type_):
        units = {"unit": "d"}
    return reading(name, time=time, key=key, **{**units, **how})._of(db)


def reference(db: Database, table: str, key: Any, value: Any) -> Any:
    """A reference table of a database."""
    from everfresh.signals.queries.readings import reference as made

    with db._reading() as engine:
        if engine.catalog.relation(table) is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no table or view '{table}'",
                hint="reference() takes the name of a table or of a SQL view",
            )
        name = engine.catalog.resolve(table)
    return made(name, key=key, value=value)


def reference_table(db: Database, table: str, on: Any) -> Any:
    """A table by its name as a reference: all its columns of numbers that are not the key."""
    from everfresh.signals.payload import is_number

    with db._reading() as engine:
        relation = engine.catalog.relation(table)
        schema = pa.schema([]) if relation is None else schema_of(relation[1])
    key = (on,) if isinstance(on, str) else tuple(on)
    values = [field.name for field in schema if is_number(field.type) and field.name not in key]
    return reference(db, table, key, values)


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The columns of a relation as a schema of Arrow."""
    return pa.schema([(column.name, to_arrow(column.type)) for column in columns])


def _of_view(db: Database, name: str, given: Mapping[str, Any]) -> Any:
    domain: Signals = db._domain(DOMAIN)
    view = domain.view(name)
    names = list(view.pipeline.key_names)
    known = {"time": view.pipeline.time_name, "key": names[0] if len(names) == 1 else names or None}
    for what, value in given.items():
        value = list(value) if isinstance(value, tuple) else value
        if value is not None and what != "value" and value != known.get(what, _DEFAULTS.get(what)):
            raise EverfreshError(
                Code.ARGUMENT,
                f"signal('{name}', {what}={value!r}): a signal view has its times and keys already",
                hint=f"signal('{name}') goes on from the view",
            )
    return query(n.Viewed(view.query, name), db)


def create_view(db: Database, name: str, node: Node) -> int:
    """Keep the rows of a query: those of the rows that are there, and of those that come."""
    if not isinstance(name, str) or not name:
        raise EverfreshError(Code.ARGUMENT, f"{name!r} is no name of a view")
    with db._lock:
        db._check_free(name)
        engine = db._writable()
        domain: Signals = db._domain(DOMAIN)
        if getattr(engine, "folder", None) is not None:
            names_of(node, name)
        _check_retain(node)
        schemas: dict[str, pa.Schema] = {}
        for each in node.walk():
            if isinstance(each, n.Reading):
                relation = engine.catalog.relation(each.table)
                if relation is None:
                    raise EverfreshError(Code.NOT_FOUND, f"there is no table or view '{each.table}'")
                schemas[each.table] = schema_of(relation[1])
        view = ViewState(name, node, _needed(node, schemas), engine.options)
        _check_names(view)
        with shown(db._progress) as told:
            domain.fill(view, engine.read, told)
            return db._define(DOMAIN, CreateView(view, told))


def _needed(node: Node, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The columns of each table that the query reads."""
    found: dict[str, list[str]] = {}
    for source in Plan(node, schemas).sources.values():
        found.setdefault(source.reading.table, []).extend(source.needed)
    return {t: pa.schema([schemas[t].field(c) for c in dict.fromkeys(names)]) for t, names in found.items()}


def _check_names(view: ViewState) -> None:
    seen: dict[str, str] = {}
    for column in view.form.columns:
        if column.name.lower() in seen:
            raise EverfreshError(
                Code.ARGUMENT,
                f"the signal view '{view.name}' would have two columns '{column.name}'",
                hint="select(name=expression) gives a value another name",
            )
        seen[column.name.lower()] = column.name


def _check_retain(node: Node) -> None:
    for each in node.walk():
        if isinstance(each, n.Reading) and each.retain is not None:
            reach = reach_of(node)
            if reach is None or each.retain < reach:
                told = "without end" if reach is None else f"of {reach} ticks"
                raise faults.period(
                    f"retain={each.retain} is less than the reach of the query, which is {told}",
                    "a result must not rest on events that may be gone",
                )


def advance(db: Database, table: str, time: Any) -> int:
    """A table has reached a time, in an epoch of its own."""
    with db._lock:
        engine = db._writable()
        domain: Signals = db._domain(DOMAIN)
        name = engine.catalog.resolve(table) or table
        views = [
            view for view in domain.views.values() if any(r.timed and r.table == name for r in view.readings)
        ]
        if not views:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"no signal view reads a table or view '{table}'",
                hint="time passes for signal views: create one first",
            )
        source = next(s for view in views for s in view.sources if s.reading.table == name)
        told = Advance(name, None if time is None else ticks_of_time(time, source.time_type))
        return db._commit(Batch(changes={view.name: told for view in views}))


def ticks_of_time(time: Any, type_: pa.DataType) -> int:
    """A time as ticks of a type of times.

    >>> ticks_of_time(dt.date(1970, 1, 3), pa.date32()), ticks_of_time(dt.date(1970, 1, 3), pa.timestamp("s"))
    (2, 172800)
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    try:
        if pa.types.is_integer(type_):
            raise TypeError(f"times are {type_}")
        if isinstance(time, dt.datetime) and time.tzinfo is not None:
            time = time.astimezone(dt.UTC).replace(tzinfo=None)
        if isinstance(time, dt.date) and not isinstance(time, dt.datetime) and pa.types.is_timestamp(type_):
            time = dt.datetime(time.year, time.month, time.day)
        value = pa.scalar(time).cast(type_)
    except (TypeError, ValueError, pa.ArrowException) as problem:
        raise EverfreshError(
            Code.ARGUMENT,
            f"{time!r} is no time of a table whose times are {type_}: {problem}",
            hint="a number of ticks, a date or datetime, or None for the end of data",
        ) from None
    whole: int = value.cast(pa.int32() if pa.types.is_date32(type_) else pa.int64()).as_py()
    return whole
