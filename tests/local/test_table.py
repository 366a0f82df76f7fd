"""A table against a plain model: batches of random parts, refused or not, applied, committed or rolled
back.

Mutations that the model catches: parts judged one by one instead of by their net effect; a delete that
matches the key only; `+x -x` refused; an update that forgets the columns it does not set; an upsert that
reads the new row where it should read the old; a refused batch that leaves something behind; a rollback
that loses or doubles a row; a string that is only kept and is released twice, or never.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Var, Vector, evaluate
from everfresh.expr import parse as parse_expr
from everfresh.expr.build import MAKERS
from everfresh.local.store.strings import Interner
from everfresh.local.store.table import Net, Table, unread
from everfresh.program import OnConflict, Part
from everfresh.types import (
    BIGINT,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NAN,
    VARCHAR,
    Column,
    TableSchema,
    canonical_float,
)

Row = tuple[Any, ...]
COLUMNS = (
    Column("k", INTEGER, False),
    Column("s", VARCHAR),
    Column("x", BIGINT),
    Column("d", DOUBLE),
    Column("n", BIGINT, False),
)
KEYED = TableSchema("t", COLUMNS, ("k",))
BAG = TableSchema("b", COLUMNS)
TWO = TableSchema(
    "two", (Column("k", VARCHAR, False), *COLUMNS[1:4], Column("n", HUGEINT, False)), ("n", "k")
)
DOMAIN: dict[str, list[Any]] = {
    "k": [1, 2, 3, 4, 5], "s": [None, "", "a", "a longer string", "a longer strinG"],
    "x": [None, 0, 1], "d": [None, 0.5, NAN], "n": [0, 1],
}  # fmt: skip


def domain(schema: TableSchema, name: str) -> list[Any]:
    if schema is TWO and name in schema.key:
        return {"k": ["", "a"], "n": [0, 1 << 70]}[name]
    return DOMAIN[name]


def conflict(schema: TableSchema, assign: dict[str, str], where: str | None = None) -> OnConflict:
    env = {p + c.name: Var(p + c.name, c.type, c.nullable) for p in ("", "excluded.") for c in schema.columns}
    made = tuple(
        (name, MAKERS.cast(parse_expr(e, env, MAKERS), schema.column(name).type))
        for name, e in assign.items()
    )
    return OnConflict(made, parse_expr(where, env, MAKERS) if where else None)


CONFLICTS: list[tuple[dict[str, str], str | None]] = [
    ({}, None),
    ({"s": "excluded.s", "x": "excluded.x", "d": "excluded.d"}, None),
    ({"x": "x + excluded.x", "s": "excluded.s || s"}, None),
    ({"x": "excluded.x", "d": "d + 1"}, "x IS NULL OR excluded.x > 0"),
    ({"n": "excluded.x"}, None),  # NULL in a NOT NULL column
    ({"d": "excluded.d"}, "NULL::BOOLEAN"),
]


class Refused(Exception):
    pass


class Model:
    """The rows as a multiset, and resolution by definition."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.rows: Counter[Row] = Counter()
        self.at = [schema.names.index(n) for n in schema.names if n in schema.key]

    def key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.at)

    def stored(self) -> dict[Row, Row]:
        return {self.key(row): row for row in self.rows}

    def resolve(self, parts: list[tuple[str, list[Any], Any]]) -> Counter[Row]:
        net: Counter[Row] = Counter()
        for op, rows, extra in parts:
            for row, weight in getattr(self, op)(rows, extra):
                net[row] += weight
        net = Counter({row: weight for row, weight in net.items() if weight})
        self.check(net)
        return net

    def insert(self, rows: list[Row], _extra: Any) -> list[tuple[Row, int]]:
        return [(row, 1) for row in rows]

    def delete(self, rows: list[Row], _extra: Any) -> list[tuple[Row, int]]:
        return [(row, -1) for row in rows]

    def found(self, keys: list[Row]) -> list[Row]:
        stored = self.stored()
        if any(key not in stored for key in keys):
            raise Refused(Code.MISSING_ROW)
        if len(set(keys)) < len(keys):
            raise Refused(Code.DUPLICATE_KEY)
        return [stored[key] for key in keys]

    def delete_key(self, rows: list[Row], _extra: Any) -> list[tuple[Row, int]]:
        return [(row, -1) for row in self.found([self.key(row) for row in rows])]

    def update(self, rows: list[Row], names: list[str]) -> list[tuple[Row, int]]:
        out = []
        for old, new in zip(self.found([self.key(row) for row in rows]), rows, strict=True):
            changed = tuple(new[i] if n in names else old[i] for i, n in enumerate(self.schema.names))
            out += [(old, -1), (changed, 1)]
        return out

    def upsert(self, rows: list[Row], on: OnConflict) -> list[tuple[Row, int]]:
        keys = [self.key(row) for row in rows]
        if len(set(keys)) < len(keys):
            raise Refused(Code.DUPLICATE_KEY)
        stored, out = self.stored(), []
        for key, row in zip(keys, rows, strict=True):
            if key not in stored:
                out.append((row, 1))
                continue
            old = stored[key]
            env = dict(zip(self.schema.names, old, strict=True))
            env |= {f"excluded.{n}": v for n, v in zip(self.schema.names, row, strict=True)}
            if on.ignore or (on.where is not None and evaluate(on.where, env) is not True):
                continue
            assigned = {n: evaluate(e, env) for n, e in on.assignments}
            if any(v is None and not self.schema.column(n).nullable for n, v in assigned.items()):
                raise Refused(Code.NULL)
            changed = tuple(assigned.get(n, v) for n, v in zip(self.schema.names, old, strict=True))
            out += [(old, -1), (changed, 1)]
        return out

    def check(self, net: Counter[Row]) -> None:
        if not self.schema.key:
            if any(self.rows[row] + weight < 0 for row, weight in net.items()):
                raise Refused(Code.MISSING_ROW)
            return
        if any(weight < 0 and self.rows[row] + weight < 0 for row, weight in net.items()):
            raise Refused(Code.MISSING_ROW)
        after = Counter(self.rows)
        after.update(net)
        keys = Counter(self.key(row) for row in after.elements())
        if any(count > 1 for count in keys.values()):
            raise Refused(Code.DUPLICATE_KEY)

    def add(self, net: Counter[Row]) -> None:
        self.rows.update(net)
        self.rows = Counter({row: n for row, n in self.rows.items() if n})


