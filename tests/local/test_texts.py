"""Strings that are only kept against a list of them; columns that come to be read; what a program reads.

Mutations that these catch: a tail of a string lost or kept too long, a block used twice, an offset or a NULL
forgotten, a string at a boundary of size classes in a block too small, a column that is read left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everfresh
from everfresh.local.store import arena
from everfresh.local.store.kept_strings import Texts

TEXT = st.one_of(
    st.none(),
    st.text(max_size=9),
    st.sampled_from(["", "1234567", "12345678", "123456789", "é" * 4, "\0", "\0" * 8]),
    st.integers(1000, 1100).map(lambda n: "x" * n),
    st.just("y" * 70_000),
)


@settings(max_examples=max(100, settings().max_examples))
@given(st.lists(st.tuples(st.lists(TEXT, max_size=12), st.booleans()), max_size=8), st.data())
def test_strings_come_back_and_go(batches: list[tuple[list[str | None], bool]], data: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "_LASTING", 2048)
        patch.setattr(arena, "_LARGE", 8192)
        texts, live = Texts(), []
        for strings, again in batches:
            array = pa.array(["before", *strings], pa.string()).slice(1)
            words = texts.keep(pa.chunked_array([array.slice(0, 1), array.slice(1)]) if again else array)
            assert texts.keep(pa.array([], pa.string())).tolist() == []
            live += list(zip(words.tolist(), strings, strict=True))
            gone = data.draw(st.integers(0, len(live)))
            texts.release(np.array([word for word, _ in live[:gone]], np.int64))
            live = live[gone:]
            texts = Texts.from_arrays(texts.to_arrays()) if again else texts
            words = np.array([word for word, _ in live], np.int64)
            valid = np.array([text is not None for _, text in live], np.bool_)
            assert texts.decode(words, valid).to_pylist() == [text for _, text in live]
            (codes,) = texts.comparable(words)
            expected = [text or "" for _, text in live]
            assert [expected.index(text) for text in expected] == [codes.tolist().index(c) for c in codes]
        assert texts.nbytes >= texts.used
        texts.release(np.array([word for word, _ in live], np.int64))
        assert texts.used == 0


def test_blocks_are_used_again() -> None:
    texts = Texts()
    strings = pa.array([f"a string of some length {i:04}" for i in range(1000)])
    words = texts.keep(strings)
    held = texts.nbytes
    for _ in range(20):
        texts.release(words)
        words = texts.keep(strings)
    assert texts.nbytes == held
    assert texts.decode(words).equals(strings)


@settings(max_examples=max(60, settings().max_examples))
@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2), st.booleans()), min_size=1, max_size=8))
def test_equal_strings_of_a_key_get_one_word(rows: list[tuple[str | None, str | None, int, bool]]) -> None:
    texts = Texts()
    stored = texts.keep(pa.array([row[0] for row in rows], pa.string()))
    words = texts.keep(pa.array([row[1] for row in rows], pa.string()))
    keys = [row[2] for row in rows]
    first = np.array([keys.index(key) for key in keys])
    slots = np.array([i if row[3] else -1 for i, row in enumerate(rows)])
    before = texts.decode(words)
    texts.unify(words, stored, slots, first)
    assert texts.decode(words).equals(before)
    for i, row in enumerate(rows):
        assert (slots[i] >= 0 and words[i] == stored[i]) or slots[i] < 0 or (row[0] or "") != (row[1] or "")


TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, a VARCHAR, b VARCHAR NOT NULL)"
ROWS = [(i, None if i % 5 == 0 else f"the string {i % 7}", f"b{i % 3} and more") for i in range(200)]


def counts(db: everfresh.Database, view: str) -> dict[Any, int]:
    return {row["g"]: row["n"] for row in db.view(view).to_arrow().to_pylist()}


def of(rows: list[Any], at: int) -> dict[Any, int]:
    values = [row[at] for row in rows]
    return {value: values.count(value) for value in values}


def test_a_view_made_later_reads_what_was_only_kept(tmp_path: Path) -> None:
    """Through batches, a refused one, a snapshot, the log and another view."""
    options = everfresh.Options(snapshot_epochs=4)
    rows = list(ROWS)
    with everfresh.connect(tmp_path / "db", engine="local", options=options) as db:
        db.sql(TABLE)
        db.apply(t=rows)
        strings = db.statistics()["strings"]["distinct"]
        assert strings == 0
        with pytest.raises(everfresh.EverfreshError, match="stored one"):
            db.apply(t=everfresh.Delta(deletes=[(3, "the string 4", "b0 and more")]))
        db.apply(t=everfresh.Delta(deletes=[rows[3]], updates=[{"k": 4, "a": "another string"}]))
        rows[4] = (4, "another string", rows[4][2])
        del rows[3]
        db.sql("CREATE MATERIALIZED VIEW va AS SELECT a AS g, COUNT(*) AS n FROM t GROUP BY a")
        assert db.statistics()["strings"]["distinct"] == len({row[1] for row in rows} - {None})
        db.apply(t=[(1000, "the string 1", "only kept, and long")])
        rows.append((1000, "the string 1", "only kept, and long"))
        assert counts(db, "va") == of(rows, 1)
    for turn in range(3):
        with everfresh.connect(tmp_path / "db", engine="local", options=options) as db:
            assert sorted(db.table("t").to_arrow().to_pylist(), key=str) == sorted(
                [dict(zip("kab", row, strict=True)) for row in rows], key=str
            )
            assert counts(db, "va") == of(rows, 1)
            new = (2000 + turn, "the string 2", f"turn {turn} of the test")
            db.apply(t=everfresh.Delta(inserts=[new], deletes=[rows[0]]))
            rows = [*rows[1:], new]
            if turn == 1:
                db.sql("CREATE MATERIALIZED VIEW vb AS SELECT b AS g, COUNT(*) AS n FROM t GROUP BY b")
                db.sql("ALTER TABLE t ADD COLUMN c VARCHAR DEFAULT 'a default of its own'")
                db.sql("ALTER TABLE t DROP COLUMN c")
            if turn:
                assert counts(db, "vb") == of(rows, 2)
                assert db.view("vb").verify().num_rows == 0
            assert db.view("va").verify().num_rows == 0


def test_altering_keeps_the_strings() -> None:
    with everfresh.connect(engine="local") as db:
        db.sql(TABLE)
        db.apply(t=ROWS)
        db.sql("ALTER TABLE t ADD COLUMN c VARCHAR DEFAULT 'a default of its own'")
        assert db.statistics()["strings"]["distinct"] == 0
        found = db.table("t").to_arrow().to_pylist()
        assert [(r["k"], r["a"], r["b"]) for r in sorted(found, key=lambda r: r["k"])] == ROWS
        assert {r["c"] for r in found} == {"a default of its own"}
