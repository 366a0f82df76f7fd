"""External arrays in a database: answers equal those over the same cells loaded, whatever the cache does."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_files import WRITERS, csv, parquet

import everfresh as ef
from everfresh.errors import Code, EverfreshError
from everfresh.local.adhoc import execute
from everfresh.raw.cells import CellReader, taken
from everfresh.raw.cells import _plain as plain_rows
from everfresh.raw.definition import parse
from everfresh.raw.verbs import domain_of

SHAPE = "[i=1,60,10; j=0,40,10]"
QUERIES = (
    "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(i) AS a FROM {a} WHERE i BETWEEN {i} AND {k} AND j < {m}",
    "SELECT i, SUM(v) AS s FROM {a} WHERE j >= {j} AND {k} >= i AND v <> 3 GROUP BY i ORDER BY i",
    "SELECT COUNT(*) AS n FROM {a} x JOIN {a} y ON x.i = y.i AND y.j < {m} WHERE x.j > {j}",
    "SELECT COUNT(*) AS n FROM {a} x LEFT JOIN (SELECT * FROM {a} WHERE i > {i}) y ON x.i = y.i "
    "WHERE x.j = {j}",
    "BETWEEN({a}, {i}, {j}, {k}, {m})",
    "SUBARRAY({a}, {i}, {j}, {k}, {m})",
    "FILTER({a}, i > {i} AND v < 7 AND j <= {m})",
    "BETWEEN(APPLY({a}, SUM(v) AS s, LINF(1)), {i}, {j}, {k}, {m})",
    "REGRID(BETWEEN({a}, {i}, {j}, {k}, {m}), 2, 3, SUM(v) AS s)",
    "SELECT COUNT(*) AS n, SUM(x.v * y.v) AS s FROM {a} x SIMILARITY JOIN {a} y "
    "ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(2) WHERE x.i BETWEEN {i} AND {k} AND y.j < {m}",
    "SELECT COUNT(*) AS n FROM BETWEEN({a}, {i}, {j}, {k}, {m}) x SIMILARITY JOIN {a} y "
    "ON (y.i = x.i + 3 AND y.j = x.j) WITH SHAPE LINF(1)",
    "SELECT COUNT(*) AS n FROM {a} x SIMILARITY JOIN {b} y ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) "
    "WHERE x.j <= {j}",
)


def rows(random: np.random.Generator, count: int) -> pa.Table:
    i0, j0 = random.integers(1, 40), random.integers(0, 30)
    return pa.table(
        {
            "x": random.integers(i0, i0 + 20, count),
            "y": np.round(random.uniform(j0, j0 + 10.9, count), 3),
            "v": random.integers(0, 10, count),
        }
    )


def loaded(some: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(some)
    return pa.table({"i": whole["x"], "j": np.floor(whole["y"].to_numpy()).astype(np.int64), "v": whole["v"]})


def answer(db: ef.Database, text: str) -> list[Any]:
    result = db.sql(text)
    found = result.to_arrow().to_pylist()  # type: ignore[union-attr]
    return found if "ORDER BY" in text else sorted(found, key=str)


questions = st.tuples(
    st.sampled_from(QUERIES), st.integers(1, 50), st.integers(0, 20), st.integers(0, 40), st.integers(0, 40)
).map(lambda q: (q[0], {"i": q[1], "j": q[3], "k": min(60, q[1] + q[2]), "m": max(q[3], q[4])}))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(sorted(WRITERS))), min_size=1, max_size=4),
    st.lists(questions, min_size=1, max_size=6),
    st.sampled_from(["cost", "chunk_lru", "file_lru"]),
    st.sampled_from(["dynamic", "static"]),
    st.sampled_from([0, 300, 2000, 10**6]),
    st.integers(1, 3),
    st.sampled_from([0, 5, 1000]),
    st.booleans(),
)
def test_answers_equal_those_over_loaded_cells(
    seed: int,
    files: list[tuple[int, str]],
    asked: list[tuple[str, dict[str, int]]],
    policy: str,
    placement: str,
    budget: int,
    workers: int,
    min_cells: int,
    side_by_side: bool,
) -> None:
    random = np.random.default_rng(seed)
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        ef.connect(engine="local") as db,
    ):
        if side_by_side:
            in_threads(patch)
        some = [rows(random, count) for count, _ in files]
        for k, ((_, writer), table) in enumerate(zip(files, some, strict=True)):
            WRITERS[writer](Path(folder) / f"{k}", table)
        db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{folder}' (i = x, j = y)")
        db.sql(f"CREATE ARRAY b <v: INT> {SHAPE}")
        db.apply(b=loaded(some))
        db.cache.configure(
            workers=workers, budget=budget, policy=policy, placement=placement, min_cells=min_cells
        )
        for text, numbers in asked:
            expected = answer(db, text.format(a="b", b="b", **numbers))
            assert answer(db, text.format(a="a", b="b", **numbers)) == expected
            assert all(used <= budget for used in domain_of(db).cache.memory.used())
            assert db.array("a").verify().num_rows == 0, "every cell is in one box of its file"
        report = db.cache.last
        if report is not None and policy == "file_lru":
            assert not report.cut


numbers_of_files = st.one_of(
    st.tuples(st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"]), st.just(0)),
    st.tuples(st.sampled_from(["float32", "float64"]), st.just(1)),
)
SPECIAL = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, 2.5, -3.0, 1e30]


@settings(deadline=None)
@given(
    st.data(),
    numbers_of_files,
    numbers_of_files,
    st.sampled_from(["TINYINT", "INT", "BIGINT", "HUGEINT", "REAL", "DOUBLE"]),
)
def test_columns_that_are_taken_equal_those_that_are_computed(
    data: st.DataObject, place: tuple[str, int], value: tuple[str, int], type_: str
) -> None:
    """A file's columns as they are, or wider, against the same plan run by SQL's code."""
    size = data.draw(st.integers(0, 8))

    def column(kind: tuple[str, int]) -> pa.Array:
        whole = st.sampled_from([0, 1, 2, 100, 127]) | st.integers(0, 120)
        some = st.lists(
            st.none() | (st.sampled_from(SPECIAL) if kind[1] else whole), min_size=size, max_size=size
        )
        return pa.array(data.draw(some), pa.from_numpy_dtype(np.dtype(kind[0])))

    rows = pa.table({"x": column(place), "v": column(value)})
    statement = parse(f"CREATE EXTERNAL ARRAY a <v: {type_}> [i=-5,9,5] FROM 'f' (i = x)")
    reader = CellReader(statement)  # type: ignore[arg-type]
    rows = plain_rows(rows)
    plan = reader._plan(rows.schema)
    found = taken(plan, rows)
    if found is not None:
        expected = execute(plan, {"file": rows}.__getitem__)
        assert found.schema.types == expected.schema.types
        assert str(found.to_pydict()) == str(expected.to_pydict()), "zeros have a sign"


def in_threads(patch: pytest.MonkeyPatch) -> None:
    """Have files read by three threads, however small they are."""
    patch.setattr("everfresh.raw.here._ENOUGH", 0)
    patch.setattr("everfresh.raw.here.cores", lambda: 3)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    folder = tmp_path / "nights"
    folder.mkdir()
    for k in range(3):
        table = pa.table(
            {"x": np.arange(1 + 10 * k, 15 + 10 * k), "y": np.full(14, 2.5 + k), "v": np.arange(14)}
        )
        parquet(folder / f"{k}", table)
    return folder


def create(db: ef.Database, folder: Path, options: str = "", name: str = "a") -> None:
    db.sql(f"CREATE EXTERNAL ARRAY {name} <v: INT> {SHAPE} FROM '{folder}' (i = x, j = y) {options}")


def test_a_second_question_reads_nothing(night: Path) -> None:
    with ef.connect(engine="local") as db:
        create(db, night)
        text = "SELECT SUM(v) AS s FROM a WHERE i BETWEEN 1 AND 9"
        first = answer(db, text)
        assert db.cache.last is not None
        assert [Path(p).name for p in db.cache.last.files_read] == ["0.parquet"], (
            "the header told the others' boxes"
        )
        assert answer(db, text) == first
        assert (db.cache.last.hits, db.cache.last.misses, db.cache.last.bytes_read) == (1, 0, 0)
        assert db.epoch == 1, "questions change nothing"
        told = str(
            db.sql("EXPLAIN SELECT v FROM a SIMILARITY JOIN a b ON (b.i = a.i AND b.j = a.j) WITH SHAPE L0")
        )
        assert "a: 1..60 x 0..40: 3 pieces, 1 in memory, 2 files to read" in told
        assert "1 pieces from memory" in db.cache.explain()
        assert '"policy": "cost"' in db.cache.explain("json")
        assert db.cache.plot("a").startswith("<svg")
        db.cache.clear()
        answer(db, text)
        assert db.cache.last.misses == 1


def test_a_database_on_disk_knows_files_and_boxes_again(night: Path, tmp_path: Path) -> None:
    text = (
        "SELECT COUNT(*) AS n FROM BETWEEN(a, 3, 0, 8, 40) x SIMILARITY JOIN a y "
        "ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1)"
    )
    with ef.connect(tmp_path / "db", engine="local") as db:
        create(db, night)
        db.cache.configure(min_cells=0)
        expected = answer(db, text)
        boxes = len(domain_of(db).cache.catalogs["a"].pieces)
        assert boxes > 3, "the query has cut its file"
    for snapshot in (False, True):
        with ef.connect(tmp_path / "db", engine="local") as db:
            assert [a.name for a in db.arrays.values()] == ["a"]
            assert len(domain_of(db).cache.catalogs["a"].pieces) == boxes
            assert answer(db, text) == expected
            if snapshot:
                db._engine.snapshot()  # type: ignore[attr-defined]
    for kept in (tmp_path / "db" / "boxes").iterdir():
        kept.write_text("damaged")  # it is a help, and no more
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert answer(db, text) == expected
        db.sql("DROP ARRAY a")
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert not db.arrays


def test_refresh_sees_what_came_changed_and_went(night: Path, tmp_path: Path) -> None:
    with ef.connect(tmp_path / "db", engine="local") as db:
        create(db, night)
        answer(db, "SELECT COUNT(*) AS n FROM a")
        assert db.sql("REFRESH a") == 1, "nothing has changed"
        parquet(night / "new", pa.table({"x": [50], "y": [40.0], "v": [7]}))
        (night / "0.parquet").unlink()
        parquet(night / "1", pa.table({"x": [20], "y": [1.0], "v": [5]}))
        with pytest.raises(EverfreshError) as caught:
            db.sql("SELECT * FROM a WHERE i >= 16")
        assert caught.value.code == Code.CHANGED
        assert "1.parquet" in str(caught.value)
        assert db.array("a").refresh() == 2
        assert answer(db, "SELECT COUNT(*) AS n FROM a") == [{"n": 16}]
        assert db.cache.last is not None
        assert len(db.cache.last.files_read) == 2, "the file that stayed is still in memory"
    with ef.connect(tmp_path / "db", engine="local") as db:
        assert answer(db, "SELECT COUNT(*) AS n FROM a") == [{"n": 16}]


def test_a_file_that_changes_is_never_mixed(night: Path) -> None:
    with ef.connect(engine="local") as db:
        create(db, night)
        answer(db, "SELECT COUNT(*) AS n FROM a")
        parquet(night / "0", pa.table({"x": [1], "y": [1.0], "v": [5]}))
        with pytest.raises(EverfreshError, match="has changed"):
            db.sql("SELECT * FROM a WHERE i < 5")  # its cells are in memory, and not those of the file
        (night / "2.parquet").unlink()
        with pytest.raises(EverfreshError, match=r"2\.parquet"):
            db.sql("SELECT * FROM a WHERE i > 30")
        before = db.cache.explain()
        with pytest.raises(EverfreshError):
            db.sql("SELECT * FROM a")
        assert db.cache.explain() == before, "a query that fails leaves the cache as it was"


@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_file_that_changes_while_a_query_reads_it(
    night: Path, monkeypatch: pytest.MonkeyPatch, side_by_side: bool
) -> None:
    """Written anew once its first rows were read, of the same length and with other cells."""
    if side_by_side:
        in_threads(monkeypatch)
    cells = CellReader.cells

    def read(self: CellReader, path: str) -> Any:
        for done, table in cells(self, path):
            yield done, table
            if path.endswith("1.parquet"):
                parquet(
                    Path(path),
                    pa.table({"x": np.arange(11, 25), "y": np.full(14, 3.5), "v": np.arange(14) + 1}),
                )

    with ef.connect(engine="local") as db:
        create(db, night)
        answer(db, "SELECT COUNT(*) AS n FROM a WHERE i < 5")
        before = db.cache.explain("json")
        monkeypatch.setattr(CellReader, "cells", read)
        with pytest.raises(EverfreshError) as caught:
            db.sql("SELECT SUM(v) AS s FROM a")
        assert caught.value.code == Code.CHANGED
        assert "1.parquet" in str(caught.value)
        assert db.cache.explain("json") == before, "nothing of it is kept"
        monkeypatch.setattr(CellReader, "cells", cells)
        db.sql("REFRESH a")
        assert answer(db, "SELECT SUM(v) AS s FROM a") == [{"s": 3 * 91 + 14}]


@pytest.mark.parametrize("side_by_side", [False, True])
def test_an_interrupt_leaves_everything_as_it_was(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side_by_side: bool
) -> None:
    if side_by_side:
        in_threads(monkeypatch)
    struck: list[str] = []

    def strike(what: str, done: int, total: int) -> None:
        struck.append(what)
        if done == 1:
            raise KeyboardInterrupt

    with ef.connect(tmp_path / "db", engine="local") as db:
        for k in range(3):
            csv(night / f"{k}", pa.table({"x": [50 + k], "y": [1.0], "v": [k]}))
        db.on_progress(strike)
        with pytest.raises(KeyboardInterrupt):
            create(db, night)
        assert (db.epoch, list(db.arrays)) == (0, [])
        db.on_progress(None)
        create(db, night)
        before = db.cache.explain("json")
        db.on_progress(strike)
        with pytest.raises(KeyboardInterrupt):
            db.sql("SELECT * FROM a SIMILARITY JOIN a b ON (b.i = a.i AND b.j = a.j) WITH SHAPE L0")
        assert db.cache.explain("json") == before
        assert not [t for t in threading.enumerate() if t.name.startswith("everfresh-files")]
        parquet(night / "8", pa.table({"x": [50], "y": [40.0], "v": [7]}))
        parquet(night / "9", pa.table({"x": [50], "y": [40.0], "v": [7]}))
        db.on_progress(None)
        assert answer(db, "SELECT COUNT(*) AS n FROM a") == [{"n": 45}]
        assert {"looking at files of a", "reading files of a"} <= set(struck)


@pytest.mark.soak
def test_two_hundred_queries_stay_within_the_budgets(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    some = [rows(random, 400) for _ in range(12)]
    for k, table in enumerate(some):
        list(WRITERS.values())[k % len(WRITERS)](tmp_path / f"{k}", table)
    with ef.connect(engine="local") as db:
        db.sql(f"CREATE EXTERNAL ARRAY a <v: INT> {SHAPE} FROM '{tmp_path}' (i = x, j = y)")
        db.sql(f"CREATE ARRAY b <v: INT> {SHAPE}")
        db.apply(b=loaded(some))
        for policy in ("cost", "chunk_lru", "file_lru"):
            db.cache.configure(workers=3, budget=12_000, policy=policy, min_cells=30)
            for _ in range(200):
                i, j = random.integers(1, 50), random.integers(0, 35)
                numbers = {"i": i, "j": j, "k": i + random.integers(0, 12), "m": j + random.integers(0, 8)}
                text = QUERIES[random.integers(len(QUERIES))]
                expected = answer(db, text.format(a="b", b="b", **numbers))
                assert answer(db, text.format(a="a", b="b", **numbers)) == expected
                assert all(used <= 12_000 for used in domain_of(db).cache.memory.used())
            assert db.array("a").verify().num_rows == 0


def test_damaged_files_are_refused_or_left_out(night: Path, caplog: pytest.LogCaptureFixture) -> None:
    (night / "bad.parquet").write_bytes(b"PAR1 no PAR1")
    with ef.connect(engine="local") as db:
        with pytest.raises(EverfreshError) as caught:
            create(db, night)
        assert caught.value.code == Code.DAMAGED
        assert "bad.parquet" in str(caught.value)
        assert not db.arrays
        create(db, night, "WITH (damaged = 'skip')")
        assert "bad.parquet" in caplog.text
        assert answer(db, "SELECT COUNT(*) AS n FROM a") == [{"n": 42}]
        text = csv(night / "late", pa.table({"x": [9], "y": [9.0], "v": [9]}))
        db.sql("REFRESH a")
        text.write_text("x,y,v\n1,2\n", encoding="utf-8")
        db.sql("REFRESH a")
        assert answer(db, "SELECT COUNT(*) AS n FROM a") == [{"n": 42}]


def test_cells_outside_and_without_a_place(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    csv(
        folder / "0", pa.table({"x": [1, 2, None, 99], "y": [1.0, float("nan"), 3.0, 4.0], "v": [1, 2, 3, 4]})
    )
    with ef.connect(engine="local") as db:
        with pytest.raises(EverfreshError) as caught:
            create(db, folder)
        assert caught.value.code == Code.VALUE
        assert "0.csv, row 1" in str(caught.value)
        create(db, folder, "WITH (outside = 'skip')")
        assert answer(db, "SELECT * FROM a") == [{"i": 1, "j": 1, "v": 1}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE EXTERNAL ARRAY a <v: INT> [x=1,9,3] FROM '{f}/*.xyz'", "there is no file"),
        ("CREATE EXTERNAL ARRAY a <w: INT> [x=1,99,3] FROM '{f}'", "w"),
        ("CREATE EXTERNAL ARRAY a <v: INT> [x=1,99,3] FROM '{f}' (z = 1)", "no dimension or attribute 'z'"),
        ("CREATE EXTERNAL ARRAY a <v: INT> [x=1,99,3] FROM '{f}' (v = 1, V = 2)", "given twice"),
        ("CREATE EXTERNAL ARRAY a <v: INT> [x=1,99,3] FROM '{f}' WITH (size = 'big')", "no option 'size'"),
        ("CREATE EXTERNAL ARRAY a <v: INT> [x=1,99,3] FROM '{f}' WITH (damaged = 'mend')", "damaged is not"),
        ("CREATE EXTERNAL ARRAY a <v: INT> [i=1,99,3] FROM '{f}' (i = 'north')", "is a number"),
        ("CREATE EXTERNAL ARRAY t <v: INT> [x=1,99,3] FROM '{f}'", "already"),
        ("REFRESH t", "no external array 't'"),
        ("CREATE EXTERNAL UNIQUE ARRAY a <v: INT> [x=1,99,3] FROM '{f}'", "UNIQUE"),
    ],
)
def test_errors_say_what_and_change_nothing(night: Path, text: str, said: str) -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (k INT)")
        create(db, night, name="kept")
        epoch = db.epoch
        with pytest.raises(EverfreshError, match=said):
            db.sql(text.format(f=night))
        assert db.epoch == epoch
        assert list(db.arrays) == ["kept"]


def test_it_is_changed_by_its_files_alone(night: Path) -> None:
    with ef.connect(engine="local") as db:
        create(db, night)
        array = db.array("A")
        assert array.columns[0].name == "i"
        assert len(array.files) == 3  # type: ignore[attr-defined]
        assert len(array.between((1, 0), (5, 40))) == 5  # type: ignore[attr-defined]
        for call in (
            lambda: db.apply(a=[(1, 1, 1)]),
            lambda: array.changes(),
            lambda: array.watch(-1),  # type: ignore[attr-defined]
            lambda: db.cache.configure(size=3),
            lambda: db.cache.configure(policy="lfu"),
            lambda: array.between((1,), (2,)),  # type: ignore[attr-defined]
        ):
            with pytest.raises(EverfreshError):
                call()
        db.sql("CREATE TABLE t (k INT)")
        with pytest.raises(EverfreshError):
            array.to_arrow(at=0)
        assert "external array" in repr(array)
        assert db.sql("SHOW ARRAYS").to_pylist() == [{"name": "a"}]  # type: ignore[union-attr]
        array.drop()
        assert not db.arrays
