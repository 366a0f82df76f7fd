"""Random events, queries and cuts for signals, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from everfresh import signals as s
from everfresh.signals.payload import ComplexType, complex_array, to_complex
from everfresh.testing.signal_twins import END, twin

KEYS = [3, -7, None, 11]
ORIGINS = [0, -1000, 1_700_000_000_000_000_000]
VALUES = st.floats(-100, 100, width=32)


def f_two(a: Any) -> Any:
    """Keep the first two bins."""
    out = np.array(a)
    out[:, 2:] = 0.0
    return out


def spread(a: Any) -> Any:
    return a.max(axis=1) - a.min(axis=1)


@st.composite
def events(
    draw: Any, grid: int = 0, intervals: bool = False, complex_: bool = False
) -> list[tuple[Any, ...]]:
    """Events (key, start, end, value) in order of time, those of a group apart from each other."""
    origin = draw(st.sampled_from(ORIGINS))
    last: dict[Any, int] = {}
    found = []
    at = origin
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 9, 40])) * max(1, grid)
        key = draw(st.sampled_from(KEYS))
        start = at // grid * grid + 1 if grid else at
        if start < last.get(key, -END):
            continue
        end = start + (draw(st.sampled_from([1, 1, 2, 7, 33])) if intervals else 1)
        last[key] = end
        value: Any = draw(VALUES)
        if complex_:
            value = complex(value, draw(VALUES))
        found.append((key, start, end, value))
    return found


def table(rows: list[tuple[Any, ...]], complex_: bool = False) -> pa.Table:
    key, start, end, value = zip(*rows, strict=True) if rows else ((), (), (), ())
    values = complex_array(np.array(value, complex)) if complex_ else pa.array(value, pa.float64())
    return pa.table(
        {
            "k": pa.array(key, pa.int64()),
            "t": pa.array(start, pa.int64()),
            "e": pa.array(end, pa.int64()),
            "value": values,
        }
    )


def grouped(result: pa.Table) -> dict[Any, list[tuple[int, Any]]]:
    """By key, (time, value) in order of time; a value is an array."""
    column = result.column("value").combine_chunks()
    if isinstance(column.type, ComplexType):
        values = list(to_complex(column)) if len(column) else []
    elif pa.types.is_fixed_size_list(column.type):
        flat = column.flatten()
        inner = (
            to_complex(flat) if isinstance(flat.type, ComplexType) else flat.to_numpy(zero_copy_only=False)
        )
        values = list(inner.reshape(len(column), -1)) if len(column) else []
    else:
        values = column.to_numpy(zero_copy_only=False).tolist()
    found: dict[Any, list[tuple[int, Any]]] = {}
    keys = result.column("k").to_pylist()
    for key, at, value in zip(keys, result.column("t").to_pylist(), values, strict=True):
        found.setdefault(key, []).append((at, np.asarray(value)))
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in found.items()}


def same_bits(a: dict[Any, Any], b: dict[Any, Any]) -> None:
    assert a.keys() == b.keys()
    for key, rows in a.items():
        assert [at for at, _ in rows] == [at for at, _ in b[key]]
        for (_, x), (_, y) in zip(rows, b[key], strict=True):
            assert x.tobytes() == y.tobytes()


def near(found: dict[Any, Any], query: Any, tables: Any, watermarks: Any, keys: Any = None) -> None:
    """The rows are those of the twin."""
    by_key = {
        name: {
            key: [(a, b, v) for k, a, b, v in rows if k == key] for key in (KEYS if keys is None else keys)
        }
        for name, rows in tables.items()
    }
    for key in KEYS if keys is None else keys:
        mine = found.get(key, [])
        wanted = twin(query.node, by_key, watermarks, key)
        assert [at for at, _ in mine] == wanted.at.tolist(), key
        for (at, value), other in zip(mine, wanted.values, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-7, err_msg=f"{key} {at}")


def online(query: Any, tables: dict[str, list[Any]], cuts: list[list[int]], complex_: bool = False) -> Any:
    """Run a query over pieces of its tables; after each step what there is, and the watermarks."""
    schemas = {name: table([], complex_).schema for name in tables}
    pipeline = s.Pipeline(query.node, schemas)
    parts = []
    at = dict.fromkeys(tables, 0)
    for cut in [*cuts, [len(rows) for rows in tables.values()]]:
        batch = {}
        for (name, rows), stop in zip(tables.items(), cut, strict=True):
            stop = max(at[name], min(stop, len(rows)))
            batch[name] = table(rows[at[name] : stop], complex_)
            at[name] = stop
        parts.append(pipeline.step(batch))
        pipeline.commit()
        yield pipeline, pa.concat_tables(parts), dict(at)
    parts.append(pipeline.step({}, dict.fromkeys(tables)))
    pipeline.commit()
    yield pipeline, pa.concat_tables(parts), dict(at)
