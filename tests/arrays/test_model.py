"""The array model: chunks, cells from all kinds of data, changes as bags, bytes, and refusals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xarray
from hypothesis import given
from hypothesis import strategies as st

import everfresh as ef
from everfresh.arrays.cells import Array, array_of, read_cells
from everfresh.arrays.chunk import Chunk
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.errors import EverfreshError
from everfresh.types import BIGINT, DECIMAL, DOUBLE, INTERVAL, VARCHAR, Column

GRID = ArraySchema("a", (Dimension("i", 1, 8, 2), Dimension("j", -3, 8, 5)), (Column("v", BIGINT),))
MIXED = ArraySchema(
    "m",
    (Dimension("x", 0, 5, 2),),
    (Column("d", DOUBLE), Column("s", VARCHAR), Column("p", DECIMAL(9, 2)), Column("t", INTERVAL)),
)
CELLS = [(1, -3, 10), (8, 8, 20), (2, 0, 30)]


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(-3, 8)), max_size=20))
def test_cells_lie_in_the_box_of_their_chunk(cells: list[tuple[int, int]]) -> None:
    coords = np.array(cells, np.int64).reshape(-1, 2).T
    for cell, chunk in zip(coords.T, GRID.chunk_ids(coords), strict=True):
        lo, hi = GRID.chunk_box(int(chunk))
        assert ((lo <= cell) & (cell <= hi)).all()
        assert GRID.chunk_id(GRID.chunk_place(int(chunk))) == chunk
    assert sum((GRID.chunk_box(c)[1] - GRID.chunk_box(c)[0] + 1).prod() for c in range(12)) == 8 * 12


KINDS: dict[str, Any] = {
    "tuples": CELLS,
    "dicts": [dict(zip("ijv", cell, strict=True)) for cell in CELLS],
    "arrow": pa.table(dict(zip("ijv", map(list, zip(*CELLS, strict=True)), strict=True))),
    "pandas": pd.DataFrame(CELLS, columns=list("ijv")),
    "polars": pl.DataFrame(CELLS, schema=["v", "j", "i"][::-1], orient="row"),
    "coo": ([c[:2] for c in CELLS], [c[2] for c in CELLS]),
    "coo by dimension": (tuple(np.array(CELLS).T[:2]), {"v": np.array(CELLS)[:, 2]}),
    "sparse": scipy.sparse.coo_array(([10, 20, 30], ([0, 7, 1], [0, 11, 3])), shape=(8, 12)),
    "csr matrix": scipy.sparse.csr_matrix(([10, 20, 30], ([0, 7, 1], [0, 11, 3])), shape=(8, 12)),
}
DENSE = np.ma.masked_all((8, 12), np.int64)
FULL = np.full((8, 12), np.nan)
for _i, _j, _v in CELLS:
    DENSE[_i - 1, _j + 3] = FULL[_i - 1, _j + 3] = _v
KINDS["dense"], KINDS["dense with NaN"] = DENSE, FULL
KINDS["xarray"] = xarray.DataArray(FULL.T, dims=["j", "i"])
KINDS["labelled"] = xarray.Dataset(
    {"v": (("i", "j"), FULL)}, coords={"i": np.arange(1, 9), "j": np.arange(-3, 9)}
)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_from_all_kinds_of_data(kind: str) -> None:
    found = array_of(GRID, KINDS[kind])
    assert found.to_arrow().to_pydict() == {"i": [1, 2, 8], "j": [-3, 0, 8], "v": [10, 30, 20]}
    assert found.to_arrow().schema == GRID.arrow


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([(9, 0, 1)], r"i = 9 is outside of 1..8 \(array 'a', row 0\)"),
        ([(1, 0, 1), (1, -4, 1)], "j = -4 is outside"),
        ([(float("nan"), 0, 1)], "nan"),
        ([(None, 0, 1)], "NULL"),
        ([(1.5, 0, 1)], "1.5"),
        ([{"i": 1, "j": 1, "w": 5}], "'w'"),
        ([{"i": 1, "v": 5}], "'j'"),
        ([(1, 1)], "2 values for 3 columns"),
        (([(1, 2, 3)], [5]), "have 3 dimensions, the array has 2"),
        (np.zeros(5), "have 1 dimensions"),
        (scipy.sparse.coo_array(np.ones((9, 12))), "i = 9 is outside"),
        (xarray.DataArray(np.zeros((2, 2)), dims=["i", "k"]), "dimensions i, k"),
        (xarray.Dataset(), "no variables"),
        (5, "is not rows"),
    ],
)
def test_bad_cells_are_refused(data: Any, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        array_of(GRID, data)


def test_values_without_names_need_one_attribute() -> None:
    with pytest.raises(EverfreshError, match="an array of one attribute, not of 4"):
        read_cells(np.zeros(6), MIXED)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dimension("i", 2, 1, 1), "ends at 1"),
        (lambda: Dimension("i", 1, 2, 0), "chunks of 0"),
        (lambda: Dimension("i", 0, 1 << 62, 1), "62 bits"),
        (lambda: ArraySchema("a", ()), "no dimension"),
        (lambda: ArraySchema("a", (Dimension("i", 0, 1, 1),), (Column("I", BIGINT),)), "called 'I'"),
        (lambda: ArraySchema("a", tuple(Dimension(n, 0, 1 << 40, 1) for n in "ij")), "use longer chunks"),
        (lambda: GRID.position("k"), "no dimension 'k'"),
    ],
)
def test_bad_schemas_are_refused(make: Any, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        make()


SPAN = pa.MonthDayNano([1, 2, 3000])
VALUES = st.tuples(
    st.integers(0, 5),
    st.sampled_from([0.0, 1.5, None, float("nan")]),
    st.sampled_from(["a", None]),
    st.sampled_from(["1.25", None]),
    st.sampled_from([SPAN, None]),
)


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*table.to_pydict().values(), strict=True)))


@given(st.lists(VALUES, max_size=15), st.lists(VALUES, max_size=8), st.data())
def test_changes_are_those_of_a_bag(old: Any, new: Any, data: st.DataObject) -> None:
    before = array_of(MIXED, old)
    pool = [*old, *new]
    gone = [row for row in pool if data.draw(st.booleans())]
    after = before.changed(inserts=new, deletes=gone)
    rows = [read_cells(some, MIXED) if some else MIXED.arrow.empty_table() for some in (old, new, gone)]
    want = _bag(rows[0])
    want.update(_bag(rows[1]))
    want.subtract(_bag(rows[2]))
    assert _bag(after.to_arrow()) == +want
    assert all(len(chunk) for chunk in after.chunks.values())
    for chunk in after.chunks.values():
        assert _bag(Chunk.decode(chunk.encode(), 1).table) == _bag(chunk.table)
        assert (np.diff(chunk.coords[0]) >= 0).all()
        assert chunk.box[0] == chunk.coords.min()
        assert chunk.nbytes > 0


def test_a_delete_of_what_is_not_there_changes_nothing() -> None:
    array = array_of(GRID, CELLS)
    with pytest.raises(EverfreshError, match="not in array 'a': i = 1, j = -3, v = 11"):
        array.changed(inserts=[(4, 4, 4)], deletes=[(1, -3, 11)])
    assert len(array) == 3


def test_a_cell_of_a_unique_array_holds_one_tuple() -> None:
    schema = ArraySchema("u", GRID.dimensions, GRID.attributes, unique=True)
    array = array_of(schema, CELLS)
    with pytest.raises(EverfreshError, match=r"cell \[1, -3\] of the UNIQUE array 'u'"):
        array.changed(inserts=[(1, -3, 11)])
    with pytest.raises(EverfreshError, match="UNIQUE"):
        array_of(schema, [*CELLS, CELLS[0]])
    after = array.changed(inserts=[(1, -3, 11)], deletes=[(1, -3, 10)])
    assert after.to_arrow().column("v").to_pylist() == [11, 30, 20]


def test_an_empty_array() -> None:
    array = Array(GRID)
    assert array.to_arrow().num_rows == len(array) == 0
    with pytest.raises(EverfreshError, match="no box"):
        _ = Chunk(GRID.arrow.empty_table(), 2).box


def test_points_become_cells() -> None:
    frame = pd.DataFrame({"lon": [0.26, -0.01, 0.27], "lat": [1.0, 2.0, 1.2], "pop": [5, 6, None]})
    array = ef.arrays.from_points(frame, ["lon", "lat"], cell=(0.25, 1), chunk=10, name="places")
    assert array.schema.ddl == "CREATE ARRAY places <pop: DOUBLE> [lon=-1,1,10; lat=1,2,10]"
    assert array.to_arrow().to_pylist() == [
        {"lon": -1, "lat": 2, "pop": 6.0},
        {"lon": 1, "lat": 1, "pop": 5.0},
        {"lon": 1, "lat": 1, "pop": None},
    ]


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        ({"x": [1.0, float("nan")]}, {}, "x = nan is in no cell.*row 1"),
        ({"x": [1e300]}, {}, "is in no cell"),
        ({"x": [(1 << 62) + 1]}, {}, "is in no cell"),
        ({"y": [1.0]}, {}, "no column 'x'"),
        ({"x": []}, {}, "not numbers|no points"),
        ({"x": [1.0]}, {"cell": 0}, "0 is no size"),
        ({"x": [1.0]}, {"chunk": (1, 2)}, "no size for 1 dimensions"),
        ({"x": [1.0], "v": pa.array([1], pa.duration("s"))}, {}, "which no attribute is"),
    ],
)
def test_bad_points_are_refused(data: Any, arguments: Any, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        ef.arrays.from_points(data, ["x"], **{"cell": 1, "chunk": 5, **arguments})
