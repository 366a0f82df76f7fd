"""All 22 TPC-H queries at scale factor 0.01 against DuckDB, each within two seconds."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from everfresh.datasets import tpch
from everfresh.local.adhoc import execute
from everfresh.sql import CreateTable, parse_and_bind
from everfresh.testing.oracle import DuckOracle, assert_same
from everfresh.types import Column, TableSchema
from everfresh.workloads import WORKLOADS, Query

QUERIES = WORKLOADS["tpch"].queries


class Catalog:
    """The tables of TPC-H."""

    def __init__(self) -> None:
        self._tables: dict[str, TableSchema] = {}
        for ddl in tpch.TABLES.values():
            (statement,) = parse_and_bind(ddl, self)
            assert isinstance(statement, CreateTable)
            self._tables[statement.schema.name] = statement.schema

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        found = self.table(name)
        return None if found is None else ("table", found.columns)

    def table(self, name: str) -> TableSchema | None:
        return self._tables.get(name.lower())

    def names(self) -> list[str]:
        return list(self._tables)

    @property
    def types(self) -> dict[str, Any]:
        return {}

    @property
    def plain(self) -> dict[str, Any]:
        return {}


class Loaded(DuckOracle):
    """DuckDB with the data as they are, not mirrored row by row."""

    def __init__(self, data: dict[str, pa.Table]) -> None:
        super().__init__()
        for name, rows in data.items():
            self._con.register("incoming", rows)
            self._con.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
            self._con.unregister("incoming")


@cache
def world() -> tuple[Catalog, dict[str, pa.Table], Loaded]:
    data = tpch.read(0.01)
    return Catalog(), data, Loaded(data)


def test_all_are_there() -> None:
    assert len(QUERIES) == 22


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_query(query: Query) -> None:
    catalog, data, oracle = world()
    (statement,) = parse_and_bind(query.text, catalog)
    found = execute(statement.plan, data.__getitem__)
    assert_same(oracle.query(query.text), found, query.view)
