"""Statements about arrays, run on a database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse
from everfresh.arrays.cells import Array
from everfresh.arrays.domain import Arrays, CellChange
from everfresh.arrays.evaluate import evaluate
from everfresh.arrays.explained import explained
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.relations import Explanation, Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "array"
_EXPLAIN = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)
_SHOW = re.compile(r"\s*SHOW\s+ARRAYS\s*\Z", re.IGNORECASE)


def run(db: Database, text: str) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch."""
    if _SHOW.match(text):
        names = [found.name for found in db._engine.objects if found.kind == "array"]
        return Result(pa.table({"name": pa.array(names, pa.string())}))
    asked = _EXPLAIN.match(text)
    if asked is not None:
        db._current()
        known: Arrays = db._domain(DOMAIN)
        return Explanation(explained(parse(text[asked.end() :]), _known(known, db)))
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
            name = found.name if found is not None and found.kind == "array" else statement.name
            return db._drop(name, statement.cascade)
    if isinstance(statement, aql.Query) and statement.into:
        with db._lock:  # nobody changes what it reads
            db._check_free(statement.into)
            return _stored(db, evaluate(statement, _known(domain, db)))
    db._current()
    value = evaluate(statement, _known(domain, db))
    return Result(value.to_arrow() if isinstance(value, Array) else value)


def _known(domain: Arrays, db: Database) -> dict[str, Array]:
    """The arrays of the database, by their names in whatever case a statement has them."""
    return {**{name.lower(): value for name, value in domain.all().items()}, **domain.all()}


def _stored(db: Database, value: Any) -> int:
    """Keep an array that a query gave, in an epoch of its own."""
    if not isinstance(value, Array):
        raise EverfreshError(Code.ARGUMENT, "the query gives rows and no array", hint="INTO t keeps an array")
    schema = value.schema
    change = CellChange(value.table, schema.arrow.empty_table())
    statements = {DOMAIN: (aql.CreateArray(schema),)}
    return db._commit(Batch(changes={schema.name: change}, statements=statements))
