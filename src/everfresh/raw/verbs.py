"""Statements about external arrays, run on a database; and others that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everfresh.arrays import aql
from everfresh.arrays.aql_parser import parse as parse_aql
from everfresh.arrays.cells import Array
from everfresh.arrays.verbs import run as run_arrays
from everfresh.errors import Code, EverfreshError
from everfresh.program import Batch
from everfresh.progress import shown
from everfresh.raw.catalog import Catalog
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import CreateExternal, about_files, parse
from everfresh.raw.domain import External, Made, Seen
from everfresh.raw.looking import look
from everfresh.raw.needs import needs_of
from everfresh.relations import Result

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "raw"


def run(db: Database, text: str) -> Result | int:
    """Run one statement: a query gives its result, a change its epoch."""
    if about_files(text):
        statement = parse(text)
        return create(db, statement) if isinstance(statement, CreateExternal) else refresh(db, statement.name)
    return run_arrays(db, text, lambda: _needed(db, text))


def domain_of(db: Database) -> External:
    """The domain, with its finer boxes."""
    domain: External = db._domain(DOMAIN)
    folder = db._engine.folder
    if folder is not None and not db._read_only:
        domain.keep_in(folder.path / "boxes")
    return domain


def create(db: Database, definition: CreateExternal) -> int:
    """CREATE EXTERNAL ARRAY: its files are looked at, and the array is there."""
    with db._lock:
        db._check_free(definition.schema.name)
        domain = domain_of(db)
        cache = domain.cache
        with shown(db._progress) as told:
            found = look(CellReader(definition), Catalog(), cache.options.workers, cache.numbers, told)
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
            seen = look(cache.readers[name], cache.catalogs[name], cache.options.workers, cache.numbers, told)
        if not (seen.come or seen.changed or seen.gone):
            return db._engine.epoch
        return db._commit(Batch(changes={name: Seen(seen.catalog)}))


def _needed(db: Database, text: str) -> dict[str, Array]:
    """The cells that a query about arrays needs of external ones."""
    if not any(one.domain == DOMAIN for one in db._engine.objects):
        return {}
    statement = parse_aql(text)
    domain = domain_of(db)
    cache = domain.cache
    schemas = {name: reader.schema for name, reader in cache.readers.items()}
    if not schemas or not isinstance(statement, aql.Operand):
        return {}
    known = {
        one.name: db._domain("array").array(one.name).schema
        for one in db._engine.objects
        if one.kind == "array"
    }
    needs = needs_of(statement, {**known, **schemas})
    asks = [ask for ask in needs.asks if ask.array in schemas]
    joins = [join for join in needs.joins if join.left in schemas and join.right in schemas]
    nothing = {name: Array(schema) for name, schema in schemas.items() if name in needs.boxes}
    if not asks:
        return nothing
    with shown(db._progress) as told:
        found = cache.answer(asks, joins, told)
    return {**nothing, **found}
