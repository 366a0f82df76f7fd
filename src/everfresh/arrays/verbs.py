"""Statements about arrays, run on a database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.domain import Arrays
from everfresh.program import Batch
from everfresh.relations import Explanation, Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "array"
_SHOW = re.compile(r"\s*SHOW\s+ARRAYS\s*\Z", re.IGNORECASE)


def run(db: Database, text: str) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch."""
    if _SHOW.match(text):
        names = [found.name for found in db._engine.objects if found.kind == "array"]
        return Result(pa.table({"name": pa.array(names, pa.string())}))
    statement = parse(text)
    domain: Arrays = db._domain(DOMAIN)
    if isinstance(statement, aql.CreateArray):
        with db._lock:
            db._check_free(statement.schema.name)
            return db._define(DOMAIN, statement)
    if isinstance(statement, aql.DropArray):
        with db._lock:
            found = db._engine.objects.find(statement.name)
            if found is None and statement.if_exists:
                return db._writable().epoch
            return db._drop(found.name if found is not None and found.kind == "array" else statement.name)
    if isinstance(statement, aql.Query) and statement.into:
        with db._lock:  # nobody changes what it reads
            db._check_free(statement.into)
            schema, change = domain.computed(statement)
            statements = {DOMAIN: (aql.CreateArray(schema),)}
            return db._commit(Batch(changes={schema.name: change}, statements=statements))
    if isinstance(statement, aql.Explain):
        with db._reading() as engine:
            return Explanation(domain.explained(statement.statement, statement.analyze, engine.options))
    with db._reading():
        return Result(domain.answer(statement))
