"""Packing and unpacking arrays and tables is the identity, without a copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from everfresh.state import (
    array_chunks,
    open_sealed,
    pack_arrays,
    pack_table,
    seal,
    table_chunks,
    unpack_arrays,
    unpack_table,
)
from everfresh.state.files import ALIGNMENT

ARRAYS = hnp.arrays(
    dtype=hnp.scalar_dtypes() | hnp.nested_dtypes(max_itemsize=64),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
def test_arrays_round_trip(arrays: dict[str, np.ndarray]) -> None:
    unpacked = unpack_arrays(pack_arrays(arrays))
    assert list(unpacked) == list(arrays)
    for name, array in arrays.items():
        assert unpacked[name].dtype == array.dtype
        assert unpacked[name].shape == array.shape
        assert unpacked[name].tobytes() == array.tobytes()


def test_order_and_strides_do_not_matter() -> None:
    grid = np.arange(24).reshape(4, 6)
    arrays = {"fortran": np.asfortranarray(grid), "every other": grid[::2, ::-3]}
    unpacked = unpack_arrays(pack_arrays(arrays))
    assert (unpacked["fortran"] == grid).all()
    assert (unpacked["every other"] == grid[::2, ::-3]).all()


def test_chunks_are_views_of_arrays_whose_rows_lie_together() -> None:
    grid = np.arange(24).reshape(4, 6)
    arrays = {"whole": grid, "left": grid[:, :4]}
    chunks = array_chunks(arrays)
    assert b"".join(chunks) == pack_arrays({name: array.copy() for name, array in arrays.items()})
    shared = [np.shares_memory(np.frombuffer(chunk, np.uint8), grid) for chunk in chunks if len(chunk)]
    assert shared.count(True) == 1 + 4


def test_sections_may_be_in_chunks() -> None:
    whole, cut = (seal("note", {}, {"a": a, "b": b"x"}) for a in (b"one two", [b"one ", b"", b"two"]))
    assert whole == cut


def test_tables_one_after_the_other_are_one() -> None:
    table = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})
    asked = []

    def parts() -> Iterator[pa.Table]:
        for start in range(3):
            asked.append(start)
            yield table.slice(start, 1)

    assert unpack_table(b"".join(table_chunks(parts()))).equals(table)
    assert asked == [0, 1, 2]


def test_arrays_are_aligned_views() -> None:
    arrays = {"a": np.arange(3, dtype=np.int8), "b": np.arange(5.0), "c": np.ones((2, 2), np.int64)}
    section = pack_arrays(arrays)
    view = open_sealed(seal("k", {}, {"other": b"1", "pool": section}), "k").sections["pool"]
    start = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    for array in unpack_arrays(view).values():
        address = array.__array_interface__["data"][0]
        assert start < address < start + view.nbytes
        assert (address - start) % ALIGNMENT == 0
        assert not array.flags.writeable
        assert array.flags.aligned


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="'x' holds Python objects"):
        pack_arrays({"x": np.array(["a", None], dtype=object)})


INTEGERS = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(INTEGERS | st.none(), st.text(max_size=4) | st.none()), max_size=20))
def test_table_round_trip(rows: list[tuple[int | None, str | None]]) -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())], metadata={"k": "v"})
    table = pa.Table.from_pylist([{"a": a, "s": s} for a, s in rows], schema=schema)
    assert unpack_table(pack_table(table)).equals(table, check_metadata=True)


def test_table_is_a_view_and_keeps_chunks() -> None:
    table = pa.concat_tables([pa.table({"a": [1.0] * 1000}), pa.table({"a": [2.0] * 10})])
    packed = pack_table(table)
    unpacked = unpack_table(memoryview(packed))
    assert unpacked.column("a").num_chunks == 2
    start = np.frombuffer(packed, np.uint8).__array_interface__["data"][0]
    assert start < unpacked.column("a").chunk(0).buffers()[1].address < start + len(packed)


def test_table_without_columns_or_rows() -> None:
    for table in (pa.table({}), pa.schema([("d", pa.decimal128(15, 2))]).empty_table()):
        assert unpack_table(pack_table(table)).equals(table)
