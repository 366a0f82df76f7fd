"""Who follows an external array: arrays that have its cells, views over them, functions that are told.

An external array tells what has changed in it from the moment on that somebody wants to know: that reads all
of its files once, and keeps their cells (`everfresh.raw.kept`). Views of arrays read an array that follows
it, which lies where other arrays lie, so that all that views can do they can do over files.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from everfresh.arrays import aql
from everfresh.arrays.domain import Arrays
from everfresh.errors import EverfreshError
from everfresh.program import Batch
from everfresh.types import no_rows

if TYPE_CHECKING:
    from everfresh.database import Database
    from everfresh.raw.domain import External


def publishing(db: Database, domain: External, name: str) -> None:
    """See that an array tells from now on what changes in it."""
    if not domain.expect(name).publishes:
        db._commit(Batch(statements={domain.name: (domain.publishing(name, None),)}))


def follow(db: Database, domain: External, name: str, follower: str) -> int:
    """Make an array with the cells of an external one, which follows it from now on."""
    schema = replace(domain.reader(name).schema, name=follower)
    return create_follower(db, domain, aql.CreateArray(schema, source=name))


def create_follower(db: Database, domain: External, statement: aql.CreateArray) -> int:
    """CREATE ARRAY ... FROM an external one: its dimensions and attributes are those of their names, chunked
    as it says. What does not fit is refused before anybody follows."""
    name, follower = statement.source, statement.schema.name
    arrays: Arrays = db._domain("array")
    with db._lock:
        db._check_free(follower)
        arrays.fed(statement.schema, no_rows(domain.reader(name).schema.arrow), name)
        keep = None if domain.expect(name).publishes else domain.publishing(name, None)
        kept = domain.kept_names[name] if keep is None else keep.names
        change = arrays.fed(statement.schema, domain.cells_kept_as(name, kept), name)
        if keep is not None:
            db._commit(Batch(statements={domain.name: (keep,)}))
        return db._commit(Batch(changes={follower: change}, statements={"array": (statement,)}))


def create_view(db: Database, domain: External, statement: aql.CreateView) -> int:
    """CREATE ARRAY VIEW, over arrays that follow the external ones that it reads; they are made if they are
    not there, and go again if the view is refused."""
    with db._lock:
        db._writable()
        db._check_free(statement.name)
        made: list[str] = []
        try:
            return db._define("array", _over_followers(db, domain, statement, made))
        except EverfreshError:
            for name in reversed(made):
                db._drop(name)
            raise


def _over_followers(
    db: Database, domain: External, statement: aql.CreateView, made: list[str]
) -> aql.CreateView:
    """The same over arrays that follow; `made` gets the names of those that were not there."""
    known = {name.lower(): name for name in domain.objects}
    wanted = {name for name in _names(statement.operand) if name.lower() in known}
    followers = {}
    for name in sorted(wanted):
        array = known[name.lower()]
        found = next((o.name for o in db._domain("array").objects.values() if o.reads == (array,)), None)
        if found is None:
            found = f"{array}_cells"
            follow(db, domain, array, found)
            made.append(found)
        followers[name] = found
    return replace(statement, operand=_reading(statement.operand, followers))


def _names(node: Any) -> set[str]:
    if isinstance(node, aql.Read):
        return {node.name}
    return {name for part in _parts(node) for name in _names(part)}


def _parts(node: Any) -> list[Any]:
    if isinstance(node, tuple):
        return list(node)
    return [getattr(node, field.name) for field in fields(node)] if is_dataclass(node) else []


def _reading(node: Any, names: dict[str, str]) -> Any:
    """The same over other arrays."""
    if isinstance(node, aql.Read):
        return replace(node, name=names.get(node.name, node.name))
    if isinstance(node, tuple):
        return tuple(_reading(part, names) for part in node)
    if isinstance(node, aql.Operand | aql.Source | aql.SimilarityJoin | aql.EquiJoin):
        given: Any = node
        changed = {field.name: _reading(getattr(given, field.name), names) for field in fields(given)}
        return replace(given, **changed)
    return node
