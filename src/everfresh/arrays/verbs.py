"""Statements about arrays, run on a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.domain import Arrays
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.relations import Explanation, Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "array"
_KINDS = ("array", "external array")
_SHOW = re.compile(r"\s*SHOW\s+ARRAY(S|\s+VIEWS)\s*\Z", re.IGNORECASE)


def run(db: Database, text: str, others: Callable[[], Mapping[str, Array]] = dict) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch. `others` gives the arrays that a query
    reads beside those of the domain."""
    shown = _SHOW.match(text)
    if shown:
        kinds = _KINDS if shown[1].upper() == "S" else ("array view",)
        db._current()
        names = [found.name for found in db._engine.objects if found.kind in kinds]
        return Result(pa.table({"name": pa.array(names, pa.string())}))
    statement = parse(text)
    domain: Arrays = db._domain(DOMAIN)
    if isinstance(statement, aql.CreateArray):
        with db._lock:
            there = db._writable().objects.find(statement.schema.name)
            if statement.if_not_exists and there is not None and there.kind in _KINDS:
                return db._writable().epoch
            db._check_free(statement.schema.name)
            made = replace(statement, if_not_exists=False)
            return _fed(db, made) if made.source else db._define(DOMAIN, made)
    if isinstance(statement, aql.CreateView):
        with db._lock:
            db._check_free(statement.name)
            return db._define(DOMAIN, statement)
    if isinstance(statement, aql.DropArray | aql.DropView):
        return _dropped(db, statement)
    if isinstance(statement, aql.Query) and statement.into:
        with db._lock:  # nobody changes what it reads
            db._check_free(statement.into)
            schema, change = domain.computed(statement, others())
            statements = {DOMAIN: (aql.CreateArray(schema),)}
            return db._commit(Batch(changes={schema.name: change}, statements=statements))
    if isinstance(statement, aql.Explain):
        with db._reading() as engine:
            return Explanation(domain.explained(statement.statement, statement.analyze, engine.options))
    with db._reading():
        return Result(domain.answer(statement, others()))


def _fed(db: Database, statement: aql.CreateArray) -> int:
    """Make an array whose cells are the rows of a table, a SQL view, or another object whose rows come and
    go one by one."""
    engine = db._writable()
    source = engine.catalog.resolve(statement.source) or statement.source
    found = engine.objects.find(statement.source)
    if found is not None and engine.catalog.relation(source) is None:
        source = found.name
        if not found.publishes or found.domain == "matrix":
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"the rows of '{source}' do not come and go one by one: {found.kind}",
                place=f"array '{statement.schema.name}'",
                hint="read a table, a SQL view, an array or a view of arrays",
            )
    elif engine.catalog.relation(source) is None:
        raise EverfreshError(
            Code.NOT_FOUND,
            f"there is no table or view '{statement.source}'",
            place=f"array '{statement.schema.name}'",
            hint="there are: " + (", ".join(engine.catalog.names()) or "none yet"),
        )
    domain: Arrays = db._domain(DOMAIN)
    change = domain.fed(statement.schema, engine.read(source), source)
    made = replace(statement, source=source)
    return db._commit(Batch(changes={statement.schema.name: change}, statements={DOMAIN: (made,)}))


def _dropped(db: Database, statement: aql.DropArray | aql.DropView) -> int:
    """Drop an array or a view; a statement names what it is."""
    kinds = _KINDS if isinstance(statement, aql.DropArray) else ("array view",)
    with db._lock:
        found = db._engine.objects.find(statement.name)
        if found is None and statement.if_exists:
            return db._writable().epoch
        if found is not None and found.kind not in kinds:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no {kinds[0]} '{statement.name}'",
                hint=f"'{found.name}' is: {found.kind}",
            )
        return db._drop(found.name if found is not None else statement.name, statement.cascade)