# -- batches -------------------------------------------------------------------------------------------


def rows_of(schema: TableSchema) -> st.SearchStrategy[list[Any]]:
    """Rows, or numbers that stand for rows of the table as it is."""
    row = st.tuples(*(st.sampled_from(domain(schema, c.name)) for c in schema.columns))
    return st.lists(st.one_of(row, st.integers(0, 5)), max_size=4)


def parts_of(schema: TableSchema) -> st.SearchStrategy[list[Any]]:
    rows = rows_of(schema)
    kinds = [st.tuples(st.just("insert"), rows, st.none()), st.tuples(st.just("delete"), rows, st.none())]
    if schema.key:
        others = st.lists(
            st.sampled_from([n for n in schema.names if n not in schema.key]), unique=True, min_size=1
        )
        on = st.sampled_from([c for c in CONFLICTS if not set(c[0]) & set(schema.key)])
        kinds += [
            st.tuples(st.just("delete_key"), rows, st.none()),
            st.tuples(st.just("update"), rows, others),
            st.tuples(st.just("upsert"), rows, on),
            st.tuples(st.just("upsert"), rows, on),
        ]
    return st.lists(st.one_of(kinds), max_size=3)


def arrow(schema: TableSchema, rows: list[Row], names: list[str] | None = None) -> pa.Table:
    chosen = [(i, c) for i, c in enumerate(schema.columns) if names is None or c.name in names]
    return pa.table(
        {c.name: Vector.from_pylist([row[i] for row in rows], c.type).to_arrow() for i, c in chosen}
    )


