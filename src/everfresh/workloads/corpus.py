"""The corpus: one file per query in `queries/`, with what it deviates in from its source as a comment on top.

| workload | queries |
|---|---|
| `tpch` | the 22 queries of the TPC-H specification |
| `thesis` | the 22 queries of TPC-H as the thesis has them (Appendix A.1.1) |
| `finance` | the six queries over an order book (Appendix A.1.2) |
| `condensed` | TPC-H 18 simplified and PSP over condensed schemas (3.3.1, 3.3.2) |
| `tpcds` | the 13 queries of TPC-DS in Table A.1 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from everfresh.datasets import orderbook, tpcds, tpch


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a workload: its text without the comments on top of the file."""

    workload: str
    name: str
    text: str
    notes: str
    """Where it comes from and how it deviates from there."""

    @property
    def view(self) -> str:
        """The name of its view: unique among all workloads."""
        return f"{self.workload}_{self.name}"

    @property
    def ddl(self) -> str:
        """The statement that makes its view."""
        return f"CREATE MATERIALIZED VIEW {self.view} AS {self.text}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries over the tables of one schema."""

    name: str
    tables: Mapping[str, str]
    """The CREATE TABLE statement of each table."""
    queries: tuple[Query, ...]

    def query(self, name: str) -> Query:
        """The query called `name`."""
        return next(query for query in self.queries if query.name == name)


CONDENSED: dict[str, str] = {
    name: f"CREATE TABLE {name} ({', '.join(f'{column} BIGINT NOT NULL' for column in columns)})"
    for name, columns in {
        "c": ("ck",),
        "o": ("ck", "ok"),
        "li": ("ok", "qty"),
        "b": ("p", "v"),
        "a": ("p", "v"),
    }.items()
}
"""The tables of the examples in 3.3.1 and 3.3.2: bags, without keys."""


def _read(workload: str) -> tuple[Query, ...]:
    folder = resources.files(__package__) / "queries" / workload
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(_query(workload, file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files)


def _query(workload: str, name: str, text: str) -> Query:
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    notes = [line.removeprefix("--").removeprefix(" ") for line in lines[:first]]
    return Query(workload, name, "\n".join(lines[first:]).strip(), "\n".join(notes))


WORKLOADS: dict[str, Workload] = {
    name: Workload(name, tables, _read(name))
    for name, tables in {
        "tpch": tpch.TABLES,
        "thesis": tpch.TABLES,
        "finance": orderbook.TABLES,
        "condensed": CONDENSED,
        "tpcds": tpcds.TABLES,
    }.items()
}
