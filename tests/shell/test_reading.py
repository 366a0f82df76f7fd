"""Results, views and tables as people read them: rows of Python, pandas, at a prompt, in a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas
import pytest

import everfresh as ef

BIG = 2**80


@pytest.fixture
def db() -> Iterator[ef.Database]:
    with ef.connect(":memory:", engine="local") as made:
        made.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, word VARCHAR, price DECIMAL(9,2), huge HUGEINT)")
        made.sql("CREATE MATERIALIZED VIEW v AS SELECT word, SUM(k) AS s, COUNT(*) AS n FROM t GROUP BY word")
        made.apply(t=[(1, "<b>", "1.50", BIG), (2, "<b>", None, None), (3, None, "2.00", -5)])
        yield made


def test_rows_of_python(db: ef.Database):
    result = db.sql("SELECT k, word FROM t ORDER BY k")
    rows = [(1, "<b>"), (2, "<b>"), (3, None)]
    assert result.fetchall() == list(result) == rows
    assert (result[0], result[-1], result[1:], result[::-1]) == (rows[0], rows[2], rows[1:], rows[::-1])
    assert result["word"] == ["<b>", "<b>", None]
    assert len(result) == 3
    assert [result.fetchone() for _ in range(5)] == [*rows, None, rows[0]]
    assert result.head(2).fetchall() == rows[:2]
    with pytest.raises(IndexError):
        result[3]
    with pytest.raises(KeyError):
        result["nope"]
    assert sorted(db.view("v"), key=str) == [("<b>", 3, 2), (None, 3, 1)]
    assert len(db.table("t")) == len(db.table("t").fetchall()) == 3
    assert db.sql("SELECT 1 AS x WHERE FALSE").fetchone() is None


def test_sums_of_integers_are_integers(db: ef.Database):
    (row,) = db.sql("SELECT SUM(k) AS s, SUM(huge) AS h, SUM(price) AS p FROM t").to_pylist()
    assert [type(value).__name__ for value in row.values()] == ["int", "int", "Decimal"]
    assert row["h"] == BIG - 5
    frame = db.sql("SELECT k, SUM(k) AS s, SUM(huge) AS h FROM t GROUP BY k ORDER BY k").df()
    assert frame["s"].dtype == "int64"
    assert frame["h"].tolist() == [BIG, None, -5]
    assert isinstance(db.view("v").df(), pandas.DataFrame)
    assert db.view("v").pl().height == 2


def test_dates_that_python_does_not_know_are_refused(db: ef.Database):
    far = db.sql("SELECT DATE '9999-12-31' + 1 AS d")
    assert far.to_arrow().num_rows == 1
    for read in (far.to_pylist, far.fetchall, far.df, lambda: far["d"], lambda: far[0]):
        with pytest.raises(ef.EverfreshError, match="10000"):
            read()


def test_what_is_shown_says_what_it_is(db: ef.Database, capsys: pytest.CaptureFixture[str]):
    assert (
        repr(db.view("v"))
        == str(db.view("v"))
        == "<materialized view v (word VARCHAR, s HUGEINT, n BIGINT NOT NULL)>"
    )
    assert repr(db.table("t")).startswith("<table t (k BIGINT NOT NULL, word VARCHAR")
    assert (repr(db.tables), repr(db.views)) == ("['t']", "['v']")
    db.view("v").show(1)
    assert "... (2 rows)" in capsys.readouterr().out


def test_notebooks_get_html_that_is_escaped_and_short(db: ef.Database):
    db.sql('CREATE TABLE "<i>" (x INT)')
    db.apply({"<i>": [(i,) for i in range(500)]})
    shown = [db, db.tables, db.view("v"), db.table("<i>"), db.sql("SELECT * FROM t"), db.sql("EXPLAIN v")]
    for one in shown:
        text = one._repr_html_()
        assert not re.search("<(b|i)>", text), one
        assert len(text) < 5_000
    assert "&lt;i&gt;" in db._repr_html_()
    assert "500 rows" in db.table("<i>")._repr_html_()
    db.close()
    assert "closed" in db._repr_html_()


def test_explain_begins_with_a_sentence_and_is_never_cut(db: ef.Database):
    shown = str(db.sql("EXPLAIN v"))
    assert shown == db.view("v").explain()
    first, _, rest = shown.partition("\n\n")
    assert first == "Incremental: a batch costs time for its rows; the view keeps 2 entries in 1 map."
    assert rest.startswith("VIEW v")
    assert "…" not in str(
        db.sql("EXPLAIN SELECT " + ", ".join(f"k + {i} AS k{i}" for i in range(50)) + " FROM t")
    )
    assert db.sql("EXPLAIN v").to_arrow().column_names == ["explain"]
    db.sql("CREATE MATERIALIZED VIEW w WITH (strategy = 're-evaluate') AS SELECT k FROM t")
    assert (
        db.view("w").explain().startswith("Re-evaluated: a batch that changes t runs the query anew, because")
    )


def test_options_are_options():
    with pytest.raises(ef.EverfreshError, match=r"options are an everfresh\.Options, not a dict") as error:
        ef.connect(engine="local", options={"history": 5})  # type: ignore[arg-type]
    assert "Options(history=5)" in str(error.value)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ef.EverfreshError, match="is not empty"):
        ef.connect(tmp_path, engine="local")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_matrices_are_dropped_by_sql(db: ef.Database):
    db.create_matrix("A", [[1.0, 2.0], [0.0, 1.0]])
    db.create_matrix_view("square", "B := A A;")
    for statement, said in [
        ("DROP MATRIX A", "read by square"),
        ("DROP TABLE A", "write DROP MATRIX"),
        ("DROP TABLE square", "write DROP MATRIX VIEW"),
        ("DROP MATRIX v", "write DROP MATERIALIZED VIEW"),
        ("DROP MATRIX nope", "there is no matrix 'nope'"),
    ]:
        with pytest.raises(ef.EverfreshError) as error:
            db.sql(statement)
        assert said in str(error.value)
    db.sql("drop view SQUARE; DROP MATRIX IF EXISTS nope; DROP MATRIX a")
    assert not db.matrices
    db.create_matrix("A", [[1.0]])
    db.create_matrix_view("square", "B := A A;")
    db.sql("DROP MATRIX A CASCADE")
    assert not db.matrix_views


def test_equals_is_explained_in_matrix_programs(db: ef.Database):
    db.create_matrix("A", [[1.0]])
    with pytest.raises(ef.EverfreshError, match="defined with ':='"):
        db.create_matrix_view("square", "B = A A;")
