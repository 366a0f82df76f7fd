"""Rows written as text or to files: CSV, JSON (an object a line), Parquet, with values as DuckDB writes them.

>>> import io
>>> out = io.StringIO()
>>> rows = pa.table({"a": [1, None], "s": ["x,y", ""], "f": [1.0, float("inf")]})
>>> write_text(rows, out, "csv"); write_text(rows, out, "json"); print(out.getvalue(), end="")
a,s,f
1,"x,y",1.0
,"",inf
{"a":1,"s":"x,y","f":1.0}
{"a":null,"s":"","f":Infinity}
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from everfresh.errors import Code, EverfreshError

KINDS = ("csv", "json", "parquet")
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".parquet": "parquet",
}
_ROWS = 1 << 16


def kind_of(path: str) -> str:
    """What a file is by its name."""
    found = _ENDINGS.get(Path(path).suffix.lower())
    if found is None:
        raise EverfreshError(
            Code.ARGUMENT,
            f"the name '{path}' does not say what kind of file it is",
            hint="give FORMAT: csv, json or parquet",
        )
    return found


def write_file(
    rows: pa.Table, path: str, kind: str | None = None, *, header: bool = True, delimiter: str | None = None
) -> None:
    """Write rows to a file, whole or not at all: it takes the place of one that is there when it is done."""
    kind = kind or kind_of(path)
    delimiter = delimiter or ("\t" if path.lower().endswith(".tsv") else ",")
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if kind == "parquet":
            pa.parquet.write_table(rows, beside)
        else:
            with beside.open("w", encoding="utf-8", newline="") as out:
                write_text(rows, out, kind, header=header, delimiter=delimiter)
        beside.replace(target)
    except OSError as error:
        raise EverfreshError(
            Code.ENVIRONMENT, f"'{path}' cannot be written: {error.strerror or error}"
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_text(rows: pa.Table, out: TextIO, kind: str, *, header: bool = True, delimiter: str = ",") -> None:
    """Write rows as CSV, with a line of names, or as JSON, an object a line."""
    if kind == "json":
        names = [json.dumps(name, ensure_ascii=False) for name in rows.column_names]
        line: Callable[[Any], str] = partial(_json_line, names)
    else:
        if header:
            out.write(delimiter.join(_quoted(name, delimiter) for name in rows.column_names) + "\n")
        line = partial(_csv_line, delimiter)
    for batch in rows.to_batches(max_chunksize=_ROWS):
        columns = [_values(column) for column in batch.columns]
        out.writelines(f"{line(row)}\n" for row in zip(*columns, strict=True))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; REAL with the digits that it has."""
    if pa.types.is_float32(column.type):
        return [None if value is None else np.float32(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _json_line(names: list[str], row: tuple[Any, ...]) -> str:
    return "{" + ",".join(map("{}:{}".format, names, map(_json, row))) + "}"


def _csv_line(delimiter: str, row: tuple[Any, ...]) -> str:
    return delimiter.join(_csv(value, delimiter) for value in row)


def _csv(value: Any, delimiter: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value, delimiter)
    return _quoted(_plain(value), delimiter)


def _quoted(text: str, delimiter: str) -> str:
    special = text == "" or any(c in text for c in (delimiter, '"', "\n", "\r"))
    return '"' + text.replace('"', '""') + '"' if special else text


def _json(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, np.float32):
        return _plain(value) if np.isfinite(value) else json.dumps(float(value))
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(str(k), ensure_ascii=False)}:{_json(v)}" for k, v in value.items())
            + "}"
        )
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> str:
    """A value as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case dt.datetime():
            text = value.isoformat(sep=" ")
            return text.rstrip("0") if value.microsecond and value.tzinfo is None else text
    return str(value)