def part_of(schema: TableSchema, op: str, rows: list[Row], extra: Any) -> Part:
    key = list(schema.key)
    names = (
        {"delete_key": key, "update": [*key, *(extra or [])]}.get(op)
        if isinstance(extra, list) or op == "delete_key"
        else None
    )
    return Part(
        schema.name, op, arrow(schema, rows, names), f"{op} of a test", extra if op == "upsert" else None
    )  # type: ignore[arg-type]


def canon(value: Any) -> Any:
    return canonical_float(value) if isinstance(value, float) else value


def contents(table: Table) -> Counter[Row]:
    slots = table.pool.live()
    return counted(table, table.pool.keys_at(slots), table.pool.gather(slots).n)


def counted(table: Table, words: np.ndarray, weights: np.ndarray) -> Counter[Row]:
    columns = [[canon(v) for v in vector.to_pylist()] for vector in table.codec.vectors(words).values()]
    found: Counter[Row] = Counter()
    for row, weight in zip(zip(*columns, strict=True), weights.tolist(), strict=True):
        found[row] += weight
    return found


def blocks(table: Table) -> int:
    """The bytes that the strings that are only kept must take."""
    sizes = [
        len((text or "").encode())
        for name in table.codec.kept
        for text in table.rows()[0].column(name).to_pylist()
    ]
    return sum(-(-size // 8) * 8 for size in sizes if size > 7)


def run_batches(schema: TableSchema, batches: list[tuple[list[Any], bool]]) -> None:
    run(Table(schema, Interner()), batches)
    run(Table(schema, Interner(), kept=unread(schema)), batches)


def run(table: Table, batches: list[tuple[list[Any], bool]]) -> None:
    schema, model = table.schema, Model(table.schema)
    for drawn, keep in batches:
        there = sorted(model.rows.elements(), key=repr)
        parts = []
        for op, rows, extra in drawn:
            real = [
                there[r % len(there)] if isinstance(r, int) else r
                for r in rows
                if not isinstance(r, int) or there
            ]
            parts.append((op, real, conflict(schema, *extra) if op == "upsert" else extra))
        expected = refused = net = None
        verdict = None
        try:
            expected = model.resolve(parts)
        except Refused as error:
            verdict = error.args[0]
        try:
            net = table.resolve([part_of(schema, *part) for part in parts])
        except EverfreshError as error:
            refused = error
        assert verdict == (refused and refused.code), refused
        if refused is not None:
            assert refused.code == Code.NULL or "of a test, row" in str(refused)
        else:
            assert expected is not None
            assert net is not None
            assert (net.weights != 0).all()
            assert counted(table, net.words, net.weights) == expected
            undo = table.apply(net)
            if keep:
                table.commit(undo)
                model.add(expected)
            else:
                table.rollback(undo)
                table.discard(net)
        assert contents(table) == model.rows
        assert table.codec.texts.used == blocks(table)
        assert len(table) == model.rows.total()


@settings(max_examples=max(120, settings().max_examples))
@given(st.lists(st.tuples(parts_of(KEYED), st.booleans()), max_size=6))
def test_a_table_with_a_key(batches: list[tuple[list[Any], bool]]) -> None:
    run_batches(KEYED, [([("insert", [(k, "a", k - 1, 0.5, 0) for k in (1, 2)], None)], True), *batches])


@settings(max_examples=max(50, settings().max_examples))
@given(st.lists(st.tuples(parts_of(TWO), st.booleans()), max_size=5))
def test_a_table_with_a_key_of_two_columns(batches: list[tuple[list[Any], bool]]) -> None:
    run_batches(TWO, [([("insert", [("a", None, 1, NAN, 1 << 70)], None)], True), *batches])


@settings(max_examples=max(80, settings().max_examples))
@given(st.lists(st.tuples(parts_of(BAG), st.booleans()), max_size=6))
def test_a_bag(batches: list[tuple[list[Any], bool]]) -> None:
    run_batches(BAG, batches)


# -- single facts --------------------------------------------------------------------------------------

SMALL = TableSchema("t", (Column("k", INTEGER, False), Column("s", VARCHAR)), ("k",))


def small(*rows: Row, schema: TableSchema = SMALL) -> Table:
    table = Table(schema, Interner())
    table.commit(table.apply(table.resolve([part_of(schema, "insert", list(rows), None)])))
    return table


def part(
    op: str, *rows: Row, schema: TableSchema = SMALL, numbers: Any = None, names: list[str] | None = None
) -> Part:
    return Part("t", op, arrow(schema, list(rows), names), "file.csv", numbers=numbers)  # type: ignore[arg-type]


def test_a_batch_is_judged_by_its_net_effect() -> None:
    table = small((1, "a"))
    for parts in (
        [part("insert", (9, "x")), part("delete", (9, "x"))],   # +x -x, x absent
        [part("delete", (1, "a")), part("insert", (1, "a"))],   # -x +x, x present
        [part("insert", (1, "a")), part("delete", (1, "a"))],   # +x -x, x present
    ):  # fmt: skip
        assert len(table.resolve(parts)) == 0
    moved = table.resolve([part("insert", (1, "b")), part("delete", (1, "a"))])
    assert counted(table, moved.words, moved.weights) == {(1, "a"): -1, (1, "b"): 1}


@pytest.mark.parametrize(
    ("parts", "code", "words"),
    [
        ([part("delete", (1, "b"))], Code.MISSING_ROW, ["k=1", "s = 'b'", "'a'", "file.csv, row 0"]),
        ([part("delete", (2, "a"))], Code.MISSING_ROW, ["no row with key (k=2)"]),
        ([part("delete", (1, "a"), (1, "a"))], Code.MISSING_ROW, ["2 times"]),
        ([part("insert", (5, "x"), (1, "z"))], Code.DUPLICATE_KEY, ["key (k=1) is already in 't'", "row 1"]),
        ([part("insert", (5, "x"), (6, "y"), (5, "z"))], Code.DUPLICATE_KEY, ["key (k=5) comes twice"]),
        ([part("insert", (5, "x")), part("insert", (5, "x"))], Code.DUPLICATE_KEY, ["(k=5)"]),
        ([part("delete_key", (3, None), names=["k"])], Code.MISSING_ROW, ["no row to delete with key (k=3)"]),
        ([part("delete_key", (1, None), (1, None), names=["k"])], Code.DUPLICATE_KEY, ["named twice"]),
        ([part("update", (7, "q"))], Code.MISSING_ROW, ["no row to update with key (k=7)"]),
        ([part("upsert", (7, "q"), (8, "q"), (7, "q"))], Code.DUPLICATE_KEY, ["(k=7) comes twice", "row 0"]),
        ([part("insert", (5, "x"), (1, "z"), numbers=np.array([40, 77]))], Code.DUPLICATE_KEY, ["row 77"]),
    ],
)  # fmt: skip
def test_refusals_name_the_row(parts: list[Part], code: str, words: list[str]) -> None:
    table = small((1, "a"))
    with pytest.raises(EverfreshError) as caught:
        table.resolve(parts)
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert contents(table) == {(1, "a"): 1}


def test_the_column_that_differs_is_named_and_nan_does_not() -> None:
    columns = (Column("k", INTEGER, False), Column("d", DOUBLE), Column("s", VARCHAR))
    schema = TableSchema("t", columns, ("k",))
    table = small((1, NAN, None), schema=schema)
    with pytest.raises(EverfreshError, match="has s = '', the stored one None"):
        table.resolve([part("delete", (1, NAN, ""), schema=schema)])


def test_a_bag_counts() -> None:
    bag = TableSchema("t", SMALL.columns)
    table = small((1, "a"), (1, "a"), (2, None), schema=bag)
    assert len(table) == 3
    with pytest.raises(EverfreshError, match="deleted 3 times and is there 2 times"):
        table.resolve([part("delete", (1, "a"), (1, "a"), (1, "a"), schema=bag)])
    with pytest.raises(EverfreshError, match=r"no row \(k=9, s=None\) to delete"):
        table.resolve([part("delete", (9, None), schema=bag)])
    net = table.resolve(
        [part("insert", (1, "a"), (1, "a"), schema=bag), part("delete", (2, None), schema=bag)]
    )
    assert counted(table, net.words, net.weights) == {(1, "a"): 2, (2, None): -1}


def test_no_parts_and_empty_parts() -> None:
    table = small((1, "a"))
    for parts in (
        [],
        [part("insert")],
        [part("delete")],
        [part("delete_key", names=["k"])],
        [part("update")],
        [part("upsert")],
    ):
        net = table.resolve(parts)
        assert len(net) == 0
        table.commit(table.apply(net))
    assert contents(table) == {(1, "a"): 1}


@pytest.mark.parametrize("schema", [KEYED, BAG])
def test_altered(schema: TableSchema) -> None:
    rows = [(1, "a", None, NAN, 0), (2, None, 1, 0.5, 1)]
    table = small(*rows, *([] if schema.key else rows[:1]), schema=schema)
    more = TableSchema(schema.name, (*schema.columns, Column("new", HUGEINT)), schema.key)
    for default, value in ((None, None), (Vector.from_pylist([1 << 70], HUGEINT), 1 << 70)):
        wider = table.altered(more, default)
        assert contents(wider) == Counter({(*row, value): n for row, n in contents(table).items()})
        net = wider.resolve([Part("t", "delete", arrow(more, [(*rows[1], value)]), "x")])
        wider.commit(wider.apply(net))
        assert contents(wider) == Counter({(*rows[0], value): 1 if schema.key else 2})
    fewer = TableSchema(schema.name, tuple(c for c in schema.columns if c.name != "s"), schema.key)
    assert contents(table.altered(fewer, None)) == Counter(
        {row[:1] + row[2:]: n for row, n in contents(table).items()}
    )
    assert len(contents(table)) == 2  # the table itself is as it was


def test_a_bag_that_loses_a_column_merges_rows() -> None:
    table = small((1, "a"), (1, "b"), (1, "b"), schema=TableSchema("t", SMALL.columns))
    assert contents(table.altered(TableSchema("t", SMALL.columns[:1]), None)) == {(1,): 3}


def test_rows_and_chunks() -> None:
    table = small(*((i, str(i)) for i in range(10)))
    rows, counts = table.rows()
    assert rows.to_pydict() == {"k": list(range(10)), "s": [str(i) for i in range(10)]}
    assert counts.tolist() == [1] * 10
    assert table.rows(["s"])[0].column_names == ["s"]
    chunks = table.chunks(4)
    assert [len(c) for c in chunks] == [4, 4, 2]
    assert np.concatenate(chunks).tolist() == table.pool.live().tolist()


def test_rollback_gives_rows_their_slots_back() -> None:
    table = small(*((i, str(i)) for i in range(5)))
    before = table.pool.keys_at(table.pool.live()).tolist()
    undo = table.apply(
        table.resolve(
            [
                part("delete_key", (1, None), (3, None), names=["k"]),
                part("insert", (9, "x"), (8, "y"), (7, "z")),
            ]
        )
    )
    table.rollback(undo)
    assert table.pool.keys_at(table.pool.live()).tolist() == before
    assert isinstance(table.resolve([]), Net)
