"""INSERT of plain values is bound without a parser; it must mean what the parser says it means."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from sql_support import DictCatalog

import everfresh as ef
from everfresh import sql as s
from everfresh.errors import EverfreshError
from everfresh.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, INTEGER, VARCHAR, Column, TableSchema

WORDS = [
    "a",
    "B",
    "c_1",
    "values",
    "select",
    "check",
    "like",
    "date",
    "e",
    "x",
    "key",
    "local",
    "cast",
    "unique",
]
NAMES = st.sampled_from(
    WORDS + [f'"{word}"' for word in WORDS] + ['"a b"', '"#"', '"sélect"', '""', "é", "a$"]
)
SHAPES = [BIGINT, VARCHAR, INTEGER, DECIMAL(9, 2), DOUBLE, BOOLEAN, DATE]
LARGE = "170141183460469231731687303715884105728"
PLAIN = ["0", "1", "-1", "007", "12.50", "-0.0", "NULL", "null", "True", "false", "'x'", "''", "'2020-02-29'"]
OTHER = [
    *(
        "-",
        ".5",
        "5.",
        "1e3",
        "1_0",
        "2147483648",
        "'it''s'",
        "'2020-02-30'",
        "'a;b'",
        "'--'",
        "'\\n'",
        "'{{'",
    ),
    *("'é'", "E'x'", "x", "1+1", "(1)", "+1", "-(1)", "$1", "?", "DATE'2020-01-01'", "1::INT", "DEFAULT"),
]
VALUES = st.sampled_from([*PLAIN * 4, *OTHER, LARGE, f"-{LARGE}", "9" * 38])
BLANK = st.sampled_from(["", "", "", " ", "\n", " \t", "--c\n", "/*c*/", "\xa0"])


@st.composite
def statements(draw: Any) -> str:
    """INSERT in all its plain forms, and in many that are nearly plain."""
    names = draw(st.lists(NAMES, max_size=3))
    width = draw(st.sampled_from([len(names) or 3, len(names) or 3, 1, 2]))
    row = st.lists(VALUES, min_size=width, max_size=width)
    blank = draw(BLANK)
    rows = [f"({f'{blank},'.join(values)}{blank})" for values in draw(st.lists(row, min_size=1, max_size=3))]
    listed = f" ({f'{blank}, '.join(names)})" if names else ""
    verb = draw(
        st.sampled_from(["INSERT INTO", "insert into", "INSERT  OR REPLACE INTO", "EXPLAIN INSERT INTO"])
    )
    end = draw(st.sampled_from(["", ";", ";;", " ; ", "; SELECT 1", ",", " ON CONFLICT DO NOTHING", "\n"]))
    target = draw(st.sampled_from(["t", "T", '"t"', "v", "nothing", "main.t"]))
    return f"{blank}{verb} {target}{listed}{blank} VALUES{blank}{f',{blank}'.join(rows)}{end}"


def catalog(names: list[str]) -> DictCatalog:
    columns = tuple(Column(name, SHAPES[i % len(SHAPES)]) for i, name in enumerate(names))
    return DictCatalog({"t": TableSchema("t", columns)}, {"v": columns})


def the_slow_way(text: str, known: DictCatalog) -> Any:
    try:
        (found,) = s.parse_and_bind(text, known)
    except (EverfreshError, ValueError) as error:
        return error
    return found


TABLES = [catalog([*WORDS, "a b", "#", "sélect", "é", "a$"][i:]) for i in range(4)] + [
    catalog(["a", "B", "c_1"])
]


@given(statements(), st.sampled_from(TABLES))
def test_what_is_read_at_once_is_what_the_parser_reads(text: str, known: DictCatalog) -> None:
    plain = s.read_plain(text, "duckdb")
    found = None if plain is None else s.bind_plain(plain, known)
    if found is not None:
        assert found == the_slow_way(text, known)


@given(st.data())
def test_a_letter_more_or_less(data: Any) -> None:
    text = "INSERT INTO t (a, \"B\") VALUES (-1.5, 'x'), (NULL, '');"
    at = data.draw(st.integers(0, len(text)))
    more = data.draw(st.sampled_from([*"'\";,()- \n.\\0e_$/*", "--", "''"]))
    text = text[:at] + more + text[at + data.draw(st.integers(0, 2)) :]
    known = TABLES[-1]
    plain = s.read_plain(text, "duckdb")
    found = None if plain is None else s.bind_plain(plain, known)
    if found is not None:
        assert found == the_slow_way(text, known)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1, 'x', 2)",
        "insert into T (c_1, a) values (-1, 2.5), (NULL, 3) ;\n",
        "INSERT INTO t (\"B\") VALUES ('2020-02-29'),('a;b'),\n('')",
        "INSERT INTO t (a) VALUES (99999999999)",
    ],
)
def test_these_are_plain(text: str) -> None:
    plain = s.read_plain(text, "duckdb")
    assert plain is not None
    found = s.bind_plain(plain, TABLES[-1])
    assert found is not None
    assert found == the_slow_way(text, TABLES[-1])


def test_errors_are_those_of_the_parser() -> None:
    """What is refused is told as ever: with its place."""
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE t (a INTEGER NOT NULL, d DATE)")
        for text, place in (
            ("INSERT INTO t (a,\n b) VALUES (1, 2)", "line 2, column 2"),
            ("INSERT INTO t VALUES (1, '2020-02-30')", "line 1, column 26"),
            ("INSERT INTO t VALUES (1,\n'2020-02-28', 3)", "line 1, column 23"),
            ("INSERT INTO t (d) VALUES ('2020-02-28')", "INSERT INTO t"),
            ("INSERT INTO t VALUES (1, NULL), (NULL, NULL)", "INSERT INTO t, row 1, column a"),
            ("INSERT INTO t VALUES (2147483648, NULL)", "line 1, column 23"),
        ):
            with pytest.raises(EverfreshError) as found:
                db.sql(text)
            assert found.value.place == place, text
        assert db.epoch == 1
        db.sql("INSERT INTO t (d, a) VALUES ('2020-02-28', 1), (NULL, 2)")
        assert [str(row) for row in db.sql("SELECT a, d FROM t ORDER BY a").fetchall()] == [
            "(1, datetime.date(2020, 2, 28))",
            "(2, None)",
        ]
