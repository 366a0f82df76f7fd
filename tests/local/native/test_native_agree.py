"""Compiled triggers and the interpreter agree: all entries of all maps, exactly, after every batch.

Random SQL is run twice for each seed, in the form for large changes and in that for small ones; most of it by
Python in the place of the compiler (`native_support.plain`), some of it, and all in the soak, compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from native_support import entries, forms, opened, run_plain, slices_hold

import everfresh as ef
from everfresh.testing.histories import Change, History
from everfresh.testing.random_sql import random_case, spelled
from everfresh.testing.random_sql.drive import strategy
from everfresh.testing.replay import as_delta
from everfresh.types import quoted

HISTORIES = 25
COMPILED = 2
BY_ROW, WHOLE = 1 << 40, -1


@contextmanager
def pair(small: int) -> Iterator[tuple[ef.Database, ef.Database]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(opened(how, small)) for how in ("now", "off"))  # type: ignore[misc]


def outcome(db: ef.Database, text: str | dict[str, ef.Delta]) -> str:
    try:
        db.sql(text) if isinstance(text, str) else db.apply(text)
    except ef.EverfreshError as error:
        return f"{error.code}: {error}"
    return ""


def agree(history: History, small: int) -> int:
    """Run a history in both; how many compiled forms there were in the end."""
    with pair(small) as (compiled, interpreted):

        def both(what: str | dict[str, ef.Delta]) -> str:
            first, second = outcome(compiled, what), outcome(interpreted, what)
            assert first == second
            return first

        for schema in history.schemas:
            both(schema.ddl)
        for name, query in history.views:
            way = strategy(history.seed, name)
            if both(f"CREATE MATERIALIZED VIEW {quoted(name)} WITH (strategy = '{way}') AS {query}"):
                both(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}")
        schemas = {schema.name: schema for schema in history.schemas}
        for batch in history.batches:
            since = compiled.epoch
            both({table: as_delta(schemas[table], rows) for table, rows in by_table(batch).items()})
            assert entries(compiled) == entries(interpreted)
            slices_hold(compiled)
            if compiled.epoch > since:
                for name in compiled.catalog.views:
                    assert changes(compiled, name, since) == changes(interpreted, name, since)
        return len(forms(compiled))


def changes(db: ef.Database, view: str, since: int) -> Counter[str]:
    return Counter(map(repr, db.view(view).changes(since=since).to_pylist()))


def by_table(batch: tuple[Change, ...]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in batch:
        found.setdefault(change.table, []).append(change)
    return found


def test_random_views_without_a_compiler() -> None:
    ready = 0
    with run_plain():
        for seed in range(7_000_000, 7_000_000 + HISTORIES):
            history = spelled(random_case(seed).history)
            ready += agree(history, WHOLE) + agree(history, BY_ROW)
    assert ready > 5 * HISTORIES


@pytest.mark.slow
def test_random_views_compiled() -> None:
    for seed in range(7_000_000, 7_000_000 + COMPILED):
        history = spelled(random_case(seed, views=2).history)
        agree(history, WHOLE)
        agree(history, BY_ROW)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(7_100_000, 7_100_100, 10))
def test_many_random_views_compiled(first: int) -> None:
    """A hundred histories; compiling takes a minute for each."""
    for seed in range(first, first + 10):
        history = spelled(random_case(seed, views=2).history)
        agree(history, WHOLE)
        agree(history, BY_ROW)
