"""The catalog against a tiny model: random sequences of DDL, each verdict and each state compared, and the
DDL replayed.

Mutations that the random test catches: a replaced view that keeps its old text in `ddl`; CASCADE that
forgets a view; ALTER that renames a view's columns or is lost on replay; names compared with case; a
refused statement that changes something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from compiler_support import catalog_of, execute, replayed
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.compiler import Catalog
from everfresh.errors import Code, EverfreshError

# -- the model -----------------------------------------------------------------------------------------

VIEWS = {  # query over {t}: (its columns, given those of the table; the columns it reads)
    "SELECT * FROM {t}": (lambda cs: list(cs), lambda cs: set(cs)),
    "SELECT a FROM {t}": (lambda _: ["a"], lambda _: {"a"}),
    "SELECT DISTINCT q.b AS z FROM {t} AS q WHERE q.a > 1": (lambda _: ["z"], lambda _: {"a", "b"}),
    "SELECT a + 1 AS b, count(*) AS n FROM {t} GROUP BY a + 1 HAVING count(*) > 1": (
        lambda _: ["b", "n"],
        lambda _: {"a"},
    ),
    "SELECT sum(c) AS a FROM {t}": (lambda _: ["a"], lambda _: {"c"}),
}


class Refused(Exception):
    pass


@dataclass
class Model:
    """`tables[name]` is its columns, `views[name]` is (table, query, columns, columns read)."""

    tables: dict[str, list[str]] = field(default_factory=dict)
    views: dict[str, tuple[str, str, list[str], set[str]]] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        return next((n for n in (*self.tables, *self.views) if n.lower() == name.lower()), None)

    def readers(self, table: str) -> list[str]:
        return [name for name, view in self.views.items() if view[0] == table]

    def create_table(self, name: str, mode: str, columns: list[str]) -> None:
        found = self.find(name)
        if found is not None and mode == "IF NOT EXISTS":
            return
        if found is not None and (mode != "OR REPLACE" or found in self.views):
            raise Refused(Code.EXISTS)
        if found is not None and self.readers(found):
            raise Refused(Code.DEPENDENCY)
        self.tables.pop(found or name, None)
        self.tables[name] = list(columns)

    def create_view(self, name: str, mode: str, query: str, over: str) -> None:
        source = self.find(over)
        if source is None:
            raise Refused(Code.NOT_FOUND)
        columns = self.tables[source] if source in self.tables else self.views[source][2]
        shown, read = VIEWS[query]
        if not read(columns) <= set(columns):
            raise Refused(Code.NOT_FOUND)
        found = self.find(name)
        if found is not None and mode == "IF NOT EXISTS":
            return
        if found is not None and (mode != "OR REPLACE" or found in self.tables):
            raise Refused(Code.EXISTS)
        if found is not None and (self.readers(found) or source == found):
            raise Refused(Code.DEPENDENCY)
        self.views.pop(found or name, None)
        self.views[name] = (source, query, shown(columns), read(columns))

    def drop(self, kind: str, name: str, if_exists: bool, cascade: bool) -> None:
        found = self.find(name)
        if found is None and if_exists:
            return
        if found is None or found not in (self.tables if kind == "TABLE" else self.views):
            raise Refused(Code.NOT_FOUND)
        if self.readers(found) and not cascade:
            raise Refused(Code.DEPENDENCY)
        gone = [found]
        while gone:
            gone += self.readers(gone[0])
            self.views.pop(gone.pop(0), None)
        self.tables.pop(found, None)
        self.views.pop(found, None)

    def alter(self, action: str, name: str, column: str, exists: bool) -> None:
        found = self.find(name)
        if found is None:
            raise Refused(Code.NOT_FOUND)
        if found in self.views:
            raise Refused(Code.UNSUPPORTED)
        columns = self.tables[found]
        there = next((c for c in columns if c.lower() == column.lower()), None)
        if action == "ADD":
            if there is not None:
                if exists:
                    return
                raise Refused(Code.EXISTS)
            columns.append(column)
            return
        if there is None:
            if exists:
                return
            raise Refused(Code.NOT_FOUND)
        if there == "a" or any(there in self.views[v][3] for v in self.readers(found)):  # a is the key
            raise Refused(Code.DEPENDENCY)
        columns.remove(there)

    def rename(self, kind: str, name: str, to: str) -> None:
        found = self.find(name)
        if found is None or found not in (self.tables if kind == "TABLE" else self.views):
            raise Refused(Code.NOT_FOUND)
        taken = self.find(to)
        if taken is not None and taken != found:
            raise Refused(Code.EXISTS)
        if self.readers(found):
            raise Refused(Code.DEPENDENCY)
        for known in (self.tables, self.views):
            moved = {to if n == found else n: value for n, value in known.items()}  # type: ignore[attr-defined]
            known.clear()  # type: ignore[attr-defined]
            known.update(moved)  # type: ignore[attr-defined]

    def rename_column(self, name: str, column: str, to: str) -> None:
        found = self.find(name)
        if found is None or found in self.views:
            raise Refused(Code.NOT_FOUND)
        columns = self.tables[found]
        there = next((c for c in columns if c.lower() == column.lower()), None)
        if there is None:
            raise Refused(Code.NOT_FOUND)
        if any(c.lower() == to.lower() and c != there for c in columns):
            raise Refused(Code.EXISTS)
        if there != to and any(there in self.views[v][3] for v in self.readers(found)):
            raise Refused(Code.DEPENDENCY)
        columns[columns.index(there)] = to


NAMES = st.sampled_from(["t", "T", "u", "v", "V", "w w"])
MODES = st.sampled_from(["", "", "OR REPLACE", "IF NOT EXISTS"])
OPS = st.one_of(
    st.tuples(st.just("table"), NAMES, MODES, st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]])),
    st.tuples(st.just("view"), NAMES, MODES, st.sampled_from(list(VIEWS)), NAMES),
    st.tuples(st.just("view"), NAMES, MODES, st.sampled_from(list(VIEWS)), NAMES),
    st.tuples(st.just("drop"), st.sampled_from(["TABLE", "VIEW"]), NAMES, st.booleans(), st.booleans()),
    st.tuples(
        st.just("alter"),
        st.sampled_from(["ADD", "DROP"]),
        NAMES,
        st.sampled_from(["a", "b", "c", "C", "d"]),
        st.booleans(),
    ),
    st.tuples(st.just("rename"), st.sampled_from(["TABLE", "VIEW"]), NAMES, NAMES),
    st.tuples(
        st.just("rename column"),
        NAMES,
        st.sampled_from(["a", "b", "c", "C"]),
        st.sampled_from(["b", "B", "d", "e"]),
    ),
)


def quoted(name: str) -> str:
    return f'"{name}"'


def text_of(op: tuple[Any, ...]) -> str:
    match op:
        case ("table", name, mode, columns):
            body = ", ".join(f"{c} INTEGER{' PRIMARY KEY' if c == 'a' else ''}" for c in columns)
            replace, exists = (
                ("OR REPLACE ", "") if mode == "OR REPLACE" else ("", f"{mode} " if mode else "")
            )
            return f"CREATE {replace}TABLE {exists}{quoted(name)} ({body})"
        case ("view", name, mode, query, over):
            replace, exists = (
                ("OR REPLACE ", "") if mode == "OR REPLACE" else ("", f"{mode} " if mode else "")
            )
            return (
                f"CREATE {replace}MATERIALIZED VIEW {exists}{quoted(name)} AS {query.format(t=quoted(over))}"
            )
        case ("drop", kind, name, if_exists, cascade):
            what = "TABLE" if kind == "TABLE" else "MATERIALIZED VIEW"
            end = " CASCADE" if cascade else ""
            return f"DROP {what} {'IF EXISTS ' if if_exists else ''}{quoted(name)}{end}"
        case ("alter", action, name, column, exists):
            check = {"ADD": "IF NOT EXISTS ", "DROP": "IF EXISTS "}[action] if exists else ""
            rest = " INTEGER DEFAULT 1" if action == "ADD" else ""
            return f"ALTER TABLE {quoted(name)} {action} COLUMN {check}{column}{rest}"
        case ("rename", kind, name, to):
            return f"ALTER {kind} {quoted(name)} RENAME TO {quoted(to)}"
        case ("rename column", name, column, to):
            return f"Alter Table {quoted(name)} Rename {column} TO {quoted(to)}"
    raise AssertionError


def step(model: Model, op: tuple[Any, ...]) -> None:
    kind, *rest = op
    {
        "table": model.create_table,
        "view": model.create_view,
        "drop": model.drop,
        "alter": model.alter,
        "rename": model.rename,
        "rename column": model.rename_column,
    }[kind](*rest)


@settings(max_examples=max(120, settings().max_examples))
@given(st.booleans(), st.lists(OPS, max_size=14))
def test_against_the_model(views: bool, ops: list[tuple[Any, ...]]) -> None:
    catalog, model = (
        catalog_of("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c INTEGER)"),
        Model({"t": ["a", "b", "c"]}),
    )
    if views:  # more than one, or CASCADE has little to do
        ops = [("view", name, "", "SELECT a FROM {t}", "t") for name in ("v", "w w")] + ops
    for op in ops:
        before = catalog
        expected = code = None
        try:
            step(model, op)
        except Refused as refused:
            expected = refused.args[0]
        try:
            catalog, effect = execute(catalog, text_of(op))
            assert effect.nothing == (catalog is before)
        except EverfreshError as error:
            code = error.code
        assert code == expected, text_of(op)
        assert {n: list(s.names) for n, s in catalog.tables.items()} == model.tables
        assert {n: [c.name for c in v.columns] for n, v in catalog.views.items()} == {
            n: v[2] for n, v in model.views.items()
        }
        for name, (table, *_) in model.views.items():
            assert catalog.views[name].compiled.bases == (table,)
            assert catalog.views[name] in catalog.views_on(table)
    again = replayed(catalog)
    assert again.tables == catalog.tables
    assert again.views == catalog.views  # texts, plans and compiled programs
    assert again.ddl == catalog.ddl


# -- single facts --------------------------------------------------------------------------------------

T = "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)"


def test_select_star_keeps_its_columns_when_the_table_grows() -> None:
    catalog = catalog_of(
        T,
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
        "ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT 1.5",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t",
    )
    for c in (catalog, replayed(catalog)):
        assert [col.name for col in c.views["v"].columns] == ["a", "b"]
        assert [col.name for col in c.views["w"].columns] == ["a", "b", "c"]
        # the relation atom has all columns of the table, or rows would not match it
        assert str(c.views["v"].compiled.map.definition) == "Sum_[a, b](t(a, b, c))"


def test_a_new_column_may_have_the_name_of_a_column_of_the_view() -> None:
    before = catalog_of(T, "CREATE MATERIALIZED VIEW v AS SELECT a + 1 AS c FROM t")
    after, _ = execute(before, "ALTER TABLE t ADD COLUMN c DOUBLE")
    assert after.views["v"].columns == before.views["v"].columns
    kept = [(v.type, v.nullable) for v in before.views["v"].compiled.map.keys]
    assert [
        (v.type, v.nullable) for v in after.views["v"].compiled.map.keys
    ] == kept  # the pool is taken over as it is
    assert replayed(after) == after


def test_a_column_that_only_shares_its_name_with_something_inside_a_view_can_be_dropped() -> None:
    catalog = catalog_of(
        "CREATE TABLE t (a INTEGER, b INTEGER, count_1 INTEGER, n INTEGER)",
        "CREATE MATERIALIZED VIEW v AS"
        " SELECT a + 1 AS b, count(*) AS n FROM t GROUP BY 1 HAVING count(*) > 1",
    )
    for column in ("b", "count_1", "n"):
        catalog, _ = execute(catalog, f"ALTER TABLE t DROP COLUMN {column}")
    assert replayed(catalog) == catalog


def test_a_table_that_is_replaced_starts_its_ddl_anew() -> None:
    catalog = catalog_of(T, "ALTER TABLE t ADD COLUMN c INTEGER", "CREATE OR REPLACE TABLE T (x INTEGER)")
    assert [name for name, _ in catalog.ddl] == ["T"]
    assert replayed(catalog) == catalog


def test_effects() -> None:
    catalog = catalog_of(T, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    _, effect = execute(catalog, "CREATE OR REPLACE MATERIALIZED VIEW V AS SELECT b FROM t")
    assert (effect.drop_views, effect.create_view and effect.create_view.name) == (("v",), "V")
    _, effect = execute(catalog, "DROP TABLE t CASCADE")
    assert (effect.drop_tables, effect.drop_views) == (("t",), ("v",))
    _, effect = execute(catalog, "ALTER TABLE T ADD COLUMN c DECIMAL(9,2) DEFAULT 1.25")
    assert effect.alter_table is not None
    old, new, default = effect.alter_table
    assert (old.names, new.names, default and (default.value, str(default.type))) == (
        ("a", "b"),
        ("a", "b", "c"),
        (125, "DECIMAL(9,2)"),
    )
    _, effect = execute(catalog, "DROP TABLE IF EXISTS nothing")
    assert effect.nothing


def test_a_catalog_does_not_change() -> None:
    catalog = catalog_of(T)
    execute(catalog, "CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    execute(catalog, "DROP TABLE t")
    assert (list(catalog.tables), list(catalog.views)) == (["t"], [])


def test_look_up() -> None:
    catalog = catalog_of(T, 'CREATE MATERIALIZED VIEW "My View" AS SELECT a FROM t')
    assert catalog.resolve("MY VIEW") == "My View"
    assert catalog.relation("my view") == ("view", catalog.views["My View"].columns)
    assert catalog.relation("T") == ("table", catalog.tables["t"].columns)
    assert catalog.relation("x") is None
    assert catalog.expect_table("T").name == "t"
    assert catalog.names() == ["t", "My View"]
    for call, message in (
        (lambda: catalog.expect_table("my view"), "is a view"),
        (lambda: catalog.expect_table("x"), "no table"),
        (lambda: catalog.expect_view("t"), "is a table"),
        (lambda: catalog.expect_view("x"), "no view"),
    ):
        with pytest.raises(EverfreshError, match=message) as caught:
            call()
        assert caught.value.code == Code.NOT_FOUND


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("CREATE TABLE x (a INTEGER PRIMARY KEY) WITH (retain = false)", Code.UNSUPPORTED, "PRIMARY KEY"),
        ("ALTER TABLE t DROP COLUMN a", Code.DEPENDENCY, "primary key"),
        ("ALTER TABLE one DROP COLUMN a", Code.UNSUPPORTED, "only column"),
        ("ALTER TABLE t DROP COLUMN b", Code.DEPENDENCY, "read by v"),
        ("DROP TABLE t", Code.DEPENDENCY, "read by v"),
        ("CREATE OR REPLACE TABLE t (a INTEGER)", Code.DEPENDENCY, "read by v"),
        ("CREATE TABLE v (a INTEGER)", Code.EXISTS, "already a view"),
        ("CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT a FROM one", Code.EXISTS, "already a table"),
    ],
)
def test_refusals(text: str, code: str, message: str) -> None:
    catalog = catalog_of(T, "CREATE TABLE one (a INTEGER)", "CREATE MATERIALIZED VIEW v AS SELECT b FROM t")
    with pytest.raises(EverfreshError, match=message) as caught:
        execute(catalog, text)
    assert caught.value.code == code


def test_only_ddl_is_executed() -> None:
    with pytest.raises(TypeError, match="not a DDL statement"):
        Catalog().execute(object())
