"""DataFrames that are files as they stand: a scan of Parquet files, and nothing on top of it.

Through Spark such rows become rows of the JVM and Arrow again, and a job has to lay them down before every
task can read them. The files are there: the tasks read them as if they had been given by their names.

Invariant: the same rows. A DataFrame is taken apart only if its files have the table's columns with the
table's types, and Spark would read nothing else in them: no options, no columns made of folder names, no
schema of the user's that differs, no dates of the old calendar. What is not seen to be so is left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from everfresh.delta import SparkRows
from everfresh.delta.parquet import Exact, exact_files
from everfresh.spark.session.sessions import is_connect
from everfresh.types import TableSchema

_MOST = 256
"""Files whose footers are read, at most."""
_VERSION, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows in Parquet files small enough that every task reads them and keeps its part."""

    paths: tuple[str, ...]
    column_names: tuple[str, ...]
    size: int
    num_rows: int
    """About how many."""


def scanned(rows: SparkRows, schema: TableSchema, limit: int) -> FileRows | None:
    """The files of a DataFrame that is a scan of local Parquet files with at most so many bytes."""
    if len(rows.names) != len(schema.columns) or any(name != given for name, given in rows.names):
        return None
    paths = local_files(rows.df)
    if not paths or len(paths) > _MOST:
        return None
    found = exact_files(paths, schema)
    if found is None or found.size > limit or not _read_alike(rows.df, found):
        return None
    return FileRows(paths, schema.names, found.size, found.rows)


def local_files(df: Any) -> tuple[str, ...]:
    """The files of a DataFrame that is a scan of local Parquet files and nothing else; none if it is not."""
    try:
        addresses = _connect_scan(df) if is_connect(df) else _classic_scan(df)
    except Exception:  # a plan that cannot be looked into is not known to be a scan
        return ()
    parts = [urlsplit(address) for address in addresses or ()]
    if any(part.scheme != "file" or part.netloc for part in parts):
        return ()
    return tuple(unquote(part.path) for part in parts)


def _classic_scan(df: Any) -> list[str] | None:
    plan = df._jdf.queryExecution().analyzed()
    while _class(plan) == "SubqueryAlias":
        plan = plan.child()
    if _class(plan) != "LogicalRelation" or _class(plan.relation()) != "HadoopFsRelation":
        return None
    relation = plan.relation()
    options = str(relation.options().keys().mkString("\n")).split("\n")
    plain = (
        str(relation.fileFormat().toString()) == "Parquet"
        and relation.partitionSchema().isEmpty()
        and not set(options) - {"", "path"}
        and not _kept(df)
    )
    return list(relation.location().inputFiles()) if plain else None


def _connect_scan(df: Any) -> list[str] | None:
    plan = df._plan
    plain = (
        type(plan).__name__ == "DataSource"
        and plan._format == "parquet"
        and not plan._schema
        and not plan._options
        and not plan._predicates
        and not _kept(df)
    )
    return list(df.inputFiles()) if plain else None


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _kept(df: Any) -> bool:
    """Whether Spark keeps the rows, as they were when they were read."""
    level = df.storageLevel
    return bool(level.useMemory or level.useDisk)


def _read_alike(df: Any, found: Exact) -> bool:
    """Whether Spark reads files with these columns as they are."""
    from pyspark.sql.pandas.types import from_arrow_type

    schema = found.schema
    given = [(field.name, field.dataType) for field in df.schema.fields]
    if given != [(field.name, from_arrow_type(field.type, True)) for field in schema]:
        return False
    if not any(str(field.type).startswith(("date", "timestamp")) for field in schema):
        return True
    versions = {_calendar(metadata) for metadata in found.metadata}
    if "old" in versions:
        return False
    return versions <= {"new"} or df.sparkSession.conf.get(_REBASE) == "CORRECTED"


def _calendar(metadata: Mapping[bytes, bytes]) -> str:
    """Whose calendar a file's dates are of: the old one, the new one, or as the session says."""
    version = metadata.get(_VERSION)
    if _LEGACY in metadata or (version is not None and int(version.split(b".")[0]) < 3):
        return "old"
    return "new" if version is not None else "unknown"
