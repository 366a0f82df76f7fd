"""Statements run on a catalog."""

from __future__ import annotations

from collections.abc import Iterable

from everfresh.compiler import Catalog, Effect
from everfresh.sql import parse_and_bind


def execute(catalog: Catalog, text: str) -> tuple[Catalog, Effect]:
    (statement,) = parse_and_bind(text, catalog)
    return catalog.execute(statement)


def catalog_of(*texts: str) -> Catalog:
    return _executed(Catalog(), texts)


def joined_catalog(*texts: str) -> Catalog:
    """The catalog of an engine that runs joins and derived relations."""
    return _executed(Catalog(joins=True), texts)


def _executed(catalog: Catalog, texts: Iterable[str]) -> Catalog:
    for text in texts:
        catalog, _ = execute(catalog, text)
    return catalog


def replayed(catalog: Catalog) -> Catalog:
    """The catalog that a reopened database has."""
    again = Catalog()
    for _, text in catalog.ddl:
        again, _ = again.replay(text)
    return again
