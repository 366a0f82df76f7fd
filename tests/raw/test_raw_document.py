"""The document's running example: Figure 1, seven files on three nodes, a query for i = 1..5, j = 2..4."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from everfresh.arrays.aql_parser import parse as parse_aql
from everfresh.arrays.evaluate import evaluate
from everfresh.raw.boxes import Box
from everfresh.raw.cache.asking import Ask, CacheOptions
from everfresh.raw.cache.coordinator import Coordinator
from everfresh.raw.catalog import Catalog
from everfresh.raw.cells import CellReader
from everfresh.raw.definition import CreateExternal, parse
from everfresh.raw.looking import look
from everfresh.raw.needs import needs_of

FIGURE_1 = """
X1 . Y1 Z1 . Z3 Y2 .
. Y1 X1 . Z2 X2 Y2 .
X1 . Z1 . X2 . . Z3
. Z1 . . . . . .
. Z1 . . Y2 Z2 . .
. . . Z2 . . . X2
"""
NODES = "XYZ"
QUERY = Box((1, 2), (5, 4))
JOIN = (
    "SELECT COUNT(*) AS n FROM BETWEEN(A, 1, 2, 5, 4) AS a SIMILARITY JOIN BETWEEN(A, 1, 2, 5, 4) AS b "
    "ON (b.i = a.i AND b.j = a.j) WITH SHAPE L1(1)"
)
CELLS = {
    (i, j): name
    for i, line in enumerate(FIGURE_1.split("\n")[1:7], 1)
    for j, name in enumerate(line.split(), 1)
    if name != "."
}
CELL = 1 + 8 + 8
"""Bytes of a cell: its coordinates and an attribute of one byte."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in sorted(set(CELLS.values())):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["i", "j", "f"])
            rows.writerows([i, j, int(name[1])] for (i, j), of in CELLS.items() if of == name)
    return tmp_path


def coordinator(
    folder: Path, budget_cells: int, min_cells: int = 5, placement: str = "dynamic"
) -> Coordinator:
    definition = parse(
        f"CREATE EXTERNAL ARRAY A <f: TINYINT NOT NULL> [i=1,6,2; j=1,8,2] FROM '{folder}/*.csv'"
    )
    assert isinstance(definition, CreateExternal)
    options = CacheOptions(3, budget_cells * CELL, placement=placement, min_cells=min_cells)
    made = Coordinator(options)
    reader = CellReader(definition)
    found = look(reader, Catalog(), 3, made.numbers).catalog
    owned = {path: replace(f, owner=NODES.index(Path(path).name[0])) for path, f in found.files.items()}
    made.put("A", reader, Catalog(owned, found.pieces))
    return made


def run(cache: Coordinator) -> int:
    statement = parse_aql(JOIN)
    needs = needs_of(statement, {"A": cache.readers["A"].schema})
    rows = evaluate(statement, cache.answer(needs.asks, needs.joins))
    count: int = rows.to_pylist()[0]["n"]
    return count


def collocated(cache: Coordinator) -> int:
    """Pairs of neighbours in the query whose cells one worker has."""
    at = {}
    for number in cache.memory:
        for part in cache.memory.parts(number):
            at.update({tuple(cell): part.worker for cell in part.chunk.coords.T.tolist()})
    asked = [
        c
        for c in CELLS
        if QUERY.lo <= c and all(a <= x <= b for a, x, b in zip(QUERY.lo, c, QUERY.hi, strict=True))
    ]
    near = [(a, b) for a in asked for b in asked if a < b and abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    assert len(near) == 5
    return sum(a in at and b in at and at[a] == at[b] for a, b in near)


def names(cache: Coordinator, pieces: object) -> list[str]:
    return sorted({Path(cache.catalogs["A"].pieces[n].file).stem for n in pieces})  # type: ignore[attr-defined]


def test_the_query_has_17_join_cells(folder: Path) -> None:
    assert run(coordinator(folder, 100)) == 17


def test_four_files_overlap_and_z2_is_cut_and_not_kept(folder: Path) -> None:
    cache = coordinator(folder, 3)
    met = cache.catalogs["A"].meeting([QUERY])
    assert sorted(Path(piece.file).stem for piece in met) == ["X1", "Y1", "Z1", "Z2"]
    run(cache)
    z2 = cache.catalogs["A"].of_file(str(folder / "Z2.csv"))
    assert len(z2) == 2
    assert cache.last is not None
    assert cache.last.cut == 1, "the others have fewer than 5 cells, and the query asks for one of them"
    assert names(cache, cache.memory) == ["X1", "Y1", "Z1"]


def test_z1_is_kept_whole_across_two_nodes(folder: Path) -> None:
    cache = coordinator(folder, 3, placement="static")
    run(cache)
    parts = {
        (NODES[part.worker], len(part.chunk))
        for n in cache.memory
        for part in cache.memory.parts(n)
        if "Z1" in cache.catalogs["A"].pieces[n].file
    }
    assert parts == {("Z", 3), ("Y", 1)}
    assert cache.memory.used() == [3 * CELL] * 3
    assert run(cache) == 17
    assert cache.last is not None
    assert not cache.last.files_read, "nothing is read again"


def test_pairs_that_one_node_has(folder: Path) -> None:
    """Without placement 2 of the 5 pairs; with it 3, once the query has cut X1 at its side."""
    static = coordinator(folder, 3, placement="static")
    run(static)
    assert collocated(static) == 2
    dynamic = coordinator(folder, 3, min_cells=2)
    run(dynamic)
    run(dynamic)
    assert collocated(dynamic) == 3


def test_boxes_cover_every_cell_once(folder: Path) -> None:
    cache = coordinator(folder, 3)
    for ask in (QUERY, Box((2, 1), (6, 3)), Box((5, 5), (6, 8)), Box((1, 1), (1, 8))):
        cache.answer([Ask("A", (ask,))])
        for cell, name in CELLS.items():
            path = str(folder / f"{name}.csv")
            holding = [p for p in cache.catalogs["A"].of_file(path) if p.box.met(Box(cell, cell))]
            assert len(holding) == 1
