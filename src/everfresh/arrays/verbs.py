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
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.relations import Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "array"
_SHOW = re.compile(r"\s*SHOW\s+ARRAY(S|\s+VIEWS)\s*\Z", re.IGNORECASE)


_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?=SELECT\b)", re.IGNORECASE)


def run(db: Database, text: str) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch."""
    shown = _SHOW.match(text)
    if shown:
        kind = "array" if shown[1].upper() == "S" else "array view"
        db._current()
        names = [found.name for found in db._engine.objects if found.kind == kind]
        return Result(pa.table({"name": pa.array(names, pa.string())}))
    asked = _EXPLAIN.match(text)
    if asked:
        return _explained(db, text[asked.end() :])
    statement = parse(text)
    domain: Arrays = db._domain(DOMAIN)
    if isinstance(statement, aql.CreateArray):
        with db._lock:
            db._check_free(statement.schema.name)
            return db._define(DOMAIN, statement)
    if isinstance(statement, aql.CreateView):
        with db._lock:
            db._check_free(statement.name)
            return db._define(DOMAIN, statement)
    if isinstance(statement, aql.DropArray | aql.DropView):
        return _dropped(db, statement)
    if isinstance(statement, aql.Query) and statement.into:
        with db._lock:  # nobody changes what it reads
            db._check_free(statement.into)
            return _stored(db, evaluate(statement, _known(domain, db)))
    db._current()
    if isinstance(statement, aql.Query):
        rows = _from_view(domain, statement)
        if rows is not None:
            return Result(rows)
    value = evaluate(statement, _known(domain, db))
    return Result(value.to_arrow() if isinstance(value, Array) else value)


def _from_view(domain: Any, query: aql.Query) -> pa.Table | None:
    """The rows of a query that a view answers sooner than the arrays do."""
    from everfresh.arrays.views.answers import best

    found = best(query, *domain.with_views())
    return found.rows() if found is not None and found.by_view else None


def _explained(db: Database, text: str) -> Result:
    """How a query over arrays would be answered, and what each way costs."""
    from everfresh.arrays.views.answers import best
    from everfresh.relations import Explanation

    db._current()
    statement = parse(text)
    if not isinstance(statement, aql.Query):
        raise EverfreshError(Code.UNSUPPORTED, "only queries are explained", place=text)
    found = best(statement, *db._domain(DOMAIN).with_views())
    return Explanation(str(found) if found is not None else f"{statement}\nfull join; no view has its pairs")


def _dropped(db: Database, statement: aql.DropArray | aql.DropView) -> int:
    """Drop an array or a view; a statement names what it is."""
    kind = "array" if isinstance(statement, aql.DropArray) else "array view"
    with db._lock:
        found = db._engine.objects.find(statement.name)
        if found is None and statement.if_exists:
            return db._writable().epoch
        if found is not None and found.kind != kind:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no {kind} '{statement.name}'",
                hint=f"'{found.name}' is: {found.kind}",
            )
        return db._drop(found.name if found is not None else statement.name)


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
