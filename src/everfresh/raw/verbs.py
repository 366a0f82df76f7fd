"""Statements about external arrays, run on a database; and others that read them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse as parse_aql
from everfresh.arrays.cells import Array
from everfresh.arrays.model import ArraySchema
from everfresh.arrays.verbs import run as run_arrays
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.progress import shown
from everfresh.raw.catalog import Catalog
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import CreateExternal, about_files, parse
from everfresh.raw.domain import External, Made, Seen
from everfresh.raw.files.places import absolute
from everfresh.raw.following import create_follower, create_view
from everfresh.raw.looking import look
from everfresh.raw.needs import Needs, needs_of
from everfresh.relations import Explanation, Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "raw"
_SHOW = re.compile(r"\s*SHOW\b", re.IGNORECASE)
_VIEW = re.compile(r"\s*CREATE\s+ARRAY\s+VIEW\b", re.IGNORECASE)
_ARRAY = re.compile(r"\s*CREATE\s+ARRAY\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)


def run(db: Database, text: str) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch."""
    if about_files(text):
        statement = parse(text)
        return create(db, statement) if isinstance(statement, CreateExternal) else refresh(db, statement.name)
    if _VIEW.match(text) and any(one.domain == DOMAIN for one in db._engine.objects):
        view = parse_aql(text)
        assert isinstance(view, aql.CreateView)
        return create_view(db, domain_of(db), view)
    follower = _follower(db, text)
    if follower is not None:
        return create_follower(db, domain_of(db), follower)
    return _explained(db, text) or _answered(db, text) or run_arrays(db, text, lambda: _needed(db, text))


def _follower(db: Database, text: str) -> aql.CreateArray | None:
    """CREATE ARRAY ... FROM an external array, if that is what the text says and there is something to do."""
    if not _ARRAY.match(text) or not any(one.domain == DOMAIN for one in db._engine.objects):
        return None
    statement = parse_aql(text)
    if not isinstance(statement, aql.CreateArray) or not statement.source:
        return None
    source, there = (db._engine.objects.find(name) for name in (statement.source, statement.schema.name))
    if source is None or source.domain != DOMAIN or (statement.if_not_exists and there is not None):
        return None
    db._writable()
    return replace(statement, source=source.name, if_not_exists=False)


def domain_of(db: Database) -> External:
    """The domain, with its finer boxes."""
    domain: External = db._domain(DOMAIN)
    folder = db._engine.folder
    if folder is not None and not db._read_only:
        domain.keep_in(folder.root)
    return domain


def create(db: Database, definition: CreateExternal) -> int:
    """CREATE EXTERNAL ARRAY: its files are looked at, and the array is there."""
    definition = replace(definition, files=absolute(definition.files))
    with db._lock:
        db._check_free(definition.schema.name)
        domain = domain_of(db)
        cache = domain.cache
        with shown(db._progress) as told:
            reader = CellReader(definition)
            survey = partial(domain.survey, reader)
            found = look(reader, Catalog(), cache.options.workers, cache.numbers, told, survey)
        return db._commit(Batch(statements={DOMAIN: (Made(definition, found.catalog),)}))


def refresh(db: Database, name: str) -> int:
    """REFRESH: files that came, changed or went are seen; without any, nothing happens."""
    with db._lock:
        db._writable()
        found = db._engine.objects.find(name)
        if found is None or found.domain != DOMAIN:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no external array '{name}'",
                hint="only these are refreshed: views and arrays are fresh by themselves",
            )
        domain = domain_of(db)
        cache, name = domain.cache, found.name
        with shown(db._progress) as told:
            reader = cache.readers[name]
            survey = partial(domain.survey, reader)
            before, workers = cache.catalogs[name], cache.options.workers
            seen = look(reader, before, workers, cache.numbers, told, survey)
        if not (seen.come or seen.changed or seen.gone):
            return db._engine.epoch
        return db._commit(Batch(changes={name: Seen(seen.catalog, domain.followed(name, seen))}))


def _needs(db: Database, statement: aql.Statement) -> tuple[Needs, dict[str, ArraySchema]]:
    """What a statement needs of the arrays of the database, and the schemas of the external ones; nothing
    where there are none."""
    if not any(one.domain == DOMAIN for one in db._engine.objects) or not isinstance(statement, aql.Operand):
        return Needs(), {}
    schemas = {name: reader.schema for name, reader in domain_of(db).cache.readers.items()}
    arrays = db._domain("array")
    known = {one.name: arrays.schema(one.name) for one in db._engine.objects if one.domain == "array"}
    return needs_of(statement, {**known, **schemas}), schemas


def _needed(db: Database, text: str) -> dict[str, Array]:
    """The cells that a query about arrays needs of external ones."""
    needs, schemas = _needs(db, parse_aql(text))
    nothing = {name: Array(schema) for name, schema in schemas.items() if name in needs.boxes}
    asks = [ask for ask in needs.asks if ask.array in schemas]
    if not asks:
        return nothing
    joins = [join for join in needs.joins if join.left in schemas and join.right in schemas]
    with shown(db._progress) as told:
        found = domain_of(db).cache.answer(asks, joins, told)
    return {**nothing, **found}


def _answered(db: Database, text: str) -> Result | None:
    """The rows of a query over external arrays, where workers compute them."""
    if not any(one.domain == DOMAIN for one in db._engine.objects) or _SHOW.match(text):
        return None
    statement = parse_aql(text)
    needs, schemas = _needs(db, statement)
    if not any(ask.array in schemas for ask in needs.asks):
        return None
    with db._reading(), shown(db._progress) as told:
        rows = domain_of(db).answered(statement, needs, db._domain("array"), told)
    return None if rows is None else Result(rows)


def _explained(db: Database, text: str) -> Explanation | None:
    """EXPLAIN of a query that reads external arrays: the boxes that it needs, and what has to be read."""
    if not _EXPLAIN.match(text):
        return None
    statement = parse_aql(text)
    assert isinstance(statement, aql.Explain)
    needs, schemas = _needs(db, statement.statement)
    lines = [str(statement.statement)]
    for ask in needs.asks:
        if ask.array in schemas:
            cache = domain_of(db).cache
            pieces = cache.catalogs[ask.array].meeting(ask.boxes)
            files = {piece.file for piece in pieces if piece.number not in cache.memory}
            held = sum(piece.number in cache.memory for piece in pieces)
            lines.append(
                f"  {ask.array}: {'; '.join(map(str, ask.boxes))}: {len(pieces)} pieces, "
                f"{held} in memory, {len(files)} files to read"
            )
    return Explanation("\n".join(lines)) if len(lines) > 1 else None
